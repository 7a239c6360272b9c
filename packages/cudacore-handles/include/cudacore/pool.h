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

/** Where a pool's memory lives and how it can be shared. Zero-initialise; `size` says which fields exist. */
typedef struct cch_pool_config {
  size_t size;           /**< sizeof(cch_pool_config) */
  int32_t location_type; /**< CUmemLocationType: 1 device, 2 host, 3 host NUMA node */
  int32_t location_id;   /**< device ordinal or NUMA node */
  uint32_t handle_types; /**< CUmemAllocationHandleType bits, 0 for none */
  uint32_t reserved;
  uint64_t max_size; /**< bytes, 0 for the system's limit */
} cch_pool_config;

/** Makes a pool (cuMemPoolCreate). @since 0.1 */
CCH_EXPORT int cch_pool_create(cch_pool **out, const cch_pool_config *config);

/** Borrows the pool that a device uses now (cuDeviceGetMemPool). @since 0.1 */
CCH_EXPORT int cch_pool_current(cch_pool **out, int device);

/** Borrows a pool; `device` is the ordinal it serves, -1 for a host pool. `owner` as in cch_context_wrap(). @since 0.1
 */
CCH_EXPORT int cch_pool_wrap(cch_pool **out, CUmemoryPool raw, int device, void *owner, cch_release_fn release);

/** Ordinal of the device whose memory it holds, -1 for host memory. @since 0.1 */
CCH_EXPORT int cch_pool_device(const cch_pool *pool);

CCH_EXPORT cch_pool *cch_pool_ref(cch_pool *pool);
CCH_EXPORT void cch_pool_unref(cch_pool *pool);
CCH_EXPORT CUmemoryPool cch_pool_raw(const cch_pool *pool);

CCH_END_DECLS

#endif
