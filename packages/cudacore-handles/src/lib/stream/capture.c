/* SPDX-License-Identifier: Apache-2.0 */
/* The captures that streams are in. */
#include "stream/capture.h"

#include "base/reclaim.h"
#include "base/registry.h"
#include "driver/current.h"
#include "stream/stream.h"

pthread_mutex_t cch__captures_lock = PTHREAD_MUTEX_INITIALIZER;

static atomic_size_t captures;

size_t cch_capture_count(void) { return atomic_load_explicit(&captures, memory_order_relaxed); }

/* ---- the captures of this library ---- */

/*
 * Sets or clears the capture of a stream; the lock is held. The handle of the per-thread default stream means a
 * different stream on each thread, so for that stream the driver is queried each time.
 */
static void set_stream_capture(cch_stream *stream, cch_graph *old, cch_graph *graph, uint64_t id) {
  if (atomic_load_explicit(&stream->capture, memory_order_relaxed) == old && stream->raw != CU_STREAM_PER_THREAD) {
    atomic_store_explicit(&stream->capture_id, id, memory_order_relaxed);
    atomic_store_explicit(&stream->capture, graph, memory_order_release);
  }
}

cch__capture *cch__capture_swap(cch_graph *graph, cch__capture *capture) {
  pthread_mutex_lock(&cch__captures_lock);
  cch__capture *ended = graph->capture;
  graph->capture = capture;
  if (capture != NULL)
    set_stream_capture(capture->stream, NULL, graph, capture->id);
  else
    set_stream_capture(ended->stream, graph, NULL, 0);
  pthread_mutex_unlock(&cch__captures_lock);
  atomic_fetch_add_explicit(&captures, capture != NULL ? 1 : (size_t)-1, memory_order_relaxed);
  return ended;
}

static void clear_capture(cch_stream *stream, cch_graph *known) {
  pthread_mutex_lock(&cch__captures_lock);
  set_stream_capture(stream, known, NULL, 0);
  pthread_mutex_unlock(&cch__captures_lock);
}

bool cch__graph_is_captured(const cch_graph *graph) {
  pthread_mutex_lock(&cch__captures_lock);
  bool captured = graph->capture != NULL;
  pthread_mutex_unlock(&cch__captures_lock);
  return captured;
}

void cch__stream_leak(cch_stream *stream) {
  if (stream->raw != CU_STREAM_PER_THREAD) /* on other threads, this handle means other streams */
    cch__invalidate(stream);
}

/* ---- queries of the driver ---- */

static int query_info(cch__capture_info *out, CUstream stream) {
  if (cch__driver.cuStreamGetCaptureInfo_v12030 != NULL)
    return (int)cch__driver.cuStreamGetCaptureInfo_v12030(stream, &out->status, &out->id, &out->graph,
                                                          &out->dependencies, &out->edges, &out->count);
  return (int)cch__driver.cuStreamGetCaptureInfo_v11030(stream, &out->status, &out->id, &out->graph, &out->dependencies,
                                                        &out->count);
}

