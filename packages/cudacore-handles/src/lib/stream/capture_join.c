/* SPDX-License-Identifier: Apache-2.0 */
/* The streams that were joined into others during a capture. */
#include "stream/capture.h"
#include "stream/stream.h"

#include <stdlib.h>

/* A stream of a capture that was joined into another one: from then on, the work of the two is ordered. */
struct cch__joined {
  struct cch__joined *next;
  cch_stream *stream, *into; /* resolved */
  uint64_t capture;
};

static void free_joined(cch__joined *first) {
  for (cch__joined *one = first, *next; one != NULL; one = next) {
    next = one->next;
    cch_stream_unref(one->stream);
    cch_stream_unref(one->into);
    free(one);
  }
}

/*
 * Forgets the latest joins whose streams nothing else uses, so that the driver's memory for these streams is released
 * during the capture. A stream that others were joined into is used by their joins. A borrowed stream can have several
 * boxes, so its joins are not forgotten.
 */
static void forget_latest(cch_graph *graph) {
  cch__joined *gone = NULL;
  pthread_mutex_lock(&cch__captures_lock);
  for (cch__joined *one;
       (one = graph->joined) != NULL && one->stream->box.owned && cch__box_is_last(&one->stream->box);) {
    graph->joined = one->next;
    one->next = gone;
    gone = one;
  }
  pthread_mutex_unlock(&cch__captures_lock);
  free_joined(gone);
}

int cch_capture_join(cch_graph *graph, cch_stream *stream, cch_stream *into) {
  CCH__REQUIRE(graph, stream);
  if (cch__is_gone(graph) && graph->capture == NULL && !cch__is_gone(stream) && cch__is_capturing(stream->raw))
    cch__capture_give_up(stream); /* the capture has failed, and could not be ended */
  CCH__REQUIRE_USABLE(graph, stream, into);
  if (graph->capture == NULL)
    return cch__fail(CCH_EINVAL, __func__, "no stream is being captured into the graph");
  if (stream == into) /* a stream is always in order with itself */
    return 0;
  /* Read before the wait, because other code can end the capture meanwhile. */
  const uint64_t thread = graph->capture->thread, id = graph->capture->id;
  if ((stream->raw == CU_STREAM_PER_THREAD || into->raw == CU_STREAM_PER_THREAD) && thread != cch__thread())
    return cch__fail(CCH_EMISMATCH, __func__, "the default stream of another thread cannot be joined here");
  forget_latest(graph);
  cch__joined *joined = malloc(sizeof *joined);
  if (joined == NULL)
    return cch__fail_nomem(__func__);
  *joined = (cch__joined){.capture = id};
  cch_context *context = graph->capture->context;
  int status = cch__stream_resolve(&joined->stream, stream, context);
  if (status == 0)
    status = cch__stream_resolve(&joined->into, into, context);
  if (status == 0)
    status = cch_stream_wait_stream(into, stream);
  if (status != 0) {
    free_joined(joined);
    return status;
  }
  pthread_mutex_lock(&cch__captures_lock);
  joined->next = graph->joined;
  graph->joined = joined;
  pthread_mutex_unlock(&cch__captures_lock);
  return 0;
}

/*
 * Returns the last stream that `stream` was joined into, directly or through others; `stream` itself if it was not
 * joined. The lock is held.
 */
static cch_stream *last_joined(const cch_graph *graph, cch_stream *stream, uint64_t capture) {
  /*
   * The latest join is first in the list. A stream that others were joined into was itself joined later than they were.
   */
  const cch__joined *end = NULL, *one = graph->joined;
  while (one != end)
    if (one->capture != capture || !cch__stream_is_same(one->stream, stream)) {
      one = one->next;
    } else {
      stream = one->into;
      end = one;
      one = graph->joined;
    }
  return stream;
}

cch_stream *cch__capture_stream(cch_graph *graph, cch_stream *stream, uint64_t capture) {
  pthread_mutex_lock(&cch__captures_lock);
  cch_stream *last = cch_stream_ref(last_joined(graph, stream, capture));
  pthread_mutex_unlock(&cch__captures_lock);
  return last;
}

void cch__joined_forget(cch_graph *graph, uint64_t capture) {
  cch__joined *gone;
  do {
    gone = NULL;
    pthread_mutex_lock(&cch__captures_lock);
    for (cch__joined **at = &graph->joined, *one; (one = *at) != NULL;)
      if (one->capture == capture && cch__box_is_last(&one->stream->box) && !cch__stream_is_default(one->stream)) {
        *at = one->next;
        one->next = gone;
        gone = one;
      } else {
        at = &one->next;
      }
    pthread_mutex_unlock(&cch__captures_lock);
    free_joined(gone);
  } while (gone != NULL);
}

void cch__joined_drop(cch_graph *graph) { free_joined(graph->joined); }
