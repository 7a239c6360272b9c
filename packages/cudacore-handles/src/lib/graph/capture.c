/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that are captured from streams. */
#include "graph/graph.h"
#include "base/reclaim.h"
#include "base/registry.h"

#include <stdlib.h>

/* ---- begin ---- */

/* Makes a capture that has not begun, with an empty bundle. */
static int new_capture(cch__capture **out, cch_stream *stream, int mode, bool makes_graph, const char *operation) {
  cch__capture *capture = calloc(1, sizeof *capture);
  if (capture == NULL)
    return cch__fail_nomem(operation);
  int status;
  if (stream->context != NULL) {
    capture->context = cch_context_ref(stream->context);
    status = 0;
  } else {
    status = cch_context_current(&capture->context);
  }
  if (status == 0)
    status = cch_bundle_create(&capture->kept, 0);
  if (status != 0) {
    cch_context_unref(capture->context);
    free(capture);
    return status;
  }
  capture->stream = cch_stream_ref(stream);
  capture->thread = cch__thread();
  capture->bound = mode != CCH_CAPTURE_RELAXED;
  capture->makes_graph = makes_graph;
  *out = capture;
  return 0;
}

static void free_capture(cch__capture *capture) {
  if (capture == NULL)
    return;
  cch__unref_later(capture->kept);
  cch__unref_later(capture->stream);
  cch__unref_later(capture->context);
  free(capture);
}

/* Ends a capture whose setup failed, so that the stream does not remain in it. */
static void take_back(CUstream stream, bool makes_graph) {
  CUgraph raw = NULL;
  cch__destructor_enter();
  int status = CCH__CALL(cuStreamEndCapture, (stream, &raw));
  if (!cch__is_retryable(status)) /* if another thread's illegal call has invalidated the capture, it has ended, too */
    cch__report(status);
  if (status == 0 && makes_graph && raw != NULL)
    cch__report(CCH__CALL(cuGraphDestroy, (raw)));
  cch__destructor_leave();
}

