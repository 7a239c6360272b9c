/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of graphs: their parameters, attributes and contexts. */
#include "graphs.h"

static void call_nothing(void *data) { (void)data; }

/* A node would report other parameters than it was created with. */
static void every_type_is_told_as_it_was_made(void) {
  cch_graph *g = new_graph(), *child = new_graph(), *told_graph;
  cch_graph_node *inner = add(child, CCH_NODE_EMPTY, NULL, NULL, NULL);

  cch_kernel_node params = kernel_params();
  cch_graph_node *k = add(g, CCH_NODE_KERNEL, &params, NULL, NULL);
  cch_launch_config config = {.size = sizeof config};
  cch_kernel_node told_kernel = {.size = sizeof told_kernel, .config = &config};
  OK(cch_graph_node_get(&told_kernel, k));
  CHECK(told_kernel.kernel == world.kernel);
  CHECK_EQ(config.grid[0], 4);
  CHECK_EQ(config.grid[1], 2);
  CHECK_EQ(config.block[0], 32);
  CHECK_EQ(config.shared_bytes, 16);
  CHECK_EQ(told_kernel.args_size, CHECK_MIXED_SIZE);
  CHECK_EQ(memcmp(told_kernel.args, &graphs_arguments, CHECK_MIXED_SIZE), 0);
  cch_kernel_unref(told_kernel.kernel);

  cch_memcpy_node copy = {.size = sizeof copy,
                          .dst = (CUdeviceptr)(uintptr_t)world.to,
                          .src = (CUdeviceptr)(uintptr_t)world.from,
                          .width = 64,
                          .height = 3},
                  told_copy;
  cch_graph_node *c = add(g, CCH_NODE_MEMCPY, &copy, k, NULL);
  told_copy.size = sizeof told_copy;
  OK(cch_graph_node_get(&told_copy, c));
  CHECK(told_copy.dst == copy.dst && told_copy.src == copy.src && told_copy.width == 64 && told_copy.height == 3);
  CHECK(told_copy.depth == 1 && told_copy.dst_pitch == 64 && told_copy.src_height == 3);

  cch_memset_node fill = {.size = sizeof fill,
                          .dst = (CUdeviceptr)(uintptr_t)world.to,
                          .value = 0xab,
                          .element_size = 1,
                          .width = 8},
                  told_fill;
  cch_graph_node *s = add(g, CCH_NODE_MEMSET, &fill, c, NULL);
  told_fill.size = sizeof told_fill;
  OK(cch_graph_node_get(&told_fill, s));
  CHECK(told_fill.dst == fill.dst && told_fill.value == 0xab && told_fill.element_size == 1 && told_fill.width == 8);
  CHECK_EQ(told_fill.height, 1);

  int datum;
  cch_host_node host = {.size = sizeof host, .function = call_nothing, .data = &datum}, told_host;
  cch_graph_node *h = add(g, CCH_NODE_HOST, &host, s, NULL);
  told_host.size = sizeof told_host;
  OK(cch_graph_node_get(&told_host, h));
  CHECK(told_host.function == call_nothing && told_host.data == &datum);

  cch_child_node child_params = {.size = sizeof child_params, .graph = child}, told_child = {.size = sizeof told_child};
  cch_graph_node *n = add(g, CCH_NODE_GRAPH, &child_params, h, NULL), *found;
  OK(cch_graph_node_get(&told_child, n));
  CHECK(told_child.graph != child && cch_graph_parent(told_child.graph) == g);
  OK(cch_graph_node_child(&told_graph, n, 0));
  CHECK(told_graph == told_child.graph);
  found = copy_of(inner, told_graph);
  CHECK(cch_graph_node_graph(found) == told_graph);
  cch_graph_node_unref(found);
  cch_graph_unref(told_graph);
  cch_graph_unref(told_child.graph);

  cch_event_node event_params = {.size = sizeof event_params, .event = world.event},
                 told_event = {.size = sizeof told_event};
  cch_graph_node *r = add(g, CCH_NODE_EVENT_RECORD, &event_params, n, NULL);
  cch_graph_node *w = add(g, CCH_NODE_EVENT_WAIT, &event_params, r, NULL);
  OK(cch_graph_node_get(&told_event, r));
  CHECK(told_event.event == world.event);
  cch_event_unref(told_event.event);
  OK(cch_graph_node_get(&told_event, w));
  CHECK(told_event.event == world.event);
  cch_event_unref(told_event.event);

  CUgraphConditionalHandle condition;
  OK(cch_graph_condition(&condition, g, world.context, 1, 1));
  const int branching = has_switches() ? CCH_CONDITIONAL_SWITCH : CCH_CONDITIONAL_IF;
  const unsigned count = has_switches() ? 3 : 1;
  cch_conditional_node branch = {.size = sizeof branch, .condition = condition, .type = branching, .count = count};
  cch_conditional_node told_branch = {.size = sizeof told_branch};
  cch_graph_node *b = add(g, CCH_NODE_CONDITIONAL, &branch, w, NULL);
  OK(cch_graph_node_get(&told_branch, b));
  CHECK(told_branch.condition == condition && told_branch.type == branching && told_branch.count == count);
  cch_graph *bodies[3], *again;
  for (unsigned i = 0; i < count; i++)
    OK(cch_graph_node_child(&bodies[i], b, i));
  OK(cch_graph_node_child(&again, b, count - 1));
  CHECK(again == bodies[count - 1] && (count == 1 || bodies[0] != bodies[1]));
  FAILS(CCH_EINVAL, cch_graph_node_child(&again, b, count));
  cch_graph_unref(again);
  for (unsigned i = 0; i < count; i++)
    cch_graph_unref(bodies[i]);

  cch_alloc_node alloc = {.size = sizeof alloc, .bytes = 4096}, told_alloc = {.size = sizeof told_alloc};
  cch_graph_node *a = add(g, CCH_NODE_ALLOC, &alloc, b, NULL);
  CHECK(alloc.address != 0);
  OK(cch_graph_node_get(&told_alloc, a));
  CHECK(told_alloc.address == alloc.address && told_alloc.bytes == 4096);
  cch_free_node free_params = {.size = sizeof free_params, .address = alloc.address},
                told_free = {.size = sizeof told_free};
  cch_graph_node *f = add(g, CCH_NODE_FREE, &free_params, a, NULL);
  OK(cch_graph_node_get(&told_free, f));
  CHECK_EQ(told_free.address, alloc.address);

  cch_graph_node *const made[] = {k, c, s, h, n, r, w, b, a, f};
  static const int types[] = {CCH_NODE_KERNEL, CCH_NODE_MEMCPY,       CCH_NODE_MEMSET,     CCH_NODE_HOST,
                              CCH_NODE_GRAPH,  CCH_NODE_EVENT_RECORD, CCH_NODE_EVENT_WAIT, CCH_NODE_CONDITIONAL,
                              CCH_NODE_ALLOC,  CCH_NODE_FREE};
  cch_node_list list;
  cch_edge_list edges;
  OK(cch_graph_nodes(&list, g));
  CHECK_EQ(list.count, 10);
  for (size_t i = 0; i < list.count; i++) {
    CHECK(list.nodes[i] == made[i]);
    CHECK_EQ(cch_graph_node_type(made[i]), types[i]);
  }
  cch_node_list_free(&list);
  OK(cch_graph_edges(&edges, g));
  CHECK_EQ(edges.count, 9);
  for (size_t i = 0; i < edges.count; i++)
    CHECK(edges.edges[i].from == made[i] && edges.edges[i].to == made[i + 1]);
  cch_edge_list_free(&edges);
  for (int i = 0; i < 10; i++)
    cch_graph_node_unref(made[i]);
  cch_graph_node_unref(inner);
  cch_graph_unref(child);
  cch_graph_unref(g);
}

