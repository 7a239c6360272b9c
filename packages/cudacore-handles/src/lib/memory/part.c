/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that several boxes share: an allocation and its parts, or a mapping of another process's memory and its
 * imports. Each part has its own box, with a reference to the box of the whole. When a part with a stream is closed,
 * the whole records that stream. The memory is freed with the last of its boxes, after the work of all recorded
 * streams.
 */
#include "memory/part.h"

#include "driver/current.h"
#include "memory/deviceptr.h"
#include "stream/capture.h"
#include "stream/stream.h"
#include "base/reclaim.h"

#include <pthread.h>
#include <stdlib.h>

/* A stream on which a part was closed. */
struct cch__use {
  cch__use *next;
  cch_stream *stream;
  uint64_t thread; /* the thread, if `stream` is its per-thread default stream */
};

struct cch__part {
  cch_deviceptr ptr; /* `ptr.backing` is the whole */
  cch__use *use;     /* allocated in advance, because closing a part must not fail */
  cch__part *within; /* the next larger part with trackers, which counts as freed after the last part in it */
};

enum { MANY_USES = 16 };

static pthread_mutex_t uses_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- parts ---- */

cch_deviceptr *cch_deviceptr_whole(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(NULL, ptr);
  return (cch_deviceptr *)cch__whole(ptr);
}

size_t cch_deviceptr_offset(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(0, ptr);
  return (size_t)(ptr->ptr - cch_deviceptr_whole(ptr)->ptr);
}

cch__part *cch__part_new(const char *operation) {
  cch__part *part = cch__box_new(CCH_KIND_DEVICEPTR, sizeof *part, operation);
  if (part == NULL)
    return NULL;
  part->ptr.origin = CCH__PART;
  part->use = calloc(1, sizeof *part->use);
  if (part->use == NULL) {
    cch__box_discard(part);
    cch__fail_nomem(operation);
    return NULL;
  }
  return part;
}

void cch__part_discard(cch__part *part) {
  free(part->use);
  cch__box_discard(part);
}

int cch__part_begin(cch__part *part, cch_deviceptr *whole, size_t offset, size_t size, const char *operation) {
  if (offset > whole->size || size > whole->size - offset)
    return cch__fail(CCH_EMISMATCH, operation, "%zu bytes from byte %zu on are not within the %zu bytes of the memory",
                     size, offset, whole->size);
  part->ptr.ptr = whole->ptr + offset;
  part->ptr.size = size;
  part->ptr.read_only = whole->read_only;
  part->ptr.backing = &whole->box;
  part->ptr.box.context = whole->origin == CCH__FROM_GRAPHICS ? &whole->box : whole->box.context;
  return 0;
}

cch_deviceptr *cch__part_ptr(cch__part *part) { return &part->ptr; }

/*
 * Returns the smallest part with trackers that contains an allocation or is the allocation itself. NULL if there is
 * none, or if the allocation is a whole.
 */
static cch__part *tracked_part(cch_deviceptr *ptr) {
  if (ptr->origin != CCH__PART)
    return NULL;
  cch__part *part = (cch__part *)ptr;
  return ptr->tracks != NULL ? part : part->within;
}

int cch_deviceptr_part(cch_deviceptr **out, cch_deviceptr *ptr, size_t offset, size_t size) {
  CCH__REQUIRE_USABLE(out, ptr);
  if (offset > ptr->size || size > ptr->size - offset)
    return cch__fail(CCH_EINVAL, __func__, "%zu bytes from byte %zu on are not within the %zu bytes of the allocation",
                     size, offset, ptr->size);
  cch__part *part = cch__part_new(__func__);
  if (part == NULL)
    return CCH_ENOMEM;
  cch_deviceptr *whole = cch_deviceptr_whole(ptr);
  int status = cch__part_begin(part, whole, cch_deviceptr_offset(ptr) + offset, size, __func__);
  if (status != 0) {
    cch__part_discard(part);
    return status;
  }
  cch__box_ref(whole);
  part->within = cch__box_ref(tracked_part(ptr));
  part->ptr.context = ptr->context != NULL ? cch_context_ref(ptr->context) : NULL;
  *out = &part->ptr;
  return 0;
}

