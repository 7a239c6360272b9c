/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/stream.h"
#include "base/reclaim.h"
#include "base/registry.h"
#include "stream/capture.h"

/* cch_stream_raw() */
CCH__DEFINE_RAW(cch_stream, CUstream, raw)

/*
 * The default streams are marked as owned, so that wrapping one releases the owner that the caller passed. They are
 * never freed, because the library holds a reference.
 */
static cch_stream legacy = {.box = {.references = 1, .kind = CCH_KIND_STREAM, .owned = true}, .raw = CU_STREAM_LEGACY};
static cch_stream per_thread = {.box = {.references = 1, .kind = CCH_KIND_STREAM, .owned = true},
                                .raw = CU_STREAM_PER_THREAD};

cch_stream *cch_stream_legacy(void) { return cch_stream_ref(&legacy); }

cch_stream *cch_stream_per_thread(void) { return cch_stream_ref(&per_thread); }

CCH__DEFINE_GET(cch_context *, cch_stream_context, cch_stream, stream, NULL, context)

cch_status cch_stream_create(cch_stream **out, cch_context *context, unsigned flags, int priority) {
  static _Atomic(uint64_t) created;
  CCH__REQUIRE_USABLE(out, context);
  cch__poll();
  cch_stream *stream = cch__box_new(CCH_KIND_STREAM, sizeof *stream, __func__);
  if (stream == NULL)
    return CCH_ENOMEM;
  stream->number = atomic_fetch_add_explicit(&created, 1, memory_order_relaxed) + 1;
  int status = cch__context_create_stream(&stream->raw, context, flags, priority);
  CCH__RETURN_FAILURE(cch__box_created(stream, status));
  cch__box_in(&stream->box, &stream->context, context);
  cch__registry_insert(stream, stream->raw);
  *out = stream;
  return 0;
}

cch_status cch_stream_wrap(cch_stream **out, CUstream raw, void *owner, cch_release_fn release) {
  CCH__REQUIRE_USABLE(out);
  if (raw == NULL || raw == CU_STREAM_LEGACY || raw == CU_STREAM_PER_THREAD) {
    cch__release_owner(owner, release);
    *out = raw == CU_STREAM_PER_THREAD ? cch_stream_per_thread() : cch_stream_legacy();
    return 0;
  }
  cch_stream *stream;
  bool is_new;
  CCH__RETURN_FAILURE(
      cch__box_of_handle(&stream, &is_new, CCH_KIND_STREAM, sizeof *stream, raw, owner, release, __func__));
  if (is_new) {
    CUcontext raw_context = NULL;
    int status = CCH__CALL(cuStreamGetCtx, (raw, &raw_context));
    if (status == 0)
      status = cch_context_wrap(&stream->context, raw_context, NULL, NULL);
    if (status != 0) {
      cch__box_free(stream);
      return status;
    }
    stream->raw = raw;
    stream->box.context = stream->context->box.context;
  }
  *out = stream;
  return 0;
}

cch_status cch_stream_flags(unsigned *out, cch_stream *stream) {
  CCH__REQUIRE_USABLE(out, stream);
  CCH__REQUIRE_CONTEXT(stream->context);
  return CCH__CALL(cuStreamGetFlags, (stream->raw, out));
}

cch_status cch_stream_priority(int *out, cch_stream *stream) {
  CCH__REQUIRE_USABLE(out, stream);
  CCH__REQUIRE_CONTEXT(stream->context);
  return CCH__CALL(cuStreamGetPriority, (stream->raw, out));
}

cch_status cch_stream_is_capturing(int *out, cch_stream *stream) {
  CCH__REQUIRE_USABLE(out, stream);
  CUstreamCaptureStatus capture;
  int status = CCH__IN_CONTEXT(stream->context, CCH__CALL(cuStreamIsCapturing, (cch__stream_here(stream), &capture)));
  if (status == 0)
    *out = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  return status;
}

cch_status cch_stream_query(cch_stream *stream) {
  CCH__REQUIRE_USABLE(stream);
  CCH__REQUIRE_CONTEXT(stream->context);
  return CCH__IN_CONTEXT(cch__stream_needs(stream), CCH__CALL(cuStreamQuery, (cch__stream_here(stream))));
}