/* A kernel node would lose launch attributes, report them incorrectly, or keep attributes that were removed. */
static void kernels_keep_their_attributes(void) {
  cch_graph *g = new_graph();
  cch_kernel_node params = kernel_params();
  cch_launch_config config = graphs_config, told = {.size = sizeof told};
  config.cluster[0] = 2, config.cluster[1] = config.cluster[2] = 1;
  config.flags = CCH_LAUNCH_COOPERATIVE | CCH_LAUNCH_PRIORITY;
  config.priority = -3;
  params.config = &config;
  cch_graph_node *node = add(g, CCH_NODE_KERNEL, &params, NULL, NULL);
  cch_kernel_node got = {.size = sizeof got, .config = &told};
  OK(cch_graph_node_get(&got, node));
  cch_kernel_unref(got.kernel);
  CHECK_EQ(memcmp(&told, &config, sizeof told), 0);
  config.cluster[0] = config.cluster[1] = config.cluster[2] = 0;
  config.flags = 0;
  OK(cch_graph_node_set(node, &params, NULL, world.context));
  OK(cch_graph_node_get(&got, node));
  cch_kernel_unref(got.kernel);
  CHECK_EQ(told.cluster[0], 1);
  CHECK_EQ(told.flags, CCH_LAUNCH_PRIORITY);
  /* If one attribute is refused, none is set, and the node is not added. */
  cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_KERNEL, .params = &params, .context = world.context};
  cch_graph_node *none = NULL;
  config.cluster[0] = 3, config.cluster[1] = config.cluster[2] = 1;
  FAILS(CUDA_ERROR_INVALID_CLUSTER_SIZE, cch_graph_add(&none, g, &spec));
  CHECK(none == NULL);
  config.flags = CCH_LAUNCH_COOPERATIVE;
  config.grid[0] = 99;
  config.cluster[0] = 0;
  sim.fail("cuGraphNodeSetParams", 1, CUDA_ERROR_UNKNOWN);
  FAILS(CUDA_ERROR_UNKNOWN, cch_graph_node_set(node, &params, NULL, world.context));
  OK(cch_graph_node_get(&got, node));
  cch_kernel_unref(got.kernel);
  CHECK(told.flags == CCH_LAUNCH_PRIORITY && told.grid[0] == 4);
  /* The change from clusters of 2 to clusters of 3 must not pass through a state that the driver refuses. */
  config = graphs_config;
  config.cluster[0] = 2, config.cluster[1] = config.cluster[2] = 1;
  OK(cch_graph_node_set(node, &params, NULL, world.context));
  config.cluster[0] = 3;
  config.grid[0] = 9;
  config.flags = CCH_LAUNCH_COOPERATIVE;
  sim.fail("cuGraphKernelNodeSetAttribute", 3, CUDA_ERROR_UNKNOWN);
  FAILS(CUDA_ERROR_UNKNOWN, cch_graph_node_set(node, &params, NULL, world.context));
  OK(cch_graph_node_get(&got, node));
  CHECK_EQ(memcmp(got.args, &graphs_arguments, CHECK_MIXED_SIZE), 0);
  cch_kernel_unref(got.kernel);
  CHECK(told.cluster[0] == 2 && told.grid[0] == 4 && told.flags == CCH_LAUNCH_PRIORITY);
  OK(cch_graph_node_set(node, &params, NULL, world.context));
  OK(cch_graph_node_get(&got, node));
  cch_kernel_unref(got.kernel);
  CHECK(told.cluster[0] == 3 && told.grid[0] == 9);
  cch_graph_node_unref(node);
  cch_graph_unref(g);
}

