/* SPDX-License-Identifier: Apache-2.0 */
/* Texture objects and surface objects. */
#include "driver/current.h"
#include "texture/array.h"
#include "base/reclaim.h"

#include <string.h>

/* cch_texture_raw() */
CCH__DEFINE_RAW(cch_texture, CUtexObject, raw)
/* cch_surface_raw() */
CCH__DEFINE_RAW(cch_surface, CUsurfObject, raw)

static int read_memory(CUDA_RESOURCE_DESC *out, const cch_texture_resource *given, const char *operation) {
  const cch_deviceptr *memory = given->source;
  size_t last = given->width;
  bool is_pitched = given->height != 0;
  /* The last row does not need padding up to the pitch; the driver requires only its texels. */
  if (is_pitched) {
    const cch_array_desc texel = {.format = given->format, .channels = given->channels};
    size_t row;
    if (__builtin_mul_overflow(given->width, cch__texel_size(&texel), &row) ||
        __builtin_mul_overflow(given->pitch, given->height - 1, &last) || __builtin_add_overflow(last, row, &last))
      last = SIZE_MAX;
  }
  if (last > memory->size)
    return cch__fail(CCH_EINVAL, operation, "the texture reads beyond the memory, which has %zu bytes", memory->size);
  if (is_pitched) {
    out->resType = CU_RESOURCE_TYPE_PITCH2D;
    out->res.pitch2D.devPtr = memory->ptr;
    out->res.pitch2D.format = (CUarray_format)given->format;
    out->res.pitch2D.numChannels = given->channels;
    out->res.pitch2D.width = given->width;
    out->res.pitch2D.height = given->height;
    out->res.pitch2D.pitchInBytes = given->pitch;
  } else {
    out->resType = CU_RESOURCE_TYPE_LINEAR;
    out->res.linear.devPtr = memory->ptr;
    out->res.linear.format = (CUarray_format)given->format;
    out->res.linear.numChannels = given->channels;
    out->res.linear.sizeInBytes = given->width;
  }
  return 0;
}

/* Converts a resource to the driver's form. */
static int read_resource(CUDA_RESOURCE_DESC *out, const cch_texture_resource *given, const char *operation) {
  const int kind = cch_kind_of(given->source);
  if (kind != CCH_KIND_ARRAY && kind != CCH_KIND_MIPMAPPED_ARRAY && kind != CCH_KIND_DEVICEPTR)
    return cch__fail(CCH_EINVAL, operation, "a texture reads an array, a mipmapped array, or memory");
  CCH__RETURN_FAILURE(cch__check_usable(given->source, kind, "the field source", operation));
  if (kind == CCH_KIND_DEVICEPTR)
    return read_memory(out, given, operation);
  if (kind == CCH_KIND_ARRAY) {
    out->resType = CU_RESOURCE_TYPE_ARRAY;
    out->res.array.hArray = ((const cch_array *)given->source)->raw;
  } else {
    out->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    out->res.mipmap.hMipmappedArray = ((const cch_mipmapped_array *)given->source)->raw;
  }
  return 0;
}

_Static_assert(offsetof(CUDA_TEXTURE_DESC, reserved) == sizeof(cch_texture_desc), "the fields differ");

/*
 * Checks that linear memory does not have more texels than a texture can have, which the driver does not report. The
 * context must be current.
 */
static int check_linear(const CUDA_RESOURCE_DESC *reads, const cch_context *context, const char *operation) {
  enum { NEVER_TOO_MANY = 1 << 28 };
  size_t most = 0;
  if (reads->resType != CU_RESOURCE_TYPE_LINEAR || reads->res.linear.sizeInBytes <= NEVER_TOO_MANY)
    return 0;
  int status = CCH__CALL(cuDeviceGetTexture1DLinearMaxWidth,
                         (&most, reads->res.linear.format, reads->res.linear.numChannels, context->device));
  cch_array_desc texel = {.format = (int32_t)reads->res.linear.format, .channels = reads->res.linear.numChannels};
  size_t texels = status == 0 ? reads->res.linear.sizeInBytes / cch__texel_size(&texel) : 0;
  if (texels > most)
    return cch__fail(CCH_EINVAL, operation,
                     "the texture has %zu texels; device %d takes at most %zu of this format "
                     "(cuDeviceGetTexture1DLinearMaxWidth)",
                     texels, context->device, most);
  return status;
}