int cch__capture_info_of(cch__capture_info *out, CUstream stream) {
  static const char name[] = "cuStreamGetCaptureInfo";
  *out = (cch__capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
  if (cch__driver.cuStreamGetCaptureInfo_v12030 == NULL && cch__driver.cuStreamGetCaptureInfo_v11030 == NULL)
    return cch__fail_missing(name);
  int status = cch__checked(query_info(out, stream), name);
  if (status != 0 || out->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    *out = (cch__capture_info){.status = out->status}; /* the driver may have left the other fields unset */
  return status;
}

int cch__capture_ask(bool *out, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = CUDA_SUCCESS;
  if (cch__driver.cuStreamIsCapturing != NULL)
    result = cch__driver.cuStreamIsCapturing(stream, &status);
  /* The legacy stream is refused while a blocking stream is being captured. */
  *out = cch__is_retryable(result) || (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
  return cch__is_retryable(result) ? 0 : cch__checked((int)result, "cuStreamIsCapturing");
}

bool cch__is_capturing(CUstream stream) {
  bool is_capturing;
  CCH__ASIDE(cch__capture_ask(&is_capturing, stream));
  return is_capturing;
}

/* Returns the graph of a capture that began on this stream, as a new reference; NULL if there is none. */
static cch_graph *known_graph(cch_stream *stream) {
  if (atomic_load_explicit(&stream->capture, memory_order_relaxed) == NULL)
    return NULL;
  pthread_mutex_lock(&cch__captures_lock);
  cch_graph *known = atomic_load_explicit(&stream->capture, memory_order_relaxed);
  if (known != NULL && !cch__box_try_ref(&known->box))
    known = NULL;
  pthread_mutex_unlock(&cch__captures_lock);
  return known;
}

/*
 * Queries the driver with one call, which each launch makes. Other code may have ended our capture through the stream's
 * handle, and begun another one. In that case, our capture is forgotten. The stream's context must be current.
 */
int cch__capture_query(bool *out, cch_stream *stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result;
  const char *name = "cuStreamIsCapturing";
  cch_graph *known = atomic_load_explicit(&stream->capture, memory_order_acquire);
  if (known == NULL || cch__driver.cuStreamGetCaptureInfo == NULL) {
    if (cch__driver.cuStreamIsCapturing == NULL) { /* captures cannot be queried, so any stream may be in one */
      *out = cch_capture_count() != 0;
      return 0;
    }
    result = cch__driver.cuStreamIsCapturing(stream->raw, &status);
  } else {
    cuuint64_t id = 0, known_id = atomic_load_explicit(&stream->capture_id, memory_order_relaxed);
    name = "cuStreamGetCaptureInfo";
    result = cch__driver.cuStreamGetCaptureInfo(stream->raw, &status, &id);
    if (result == CUDA_SUCCESS &&
        (status == CU_STREAM_CAPTURE_STATUS_NONE || (status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != known_id)))
      clear_capture(stream, known);
  }
  /*
   * While a blocking stream captures, the legacy stream reports CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and the driver
   * refuses work on it.
   */
  *out = result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return cch__is_retryable(result) ? 0 : cch__checked((int)result, name);
}

int cch__capture_graph(cch_graph **out, cch_stream *stream) {
  *out = known_graph(stream);
  if (*out != NULL)
    return 0;
  cch__capture_info info; /* an event may have brought the stream into a capture */
  CCH__RETURN_FAILURE(CCH__IN_CONTEXT(stream->context, cch__capture_info_of(&info, stream->raw)));
  *out = info.graph != NULL ? cch__registry_find(CCH_KIND_GRAPH, info.graph) : NULL;
  return 0;
}

/* ---- joins ---- */

/*
 * Notes that a stream was joined into another one, to which this takes over a reference. The other stream goes on, so
 * what it was joined into before is forgotten: joins never form a cycle.
 */
static void note_join(cch_stream *stream, cch_stream *into, uint64_t capture) {
  pthread_mutex_lock(&cch__captures_lock);
  cch_stream *before[] = {stream->into, into->into};
  into->into = NULL;
  stream->into = into;
  stream->joined_in = capture;
  pthread_mutex_unlock(&cch__captures_lock);
  cch__unref_later(before[0]);
  cch__unref_later(before[1]);
}

cch_status cch_capture_join(cch_graph *graph, cch_stream *stream, cch_stream *into) {
  CCH__REQUIRE(graph, stream);
  if (cch__is_gone(graph) && graph->capture == NULL && !cch__is_gone(stream) && cch__is_capturing(stream->raw))
    cch__stream_leak(stream); /* the capture has failed, and could not be ended */
  CCH__REQUIRE_USABLE(graph, stream, into);
  if (graph->capture == NULL)
    return cch__fail(CCH_EINVAL, __func__, "no stream is being captured into the graph");
  if (stream == into) /* a stream is always in order with itself */
    return 0;
  if (stream->raw == CU_STREAM_PER_THREAD)
    return cch__fail(CCH_EINVAL, __func__, "the per-thread default stream cannot be joined into another stream");
  if (into->raw == CU_STREAM_PER_THREAD && graph->capture->thread != cch__thread())
    return cch__fail(CCH_EMISMATCH, __func__, "the default stream of another thread cannot be joined here");
  const uint64_t id = graph->capture->id; /* read before the wait: other code can end the capture meanwhile */
  cch_stream *resolved;
  CCH__RETURN_FAILURE(cch__stream_resolve(&resolved, into, graph->capture->context));
  const int status = cch_stream_wait_stream(into, stream);
  if (status == 0)
    note_join(stream, resolved, id);
  else
    cch__unref_later(resolved);
  cch__poll();
  return status;
}

cch_stream *cch__capture_stream(cch_stream *stream, uint64_t capture) {
  pthread_mutex_lock(&cch__captures_lock);
  while (stream != NULL && stream->into != NULL && stream->joined_in == capture)
    stream = stream->into;
  cch_stream *last = cch_stream_ref(stream);
  pthread_mutex_unlock(&cch__captures_lock);
  return last;
}
