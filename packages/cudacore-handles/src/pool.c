/* SPDX-License-Identifier: Apache-2.0 */
#include "internal.h"

#include <string.h>

CCH__DEFINE_VERBS(cch_pool, CUmemoryPool)

int cch_pool_create(cch_pool **out, const cch_pool_config *config) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (config == NULL || config->size < sizeof *config)
    return cch__fail(CCH_EINVAL, __func__, "the config's size is not that of a cch_pool_config");
  cch__reclaim_poll();
  cch_pool *pool = cch__box_new(CCH_KIND_POOL, sizeof *pool, __func__);
  if (pool == NULL)
    return CCH_ENOMEM;
  CUmemPoolProps props;
  memset(&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = (CUmemAllocationHandleType)config->handle_types;
  props.location.type = (CUmemLocationType)config->location_type;
  props.location.id = config->location_id;
  props.maxSize = (size_t)config->max_size;
  status = CCH__CALL(cuMemPoolCreate, (&pool->raw, &props));
  if (status != 0) {
    cch__box_discard(pool);
    return status;
  }
  pool->box.owned = true;
  pool->device = config->location_type == CU_MEM_LOCATION_TYPE_DEVICE ? config->location_id : -1;
  cch__registry_insert(pool, pool->raw);
  *out = pool;
  return 0;
}

int cch_pool_current(cch_pool **out, int device) {
  int status = cch__ready();
  if (status != 0)
    return status;
  CUdevice raw_device;
  status = CCH__CALL(cuDeviceGet, (&raw_device, device));
  if (status != 0)
    return status;
  CUmemoryPool raw;
  status = CCH__CALL(cuDeviceGetMemPool, (&raw, raw_device));
  return status != 0 ? status : cch_pool_wrap(out, raw, device, NULL, NULL);
}

int cch_pool_wrap(cch_pool **out, CUmemoryPool raw, int device, void *owner, cch_release_fn release) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (raw == NULL)
    return cch__fail(CCH_EINVAL, __func__, "the pool is NULL");
  cch_pool *pool = cch__wrap_known(CCH_KIND_POOL, raw, owner, release);
  if (pool == NULL) {
    pool = cch__box_new(CCH_KIND_POOL, sizeof *pool, __func__);
    if (pool == NULL)
      return CCH_ENOMEM;
    pool->raw = raw;
    pool->device = device;
    pool->box.owner = owner;
    pool->box.release = release;
    cch__registry_insert(pool, raw);
  }
  *out = pool;
  return 0;
}

int cch_pool_device(const cch_pool *pool) { return pool->device; }

void cch__pool_destroy(cch_pool *pool) {
  if (pool->box.owned)
    cch__report(CCH__CALL(cuMemPoolDestroy, (pool->raw)));
}
