/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_MANAGED_H
#define CUDACORE_INTERNAL_MANAGED_H

/**
 * @file managed.h
 * Managed memory, which moves to where it is used: advice about its location, and moving it before it is used. A
 * location is a CCH_LOCATION_* with its id (pool.h). The driver checks whether an allocation is managed memory; if it
 * is not, these functions return CUDA_ERROR_INVALID_VALUE.
 */

#include <cudacore/cudacore.h>

/** Applies a CUmem_advise to a whole allocation (cuMemAdvise, with locations as of CUDA 12.2). */
CCH_EXPORT cch_status cch_managed_advise(cch_deviceptr *ptr, int advice, int location_type, int location_id);

/** Queries a CUmem_range_attribute of a whole allocation, as `count` ints (cuMemRangeGetAttribute). */
CCH_EXPORT cch_status cch_managed_attribute(int *out, size_t count, cch_deviceptr *ptr, int attribute);

/** The location to which memory is moved. */
typedef struct cch_location {
  int32_t type; /**< CCH_LOCATION_* */
  int32_t id;
} cch_location;

/**
 * Moves allocations, each to its own location, ordered on a stream: one by cuMemPrefetchAsync, several by
 * cuMemPrefetchBatchAsync (of CUDA 13). If the driver lacks the latter, or the stream is the legacy default stream,
 * several allocations are moved one after the other. With `discards`, the contents are discarded first
 * (cuMemDiscardAndPrefetchBatchAsync, of CUDA 13) or, if `locations` is NULL, only that is done
 * (cuMemDiscardBatchAsync): they are undefined until they are written again. The result is then CCH_EINVAL for the
 * legacy default stream, which the driver refuses.
 */
CCH_EXPORT cch_status cch_managed_move(cch_deviceptr *const *ptrs, const cch_location *CCH_NULLABLE locations,
                                       size_t count, bool discards, cch_stream *stream);

#endif
