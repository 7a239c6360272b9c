/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_POOL_H
#define CUDACORE_POOL_H

/**
 * @file pool.h
 * Memory pools for stream-ordered allocation. A pool outlives every allocation from it, because device
 * pointers hold it.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** Where memory lives, with CUDA's numbers (CUmemLocationType); 0 where that is not known. */
#define CCH_LOCATION_DEVICE 1            /**< id: the device's ordinal */
#define CCH_LOCATION_HOST 2              /**< no id */
#define CCH_LOCATION_HOST_NUMA 3         /**< id: the NUMA node */
#define CCH_LOCATION_HOST_NUMA_CURRENT 4 /**< the NUMA node of the calling thread; no id */

/** What memory a pool gives, with CUDA's numbers (CUmemAllocationType); 0 where that is not known. */
#define CCH_ALLOCATION_PINNED 1  /**< stays where it is */
#define CCH_ALLOCATION_MANAGED 2 /**< goes where it is used */

/** Where a pool's memory lives and how it can be shared. Zero-initialise; `size` says which fields exist. */
typedef struct cch_pool_config {
  size_t size;           /**< sizeof(cch_pool_config) */
  int32_t location_type; /**< CCH_LOCATION_* */
  int32_t location_id;   /**< device ordinal or NUMA node */
  uint32_t handle_types; /**< CUmemAllocationHandleType bits, 0 for none */
  uint32_t reserved;     /**< zero */
  uint64_t max_size;     /**< bytes, 0 for the system's limit */
  int32_t alloc_type;    /**< CCH_ALLOCATION_*, 0 for CCH_ALLOCATION_PINNED */
  uint32_t reserved_2;   /**< zero */
} cch_pool_config;

/** Makes a pool (cuMemPoolCreate). A config of any size from that of version 0.1 on is taken: fields that it lacks are
 * zero, and fields that this library does not know must be (CCH_EINVAL). @since 0.1 */
CCH_EXPORT int cch_pool_create(cch_pool **out, const cch_pool_config *config);

/** Borrows the pool that a device uses now (cuDeviceGetMemPool). @since 0.1 */
CCH_EXPORT int cch_pool_current(cch_pool **out, int device);

/**
 * Borrows the pool that memory of a kind (CCH_ALLOCATION_*) comes from at a location, CCH_LOCATION_* or 0 for managed
 * memory of no preferred location, unless another is named (cuMemGetMemPool, of CUDA 13). @since 0.1
 */
CCH_EXPORT int cch_pool_of(cch_pool **out, int location_type, int location_id, int alloc_type);

/** Gives unused memory back to the system until `keep` bytes are left, or no more is unused (cuMemPoolTrimTo).
 * @since 0.1 */
CCH_EXPORT int cch_pool_trim(cch_pool *pool, size_t keep);

/** Borrows a pool; `device` is the ordinal it serves, -1 for a host pool. `owner` as in cch_context_wrap(). @since 0.1
 */
CCH_EXPORT int cch_pool_wrap(cch_pool **out, CUmemoryPool raw, int device, void *CCH_NULLABLE owner,
                             cch_release_fn CCH_NULLABLE release);

/** Ordinal of the device whose memory it holds, -1 for host memory. @since 0.1 */
CCH_EXPORT int cch_pool_device(const cch_pool *pool);

/** Where its memory lives: a CCH_LOCATION_* and its id. 0 and 0 for a borrowed pool of no device. @since 0.1 */
CCH_EXPORT void cch_pool_location(int *type, int *id, const cch_pool *pool);

/** What memory it gives: a CCH_ALLOCATION_*, 0 for a borrowed pool. @since 0.1 */
CCH_EXPORT int cch_pool_alloc_type(const cch_pool *pool);

CCH_EXPORT cch_pool *cch_pool_ref(cch_pool *pool);
CCH_EXPORT void cch_pool_unref(cch_pool *pool);
CCH_EXPORT CUmemoryPool cch_pool_raw(const cch_pool *pool);

CCH_END_DECLS

#endif