static void check_context(cch_graph_node *node, cch_context *expected) {
  cch_context *told = world.context;
  OK(cch_graph_node_context(&told, node));
  CHECK(told == expected);
  cch_context_unref(told);
  cch_context *before;
  int is_current = -1;
  OK(cch_context_current(&before));
  OK(cch_graph_node_is_current(&is_current, node));
  CHECK_EQ(is_current, expected == NULL || expected == before);
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
  int is_current;
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
    OK(cch_graph_clone(&copy, g));
    found = copy_of(explicit, copy);
    check_context(found, second);
    cch_graph_node_unref(found);
    cch_graph_unref(copy);
    OK(cch_graph_node_set(explicit, kinds[i].params, NULL, world.context));
    check_context(explicit, world.context);
    OK(cch_graph_node_destroy(explicit));
    FAILS(CCH_EGONE, cch_graph_node_context(&second, explicit));
    FAILS(CCH_EGONE, cch_graph_node_is_current(&is_current, explicit));
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
        cch_graph_rewire(wrong, to, 2, NULL, NULL, 0)); /* the programmatic edge is unchanged */
  OK(cch_graph_node_get(&got, second));
  cch_kernel_unref(got.kernel);
  CHECK(told.flags & CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION);
  OK(cch_graph_rewire(&first, &second, 1, NULL, NULL, 0));
  FAILS(CCH_EINVAL, cch_graph_node_set(second, &params, NULL, world.context));
  cch_graph_node_unref(first);
  cch_graph_node_unref(empty);
  cch_graph_node_unref(second);
  cch_graph_unref(g);
}

/* The arguments of a kernel node would be reported only for the original node, and not for its copy in a clone. */
static void arguments_are_told_wherever_they_come_from(void) {
  cch_graph *g = new_graph(), *clone;
  cch_graph_node *node = add_kernel(g, NULL, NULL), *copied;
  OK(cch_graph_clone(&clone, g));
  copied = copy_of(node, clone);
  cch_kernel_node got = {.size = sizeof got};
  for (int i = 0; i < 2; i++) {
    OK(cch_graph_node_get(&got, copied));
    CHECK(cch_kernel_raw(got.kernel) == cch_kernel_raw(world.kernel) && got.args_size == CHECK_MIXED_SIZE);
    CHECK_EQ(memcmp(got.args, &graphs_arguments, CHECK_MIXED_SIZE), 0);
    cch_kernel_unref(got.kernel);
  }
  cch_graph_node_unref(copied);
  cch_graph_node_unref(node);
  cch_graph_unref(clone);
  cch_graph_unref(g);
}

int main(void) {
  check_open();
  check_around(graphs_open, graphs_close);
  RUN(every_type_is_told_as_it_was_made);
  RUN(kernels_keep_their_attributes);
  RUN(nodes_tell_their_context);
  RUN(programmatic_launches_are_edges);
  RUN(arguments_are_told_wherever_they_come_from);
  return 0;
}
