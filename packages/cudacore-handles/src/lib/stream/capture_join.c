/* SPDX-License-Identifier: Apache-2.0 */
/* The streams that were joined into others during a capture. */
#include "stream/capture.h"
#include "stream/stream.h"
#include "base/reclaim.h"

#include <cudacore_shared/table.h>

/* A stream of a capture that was joined into another one: from then on, the work of the two is ordered. */
typedef struct join {
  cch_stream *stream, *into; /* resolved */
  uint64_t capture;
  size_t earlier; /* the number of the join before this one of a stream with the same handle; 0: there is none */
} join;

/* The number of the latest join of the streams with a handle. */
typedef struct latest {
  CUstream raw;
  size_t number;
} latest;

/* Joins, the latest last. Their numbers begin at 1. */
struct cch__joined {
  cch__table latest; /* of `latest` */
  size_t count, capacity;
  join items[];
};

static size_t latest_of(const cch__joined *joined, const cch_stream *stream) {
  const latest *found = cch__table_find(&joined->latest, sizeof *found, stream->raw);
  return found != NULL ? found->number : 0;
}

/* Adds a join, for which there is room. */
static void add(cch__joined *joined, join one) {
  latest *entry = cch__table_enter(&joined->latest, sizeof *entry, one.stream->raw);
  one.earlier = entry->number;
  joined->items[joined->count++] = one;
  entry->number = joined->count;
}

static void unref_join(join *one) {
  cch__unref_later(one->stream);
  cch__unref_later(one->into);
}

/*
 * Takes out the latest joins whose streams nothing else uses, so that the driver's memory for these streams is released
 * during the capture. A stream that others were joined into is used by their joins. A borrowed stream can have several
 * boxes, so its joins are not taken out. The lock is held.
 */
static void unref_latest(cch__joined *joined) {
  for (join *one; joined != NULL && joined->count > 0; unref_join(one), joined->count--) {
    one = &joined->items[joined->count - 1];
    if (!one->stream->box.owned || !cch__box_is_last(&one->stream->box))
      return;
    latest *entry = cch__table_find(&joined->latest, sizeof *entry, one->stream->raw);
    entry->number = one->earlier;
    if (entry->number == 0)
      cch__table_remove(&joined->latest, sizeof *entry, entry);
  }
}

/* Makes room for one more join. The lock is held. */
static int reserve(cch_graph *graph, const char *operation) {
  cch__joined *joined = graph->joined;
  if (joined == NULL || joined->count == joined->capacity) {
    const size_t capacity = joined != NULL ? 2 * joined->capacity : 8;
    joined = realloc(joined, sizeof *joined + capacity * sizeof *joined->items);
    if (joined == NULL)
      return cch__fail_nomem(operation);
    if (graph->joined == NULL)
      *joined = (cch__joined){0};
    joined->capacity = capacity;
    graph->joined = joined;
  }
  return cch__table_reserve(&joined->latest, sizeof(latest), 1) ? 0 : cch__fail_nomem(operation);
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
  /* Read before the wait, because other code can end the capture meanwhile. */
  const uint64_t thread = graph->capture->thread, id = graph->capture->id;
  if ((stream->raw == CU_STREAM_PER_THREAD || into->raw == CU_STREAM_PER_THREAD) && thread != cch__thread())
    return cch__fail(CCH_EMISMATCH, __func__, "the default stream of another thread cannot be joined here");
  join made = {.capture = id};
  cch_context *context = graph->capture->context;
  pthread_mutex_lock(&cch__captures_lock);
  unref_latest(graph->joined);
  int status = reserve(graph, __func__); /* before the wait, which cannot be undone */
  pthread_mutex_unlock(&cch__captures_lock);
  if (status == 0)
    status = cch__stream_resolve(&made.stream, stream, context);
  if (status == 0)
    status = cch__stream_resolve(&made.into, into, context);
  if (status == 0)
    status = cch_stream_wait_stream(into, stream);
  if (status == 0) {
    pthread_mutex_lock(&cch__captures_lock);
    status = reserve(graph, __func__); /* another thread may have used the room */
    if (status == 0)
      add(graph->joined, made);
    pthread_mutex_unlock(&cch__captures_lock);
  }
  if (status != 0)
    unref_join(&made);
  cch__poll();
  return status;
}

/*
 * Returns the last stream that `stream` was joined into, directly or through others; `stream` itself if it was not
 * joined. The lock is held.
 */
static cch_stream *last_joined(const cch__joined *joined, cch_stream *stream, uint64_t capture) {
  /* A stream that others were joined into was itself joined later than they were. */
  size_t earliest = 0;
  for (size_t i = joined != NULL ? latest_of(joined, stream) : 0; i > earliest;) {
    const join *one = &joined->items[i - 1];
    const bool found = one->capture == capture && cch__stream_is_same(one->stream, stream);
    if (found) {
      stream = one->into;
      earliest = i;
    }
    i = found ? latest_of(joined, stream) : one->earlier;
  }
  return stream;
}

cch_stream *cch__capture_stream(cch_graph *graph, cch_stream *stream, uint64_t capture) {
  pthread_mutex_lock(&cch__captures_lock);
  cch_stream *last = cch_stream_ref(last_joined(graph->joined, stream, capture));
  pthread_mutex_unlock(&cch__captures_lock);
  return last;
}

void cch__joined_close(cch_graph *graph, uint64_t capture) {
  pthread_mutex_lock(&cch__captures_lock);
  cch__joined *joined = graph->joined;
  const size_t count = joined != NULL ? joined->count : 0;
  if (count > 0) { /* the kept ones are added again, for which there is room */
    joined->count = joined->latest.count = 0;
    memset(joined->latest.entries, 0, joined->latest.capacity * sizeof(latest));
  }
  for (size_t i = 0; i < count; i++) {
    join *one = &joined->items[i];
    if (one->capture == capture && cch__box_is_last(&one->stream->box) && !cch__stream_is_default(one->stream))
      unref_join(one); /* after this, the stream that it was joined into may have no other use */
    else
      add(joined, *one);
  }
  pthread_mutex_unlock(&cch__captures_lock);
}

void cch__joined_free(cch_graph *graph) {
  for (size_t i = 0; graph->joined != NULL && i < graph->joined->count; i++)
    unref_join(&graph->joined->items[i]);
  if (graph->joined != NULL)
    cch__table_free(&graph->joined->latest);
  free(graph->joined);
}
