/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that nodes use, and what keeps them alive: graphs, clones and executable graphs, launches in flight. */
#include "graphs.h"

/* Creates a graph of one kernel node with a bundle that counts its destruction. */
static cch_graph *new_user(void) {
  cch_graph *graph = new_graph();
  cch_bundle *used = new_bundle();
  cch_graph_node_unref(add_kernel(graph, NULL, used));
  cch_bundle_unref(used);
  return graph;
}

/*
 * The driver would keep the objects of all graphs, and not only those of shared graphs. This costs one or two driver
 * calls for each node, and for each launch.
 */
static void user_objects_are_for_shared_graphs(void) {
  cch_graph *g = new_user(), *copy, *captured;
  cch_graph_exec *exec = instantiate(g);
  OK(cch_graph_launch(exec, world.stream));
  OK(cch_graph_clone(&copy, NULL, NULL, g));
  OK(cch_capture_begin(&captured, world.stream, CCH_CAPTURE_RELAXED));
  cch_bundle *used = new_bundle();
  OK(cch_capture_keep(captured, used, NULL));
  OK(cch_capture_end(captured, world.stream));
  OK(cch_graph_keep(copy, used));
  cch_bundle_unref(used);
  CHECK_EQ(sim.calls("cuUserObjectCreate"), 0);
  cch_graph_exec_unref(exec);
  cch_graph_unref(captured);
  cch_graph_unref(copy);
  CHECK_AFTER(cch_graph_unref(g), ends(), 2);
}

/* To find out whether a launch is done, the library would use a borrowed stream that its owner has destroyed. */
static void borrowed_streams_are_asked_at_once(void) {
  CUstream raw;
  cch_stream *borrowed;
  cch_graph *g = new_user();
  cch_graph_exec *exec = instantiate(g);
  cch_graph_unref(g);
  OK((int)driver.cuCtxSetCurrent(cch_context_raw(world.context)));
  OK((int)driver.cuStreamCreateWithPriority(&raw, 0, 0));
  OK(cch_stream_wrap(&borrowed, raw, NULL, NULL));
  for (int i = 0; i < 2; i++)
    OK(cch_graph_launch(exec, borrowed));
  CHECK_EQ(sim.calls("cuEventRecord"), 2);
  cch_stream_unref(borrowed);
  OK((int)driver.cuStreamDestroy(raw));
  cch_graph_exec_unref(exec);
  CHECK_EQ(sim.calls("cuEventRecord"), 2);
  CHECK_EQ(ends(), 1);
  OK((int)driver.cuCtxSetCurrent(NULL));
}

int main(void) {
  check_open();
  check_around(graphs_open, graphs_close);
  RUN(user_objects_are_for_shared_graphs);
  RUN(borrowed_streams_are_asked_at_once);
  return 0;
}
