/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and mipmapped arrays. */
#include "texture/array.h"
#include "memory/deviceptr.h"
#include "stream/capture.h"
#include "base/reclaim.h"
#include "base/registry.h"

/* cch_array_raw() */
CCH__DEFINE_RAW(cch_array, CUarray, raw)
/* cch_mipmapped_array_raw() */
CCH__DEFINE_RAW(cch_mipmapped_array, CUmipmappedArray, raw)

static CUDA_ARRAY3D_DESCRIPTOR for_driver(const cch_array_desc *desc) {
  return (CUDA_ARRAY3D_DESCRIPTOR){.Width = desc->width,
                                   .Height = desc->height,
                                   .Depth = desc->depth,
                                   .Format = (CUarray_format)desc->format,
                                   .NumChannels = desc->channels,
                                   .Flags = desc->flags};
}

static cch_array_desc from_driver(const CUDA_ARRAY3D_DESCRIPTOR *desc) {
  return (cch_array_desc){.width = desc->Width,
                          .height = desc->Height,
                          .depth = desc->Depth,
                          .format = (int32_t)desc->Format,
                          .channels = desc->NumChannels,
                          .flags = desc->Flags,
                          .levels = 1};
}

size_t cch__texel_size(const cch_array_desc *desc) {
  switch (desc->format) {
  case CCH_FORMAT_UINT8:
  case CCH_FORMAT_INT8:
    return desc->channels;
  case CCH_FORMAT_UINT16:
  case CCH_FORMAT_INT16:
  case CCH_FORMAT_HALF:
    return 2u * desc->channels;
  case CCH_FORMAT_UINT32:
  case CCH_FORMAT_INT32:
  case CCH_FORMAT_FLOAT:
    return 4u * desc->channels;
  default:
    return 0;
  }
}

static size_t rows_of(const cch_array_desc *desc) { return desc->height != 0 ? desc->height : 1; }

static size_t planes_of(const cch_array_desc *desc) { return desc->depth != 0 ? desc->depth : 1; }

cch_status cch_array_create(cch_array **out, cch_context *context, const cch_array_desc *desc) {
  CCH__REQUIRE_USABLE(out, context, desc);
  cch__poll();
  cch_array *array = cch__box_new(CCH_KIND_ARRAY, sizeof *array, __func__);
  if (array == NULL)
    return CCH_ENOMEM;
  CUDA_ARRAY3D_DESCRIPTOR wanted = for_driver(desc);
  int status = CCH__IN_CONTEXT(context, CCH__CALL(cuArray3DCreate, (&array->raw, &wanted)));
  CCH__RETURN_FAILURE(cch__box_created(array, status));
  array->desc = *desc;
  array->desc.levels = 1;
  cch__box_in(&array->box, &array->context, context);
  cch__registry_insert(array, array->raw);
  *out = array;
  return 0;
}

cch_status cch_array_wrap(cch_array **out, CUarray raw, cch_context *context, void *owner, cch_release_fn release) {
  CCH__REQUIRE(out, raw);
  CCH__REQUIRE_USABLE_OR_NULL(context);
  CUDA_ARRAY3D_DESCRIPTOR found = {0};
  cch_array *array;
  bool is_new;
  CCH__RETURN_FAILURE(
      cch__box_of_handle(&array, &is_new, CCH_KIND_ARRAY, sizeof *array, raw, owner, release, __func__));
  if (is_new) {
    int status = CCH__IN_CONTEXT(context, CCH__CALL(cuArray3DGetDescriptor, (&found, raw)));
    if (status != 0) {
      cch__box_free(array);
      return status;
    }
    array->raw = raw;
    array->desc = from_driver(&found);
    cch__box_in(&array->box, &array->context, context);
  }
  *out = array;
  return 0;
}

cch_status cch_array_describe(cch_array_desc *out, const cch_array *array) {
  CCH__REQUIRE(out, array);
  *out = array->desc;
  return 0;
}

size_t cch_array_size(const cch_array *array) {
  CCH__REQUIRE_ELSE(0, array);
  return cch__texel_size(&array->desc) * array->desc.width * rows_of(&array->desc) * planes_of(&array->desc);
}

/* ---- copies ---- */

/* The context of the stream must be current. */
static int copy_now(cch_array *array, cch_deviceptr *memory, const CUDA_MEMCPY3D *box, cch_stream *stream) {
  bool captured;
  void *used[] = {array, memory};
  int status = cch__capture_keep(&captured, stream, used, 2);
  return status == 0 ? CCH__CALL(cuMemcpy3DAsync, (box, stream->raw)) : status;
}

