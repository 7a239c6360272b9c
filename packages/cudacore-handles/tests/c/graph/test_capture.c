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
    cch_graph *g = begin(mode);
    cch_bundle *kept = new_bundle();
    OK(cch_capture_keep(g, kept, NULL));
    cch_bundle_unref(kept);
    check_threads(1, drop, g);
    CHECK(!is_captured(world.stream));
    CHECK_EQ(sim.live(CUDASIM_GRAPH), 0);
    CHECK_EQ(ends(), mode + 1);
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

/* Streams that were joined into each other would keep each other forever; or a default stream's memory would be lost.
 */
static void joins_go_one_way(void) {
  const size_t streams = sim.live(CUDASIM_STREAM);
  cch_graph *g = begin(CCH_CAPTURE_RELAXED);
  cch_stream *fork;
  OK(cch_stream_create(&fork, world.context, 0, 0));
  OK(cch_stream_wait_stream(fork, world.stream));
  OK(cch_capture_join(g, world.stream, fork));
  OK(cch_capture_join(g, fork, world.stream));
  FAILS(CCH_EINVAL, cch_capture_join(g, cch_stream_per_thread(), world.stream));
  cch_stream_unref(fork);
  CHECK_EQ(sim.live(CUDASIM_STREAM), streams);
  OK(cch_capture_end(g, world.stream));
  cch_graph_unref(g);
}

int main(void) {
  check_open();
  check_around(graphs_open, graphs_close);
  RUN(launches_ask_twice_and_keep_first);
  RUN(dropped_captures_end_from_anywhere);
  RUN(failed_ends_are_told_apart);
  RUN(joins_go_one_way);
  return 0;
}
