/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

#include <stdatomic.h>

graphs world;

const cch_launch_config graphs_config = {
    .size = sizeof graphs_config, .grid = {4, 2, 1}, .block = {32, 1, 1}, .shared_bytes = 16};
const check_mixed graphs_arguments = {.pointer = 0x1122334455667788, .single = 1.5f, .count = 7, .value = 2.5};

static atomic_int ended;

void graphs_open(void) {
  OK(cch_context_primary(&world.context, 0));
  OK(cch_stream_create(&world.stream, world.context, 0, 0));
  OK(cch_library_load(&world.library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&world.kernel, world.library, "mixed"));
  OK(cch_event_create(&world.event, world.context, 0));
  OK(cch_deviceptr_alloc_host(&world.pinned, world.context, 1024, 0));
  world.to = (unsigned char *)(uintptr_t)cch_deviceptr_raw(world.pinned);
  world.from = world.to + 512;
  atomic_store(&ended, 0);
}

void graphs_close(void) {
  cch_deviceptr_unref(world.pinned);
  cch_event_unref(world.event);
  cch_kernel_unref(world.kernel);
  cch_library_unref(world.library);
  cch_stream_unref(world.stream);
  cch_context_unref(world.context);
  cch_reclaim_drain(); /* destroys objects that CUDA has released on its own thread */
}

cch_graph *new_graph(void) {
  cch_graph *made;
  OK(cch_graph_create(&made));
  return made;
}

cch_graph_node *add(cch_graph *graph, int type, const void *params, cch_graph_node *before, cch_bundle *bundle) {
  cch_graph_node *node;
  cch_node_spec spec = {.size = sizeof spec,
                        .type = type,
                        .params = params,
                        .bundle = bundle,
                        .context = world.context,
                        .dependencies = &before,
                        .dependency_count = before != NULL};
  OK(cch_graph_add(&node, graph, &spec));
  return node;
}

cch_kernel_node kernel_params(void) {
  return (cch_kernel_node){.size = sizeof(cch_kernel_node),
                           .config = &graphs_config,
                           .kernel = world.kernel,
                           .args = &graphs_arguments,
                           .args_size = CHECK_MIXED_SIZE};
}

cch_graph_node *add_kernel(cch_graph *graph, cch_graph_node *before, cch_bundle *bundle) {
  cch_kernel_node params = kernel_params();
  return add(graph, CCH_NODE_KERNEL, &params, before, bundle);
}

cch_graph_node *add_empty(cch_graph *graph, cch_graph_node *before) {
  return add(graph, CCH_NODE_EMPTY, NULL, before, NULL);
}

cch_graph *child_of(cch_graph_node *node, unsigned index) {
  cch_graph *child;
  OK(cch_graph_node_child(&child, node, index));
  return child;
}

cch_graph_node *node_of(cch_graph *graph, CUgraphNode raw) {
  cch_node_list list;
  cch_graph_node *found = NULL;
  OK(cch_graph_nodes(&list, graph));
  for (size_t i = 0; i < list.count; i++)
    if (cch_graph_node_raw(list.nodes[i]) == raw)
      found = cch_graph_node_ref(list.nodes[i]);
  cch_node_list_free(&list);
  CHECK(found != NULL);
  return found;
}

cch_graph_node *copy_of(cch_graph_node *node, cch_graph *clone) {
  CUgraphNode raw;
  OK((int)driver.cuGraphNodeFindInClone(&raw, cch_graph_node_raw(node), cch_graph_raw(clone)));
  return node_of(clone, raw);
}

cch_graph_exec *instantiate(cch_graph *graph) {
  cch_graph_exec *exec;
  OK(cch_graph_instantiate(
      &exec, graph, &(cch_instantiate_params){.size = sizeof(cch_instantiate_params), .context = world.context}));
  return exec;
}

static void count_end(void *object) {
  (void)object;
  atomic_fetch_add(&ended, 1);
}

cch_bundle *new_bundle(void) {
  cch_bundle *made;
  OK(cch_bundle_create(&made, 1));
  OK(cch_bundle_add_object(made, made, count_end));
  return made;
}

int ends(void) {
  check_settle();
  cch_reclaim_drain();
  return atomic_load(&ended);
}
