/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs of graphs whose captures allocated memory. Each launch of such a graph allocates the memory again. Once the
 * memory has been dropped, it is freed behind the last launch, and behind each later one. Otherwise, the graph could
 * not be launched again, because nobody could free what the launch before has allocated.
 */
#include "stream/capture.h"

#include "base/reclaim.h"
#include "driver/current.h"
#include "stream/stream.h"

#include <stdlib.h>

struct cch__runs {
  atomic_size_t references;
  /* The following fields are guarded by cch__captures_lock. */
  cch_stream *stream; /* the resolved stream of the last launch, on which memory is freed; NULL before the first one */
  size_t launching;   /* the number of launches that have begun, and whose stream is not noted yet */
  CUdeviceptr *dropped;
  size_t count, allocated, capacity; /* `dropped` has room for all memory that captures have allocated */
};

static cch_graph *root_of(cch_graph *graph) {
  while (graph->parent != NULL)
    graph = graph->parent;
  return graph;
}

int cch__runs_reserve(cch_graph *graph, const char *operation) {
  enum { FIRST = 4 };
  graph = root_of(graph);
  cch__runs *made = calloc(1, sizeof *made);
  if (made == NULL)
    return cch__fail_nomem(operation);
  atomic_init(&made->references, 1);
  pthread_mutex_lock(&cch__captures_lock);
  if (graph->runs == NULL) {
    graph->runs = made;
    made = NULL;
  }
  cch__runs *runs = graph->runs;
  int status = 0;
  if (runs->allocated == runs->capacity) {
    size_t capacity = runs->capacity == 0 ? FIRST : 2 * runs->capacity;
    CUdeviceptr *grown = realloc(runs->dropped, capacity * sizeof *grown);
    if (grown != NULL) {
      runs->dropped = grown;
      runs->capacity = capacity;
    } else {
      status = cch__fail_nomem(operation);
    }
  }
  if (status == 0)
    runs->allocated++;
  pthread_mutex_unlock(&cch__captures_lock);
  free(made);
  return status;
}

cch__runs *cch__runs_of(cch_graph *graph) {
  graph = root_of(graph);
  pthread_mutex_lock(&cch__captures_lock);
  cch__runs *runs = graph->runs;
  if (runs != NULL)
    atomic_fetch_add_explicit(&runs->references, 1, memory_order_relaxed);
  pthread_mutex_unlock(&cch__captures_lock);
  return runs;
}

void cch__runs_unref(cch__runs *runs) {
  if (runs == NULL || atomic_fetch_sub_explicit(&runs->references, 1, memory_order_acq_rel) != 1)
    return;
  cch_stream_unref(runs->stream);
  free(runs->dropped);
  free(runs);
}

bool cch__runs_drop(cch_stream **out, cch_deviceptr *ptr) {
  const cch_graph *graph = root_of(ptr->graph);
  *out = NULL;
  pthread_mutex_lock(&cch__captures_lock);
  cch__runs *runs = graph->runs;
  bool can_drop = runs == NULL || runs->launching == 0;
  if (can_drop && runs != NULL) {
    if (!ptr->dropped && runs->count < runs->capacity)
      runs->dropped[runs->count++] = ptr->ptr;
    ptr->dropped = true;
    *out = cch_stream_ref(runs->stream);
  }
  pthread_mutex_unlock(&cch__captures_lock);
  return can_drop;
}

static void end_launch(cch__runs *runs) {
  pthread_mutex_lock(&cch__captures_lock);
  runs->launching--;
  pthread_mutex_unlock(&cch__captures_lock);
}

int cch__runs_begin(cch__runs *runs, cch_stream *given) {
  if (runs == NULL)
    return 0;
  pthread_mutex_lock(&cch__captures_lock);
  runs->launching++;
  cch_stream *last = runs->count > 0 ? cch_stream_ref(runs->stream) : NULL;
  pthread_mutex_unlock(&cch__captures_lock);
  int status = 0;
  if (last != NULL && !cch__is_gone(last) && !cch__context_is_lost(last->context)) {
    cch_stream *stream = NULL;
    status = cch__stream_resolve(&stream, given, NULL);
    if (status == 0)
      status = cch_stream_wait_stream(stream, last);
    cch__unref_later(stream);
  }
  cch__unref_later(last);
  if (status != 0)
    end_launch(runs);
  return status;
}

/* Frees dropped memory that a launch on the stream has allocated. Other code may have freed it already. */
static int free_dropped(CUdeviceptr address, CUstream stream) {
  if (cch__driver.cuMemFreeAsync == NULL)
    return 0;
  atomic_fetch_add_explicit(&cch__frees, 1, memory_order_relaxed);
  CUresult result = cch__driver.cuMemFreeAsync(address, stream);
  return result != CUDA_ERROR_INVALID_VALUE ? cch__checked((int)result, "cuMemFreeAsync") : 0;
}

int cch__runs_launched(cch__runs *runs, cch_stream *given, int status) {
  if (runs == NULL)
    return status;
  cch_stream *stream = NULL;
  if (status == 0)
    status = cch__stream_resolve(&stream, given, NULL);
  if (status != 0) {
    end_launch(runs);
    return status;
  }
  pthread_mutex_lock(&cch__captures_lock);
  cch_stream *last = runs->stream;
  size_t count = runs->count;
  runs->stream = stream;
  runs->launching--;
  pthread_mutex_unlock(&cch__captures_lock);
  cch__unref_later(last); /* no destructor runs in the turn of the executable graph */
  for (size_t i = 0; i < count && status == 0; i++) {
    pthread_mutex_lock(&cch__captures_lock);
    CUdeviceptr address = runs->dropped[i];
    pthread_mutex_unlock(&cch__captures_lock);
    status = CCH__RELAXED(CCH__IN_CONTEXT(given->context, free_dropped(address, given->raw)));
  }
  return status;
}
