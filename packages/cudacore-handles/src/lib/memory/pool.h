/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_POOL_H
#define CUDACORE_LIB_POOL_H

#include "base/kinds.h"

/* Returns whether the memory of a pool is on one device, which other devices can use only if they are given access. */
static inline bool cch__pool_is_on_device(const cch_pool *pool) {
  return pool->location_type == CCH_LOCATION_DEVICE && pool->alloc_type != CCH_ALLOCATION_MANAGED;
}

/*
 * Makes a pool keep the primary context of its device, before memory of the pool is allocated or imported. The memory
 * can need that context when its stream is of another device: for copies between devices, nodes of graphs, DLPack.
 */
int cch__pool_retain_context(cch_pool *pool);
static inline int cch__pool_keep_context(cch_pool *pool) {
  if (!cch__pool_is_on_device(pool) || atomic_load_explicit(&pool->context, memory_order_relaxed) != NULL)
    return 0;
  return cch__pool_retain_context(pool);
}

#endif
