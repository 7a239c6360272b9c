/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_POOL_H
#define CUDACORE_INTERNAL_POOL_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/**
 * Borrows the default pool for memory of a type (CCH_ALLOCATION_*) at a location (cuMemGetMemPool, of CUDA 13). The
 * location is a CCH_LOCATION_*, or 0 for managed memory without a preferred location.
 */
CCH_EXPORT cch_status cch_pool_of(cch_pool **out, int location_type, int location_id, int alloc_type);

/**
 * Returns unused memory to the system until the pool holds `keep` bytes, or has no unused memory (cuMemPoolTrimTo).
 */
CCH_EXPORT cch_status cch_pool_trim(cch_pool *pool, size_t keep);

/** Ordinal of the device of a pool's memory, -1 for host memory. */
CCH_EXPORT int cch_pool_device(const cch_pool *pool);

/**
 * The location of a pool's memory: a CCH_LOCATION_* and its id. Both are 0 for a borrowed pool without a device.
 */
CCH_EXPORT void cch_pool_location(int *type, int *id, const cch_pool *pool);

/** The type of a pool's memory: a CCH_ALLOCATION_*, 0 for a borrowed pool. */
CCH_EXPORT int cch_pool_alloc_type(const cch_pool *pool);

CCH_END_DECLS

#endif
