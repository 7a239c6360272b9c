/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/deviceptr.h"

#include "driver/current.h"
#include "base/reclaim.h"
#include "base/registry.h"

#include <stdlib.h>

/* cch_pool_raw() */
CCH__DEFINE_RAW(cch_pool, CUmemoryPool, raw)

/* The size of the config in version 0.1. */
enum { CONFIG_0_1 = offsetof(cch_pool_config, max_size) + sizeof(uint64_t) };

cch_status cch_pool_create(cch_pool **out, const cch_pool_config *config) {
  CCH__REQUIRE_USABLE(out, config);
  cch_pool_config known;
  CCH__RETURN_FAILURE(
      cch__read_sized(&known, sizeof known, config, config->size, CONFIG_0_1, "cch_pool_config", __func__));
  config = &known;
  if (config->reserved != 0 || config->reserved_2 != 0) /* later versions may use these fields, so they must be zero */
    return cch__fail(CCH_EINVAL, __func__, "the reserved fields of the cch_pool_config are not zero");
  cch__poll();
  cch_pool *pool = cch__box_new(CCH_KIND_POOL, sizeof *pool, __func__);
  if (pool == NULL)
    return CCH_ENOMEM;
  const CUmemPoolProps props = {
      .allocType = config->alloc_type != 0 ? (CUmemAllocationType)config->alloc_type : CU_MEM_ALLOCATION_TYPE_PINNED,
      .handleTypes = (CUmemAllocationHandleType)config->handle_types,
      .location = {.type = (CUmemLocationType)config->location_type, .id = config->location_id},
      .maxSize = (size_t)config->max_size};
  int status = CCH__RELAXED(CCH__CALL(cuMemPoolCreate, (&pool->raw, &props)));
  CCH__RETURN_FAILURE(cch__box_created(pool, status));
  pool->location_type = config->location_type;
  pool->location_id = config->location_id;
  pool->alloc_type = props.allocType;
  cch__registry_insert(pool, pool->raw);
  *out = pool;
  return 0;
}

cch_status cch_pool_current(cch_pool **out, int device) {
  CCH__REQUIRE_USABLE(out);
  CUdevice raw_device;
  CCH__RETURN_FAILURE(CCH__CALL(cuDeviceGet, (&raw_device, device)));
  CUmemoryPool raw;
  int status = CCH__CALL(cuDeviceGetMemPool, (&raw, raw_device));
  return status != 0 ? status : cch_pool_wrap(out, raw, device, NULL, NULL);
}

cch_status cch_pool_wrap(cch_pool **out, CUmemoryPool raw, int device, void *owner, cch_release_fn release) {
  CCH__REQUIRE_USABLE(out, raw);
  bool is_new;
  CCH__RETURN_FAILURE(cch__box_of_handle(out, &is_new, CCH_KIND_POOL, sizeof **out, raw, owner, release, __func__));
  if (is_new)
    (*out)->raw = raw;
  if (is_new && device >= 0) {
    (*out)->location_type = CCH_LOCATION_DEVICE;
    (*out)->location_id = device;
  }
  return 0;
}

cch_status cch_pool_of(cch_pool **out, int location_type, int location_id, int alloc_type) {
  CCH__REQUIRE_USABLE(out);
  CUmemLocation location = {.type = (CUmemLocationType)location_type, .id = location_id};
  CUmemoryPool raw;
  cch_pool *pool = NULL;
  CCH__RETURN_FAILURE(CCH__RELAXED(CCH__CALL(cuMemGetMemPool, (&raw, &location, (CUmemAllocationType)alloc_type))));
  CCH__RETURN_FAILURE(cch_pool_wrap(&pool, raw, -1, NULL, NULL));
  if (pool->alloc_type == 0) { /* the box is new, so no other thread can have it yet */
    pool->location_type = location_type;
    pool->location_id = location_id;
    pool->alloc_type = alloc_type;
  }
  *out = pool;
  return 0;
}

int cch__pool_retain_context(cch_pool *pool) {
  cch_context *context = NULL, *known = NULL;
  int status = cch_context_primary(&context, pool->location_id);
  if (status == 0 && !atomic_compare_exchange_strong(&pool->context, &known, context))
    cch_context_unref(context); /* another thread was faster */
  return status;
}

void cch__pool_unref_held(cch_pool *pool) {
  cch_context_unref(atomic_load_explicit(&pool->context, memory_order_acquire));
}

cch_status cch_pool_trim(cch_pool *pool, size_t keep) {
  CCH__REQUIRE_USABLE(pool);
  int status = CCH__RELAXED(CCH__CALL(cuMemPoolTrimTo, (pool->raw, keep)));
  return status;
}

