/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/deviceptr.h"
#include "memory/overlap.h"
#include "memory/peers.h"
#include "stream/capture.h"

#include <stdlib.h>

/* The arrays of one batch, in one block of memory, in the driver's form. */
typedef struct batch {
  size_t count;           /* the number of copies that are not empty */
  size_t attribute_count; /* the number of runs of copies with equal attributes */
  CUmemcpyAttributes *attributes;
  CUdeviceptr *dst, *src;
  size_t *sizes, *first;   /* `first`: for each run, the index of its first copy */
  void **boxes;            /* the boxes of the destination and the source of each copy */
  cch__batch_copy *copies; /* the same copies, to find those that overlap */
  cch__peers *peers;       /* the devices of each copy, in the same order */
  bool waits;              /* a source must be read before the call returns */
  bool between;            /* at least one copy is between devices, which the driver's batches do not support */
} batch;

static int read_attributes(CUmemcpyAttributes *out, const cch_copy_attributes *given, const char *operation) {
  const cch_copy_attributes known = given != NULL ? *given : (cch_copy_attributes){0};
  if (known.order < 0 || known.order > CCH_COPY_ANY_ORDER || (known.flags & ~CCH_COPY_OVERLAP) != 0)
    return cch__fail(CCH_EINVAL, operation, "there is no order %d, or no flags 0x%x, of copies", known.order,
                     known.flags);
  *out = (CUmemcpyAttributes){
      .srcAccessOrder = (CUmemcpySrcAccessOrder)(known.order != 0 ? known.order : CCH_COPY_IN_STREAM_ORDER),
      .srcLocHint = {.type = (CUmemLocationType)known.src_location_type, .id = known.src_location_id},
      .dstLocHint = {.type = (CUmemLocationType)known.dst_location_type, .id = known.dst_location_id},
      .flags = known.flags};
  return 0;
}

static bool is_same(const CUmemcpyAttributes *a, const CUmemcpyAttributes *b) {
  return a->srcAccessOrder == b->srcAccessOrder && a->flags == b->flags && a->srcLocHint.type == b->srcLocHint.type &&
         a->srcLocHint.id == b->srcLocHint.id && a->dstLocHint.type == b->dstLocHint.type &&
         a->dstLocHint.id == b->dstLocHint.id;
}

static int add(batch *all, cch_deviceptr *dst, cch_deviceptr *src, size_t place, const cch_copy_attributes *attributes,
               const cch_stream *stream, const char *operation) {
  CCH__RETURN_FAILURE(cch__fail_at_place(CCH__USABLE(dst, "the argument dst[i]", operation), place));
  CCH__RETURN_FAILURE(cch__fail_at_place(CCH__USABLE(src, "the argument src[i]", operation), place));
  CCH__RETURN_FAILURE(cch__fail_at_place(cch__memory_write_check(dst, stream, operation), place));
  CCH__RETURN_FAILURE(cch__fail_at_place(cch__memory_check(src, stream, operation), place));
  if (dst->size != src->size)
    return cch__fail(CCH_EINVAL, operation, "copy_batch: buffer size mismatch at index %zu (src=%zu, dst=%zu)", place,
                     src->size, dst->size);
  CUmemcpyAttributes wanted;
  int status = read_attributes(&wanted, attributes, operation);
  if (status != 0 || src->size == 0)
    return status;
  if (all->attribute_count == 0 || !is_same(&wanted, &all->attributes[all->attribute_count - 1])) {
    all->first[all->attribute_count] = all->count;
    all->attributes[all->attribute_count++] = wanted;
  }
  if (!cch__is_one_device()) {
    CCH__RETURN_FAILURE(cch__peers_find(&all->peers[all->count], dst, src, stream));
    all->between |= all->peers[all->count].dst != NULL;
  }
  all->waits |= wanted.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  all->copies[all->count] = (cch__batch_copy){dst->ptr, dst->ptr + dst->size, src->ptr, place};
  all->boxes[2 * all->count] = dst;
  all->boxes[2 * all->count + 1] = src;
  all->dst[all->count] = dst->ptr;
  all->src[all->count] = src->ptr;
  all->sizes[all->count++] = src->size;
  return 0;
}

