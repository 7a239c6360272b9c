/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on graphs, their nodes, executable graphs and captures. */
#include "operations/calls.h"

/* Defines an operation that adds a node. */
#define ADDS(name_, type, ...)                                                                                         \
  static int name_(world *w, void **made) {                                                                            \
    __VA_ARGS__;                                                                                                       \
    cch_graph_node *out = (cch_graph_node *)&untouched;                                                                \
    int status = try_add(&out, w, type, &params);                                                                      \
    CHECK(status == 0 || out == (cch_graph_node *)&untouched);                                                         \
    *made = status == 0 ? out : NULL;                                                                                  \
    return status;                                                                                                     \
  }                                                                                                                    \
  static void undo_##name_(void *made) { take_out(made); }                                                             \
  OPERATION(name_, undo_##name_)

static void take_out(void *node) {
  OK(cch_graph_node_destroy(node));
  cch_graph_node_unref(node);
}

/* Defines an operation whose out-parameter is a list. */
#define LISTS(name_, type, free, call)                                                                                 \
  static int name_(world *w, void **made) {                                                                            \
    (void)w, (void)made;                                                                                               \
    type out = {.count = 77};                                                                                          \
    int status = call;                                                                                                 \
    CHECK(status == 0 || out.count == 77);                                                                             \
    if (status == 0)                                                                                                   \
      free(&out);                                                                                                      \
    return status;                                                                                                     \
  }                                                                                                                    \
  OPERATION(name_, NULL)

MAKES(graph_create, cch_graph, cch_graph_create(&out))
MAKES(graph_clone, cch_graph, cch_graph_clone(&out, NULL, NULL, w->graph))
DOES(graph_keep, cch_graph_keep(w->graph, w->bundle))
GIVES(graph_condition, CUgraphConditionalHandle, cch_graph_condition(&out, w->graph, w->context, 1, 2))
DOES(graph_debug_dot_print, cch_graph_debug_dot_print(w->graph, "/dev/null", 0))
ADDS(graph_add_kernel, CCH_NODE_KERNEL, cch_kernel_node params = node_of_kernel(w))
ADDS(graph_add_memcpy, CCH_NODE_MEMCPY, cch_memcpy_node params = copy_params)
ADDS(graph_add_memset, CCH_NODE_MEMSET, cch_memset_node params = fill_params)
ADDS(graph_add_host, CCH_NODE_HOST, cch_host_node params = host_params)
ADDS(graph_add_graph, CCH_NODE_GRAPH, cch_child_node params = {.size = sizeof params, .graph = w->leaf})
ADDS(graph_add_empty, CCH_NODE_EMPTY, int params = 0)
ADDS(graph_add_event, CCH_NODE_EVENT_RECORD, cch_event_node params = {.size = sizeof params, .event = w->end})

static int graph_add_conditional(world *w, void **made) {
  cch_conditional_node params = {
      .size = sizeof params, .condition = w->condition, .type = CCH_CONDITIONAL_WHILE, .count = 1};
  cch_node_spec spec = {
      .size = sizeof spec, .type = CCH_NODE_CONDITIONAL, .params = &params, .bundle = w->bundle, .context = w->context};
  cch_graph_node *out = (cch_graph_node *)&untouched;
  int status = cch_graph_add(&out, w->branching, &spec);
  CHECK(status == 0 || out == (cch_graph_node *)&untouched);
  *made = status == 0 ? out : NULL;
  return status;
}
static void undo_graph_add_conditional(void *made) { take_out(made); }
OPERATION(graph_add_conditional, undo_graph_add_conditional)

/* Creates a graph and adds nodes to it. Operations that cannot remove their nodes again use such a graph. */
static int with_graph(cch_graph **out, world *w, int (*fill)(world *w, cch_graph *graph)) {
  cch_graph *graph;
  int status = cch_graph_create(&graph);
  if (status != 0)
    return status;
  status = fill(w, graph);
  if (status == 0)
    *out = graph;
  else
    cch_graph_unref(graph);
  return status;
}

static int add_memory(world *w, cch_graph *graph) {
  (void)w;
  cch_graph_node *node = NULL;
  int32_t peer = 1;
  cch_alloc_node alloc = {.size = sizeof alloc, .bytes = 64, .peers = &peer, .peer_count = 1};
  cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_ALLOC, .params = &alloc};
  int status = cch_graph_add(&node, graph, &spec);
  cch_free_node free_params = {.size = sizeof free_params, .address = alloc.address};
  cch_node_spec second = {.size = sizeof second,
                          .type = CCH_NODE_FREE,
                          .params = &free_params,
                          .dependencies = &node,
                          .dependency_count = 1};
  if (status == 0)
    status = cch_graph_add(NULL, graph, &second);
  cch_graph_node_unref(node);
  return status;
}
MAKES(graph_add_memory, cch_graph, with_graph(&out, w, add_memory))

