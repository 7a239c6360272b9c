/* SPDX-License-Identifier: Apache-2.0 */
/* The streams that were joined into others during a capture. */
#include "stream/capture.h"
#include "stream/stream.h"

#include <stdlib.h>

/* A stream of a capture that was joined into another one: from then on, the work of the two is ordered. */
struct cch__joined {
  struct cch__joined *next;
  cch_stream *stream, *into;
  uint64_t capture;
  uint64_t thread; /* if one of the two is the per-thread default stream, its thread */
};

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
  cch__joined *joined = malloc(sizeof *joined);
  if (joined == NULL)
    return cch__fail_nomem(__func__);
  int status = cch_stream_wait_stream(into, stream);
  if (status != 0) {
    free(joined);
    return status;
  }
  pthread_mutex_lock(&cch__captures_lock);
  *joined = (cch__joined){graph->joined, cch_stream_ref(stream), cch_stream_ref(into), id, thread};
  graph->joined = joined;
  pthread_mutex_unlock(&cch__captures_lock);
  return 0;
}

/*
 * Returns the last stream that `stream` was joined into, directly or through others; `stream` itself if it was not
 * joined. On any thread but its own, a per-thread default stream is replaced by the legacy stream, which is ordered
 * after it. The lock is held.
 */
static cch_stream *last_joined(const cch_graph *graph, cch_stream *stream, uint64_t capture) {
  /*
   * The latest join is first in the list. A stream that others were joined into was itself joined later than they were.
   */
  const cch__joined *end = NULL, *one = graph->joined;
  uint64_t thread = cch__thread();
  while (one != end)
    if (one->stream != stream || one->capture != capture) {
      one = one->next;
    } else {
      stream = one->into;
      thread = one->thread;
      end = one;
      one = graph->joined;
    }
  return cch__stream_for_thread(stream, thread);
}

cch_stream *cch__capture_stream(cch_graph *graph, cch_stream *stream, uint64_t capture) {
  pthread_mutex_lock(&cch__captures_lock);
  cch_stream *last = cch_stream_ref(last_joined(graph, stream, capture));
  pthread_mutex_unlock(&cch__captures_lock);
  return last;
}

static void free_joined(cch__joined *first) {
  for (cch__joined *one = first, *next; one != NULL; one = next) {
    next = one->next;
    cch_stream_unref(one->stream);
    cch_stream_unref(one->into);
    free(one);
  }
}

void cch__joined_forget(cch_graph *graph, uint64_t capture) {
  cch__joined *gone;
  do {
    gone = NULL;
    pthread_mutex_lock(&cch__captures_lock);
    for (cch__joined **at = &graph->joined, *one; (one = *at) != NULL;)
      if (one->capture == capture && cch__box_is_last(&one->stream->box)) {
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
