/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_ARRAY_H
#define CUDACORE_INTERNAL_ARRAY_H

/**
 * @file array.h
 * CUDA arrays and mipmapped arrays: memory whose layout the device determines. Kernels use it through textures and
 * surfaces.
 */

#include <cudacore/cudacore.h>

/** The type of a channel, with CUDA's numbers (CUarray_format). */
#define CCH_FORMAT_UINT8 0x01
#define CCH_FORMAT_UINT16 0x02
#define CCH_FORMAT_UINT32 0x03
#define CCH_FORMAT_INT8 0x08
#define CCH_FORMAT_INT16 0x09
#define CCH_FORMAT_INT32 0x0a
#define CCH_FORMAT_HALF 0x10
#define CCH_FORMAT_FLOAT 0x20

/** A flag of arrays, with CUDA's number (CUDA_ARRAY3D_...). */
#define CCH_ARRAY_SURFACE 0x02u /**< kernels may store to it, through a surface */

/** The properties of an array. */
typedef struct cch_array_desc {
  size_t width;      /**< texels of a row */
  size_t height;     /**< rows; 0: the array has one dimension */
  size_t depth;      /**< planes; 0: at most two dimensions */
  int32_t format;    /**< CCH_FORMAT_* */
  uint32_t channels; /**< channels per texel: 1, 2 or 4 */
  uint32_t flags;    /**< CCH_ARRAY_* */
  uint32_t levels;   /**< levels of a mipmapped array; for an array 0 or 1 */
} cch_array_desc;

/** Creates an array in a context (cuArray3DCreate). */
CCH_EXPORT cch_status cch_array_create(cch_array **out, cch_context *context, const cch_array_desc *desc);

/** Borrows an array. `context` is NULL if it is not known. `owner` and `release` are as in cch_context_wrap(). */
CCH_EXPORT cch_status cch_array_wrap(cch_array **out, CUarray raw, cch_context *CCH_NULLABLE context,
                                     void *CCH_NULLABLE owner, cch_release_fn CCH_NULLABLE release);

/** Reads the properties of an array. */
CCH_EXPORT cch_status cch_array_describe(cch_array_desc *out, const cch_array *array);

/** The size of all texels in bytes; 0 if `array` is not an array. */
CCH_EXPORT size_t cch_array_size(const cch_array *array);

/**
 * The context of an array, a mipmapped array, a texture or a surface, borrowed from its box; NULL when it is not known.
 */
CCH_EXPORT cch_context *cch_context_of(const void *CCH_NULLABLE box);

/**
 * Copies all texels from or to memory, ordered on a stream (cuMemcpy3DAsync). In memory, the rows are contiguous and
 * begin at the byte `offset`. CCH_EINVAL if the memory is too small. The graph of a capture keeps the array and the
 * memory.
 */
CCH_EXPORT cch_status cch_array_copy_from(cch_array *array, cch_deviceptr *src, size_t offset, cch_stream *stream);
CCH_EXPORT cch_status cch_array_copy_to(cch_array *array, cch_deviceptr *dst, size_t offset, cch_stream *stream);

CCH_EXPORT CUarray cch_array_raw(const cch_array *array);

/** Creates a mipmapped array, with `desc->levels` levels (cuMipmappedArrayCreate). */
CCH_EXPORT cch_status cch_mipmapped_array_create(cch_mipmapped_array **out, cch_context *context,
                                                 const cch_array_desc *desc);

/**
 * Makes a box for a level of a mipmapped array, and keeps the mipmapped array (cuMipmappedArrayGetLevel).
 */
CCH_EXPORT cch_status cch_mipmapped_array_level(cch_array **out, cch_mipmapped_array *array, unsigned level);

/** Reads the properties of a mipmapped array. The extents are those of level 0. */
CCH_EXPORT cch_status cch_mipmapped_array_describe(cch_array_desc *out, const cch_mipmapped_array *array);

CCH_EXPORT CUmipmappedArray cch_mipmapped_array_raw(const cch_mipmapped_array *array);

#endif
