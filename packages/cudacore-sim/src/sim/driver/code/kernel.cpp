/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and parameters of kernels and functions. */
#include "sim/driver/code/code.h"

#include <algorithm>

namespace sim {
namespace {

constexpr int max_default_shared = 49152;

CUresult read_attribute(const Callable &what, CUfunction_attribute attribute, const Device &device, int *out) {
  const KernelInfo &kernel = what.info();
  const KernelSettings &settings = *what.settings;
  auto cluster = [&](size_t i) {
    int set = settings.get(attribute, 0);
    return set != 0 ? set : static_cast<int>(kernel.required_cluster[i]);
  };
  switch (static_cast<int>(attribute)) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *out = max_threads_of(kernel, device);
    break;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *out = static_cast<int>(kernel.static_shared_bytes);
    break;
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
    uint64_t bytes = 0;
    for (const Variable &variable : what.image->variables())
      if (variable.space == Space::constant)
        bytes += variable.size;
    *out = static_cast<int>(bytes);
    break;
  }
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *out = static_cast<int>(kernel.local_bytes);
    break;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *out = static_cast<int>(register_count(kernel));
    break;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    *out = what.image->ptx_version();
    break;
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *out = what.image->binary_version();
    break;
  case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    *out = 0;
    break;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *out = max_dynamic_shared(kernel, settings);
    break;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *out = settings.get(attribute, -1);
    break;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    *out = kernel.explicit_cluster;
    break;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    *out = cluster(0);
    break;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    *out = cluster(1);
    break;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    *out = cluster(2);
    break;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    *out = settings.get(attribute, 0);
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult write_attribute(const Callable &what, CUfunction_attribute attribute, int value, const Device &device) {
  const KernelInfo &kernel = what.info();
  int largest = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device) -
                static_cast<int>(kernel.static_shared_bytes);
  auto set = [&](int lowest, int highest) {
    if (value < lowest || value > highest)
      return CUDA_ERROR_INVALID_VALUE;
    what.settings->values[attribute] = value;
    return CUDA_SUCCESS;
  };
  switch (static_cast<int>(attribute)) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    return set(0, largest);
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return set(-1, 100);
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    return set(0, INT32_MAX);
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    value = value != 0;
    return set(0, 1);
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    return set(0, 2);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult parameter_info(const KernelInfo &kernel, size_t index, size_t *offset, size_t *size) {
  if (index >= kernel.parameters.size() || offset == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel.parameters[index].offset;
  if (size != nullptr)
    *size = kernel.parameters[index].size;
  return CUDA_SUCCESS;
}

/* Finds a kernel, for functions that need no context. */
CUresult find_kernel(CUkernel handle, std::shared_ptr<Kernel> &out) {
  return find_object(state().kernels, Kind::kernel, handle, out);
}

const KernelInfo &info_of(const Kernel &kernel) { return kernel.image->kernels()[kernel.index]; }

CUresult on_device(CUkernel handle, CUdevice ordinal, Callable &out, Device *&device) {
  std::shared_ptr<Kernel> kernel;
  SIM_RETURN_FAILURE(find_kernel(handle, kernel));
  SIM_RETURN_FAILURE(find_device(ordinal, device));
  std::shared_ptr<KernelSettings> settings = kernel->settings_on(*device);
  out = {kernel->image, kernel->index, nullptr, settings.get(), settings};
  return CUDA_SUCCESS;
}

} // namespace

int max_threads_of(const KernelInfo &kernel, const Device &device) {
  int max_threads = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  const Dim3 &given = kernel.max_threads;
  uint64_t threads = uint64_t{given[0]} * std::max(given[1], 1u) * std::max(given[2], 1u);
  return threads != 0 ? static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(max_threads), threads)) : max_threads;
}

/* PTX has no limit on registers, so the estimate can exceed what compilers use: a kernel has 4 to 255 registers. */
uint32_t register_count(const KernelInfo &kernel) { return std::clamp(kernel.registers, 4u, 255u); }

int max_dynamic_shared(const KernelInfo &kernel, const KernelSettings &settings) {
  int ordinary = std::max(max_default_shared - static_cast<int>(kernel.static_shared_bytes), 0);
  return settings.get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, ordinary);
}

uint64_t max_cluster_blocks(const KernelSettings &settings) {
  return settings.get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0) != 0 ? 16 : 8;
}

namespace api {

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
  Callable what;
  SIM_RETURN_FAILURE(find_function(hfunc, what));
  return pi == nullptr ? CUDA_ERROR_INVALID_VALUE : read_attribute(what, attrib, *what.context->device, pi);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  Callable what;
  SIM_RETURN_FAILURE(find_function(hfunc, what));
  return write_attribute(what, attrib, value, *what.context->device);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  Callable what;
  SIM_RETURN_FAILURE(find_function(hfunc, what));
  return config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
                                                                                   : CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  Callable what;
  SIM_RETURN_FAILURE(find_function(hfunc, what));
  return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc) {
  Callable what;
  SIM_REQUIRE(name != nullptr && hfunc != nullptr);
  SIM_RETURN_FAILURE(find_function(hfunc, what));
  *name = what.info().name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize) {
  Callable what;
  SIM_REQUIRE(func != nullptr);
  SIM_RETURN_FAILURE(find_function(func, what));
  return parameter_info(what.info(), paramIndex, paramOffset, paramSize);
}

CUresult cuFuncGetParamCount(CUfunction func, size_t *paramCount) {
  Callable what;
  return store(find_function(func, what), paramCount, [&] { return what.info().parameters.size(); });
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
  Callable what;
  return store(find_function(function, what), state, [&] { return CU_FUNCTION_LOADING_STATE_LOADED; });
}

CUresult cuFuncLoad(CUfunction function) {
  Callable what;
  return find_function(function, what);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  Callable what;
  Device *device = nullptr;
  SIM_RETURN_FAILURE(on_device(kernel, dev, what, device));
  return pi == nullptr ? CUDA_ERROR_INVALID_VALUE : read_attribute(what, attrib, *device, pi);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  Callable what;
  Device *device = nullptr;
  SIM_RETURN_FAILURE(on_device(kernel, dev, what, device));
  return write_attribute(what, attrib, val, *device);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  Callable what;
  Device *device = nullptr;
  SIM_RETURN_FAILURE(on_device(kernel, dev, what, device));
  return config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
                                                                                   : CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc) {
  std::shared_ptr<Kernel> kernel;
  SIM_REQUIRE(name != nullptr && hfunc != nullptr);
  SIM_RETURN_FAILURE(find_kernel(hfunc, kernel));
  *name = info_of(*kernel).name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize) {
  std::shared_ptr<Kernel> found;
  SIM_REQUIRE(kernel != nullptr);
  SIM_RETURN_FAILURE(find_kernel(kernel, found));
  ContextPtr context; /* a current context is required, because a real driver loads the kernel into it */
  SIM_RETURN_FAILURE(need_context(context));
  return parameter_info(info_of(*found), paramIndex, paramOffset, paramSize);
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t *paramCount) {
  std::shared_ptr<Kernel> found;
  return store(find_kernel(kernel, found), paramCount, [&] { return info_of(*found).parameters.size(); });
}

} // namespace api
} // namespace sim
