/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that are recorded from streams. */
#include "capture.h"
#include "reclaim.h"
#include "registry.h"

#include <stdlib.h>

static atomic_size_t captures;

/* Of what streams know of their captures: a box that dies is not found any more once this was taken. */
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

size_t cch_capture_count(void) { return atomic_load_explicit(&captures, memory_order_relaxed); }

bool cch__graph_is_captured(const cch_graph *graph) { return graph->capture != NULL; }

/* ---- what the driver says ---- */

static int ask(cch__capture_info *out, CUstream stream) {
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
  int status = cch__checked(ask(out, stream), name);
  if (status != 0 || out->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    *out = (cch__capture_info){.status = out->status}; /* the driver need not have written the rest */
  return status;
}

int cch__capture_info_in_context(cch__capture_info *out, const cch_stream *stream) {
  *out = (cch__capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
  cch__current current;
  int status = cch__current_enter(&current, stream->context);
  if (status != 0)
    return status;
  status = cch__capture_info_of(out, stream->raw);
  cch__current_leave(&current);
  return status;
}

/* ---- begin ---- */

/* A capture that has not begun; its bundle is empty. */
static int new_capture(cch__capture **out, cch_stream *stream, bool makes_graph, const char *operation) {
  cch__capture *capture = calloc(1, sizeof *capture);
  if (capture == NULL)
    return cch__fail_nomem(operation);
  int status = cch_bundle_create(&capture->kept, 0);
  if (status != 0) {
    free(capture);
    return status;
  }
  capture->stream = cch_stream_ref(stream);
  capture->thread = cch__thread();
  capture->makes_graph = makes_graph;
  *out = capture;
  return 0;
}

static void free_capture(cch__capture *capture) {
  cch_bundle_unref(capture->kept);
  cch_stream_unref(capture->stream);
  free(capture);
}

/* Has a stream know, or forget, its capture. The handle of the per-thread default stream means as many streams as there
 * are threads: about that one the driver is asked. */
static void know(cch_stream *stream, cch_graph *old, cch_graph *graph) {
  pthread_mutex_lock(&known_lock);
  if (stream->capture == old && stream->raw != CU_STREAM_PER_THREAD)
    stream->capture = graph;
  pthread_mutex_unlock(&known_lock);
}

static void begun(cch_graph *graph, cch__capture *capture) {
  cch__graph_lock(graph);
  graph->capture = capture;
  cch__graph_unlock(graph);
  know(capture->stream, NULL, graph);
  atomic_fetch_add_explicit(&captures, 1, memory_order_relaxed);
}

/* Ends a capture that could not begin as it should: the stream must not stay in it. */
static void take_back(CUstream stream, bool makes_graph) {
  CUgraph raw = NULL;
  cch__destructor_enter();
  int status = CCH__CALL(cuStreamEndCapture, (stream, &raw));
  cch__report(status);
  if (status == 0 && makes_graph && raw != NULL)
    cch__report(CCH__CALL(cuGraphDestroy, (raw)));
  cch__destructor_leave();
}

/* Learns what graph a capture that has just begun makes, and has it keep the capture's bundle. */
static int set_up(CUgraph *out, cch_graph *graph, cch__capture *capture) {
  cch__capture_info info;
  int status = cch__capture_info_of(&info, capture->stream->raw);
  if (status == 0 && info.graph == NULL)
    status = cch__fail_driver(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamGetCaptureInfo");
  if (status == 0)
    status = cch__graph_keep(graph, capture->kept, "cuStreamBeginCapture");
  if (status != 0)
    return status;
  capture->id = info.id;
  *out = info.graph;
  return 0;
}

static int begin(CUgraph *out, cch_graph *graph, cch__capture *capture, int mode) {
  CUstream stream = capture->stream->raw;
  int status = CCH__CALL(cuStreamBeginCapture, (stream, (CUstreamCaptureMode)mode));
  if (status != 0)
    return status;
  status = set_up(out, graph, capture);
  if (status != 0)
    take_back(stream, true);
  return status;
}

static int check_begin(const cch_stream *stream, int mode, const char *operation) {
  int status = cch__ready();
  if (status == 0 && stream == NULL)
    status = cch__fail(CCH_EINVAL, operation, "the stream is NULL");
  if (status == 0)
    status = cch__usable(stream, operation);
  if (status == 0 && (mode < CCH_CAPTURE_GLOBAL || mode > CCH_CAPTURE_RELAXED))
    status = cch__fail(CCH_EINVAL, operation, "there is no capture mode %d", mode);
  return status;
}

int cch_capture_begin(cch_graph **out, cch_stream *stream, int mode) {
  int status = check_begin(stream, mode, __func__);
  if (status != 0)
    return status;
  cch__poll();
  cch_graph *graph;
  cch__capture *capture;
  status = cch__graph_new(&graph, __func__);
  if (status != 0)
    return status;
  status = new_capture(&capture, stream, true, __func__);
  if (status != 0) {
    cch__graph_discard(graph);
    return status;
  }
  CUgraph raw = NULL;
  cch__current current;
  status = cch__current_enter(&current, stream->context);
  if (status == 0) {
    status = begin(&raw, graph, capture, mode);
    cch__current_leave(&current);
  }
  if (status != 0) {
    free_capture(capture);
    cch__graph_discard(graph);
    return status;
  }
  cch__graph_made(graph, raw, false);
  begun(graph, capture);
  *out = graph;
  return 0;
}

static int begin_to(cch_graph *graph, cch__capture *capture, const CUgraphNode *before, size_t count, int mode) {
  CUstream stream = capture->stream->raw;
  CUgraph raw;
  int status =
      CCH__CALL(cuStreamBeginCaptureToGraph, (stream, graph->raw, before, NULL, count, (CUstreamCaptureMode)mode));
  if (status != 0)
    return status;
  status = set_up(&raw, graph, capture);
  if (status != 0)
    take_back(stream, false);
  return status;
}

int cch_capture_begin_to(cch_graph *graph, cch_stream *stream, cch_graph_node *const *dependencies, size_t count,
                         int mode) {
  int status = check_begin(stream, mode, __func__);
  if (status == 0)
    status = graph != NULL ? cch__usable(graph, __func__) : cch__fail(CCH_EINVAL, __func__, "the graph is NULL");
  if (status == 0 && graph->capture != NULL)
    status = cch__fail(CCH_EINVAL, __func__, "a stream is being captured into the graph already");
  if (status != 0)
    return status;
  cch__poll();
  CUgraphNode *before = count > 0 ? malloc(count * sizeof *before) : NULL;
  if (count > 0 && before == NULL)
    return cch__fail_nomem(__func__);
  for (size_t i = 0; i < count && status == 0; i++) {
    status = cch__node_is_of(dependencies[i], graph, __func__);
    if (status == 0)
      before[i] = dependencies[i]->raw;
  }
  cch__capture *capture = NULL;
  if (status == 0)
    status = new_capture(&capture, stream, false, __func__);
  if (status == 0) {
    cch__current current;
    status = cch__current_enter(&current, stream->context);
    if (status == 0) {
      status = begin_to(graph, capture, before, count, mode);
      cch__current_leave(&current);
    }
    if (status == 0)
      begun(graph, capture);
    else
      free_capture(capture);
  }
  free(before);
  return status;
}

/* ---- end ---- */

/* Whether the handle of the capture's stream means that stream here: that of the per-thread default stream only does on
 * its own thread. */
static bool is_reached_from_here(const cch__capture *capture) {
  return capture->stream->raw != CU_STREAM_PER_THREAD || capture->thread == cch__thread();
}

/* The capture is over. What it kept is kept by the graph alone from now on. */
static void over(cch_graph *graph) {
  cch__graph_lock(graph);
  cch__capture *capture = graph->capture;
  graph->capture = NULL;
  cch__graph_unlock(graph);
  atomic_fetch_sub_explicit(&captures, 1, memory_order_relaxed);
  know(capture->stream, graph, NULL);
  free_capture(capture);
}

/*
 * The graph of a capture came to nothing: the driver has destroyed it. It does so with a graph that was there before,
 * too, and with the body of a conditional node; and crashes (13.0, H200) as soon as it comes to that body again, to
 * destroy the graph around it, too. So all of the hierarchy is given up, and what is left of it in the driver is
 * leaked.
 */
static void fail_graph(cch_graph *graph) {
  cch_graph *root = graph;
  while (root->parent != NULL)
    root = root->parent;
  cch__graph_lock(root);
  cch__level_end(&root->hierarchy->root);
  cch__invalidate(root);
  cch__graph_unlock(root);
}

/* Whether the stream is still in the capture. The right context is current. */
static bool goes_on(const cch__capture *capture) {
  cch__capture_info info;
  cch__destructor_enter();
  int status = cch__capture_info_of(&info, capture->stream->raw);
  cch__destructor_leave();
  return status != 0 || info.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED ||
         (info.status == CU_STREAM_CAPTURE_STATUS_ACTIVE && info.id == capture->id);
}

int cch_capture_end(cch_graph *graph, cch_stream *stream) {
  int status = cch__usable(stream, __func__);
  if (status == 0 && graph->capture == NULL) /* a graph that is gone may be captured into still: see fail_graph() */
    status = cch__usable(graph, __func__);
  if (status != 0)
    return status;
  cch__capture *capture = graph->capture;
  if (capture == NULL)
    return cch__fail(CCH_EINVAL, __func__, "no stream is being captured into the graph");
  if (capture->stream->raw != stream->raw)
    return cch__fail(CCH_EMISMATCH, __func__, "the capture into the graph began on the stream %p, not on %p",
                     (void *)capture->stream->raw, (void *)stream->raw);
  if (!is_reached_from_here(capture))
    return cch__fail(CCH_EMISMATCH, __func__,
                     "the capture into the graph began on the default stream of another thread");
  cch__current current;
  status = cch__current_enter(&current, stream->context);
  if (status != 0)
    return status;
  CUgraph raw = NULL;
  status = CCH__CALL(cuStreamEndCapture, (stream->raw, &raw));
  bool ended = status == 0 || !goes_on(capture);
  cch__current_leave(&current);
  if (!ended)
    return status;
  bool makes_graph = capture->makes_graph;
  over(graph);
  if (cch__is_gone(graph))
    status = status != 0 ? status : cch__fail_gone(graph, __func__);
  else if (status == 0)
    graph->box.owned = graph->box.owned || makes_graph;
  else
    fail_graph(graph);
  cch__poll_patiently(); /* what could not be destroyed for the capture's sake */
  return status;
}

/* Ends a capture for nothing, if it goes on at all; the driver's answer where that cannot be now, or 0. */
static int abandon(cch_graph *graph, const cch__capture *capture) {
  cch__capture_info info;
  CUstream stream = capture->stream->raw;
  int status = cch__capture_info_of(&info, stream);
  if (status != 0)
    return status;
  if (info.status == CU_STREAM_CAPTURE_STATUS_NONE ||
      (info.status == CU_STREAM_CAPTURE_STATUS_ACTIVE && info.id != capture->id))
    return 0; /* somebody else has ended it */
  CUgraph raw = NULL;
  status = CCH__CALL(cuStreamEndCapture, (stream, &raw));
  if (status == CUDA_ERROR_NOT_PERMITTED)
    return status;
  /* It ended without a graph, which nobody wants anyway: invalidated, with forks not joined, or on another thread. */
  bool in_vain = status >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && status <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  if (status != 0 && !in_vain)
    cch__report(status);
  if (status == 0 && capture->makes_graph && raw != NULL && !cch__is_gone(graph))
    cch__report(CCH__CALL(cuGraphDestroy, (raw)));
  if (in_vain && !cch__is_gone(graph))
    fail_graph(graph);
  return 0;
}

bool cch__capture_abandon(cch_graph *graph) {
  cch__capture *capture = graph->capture;
  if (!is_reached_from_here(capture))
    return false; /* that thread ends it, when it polls next */
  cch__current current;
  int entered = cch__current_enter(&current, capture->stream->context);
  if (cch__not_now(entered))
    return false;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = abandon(graph, capture);
  cch__relaxed_leave(mode);
  if (entered == 0)
    cch__current_leave(&current);
  if (cch__not_now(status))
    return false;
  cch__report(status);
  over(graph);
  return true;
}

void cch__capture_drop(cch_graph *graph) {
  if (graph->capture != NULL && !(cch__is_gone(graph) && cch__capture_abandon(graph)))
    over(graph);
}

/* ---- during a capture ---- */

int cch_capture_status_of(int *status_out, cch_graph **graph, cch_stream *stream) {
  int status = cch__usable(stream, __func__);
  if (status != 0)
    return status;
  cch__capture_info info;
  status = cch__capture_info_in_context(&info, stream);
  if (status != 0)
    return status;
  *status_out = (int)info.status;
  if (graph != NULL)
    *graph = info.graph != NULL ? cch__registry_find(CCH_KIND_GRAPH, info.graph) : NULL;
  return 0;
}

int cch_capture_graph(cch_graph **out, cch_stream *stream) {
  cch_graph *known = NULL;
  if (stream != NULL) {
    pthread_mutex_lock(&known_lock);
    if (stream->capture != NULL && cch__box_try_ref(&stream->capture->box))
      known = stream->capture;
    pthread_mutex_unlock(&known_lock);
  }
  int capturing;
  if (known == NULL) /* it may have come into one by an event */
    return cch_capture_status_of(&capturing, out, stream);
  *out = known;
  return 0;
}

/* Whether a box is memory that the capture itself allocates. Its free is to be captured too, and waits for nobody. */
static bool is_own_memory(const cch__capture *capture, const void *box) {
  return box != NULL && cch_kind_of(box) == CCH_KIND_DEVICEPTR && ((const cch_deviceptr *)box)->capture == capture->id;
}

/* Whether a box is among those that were kept last: the same few work in turns. */
static bool is_kept(const cch_bundle *kept, const void *box) {
  enum { LAST = 4 };
  for (size_t i = kept->count; i > 0 && i + LAST > kept->count; i--)
    if (kept->owners[i - 1].object == box)
      return true;
  return false;
}

int cch_capture_keep(cch_graph *graph, void *object, cch_release_fn release) {
  int status = cch__usable(graph, __func__);
  if (status != 0)
    return status;
  cch__graph_lock(graph);
  if (graph->capture == NULL)
    status = cch__fail(CCH_EINVAL, __func__, "no stream is being captured into the graph");
  else if (release == NULL && !is_own_memory(graph->capture, object) && !is_kept(graph->capture->kept, object))
    status = cch_bundle_add(graph->capture->kept, object);
  else if (release != NULL)
    status = cch_bundle_add_object(graph->capture->kept, object, release);
  cch__graph_unlock(graph);
  return status;
}

static int add_in_context(cch_graph_node **out, cch_stream *stream, const cch_node_spec *spec, const char *operation) {
  cch__capture_info info;
  int status = cch__capture_info_of(&info, stream->raw);
  if (status != 0)
    return status;
  cch_graph *graph = info.graph != NULL ? cch__registry_find(CCH_KIND_GRAPH, info.graph) : NULL;
  if (graph == NULL)
    return cch__fail(CCH_EINVAL, operation, "the stream is not being captured into a graph that has a box");
  cch_graph_node *node = NULL;
  CUgraphNode raw;
  status = cch__node_add(&raw, out != NULL ? &node : NULL, graph, spec, info.dependencies, info.edges, info.count,
                         operation);
  if (status == 0) {
    status = CCH__CALL(cuStreamUpdateCaptureDependencies, (stream->raw, &raw, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    if (status != 0)
      cch__node_undo(graph, raw);
  }
  if (status == 0 && out != NULL)
    *out = node;
  else
    cch_graph_node_unref(node);
  cch_graph_unref(graph);
  return status;
}

int cch_capture_add(cch_graph_node **out, cch_stream *stream, const cch_node_spec *spec) {
  cch_node_spec known;
  int status = cch__usable(stream, __func__);
  if (status == 0)
    status = cch__node_spec_read(&spec, &known, __func__);
  if (status != 0)
    return status;
  cch__poll();
  cch__current current;
  status = cch__current_enter(&current, stream->context);
  if (status != 0)
    return status;
  status = add_in_context(out, stream, spec, __func__);
  cch__current_leave(&current);
  return status;
}
