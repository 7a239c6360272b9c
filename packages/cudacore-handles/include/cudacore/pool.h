/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_POOL_H
#define CUDACORE_POOL_H

/**
 * @file pool.h
 * Memory pools for stream-ordered allocation. A pool outlives every allocation from it, because allocations keep the
 * pool.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** Locations of memory, with CUDA's numbers (CUmemLocationType); 0 if the location is not known. */
#define CCH_LOCATION_DEVICE 1            /**< id: the device's ordinal */
#define CCH_LOCATION_HOST 2              /**< no id */
#define CCH_LOCATION_HOST_NUMA 3         /**< id: the NUMA node */
#define CCH_LOCATION_HOST_NUMA_CURRENT 4 /**< the NUMA node of the calling thread; no id */

/** Types of memory in a pool, with CUDA's numbers (CUmemAllocationType); 0 if the type is not known. */
#define CCH_ALLOCATION_PINNED 1  /**< stays at its location */
#define CCH_ALLOCATION_MANAGED 2 /**< managed memory, which moves to where it is used */

/**
 * The location of a pool's memory, and how it can be shared. Zero-initialise; `size` determines the fields that exist.
 */
typedef struct cch_pool_config {
  size_t size;           /**< sizeof(cch_pool_config) */
  int32_t location_type; /**< CCH_LOCATION_* */
  int32_t location_id;   /**< device ordinal or NUMA node */
  uint32_t handle_types; /**< CUmemAllocationHandleType bits, 0 for none */
  uint32_t reserved;     /**< zero */
  uint64_t max_size;     /**< maximum size in bytes, 0 for the system's limit */
  int32_t alloc_type;    /**< CCH_ALLOCATION_*, 0 for CCH_ALLOCATION_PINNED */
  uint32_t reserved_2;   /**< zero */
} cch_pool_config;

/**
 * Makes a pool (cuMemPoolCreate). `config->size` can be the size of any version of the structure, from 0.1 on. Missing
 * fields are taken as zero. Unknown fields must be zero (CCH_EINVAL). @since 0.1
 */
CCH_EXPORT cch_status cch_pool_create(cch_pool **out, const cch_pool_config *config);

/** Borrows the current pool of a device (cuDeviceGetMemPool). @since 0.1 */
CCH_EXPORT cch_status cch_pool_current(cch_pool **out, int device);

/**
 * Borrows a pool. `device` is the ordinal of its device, -1 for a host pool. `owner` and `release` are as in
 * cch_context_wrap().
 * @since 0.1
 */
CCH_EXPORT cch_status cch_pool_wrap(cch_pool **out, CUmemoryPool raw, int device, void *CCH_NULLABLE owner,
                                    cch_release_fn CCH_NULLABLE release);

CCH_EXPORT CUmemoryPool cch_pool_raw(const cch_pool *pool);

CCH_END_DECLS

#endif
