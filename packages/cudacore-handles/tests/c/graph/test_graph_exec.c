/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs: the work that runs, and the objects that graphs, clones and launches in flight keep. */
#include "graphs.h"

/* A node of another graph would be accepted as a node of the executable graph. */
static void nodes_of_other_graphs_are_refused(void) {
  cch_graph *g = new_graph(), *leaf = new_graph(), *other = new_graph();
  cch_graph_node *in_leaf = add_kernel(leaf, NULL, NULL), *stranger = add_kernel(other, NULL, NULL), *inner;
  cch_child_node child_params = {.size = sizeof child_params, .graph = leaf};
  cch_graph_node *n = add(g, CCH_NODE_GRAPH, &child_params, NULL, NULL);
  cch_graph_exec *exec = instantiate(g);
  cch_graph *child = child_of(n, 0);
  inner = copy_of(in_leaf, child);
  cch_kernel_node params = kernel_params();
  int enabled;
  CHECK(cch_graph_exec_has(exec, n) && cch_graph_exec_has(exec, inner));
  CHECK(!cch_graph_exec_has(exec, stranger) && !cch_graph_exec_has(exec, in_leaf) && !cch_graph_exec_has(exec, NULL));
  FAILS(CCH_EMISMATCH, cch_graph_exec_set(exec, stranger, &params, NULL, world.context));
  FAILS(CCH_EMISMATCH, cch_graph_exec_enabled(&enabled, exec, stranger, 0));
  OK(cch_graph_exec_set(exec, inner, &params, NULL, world.context));
  cch_launch_config config = graphs_config;
  config.flags = CCH_LAUNCH_COOPERATIVE;
  params.config = &config;
  FAILS(CCH_EINVAL, cch_graph_exec_set(exec, inner, &params, NULL, world.context));
  OK(cch_graph_node_destroy(n));
  FAILS(CCH_EGONE, cch_graph_exec_set(exec, inner, &params, NULL, world.context));
  cch_graph_node_unref(inner);
  cch_graph_node_unref(n);
  cch_graph_node_unref(in_leaf);
  cch_graph_node_unref(stranger);
  cch_graph_unref(child);
  cch_graph_unref(leaf);
  cch_graph_unref(other);
  cch_graph_unref(g);
  cch_graph_exec_unref(exec);
}

/* Makes a graph of one kernel node, and an executable graph. Only the executable graph's node keeps a bundle. */
static cch_graph_exec *instantiate_and_set(cch_graph **g, cch_graph_node **node) {
  *g = new_graph();
  *node = add_kernel(*g, NULL, NULL);
  cch_graph_exec *exec = instantiate(*g);
  cch_kernel_node params = kernel_params();
  cch_bundle *given = new_bundle();
  OK(cch_graph_exec_set(exec, *node, &params, given, world.context));
  cch_bundle_unref(given);
  return exec;
}

/*
 * The event that marks the end of a launch would be recorded only after a capture of the stream has begun, and so
 * become part of the capture.
 */
static void marks_stay_out_of_captures(void) {
  cch_graph *g, *captured;
  cch_graph_node *node;
  cch_graph_exec *exec = instantiate_and_set(&g, &node);
  OK(cch_graph_launch(exec, world.stream));
  OK(cch_capture_begin(&captured, world.stream, CCH_CAPTURE_GLOBAL));
  cch_kernel_node params = kernel_params();
  OK(cch_graph_exec_set(exec, node, &params, NULL, world.context));
  CHECK_EQ(sim.calls("cuEventRecord"), 0);
  CHECK_AFTER(cch_graph_exec_unref(exec), ends(), 0);
  OK(cch_capture_end(captured, world.stream));
  CHECK_EQ(ends(), 1);
  cch_graph_unref(captured);
  cch_graph_node_unref(node);
  cch_graph_unref(g);
}

/* A refused launch of an executable graph into a capture would lose the objects of its nodes, or keep them forever. */
static void captured_launches_are_refused(void) {
  cch_graph *g, *captured;
  cch_graph_node *node;
  cch_graph_exec *exec = instantiate_and_set(&g, &node);
  OK(cch_capture_begin(&captured, world.stream, CCH_CAPTURE_RELAXED));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cch_graph_launch(exec, world.stream));
  FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cch_capture_end(captured, world.stream));
  CHECK_AFTER(cch_graph_unref(captured), ends(), 0);
  CHECK_AFTER(cch_graph_exec_unref(exec), ends(), 1);
  cch_graph_node_unref(node);
  cch_graph_unref(g);
}

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
  CHECK_EQ(sim.calls("cuUserObjectCreate"), 0);
  OK(cch_graph_share(g));
  OK(cch_graph_keep(g, used));
  CHECK_EQ(sim.live(CUDASIM_USER_OBJECT), 2);
  cch_bundle_unref(used);
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
  RUN(nodes_of_other_graphs_are_refused);
  RUN(marks_stay_out_of_captures);
  RUN(captured_launches_are_refused);
  RUN(user_objects_are_for_shared_graphs);
  RUN(borrowed_streams_are_asked_at_once);
  return 0;
}