static int copy(cch_array *array, cch_deviceptr *memory, size_t offset, cch_stream *stream, bool to_array,
                const char *operation) {
  CCH__RETURN_FAILURE(to_array ? cch__memory_check(memory, stream, operation)
                               : cch__memory_write_check(memory, stream, operation));
  const cch_array_desc *desc = &array->desc;
  size_t size = cch_array_size(array), row = cch__texel_size(desc) * desc->width;
  if (size == 0)
    return cch__fail(CCH_EINVAL, operation, "arrays of the format 0x%x cannot be copied", (unsigned)desc->format);
  if (offset > memory->size || size > memory->size - offset)
    return cch__fail(CCH_EINVAL, operation,
                     "the array has %zu bytes, and the memory %zu bytes from the offset %zu on: they do not fit", size,
                     memory->size > offset ? memory->size - offset : 0, offset);
  if (stream->context != NULL && array->context != NULL && stream->context->device != array->context->device)
    return cch__fail(CCH_EMISMATCH, operation, "the array is of device %d and the stream of device %d",
                     array->context->device, stream->context->device);
  CUDA_MEMCPY3D box = {.WidthInBytes = row, .Height = rows_of(desc), .Depth = planes_of(desc)};
  if (to_array) {
    box.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    box.srcDevice = memory->ptr + offset;
    box.srcPitch = row;
    box.srcHeight = box.Height;
    box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    box.dstArray = array->raw;
  } else {
    box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    box.srcArray = array->raw;
    box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    box.dstDevice = memory->ptr + offset;
    box.dstPitch = row;
    box.dstHeight = box.Height;
  }
  return CCH__IN_CONTEXT(stream->context, copy_now(array, memory, &box, stream));
}

cch_status cch_array_copy_from(cch_array *array, cch_deviceptr *src, size_t offset, cch_stream *stream) {
  CCH__REQUIRE_USABLE(array, src, stream);
  return copy(array, src, offset, stream, true, __func__);
}

cch_status cch_array_copy_to(cch_array *array, cch_deviceptr *dst, size_t offset, cch_stream *stream) {
  CCH__REQUIRE_USABLE(array, dst, stream);
  return copy(array, dst, offset, stream, false, __func__);
}

/* ---- mipmapped arrays ---- */

cch_status cch_mipmapped_array_create(cch_mipmapped_array **out, cch_context *context, const cch_array_desc *desc) {
  CCH__REQUIRE_USABLE(out, context, desc);
  cch__poll();
  cch_mipmapped_array *array = cch__box_new(CCH_KIND_MIPMAPPED_ARRAY, sizeof *array, __func__);
  if (array == NULL)
    return CCH_ENOMEM;
  CUDA_ARRAY3D_DESCRIPTOR wanted = for_driver(desc);
  int status = CCH__IN_CONTEXT(context, CCH__CALL(cuMipmappedArrayCreate, (&array->raw, &wanted, desc->levels)));
  CCH__RETURN_FAILURE(cch__box_created(array, status));
  array->desc = *desc;
  cch__box_in(&array->box, &array->context, context);
  *out = array;
  return 0;
}

cch_status cch_mipmapped_array_level(cch_array **out, cch_mipmapped_array *array, unsigned level) {
  CCH__REQUIRE_USABLE(out, array);
  if (level >= array->desc.levels)
    return cch__fail(CCH_EINVAL, __func__, "there is no level %u: the array has %u", level, array->desc.levels);
  cch_array *part = cch__box_new(CCH_KIND_ARRAY, sizeof *part, __func__);
  if (part == NULL)
    return CCH_ENOMEM;
  CUDA_ARRAY3D_DESCRIPTOR found = {0};
  int status = CCH__IN_CONTEXT(array->context, CCH__CALL(cuMipmappedArrayGetLevel, (&part->raw, array->raw, level)));
  if (status == 0)
    status = CCH__IN_CONTEXT(array->context, CCH__CALL(cuArray3DGetDescriptor, (&found, part->raw)));
  if (status != 0) {
    cch__box_free(part);
    return status;
  }
  part->desc = from_driver(&found);
  part->whole = cch_mipmapped_array_ref(array);
  cch__box_in(&part->box, &part->context, array->context);
  *out = part;
  return 0;
}

cch_status cch_mipmapped_array_describe(cch_array_desc *out, const cch_mipmapped_array *array) {
  CCH__REQUIRE(out, array);
  *out = array->desc;
  return 0;
}

/* ---- destruction ---- */

bool cch__array_destroy(cch_array *array) {
  return !array->box.owned || cch__destroyed(CCH__RELAXED(CCH__CALL(cuArrayDestroy, (array->raw))));
}

void cch__array_unref_held(cch_array *array) {
  cch_mipmapped_array_unref(array->whole);
  cch_context_unref(array->context);
}

bool cch__mipmapped_array_destroy(cch_mipmapped_array *array) {
  return !array->box.owned || cch__destroyed(CCH__RELAXED(CCH__CALL(cuMipmappedArrayDestroy, (array->raw))));
}

void cch__mipmapped_array_unref_held(cch_mipmapped_array *array) { cch_context_unref(array->context); }