/* ---- closing parts ---- */

/*
 * Returns the stream of a use. If the stream was lost with its context, its work has ended, and the legacy stream is
 * returned. `checked`: a context that was just checked and is not lost, or NULL.
 */
static cch_stream *stream_of(const cch__use *use, const cch__box *checked) {
  const cch_context *context = use->stream->context;
  if ((const cch__box *)context == checked || !cch__context_is_lost(context))
    return cch__stream_for_thread(use->stream, use->thread);
  cch_stream *legacy = cch_stream_legacy();
  cch_stream_unref(legacy); /* the box is never freed */
  return legacy;
}

static void forget(cch__use *use) {
  cch_stream_unref(use->stream);
  free(use);
}

/* Adds a use, unless its stream already has one. Returns the number of uses. */
static size_t add_use(cch_deviceptr *whole, cch__use *added) {
  pthread_mutex_lock(&uses_lock);
  cch__use *known = whole->uses;
  while (known != NULL && (known->stream != added->stream || known->thread != added->thread))
    known = known->next;
  if (known == NULL) {
    added->next = whole->uses;
    whole->uses = added;
    whole->use_count++;
    added = NULL;
  }
  size_t count = whole->use_count;
  pthread_mutex_unlock(&uses_lock);
  if (added != NULL)
    forget(added);
  return count;
}

/* Returns whether all work on a stream has ended. */
static bool is_done(const cch__use *use) {
  const cch_stream *stream = stream_of(use, NULL);
  return !cch__is_capturing(stream->raw) && cch__driver.cuStreamQuery != NULL &&
         cch__driver.cuStreamQuery(stream->raw) == CUDA_SUCCESS;
}

/* Removes uses whose work has ended, so that long-lived memory does not keep every stream on which it was used. */
static void prune(cch_deviceptr *whole) {
  pthread_mutex_lock(&uses_lock);
  cch__use *uses = whole->uses, *next;
  whole->uses = NULL;
  whole->use_count = 0;
  pthread_mutex_unlock(&uses_lock);
  cch__current current;
  if (cch__current_enter(&current, whole->context) != 0)
    current.switched = false;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  for (cch__use *use = uses; use != NULL; use = next) {
    next = use->next;
    if (next != NULL && is_done(use)) /* one use remains, because the end of a mapping needs a stream */
      forget(use);
    else
      add_use(whole, use);
  }
  cch__relaxed_leave(mode);
  cch__current_leave(&current);
}

void cch__part_end(cch_deviceptr *ptr) {
  cch__part *part = (cch__part *)ptr;
  cch_stream *stream = atomic_load_explicit(&ptr->stream, memory_order_acquire);
  if (stream == NULL) /* a part without a stream was used on the stream of the whole */
    return;
  cch_deviceptr *whole = (cch_deviceptr *)ptr->backing;
  cch__use *left = part->use;
  left->stream = cch_stream_ref(stream);
  left->thread = ptr->thread;
  part->use = NULL;
  if (add_use(whole, left) >= MANY_USES)
    prune(whole);
}

int cch__use_record(cch_deviceptr *whole, cch_stream *stream, const char *operation) {
  cch__use *use = calloc(1, sizeof *use);
  if (use == NULL)
    return cch__fail_nomem(operation);
  use->stream = cch_stream_ref(stream);
  use->thread = cch__thread();
  if (add_use(whole, use) >= MANY_USES)
    prune(whole);
  return 0;
}

void cch__uses_drop(cch_deviceptr *ptr) {
  if (ptr->origin == CCH__PART) {
    free(((cch__part *)ptr)->use);
    cch__box_unref(((cch__part *)ptr)->within);
  }
  for (cch__use *use = ptr->uses, *next; use != NULL; use = next) {
    next = use->next;
    forget(use);
  }
}

/* ---- freeing the whole ---- */

