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

/* Graphs that other code makes from a shared graph would use destroyed objects. */
static void shared_graphs_are_kept_by_the_driver(void) {
  cch_graph *g = new_user(), *empty = new_graph();
  OK(cch_graph_share(empty));
  OK(cch_graph_share(g));
  OK(cch_graph_share(g));
  CHECK_EQ(sim.live(CUDASIM_USER_OBJECT), 1);
  cch_bundle *later = new_bundle(), *gone = new_bundle(), *whole = new_bundle();
  cch_graph_node_unref(add_kernel(g, NULL, later));
  cch_graph_node *removed = add_kernel(g, NULL, gone);
  OK(cch_graph_keep(g, whole));
  cch_bundle_unref(later);
  cch_bundle_unref(gone);
  cch_bundle_unref(whole);
  OK(cch_graph_node_destroy(removed));
  CHECK_AFTER(cch_graph_node_unref(removed), ends(), 1);
  CUgraphExec exec;
  CUDA_GRAPH_INSTANTIATE_PARAMS how = {0};
  OK(cch_context_set_current(world.context));
  OK((int)driver.cuGraphInstantiateWithParams(&exec, cch_graph_raw(g), &how));
  OK(cch_context_set_current(NULL));
  cch_graph_unref(g);
  CHECK_AFTER(cch_graph_unref(empty), ends(), 1);
  OK((int)driver.cuGraphExecDestroy(exec));
  CHECK_EQ(ends(), 4);
  CHECK_EQ(sim.live(CUDASIM_USER_OBJECT), 0);
}

/* A failed cch_graph_share() would leave a graph that wrongly counts as shared, or a user object that nothing owns. */
static void graphs_that_cannot_be_shared_are_not(void) {
  static const char *const steps[] = {"cuUserObjectCreate", "cuGraphRetainUserObject"};
  cch_graph *g = new_user();
  for (int i = 0; i < 2; i++) {
    sim.fail(steps[i], 1, CUDA_ERROR_UNKNOWN);
    FAILS(CUDA_ERROR_UNKNOWN, cch_graph_share(g));
    CHECK_EQ(sim.live(CUDASIM_USER_OBJECT), 0);
  }
  sim.reset();
  CHECK_AFTER(cch_graph_node_unref(add_kernel(g, NULL, NULL)), sim.live(CUDASIM_USER_OBJECT), 0);
  OK(cch_graph_share(g));
  CHECK_EQ(sim.live(CUDASIM_USER_OBJECT), 1);
  CHECK_AFTER(cch_graph_unref(g), ends(), 1);
}

/*
 * Clones, child graphs and executable graphs that are made from a graph would use objects that were destroyed with that
 * graph.
 */
static void what_is_made_of_graphs_keeps_what_they_use(void) {
  cch_graph *g = new_user(), *copy, *outer = new_graph();
  OK(cch_graph_clone(&copy, NULL, NULL, g));
  cch_child_node params = {.size = sizeof params, .graph = copy};
  cch_graph_node *node = add(outer, CCH_NODE_GRAPH, &params, NULL, NULL);
  cch_graph *child = child_of(node, 0);
  cch_bundle *given = new_bundle();
  cch_graph_node_unref(add_kernel(child, NULL, given));
  cch_bundle_unref(given);
  cch_graph *piece; /* a clone, because CUDA cannot instantiate a child graph */
  OK(cch_graph_clone(&piece, NULL, NULL, child));
  cch_graph_exec *whole = instantiate(outer), *part = instantiate(piece);
  cch_graph_unref(piece);
  cch_graph_unref(g);
  CHECK_AFTER(cch_graph_unref(copy), ends(), 0);
  OK(cch_graph_node_destroy(node));
  cch_graph_node_unref(node);
  cch_graph_unref(child);
  CHECK_AFTER(cch_graph_unref(outer), ends(), 0);
  CHECK_AFTER(cch_graph_exec_unref(whole), ends(), 0);
  CHECK_AFTER(cch_graph_exec_unref(part), ends(), 2);
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
  RUN(shared_graphs_are_kept_by_the_driver);
  RUN(graphs_that_cannot_be_shared_are_not);
  RUN(what_is_made_of_graphs_keeps_what_they_use);
  RUN(borrowed_streams_are_asked_at_once);
  return 0;
}