/*
 * Decides whether the driver makes all copies in one call. It refuses batches during a capture and on the legacy
 * stream, and crashes (13.0, H200) on a stream of a green context.
 */
static int decide_on_batch(bool *out, const batch *all, const cch_stream *stream, bool captured) {
  int is_green = 0;
  bool is_there = cch__driver.cuMemcpyBatchAsync_v13000 != NULL || cch__driver.cuMemcpyBatchAsync != NULL;
  *out = is_there && !captured && !all->between && stream->raw != CU_STREAM_LEGACY;
  if (*out && stream->context != NULL)
    CCH__RETURN_FAILURE(cch_context_is_green(&is_green, stream->context));
  *out = *out && !is_green;
  return 0;
}

static int copy_at_once(const batch *all, CUstream stream) {
  if (cch__driver.cuMemcpyBatchAsync_v13000 != NULL)
    return cch__checked((int)cch__driver.cuMemcpyBatchAsync_v13000(all->dst, all->src, all->sizes, all->count,
                                                                   all->attributes, all->first, all->attribute_count,
                                                                   stream),
                        "cuMemcpyBatchAsync");
  size_t failed;
  return CCH__CALL(cuMemcpyBatchAsync, (all->dst, all->src, all->sizes, all->count, all->attributes, all->first,
                                        all->attribute_count, &failed, stream));
}

static int copy_in_order(const batch *all, CUstream stream) {
  int status = 0;
  for (size_t i = 0; i < all->count && status == 0; i++)
    status = cch__copy_line(&all->peers[i], all->dst[i], all->src[i], all->sizes[i], stream);
  if (status == 0 && all->waits)
    status = CCH__CALL(cuStreamSynchronize, (stream));
  return status;
}

/* The context of the stream must be current. */
static int copy_all(const batch *all, cch_stream *stream, const char *operation) {
  bool captured, at_once = false;
  CCH__RETURN_FAILURE(cch__capture_keep(&captured, stream, all->boxes, 2 * all->count));
  CCH__RETURN_FAILURE(decide_on_batch(&at_once, all, stream, captured));
  if (captured && all->waits)
    return cch__fail(CCH_EINVAL, operation,
                     "a source cannot be read during the call: the stream is captured, and the graph reads it later");
  return at_once ? copy_at_once(all, stream->raw) : copy_in_order(all, stream->raw);
}

cch_status cch_copy_batch(cch_deviceptr *const *dst, cch_deviceptr *const *src, size_t count,
                          const cch_copy_attributes *const *attributes, cch_stream *stream) {
  CCH__REQUIRE_USABLE(stream);
  CCH__REQUIRE_ARRAY(dst, count);
  CCH__REQUIRE_ARRAY(src, count);
  int status = 0;
  if (count == 0)
    return 0;
  enum {
    EACH = sizeof(CUmemcpyAttributes) + sizeof(cch__peers) + sizeof(cch__batch_copy) +
           2 * (sizeof(void *) + sizeof(CUdeviceptr) + sizeof(size_t))
  };
  batch all = {.peers = calloc(count, EACH)};
  if (all.peers == NULL)
    return cch__fail_nomem(__func__);
  all.copies = (cch__batch_copy *)(all.peers + count);
  all.attributes = (CUmemcpyAttributes *)(all.copies + count);
  all.boxes = (void **)(all.attributes + count);
  all.dst = (CUdeviceptr *)(all.boxes + 2 * count);
  all.src = all.dst + count;
  all.sizes = (size_t *)(all.src + count);
  all.first = all.sizes + count;
  for (size_t i = 0; i < count && status == 0; i++)
    status = add(&all, dst[i], src[i], i, attributes != NULL ? attributes[i] : NULL, stream, __func__);
  if (status == 0)
    status = cch__check_batch_apart(all.copies, all.count, __func__);
  if (status == 0 && all.count > 0)
    status = CCH__IN_CONTEXT(stream->context, copy_all(&all, stream, __func__));
  for (size_t i = 0; i < count; i++)
    cch__peers_unref(&all.peers[i]);
  free(all.peers);
  return status;
}

