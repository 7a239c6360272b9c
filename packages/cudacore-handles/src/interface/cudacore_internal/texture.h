/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_TEXTURE_H
#define CUDACORE_INTERNAL_TEXTURE_H

/**
 * @file texture.h
 * Texture objects and surface objects, which are 64-bit handles in kernels. Each keeps the memory that it uses.
 */

#include <cudacore/cudacore.h>

/** Flags of textures, with CUDA's numbers (CU_TRSF_...). */
#define CCH_TEXTURE_AS_INTEGER 0x01u   /**< integers are not converted to floating-point numbers */
#define CCH_TEXTURE_NORMALIZED 0x02u   /**< coordinates are from 0 to 1 */
#define CCH_TEXTURE_SRGB 0x10u         /**< texels are converted from sRGB */
#define CCH_TEXTURE_NO_TRILINEAR 0x20u /**< without the optimization of trilinear filtering */
#define CCH_TEXTURE_SEAMLESS 0x40u     /**< faces of a cube map are filtered across their edges */

/** The resource of a texture. The fields after the first one describe memory. */
typedef struct cch_texture_resource {
  void *source;   /**< an array, a mipmapped array, or memory: linear, or pitched if `height` is not 0 */
  size_t width;   /**< linear memory: its size in bytes; pitched memory: texels per row */
  size_t height;  /**< rows */
  size_t pitch;   /**< bytes from row to row */
  int32_t format; /**< CCH_FORMAT_* */
  uint32_t channels;
} cch_texture_resource;

/** How a texture is sampled: the fields of CUDA_TEXTURE_DESC. */
typedef struct cch_texture_desc {
  int32_t address_mode[3]; /**< CUaddress_mode, for each dimension */
  int32_t filter_mode;     /**< CUfilter_mode */
  uint32_t flags;          /**< CCH_TEXTURE_* */
  uint32_t max_anisotropy;
  int32_t mipmap_filter_mode; /**< CUfilter_mode, between mipmap levels */
  float mipmap_level_bias;
  float min_mipmap_level_clamp;
  float max_mipmap_level_clamp;
  float border_color[4];
} cch_texture_desc;

/** Creates a texture in a context, and keeps its resource (cuTexObjectCreate). */
CCH_EXPORT cch_status cch_texture_create(cch_texture **out, cch_context *context, const cch_texture_resource *resource,
                                         const cch_texture_desc *desc);

CCH_EXPORT CUtexObject cch_texture_raw(const cch_texture *texture);

/** Creates a surface of an array with CCH_ARRAY_SURFACE, and keeps the array (cuSurfObjectCreate). */
CCH_EXPORT cch_status cch_surface_create(cch_surface **out, cch_context *context, cch_array *array);

CCH_EXPORT CUsurfObject cch_surface_raw(const cch_surface *surface);

#endif
