/* SPDX-License-Identifier: Apache-2.0 */
/* Finds nodes by the handles that the driver returned. */
#include "graph/nodes/nodes.h"

#include <stdlib.h>

static int find_in_clone(cch_graph_node **out, cch_graph_node *node, cch_graph *clone, const char *operation) {
  CUgraphNode raw;
  CCH__RETURN_FAILURE(CCH__USABLE(clone, "the clone", operation));
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphNodeFindInClone, (&raw, node->raw, clone->raw)));
  return cch__node_box(out, clone, raw, node->type, operation);
}

int cch_graph_find_in_clone(cch_graph_node **out, cch_graph_node *node, cch_graph *clone) {
  CCH__REQUIRE_USABLE(out, node, clone);
  return CCH__IN_TURN(node, clone, find_in_clone(out, node, clone, __func__));
}

static int look_in(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, const char *operation);

/* Searches the child graph or the bodies of a node. */
static int look_below(cch_graph_node **out, cch_graph *graph, CUgraphNode at, CUgraphNode raw, const char *operation) {
  CUgraphNodeType type;
  int status = CCH__CALL(cuGraphNodeGetType, (at, &type));
  if (status != 0 || cch__node_type_of((int)type)->child == NULL)
    return status;
  cch_graph_node *node;
  status = cch__node_box(&node, graph, at, (int)type, operation);
  if (status != 0)
    return status;
  unsigned count;
  status = cch__node_child_count(&count, node);
  for (unsigned i = 0; status == 0 && i < count && *out == NULL; i++) {
    cch_graph *child;
    status = cch__node_child(&child, node, i, operation);
    if (status == 0) {
      status = look_in(out, child, raw, operation);
      cch_graph_unref(child);
    }
  }
  cch_graph_node_unref(node);
  return status;
}

/* Searches a graph and everything below it for a node. *out remains NULL if the node is not found. */
static int look_in(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, const char *operation) {
  size_t count = 0;
  CUgraphNode *nodes = NULL;
  int status = CCH__CALL(cuGraphGetNodes, (graph->raw, NULL, &count));
  if (status == 0 && count > 0) {
    nodes = malloc(count * sizeof *nodes);
    status = nodes == NULL ? cch__fail_nomem(operation) : CCH__CALL(cuGraphGetNodes, (graph->raw, nodes, &count));
  }
  for (size_t i = 0; i < count && status == 0 && *out == NULL; i++)
    if (nodes[i] == raw)
      status = cch__node_box(out, graph, raw, -1, operation);
  for (size_t i = 0; i < count && status == 0 && *out == NULL; i++)
    status = look_below(out, graph, nodes[i], raw, operation);
  free(nodes);
  return status;
}

int cch_graph_node_of(cch_graph_node **out, cch_graph *graph, CUgraphNode raw) {
  CCH__REQUIRE_USABLE(out, graph, raw);
  cch_graph_node *found = NULL;
  int status = CCH__IN_TURN(graph, NULL, look_in(&found, graph, raw, __func__));
  if (status == 0 && found == NULL)
    status = cch__fail(CCH_EINVAL, __func__, "%p is not a node of the graph %p, nor of a graph in it", (void *)raw,
                       (void *)graph->raw);
  if (status == 0)
    *out = found;
  return status;
}
