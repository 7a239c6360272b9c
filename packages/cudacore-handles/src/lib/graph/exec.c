/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs. They keep the objects that the nodes used at instantiation or at the last update, and the bundles
 * that were set for single nodes since then. A replaced bundle is kept while launches in flight may use it; an event
 * after the last launch shows when they are done.
 */
#include "graph/graph.h"
#include "stream/stream.h"
#include "base/reclaim.h"

#include <cudacore_shared/table.h>

#include <stdlib.h>
#include <string.h>

/* The objects that the graph, or one of its nodes, uses now. */
typedef struct current_use {
  CUgraphNode node;
  cch_bundle *bundle; /* NULL if no objects are used */
  uint64_t launches;  /* the number of launches before the bundle was set */
  bool plain;         /* a kernel node that was instantiated without attributes, and cannot get any */
} current_use;

/* Objects that were used before a change. They are kept until the event has occurred. */
typedef struct replaced {
  cch_bundle *bundle;
  cch_event *event; /* NULL if no event could be recorded yet */
  struct replaced *next;
} replaced;

struct cch_graph_exec {
  cch__box box;
  pthread_mutex_t turn; /* held by the thread that launches or changes the graph */
  CUgraphExec raw;
  uint64_t serial; /* the serial number of the hierarchy that the executable graph was made from */
  CUgraph source;
  cch_stream *stream;      /* the stream of the last launch */
  cch_context *context;    /* the context of the last launch, if `stream` is a default stream */
  cch_context *made_in;    /* the context with which the executable graph is lost */
  cch_event *behind;       /* an event after the last launch; NULL until one is needed */
  uint64_t launches;       /* the number of launches so far */
  uint64_t done;           /* how many of them are known to be done; all or less */
  current_use whole;       /* the bundle of the graph that this one was made from, or last updated from */
  cch__table uses;         /* of current_use: the bundles that were set for single nodes */
  replaced *first, **last; /* a list, in the order of the launches that use the objects */
  cch__runs *runs;         /* if captures into the graph have allocated memory */
  bool destroyed;          /* destroyed, but launches are still in flight */
};

/* cch_graph_exec_raw() */
CCH__DEFINE_RAW(cch_graph_exec, CUgraphExec, raw)

/* ---- instantiation ---- */

static const char *why(CUgraphInstantiateResult result) {
  switch (result) {
  case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
    return "the graph's structure is not valid: a cycle, or nodes that do not go together";
  case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
    return "the operation of a node is not allowed in a graph launched from the device or in the body of a conditional "
           "node";
  case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
    return "nodes of different contexts are in a graph that is launched from a device";
  case CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED:
    return "a condition of the graph is not used by a conditional node";
  default:
    return "the driver does not say why";
  }
}

/* Instantiates a graph in the current context. After a failure, the caller releases what the box has. */
static int instantiate(cch_graph_exec *out, cch_graph *graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params,
                       const char *operation) {
  static const char name[] = "cuGraphInstantiateWithParams";
  if (cch__driver.cuGraphInstantiateWithParams == NULL)
    return cch__fail_missing(name);
  CUgraphExec raw = NULL;
  CCH__RETURN_FAILURE(cch__graph_uses(&out->whole.bundle, graph, operation));
  CCH__RETURN_FAILURE(cch_context_current(&out->made_in));
  int status = (int)cch__driver.cuGraphInstantiateWithParams(&raw, graph->raw, params);
  /* The driver's call can succeed, and still report a failure in `result_out`. */
  if (status == 0 && params->result_out != CUDA_GRAPH_INSTANTIATE_SUCCESS) {
    if (raw != NULL) {
      CCH__ASIDE(cch__report(CCH__CALL(cuGraphExecDestroy, (raw))));
    }
    status = CUDA_ERROR_INVALID_VALUE;
  }
  if (status == 0) {
    out->raw = raw;
    return 0;
  }
  cch__fail_driver(status, name);
  if (params->result_out > CUDA_GRAPH_INSTANTIATE_ERROR)
    cch__fail_explain(why(params->result_out));
  cch__fail_at_node(params->hErrNode_out);
  return status;
}

