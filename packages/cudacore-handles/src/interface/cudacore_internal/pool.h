/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_POOL_H
#define CUDACORE_INTERNAL_POOL_H

#include <cudacore/cudacore.h>

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

/*
 * Attributes of a memory pool, and the devices with access to its memory. These functions may be called while streams
 * are captured, in any mode: they neither become part of the capture nor invalidate it.
 */

/** A CUmemPool_attribute of a pool: a number of bytes, or 1 or 0 (cuMemPoolGetAttribute). */
CCH_EXPORT cch_status cch_pool_attribute(uint64_t *out, cch_pool *pool, int attribute);

/**
 * Sets a CUmemPool_attribute (cuMemPoolSetAttribute). The maxima of used and reserved memory can only be set to 0.
 */
CCH_EXPORT cch_status cch_pool_set_attribute(cch_pool *pool, int attribute, uint64_t value);

/** The access of a device to the pool's memory: CUmemAccess_flags, 0 for none (cuMemPoolGetAccess). */
CCH_EXPORT cch_status cch_pool_access(int *out, cch_pool *pool, int device);

/**
 * Sets the access of `count` devices to the pool's memory, including memory that is allocated already
 * (cuMemPoolSetAccess). `access` has CUmemAccess_flags for each device: 3 to read and write, 0 for none.
 */
CCH_EXPORT cch_status cch_pool_set_access(cch_pool *pool, const int *devices, const int *access, size_t count);

#endif
