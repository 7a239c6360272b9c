/* SPDX-License-Identifier: Apache-2.0 */
/* Limits, flags and other settings of contexts. */
#include "sim/driver/base/state.h"

#include <algorithm>

namespace sim {
namespace {

constexpr size_t max_stack = 512 << 10; /* maximum local memory of a thread */

size_t round_up(size_t value, size_t unit) {
  return value > SIZE_MAX - unit ? value : (value + unit - 1) / unit * unit;
}

size_t *limit_of(Context &context, CUlimit limit) {
  switch (limit) {
  case CU_LIMIT_STACK_SIZE:
    return &context.limits.stack;
  case CU_LIMIT_PRINTF_FIFO_SIZE:
    return &context.limits.printf_fifo;
  case CU_LIMIT_MALLOC_HEAP_SIZE:
    return &context.limits.malloc_heap;
  case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
    return &context.limits.pending_launches;
  case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
    return &context.limits.l2_fetch;
  case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
    return &context.limits.persisting_l2;
  default:
    return nullptr;
  }
}

/* Whether a limit exists. Some of these limits are not supported on this device, and some cannot be set. */
bool is_limit(CUlimit limit) { return limit >= 0 && limit <= 9; }

} // namespace

namespace api {

CUresult cuCtxGetFlags(unsigned int *flags) {
  ContextPtr context = current_context();
  if (context == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  SIM_REQUIRE(flags != nullptr);
  *flags = home_of(context)->primary ? context->flags | CU_CTX_MAP_HOST : context->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (!are_context_flags(flags))
    return CUDA_ERROR_INVALID_VALUE;
  context->flags = (flags & ~static_cast<unsigned>(CU_CTX_MAP_HOST)) | (context->flags & CU_CTX_MAP_HOST);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  SIM_REQUIRE(pvalue != nullptr);
  if (limit == CU_LIMIT_SHMEM_SIZE)
    *pvalue =
        static_cast<size_t>(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, *context->device));
  else if (limit == CU_LIMIT_CIG_ENABLED)
    *pvalue = 0;
  else if (size_t *value = limit_of(*context, limit))
    *pvalue = *value;
  else
    return is_limit(limit) ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED)
    return CUDA_ERROR_NOT_PERMITTED;
  size_t *field = limit_of(*context, limit);
  if (field == nullptr)
    return is_limit(limit) ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
  switch (limit) {
  case CU_LIMIT_STACK_SIZE:
    if (value > max_stack)
      return CUDA_ERROR_INVALID_VALUE;
    value = round_up(value, 16);
    break;
  case CU_LIMIT_PRINTF_FIFO_SIZE:
    value = round_up(std::max(value, size_t{512} << 10), 256);
    break;
  case CU_LIMIT_MALLOC_HEAP_SIZE:
    value = std::max(value, size_t{4} << 20);
    break;
  case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
    value = std::max(value, size_t{32});
    break;
  case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
    if (value > 128)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: {
    CUdevice_attribute max_size = CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE;
    if (value > static_cast<size_t>(device_attribute(max_size, *context->device)))
      return CUDA_ERROR_INVALID_VALUE;
    value = round_up(value, 3932160); /* whole ways of the cache are reserved */
    break;
  }
  default:
    break;
  }
  *field = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  store_optional(leastPriority, least_priority);
  store_optional(greatestPriority, greatest_priority);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
  ContextPtr context;
  return store(need_context(context), pconfig, [&] { return context->cache; });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  context->cache = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig) {
  ContextPtr context;
  return store(need_context(context), pConfig, [&] { return CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE; });
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void) {
  ContextPtr context;
  return need_context(context);
}

} // namespace api
} // namespace sim
