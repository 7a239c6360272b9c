/* SPDX-License-Identifier: Apache-2.0 */
/* Lists nodes and edges, and adds and removes edges. */
#include "graph/graph.h"
#include "base/reclaim.h"

#include <stdlib.h>
#include <string.h>

/* ---- listing nodes and edges ---- */

typedef struct raw_list {
  size_t count;
  CUgraphNode *nodes, *others; /* `others` is used for edges only */
  CUgraphEdgeData *edges;      /* older drivers have only plain edges, and leave these zero */
} raw_list;

static void free_raw(raw_list *list) {
  free(list->nodes);
  free(list->others);
  free(list->edges);
}

static int query_nodes(raw_list *list, const void *graph) {
  return CCH__CALL(cuGraphGetNodes, ((CUgraph)(uintptr_t)graph, list->nodes, &list->count));
}

/*
 * Calls the function that takes the data of edges or, if the driver does not have it, the one for plain edges.
 * CCH__CALL would name the latter as cuda.h renames it.
 */
#define CALL_TYPED(name, typed, plain)                                                                                 \
  (cch__driver.name##_v12030 != NULL ? cch__checked((int)cch__driver.name##_v12030 typed, #name)                       \
   : cch__driver.name != NULL        ? cch__checked((int)cch__driver.name plain, #name)                                \
                                     : cch__fail_missing(#name))

static int query_edges(raw_list *list, const void *opaque) {
  CUgraph graph = (CUgraph)(uintptr_t)opaque;
  return CALL_TYPED(cuGraphGetEdges, (graph, list->nodes, list->others, list->edges, &list->count),
                    (graph, list->nodes, list->others, &list->count));
}

static int query_dependencies(raw_list *list, const void *opaque) {
  CUgraphNode node = (CUgraphNode)(uintptr_t)opaque;
  return CALL_TYPED(cuGraphNodeGetDependencies, (node, list->nodes, list->edges, &list->count),
                    (node, list->nodes, &list->count));
}

static int query_dependents(raw_list *list, const void *opaque) {
  CUgraphNode node = (CUgraphNode)(uintptr_t)opaque;
  return CALL_TYPED(cuGraphNodeGetDependentNodes, (node, list->nodes, list->edges, &list->count),
                    (node, list->nodes, &list->count));
}

/* Queries the nodes or the edges of an object: the count, and the elements too if there are arrays for them. */
typedef int (*query_fn)(raw_list *list, const void *of);

/* Queries a count, and then that many elements. */
static int query_list(raw_list *list, query_fn query, const void *of, const char *operation) {
  *list = (raw_list){0};
  int status = query(list, of);
  if (status != 0 || list->count == 0)
    return status;
  list->nodes = malloc(list->count * sizeof *list->nodes);
  list->others = malloc(list->count * sizeof *list->others);
  list->edges = calloc(list->count, sizeof *list->edges);
  const bool has_room = list->nodes != NULL && list->others != NULL && list->edges != NULL;
  return has_room ? query(list, of) : cch__fail_nomem(operation);
}

int cch__driver_nodes(CUgraphNode **out, size_t *count, CUgraph graph, const char *operation) {
  raw_list list;
  int status = query_list(&list, query_nodes, graph, operation);
  if (status == 0) {
    *out = list.nodes;
    *count = list.count;
    list.nodes = NULL;
  }
  free_raw(&list);
  return status;
}

int cch__node_is_programmatic(bool *out, CUgraphNode raw, const char *operation) {
  *out = false;
  if (cch__driver.cuGraphNodeGetDependencies_v12030 == NULL)
    return 0;
  raw_list before;
  int status = query_list(&before, query_dependencies, raw, operation);
  for (size_t i = 0; status == 0 && i < before.count; i++)
    *out |= before.edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  free_raw(&before);
  return status;
}

/* ---- lists ---- */

void cch_node_list_free(cch_node_list *list) {
  if (list == NULL)
    return;
  for (size_t i = 0; i < list->count; i++)
    cch_graph_node_unref(list->nodes[i]);
  free(list->nodes);
  *list = (cch_node_list){0};
}

void cch_edge_list_free(cch_edge_list *list) {
  if (list == NULL)
    return;
  for (size_t i = 0; i < list->count; i++) {
    cch_graph_node_unref(list->edges[i].from);
    cch_graph_node_unref(list->edges[i].to);
  }
  free(list->edges);
  *list = (cch_edge_list){0};
}

static int give_nodes(cch_node_list *out, cch_graph *graph, const raw_list *raw, const char *operation) {
  cch_node_list list = {0};
  int status = 0;
  if (raw->count > 0 && (list.nodes = malloc(raw->count * sizeof *list.nodes)) == NULL)
    status = cch__fail_nomem(operation);
  for (; status == 0 && list.count < raw->count; list.count += status == 0)
    status = cch__node_box(&list.nodes[list.count], graph, raw->nodes[list.count], -1, operation);
  if (status == 0)
    *out = list;
  else
    cch_node_list_free(&list);
  return status;
}

static int list_nodes(cch_node_list *out, cch_graph *graph, query_fn query, const void *of, const char *operation) {
  raw_list raw;
  int status = query_list(&raw, query, of, operation);
  if (status == 0)
    status = give_nodes(out, graph, &raw, operation);
  free_raw(&raw);
  return status;
}

int cch__graph_list(cch_node_list *out, cch_graph *graph, const char *operation) {
  return list_nodes(out, graph, query_nodes, graph->raw, operation);
}

cch_status cch_graph_nodes(cch_node_list *out, cch_graph *graph) {
  CCH__REQUIRE_USABLE(out, graph);
  return CCH__IN_TURN(graph, NULL, cch__graph_list(out, graph, __func__));
}

cch_status cch_graph_node_neighbours(cch_node_list *out, cch_graph_node *node, bool forward) {
  CCH__REQUIRE_USABLE(out, node);
  const query_fn query = forward ? query_dependents : query_dependencies;
  return CCH__IN_TURN(node, NULL, list_nodes(out, node->graph, query, node->raw, __func__));
}

static int type_of(const CUgraphEdgeData *data) {
  static const CUgraphEdgeData plain;
  if (memcmp(data, &plain, sizeof plain) == 0)
    return CCH_EDGE_DEFAULT;
  const bool is_known = data->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && data->to_port == 0;
  return is_known && data->from_port == CCH_EDGE_PROGRAMMATIC   ? CCH_EDGE_PROGRAMMATIC
         : is_known && data->from_port == CCH_EDGE_LAUNCH_ORDER ? CCH_EDGE_LAUNCH_ORDER
                                                                : CCH_EDGE_OTHER;
}

static int give_edges(cch_edge_list *out, cch_graph *graph, const raw_list *raw, const char *operation) {
  cch_edge_list list = {0};
  int status = 0;
  if (raw->count > 0 && (list.edges = calloc(raw->count, sizeof *list.edges)) == NULL)
    status = cch__fail_nomem(operation);
  for (size_t i = 0; status == 0 && i < raw->count; i++) {
    cch_edge *edge = &list.edges[list.count++];
    edge->type = type_of(&raw->edges[i]);
    status = cch__node_box(&edge->from, graph, raw->nodes[i], -1, operation);
    if (status == 0)
      status = cch__node_box(&edge->to, graph, raw->others[i], -1, operation);
  }
  if (status == 0)
    *out = list;
  else
    cch_edge_list_free(&list);
  return status;
}

static int list_edges(cch_edge_list *out, cch_graph *graph, const char *operation) {
  raw_list raw;
  int status = query_list(&raw, query_edges, graph->raw, operation);
  if (status == 0)
    status = give_edges(out, graph, &raw, operation);
  free_raw(&raw);
  return status;
}

cch_status cch_graph_edges(cch_edge_list *out, cch_graph *graph) {
  CCH__REQUIRE_USABLE(out, graph);
  return CCH__IN_TURN(graph, NULL, list_edges(out, graph, __func__));
}

/* ---- edges ---- */

/* Edges between a node and others that are added or removed. */
typedef struct changes {
  const cch_graph_node *node;
  bool forward; /* the edges lead from the node to the others */
  cch_graph_node *const *others;
  size_t count;
  CUgraphEdgeData *data; /* of each edge; NULL if all edges are plain */
} changes;

static const CUgraphNode *from_of(const changes *edges, size_t i) {
  return edges->forward ? &edges->node->raw : &edges->others[i]->raw;
}

static const CUgraphNode *to_of(const changes *edges, size_t i) {
  return edges->forward ? &edges->others[i]->raw : &edges->node->raw;
}

static int check_edges(const changes *edges, const char *operation) {
  for (size_t i = 0; i < edges->count; i++) {
    CCH__RETURN_FAILURE(cch__node_is_of(edges->others[i], edges->node->graph, operation));
    if (edges->others[i] == edges->node)
      return cch__fail(CCH_EINVAL, operation, "the node %p cannot depend on itself", (void *)edges->node->raw);
  }
  return 0;
}

/* Makes zeroed data of the edges, which stands for plain edges. */
static int make_data(changes *edges, const char *operation) {
  if (edges->data == NULL)
    edges->data = calloc(edges->count, sizeof *edges->data);
  return edges->data != NULL ? 0 : cch__fail_nomem(operation);
}

/* Sets the type of edges that are to be added. */
static int set_type(changes *edges, int type, const char *operation) {
  if (type < 0 || type >= CCH_EDGE_OTHER)
    return cch__fail(CCH_EINVAL, operation, "%d is not a type of edges that can be added", type);
  if (type == CCH_EDGE_DEFAULT || edges->count == 0)
    return 0;
  if (cch__driver.cuGraphAddDependencies_v12030 == NULL || cch__driver.cuGraphRemoveDependencies_v12030 == NULL)
    return cch__fail_missing_version("cuGraphAddDependencies", 12030);
  CCH__RETURN_FAILURE(make_data(edges, operation));
  for (size_t i = 0; i < edges->count; i++) {
    const cch_graph_node *wrong = edges->node->type != CCH_NODE_KERNEL        ? edges->node
                                  : edges->others[i]->type != CCH_NODE_KERNEL ? edges->others[i]
                                                                              : NULL;
    if (wrong != NULL)
      return cch__fail(
          CCH_EINVAL, operation,
          "an edge that is not of the default type leads from a kernel node to a kernel node, but the node "
          "%p is of another type",
          (void *)wrong->raw);
    edges->data[i].from_port = (unsigned char)type;
    edges->data[i].type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  return 0;
}

static const CUgraphEdgeData *data_of(const changes *edges, size_t i) {
  static const CUgraphEdgeData plain;
  return edges->data != NULL ? &edges->data[i] : &plain;
}

/* Adds or removes an edge. */
typedef int (*change_fn)(CUgraph graph, const changes *edges, size_t i);

/*
 * The following two functions change one edge per call: if the driver refuses one of several edges, it has already
 * changed those before it. To remove an edge that is not plain, the driver needs all of its data.
 */
static int add_edge(CUgraph graph, const changes *edges, size_t i) {
  const CUgraphNode *from = from_of(edges, i), *to = to_of(edges, i);
  return CALL_TYPED(cuGraphAddDependencies, (graph, from, to, data_of(edges, i), 1), (graph, from, to, 1));
}

static int remove_edge(CUgraph graph, const changes *edges, size_t i) {
  const CUgraphNode *from = from_of(edges, i), *to = to_of(edges, i);
  return CALL_TYPED(cuGraphRemoveDependencies, (graph, from, to, data_of(edges, i), 1), (graph, from, to, 1));
}

/* Reads the data of an edge. It remains zero if there is no such edge, or if the driver has only plain ones. */
static int look_up(changes *edges, size_t i, const char *operation) {
  if (cch__driver.cuGraphRemoveDependencies_v12030 == NULL)
    return 0;
  CCH__RETURN_FAILURE(make_data(edges, operation));
  raw_list before;
  int status = query_list(&before, query_dependencies, *to_of(edges, i), operation);
  for (size_t k = 0; status == 0 && k < before.count; k++)
    if (before.nodes[k] == *from_of(edges, i))
      edges->data[i] = before.edges[k];
  free_raw(&before);
  return status;
}

/*
 * Removes an edge. Nearly all edges are plain, so it is removed as a plain edge first: to read the data of the edges of
 * a node with n dependencies costs a call with n results.
 */
static int remove_any(CUgraph graph, changes *edges, size_t i, const char *operation) {
  int status = remove_edge(graph, edges, i);
  if (status != CUDA_ERROR_INVALID_VALUE)
    return status;
  CCH__RETURN_FAILURE(look_up(edges, i, operation));
  return remove_edge(graph, edges, i);
}

/* Undoes the changes of the first edges. */
static void undo_each(CUgraph graph, const changes *edges, size_t done, change_fn undo) {
  cch__destructor_enter();
  while (done-- > 0)
    cch__report(undo(graph, edges, done));
  cch__destructor_leave();
}

static int change(CUgraph graph, changes *lost, const changes *gained, const char *operation) {
  int status = 0;
  size_t removed = 0, added = 0;
  for (; status == 0 && removed < lost->count; removed += status == 0)
    status = remove_any(graph, lost, removed, operation);
  for (; status == 0 && added < gained->count; added += status == 0)
    status = add_edge(graph, gained, added);
  if (status != 0) {
    undo_each(graph, gained, added, remove_edge);
    undo_each(graph, lost, removed, add_edge);
  }
  return status;
}

static int rewire(changes *lost, changes *gained, int type, const char *operation) {
  int status = check_edges(lost, operation);
  if (status == 0)
    status = check_edges(gained, operation);
  if (status == 0)
    status = set_type(gained, type, operation);
  if (status == 0)
    status = change(lost->node->graph->raw, lost, gained, operation);
  free(lost->data);
  free(gained->data);
  return status;
}

cch_status cch_graph_rewire(cch_graph_node *node, bool forward, cch_graph_node *const *lost, size_t lost_count,
                            cch_graph_node *const *gained, size_t count, int type) {
  CCH__REQUIRE_USABLE(node);
  CCH__REQUIRE_ARRAY(lost, lost_count);
  CCH__REQUIRE_ARRAY(gained, count);
  changes out = {node, forward, lost, lost_count, NULL}, in = {node, forward, gained, count, NULL};
  return CCH__IN_TURN(node, NULL, rewire(&out, &in, type, __func__));
}