/* Finds the graph of a capture that has just begun, and has that graph keep the bundle of the capture. */
static int set_up(CUgraph *out, cch_graph *graph, cch__capture *capture) {
  cch__capture_info info;
  CCH__RETURN_FAILURE(cch__capture_info_of(&info, capture->stream->raw));
  if (info.graph == NULL)
    return cch__fail_driver(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamGetCaptureInfo");
  CCH__RETURN_FAILURE(cch__graph_keep(graph, capture->kept, "cuStreamBeginCapture"));
  capture->id = info.id;
  *out = info.graph;
  return 0;
}

static int begin(CUgraph *out, cch_graph *graph, cch__capture *capture, int mode) {
  CUstream stream = capture->stream->raw;
  const CUstreamCaptureMode native = (CUstreamCaptureMode)mode;
  CCH__RETURN_FAILURE(capture->makes_graph
                          ? CCH__CALL(cuStreamBeginCapture, (stream, native))
                          : CCH__CALL(cuStreamBeginCaptureToGraph, (stream, graph->raw, NULL, NULL, 0, native)));
  int status = set_up(out, graph, capture);
  if (status != 0)
    take_back(stream, capture->makes_graph);
  return status;
}

static int begin_into(cch_graph *graph, cch_stream *stream, int mode, bool makes_graph, const char *operation) {
  if (mode < CCH_CAPTURE_GLOBAL || mode > CCH_CAPTURE_RELAXED)
    return cch__fail(CCH_EINVAL, operation, "there is no capture mode %d", mode);
  if (graph->capture != NULL)
    return cch__fail(CCH_EINVAL, operation, "a stream is being captured into the graph already");
  cch__capture *capture = NULL;
  CUgraph raw = NULL;
  CCH__RETURN_FAILURE(new_capture(&capture, stream, mode, makes_graph, operation));
  if (makes_graph) {
    cch__graph_is_of(graph, cch_context_ref(capture->context));
    graph->hierarchy->captured = true;
  }
  const int status = CCH__IN_CONTEXT(stream->context, begin(&raw, graph, capture, mode));
  if (status != 0) {
    free_capture(capture);
    return status;
  }
  if (makes_graph)
    cch__graph_made(graph, raw, false);
  free_capture(cch__capture_swap(graph, capture));
  return 0;
}

cch_status cch_capture_begin(cch_graph **out, cch_stream *stream, int mode) {
  CCH__REQUIRE_USABLE(out, stream);
  cch__poll_patiently(); /* the stream may still be in a capture that was dropped */
  cch_graph *graph;
  CCH__RETURN_FAILURE(cch__graph_new(&graph, __func__));
  const int status = begin_into(graph, stream, mode, true, __func__);
  if (status == 0)
    *out = graph;
  else
    cch__graph_free(graph);
  return status;
}

cch_status cch_capture_begin_to(cch_graph *graph, cch_stream *stream, int mode) {
  CCH__REQUIRE_USABLE(graph, stream);
  cch__poll_patiently();
  return CCH__IN_TURN(graph, NULL, begin_into(graph, stream, mode, false, __func__));
}

/* ---- end ---- */

/*
 * Returns whether a capture can be ended on this thread. The per-thread default stream is reached only from its own
 * thread. On any but the thread that began it, a bound capture fails when it is ended, and the driver destroys its
 * graph. That is right only for a new graph, which its owner gives up.
 */
static bool can_end_here(const cch_graph *graph, const cch__capture *capture) {
  if (capture->thread == cch__thread())
    return true;
  return capture->stream->raw != CU_STREAM_PER_THREAD &&
         (!capture->bound || (capture->makes_graph && !cch__is_gone(graph)));
}

/* Forgets a capture that has ended. From now on, the graph alone keeps the objects that the capture kept. */
static void close_capture(cch_graph *graph) { free_capture(cch__capture_swap(graph, NULL)); }

/*
 * A capture failed, and the driver has destroyed its graph. The driver does so even with a graph that existed before,
 * and with the body of a conditional node. Then it crashes (13.0, H200) when it reaches that body again, for example to
 * destroy the graph that contains it. So the whole hierarchy is abandoned, and the driver's remaining objects are
 * leaked.
 */
static void fail_graph(cch_graph *graph) {
  atomic_store_explicit(&graph->destroyed, true, memory_order_relaxed);
  cch_graph *root = graph;
  while (root->parent != NULL)
    root = root->parent;
  cch__graph_lock(root);
  cch__level_close(&root->hierarchy->root);
  cch__invalidate(root);
  cch__graph_unlock(root);
}

/* Returns whether the driver has destroyed a graph of an abandoned hierarchy, by itself or with one that contains it.
 */
static bool is_destroyed(const cch_graph *graph) {
  while (graph != NULL && !atomic_load_explicit(&graph->destroyed, memory_order_relaxed))
    graph = graph->parent;
  return graph != NULL;
}

/* Makes a captured stream wait for all work of its capture, so that no fork remains to be joined. */
static int wait_for_all(CUstream stream, CUgraph graph) {
  CUgraphNode *nodes;
  size_t count;
  CCH__RETURN_FAILURE(cch__driver_nodes(&nodes, &count, graph, "cuGraphGetNodes"));
  int status = 0;
  if (count > 0)
    status = CCH__CALL(cuStreamUpdateCaptureDependencies, (stream, nodes, count, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  free(nodes);
  return status;
}

/*
 * Returns whether a stream with this capture state is in the capture, or was in it until the capture was invalidated.
 */
static bool is_in(const cch__capture_info *info, const cch__capture *capture) {
  return info->status == CU_STREAM_CAPTURE_STATUS_INVALIDATED ||
         (info->status == CU_STREAM_CAPTURE_STATUS_ACTIVE && info->id == capture->id);
}

/*
 * Ends another capture of an abandoned hierarchy. It must not fail, because the driver would then destroy its graph,
 * and reach what it has destroyed before. So a capture that was invalidated, or whose graph the driver has destroyed,
 * is never ended. About the latter, the driver is not even asked: its answers come from the destroyed graph.
 */
static void end_abandoned(const cch_graph *graph, const cch__capture *capture) {
  CUstream stream = capture->stream->raw;
  CUgraph raw;
  cch__capture_info info = {.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED};
  if (!is_destroyed(graph) && cch__capture_info_of(&info, stream) == 0 && !is_in(&info, capture))
    return; /* other code has ended the capture */
  if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE || wait_for_all(stream, graph->raw) != 0 ||
      CCH__CALL(cuStreamEndCapture, (stream, &raw)) != 0)
    cch__stream_leak(capture->stream);
}

/* Returns whether the stream is still in the capture. The stream's context must be current. */
static bool goes_on(const cch__capture *capture) {
  cch__capture_info info;
  return CCH__ASIDE(cch__capture_info_of(&info, capture->stream->raw)) != 0 || is_in(&info, capture);
}

/*
 * Ends the capture, unless other code has already ended it. In that case, the stream may be in another capture, which
 * belongs to the other code. The stream's context must be current.
 */
static int end_in_driver(bool *ended, const cch_graph *graph, const cch__capture *capture, const char *operation) {
  cch__capture_info info;
  *ended = cch__is_gone(graph);
  if (*ended) {
    end_abandoned(graph, capture);
    return cch__fail_gone(graph, operation);
  }
  CCH__RETURN_FAILURE(cch__capture_info_of(&info, capture->stream->raw));
  if (!is_in(&info, capture)) {
    *ended = true;
    return cch__fail(CCH_EGONE, operation, "other code has ended the capture, by the stream's handle");
  }
  CUgraph raw = NULL;
  int status = CCH__CALL(cuStreamEndCapture, (capture->stream->raw, &raw));
  *ended = status == 0 || !goes_on(capture);
  return status;
}

static int end(cch_graph *graph, const cch_stream *stream, const char *operation) {
  cch__capture *capture = graph->capture;
  if (capture == NULL) /* an abandoned graph can still be the target of a capture: see fail_graph() */
    CCH__RETURN_FAILURE(CCH__USABLE(graph, "the argument graph", operation));
  if (capture == NULL)
    return cch__fail(CCH_EINVAL, operation, "no stream is being captured into the graph");
  if (capture->stream->raw != stream->raw)
    return cch__fail(CCH_EMISMATCH, operation, "the capture into the graph began on the stream %p, not on %p",
                     (void *)capture->stream->raw, (void *)stream->raw);
  if (!can_end_here(graph, capture))
    return cch__fail(CCH_EMISMATCH, operation,
                     "the capture into the graph began on another thread, by its default stream or in a mode that is "
                     "not relaxed, and can end only there");
  bool ended = false;
  int status = CCH__IN_CONTEXT(capture->context, end_in_driver(&ended, graph, capture, operation));
  if (!ended)
    return status;
  bool makes_graph = capture->makes_graph;
  close_capture(graph);
  if (status == 0)
    graph->box.owned = graph->box.owned || makes_graph;
  else if (!cch__is_gone(graph))
    fail_graph(graph);
  return status;
}

cch_status cch_capture_end(cch_graph *graph, cch_stream *stream) {
  CCH__REQUIRE(graph);
  if (cch__in_callback())
    return cch__fail_forbidden(__func__);
  CCH__REQUIRE_USABLE(stream);
  cch__poll_patiently(); /* another capture of the hierarchy may have been handed back to this thread */
  const int status = CCH__IN_TURNS(graph, NULL, 0, end(graph, stream, __func__));
  cch__poll_patiently(); /* destroys boxes that could not be destroyed during the capture */
  return status;
}

/*
 * Ends a capture, if it is still active, and drops its graph. Returns 0, or the driver's result if that is not possible
 * now.
 */
static int abandon(cch_graph *graph, const cch__capture *capture) {
  bool ended;
  const int status = end_in_driver(&ended, graph, capture, __func__);
  if (!ended)
    return status;
  if (status == 0 && capture->makes_graph)
    cch__report(CCH__CALL(cuGraphDestroy, (graph->raw)));
  else if (status > 0) /* the capture was invalidated, had forks that were not joined, or belongs to another thread */
    fail_graph(graph);
  if (status > 0 && !cch__is_retryable(status))
    cch__report(status);
  return 0;
}

bool cch__capture_abandon(cch_graph *graph) {
  cch__capture *capture = graph->capture;
  if (cch__context_is_lost(capture->context)) { /* the stream is lost with its context, and so is the capture */
    close_capture(graph);
    return true;
  }
  if (!can_end_here(graph, capture))
    return false; /* the thread that began the capture ends it at its next poll */
  cch__current current;
  int entered = cch__current_enter(&current, capture->context);
  if (cch__is_retryable(entered))
    return false;
  int status = CUDA_ERROR_NOT_PERMITTED; /* later, if another thread works on the graph */
  if (cch__turn_try(graph)) {
    status = CCH__RELAXED(abandon(graph, capture));
    cch__turn_give(&graph->hierarchy, 1);
  }
  if (entered == 0)
    cch__current_leave(&current);
  if (cch__is_retryable(status))
    return false;
  cch__report(status);
  close_capture(graph);
  return true;
}

void cch__capture_free(cch_graph *graph) {
  if (graph->capture != NULL && !(cch__is_gone(graph) && cch__capture_abandon(graph))) {
    cch__stream_leak(graph->capture->stream);
    close_capture(graph);
  }
  cch__runs_unref(graph->runs);
}

/* ---- nodes ---- */

static int add_in_turn(cch_graph_node **out, cch_graph *graph, cch_stream *stream, const cch_node_spec *spec,
                       const char *operation) {
  cch__capture_info info;
  CCH__RETURN_FAILURE(cch__capture_info_of(&info, stream->raw));
  if (info.graph != graph->raw)
    return cch__fail(CCH_EINVAL, operation, "the stream is not being captured into a graph that has a box");
  cch_graph_node *node = NULL;
  CUgraphNode raw;
  int status = cch__node_add(&raw, out != NULL ? &node : NULL, graph, spec, info.dependencies, info.edges, info.count,
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
  return status;
}

static int add_in_context(cch_graph_node **out, cch_stream *stream, const cch_node_spec *spec, const char *operation) {
  cch_graph *graph = NULL;
  CCH__RETURN_FAILURE(cch__capture_graph(&graph, stream));
  if (graph == NULL)
    return cch__fail(CCH_EINVAL, operation, "the stream is not being captured into a graph that has a box");
  const int status =
      CCH__IN_TURN(graph, cch__child_in(spec->type, spec->params), add_in_turn(out, graph, stream, spec, operation));
  cch_graph_unref(graph);
  return status;
}

cch_status cch_capture_add(cch_graph_node **out, cch_stream *stream, const cch_node_spec *spec) {
  CCH__REQUIRE_USABLE(stream, spec);
  cch_node_spec known;
  CCH__RETURN_FAILURE(cch__node_spec_read(&spec, &known, __func__));
  cch__poll();
  return CCH__IN_CONTEXT(stream->context, add_in_context(out, stream, spec, __func__));
}

static bool are_plain(const cch__capture_info *info) {
  for (size_t i = 0; info->edges != NULL && i < info->count; i++)
    if (info->edges[i].type != CU_GRAPH_DEPENDENCY_TYPE_DEFAULT || info->edges[i].from_port != 0)
      return false;
  return true;
}

static int gather(cch_stream *stream, const char *operation) {
  enum { FEW = 16 };
  cch__capture_info info;
  const cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_EMPTY};
  CCH__RETURN_FAILURE(cch__capture_info_of(&info, stream->raw));
  if (info.count <= FEW || !are_plain(&info)) /* other edges can lead only to kernels */
    return 0;
  return add_in_context(NULL, stream, &spec, operation);
}

cch_status cch_capture_gather(cch_stream *stream) {
  CCH__REQUIRE_USABLE(stream);
  cch__poll();
  return CCH__IN_CONTEXT(stream->context, gather(stream, __func__));
}
