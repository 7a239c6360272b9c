/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: their graphs, the objects that these graphs keep, and how captures end. */
#include "graphs.h"

static bool is_captured(cch_stream *stream) {
  int capturing;
  OK(cch_stream_is_capturing(&capturing, stream));
  return capturing;
}

static cch_graph *begin(int mode) {
  cch_graph *graph;
  OK(cch_capture_begin(&graph, world.stream, mode));
  return graph;
}

static void launch(void) {
  OK(cch_launch(world.stream, &graphs_config, world.kernel, &graphs_arguments, CHECK_MIXED_SIZE));
}

/*
 * Objects used by work in another library's capture would be destroyed before the captured graph and its executable
 * graphs, or never.
 */
static void captures_of_others_keep_what_work_uses(void) {
  CHECK(!is_captured(world.stream));
  cch_bundle *kept = new_bundle(), *later = new_bundle();
  OK(cch_capture_keep_all(world.stream, (void *[]){kept}, 1)); /* nothing is captured: nothing is kept */
  CHECK_EQ(driver.cuStreamBeginCapture(cch_stream_raw(world.stream), CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
  CHECK(is_captured(world.stream));
  size_t objects = sim.calls("cuUserObjectCreate");
  FAILS(CCH_EINVAL, cch_capture_keep_all(NULL, NULL, 0));
  FAILS(CCH_EINVAL, cch_capture_keep_all(world.stream, (void *[]){kept, NULL}, 2));
  sim.fail("cuGraphRetainUserObject", 1, CUDA_ERROR_UNKNOWN);
  FAILS(CUDA_ERROR_UNKNOWN, cch_capture_keep_all(world.stream, (void *[]){kept}, 1));
  objects += 1;
  OK(cch_capture_keep_all(world.stream, (void *[]){kept, world.event}, 2));
  launch();
  OK(cch_capture_keep_all(world.stream, (void *[]){later}, 1));
  launch();
  CHECK_EQ(sim.calls("cuUserObjectCreate"), objects + 1);
  cch_bundle_unref(kept);
  cch_bundle_unref(later);
  CUgraph raw;
  CUgraphExec exec;
  CHECK_EQ(driver.cuStreamEndCapture(cch_stream_raw(world.stream), &raw), 0);
  CHECK(!is_captured(world.stream));
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
  OK(cch_context_set_current(world.context));
  CHECK_EQ(driver.cuGraphInstantiateWithParams(&exec, raw, &params), 0);
  OK(cch_context_set_current(NULL));
  CHECK_AFTER(OK((int)driver.cuGraphDestroy(raw)), ends(), 0);
  CHECK_AFTER(OK((int)driver.cuGraphExecDestroy(exec)), ends(), 2);
}

/*
 * Data of tell(), which a launch calls during a capture: an object that the graph must keep, the number of calls, and
 * an error code to return, or 0.
 */
typedef struct told {
  cch_bundle *bundle;
  int calls, status;
} told;

static int tell(void *data) {
  told *self = data;
  self->calls++;
  return self->status != 0 ? self->status
                           : cch_capture_keep_all(world.stream, (void *[]){world.kernel, self->bundle}, 2);
}

static int launch_keeping(told *keep) {
  return cch_launch_keeping(world.stream, &graphs_config, world.kernel, &graphs_arguments, CHECK_MIXED_SIZE, tell,
                            keep);
}

/*
 * A launch would make other queries of the driver than the two that it needs, for the context and for the capture; or
 * captured work would be submitted before the graph keeps the objects that the work uses.
 */
static void launches_ask_twice_and_keep_first(void) {
  OK(cch_context_set_current(cch_stream_context(world.stream)));
  launch(); /* the first launch queries the kernel's parameters */
  told keep = {.bundle = new_bundle()};
  size_t contexts = sim.calls("cuCtxGetId"), captures = sim.calls("cuStreamIsCapturing"), calls = sim.calls(NULL);
  OK(launch_keeping(&keep));
  CHECK_EQ(keep.calls, 0);
  CHECK_EQ(sim.calls("cuCtxGetId"), contexts + 1);
  CHECK_EQ(sim.calls("cuStreamIsCapturing"), captures + 1);
  CHECK_EQ(sim.calls(NULL), calls + 3);
  cch_graph *g = begin(CCH_CAPTURE_GLOBAL);
  size_t launches = sim.calls("cuLaunchKernelEx");
  keep.status = CCH_ENOMEM;
  CHECK_EQ(launch_keeping(&keep), CCH_ENOMEM);
  CHECK(keep.calls == 1 && sim.calls("cuLaunchKernelEx") == launches);
  keep.status = 0;
  calls = sim.calls(NULL);
  OK(launch_keeping(&keep));
  CHECK_EQ(keep.calls, 2);
  CHECK_EQ(sim.calls(NULL), calls + 3);
  OK(cch_capture_end(g, world.stream));
  cch_bundle_unref(keep.bundle);
  CHECK_EQ(ends(), 0);
  cch_graph_unref(g);
  CHECK_EQ(ends(), 1);
  OK(cch_context_set_current(NULL));
}

/*
 * Begins a capture, ends it as other code would, and begins another capture of the stream. *raw is the graph of the
 * first capture.
 */
static cch_graph *begin_and_be_replaced(CUgraph *raw) {
  cch_graph *g = begin(CCH_CAPTURE_GLOBAL);
  CHECK_EQ(driver.cuStreamEndCapture(cch_stream_raw(world.stream), raw), 0);
  CHECK(!is_captured(world.stream));
  CHECK_EQ(driver.cuStreamBeginCapture(cch_stream_raw(world.stream), CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
  CHECK(is_captured(world.stream));
  return g;
}

/* If other code ends our capture and begins another one, new work of the stream would count as work of our capture. */
static void captures_that_others_begin_anew(void) {
  CUgraph raw, second;
  cch_graph *g = begin_and_be_replaced(&raw);
  told keep = {.bundle = new_bundle()};
  OK(launch_keeping(&keep));
  cch_bundle_unref(keep.bundle);
  CHECK_EQ(driver.cuStreamEndCapture(cch_stream_raw(world.stream), &second), 0);
  cch_graph_unref(g);
  CHECK_AFTER(OK((int)driver.cuGraphDestroy(raw)), ends(), 0);
  CHECK_AFTER(OK((int)driver.cuGraphDestroy(second)), ends(), 1);
}

/* If the box of a capture is dropped before the capture has ended, the stream would remain in capture. */
static void dropped_captures_end(void) {
  for (int mode = CCH_CAPTURE_GLOBAL; mode <= CCH_CAPTURE_RELAXED; mode++) {
    cch_graph *g = begin(mode);
    cch_bundle *kept = new_bundle();
    OK(cch_capture_keep(g, kept, NULL));
    cch_bundle_unref(kept);
    launch();
    cch_graph_unref(g);
    CHECK(!is_captured(world.stream));
    CHECK_EQ(sim.live(CUDASIM_GRAPH), 0);
    CHECK_EQ(ends(), mode + 1);
  }
}

/* Invalidates a global capture, by a call that no thread may make during such a capture. */
static void invalidate(void) { FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cch_event_query(world.event)); }

/* The box of a failed capture would be used as if it had a graph. */
static void invalidated_captures_have_no_graph(void) {
  cch_graph *g = begin(CCH_CAPTURE_GLOBAL);
  launch();
  cch_node_list list;
  OK(cch_graph_nodes(&list, g));
  invalidate();
  FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cch_capture_end(g, world.stream));
  CHECK(!is_captured(world.stream));
  CHECK(!cch_is_valid(g) && !cch_is_valid(list.nodes[0]));
  FAILS(CCH_EGONE, cch_capture_end(g, world.stream));
  cch_node_list_free(&list);
  cch_graph_unref(g);
  /* Now the box of an invalidated capture is dropped without any earlier query of the capture. */
  g = begin(CCH_CAPTURE_GLOBAL);
  invalidate();
  cch_graph_unref(g);
  CHECK(!is_captured(world.stream));
}

static void drop(int index, void *argument) {
  (void)index;
  cch_graph_unref(argument);
}

/*
 * If a capture is dropped on another thread, or in a function where CUDA must not be called, the capture would never
 * end.
 */
static void dropped_captures_end_from_anywhere(void) {
  for (int mode = CCH_CAPTURE_GLOBAL; mode <= CCH_CAPTURE_RELAXED; mode++) {
    check_threads(1, drop, begin(mode));
    CHECK(!is_captured(world.stream));
    CHECK_EQ(sim.live(CUDASIM_GRAPH), 0);
  }
  cch_graph *g = begin(CCH_CAPTURE_GLOBAL);
  cch_callback_enter();
  cch_graph_unref(g);
  cch_callback_leave();
  CHECK(is_captured(world.stream));
  cch_reclaim_drain();
  CHECK(!is_captured(world.stream));
  g = begin(CCH_CAPTURE_GLOBAL);
  sim.forbid(1); /* CUDA calls are forbidden, although cch_callback_enter() was not called */
  cch_graph_unref(g);
  sim.forbid(0);
  CHECK(is_captured(world.stream));
  cch_reclaim_drain();
  CHECK(!is_captured(world.stream));
}

static void end_elsewhere(int index, void *argument) {
  (void)index;
  FAILS(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cch_capture_end(argument, world.stream));
}

/* If a call to end a capture is refused, the capture would count as ended; or a failed capture would leave a graph. */
static void failed_ends_are_told_apart(void) {
  cch_stream *other;
  OK(cch_stream_create(&other, world.context, 0, 0));
  cch_graph *g = begin(CCH_CAPTURE_GLOBAL);
  FAILS(CCH_EMISMATCH, cch_capture_end(g, other));
  CHECK(cch_is_valid(g) && is_captured(world.stream));
  launch();
  OK(cch_capture_end(g, world.stream));
  FAILS(CCH_EINVAL, cch_capture_end(g, world.stream));
  cch_graph_unref(g);
  g = begin(CCH_CAPTURE_GLOBAL);
  check_threads(1, end_elsewhere, g); /* the driver ends the capture nevertheless, and makes no graph */
  CHECK(!cch_is_valid(g) && !is_captured(world.stream));
  CHECK_EQ(cch_capture_count(), 0);
  cch_graph_unref(g);
  cch_stream_unref(other);
}

/* A capture into an existing graph would not add the captured work, or would destroy the graph if the capture fails. */
static void captures_into_bodies(void) {
  cch_graph *g = new_graph();
  CUgraphConditionalHandle condition;
  OK(cch_graph_condition(&condition, g, world.context, 0, 0));
  cch_conditional_node branch = {.size = sizeof branch, .condition = condition, .type = CCH_CONDITIONAL_IF, .count = 1};
  cch_graph_node *b = add(g, CCH_NODE_CONDITIONAL, &branch, NULL, NULL);
  cch_graph *body = child_of(b, 0);
  cch_graph_node *first = add_empty(body, NULL);
  FAILS(CCH_EMISMATCH, cch_capture_begin_to(body, world.stream, &b, 1, CCH_CAPTURE_RELAXED));
  OK(cch_capture_begin_to(body, world.stream, &first, 1, CCH_CAPTURE_RELAXED));
  FAILS(CCH_EINVAL, cch_capture_begin_to(body, world.stream, NULL, 0, CCH_CAPTURE_RELAXED));
  cch_bundle *kept = new_bundle();
  OK(cch_capture_keep(body, kept, NULL));
  cch_bundle_unref(kept);
  launch();
  OK(cch_capture_end(body, world.stream));
  cch_node_list list;
  OK(cch_graph_node_dependents(&list, first));
  CHECK_EQ(list.count, 1);
  cch_node_list_free(&list);
  /*
   * If the driver's call to end the capture fails, the graph remains, and the capture ends when the box of the graph is
   * dropped.
   */
  OK(cch_capture_begin_to(body, world.stream, NULL, 0, CCH_CAPTURE_GLOBAL));
  sim.fail("cuStreamEndCapture", 1, CUDA_ERROR_UNKNOWN);
  FAILS(CUDA_ERROR_UNKNOWN, cch_capture_end(body, world.stream));
  CHECK(cch_is_valid(body) && is_captured(world.stream));
  cch_graph_node_unref(first);
  cch_graph_unref(body);
  CHECK(!is_captured(world.stream));
  CHECK(cch_is_valid(b));
  cch_graph_node_unref(b);
  CHECK_AFTER(cch_graph_unref(g), ends(), 1);
}

static cch_stream *fork_of(cch_stream *from) {
  cch_stream *fork;
  OK(cch_stream_create(&fork, world.context, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_stream_wait_stream(fork, from));
  return fork;
}

/* A joined stream would be destroyed before memory that is freed on it, or be kept after the capture. */
static void joined_streams_are_held(void) {
  size_t streams = sim.live(CUDASIM_STREAM);
  cch_graph *g = begin(CCH_CAPTURE_RELAXED), *other = new_graph();
  cch_stream *fork = fork_of(world.stream), *deeper = fork_of(fork);
  cch_pool *pool;
  OK(cch_pool_current(&pool, 0));
  cch_deviceptr *memory;
  OK(cch_deviceptr_alloc_async(&memory, pool, 64, deeper));
  FAILS(CCH_EINVAL, cch_capture_join(other, deeper, fork));
  OK(cch_capture_join(g, deeper, fork));
  OK(cch_capture_join(g, fork, world.stream));
  OK(cch_capture_join(g, fork, fork)); /* joining a fork into itself does nothing, and makes no cycle */
  cch_stream_unref(deeper);
  CHECK_AFTER(cch_stream_unref(fork), sim.live(CUDASIM_STREAM), streams + 2);
  CHECK_AFTER(cch_deviceptr_unref(memory), sim.live(CUDASIM_STREAM), streams + 2);
  OK(cch_capture_end(g, world.stream));
  CHECK_EQ(sim.live(CUDASIM_STREAM), streams);
  cch_pool_unref(pool);
  cch_graph_unref(other);
  cch_graph_unref(g);
}

/* A capture that other code has ended would be ended again, although the stream may be in another capture. */
static void captures_that_others_ended_are_left_alone(void) {
  CUgraph raw, second;
  cch_graph *g = begin_and_be_replaced(&raw);
  cch_graph_unref(g);
  CHECK(is_captured(world.stream));
  CHECK_EQ(driver.cuStreamEndCapture(cch_stream_raw(world.stream), &second), 0);
  CHECK_EQ(driver.cuGraphDestroy(raw), 0);
  CHECK_EQ(driver.cuGraphDestroy(second), 0);
  /* Call cch_capture_end() for a capture that other code has ended, instead of only dropping its box. */
  g = begin_and_be_replaced(&raw);
  FAILS(CCH_EGONE, cch_capture_end(g, world.stream));
  CHECK(!cch_is_valid(g) && is_captured(world.stream));
  CHECK_EQ(cch_capture_count(), 0);
  cch_graph_unref(g);
  CHECK_EQ(driver.cuStreamEndCapture(cch_stream_raw(world.stream), &second), 0);
  CHECK_EQ(driver.cuGraphDestroy(raw), 0);
  CHECK_EQ(driver.cuGraphDestroy(second), 0);
}

int main(void) {
  check_open();
  check_around(graphs_open, graphs_close);
  RUN(captures_of_others_keep_what_work_uses);
  RUN(launches_ask_twice_and_keep_first);
  RUN(captures_that_others_begin_anew);
  RUN(dropped_captures_end);
  RUN(invalidated_captures_have_no_graph);
  RUN(dropped_captures_end_from_anywhere);
  RUN(failed_ends_are_told_apart);
  RUN(captures_into_bodies);
  RUN(joined_streams_are_held);
  RUN(captures_that_others_ended_are_left_alone);
  return 0;
}