/* The context of the stream must be current, and the mode relaxed. */
static int poll(cch_stream *stream) {
  bool captured = false;
  CUstream raw = cch__stream_here(stream);
  int status = cch__capture_ask(&captured, raw);
  if (status == 0 && captured) /* a query would invalidate the capture */
    status = cch__fail_driver(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamQuery");
  if (status == 0)
    status = CCH__CALL(cuStreamQuery, (raw));
  return status == 0 && cch__needs_wait(&stream->frees) ? CCH__CALL(cuStreamSynchronize, (raw)) : status;
}

cch_status cch_stream_poll(cch_stream *stream) {
  CCH__REQUIRE_USABLE(stream);
  CCH__REQUIRE_CONTEXT(stream->context);
  return CCH__RELAXED(CCH__IN_CONTEXT(cch__stream_needs(stream), poll(stream)));
}

cch_status cch_stream_mark(cch_event **out, cch_stream *stream) {
  CCH__REQUIRE_USABLE(out, stream);
  cch_stream *resolved;
  cch_event *event = NULL;
  CCH__RETURN_FAILURE(cch__stream_resolve(&resolved, stream, NULL));
  int status = resolved->context != NULL ? cch_event_create(&event, resolved->context, CCH_EVENT_DISABLE_TIMING)
                                         : cch__fail_driver(CUDA_ERROR_INVALID_CONTEXT, "cuEventCreate");
  if (status == 0)
    status = cch_event_record(event, resolved);
  cch_stream_unref(resolved);
  if (status == 0)
    *out = event;
  else
    cch_event_unref(event);
  return status;
}

cch_status cch_stream_synchronize(cch_stream *stream) {
  CCH__REQUIRE_USABLE(stream);
  CCH__REQUIRE_CONTEXT(stream->context);
  cch__poll_waiting();
  return CCH__IN_CONTEXT(cch__stream_needs(stream), CCH__CALL(cuStreamSynchronize, (cch__stream_here(stream))));
}

atomic_size_t cch__frees;

cch_status cch_stream_finish(cch_stream *stream) {
  CCH__REQUIRE_USABLE(stream);
  return cch__needs_wait(&stream->frees) ? cch_stream_synchronize(stream) : 0;
}

/* Makes a stream wait for an event. Either the stream is a default stream, or the caller has checked its context. */
static int wait_for_event(cch_stream *stream, CUevent event) {
  cch__poll();
  return CCH__CALL_ON(stream, cuStreamWaitEvent, (cch__stream_here(stream), event, CU_EVENT_WAIT_DEFAULT));
}

cch_status cch_stream_wait_event(cch_stream *stream, cch_event *event) {
  CCH__REQUIRE_USABLE(stream, event);
  CCH__REQUIRE_CONTEXT(event->context);
  if (stream->context != event->context)
    CCH__REQUIRE_CONTEXT(stream->context);
  return wait_for_event(stream, event->raw);
}

/*
 * Destroys an event that has no box. If the driver refuses that now, a box is made, which is queued until the driver
 * permits the call. After any other failure, which can be that of earlier work, the event is gone, and another thread
 * may have got its handle.
 */
static void destroy_event(CUevent raw) {
  CUresult result = cch__driver.cuEventDestroy != NULL ? cch__driver.cuEventDestroy(raw) : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS)
    return;
  cch__errors saved; /* the record of an earlier failure that the caller may return */
  cch__owner_enter(&saved);
  cch_event *event = cch__is_retryable(result) ? cch__box_new(CCH_KIND_EVENT, sizeof *event, __func__) : NULL;
  if (event == NULL) {
    cch__report(cch__fail_driver((int)result, "cuEventDestroy"));
  } else {
    event->raw = raw;
    event->box.owned = true;
    cch_event_unref(event);
  }
  cch__owner_leave(&saved);
}

static int create_and_record(CUevent *out, CUstream stream) {
  CCH__RETURN_FAILURE(CCH__CALL(cuEventCreate, (out, CU_EVENT_DISABLE_TIMING)));
  int status = CCH__CALL(cuEventRecord, (*out, stream));
  if (status != 0)
    destroy_event(*out);
  return status;
}

/* Finds whether a stream is being captured: -1 for the legacy stream if a stream that it would wait for is. */
static int find_capture(int *out, CUstream raw) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  int status = cch__driver.cuStreamIsCapturing != NULL ? CCH__CALL(cuStreamIsCapturing, (raw, &capture)) : 0;
  *out = status == 0 ? capture != CU_STREAM_CAPTURE_STATUS_NONE : -1;
  return status == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? 0 : status;
}

/* Records an event on `other`, whose context is current; NULL if a wait for it would lead into or out of a capture. */
static int record_unless_apart(CUevent *out, const cch_stream *stream, const cch_stream *other) {
  int waiting, ahead;
  CCH__RETURN_FAILURE(CCH__IN_CONTEXT(cch__stream_needs(stream), find_capture(&waiting, cch__stream_here(stream))));
  CCH__RETURN_FAILURE(find_capture(&ahead, cch__stream_here(other)));
  *out = NULL;
  return waiting == ahead && ahead >= 0 ? create_and_record(out, cch__stream_here(other)) : 0;
}

/* The event exists only during this call, so it gets no box. */
static int wait_for_stream(cch_stream *stream, cch_stream *other, bool unless_apart) {
  if (cch__stream_is_same(stream, other))
    return 0; /* a stream is always in order with itself */
  if (stream->context != other->context)
    CCH__REQUIRE_CONTEXT(stream->context);
  CUevent event;
  CCH__RETURN_FAILURE(CCH__IN_CONTEXT(other->context, unless_apart
                                                          ? record_unless_apart(&event, stream, other)
                                                          : create_and_record(&event, cch__stream_here(other))));
  if (event == NULL)
    return 0;
  int status = wait_for_event(stream, event);
  destroy_event(event); /* the driver keeps the event until the wait has ended */
  return status;
}

cch_status cch_stream_wait_stream(cch_stream *stream, cch_stream *other) {
  CCH__REQUIRE_USABLE(stream, other);
  return wait_for_stream(stream, other, false);
}

cch_status cch_stream_order(CUstream consumer, CUstream producer, cch_stream *known, int device) {
  CCH__REQUIRE_USABLE_OR_NULL(known);
  cch_stream *waiting = NULL, *ahead = cch_stream_ref(known);
  int status = cch__stream_of_handle(&waiting, consumer, device);
  if (status == 0)
    status = CCH__USABLE(waiting, "the consumer's stream", __func__);
  if (status == 0 && ahead == NULL)
    status = cch__stream_of_handle(&ahead, producer, device);
  if (status == 0)
    status = CCH__USABLE(ahead, "the producer's stream", __func__);
  if (status == 0)
    status = wait_for_stream(waiting, ahead, true);
  cch_stream_unref(waiting);
  cch_stream_unref(ahead);
  return status;
}

bool cch__stream_destroy(cch_stream *stream) {
  return !stream->box.owned || cch__destroyed(CCH__CALL_ON(stream, cuStreamDestroy, (stream->raw)));
}

void cch__stream_unref_held(cch_stream *stream) {
  cch_stream_unref(stream->into);
  cch_context_unref(stream->context);
}
