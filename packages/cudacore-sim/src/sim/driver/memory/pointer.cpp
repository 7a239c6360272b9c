/* SPDX-License-Identifier: Apache-2.0 */
/* Queries about addresses. */
#include "sim/driver/base/state.h"

#include <cstring>

namespace sim {
namespace {

constexpr uint64_t granule = 2 << 20, chunk = 32 << 20;

template <class T> CUresult put(void *data, T value) {
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

/* Base and size of the mapping that contains the memory: small allocations lie in blocks, pooled memory in chunks. */
std::pair<uint64_t, uint64_t> mapping_of(const Allocation &allocation) {
  using AllocationKind = Allocation::Kind;
  bool in_block = allocation.kind == AllocationKind::device || allocation.kind == AllocationKind::imported;
  uint64_t base = in_block ? allocation.base / granule * granule : allocation.base;
  uint64_t unit = allocation.pool != nullptr ? chunk : granule;
  return {base, (allocation.end() - base + unit - 1) / unit * unit};
}

/* The handle types that memory can be exported with. Imported memory has none. */
uint64_t handle_types(const Allocation &allocation) {
  if (allocation.import != nullptr)
    return 0;
  if (allocation.physical != nullptr)
    return allocation.physical->properties.requestedHandleTypes;
  return allocation.pool != nullptr ? allocation.pool->properties.handleTypes : 0;
}

/* Writes the address that kernels of the current context use. If they cannot use the memory, writes 0 and fails. */
CUresult put_device_pointer(void *data, const Allocation &allocation, uint64_t address) {
  ContextPtr current = home_of(current_context());
  if (current != nullptr && may_access(*current, allocation, false))
    return put(data, address);
  put<uint64_t>(data, 0);
  return current == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
}

CUresult read_attribute(void *data, CUpointer_attribute attribute, const Allocation &allocation, uint64_t address) {
  using AllocationKind = Allocation::Kind;
  AllocationKind kind = allocation.kind;
  bool is_managed = kind == AllocationKind::managed || (allocation.pool && allocation.pool->is_managed());
  bool on_host = allocation.host_accessible() && !is_managed;
  ContextPtr context = allocation.context.lock();
  switch (static_cast<int>(attribute)) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    return put<void *>(data, context ? handle_of<void *>(context->handle) : nullptr);
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return put<unsigned>(data, on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    return put_device_pointer(data, allocation, address);
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    return allocation.host_accessible() ? put(data, address) : CUDA_ERROR_INVALID_VALUE;
  case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
    return on_host ? CUDA_ERROR_INVALID_VALUE : put<uint64_t>(data, 0);
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    return put<int>(data, is_managed || allocation.sync_memops);
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    return put(data, allocation.id);
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    return put<int>(data, is_managed);
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    return put<int>(data, allocation.device ? allocation.device->ordinal : 0);
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    return put<int>(data, kind == AllocationKind::device);
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    return put(data, allocation.base);
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    return put(data, allocation.size);
  case CU_POINTER_ATTRIBUTE_MAPPED:
    return put<int>(data, 1);
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    return put<uint64_t>(data, handle_types(allocation));
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    return put<int>(data, 0);
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return put<int>(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    return put<void *>(data, allocation.pool ? handle_of<void *>(allocation.pool->handle) : nullptr);
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    return put(data, mapping_of(allocation).second);
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    return put(data, mapping_of(allocation).first);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

/* Writes the value of an attribute that cuPointerGetAttributes returns for an unknown address: mostly zeros. */
void put_nothing(void *data, CUpointer_attribute attribute) {
  switch (static_cast<int>(attribute)) {
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    put<int>(data, -2);
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE: /* the caller's value is not changed */
    break;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_MAPPED:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
  case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    put<int>(data, 0);
    break;
  default:
    put<uint64_t>(data, 0);
  }
}

AllocationPtr live_at(CUdeviceptr address) {
  AllocationPtr allocation = state().memory.find(address);
  return allocation != nullptr && allocation->freed ? nullptr : allocation;
}

} // namespace

namespace api {

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  AllocationPtr allocation = live_at(ptr);
  SIM_REQUIRE(data != nullptr && allocation != nullptr);
  return read_attribute(data, attribute, *allocation, ptr);
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr ptr) {
  AllocationPtr allocation = live_at(ptr);
  if (numAttributes == 0 || attributes == nullptr || data == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < numAttributes; i++) {
    if (data[i] == nullptr || attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
        attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
      return CUDA_ERROR_INVALID_VALUE;
    if (allocation == nullptr || read_attribute(data[i], attributes[i], *allocation, ptr) != CUDA_SUCCESS)
      put_nothing(data[i], attributes[i]);
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  AllocationPtr allocation = live_at(ptr);
  if (value == nullptr || allocation == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  int wanted = 0;
  std::memcpy(&wanted, value, sizeof wanted);
  allocation->sync_memops = wanted != 0; /* used only for queries: simulated copies need no more synchronization */
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