cch_status cch_graph_instantiate(cch_graph_exec **out, cch_graph *graph, const cch_instantiate_params *params) {
  CCH__REQUIRE_USABLE(out, graph);
  enum { PARAMS_0_1 = offsetof(cch_instantiate_params, upload) + sizeof(cch_stream *) };
  cch_instantiate_params known = {0};
  if (params != NULL)
    CCH__RETURN_FAILURE(
        cch__read_sized(&known, sizeof known, params, params->size, PARAMS_0_1, "cch_instantiate_params", __func__));
  CCH__RETURN_FAILURE(cch__graph_check(graph, __func__));
  CCH__RETURN_FAILURE(CCH__USABLE_OR_NULL(known.upload, "the stream to upload on", __func__));
  CCH__RETURN_FAILURE(CCH__USABLE_OR_NULL(known.context, "the context of the parameters", __func__));
  cch__poll();
  cch_graph_exec *exec = cch__box_new(CCH_KIND_GRAPH_EXEC, sizeof *exec, __func__);
  if (exec == NULL)
    return CCH_ENOMEM;
  const cch_context *context = known.context;
  if (context == NULL && known.upload != NULL)
    context = known.upload->context;
  CUDA_GRAPH_INSTANTIATE_PARAMS native = {.flags = known.flags,
                                          .hUploadStream = known.upload != NULL ? known.upload->raw : NULL};
  const int status = CCH__IN_TURN(graph, NULL, CCH__IN_CONTEXT(context, instantiate(exec, graph, &native, __func__)));
  if (status != 0) {
    cch_context_unref(exec->made_in);
    cch_bundle_unref(exec->whole.bundle);
    cch__box_free(exec);
    return status;
  }
  pthread_mutex_init(&exec->turn, NULL);
  exec->box.owned = true;
  if (exec->made_in != NULL)
    exec->box.context = exec->made_in->box.context;
  exec->last = &exec->first;
  exec->runs = cch__runs_of(graph);
  exec->serial = graph->hierarchy->serial;
  exec->source = graph->raw;
  *out = exec;
  return 0;
}

pthread_mutex_t *cch__exec_turn(cch_graph_exec *exec) { return &exec->turn; }

/* ---- bundles set for nodes ---- */

static current_use *next_use(const cch_graph_exec *exec, const current_use *one) {
  return cch__table_next(&exec->uses, sizeof *one, one);
}

static int record_in(cch_event **out, cch_context *context, const cch_stream *stream) {
  cch__current current;
  CCH__RETURN_FAILURE(cch__current_enter(&current, context));
  cch_event *event = NULL;
  int status = cch__is_capturing(stream->raw) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                              : cch_event_create(&event, context, CCH_EVENT_DISABLE_TIMING);
  if (status == 0)
    status = CCH__CALL(cuEventRecord, (event->raw, stream->raw));
  cch__current_leave(&current);
  if (status == 0)
    *out = event;
  else
    cch_event_unref(event);
  return status;
}

/*
 * Gets the event after the last launch, which is recorded when it is first needed; returns the driver's result. On this
 * thread, the per-thread default stream may be another one than that of the launch. So the legacy stream is used
 * instead, which is ordered after the per-thread default streams of all threads.
 */
static int mark(cch_event **out, cch_graph_exec *exec) {
  if (exec->behind != NULL) {
    *out = cch_event_ref(exec->behind);
    return 0;
  }
  cch_stream *on = exec->stream->raw == CU_STREAM_PER_THREAD ? cch_stream_legacy() : cch_stream_ref(exec->stream);
  cch__destructor_enter();
  int status =
      CCH__RELAXED(record_in(&exec->behind, exec->context != NULL ? exec->context : exec->stream->context, on));
  if (!cch__is_retryable(status))
    cch__report(status);
  cch__destructor_leave();
  cch_stream_unref(on);
  if (status == 0)
    *out = cch_event_ref(exec->behind);
  return status;
}

/*
 * Returns whether no launch uses a replaced bundle any longer. The result is also true if the query fails, unless the
 * driver only refuses the call temporarily: all other failures are sticky, and no work runs after them.
 */
