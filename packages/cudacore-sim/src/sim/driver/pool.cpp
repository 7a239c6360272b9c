/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered memory and its pools. */
#include "../control/report.h"
#include "state.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

constexpr uint64_t chunk = 32 << 20; /* pools reserve memory in pieces of it */

CUresult find_pool(CUmemoryPool handle, std::shared_ptr<Pool> &out) {
  return find_object(state().pools, Kind::pool, handle, out) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pool_for(const CUmemLocation *location, CUmemAllocationType type, Device *&out) {
  if (location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return location == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  return find_device(location->id, out);
}

void copy_out(void *value, uint64_t number) { std::memcpy(value, &number, sizeof number); }

/* Takes the memory now, and makes it visible in the stream's order. */
CUresult allocate(CUdeviceptr *out, size_t size, const std::shared_ptr<Pool> &pool, const StreamPtr &stream) {
  State &s = state();
  if (out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (size == 0) {
    *out = 0;
    return CUDA_SUCCESS;
  }
  if (pool->properties.maxSize != 0 && size > pool->properties.maxSize - pool->used)
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t before = pool->reserved;
  if (!pool->reserve(size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::byte *on_host = nullptr;
  if (pool->is_shared_with_host() && (on_host = map_host_memory(size)) == nullptr) {
    pool->trim(before);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  uint64_t base = on_host != nullptr ? value_of(on_host) : s.arena.take(size);
  if (base == 0) {
    pool->trim(before);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  pool->used += size;
  pool->used_high = std::max(pool->used_high, pool->used);
  auto allocation = std::make_shared<Allocation>();
  allocation->kind = Allocation::Kind::pooled;
  allocation->base = base;
  allocation->size = size;
  allocation->host = on_host != nullptr ? on_host : s.arena.host(base);
  allocation->device = pool->device;
  allocation->pool = pool;
  allocation->visible = false;
  s.memory.add(allocation);
  enqueue(stream, new_unit("allocation", stream->context.lock(), nullptr, [allocation] {
            allocation->visible = true;
            state().memory.changed();
          }));
  *out = base;
  return CUDA_SUCCESS;
}

/* What is freed is not reused before its pool is trimmed, as far as anybody can tell: its addresses are kept back. */
void free_in_order(const AllocationPtr &allocation, const StreamPtr &stream) {
  allocation->freed = true;
  if (allocation->pool != nullptr)
    allocation->pool->used -= allocation->size;
  enqueue(stream, new_unit("free", stream->context.lock(), nullptr, [allocation] {
            if (state().memory.find(allocation->base) == allocation)
              release_memory(allocation, "cuMemFreeAsync");
          }));
}

} // namespace

bool Pool::is_shared_with_host() const {
  return device == nullptr || properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

bool Pool::reserve(uint64_t more) {
  uint64_t needed = (used + more + chunk - 1) / chunk * chunk;
  if (needed > reserved) {
    if (device != nullptr && !device->charge(needed - reserved))
      return false;
    reserved = needed;
  }
  reserved_high = std::max(reserved_high, reserved);
  return true;
}

void Pool::trim(uint64_t keep) {
  uint64_t least = (used + chunk - 1) / chunk * chunk, wanted = std::max(least, keep);
  if (wanted >= reserved)
    return;
  if (device != nullptr)
    device->discharge(reserved - wanted);
  reserved = wanted;
}

void shrink_pools(const Device &device) {
  for (const std::shared_ptr<Pool> &pool : state().pools.all())
    if (pool->device == &device)
      pool->trim(pool->threshold);
}

namespace api {

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
  if (pool == nullptr || poolProps == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  bool managed = poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (!managed && poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  Device *device = nullptr;
  switch (static_cast<int>(poolProps->location.type)) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    if (find_device(poolProps->location.id, device) != CUDA_SUCCESS)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  case CU_MEM_LOCATION_TYPE_NONE:
    if (!managed)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  case CU_MEM_LOCATION_TYPE_HOST:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr int sharing = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if ((poolProps->handleTypes & ~sharing) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  auto created = std::make_shared<Pool>();
  created->device = device;
  created->properties = *poolProps;
  created->handle = state().pools.add(created);
  *pool = handle_of<CUmemoryPool>(created->handle);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  std::shared_ptr<Pool> found;
  if (CUresult result = find_pool(pool, found))
    return result;
  if (found->is_default) {
    report("cuMemPoolDestroy was given a default pool, which cannot be destroyed");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (found->device != nullptr && found->device->current_pool == found)
    found->device->current_pool = found->device->default_pool;
  found->destroyed = true; /* its memory goes with the last allocation */
  found->trim(0);
  state().pools.remove(found->handle);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
  Device *device = nullptr;
  if (pool_out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = find_device(dev, device))
    return result;
  *pool_out = handle_of<CUmemoryPool>(device->default_pool->handle);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
  Device *device = nullptr;
  if (pool == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = find_device(dev, device))
    return result;
  *pool = handle_of<CUmemoryPool>(device->current_pool->handle);
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  Device *device = nullptr;
  std::shared_ptr<Pool> found;
  if (CUresult result = find_device(dev, device))
    return result;
  if (CUresult result = find_pool(pool, found))
    return result;
  if (found->device != device)
    return CUDA_ERROR_INVALID_VALUE;
  device->current_pool = found;
  return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type) {
  Device *device = nullptr;
  if (CUresult result = pool_for(location, type, device))
    return result;
  return api::cuDeviceGetDefaultMemPool(pool_out, device->ordinal);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
  Device *device = nullptr;
  if (CUresult result = pool_for(location, type, device))
    return result;
  return api::cuDeviceGetMemPool(pool, device->ordinal);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
  Device *device = nullptr;
  if (CUresult result = pool_for(location, type, device))
    return result;
  return api::cuDeviceSetMemPool(device->ordinal, pool);
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
  StreamPtr stream;
  if (CUresult result = find_stream(hStream, stream))
    return result;
  return allocate(dptr, bytesize, stream->context.lock()->device->current_pool, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  StreamPtr stream;
  std::shared_ptr<Pool> found;
  if (CUresult result = find_stream(hStream, stream))
    return result;
  if (CUresult result = find_pool(pool, found))
    return result;
  return allocate(dptr, bytesize, found, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  StreamPtr stream;
  if (CUresult result = find_stream(hStream, stream))
    return result;
  if (dptr == 0)
    return CUDA_SUCCESS;
  AllocationPtr allocation = state().memory.find(dptr);
  bool can_be_freed = allocation != nullptr && allocation->base == dptr && !allocation->freed &&
                      (allocation->kind == Allocation::Kind::pooled || allocation->kind == Allocation::Kind::device);
  if (!can_be_freed) {
    report("cuMemFreeAsync was given " + hex(dptr) +
           ", which is not the start of an allocation that it frees: " + state().memory.explain(dptr));
    return CUDA_ERROR_INVALID_VALUE;
  }
  free_in_order(allocation, stream);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  std::shared_ptr<Pool> found;
  if (CUresult result = find_pool(pool, found))
    return result;
  found->trim(minBytesToKeep);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  std::shared_ptr<Pool> found;
  if (CUresult result = find_pool(pool, found))
    return result;
  if (value == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(attr)) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
    *static_cast<int *>(value) = found->reuse[static_cast<size_t>(attr) - 1];
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    copy_out(value, found->threshold);
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    copy_out(value, found->reserved);
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    copy_out(value, found->reserved_high);
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    copy_out(value, found->used);
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    copy_out(value, found->used_high);
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  std::shared_ptr<Pool> found;
  if (CUresult result = find_pool(pool, found))
    return result;
  if (value == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t number = 0;
  switch (static_cast<int>(attr)) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
    found->reuse[static_cast<size_t>(attr) - 1] = *static_cast<int *>(value) != 0;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    std::memcpy(&found->threshold, value, sizeof found->threshold);
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH: /* can be reset, to 0 only */
    std::memcpy(&number, value, sizeof number);
    if (number != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
      found->used_high = found->used;
    else
      found->reserved_high = found->reserved;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
  std::shared_ptr<Pool> found;
  if (CUresult result = find_pool(pool, found))
    return result;
  if (map == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    Device *device = nullptr;
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = find_device(map[i].location.id, device))
      return result;
    if (device == found->device && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; i++) {
    found->access.erase(map[i].location.id);
    if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      found->access[map[i].location.id] = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  state().memory.changed();
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location) {
  std::shared_ptr<Pool> found;
  Device *device = nullptr;
  if (CUresult result = find_pool(memPool, found))
    return result;
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = find_device(location->id, device))
    return result;
  auto granted = found->access.find(location->id);
  if (device == found->device)
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  else if (granted == found->access.end())
    *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  else
    *flags = granted->second ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