int cch_pool_device(const cch_pool *pool) {
  CCH__REQUIRE(pool);
  return pool->location_type == CCH_LOCATION_DEVICE ? pool->location_id : -1;
}

void cch_pool_location(int *type, int *id, const cch_pool *pool) {
  if (type == NULL || id == NULL || cch__check(pool, CCH_KIND_POOL, "the argument pool", __func__) != 0)
    return;
  *type = pool->location_type;
  *id = pool->location_id;
}

CCH__DEFINE_GET(int, cch_pool_alloc_type, cch_pool, pool, CCH_EINVAL, alloc_type)

/*
 * Transfers one import to the box that another thread made for the same handle meanwhile. Returns false if there is no
 * such box.
 */
static bool hand_over(const cch_pool *pool) {
  cch_pool *heir = cch__registry_find(CCH_KIND_POOL, pool->raw);
  bool takes_it = heir != NULL && heir->imported; /* a box that only borrows the pool cannot own the import */
  if (takes_it)
    atomic_fetch_add_explicit(&heir->more_imports, 1, memory_order_relaxed);
  cch_pool_unref(heir);
  return takes_it;
}

/*
 * Destroys a pool, or ends one import of it. The driver cannot end an import while memory of the pool is mapped.
 * Another thread may have imported the pool and memory of it again; then the box of that import takes over ours. If
 * that box was destroyed in the meantime, its memory was unmapped, and the next attempt succeeds, unless there is a
 * third import. Memory that other libraries have mapped stays mapped, so retrying does not help there.
 */
static int destroy(const cch_pool *pool) {
  enum { TRIES = 100 };
  int status = 0;
  for (int i = 0; i < TRIES; i++) {
    status = CCH__CALL(cuMemPoolDestroy, (pool->raw));
    if (!pool->imported || status != CUDA_ERROR_INVALID_VALUE)
      return status;
    if (hand_over(pool))
      return 0;
  }
  return status;
}

bool cch__pool_destroy(cch_pool *pool) {
  if (!pool->box.owned)
    return true;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = destroy(pool);
  while (status == 0 && atomic_load_explicit(&pool->more_imports, memory_order_relaxed) > 0) {
    atomic_fetch_sub_explicit(&pool->more_imports, 1, memory_order_relaxed);
    status = destroy(pool);
  }
  cch__relaxed_leave(mode);
  return cch__destroyed(status);
}

/*
 * Attributes and access are queried in relaxed capture mode, because other modes forbid the query while a stream is
 * captured.
 */

/* Returns whether an attribute is a 64-bit integer. All others, such as the reuse policies, are ints. */
static bool is_64_bits(int attribute) {
  return attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

typedef union value {
  cuuint64_t wide;
  int narrow;
} value;

cch_status cch_pool_attribute(uint64_t *out, cch_pool *pool, int attribute) {
  CCH__REQUIRE_USABLE(out, pool);
  value found = {0};
  int status = CCH__RELAXED(CCH__CALL(cuMemPoolGetAttribute, (pool->raw, (CUmemPool_attribute)attribute, &found)));
  if (status == 0)
    *out = is_64_bits(attribute) ? found.wide : (uint64_t)found.narrow;
  return status;
}

cch_status cch_pool_set_attribute(cch_pool *pool, int attribute, uint64_t number) {
  CCH__REQUIRE_USABLE(pool);
  value wanted = {0};
  if (is_64_bits(attribute))
    wanted.wide = number;
  else
    wanted.narrow = (int)number;
  int status = CCH__RELAXED(CCH__CALL(cuMemPoolSetAttribute, (pool->raw, (CUmemPool_attribute)attribute, &wanted)));
  return status;
}

cch_status cch_pool_access(int *out, cch_pool *pool, int device) {
  CCH__REQUIRE_USABLE(out, pool);
  CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  int status = CCH__RELAXED(CCH__CALL(cuMemPoolGetAccess, (&flags, pool->raw, &location)));
  if (status == 0)
    *out = (int)flags;
  return status;
}

cch_status cch_pool_set_access(cch_pool *pool, const int *devices, const int *access, size_t count) {
  CCH__REQUIRE_USABLE(pool);
  CCH__REQUIRE_ARRAY(devices, count);
  CCH__REQUIRE_ARRAY(access, count);
  if (count == 0)
    return 0;
  CUmemAccessDesc *descriptors = calloc(count, sizeof *descriptors);
  if (descriptors == NULL)
    return cch__fail_nomem(__func__);
  for (size_t i = 0; i < count; i++) {
    descriptors[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    descriptors[i].location.id = devices[i];
    descriptors[i].flags = (CUmemAccess_flags)access[i];
  }
  int status = CCH__RELAXED(CCH__CALL(cuMemPoolSetAccess, (pool->raw, descriptors, count)));
  free(descriptors);
  return status;
}
