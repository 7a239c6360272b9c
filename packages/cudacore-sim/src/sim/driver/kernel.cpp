/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and parameters of kernels and functions. */
#include "code.h"

#include <algorithm>

namespace sim {
namespace {

constexpr int most_ordinary_shared = 49152;

CUresult read_attribute(const Callable &what, CUfunction_attribute attribute, const Device &device, int *out) {
  const KernelInfo &kernel = what.info();
  const KernelSettings &settings = *what.settings;
  auto required = [&](size_t i) { return static_cast<int>(kernel.required_cluster[i]); };
  switch (static_cast<int>(attribute)) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *out = most_threads(kernel, device);
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
    *out = most_dynamic_shared(kernel, settings);
    break;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *out = settings.carveout;
    break;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    *out = kernel.explicit_cluster && required(0) == 0;
    break;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    *out = settings.cluster[0] ? settings.cluster[0] : required(0);
    break;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    *out = settings.cluster[1] ? settings.cluster[1] : required(1);
    break;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    *out = settings.cluster[2] ? settings.cluster[2] : required(2);
    break;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    *out = settings.non_portable_cluster;
    break;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    *out = settings.cluster_scheduling;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult write_attribute(const Callable &what, CUfunction_attribute attribute, int value, const Device &device) {
  const KernelInfo &kernel = what.info();
  KernelSettings &settings = *what.settings;
  int largest = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device) -
                static_cast<int>(kernel.static_shared_bytes);
  auto set = [&](int &field, int lowest, int highest) {
    if (value < lowest || value > highest)
      return CUDA_ERROR_INVALID_VALUE;
    field = value;
    return CUDA_SUCCESS;
  };
  switch (static_cast<int>(attribute)) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    return set(settings.dynamic_shared, 0, largest);
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return set(settings.carveout, -1, 100);
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    return set(settings.cluster[0], 0, INT32_MAX);
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    return set(settings.cluster[1], 0, INT32_MAX);
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    return set(settings.cluster[2], 0, INT32_MAX);
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    settings.non_portable_cluster = value;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    return set(settings.cluster_scheduling, 0, 2);
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

/* A kernel without a context, for what does not depend on one. */
CUresult find_kernel(CUkernel handle, std::shared_ptr<Kernel> &out) {
  return find_object(state().kernels, Kind::kernel, handle, out);
}

const KernelInfo &info_of(const Kernel &kernel) { return kernel.image->kernels()[kernel.index]; }

CUresult on_device(CUkernel handle, CUdevice ordinal, Callable &out, Device *&device) {
  std::shared_ptr<Kernel> kernel;
  if (CUresult result = find_kernel(handle, kernel))
    return result;
  if (CUresult result = find_device(ordinal, device))
    return result;
  out = {kernel->image, kernel->index, nullptr, &kernel->settings[ordinal], kernel};
  return CUDA_SUCCESS;
}

} // namespace

int most_threads(const KernelInfo &kernel, const Device &device) {
  int most = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  for (const Dim3 &given : {kernel.max_threads, kernel.required_threads})
    if (given[0] != 0) {
      uint64_t threads = uint64_t{given[0]} * std::max(given[1], 1u) * std::max(given[2], 1u);
      most = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(most), threads));
    }
  return most;
}

/* PTX has no limit on registers; a compiler for the device would keep to the device's. */
uint32_t register_count(const KernelInfo &kernel) { return std::clamp(kernel.registers, 4u, 255u); }

int most_dynamic_shared(const KernelInfo &kernel, const KernelSettings &settings) {
  if (settings.dynamic_shared >= 0)
    return settings.dynamic_shared;
  return std::max(most_ordinary_shared - static_cast<int>(kernel.static_shared_bytes), 0);
}

namespace api {

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
  Callable what;
  if (CUresult result = find_callable(hfunc, nullptr, what))
    return result;
  return pi == nullptr ? CUDA_ERROR_INVALID_VALUE : read_attribute(what, attrib, *what.context->device, pi);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  Callable what;
  if (CUresult result = find_callable(hfunc, nullptr, what))
    return result;
  return write_attribute(what, attrib, value, *what.context->device);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  Callable what;
  if (CUresult result = find_callable(hfunc, nullptr, what))
    return result;
  return config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
                                                                                   : CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  Callable what;
  if (CUresult result = find_callable(hfunc, nullptr, what))
    return result;
  return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc) {
  Callable what;
  if (CUresult result = find_callable(hfunc, nullptr, what))
    return result;
  if (name == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *name = what.info().name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize) {
  Callable what;
  if (CUresult result = find_callable(func, nullptr, what))
    return result;
  return parameter_info(what.info(), paramIndex, paramOffset, paramSize);
}

CUresult cuFuncGetParamCount(CUfunction func, size_t *paramCount) {
  Callable what;
  if (CUresult result = find_callable(func, nullptr, what))
    return result;
  if (paramCount == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *paramCount = what.info().parameters.size();
  return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
  Callable what;
  if (CUresult result = find_callable(function, nullptr, what))
    return result;
  if (state == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
  Callable what;
  return find_callable(function, nullptr, what);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  Callable what;
  Device *device = nullptr;
  if (CUresult result = on_device(kernel, dev, what, device))
    return result;
  return pi == nullptr ? CUDA_ERROR_INVALID_VALUE : read_attribute(what, attrib, *device, pi);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  Callable what;
  Device *device = nullptr;
  if (CUresult result = on_device(kernel, dev, what, device))
    return result;
  return write_attribute(what, attrib, val, *device);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  Callable what;
  Device *device = nullptr;
  if (CUresult result = on_device(kernel, dev, what, device))
    return result;
  return config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
                                                                                   : CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc) {
  std::shared_ptr<Kernel> kernel;
  if (CUresult result = find_kernel(hfunc, kernel))
    return result;
  if (name == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *name = info_of(*kernel).name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize) {
  std::shared_ptr<Kernel> found;
  if (CUresult result = find_kernel(kernel, found))
    return result;
  return parameter_info(info_of(*found), paramIndex, paramOffset, paramSize);
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t *paramCount) {
  std::shared_ptr<Kernel> found;
  if (CUresult result = find_kernel(kernel, found))
    return result;
  if (paramCount == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *paramCount = info_of(*found).parameters.size();
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
