/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/current.h"
#include "stream/capture.h"
#include "stream/stream.h"
#include "base/reclaim.h"
#include "base/registry.h"

#include <stdlib.h>

/* cch_event_raw() */
CCH__DEFINE_RAW(cch_event, CUevent, raw)

cch_status cch_event_create(cch_event **out, cch_context *context, unsigned flags) {
  CCH__REQUIRE_USABLE(out, context);
  if ((flags & CCH_EVENT_INTERPROCESS) && !(flags & CCH_EVENT_DISABLE_TIMING))
    return cch__fail(CCH_EINVAL, __func__, "an interprocess event cannot measure time");
  cch__poll();
  cch_event *event = cch__box_new(CCH_KIND_EVENT, sizeof *event, __func__);
  if (event == NULL)
    return CCH_ENOMEM;
  int status = CCH__IN_CONTEXT(context, CCH__CALL(cuEventCreate, (&event->raw, flags)));
  CCH__RETURN_FAILURE(cch__box_created(event, status));
  event->flags = flags;
  cch__box_in(&event->box, &event->context, context);
  cch__registry_insert(event, event->raw);
  *out = event;
  return 0;
}

/* The driver cannot report the context of an event. */
cch_status cch_event_wrap(cch_event **out, CUevent raw, void *owner, cch_release_fn release) {
  CCH__REQUIRE_USABLE(out, raw);
  bool is_new;
  int status = cch__box_of_handle(out, &is_new, CCH_KIND_EVENT, sizeof **out, raw, owner, release, __func__);
  if (status == 0 && is_new) {
    (*out)->raw = raw;
    (*out)->flags = CCH_EVENT_UNKNOWN;
    cch__box_in(&(*out)->box, &(*out)->context, NULL);
  }
  return status;
}

CCH__DEFINE_GET(unsigned, cch_event_flags, cch_event, event, 0, flags)
CCH__DEFINE_GET(cch_context *, cch_event_context, cch_event, event, NULL, context)

/* Finds whether the current context differs from `context`, but is of the same device. */
static int shares_device(bool *out, const cch_context *context) {
  CUcontext current;
  CUdevice device = 0;
  int status = CCH__CALL(cuCtxGetCurrent, (&current));
  if (status != 0 || current == NULL || current == context->raw)
    return status;
  status = CCH__CALL(cuCtxGetDevice, (&device));
  *out = status == 0 && device == context->device;
  return status;
}

/*
 * Returns the result of a record. Whether the event was recorded in a capture is asked when it is first queried,
 * because most events are never queried. Only for a stream that could then not be found, or would need another context,
 * the driver is asked now. The context of the record is current, unless the stream is of a context.
 */
static int recorded(cch_event *event, const cch_stream *stream, int status) {
  CCH__RETURN_FAILURE(status);
  const bool asks_later = stream->number != 0 && stream->context == event->context;
  if (asks_later) {
    atomic_store_explicit(&event->stream_number, stream->number, memory_order_relaxed);
  } else {
    bool captured;
    status = cch__capture_ask(&captured, cch__stream_here(stream));
    atomic_store_explicit(&event->captured, captured, memory_order_relaxed);
  }
  atomic_store_explicit(&event->recorded_on, asks_later ? stream->raw : NULL, memory_order_release);
  return status;
}

static int record_here(cch_event *event, const cch_stream *stream) {
  return recorded(event, stream, CCH__CALL(cuEventRecord, (event->raw, cch__stream_here(stream))));
}

/* Records an event on a stream of its device. */
static int record(cch_event *event, const cch_stream *stream) {
  if (!cch__stream_is_default(stream))
    return recorded(event, stream, CCH__CALL_ON(stream, cuEventRecord, (event->raw, stream->raw)));
  if (stream->context != NULL)
    return CCH__IN_CONTEXT(stream->context, record_here(event, stream));
  bool is_here = false;
  if (event->context != NULL)
    CCH__RETURN_FAILURE(shares_device(&is_here, event->context));
  /*
   * A default stream is that of the current context, if the event can be recorded in that context. The green contexts
   * and the primary context of a device share events.
   */
  if (is_here && cch__driver.cuEventRecord != NULL) {
    int status = (int)cch__driver.cuEventRecord(event->raw, stream->raw);
    if (status != CUDA_ERROR_INVALID_HANDLE)
      return recorded(event, stream, cch__checked(status, "cuEventRecord"));
  }
  /* Otherwise the event is recorded in its own context. */
  return CCH__IN_CONTEXT(event->context, record_here(event, stream));
}

