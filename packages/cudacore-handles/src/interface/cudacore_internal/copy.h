/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_COPY_H
#define CUDACORE_INTERNAL_COPY_H

/**
 * @file copy.h
 * Copies of many allocations in one call, and copies of parts of allocations in two and three dimensions.
 */

#include <cudacore/cudacore.h>

/** When a copy reads its source, with CUDA's numbers (CUmemcpySrcAccessOrder); 0 means CCH_COPY_IN_STREAM_ORDER. */
#define CCH_COPY_IN_STREAM_ORDER 1 /**< after the stream's earlier work, before its later work */
#define CCH_COPY_DURING_CALL 2     /**< before the call returns */
#define CCH_COPY_ANY_ORDER 3       /**< at any time before the stream's later work: keep the source unchanged */

/** Flag: the copy should run concurrently with kernels if possible (CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE). */
#define CCH_COPY_OVERLAP 1u

/** Properties of one copy of a batch. */
typedef struct cch_copy_attributes {
  int32_t order;             /**< CCH_COPY_* */
  uint32_t flags;            /**< CCH_COPY_OVERLAP */
  int32_t src_location_type; /**< the location of a managed or pageable source: CCH_LOCATION_*, 0 if it is not known */
  int32_t src_location_id;
  int32_t dst_location_type; /**< the location of the destination, as for the source */
  int32_t dst_location_id;
} cch_copy_attributes;

/**
 * Copies `count` whole allocations to others of the same sizes, ordered on a stream. `attributes[i]` has the properties
 * of copy i; if `attributes` or an element is NULL, the properties are zero. The order of the copies is undefined: if a
 * copy writes memory that a copy reads, or that another one writes, this function returns CCH_EINVAL. If possible, this
 * is one call of the driver (cuMemcpyBatchAsync, of CUDA 12.8). The driver does not accept that call on the legacy
 * default stream, while the stream is being captured, or between devices (see cch_deviceptr_copy()). In these cases,
 * the copies are made one after the other. If one of them then has CCH_COPY_DURING_CALL, this function waits for the
 * stream; in a capture, it returns CCH_EINVAL. If sizes differ, it returns CCH_EINVAL before anything is copied. The
 * graph of a capture keeps all allocations.
 */
CCH_EXPORT cch_status cch_copy_batch(cch_deviceptr *const *dst, cch_deviceptr *const *src, size_t count,
                                     const cch_copy_attributes *const *CCH_NULLABLE attributes, cch_stream *stream);

/** A part of an allocation and its destination, in up to three dimensions. */
typedef struct cch_copy_shape {
  size_t width;      /**< bytes per row */
  size_t height;     /**< rows per slice, at least 1 */
  size_t depth;      /**< slices, at least 1 */
  size_t dst_offset; /**< offset of the first byte in the destination */
  size_t dst_pitch;  /**< bytes from row to row */
  size_t dst_height; /**< rows from slice to slice */
  size_t src_offset; /**< offset of the first byte in the source */
  size_t src_pitch;
  size_t src_height;
} cch_copy_shape;

/**
 * Copies a part of an allocation, ordered on a stream (cuMemcpy3DAsync; between devices cuMemcpy3DPeerAsync, see
 * cch_deviceptr_copy()). CCH_EINVAL if the part exceeds one of the allocations, or if rows, or the source and the
 * destination, overlap. The graph of a capture keeps both allocations.
 */
CCH_EXPORT cch_status cch_copy_part(cch_deviceptr *dst, cch_deviceptr *src, const cch_copy_shape *shape,
                                    cch_stream *stream);

#endif