static bool is_done(cch_graph_exec *exec, replaced *one) {
  if (cch__context_is_lost(exec->made_in))
    return true;
  if (one->event == NULL) {
    int status = mark(&one->event, exec);
    if (status != 0)
      return !cch__is_retryable(status);
  }
  CUstreamCaptureMode mode = cch__relaxed_enter();
  cch__destructor_enter();
  int status = CCH__CALL(cuEventQuery, (one->event->raw));
  bool done = status != CUDA_ERROR_NOT_READY && !cch__is_retryable(status);
  if (done)
    cch__report(status);
  cch__destructor_leave();
  cch__relaxed_leave(mode);
  return done;
}

bool cch__exec_settle(cch_graph_exec *exec) {
  const cch_event *occurred = NULL; /* the objects that were replaced after one launch share an event */
  for (replaced *one; (one = exec->first) != NULL;) {
    if ((one->event == NULL || one->event != occurred) && !is_done(exec, one))
      return false;
    occurred = one->event;
    if (occurred != NULL && occurred == exec->behind) { /* no launch is in flight */
      exec->done = exec->launches;
      cch__unref_later(exec->behind);
      exec->behind = NULL;
    }
    exec->first = one->next;
    if (exec->first == NULL)
      exec->last = &exec->first;
    cch__unref_later(one->bundle);
    cch__unref_later(one->event);
    free(one);
  }
  return true;
}

/*
 * Keeps a replaced bundle until the launches that use it are done. `room` is memory for the entry, and is used or
 * freed.
 */
static void retire(cch_graph_exec *exec, const current_use *one, replaced *room) {
  if (one->bundle == NULL || one->launches == exec->launches || exec->done == exec->launches) {
    cch__unref_later(one->bundle);
    free(room);
    return;
  }
  *room = (replaced){.bundle = one->bundle};
  mark(&room->event, exec);
  *exec->last = room;
  exec->last = &room->next;
}

/* Moves the bundle of the graph as a whole to the list of bundles that were used before. */
static void retire_whole(cch_graph_exec *exec, replaced *room) {
  retire(exec, &exec->whole, room);
  exec->whole = (current_use){.launches = exec->launches};
}

/*
 * Moves the bundles that were set for single nodes to the list of bundles that were used before. If memory for the list
 * is lacking, a bundle stays where it is, which only keeps it longer.
 */
static void retire_all(cch_graph_exec *exec) {
  bool stays = false;
  for (current_use *one = NULL; (one = next_use(exec, one)) != NULL;) {
    replaced *room = malloc(sizeof *room);
    stays |= room == NULL;
    if (room != NULL) {
      retire(exec, one, room);
      one->bundle = NULL;
    }
  }
  if (!stays)
    cch__table_free(&exec->uses);
}

/* ---- update ---- */

static int update(cch_graph_exec *exec, cch_graph *graph, CUgraphExecUpdateResultInfo *native, const char *operation) {
  cch_bundle *uses = NULL;
  replaced *room = malloc(sizeof *room);
  int status = room != NULL ? cch__graph_uses(&uses, graph, operation) : cch__fail_nomem(operation);
  if (status == 0) {
    status = CCH__CALL(cuGraphExecUpdate, (exec->raw, graph->raw, native));
    if (status != 0)
      cch__fail_at_node(native->errorNode);
  }
  if (status == 0) {
    retire_whole(exec, room);
    exec->whole.bundle = uses;
    retire_all(exec);
  } else {
    cch__unref_later(uses);
    free(room);
  }
  cch__exec_settle(exec);
  return status;
}

