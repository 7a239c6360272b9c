/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: specifications of nodes, contexts of nodes, and functions that CUDA calls. */
#include "graphs.h"

/* A node that was refused: the specification, and the failure. */
typedef struct refusal {
  int status;
  const char *message;
  cch_node_spec spec;
} refusal;

/* Invalid input, or a box of a wrong kind in a structure or an array, would reach the driver, or change the graph. */
static void bad_specs_change_nothing(void) {
  cch_graph *g = new_graph(), *other = new_graph();
  cch_graph_node *stranger = add_empty(other, NULL), *gone = add_empty(g, NULL), *none = NULL;
  cch_graph_node *not_node = (cch_graph_node *)(void *)g;
  OK(cch_graph_node_destroy(gone));
  void *wrong = world.stream;
  const CUdeviceptr to = (CUdeviceptr)(uintptr_t)world.to;
  cch_kernel_node kernel = kernel_params(), no_kernel = kernel_params(), short_kernel = kernel_params();
  kernel.kernel = wrong;
  no_kernel.kernel = NULL;
  short_kernel.args_size--;
  cch_event_node event = {.size = sizeof event, .event = wrong};
  cch_child_node child = {.size = sizeof child, .graph = wrong};
  cch_alloc_node alloc = {.size = sizeof alloc, .bytes = 64, .peer_count = 1};
  cch_memset_node odd = {.size = sizeof odd, .dst = to, .value = 1, .element_size = 3, .width = 1};
  cch_memset_node large = {.size = sizeof large, .dst = to, .value = 256, .element_size = 1, .width = 1};
  cch_conditional_node loop = {.size = sizeof loop, .type = CCH_CONDITIONAL_WHILE, .count = 2};
  cch_host_node host = {.size = sizeof host};
  cch_free_node nothing = {.size = sizeof nothing};
  const refusal cases[] = {
      {CCH_EINVAL,
       "the event is a box of kind \"stream\", not of kind \"event\"",
       {.type = CCH_NODE_EVENT_RECORD, .params = &event}},
      {CCH_EINVAL, "the child graph is a box of kind \"stream\"", {.type = CCH_NODE_GRAPH, .params = &child}},
      {CCH_EINVAL, "the kernel of the node's parameters is a box", {.type = CCH_NODE_KERNEL, .params = &kernel}},
      {CCH_EINVAL, "the kernel of the node's parameters is NULL", {.type = CCH_NODE_KERNEL, .params = &no_kernel}},
      {CCH_EMISMATCH,
       "bytes of arguments",
       {.type = CCH_NODE_KERNEL, .params = &short_kernel, .context = world.context}},
      {CCH_EINVAL, "the array of peers of the node's parameters is NULL", {.type = CCH_NODE_ALLOC, .params = &alloc}},
      {CCH_EINVAL, "an element to set has 1, 2 or 4 bytes, not 3", {.type = CCH_NODE_MEMSET, .params = &odd}},
      {CCH_EINVAL, "the value 0x100 is too large", {.type = CCH_NODE_MEMSET, .params = &large}},
      {CCH_EINVAL, "cannot have 2 bodies", {.type = CCH_NODE_CONDITIONAL, .params = &loop}},
      {CCH_EINVAL, "the host function is NULL", {.type = CCH_NODE_HOST, .params = &host}},
      {CCH_EINVAL, "the address to free is 0", {.type = CCH_NODE_FREE, .params = &nothing}},
      {CCH_EINVAL, "the parameters of the node are NULL", {.type = CCH_NODE_HOST}},
      {CCH_EINVAL, "nodes of type 77 cannot be added", {.type = 77, .params = &host}},
      {CCH_EINVAL, "the context of the cch_node_spec is a box", {.type = CCH_NODE_EMPTY, .context = wrong}},
      {CCH_EINVAL, "the bundle of the cch_node_spec is a box", {.type = CCH_NODE_EMPTY, .bundle = wrong}},
      {CCH_EINVAL, "the reserved field", {.type = CCH_NODE_EMPTY, .reserved = 1}},
      {CCH_EINVAL, "the array of dependencies", {.type = CCH_NODE_EMPTY, .dependency_count = 1}},
      {CCH_EINVAL, "the array of earlier nodes", {.type = CCH_NODE_EMPTY, .earlier_count = 1}},
      {CCH_EINVAL,
       "a node is a box of kind \"graph\"",
       {.type = CCH_NODE_EMPTY, .dependencies = &not_node, .dependency_count = 1}},
      {CCH_EINVAL, "a node is NULL", {.type = CCH_NODE_EMPTY, .dependencies = &none, .dependency_count = 1}},
      {CCH_EMISMATCH, "is of the graph", {.type = CCH_NODE_EMPTY, .dependencies = &stranger, .dependency_count = 1}},
      {CCH_EGONE,
       "the graph node was destroyed",
       {.type = CCH_NODE_EMPTY, .dependencies = &gone, .dependency_count = 1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cch_node_spec spec = cases[i].spec;
    spec.size = sizeof spec;
    FAILS(cases[i].status, cch_graph_add(&none, g, &spec));
    CHECK_HAS(check_error()->message, cases[i].message);
    FAILS(cases[i].status, cch_graph_add_batch(&none, g, &spec, 1, NULL));
    CHECK_HAS(check_error()->message, cases[i].message);
    spec.size = 8;
    FAILS(CCH_EINVAL, cch_graph_add(&none, g, &spec));
  }
  cch_graph_node *node = add_empty(g, NULL);
  FAILS(CCH_EINVAL, cch_graph_rewire(node, true, NULL, 0, &not_node, 1, CCH_EDGE_DEFAULT));
  FAILS(CCH_EINVAL, cch_graph_rewire(node, false, &not_node, 1, NULL, 0, CCH_EDGE_DEFAULT));
  cch_graph_exec *exec = NULL;
  cch_instantiate_params upload = {.size = sizeof upload, .upload = (cch_stream *)(void *)g};
  FAILS(CCH_EINVAL, cch_graph_instantiate(&exec, g, &upload));
  CHECK(none == NULL && exec == NULL);
  cch_node_list list;
  OK(cch_graph_nodes(&list, g));
  CHECK_EQ(list.count, 1);
  cch_node_list_free(&list);
  CHECK_EQ(cch_live_count(CCH_KIND_BUNDLE), 0);
  cch_graph_node_unref(node);
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
  RUN(bad_specs_change_nothing);
  RUN(functions_that_cuda_calls_use_no_graph);
  RUN(nodes_tell_their_context);
  return 0;
}