static int create(CUtexObject *out, const CUDA_RESOURCE_DESC *reads, const CUDA_TEXTURE_DESC *samples,
                  const cch_context *context, const char *operation) {
  int status = check_linear(reads, context, operation);
  return status != 0 ? status : CCH__CALL(cuTexObjectCreate, (out, reads, samples, NULL));
}

cch_status cch_texture_create(cch_texture **out, cch_context *context, const cch_texture_resource *resource,
                              const cch_texture_desc *desc) {
  CCH__REQUIRE_USABLE(out, context, resource, desc);
  CUDA_RESOURCE_DESC reads = {0};
  CUDA_TEXTURE_DESC samples = {0};
  CCH__RETURN_FAILURE(read_resource(&reads, resource, __func__));
  memcpy(&samples, desc, sizeof *desc);
  cch__poll();
  cch_texture *texture = cch__box_new(CCH_KIND_TEXTURE, sizeof *texture, __func__);
  if (texture == NULL)
    return CCH_ENOMEM;
  int status = CCH__IN_CONTEXT(context, create(&texture->raw, &reads, &samples, context, __func__));
  CCH__RETURN_FAILURE(cch__box_created(texture, status));
  texture->resource = cch_ref(resource->source);
  cch__box_in(&texture->box, &texture->context, context);
  *out = texture;
  return 0;
}

cch_context *cch_context_of(const void *box) {
  switch (cch_kind_of(box)) {
  case CCH_KIND_ARRAY:
    return ((const cch_array *)box)->context;
  case CCH_KIND_MIPMAPPED_ARRAY:
    return ((const cch_mipmapped_array *)box)->context;
  case CCH_KIND_TEXTURE:
    return ((const cch_texture *)box)->context;
  case CCH_KIND_SURFACE:
    return ((const cch_surface *)box)->context;
  default:
    return NULL;
  }
}

cch_status cch_surface_create(cch_surface **out, cch_context *context, cch_array *array) {
  CCH__REQUIRE_USABLE(out, context, array);
  if ((array->desc.flags & CCH_ARRAY_SURFACE) == 0)
    return cch__fail(CCH_EINVAL, __func__, "a surface needs an array that was created with CCH_ARRAY_SURFACE");
  cch__poll();
  cch_surface *surface = cch__box_new(CCH_KIND_SURFACE, sizeof *surface, __func__);
  if (surface == NULL)
    return CCH_ENOMEM;
  const CUDA_RESOURCE_DESC reads = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array->raw};
  int status = CCH__IN_CONTEXT(context, CCH__CALL(cuSurfObjectCreate, (&surface->raw, &reads)));
  CCH__RETURN_FAILURE(cch__box_created(surface, status));
  surface->array = cch_array_ref(array);
  cch__box_in(&surface->box, &surface->context, context);
  *out = surface;
  return 0;
}

bool cch__texture_destroy(cch_texture *texture) {
  return cch__destroyed(CCH__RELAXED(CCH__IN_CONTEXT(texture->context, CCH__CALL(cuTexObjectDestroy, (texture->raw)))));
}

void cch__texture_unref_held(cch_texture *texture) {
  cch_unref(texture->resource);
  cch_context_unref(texture->context);
}

bool cch__surface_destroy(cch_surface *surface) {
  return cch__destroyed(
      CCH__RELAXED(CCH__IN_CONTEXT(surface->context, CCH__CALL(cuSurfObjectDestroy, (surface->raw)))));
}

void cch__surface_unref_held(cch_surface *surface) {
  cch_array_unref(surface->array);
  cch_context_unref(surface->context);
}
