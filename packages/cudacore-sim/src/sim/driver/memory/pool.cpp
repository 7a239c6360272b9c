/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools. */
#include "sim/control/report.h"
#include "sim/driver/base/state.h"
#include "sim/driver/memory/ipc.h"
#include "sim/driver/base/host_budget.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

constexpr uint64_t chunk = 32 << 20; /* pools reserve memory in pieces of this size */

/* Finds the processor whose access to a pool is set: a device, or null for the host. */
CUresult find_accessor(const Pool &pool, const CUmemLocation &location, Device *&device) {
  switch (static_cast<int>(location.type)) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    return find_device(location.id, device);
  case CU_MEM_LOCATION_TYPE_HOST:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    return pool.is_shared_with_host() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

/* The first driver version that has pools of this type of memory. */
int first_with(const CUmemPoolProps &properties) {
  if (properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
    return 13000;
  switch (static_cast<int>(properties.location.type)) {
  case CU_MEM_LOCATION_TYPE_HOST:
    return 12060;
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    return 12020;
  default:
    return 11020;
  }
}

bool is_reuse(CUmemPool_attribute attribute) {
  return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
         attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

/* The value of an attribute that is a number of bytes; null: it is another attribute. */
const uint64_t *bytes_of(const Pool &pool, CUmemPool_attribute attribute) {
  switch (static_cast<int>(attribute)) {
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    return &pool.threshold;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    return &pool.reserved;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    return &pool.reserved_high;
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    return &pool.used;
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    return &pool.used_high;
  default:
    return nullptr;
  }
}

/* Whether a pool has memory that is not freed. */
bool has_memory(const Pool &pool) {
  const std::vector<AllocationPtr> all = state().memory.all();
  return std::any_of(all.begin(), all.end(), [&](const AllocationPtr &allocation) {
    return allocation->pool.get() == &pool && !allocation->freed;
  });
}

} // namespace

CUresult find_pool(CUmemoryPool handle, std::shared_ptr<Pool> &out) {
  return find_object(state().pools, Kind::pool, handle, out) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool Pool::is_managed() const { return properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED; }

bool Pool::is_shared_with_host() const { return device == nullptr || is_managed(); }

bool Pool::reserve(uint64_t more) {
  uint64_t limit = (properties.maxSize + chunk - 1) / chunk * chunk;
  uint64_t needed = (used + more + chunk - 1) / chunk * chunk;
  if (limit != 0 && needed > limit)
    return false;
  if (needed > reserved) {
    if (device != nullptr && !device->charge(needed - reserved, this))
      return false;
    reserved = needed;
  }
  reserved_high = std::max(reserved_high, reserved);
  return true;
}

bool Pool::take(uint64_t size, uint64_t &base, std::byte *&host) {
  Arena &addresses = state().arena;
  if (file != nullptr) {
    uint64_t offset = file->take(size);
    host = offset != 0 ? file->host(offset) : nullptr;
  } else if (is_shared_with_host()) {
    host = map_host_memory(size);
    if (is_managed() && host != nullptr)
      add_managed(host, size, device != nullptr);
  } else {
    base = addresses.take(size);
    host = base != 0 ? addresses.host(base) : nullptr;
    return base != 0;
  }
  if (host == nullptr)
    return false;
  base = is_shared_with_host() ? value_of(host) : addresses.take(size);
  if (base == 0)
    file->give_back(file->offset(host), size);
  return base != 0;
}

void Pool::give_back(const Allocation &allocation) {
  if (file != nullptr) {
    file->give_back(file->offset(allocation.host), allocation.size);
  } else if (imported == nullptr && is_shared_with_host()) {
    remove_managed(allocation.host);
    unmap_host_memory(allocation.host, allocation.size);
  }
  if (!is_shared_with_host())
    state().arena.give_back(allocation.base, allocation.size);
}

void Pool::trim(uint64_t keep) {
  uint64_t wanted = std::max(used + being_freed, keep);
  if (wanted > reserved)
    return;
  wanted = (wanted + chunk - 1) / chunk * chunk;
  if (device != nullptr)
    device->discharge(reserved - wanted);
  reserved = wanted;
}

void shrink_pools(const Device &device) {
  for (const std::shared_ptr<Pool> &pool : state().pools.all())
    if (pool->device == &device)
      pool->trim(pool->threshold / chunk * chunk); /* the threshold is rounded down to whole pieces (13.0, H200) */
}

namespace api {

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
  if (pool == nullptr || poolProps == nullptr || config().driver_version < first_with(*poolProps))
    return CUDA_ERROR_INVALID_VALUE;
  auto created = std::make_shared<Pool>();
  SIM_RETURN_FAILURE(check_pool_location(poolProps->location, poolProps->allocType, created->device));
  auto is_set = [](unsigned char byte) { return byte != 0; };
  if (std::any_of(std::begin(poolProps->reserved), std::end(poolProps->reserved), is_set))
    return CUDA_ERROR_INVALID_VALUE;
  created->properties = *poolProps;
  bool can_be_shared = !created->is_managed() && poolProps->location.type != CU_MEM_LOCATION_TYPE_HOST;
  switch (static_cast<int>(poolProps->handleTypes)) {
  case CU_MEM_HANDLE_TYPE_NONE:
    break;
  case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR: {
    if (!can_be_shared)
      return CUDA_ERROR_INVALID_VALUE;
    created->file = std::make_unique<Arena>();
    /* The file has twice the size of the memory, because of fragmentation. */
    if (!created->file->open_file(2 * (created->device != nullptr ? created->device->memory : config().memory)))
      return CUDA_ERROR_OUT_OF_MEMORY;
    Header header{};
    header.pool = *poolProps;
    write_header(created->file->file(), header, Shared::pool, created->device);
    break;
  }
  case CU_MEM_HANDLE_TYPE_FABRIC:
  case CU_MEM_HANDLE_TYPE_FABRIC | CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
    return can_be_shared ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  created->handle = state().pools.add(created);
  *pool = handle_of<CUmemoryPool>(created->handle);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  std::shared_ptr<Pool> found;
  SIM_RETURN_FAILURE(find_pool(pool, found));
  if (found->is_default) {
    report("cuMemPoolDestroy was given a default pool, which cannot be destroyed");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (found->imported != nullptr && has_memory(*found))
    return CUDA_ERROR_INVALID_VALUE; /* as on an H200: the program must first free the memory that it imported */
  if (--found->references > 0)
    return CUDA_SUCCESS;
  if (found->imported != nullptr)
    state().imported_access[found->imported_name] = found->access;
  forget_current_pool(found);
  found->destroyed = true; /* the pool's memory is released with its last allocation */
  found->trim(0);
  state().pools.remove(found->handle);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  std::shared_ptr<Pool> found;
  SIM_RETURN_FAILURE(find_pool(pool, found));
  found->trim(minBytesToKeep);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  std::shared_ptr<Pool> found;
  SIM_RETURN_FAILURE(find_pool(pool, found));
  SIM_REQUIRE(value != nullptr);
  if (is_reuse(attr))
    *static_cast<int *>(value) = found->reuse[static_cast<size_t>(attr) - 1];
  else if (const uint64_t *bytes = bytes_of(*found, attr))
    std::memcpy(value, bytes, sizeof *bytes);
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  std::shared_ptr<Pool> found;
  SIM_RETURN_FAILURE(find_pool(pool, found));
  SIM_REQUIRE(value != nullptr);
  if (is_reuse(attr)) {
    found->reuse[static_cast<size_t>(attr) - 1] = *static_cast<int *>(value) != 0;
    return CUDA_SUCCESS;
  }
  uint64_t number = 0;
  switch (static_cast<int>(attr)) {
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    std::memcpy(&found->threshold, value, sizeof found->threshold);
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH: /* 0, the only allowed value, resets the maximum */
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
  SIM_RETURN_FAILURE(find_pool(pool, found));
  if (map == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    Device *device = nullptr;
    SIM_RETURN_FAILURE(find_accessor(*found, map[i].location, device));
    /* The pool's own device cannot lose access, and no device can have read access without write access. */
    bool has_it = device == found->device && !found->is_managed();
    switch (static_cast<int>(map[i].flags)) {
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
      break;
    case CU_MEM_ACCESS_FLAGS_PROT_NONE:
      if (has_it)
        return device != nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NOT_SUPPORTED;
      break;
    case CU_MEM_ACCESS_FLAGS_PROT_READ:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (size_t i = 0; i < count; i++)
    if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      found->access.erase(map[i].location.id);
      if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        found->access[map[i].location.id] = true;
    }
  state().memory.changed();
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location) {
  std::shared_ptr<Pool> found;
  Device *device = nullptr;
  SIM_RETURN_FAILURE(find_pool(memPool, found));
  SIM_REQUIRE(flags != nullptr && location != nullptr);
  CUresult accessor = find_accessor(*found, *location, device);
  bool is_host = location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  if (accessor != CUDA_SUCCESS && !is_host)
    return CUDA_ERROR_INVALID_VALUE;
  bool has_it = accessor == CUDA_SUCCESS && device == found->device && !found->is_managed();
  bool is_granted = device != nullptr && found->access.count(device->ordinal) != 0;
  *flags = has_it || is_granted ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
