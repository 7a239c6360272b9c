/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked about an address, and hints about managed memory. */
#include "state.h"

#include <cstring>

namespace sim {
namespace {

constexpr uint64_t granule = 2 << 20;

template <class T> void put(void *data, T value) { std::memcpy(data, &value, sizeof value); }

CUresult read_attribute(void *data, CUpointer_attribute attribute, const Allocation &allocation, uint64_t address) {
  using AllocationKind = Allocation::Kind;
  AllocationKind kind = allocation.kind;
  bool is_managed = kind == AllocationKind::managed ||
                    (allocation.pool && allocation.pool->properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED);
  bool on_host = allocation.host_accessible() && !is_managed;
  ContextPtr context = allocation.context.lock();
  switch (static_cast<int>(attribute)) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    put<void *>(data, context ? handle_of<void *>(context->handle) : nullptr);
    break;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    put<unsigned>(data, on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    put(data, address);
    break;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (!allocation.host_accessible())
      return CUDA_ERROR_INVALID_VALUE;
    put(data, address);
    break;
  case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
    if (on_host)
      return CUDA_ERROR_INVALID_VALUE;
    put<uint64_t>(data, 0);
    break;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    put<int>(data, !on_host);
    break;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    put(data, allocation.id);
    break;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    put<int>(data, is_managed);
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    put<int>(data, allocation.device ? allocation.device->ordinal : -1);
    break;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    put<int>(data, kind == AllocationKind::device);
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    put(data, allocation.base);
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    put(data, allocation.size);
    break;
  case CU_POINTER_ATTRIBUTE_MAPPED:
    put<int>(data, 1);
    break;
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    put<uint64_t>(data, allocation.physical ? allocation.physical->properties.requestedHandleTypes : 0);
    break;
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    put<int>(data, 0);
    break;
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    put<int>(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    break;
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    put<void *>(data, allocation.pool ? handle_of<void *>(allocation.pool->handle) : nullptr);
    break;
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    put(data, (allocation.size + granule - 1) / granule * granule);
    break;
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    put(data, allocation.base);
    break;
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    put(data, allocation.id);
    break;
  case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    put<int>(data, 0);
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/* What cuPointerGetAttributes says of an address that CUDA does not know: nothing, in as many bytes as there would be.
 */
void put_nothing(void *data, CUpointer_attribute attribute) {
  switch (static_cast<int>(attribute)) {
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    put<int>(data, -2);
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

CUresult managed_range(CUdeviceptr address, size_t bytes) {
  AllocationPtr allocation = live_at(address);
  bool fits = allocation != nullptr && allocation->kind == Allocation::Kind::managed && bytes != 0 &&
              bytes <= allocation->end() - address;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult good_location(const CUmemLocation &location) {
  Device *device = nullptr;
  switch (static_cast<int>(location.type)) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    return find_device(location.id, device);
  case CU_MEM_LOCATION_TYPE_HOST:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUmemLocation location_of(CUdevice device) {
  CUmemLocation location{};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

} // namespace

namespace api {

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  AllocationPtr allocation = live_at(ptr);
  if (data == nullptr || allocation == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  return read_attribute(data, attribute, *allocation, ptr);
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr ptr) {
  AllocationPtr allocation = live_at(ptr);
  if (attributes == nullptr || data == nullptr)
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
  return CUDA_SUCCESS; /* operations on memory are synchronous enough either way */
}

/* Managed memory is where host and device both find it: nothing moves, so that hints are only checked. */
CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
  if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;
  bool needs_location = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice >= CU_MEM_ADVISE_SET_ACCESSED_BY;
  if (needs_location)
    if (CUresult result = good_location(location))
      return result;
  return managed_range(devPtr, count);
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  return api::cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream hStream) {
  StreamPtr stream;
  if (CUresult result = find_stream(hStream, stream))
    return result;
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = good_location(location))
    return result;
  if (CUresult result = managed_range(devPtr, count))
    return result;
  enqueue(stream, new_unit("prefetch", stream->context.lock()));
  return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
  return api::cuMemPrefetchAsync_v2(devPtr, count, location_of(dstDevice), 0, hStream);
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
  StreamPtr stream;
  AllocationPtr allocation = live_at(dptr);
  if (CUresult result = find_stream(hStream, stream))
    return result;
  bool whole = allocation != nullptr && (length == 0 || length == allocation->size);
  if (!whole || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE))
    return CUDA_ERROR_INVALID_VALUE;
  enqueue(stream, new_unit("attach", stream->context.lock()));
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
