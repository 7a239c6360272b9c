/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: edges, batches, specifications, and how nodes are found. */
#include "graphs.h"

/* A box of a wrong kind that is passed in a structure or an array would be accepted. */
static void boxes_in_structures_are_checked(void) {
  cch_graph *g = new_graph();
  cch_graph_node *none = NULL, *node = add_empty(g, NULL), *not_node = (cch_graph_node *)(void *)g;
  void *wrong = world.stream;
  cch_kernel_node kernel = kernel_params();
  cch_event_node event = {.size = sizeof event, .event = wrong};
  cch_child_node child = {.size = sizeof child, .graph = wrong};
  cch_alloc_node alloc = {.size = sizeof alloc, .bytes = 64, .peer_count = 1};
  const struct {
    cch_node_spec spec;
    const char *what;
  } cases[] = {{{.type = CCH_NODE_EVENT_RECORD, .params = &event},
                "the event is a box of kind \"stream\", not of kind \"event\""},
               {{.type = CCH_NODE_GRAPH, .params = &child}, "the child graph is a box of kind \"stream\""},
               {{.type = CCH_NODE_KERNEL, .params = &kernel}, "the kernel of the node's parameters is a box"},
               {{.type = CCH_NODE_ALLOC, .params = &alloc}, "the array of peers of the node's parameters is NULL"},
               {{.type = CCH_NODE_EMPTY, .context = wrong}, "the context of the cch_node_spec is a box"},
               {{.type = CCH_NODE_EMPTY, .bundle = wrong}, "the bundle of the cch_node_spec is a box"},
               {{.type = CCH_NODE_EMPTY, .dependencies = &not_node, .dependency_count = 1},
                "a node is a box of kind \"graph\""}};
  kernel.kernel = wrong;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cch_node_spec spec = cases[i].spec;
    spec.size = sizeof spec;
    FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
    CHECK_HAS(check_error()->message, cases[i].what);
    FAILS(CCH_EINVAL, cch_graph_add_batch(&none, g, &spec, 1, NULL));
    CHECK_HAS(check_error()->message, cases[i].what);
  }
  FAILS(CCH_EINVAL, cch_graph_rewire(NULL, NULL, 0, &node, &not_node, 1, CCH_EDGE_DEFAULT));
  FAILS(CCH_EINVAL, cch_graph_rewire(&not_node, &node, 1, NULL, NULL, 0, CCH_EDGE_DEFAULT));
  cch_graph_exec *exec = NULL;
  cch_instantiate_params upload = {.size = sizeof upload, .upload = (cch_stream *)(void *)g};
  FAILS(CCH_EINVAL, cch_graph_instantiate(&exec, g, &upload));
  CHECK(none == NULL && exec == NULL);
  cch_graph_node_unref(node);
  cch_graph_unref(g);
}

/* Invalid input would reach the driver, or change the graph. */
static void bad_specs_change_nothing(void) {
  cch_graph *g = new_graph(), *other = new_graph();
  cch_graph_node *stranger = add_empty(other, NULL), *gone = add_empty(g, NULL), *none = NULL;
  OK(cch_graph_node_destroy(gone));
  cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_EMPTY, .dependencies = &stranger, .dependency_count = 1};
  FAILS(CCH_EMISMATCH, cch_graph_add(&none, g, &spec));
  spec.dependencies = &gone;
  FAILS(CCH_EGONE, cch_graph_add(&none, g, &spec));
  spec.dependencies = &none;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  spec.dependencies = NULL;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  CHECK_HAS(check_error()->message, "the array of dependencies");
  spec.dependency_count = 0;
  spec.earlier_count = 1;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  CHECK_HAS(check_error()->message, "the array of earlier nodes");
  spec.earlier_count = 0;
  spec.reserved = 1;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  spec.reserved = 0;
  spec.size = 8;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  spec.size = sizeof spec;
  spec.type = 77;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  cch_kernel_node kernel = kernel_params();
  kernel.args_size--;
  spec.type = CCH_NODE_KERNEL;
  spec.params = &kernel;
  spec.context = world.context;
  FAILS(CCH_EMISMATCH, cch_graph_add(&none, g, &spec));
  kernel.args_size++;
  kernel.kernel = NULL;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  cch_memset_node fill = {
      .size = sizeof fill, .dst = (CUdeviceptr)(uintptr_t)world.to, .value = 1, .element_size = 3, .width = 1};
  spec.type = CCH_NODE_MEMSET;
  spec.params = &fill;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  fill.element_size = 1;
  fill.value = 256;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  cch_conditional_node branch = {.size = sizeof branch, .type = CCH_CONDITIONAL_WHILE, .count = 2};
  spec.type = CCH_NODE_CONDITIONAL;
  spec.params = &branch;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  cch_host_node host = {.size = sizeof host};
  spec.type = CCH_NODE_HOST;
  spec.params = &host;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  spec.params = NULL;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  cch_free_node nothing = {.size = sizeof nothing};
  spec.type = CCH_NODE_FREE;
  spec.params = &nothing;
  FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  CHECK(none == NULL);
  cch_node_list list;
  OK(cch_graph_nodes(&list, g));
  CHECK_EQ(list.count, 0);
  CHECK_EQ(cch_live_count(CCH_KIND_BUNDLE), 0);
  cch_graph_node_unref(stranger);
  cch_graph_node_unref(gone);
  cch_graph_unref(g);
  cch_graph_unref(other);
}

/* A host function would deadlock with another thread that uses the graph, or call the driver, which is forbidden. */
static void functions_that_cuda_calls_use_no_graph(void) {
  cch_graph *g = new_graph(), *other = NULL;
  cch_graph_node *node = add_empty(g, NULL);
  cch_graph_exec *exec = instantiate(g);
  cch_node_list list;
  CHECK_EQ(cch_callback_active(), 0);
  cch_callback_enter();
  CHECK_EQ(cch_callback_active(), 1);
  FAILS(CUDA_ERROR_NOT_PERMITTED, cch_graph_nodes(&list, g));
  FAILS(CUDA_ERROR_NOT_PERMITTED, cch_graph_clone(&other, NULL, NULL, g));
  FAILS(CUDA_ERROR_NOT_PERMITTED, cch_graph_node_destroy(node));
  FAILS(CUDA_ERROR_NOT_PERMITTED, cch_graph_launch(exec, world.stream));
  CHECK(cch_is_valid(node) && cch_graph_exec_has(exec, node));
  cch_callback_leave();
  OK(cch_graph_nodes(&list, g));
  CHECK_EQ(list.count, 1);
  cch_node_list_free(&list);
  cch_graph_exec_unref(exec);
  cch_graph_node_unref(node);
  cch_graph_unref(g);
}

int main(void) {
  check_open();
  check_around(graphs_open, graphs_close);
  RUN(boxes_in_structures_are_checked);
  RUN(bad_specs_change_nothing);
  RUN(functions_that_cuda_calls_use_no_graph);
  return 0;
}