/* ---- parts ---- */

enum { MAX_PITCH = INT32_MAX }; /* the limit of cuMemcpy3DAsync for the bytes from row to row */

/* Returns where a part ends in an allocation; SIZE_MAX if no memory is that large. */
static size_t end_of(size_t offset, const cch_copy_shape *s, size_t pitch, size_t rows) {
  size_t end;
  const bool overflows = __builtin_mul_overflow(s->depth - 1, rows, &end) ||
                         __builtin_add_overflow(end, s->height - 1, &end) || __builtin_mul_overflow(end, pitch, &end) ||
                         __builtin_add_overflow(end, s->width, &end) || __builtin_add_overflow(end, offset, &end);
  return overflows ? SIZE_MAX : end;
}

/* Checks one side of a copy. A pitch or height that is never used can have any value, but the driver checks it. */
static int check_side(size_t *pitch, size_t *rows, const char *name, const cch_deviceptr *memory, size_t offset,
                      const cch_copy_shape *s, const char *operation) {
  if (s->height == 1 && s->depth == 1)
    *pitch = s->width;
  else if (*pitch > MAX_PITCH)
    return cch__fail(CCH_EINVAL, operation, "%s_pitch is %zu; CUDA's limit is %d bytes", name, *pitch, MAX_PITCH);
  else if (*pitch < s->width)
    return cch__fail(CCH_EINVAL, operation, "%s_pitch is %zu, less than the width, %zu: rows would overlap", name,
                     *pitch, s->width);
  if (s->depth == 1)
    *rows = s->height;
  else if (*rows < s->height)
    return cch__fail(CCH_EINVAL, operation, "%s_height is %zu, less than the height, %zu: slices would overlap", name,
                     *rows, s->height);
  const size_t end = end_of(offset, s, *pitch, *rows);
  return end <= memory->size
             ? 0
             : cch__fail(CCH_EINVAL, operation, "the part ends %zu bytes into %s, which has %zu; make it smaller", end,
                         name, memory->size);
}

static int copy_box(cch_deviceptr *dst, cch_deviceptr *src, const CUDA_MEMCPY3D *box, cch_stream *stream,
                    const char *operation) {
  cch__peers peers;
  CCH__RETURN_FAILURE(cch__memory_keep(dst, src, stream, operation));
  CCH__RETURN_FAILURE(cch__peers_find(&peers, dst, src, stream));
  int status = cch__copy_box(&peers, box, stream->raw);
  cch__peers_unref(&peers);
  return status;
}

cch_status cch_copy_part(cch_deviceptr *dst, cch_deviceptr *src, const cch_copy_shape *shape, cch_stream *stream) {
  CCH__REQUIRE_USABLE(dst, src, shape, stream);
  cch_copy_shape s = *shape;
  if (s.width == 0 || s.height == 0 || s.depth == 0)
    return cch__fail(CCH_EINVAL, __func__, "the part has a width of %zu, a height of %zu, a depth of %zu: it is empty",
                     s.width, s.height, s.depth);
  CCH__RETURN_FAILURE(check_side(&s.dst_pitch, &s.dst_height, "dst", dst, s.dst_offset, &s, __func__));
  CCH__RETURN_FAILURE(check_side(&s.src_pitch, &s.src_height, "src", src, s.src_offset, &s, __func__));
  CUDA_MEMCPY3D copy = {.srcDevice = src->ptr + s.src_offset,
                        .srcPitch = s.src_pitch,
                        .srcHeight = s.src_height,
                        .dstDevice = dst->ptr + s.dst_offset,
                        .dstPitch = s.dst_pitch,
                        .dstHeight = s.dst_height,
                        .WidthInBytes = s.width,
                        .Height = s.height,
                        .Depth = s.depth};
  CCH__RETURN_FAILURE(cch__check_box_apart(&copy, __func__));
  return CCH__IN_CONTEXT(stream->context, copy_box(dst, src, &copy, stream, __func__));
}
