/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_TENSOR_MAP_H
#define CUDACORE_INTERNAL_TENSOR_MAP_H

/**
 * @file tensor_map.h
 * Tensor maps: descriptors of tensors in global memory. With them, kernels copy rectangular parts of tensors by the
 * tensor memory accelerator (TMA, compute capability 9.0 or later). A tensor map is a value of 128 bytes, which is
 * passed to kernels by value (`const __grid_constant__ CUtensorMap`). It owns nothing: the tensor's memory must outlive
 * the kernels.
 *
 * Axes are in the order of an array's shape, the outermost one first. CUDA's own functions have the reverse order.
 */

#include <cudacore/cudacore.h>

/** The kinds of tensor maps. */
#define CCH_TENSOR_MAP_TILED 0       /**< rectangular parts of a tensor of up to five axes (cuTensorMapEncodeTiled) */
#define CCH_TENSOR_MAP_IM2COL 1      /**< pixels of images, for convolutions (cuTensorMapEncodeIm2col) */
#define CCH_TENSOR_MAP_IM2COL_WIDE 2 /**< pixels of images along W alone (cuTensorMapEncodeIm2colWide, CUDA 12.8) */

/** The largest number of axes of a tensor. */
#define CCH_TENSOR_MAP_MAX_RANK 5

/** A tensor map, as the driver has encoded it (CUtensorMap). Kernels align a parameter of this type to 64 bytes or
 * more.
 */
typedef struct cch_tensor_map {
  uint64_t opaque[16];
} cch_tensor_map;

/**
 * A tensor, and how copies move parts of it. The first `rank` elements of each array are used. Of the two corners, the
 * first `rank` - 2 elements are used, for the axes between the first (N) and the last (C). An im2col-wide map uses only
 * the first element of each corner, for the axis before the last one (W).
 */
typedef struct cch_tensor_map_config {
  int32_t kind;               /**< CCH_TENSOR_MAP_* */
  int32_t device;             /**< ordinal of the device whose kernels will use the map */
  uint64_t address;           /**< the address of the first element */
  int32_t data_type;          /**< CUtensorMapDataType */
  int32_t rank;               /**< the number of axes */
  int32_t interleave;         /**< CUtensorMapInterleave */
  int32_t swizzle;            /**< CUtensorMapSwizzle */
  int32_t l2_promotion;       /**< CUtensorMapL2promotion */
  int32_t oob_fill;           /**< CUtensorMapFloatOOBfill */
  int64_t shape[5];           /**< in elements */
  int64_t strides[5];         /**< strides in bytes; that of the last axis is the size of an element */
  int64_t element_strides[5]; /**< the steps of copies along each axis: 1 for every element */
  int64_t box_dim[5];         /**< tiled: the extents of the part that one copy moves, in elements */
  int64_t lower_corner[3];    /**< im2col: the beginning of the bounding box, relative to the first pixel */
  int64_t upper_corner[3];    /**< im2col: the end of the bounding box, relative to the last pixel */
  int64_t channels_per_pixel; /**< im2col: the number of channels of a pixel that a copy moves */
  int64_t pixels_per_column;  /**< im2col: the number of pixels that a copy moves */
  int32_t wide_mode;          /**< im2col wide: CUtensorMapIm2ColWideMode */
} cch_tensor_map_config;

/**
 * Encodes a tensor map. CCH_EINVAL for a map that the driver would refuse, with a message that names the field, its
 * value and the rule. CCH_ENOSYMBOL if the driver lacks the function. No current context is needed.
 */
CCH_EXPORT cch_status cch_tensor_map_encode(cch_tensor_map *out, const cch_tensor_map_config *config);

#endif
