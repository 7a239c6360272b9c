/* SPDX-License-Identifier: Apache-2.0 */
/* The default pool and the current pool of each location. cuMemAllocAsync allocates from the current pool. */
#include "sim/driver/base/state.h"

namespace sim {
namespace {

LocationPools &pools_of(const CUmemLocation &location, CUmemAllocationType type, Device *device) {
  if (device != nullptr && type == CU_MEM_ALLOCATION_TYPE_PINNED)
    return device->pools;
  bool has_number = location.type == CU_MEM_LOCATION_TYPE_DEVICE || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  LocationPools &pools = state().location_pools[{type, location.type, has_number ? location.id : 0}];
  if (pools.initial == nullptr) {
    CUmemPoolProps properties{};
    properties.allocType = type;
    properties.location = location;
    pools.open(device, properties);
  }
  return pools;
}

CUresult find_pools(const CUmemLocation *location, CUmemAllocationType type, LocationPools *&out) {
  Device *device = nullptr;
  SIM_REQUIRE(location != nullptr);
  if (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
    return CUDA_ERROR_NOT_SUPPORTED;
  SIM_RETURN_FAILURE(check_pool_location(*location, type, device));
  out = &pools_of(*location, type, device);
  return CUDA_SUCCESS;
}

CUresult find_pools(CUdevice ordinal, LocationPools *&out) {
  Device *device = nullptr;
  SIM_RETURN_FAILURE(find_device(ordinal, device));
  out = &device->pools;
  return CUDA_SUCCESS;
}

CUmemoryPool handle_to(const std::shared_ptr<Pool> &pool) { return handle_of<CUmemoryPool>(pool->handle); }

} // namespace

void LocationPools::open(Device *device, const CUmemPoolProps &properties) {
  initial = std::make_shared<Pool>();
  initial->device = device;
  initial->is_default = true;
  initial->properties = properties;
  initial->handle = state().pools.add(initial);
  current = initial;
}

void forget_current_pool(const std::shared_ptr<Pool> &pool) {
  auto forget = [&](LocationPools &pools) {
    if (pool == nullptr || pools.current == pool)
      pools.current = pools.initial;
  };
  for (const auto &device : state().devices)
    forget(device->pools);
  for (auto &entry : state().location_pools)
    forget(entry.second);
}

CUresult check_pool_location(const CUmemLocation &location, CUmemAllocationType type, Device *&device) {
  constexpr int numa_nodes = 1;
  device = nullptr;
  bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (!managed && type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(location.type)) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    return find_device(location.id, device) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  case CU_MEM_LOCATION_TYPE_HOST:
    return CUDA_SUCCESS;
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    return location.id >= 0 && location.id < numa_nodes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  case CU_MEM_LOCATION_TYPE_NONE:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
    return managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

namespace {

/* Returns the default pool or the current pool of a location. */
CUresult give_pool(CUmemoryPool *out, const CUmemLocation *location, CUmemAllocationType type,
                   std::shared_ptr<Pool> LocationPools::*pool) {
  LocationPools *pools = nullptr;
  SIM_REQUIRE(out != nullptr);
  SIM_RETURN_FAILURE(find_pools(location, type, pools));
  *out = handle_to(pools->*pool);
  return CUDA_SUCCESS;
}

} // namespace

namespace api {

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type) {
  return give_pool(pool_out, location, type, &LocationPools::initial);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
  return give_pool(pool, location, type, &LocationPools::current);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
  LocationPools *pools = nullptr;
  std::shared_ptr<Pool> found;
  SIM_RETURN_FAILURE(find_pools(location, type, pools));
  SIM_RETURN_FAILURE(find_pool(pool, found));
  const Pool &like = *pools->initial;
  if (found->imported != nullptr || found->device != like.device || found->is_managed() != like.is_managed())
    return CUDA_ERROR_INVALID_VALUE;
  pools->current = found;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
  LocationPools *pools = nullptr;
  SIM_REQUIRE(pool_out != nullptr);
  SIM_RETURN_FAILURE(find_pools(dev, pools));
  *pool_out = handle_to(pools->initial);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
  LocationPools *pools = nullptr;
  if (pool == nullptr || find_pools(dev, pools) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  *pool = handle_to(pools->current);
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  LocationPools *pools = nullptr;
  std::shared_ptr<Pool> found;
  if (find_pools(dev, pools) != CUDA_SUCCESS || find_pool(pool, found) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (found->imported != nullptr || found->device != pools->initial->device)
    return CUDA_ERROR_INVALID_VALUE;
  pools->current = found;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