static int graph_add_batch(world *w, void **made) {
  enum { COUNT = 3 };
  cch_kernel_node kernel = node_of_kernel(w);
  cch_node_spec specs[COUNT];
  for (int i = 0; i < COUNT; i++)
    specs[i] = (cch_node_spec){.size = sizeof *specs,
                               .type = CCH_NODE_KERNEL,
                               .params = &kernel,
                               .context = w->context,
                               .dependencies = &w->node,
                               .dependency_count = 1};
  cch_graph_node **out = calloc(COUNT + 1, sizeof *out);
  int status = cch_graph_add_batch(out, w->graph, specs, COUNT, NULL);
  CHECK(status == 0 || (out[0] == NULL && out[2] == NULL));
  if (status == 0)
    *made = out;
  else
    free(out);
  return status;
}
/* Fills columns that have the same argument for each node. */
static int fill_columns(world *w, cch_kernel_columns *out, cch_column columns[8]) {
  const cch_param *params;
  *out = (cch_kernel_columns){.kernel = w->kernel, .columns = columns, .context = w->context};
  int status = cch_kernel_params(&params, &out->column_count, w->kernel, w->context);
  for (size_t i = 0; status == 0 && i < out->column_count; i++)
    columns[i] = (cch_column){launch_arguments + params[i].offset, 0};
  return status;
}
static int add_kernels_after(world *w, cch_graph *graph, cch_graph_node *after) {
  enum { COUNT = 3 };
  const cch_kernel_node kernel = node_of_kernel(w);
  const cch_launch_config *const configs[] = {kernel.config};
  static const uint32_t edges[] = {0, 1, 1, 2};
  cch_column columns[8];
  CUgraphNode raw[COUNT];
  uint64_t first = 0;
  cch_kernel_columns given;
  int status = fill_columns(w, &given, columns);
  if (status != 0)
    return status;
  given.configs = configs;
  given.config_count = 1;
  given.edges = edges;
  given.edge_count = 2;
  given.after = &after;
  given.after_count = 1;
  status = cch_graph_add_kernels(raw, &first, graph, &given, COUNT, NULL);
  CHECK((status == 0) == (first != 0));
  cch_graph_node *node = NULL; /* the box of one of the nodes */
  if (status == 0)
    status = cch_graph_node_numbered(&node, graph, raw[1], first + 1);
  cch_graph_node_unref(node);
  return status;
}
static int add_kernels(world *w, cch_graph *graph) {
  cch_graph_node *node = NULL;
  static const cch_node_spec empty = {.size = sizeof empty, .type = CCH_NODE_EMPTY};
  int status = cch_graph_add(&node, graph, &empty);
  if (status == 0)
    status = add_kernels_after(w, graph, node);
  cch_graph_node_unref(node);
  return status;
}
MAKES(graph_add_kernels, cch_graph, with_graph(&out, w, add_kernels))
static int set_kernels(world *w, cch_graph_exec *exec) {
  cch_column columns[8];
  cch_kernel_columns given;
  int status = fill_columns(w, &given, columns);
  given.bundle = w->bundle;
  return status != 0 ? status : cch_graph_set_kernels(exec, &w->node, &given, 1, NULL);
}
DOES(graph_set_kernels, set_kernels(w, NULL))
DOES(graph_exec_set_kernels, set_kernels(w, w->exec))
/* Adds a batch with memory nodes. The library first adds these to another graph. */
static int add_batch_memory(world *w, cch_graph *graph) {
  (void)w;
  cch_alloc_node alloc = {.size = sizeof alloc, .bytes = 64};
  cch_node_spec specs[] = {{.size = sizeof *specs, .type = CCH_NODE_ALLOC, .params = &alloc},
                           {.size = sizeof *specs, .type = CCH_NODE_EMPTY}};
  return cch_graph_add_batch(NULL, graph, specs, 2, NULL);
}
MAKES(graph_add_batch_memory, cch_graph, with_graph(&out, w, add_batch_memory))
static void undo_graph_add_batch(void *made) {
  for (cch_graph_node **node = made; *node != NULL; node++)
    take_out(*node);
  free(made);
}
OPERATION(graph_add_batch, undo_graph_add_batch)