cch_status cch_graph_exec_update(cch_graph_exec *exec, cch_graph *graph, cch_update_result *result) {
  CCH__REQUIRE_USABLE(exec, graph);
  CCH__RETURN_FAILURE(cch__graph_check(graph, __func__));
  CCH__REQUIRE_CONTEXT(exec->made_in);
  enum { RESULT_0_1 = offsetof(cch_update_result, from) + sizeof(CUgraphNode) };
  if (result != NULL && result->size < RESULT_0_1)
    return cch__fail(CCH_EINVAL, __func__, "the size of the cch_update_result is %zu, and none has less than %d bytes",
                     result->size, (int)RESULT_0_1);
  cch__poll();
  CUgraphExecUpdateResultInfo native = {.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
  const int status = CCH__IN_TURN_OF_EXEC(exec, CCH__IN_TURN(graph, NULL, update(exec, graph, &native, __func__)));
  cch__poll(); /* destroys boxes that are no longer needed */
  if (result != NULL) {
    size_t size = result->size;
    memset(result, 0, size);
    *result = (cch_update_result){
        .size = size, .result = (int32_t)native.result, .node = native.errorNode, .from = native.errorFromNode};
  }
  return status;
}

bool cch_graph_exec_has(const cch_graph_exec *exec, const cch_graph_node *node) {
  CCH__REQUIRE_ELSE(false, exec);
  CCH__REQUIRE_ELSE(false, node);
  if (node->graph->hierarchy->serial != exec->serial)
    return false;
  for (const cch_graph *graph = node->graph; graph != NULL; graph = graph->parent)
    if (graph->raw == exec->source)
      return true;
  return false;
}

int cch__exec_check_has(const cch_graph_exec *exec, const cch_graph_node *node, const char *operation) {
  CCH__RETURN_FAILURE(cch__context_check(exec->made_in, operation));
  if (!cch_graph_exec_has(exec, node))
    return cch__fail(CCH_EMISMATCH, operation, "the node %p is not of the graph that this one was instantiated from",
                     (void *)node->raw);
  return 0;
}

int cch__exec_set_filled(cch_graph_exec *exec, CUgraphNode raw, cch__node_params *filled, bool attributes,
                         const char *operation) {
  replaced *room = malloc(sizeof *room);
  if (room == NULL || !cch__table_reserve(&exec->uses, sizeof(current_use), 1)) {
    free(room);
    return cch__fail_nomem(operation);
  }
  current_use *one = cch__table_enter(&exec->uses, sizeof *one, raw);
  bool changes = false;
  const bool plain = attributes ? filled->attribute_count == 0 : one->plain;
  int status = 0;
  if (attributes && !(plain && one->plain))
    status = cch__node_attributes_change(&changes, raw, filled);
  if (status == 0 && changes)
    status = cch__fail(CCH_EINVAL, operation,
                       "the attributes of a kernel (cluster, cooperative, priority) cannot be changed in an executable "
                       "graph: change the node, and instantiate its graph again");
  if (status == 0)
    status = cch__driver_set_exec_node(exec->raw, raw, &filled->native);
  if (status != 0) {
    free(room);
    return status;
  }
  retire(exec, one, room);
  one->bundle = cch_bundle_ref(filled->kept);
  one->launches = exec->launches;
  one->plain = plain;
  return 0;
}

cch_status cch_graph_exec_enabled(int *out, cch_graph_exec *exec, cch_graph_node *node, int enabled) {
  CCH__REQUIRE_USABLE(out, exec, node);
  CCH__RETURN_FAILURE(cch__exec_check_has(exec, node, __func__));
  unsigned found = enabled > 0;
  const int status = CCH__IN_TURN_OF_EXEC(
      exec, CCH__IN_TURN(node, NULL,
                         enabled < 0 ? CCH__CALL(cuGraphNodeGetEnabled, (exec->raw, node->raw, &found))
                                     : CCH__CALL(cuGraphNodeSetEnabled, (exec->raw, node->raw, found))));
  if (status == 0)
    *out = found != 0;
  return status;
}

/* ---- launch ---- */

cch_status cch_graph_upload(cch_graph_exec *exec, cch_stream *stream) {
  CCH__REQUIRE_USABLE(exec, stream);
  CCH__REQUIRE_CONTEXT(exec->made_in);
  cch__poll();
  return CCH__IN_TURN_OF_EXEC(exec,
                              CCH__IN_CONTEXT(stream->context, CCH__CALL(cuGraphUpload, (exec->raw, stream->raw))));
}

/*
 * If a stream is being captured, makes the graph of the capture keep the objects that the executable graph uses,
 * whichever code began the capture.
 */
static int keep_in_capture(const cch_graph_exec *exec, cch_stream *stream) {
  int status = 0;
  if (exec->whole.bundle != NULL)
    status = cch_capture_keep_all(stream, (void *[]){exec->whole.bundle}, 1);
  for (const current_use *one = NULL; status == 0 && (one = next_use(exec, one)) != NULL;)
    if (one->bundle != NULL)
      status = cch_capture_keep_all(stream, (void *[]){one->bundle}, 1);
  return status;
}

/*
 * Returns whether a stream can be queried after a launch. Other code can destroy a stream to which the library has no
 * reference.
 */
static bool stays(const cch_stream *stream) {
  return stream->box.owned || stream->box.release != NULL || cch__stream_is_default(stream);
}

/* Records the stream of the last launch and, for a default stream, the context of the launch. */
static void note_launch(cch_graph_exec *exec, cch_stream *stream, cch_context *context) {
  exec->launches++;
  cch_event *behind = exec->behind;
  exec->behind = NULL;
  if (exec->stream != stream || exec->context != context) {
    cch_stream *last = exec->stream;
    cch_context *last_context = exec->context;
    exec->stream = cch_stream_ref(stream);
    exec->context = cch_context_ref(context);
    cch__unref_later(last);
    cch__unref_later(last_context);
  }
  if (!stays(stream)) {
    cch_event *event = NULL;
    mark(&event, exec);
    cch__unref_later(event); /* the executable graph has a reference */
  }
  cch__unref_later(behind);
}

static int launch_in_turn(cch_graph_exec *exec, cch_stream *stream, bool *drops) {
  int status = 0;
  if (exec->whole.bundle == NULL && exec->uses.count == 0 && exec->first == NULL && exec->runs == NULL)
    return CCH__CALL_ON(stream, cuGraphLaunch, (exec->raw, stream->raw));
  cch_context *context = NULL;
  *drops = exec->first != NULL;
  if (*drops)
    cch__exec_settle(exec);
  if (stream->context == NULL)
    status = cch_context_current(&context);
  /* Drivers up to 13.0 refuse a launch into a capture, so captures are queried only where that is cheap. */
  bool captured = false;
  if (status == 0 && (cch_capture_count() != 0 || exec->uses.count != 0))
    status = CCH__IN_CONTEXT(stream->context, cch__capture_query(&captured, stream));
  if (status == 0 && captured)
    status = keep_in_capture(exec, stream);
  cch__runs *runs = captured ? NULL : exec->runs;
  if (status == 0)
    status = cch__runs_begin(runs, stream);
  if (status == 0) {
    status = CCH__CALL_ON(stream, cuGraphLaunch, (exec->raw, stream->raw));
    if (status == 0 && !captured)
      note_launch(exec, stream, context);
    status = cch__runs_launched(runs, stream, status);
  }
  cch__unref_later(context);
  return status;
}

cch_status cch_graph_launch(cch_graph_exec *exec, cch_stream *stream) {
  CCH__REQUIRE_USABLE(exec, stream);
  CCH__REQUIRE_CONTEXT(exec->made_in);
  if (stream->context != exec->made_in)
    CCH__REQUIRE_CONTEXT(stream->context);
  exec->runs != NULL ? cch__poll_patiently() : cch__poll(); /* memory can have been dropped during another launch */
  bool drops = false;
  const int status = CCH__IN_TURN_OF_EXEC(exec, launch_in_turn(exec, stream, &drops));
  if (drops)
    cch__poll();
  return status;
}

/* ---- destruction ---- */

bool cch__graph_exec_destroy(cch_graph_exec *exec) {
  if (!exec->destroyed) {
    replaced *room = malloc(sizeof *room);
    if (room == NULL)
      return false;
    int status = 0;
    if (!cch__context_is_lost(exec->made_in))
      status = CCH__RELAXED(CCH__CALL(cuGraphExecDestroy, (exec->raw)));
    if (cch__is_retryable(status)) {
      free(room);
      return false;
    }
    cch__report(status);
    exec->destroyed = true;
    retire_whole(exec, room);
    retire_all(exec);
  }
  return cch__exec_settle(exec);
}

void cch__graph_exec_unref_held(cch_graph_exec *exec) {
  pthread_mutex_destroy(&exec->turn);
  for (const current_use *one = NULL; (one = next_use(exec, one)) != NULL;)
    cch_bundle_unref(one->bundle);
  cch__table_free(&exec->uses);
  cch_bundle_unref(exec->whole.bundle);
  cch_stream_unref(exec->stream);
  cch_context_unref(exec->context);
  cch_context_unref(exec->made_in);
  cch_event_unref(exec->behind);
  cch__runs_unref(exec->runs);
}
