/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of graphs: their parameters, attributes and contexts. */
#include "graphs.h"

/* Checks the context of a node, which is reported as NULL if it is the current one. */
static void check_context(cch_graph_node *node, cch_context *expected) {
  cch_context *before, *told = expected;
  OK(cch_context_current(&before));
  OK(cch_graph_node_context(&told, node));
  CHECK(told == (expected != before ? expected : NULL));
  cch_context_unref(told);
  OK(cch_context_set_current(NULL));
  OK(cch_graph_node_context(&told, node));
  CHECK(told == expected);
  cch_context_unref(told);
  OK(cch_context_set_current(before));
  cch_context_unref(before);
}

/* A node would get the current context instead of the context that was requested for it. */
static void nodes_tell_their_context(void) {
  cch_context *second;
  OK(cch_context_primary(&second, 1));
  OK(cch_context_set_current(world.context));
  cch_graph *g = new_graph(), *copy;
  cch_kernel_node kernel = kernel_params();
  const cch_memcpy_node transfer = {.size = sizeof transfer,
                                    .dst = (CUdeviceptr)(uintptr_t)world.to,
                                    .src = (CUdeviceptr)(uintptr_t)world.from,
                                    .width = 64};
  const cch_memset_node fill = {
      .size = sizeof fill, .dst = (CUdeviceptr)(uintptr_t)world.to, .element_size = 1, .width = 8};
  const struct {
    int type;
    const void *params;
  } kinds[] = {{CCH_NODE_KERNEL, &kernel}, {CCH_NODE_MEMCPY, &transfer}, {CCH_NODE_MEMSET, &fill}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    cch_graph_node *explicit, *current, *found;
    cch_node_spec spec = {.size = sizeof spec, .type = kinds[i].type, .params = kinds[i].params, .context = second};
    OK(cch_graph_add(&explicit, g, &spec));
    spec.context = NULL;
    OK(cch_graph_add(&current, g, &spec));
    check_context(explicit, second);
    check_context(current, world.context);
    CUgraphNode raw = cch_graph_node_raw(explicit);
    cch_graph_node_unref(explicit); /* the record of the node, with its context, outlives the box */
    explicit = node_of(g, raw);
    check_context(explicit, second);
    OK(cch_graph_clone(&copy, NULL, NULL, g));
    found = copy_of(explicit, copy);
    check_context(found, second);
    cch_graph_node_unref(found);
    cch_graph_unref(copy);
    OK(cch_graph_node_set(explicit, kinds[i].params, NULL, world.context));
    check_context(explicit, world.context);
    OK(cch_graph_node_destroy(explicit));
    FAILS(CCH_EGONE, cch_graph_node_context(&second, explicit));
    cch_graph_node_unref(explicit);
    cch_graph_node_unref(current);
  }
  cch_graph_node *empty = add_empty(g, NULL);
  check_context(empty, NULL);
  cch_graph_node_unref(empty);
  cch_graph_unref(g);
  OK(cch_context_set_current(NULL));
  cch_context_unref(second);
}

/* A kernel node with programmatic launch would wait for the end of the kernel before it; or its programmatic edge would
 * become an ordinary edge when a refused change of edges is undone. */
static void programmatic_launches_are_edges(void) {
  cch_graph *g = new_graph();
  cch_graph_node *first = add_kernel(g, NULL, NULL), *empty = add_empty(g, NULL), *second;
  cch_graph_node *before[] = {first, empty};
  cch_launch_config config = graphs_config, told = {.size = sizeof told};
  cch_kernel_node params = kernel_params(), got = {.size = sizeof got, .config = &told};
  cch_node_spec spec = {.size = sizeof spec,
                        .type = CCH_NODE_KERNEL,
                        .params = &params,
                        .context = world.context,
                        .dependencies = before,
                        .dependency_count = 2};
  config.flags = CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION;
  params.config = &config;
  OK(cch_graph_add(&second, g, &spec));
  OK(cch_graph_node_get(&got, second));
  cch_kernel_unref(got.kernel);
  CHECK(told.flags & CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION);
  OK(cch_graph_node_set(second, &params, NULL, world.context));
  cch_graph_node *to[] = {second, second}, *wrong[] = {first, first};
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cch_graph_rewire(wrong, to, 2, NULL, NULL, 0, CCH_EDGE_DEFAULT)); /* the programmatic edge is unchanged */
  OK(cch_graph_node_get(&got, second));
  cch_kernel_unref(got.kernel);
  CHECK(told.flags & CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION);
  cch_edge_list edges;
  const uint8_t *types;
  OK(cch_graph_edges_typed(&edges, &types, g));
  CHECK_EQ(edges.count, 2);
  for (size_t i = 0; i < edges.count; i++)
    CHECK_EQ(types[i], edges.edges[i].from == first ? CCH_EDGE_PROGRAMMATIC : CCH_EDGE_DEFAULT);
  cch_edge_list_free(&edges);
  FAILS(CCH_EINVAL, cch_graph_rewire(&first, &second, 1, &empty, &second, 1, CCH_EDGE_LAUNCH_ORDER));
  FAILS(CCH_EINVAL, cch_graph_rewire(NULL, NULL, 0, &first, &second, 1, CCH_EDGE_OTHER));
  OK(cch_graph_rewire(&first, &second, 1, NULL, NULL, 0, CCH_EDGE_DEFAULT));
  FAILS(CCH_EINVAL, cch_graph_node_set(second, &params, NULL, world.context));
  cch_graph_node_unref(first);
  cch_graph_node_unref(empty);
  cch_graph_node_unref(second);
  cch_graph_unref(g);
}

int main(void) {
  check_open();
  check_around(graphs_open, graphs_close);
  RUN(nodes_tell_their_context);
  RUN(programmatic_launches_are_edges);
  return 0;
}