static int graph_node_set_kernel(world *w, void **made) {
  (void)made;
  static const cch_launch_config other = {.size = sizeof other, .grid = {2, 1, 1}, .block = {1, 1, 1}};
  cch_kernel_node params = node_of_kernel(w);
  params.config = &other;
  return cch_graph_node_set(w->node, &params, w->bundle, w->context);
}
OPERATION(graph_node_set_kernel, NULL)
DOES(graph_node_set_memcpy, cch_graph_node_set(w->copy, &copy_params, w->bundle, w->context))
DOES(graph_node_set_memset, cch_graph_node_set(w->fill, &fill_params, NULL, w->context))
DOES(graph_node_set_host, cch_graph_node_set(w->host, &host_params, w->bundle, NULL))
DOES(graph_node_set_graph,
     cch_graph_node_set(w->child, &(cch_child_node){.size = sizeof(cch_child_node), .graph = w->leaf}, NULL, NULL))
DOES(graph_node_set_event,
     cch_graph_node_set(w->wait, &(cch_event_node){.size = sizeof(cch_event_node), .event = w->end}, NULL, NULL))

static int graph_node_get_kernel(world *w, void **made) {
  (void)made;
  cch_launch_config config = {.size = sizeof config};
  cch_kernel_node out = {.size = sizeof out, .config = &config};
  int status = cch_graph_node_get(&out, w->node);
  cch_kernel_unref(out.kernel);
  return status;
}
OPERATION(graph_node_get_kernel, NULL)
#define GETS(name_, type, node_, ...)                                                                                  \
  static int name_(world *w, void **made) {                                                                            \
    (void)w, (void)made;                                                                                               \
    type out = {.size = sizeof out};                                                                                   \
    int status = cch_graph_node_get(&out, w->node_);                                                                   \
    __VA_ARGS__;                                                                                                       \
    return status;                                                                                                     \
  }                                                                                                                    \
  OPERATION(name_, NULL)
GETS(graph_node_get_memcpy, cch_memcpy_node, copy, (void)0)
GETS(graph_node_get_memset, cch_memset_node, fill, (void)0)
GETS(graph_node_get_host, cch_host_node, host, (void)0)
GETS(graph_node_get_graph, cch_child_node, child, cch_graph_unref(out.graph))
GETS(graph_node_get_record, cch_event_node, record, cch_event_unref(out.event))
GETS(graph_node_get_wait, cch_event_node, wait, cch_event_unref(out.event))
GETS(graph_node_get_conditional, cch_conditional_node, branch, (void)0)
MAKES(graph_node_context, cch_context, cch_graph_node_context(&out, w->node))

MAKES(graph_node_child, cch_graph, cch_graph_node_child(&out, w->child, 0))
MAKES(graph_node_body, cch_graph, cch_graph_node_child(&out, w->branch, 0))

/* Finds a child graph in a new clone, for whose nodes the library has no records yet. */
static int graph_of_a_clone(world *w, void **made) {
  (void)made;
  cch_graph *clone;
  cch_graph_node *node = NULL;
  cch_graph *body = NULL;
  int status = cch_graph_clone(&clone, NULL, NULL, w->graph);
  if (status != 0)
    return status;
  cch_node_list nodes = {0};
  status = cch_graph_nodes(&nodes, clone);
  for (size_t i = 0; status == 0 && i < nodes.count; i++)
    if (cch_graph_node_type(nodes.nodes[i]) == CCH_NODE_GRAPH)
      node = cch_graph_node_ref(nodes.nodes[i]);
  cch_node_list_free(&nodes);
  if (status == 0)
    status = cch_graph_node_child(&body, node, 0);
  cch_graph_node_unref(node);
  cch_graph_unref(body);
  cch_graph_unref(clone);
  return status;
}
OPERATION(graph_of_a_clone, NULL)

static int graph_clone_pairs(world *w, void **made) {
  cch_graph *out = (cch_graph *)&untouched;
  cch_node_list nodes = {.count = 77}, copies = {.count = 77};
  int status = cch_graph_clone(&out, &nodes, &copies, w->graph);
  CHECK(status == 0 ? nodes.count == copies.count : nodes.count == 77 && copies.count == 77);
  CHECK(status == 0 || out == (cch_graph *)&untouched);
  *made = status == 0 ? out : NULL;
  if (status == 0) {
    cch_node_list_free(&nodes);
    cch_node_list_free(&copies);
  }
  return status;
}
static void undo_graph_clone_pairs(void *made) { cch_graph_unref(made); }
OPERATION(graph_clone_pairs, undo_graph_clone_pairs)