/* Returns whether two boxes are of the same stream: each wrap of a foreign stream makes a new box. */
static bool is_same(const cch_stream *a, const cch_stream *b) {
  return a == b || (a->raw == b->raw && a->context == b->context && !cch__is_gone(a) && !cch__is_gone(b));
}

/* Makes `join` wait for the work of a stream; false if that is not possible now. */
static bool join_stream(cch_stream *join, cch_stream *stream) {
  if (is_same(stream, join) || cch__is_gone(stream))
    return true;
  int status = cch_stream_wait_stream(join, stream);
  if (cch__not_now(status))
    return false;
  if (status != 0) { /* instead of `join`, the host waits */
    cch__report(status);
    cch__report(CCH__CALL(cuStreamSynchronize, (stream->raw)));
  }
  return true;
}

/*
 * Gets a new stream to wait for all others, so that no stream of the program has to wait for another one. If it cannot
 * be created, returns one of the memory's streams.
 */
static int stream_to_join(cch_stream **out, const cch_deviceptr *whole, cch_context *context, cch_stream *own) {
  int status = context != NULL ? cch_stream_create(out, context, CU_STREAM_NON_BLOCKING, 0) : 0;
  if (cch__not_now(status))
    return status;
  cch__report(status);
  if (status != 0 || context == NULL)
    *out = cch_stream_ref(own != NULL ? own : stream_of(whole->uses, whole->box.context));
  return 0;
}

/*
 * Frees memory after the work of all its streams. `context` is current, and may be NULL for memory that this library
 * did not allocate.
 */
static bool end_behind_all(cch_deviceptr *whole, cch_context *context, cch_stream *own) {
  if (own != NULL && cch__is_capturing(own->raw))
    return false;
  for (const cch__use *use = whole->uses; use != NULL; use = use->next)
    if (cch__is_capturing(stream_of(use, whole->box.context)->raw))
      return false;
  cch_stream *join = NULL;
  if (stream_to_join(&join, whole, context, own) != 0)
    return false;
  bool ended = own == NULL || join_stream(join, own);
  for (const cch__use *use = whole->uses; use != NULL && ended; use = use->next)
    ended = join_stream(join, stream_of(use, whole->box.context));
  ended = ended && cch__deviceptr_end_on(whole, join);
  cch_stream_unref(join);
  return ended;
}

/* Replaces each stream that was joined in the capture of the memory by the stream that it was joined into. */
static void follow_joins(cch_deviceptr *whole) {
  for (cch__use *use = whole->uses; use != NULL; use = use->next) {
    cch_stream *joined = cch__capture_stream(whole->graph, use->stream, whole->capture);
    cch_stream_unref(use->stream);
    use->stream = joined;
  }
}

bool cch__end_behind_uses(cch_deviceptr *whole, cch_stream *own) {
  if (whole->graph != NULL)
    follow_joins(whole);
  if (own != NULL && cch__context_is_lost(own->context)) /* the work of the stream has ended */
    own = NULL;
  /* In most cases all uses are of one stream. */
  bool one = true;
  cch_stream *first = own != NULL ? own : stream_of(whole->uses, whole->box.context);
  for (const cch__use *use = whole->uses; use != NULL && one; use = use->next)
    one = is_same(stream_of(use, whole->box.context), first);
  if (one)
    return cch__deviceptr_end_on(whole, first);
  cch__current current;
  cch_context *context = whole->context, *after = NULL;
  int status = cch__current_enter(&current, context);
  if (status == CCH_EGONE) {
    context = after = cch__context_after(context);
    status = after != NULL ? cch__current_enter(&current, after) : status;
  }
  bool ended = false;
  if (!cch__not_now(status)) {
    CUstreamCaptureMode mode = cch__relaxed_enter();
    ended = end_behind_all(whole, context, own);
    cch__relaxed_leave(mode);
    if (status == 0)
      cch__current_leave(&current);
    else
      cch__report(status);
  }
  cch_context_unref(after);
  return ended;
}
