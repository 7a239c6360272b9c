/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_POOL_ATTRIBUTES_H
#define CUDACORE_INTERNAL_POOL_ATTRIBUTES_H

/**
 * @file pool_attributes.h
 * Attributes of a memory pool, and the devices with access to its memory. These functions may be called while streams
 * are captured, in any mode: they neither become part of the capture nor invalidate it.
 */

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

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

CCH_END_DECLS

#endif