static int graph_node_read(world *w, void **made) {
  (void)made;
  cch_kernel_node out = {.size = sizeof out};
  cch_bundle *kept = NULL, *bundle = NULL;
  int status = cch_graph_node_read(&out, &kept, &bundle, w->node);
  cch_kernel_unref(out.kernel);
  cch_bundle_unref(kept);
  cch_bundle_unref(bundle);
  return status;
}
OPERATION(graph_node_read, NULL)
LISTS(graph_nodes, cch_node_list, cch_node_list_free, cch_graph_nodes(&out, w->graph))
LISTS(graph_edges, cch_edge_list, cch_edge_list_free, cch_graph_edges(&out, w->graph))
LISTS(graph_node_dependencies, cch_node_list, cch_node_list_free, cch_graph_node_neighbours(&out, w->copy, false))
LISTS(graph_node_dependents, cch_node_list, cch_node_list_free, cch_graph_node_neighbours(&out, w->node, true))
static int graph_rewire(world *w, void **made) {
  (void)made;
  int status = cch_graph_rewire(w->copy, false, &w->node, 1, &w->fill, 1, CCH_EDGE_DEFAULT);
  return status != 0 ? status : cch_graph_rewire(w->copy, false, &w->fill, 1, &w->node, 1, CCH_EDGE_DEFAULT);
}
OPERATION(graph_rewire, NULL)
MAKES(graph_instantiate, cch_graph_exec,
      cch_graph_instantiate(&out, w->graph,
                            &(cch_instantiate_params){.size = sizeof(cch_instantiate_params), .upload = w->stream}))
DOES(graph_exec_update, cch_graph_exec_update(w->exec, w->graph, NULL))
DOES(graph_upload, cch_graph_upload(w->exec, w->stream))
DOES(graph_launch, cch_graph_launch(w->exec, w->stream))
DOES(graph_launch_legacy, cch_graph_launch(w->exec, cch_stream_legacy()), OPERATION_NEEDS_CURRENT)

static int graph_exec_set(world *w, void **made) {
  (void)made;
  cch_kernel_node params = node_of_kernel(w);
  return cch_graph_exec_set(w->exec, w->node, &params, w->bundle, w->context);
}
OPERATION(graph_exec_set, NULL)
GIVES(graph_exec_disable, int, cch_graph_exec_enabled(&out, w->exec, w->node, 0))
GIVES(graph_exec_is_enabled, int, cch_graph_exec_enabled(&out, w->exec, w->node, -1))
MAKES(capture_begin, cch_graph, cch_capture_begin(&out, w->stream, CCH_CAPTURE_RELAXED))

static int capture_begin_to(world *w, void **made) {
  int status = cch_capture_begin_to(w->leaf, w->stream, CCH_CAPTURE_RELAXED);
  *made = status == 0 ? w : NULL;
  return status;
}
static void undo_capture_begin_to(void *made) {
  world *w = made;
  OK(cch_capture_end(w->leaf, w->stream));
}
OPERATION(capture_begin_to, undo_capture_begin_to)

static int capture_end(world *w, void **made) {
  cch_graph *graph;
  int status = cch_capture_begin(&graph, w->stream, CCH_CAPTURE_RELAXED);
  if (status != 0)
    return status;
  status = cch_capture_end(graph, w->stream);
  if (status == 0)
    *made = graph;
  else
    cch_graph_unref(graph);
  return status;
}
static void undo_capture_end(void *made) { cch_graph_unref(made); }
OPERATION(capture_end, undo_capture_end)

static int capture_add(world *w, void **made) {
  (void)made;
  cch_host_node params = host_params;
  cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_HOST, .params = &params, .bundle = w->bundle};
  return cch_capture_add(NULL, w->captured, &spec);
}
OPERATION(capture_add, NULL)
DOES(capture_keep, cch_capture_keep(w->capture, w->bundle, NULL))
static int capture_keep_all(world *w, void **made) {
  (void)made;
  return cch_capture_keep_all(w->captured, (void *[]){w->bundle}, 1);
}
OPERATION(capture_keep_all, NULL)
DOES(capture_gather, cch_capture_gather(w->captured))
DOES(capture_join, cch_capture_join(w->capture, w->captured, w->captured))
