/* SPDX-License-Identifier: Apache-2.0 */
/* The contexts of nodes. */
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

int main(void) {
  check_open();
  check_around(graphs_open, graphs_close);
  RUN(nodes_tell_their_context);
  return 0;
}