cch_status cch_event_record(cch_event *event, cch_stream *stream) {
  CCH__REQUIRE_USABLE(event, stream);
  CCH__REQUIRE_CONTEXT(event->context);
  if (stream->context != event->context)
    CCH__REQUIRE_CONTEXT(stream->context);
  cch__poll();
  /*
   * Events are shared by the green contexts and the primary context of a device, so within a device the driver decides.
   */
  if (stream->context != NULL && event->context != NULL && stream->context->device != event->context->device)
    return cch__fail(CCH_EMISMATCH, __func__, "the event is of device %d and the stream of device %d",
                     event->context->device, stream->context->device);
  return record(event, stream);
}

cch_status cch_event_behind_context(cch_event **out, cch_context *context) {
  CCH__REQUIRE_USABLE(out, context);
  cch_event *event = NULL;
  int status = cch_event_create(&event, context, CCH_EVENT_DISABLE_TIMING);
  if (status == 0)
    status = CCH__CALL(cuCtxRecordEvent, (context->raw, event->raw));
  if (status == 0)
    *out = event;
  else
    cch_event_unref(event);
  return status;
}

static void note_captured(cch_event *event, bool captured) {
  atomic_store_explicit(&event->captured, captured, memory_order_relaxed);
  atomic_store_explicit(&event->recorded_on, NULL, memory_order_release);
}

/* Asks the stream of the last record, which stays in a capture until that ends. If it is gone, anything is possible. */
static void ask_stream(cch_event *event, CUstream raw) {
  cch_stream *stream = cch__registry_find(CCH_KIND_STREAM, raw);
  note_captured(event, stream == NULL ||
                           stream->number != atomic_load_explicit(&event->stream_number, memory_order_relaxed) ||
                           cch__is_capturing(raw));
  cch_stream_unref(stream);
}

/*
 * Fails if the event was recorded in a capture, whichever code began it: a query would invalidate that capture (13.0,
 * H200), in all capture modes. The records of other code are not noted. So for borrowed events, and before an event is
 * refused, the driver is asked by cuEventElapsedTime, which affects no capture, and has an answer for events without
 * timing, too. For all other events it would be too slow.
 */
static inline int check_recorded(cch_event *event, const char *operation) {
  CUstream raw = atomic_load_explicit(&event->recorded_on, memory_order_acquire);
  if (raw != NULL)
    ask_stream(event, raw);
  bool captured = atomic_load_explicit(&event->captured, memory_order_relaxed);
  if ((captured || !event->box.owned) && cch__driver.cuEventElapsedTime != NULL) {
    float ignored;
    captured = cch__driver.cuEventElapsedTime(&ignored, event->raw, event->raw) == CUDA_ERROR_CAPTURED_EVENT;
    note_captured(event, captured);
  }
  return captured ? cch__fail_driver(CUDA_ERROR_CAPTURED_EVENT, operation) : 0;
}

cch_status cch_event_query(cch_event *event) {
  CCH__REQUIRE_USABLE(event);
  CCH__REQUIRE_CONTEXT(event->context);
  CCH__RETURN_FAILURE(check_recorded(event, "cuEventQuery"));
  return CCH__CALL(cuEventQuery, (event->raw));
}

cch_status cch_event_poll(cch_event *event) {
  CCH__REQUIRE_USABLE(event);
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = cch__context_check(event->context, __func__);
  if (status == 0)
    status = check_recorded(event, "cuEventQuery");
  if (status == 0)
    status = CCH__CALL(cuEventQuery, (event->raw));
  cch__relaxed_leave(mode);
  return status;
}

cch_status cch_event_finish(cch_event *event) {
  CCH__REQUIRE_USABLE(event);
  if (!cch__needs_wait(&event->frees))
    return 0;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = cch_event_synchronize(event);
  cch__relaxed_leave(mode);
  return status;
}

cch_status cch_event_synchronize(cch_event *event) {
  CCH__REQUIRE_USABLE(event);
  CCH__REQUIRE_CONTEXT(event->context);
  CCH__RETURN_FAILURE(check_recorded(event, "cuEventSynchronize"));
  cch__poll_waiting();
  return CCH__CALL(cuEventSynchronize, (event->raw));
}

cch_status cch_event_elapsed(float *out, cch_event *start, cch_event *end) {
  CCH__REQUIRE_USABLE(out, start, end);
  CCH__REQUIRE_CONTEXT(start->context);
  if (end->context != start->context)
    CCH__REQUIRE_CONTEXT(end->context);
  return CCH__CALL(cuEventElapsedTime, (out, start->raw, end->raw));
}

bool cch__event_destroy(cch_event *event) {
  return !event->box.owned || cch__destroyed(CCH__CALL(cuEventDestroy, (event->raw)));
}

void cch__event_unref_held(cch_event *event) {
  free(atomic_load_explicit(&event->name, memory_order_acquire));
  cch_context_unref(event->context);
}
