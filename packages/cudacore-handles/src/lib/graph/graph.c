/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of graphs: creation, and the end of their hierarchy. */
#include "graph/graph.h"
#include "base/reclaim.h"
#include "base/registry.h"

#include <stdlib.h>

/* cch_graph_raw() */
CCH__DEFINE_RAW(cch_graph, CUgraph, raw)
CCH__DEFINE_GET(cch_graph *, cch_graph_parent, cch_graph, graph, NULL, parent)

int cch__graph_new(cch_graph **out, const char *operation) {
  static atomic_uint_fast64_t serials;
  cch__hierarchy *hierarchy = calloc(1, sizeof *hierarchy);
  if (hierarchy == NULL)
    return cch__fail_nomem(operation);
  cch_graph *graph = cch__box_new(CCH_KIND_GRAPH, sizeof *graph, operation);
  if (graph == NULL) {
    free(hierarchy);
    return CCH_ENOMEM;
  }
  pthread_mutex_init(&hierarchy->lock, NULL);
  pthread_mutex_init(&hierarchy->turn, NULL);
  hierarchy->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
  hierarchy->root.box = graph;
  graph->hierarchy = hierarchy;
  graph->level = &hierarchy->root;
  *out = graph;
  return 0;
}

void cch__graph_is_of(cch_graph *graph, cch_context *context) {
  graph->hierarchy->context = context;
  if (context != NULL)
    graph->box.context = context->box.context;
}

int cch__graph_check(const cch_graph *graph, const char *operation) {
  return cch__context_check(graph->hierarchy->context, operation);
}

void cch__graph_made(cch_graph *graph, CUgraph raw, bool owned) {
  graph->raw = graph->level->raw = raw;
  graph->box.owned = owned;
  cch__registry_insert(graph, raw);
}

static void free_hierarchy(cch__hierarchy *hierarchy) {
  cch__level_close(&hierarchy->root);
  cch_context_unref(hierarchy->context);
  pthread_mutex_destroy(&hierarchy->lock);
  pthread_mutex_destroy(&hierarchy->turn);
  free(hierarchy);
}

void cch__graph_free(cch_graph *graph) {
  free_hierarchy(graph->hierarchy);
  cch__box_free(graph);
}

cch_status cch_graph_create(cch_graph **out) {
  CCH__REQUIRE_USABLE(out);
  cch__poll();
  cch_graph *graph;
  CCH__RETURN_FAILURE(cch__graph_new(&graph, __func__));
  CUgraph raw;
  cch_context *context = NULL;
  int status = cch_context_current(&context);
  cch__graph_is_of(graph, context);
  if (status == 0)
    status = CCH__CALL(cuGraphCreate, (&raw, 0));
  if (status != 0) {
    cch__graph_free(graph);
    return status;
  }
  cch__graph_made(graph, raw, true);
  *out = graph;
  return 0;
}

static int clone_graph(cch_graph **out, cch_graph *graph, const char *operation) {
  cch_graph *clone;
  CCH__RETURN_FAILURE(cch__graph_new(&clone, operation));
  cch__graph_is_of(clone, cch_context_ref(graph->hierarchy->context));
  clone->hierarchy->captured = graph->hierarchy->captured;
  CUgraph raw = NULL;
  cch__level uses;
  int status = cch__level_copy(&uses, graph, operation);
  if (status == 0)
    status = CCH__CALL(cuGraphClone, (&raw, graph->raw));
  if (status == 0) {
    cch__graph_made(clone, raw, true);
    status = cch__level_give(&uses, graph->raw, clone->level, operation);
  }
  cch__level_close(&uses);
  if (status == 0)
    *out = clone;
  else if (raw != NULL)
    cch_graph_unref(clone);
  else
    cch__graph_free(clone);
  return status;
}

/* Lists the nodes of a graph, and the nodes of its copy that correspond to them. */
static int list_pairs(cch_node_list *nodes, cch_node_list *twins, cch_graph *graph, cch_graph *clone,
                      const char *operation) {
  CCH__RETURN_FAILURE(cch__graph_list(nodes, graph, operation));
  twins->nodes = calloc(nodes->count + 1, sizeof(void *));
  if (twins->nodes == NULL)
    return cch__fail_nomem(operation);
  int status = 0;
  for (; status == 0 && twins->count < nodes->count; twins->count += status == 0) {
    cch_graph_node *node = nodes->nodes[twins->count];
    CUgraphNode raw;
    status = CCH__CALL(cuGraphNodeFindInClone, (&raw, node->raw, clone->raw));
    if (status == 0)
      status = cch__node_box(&twins->nodes[twins->count], clone, raw, node->type, operation);
  }
  return status;
}

static int clone_pairs(cch_graph **out, cch_node_list *nodes, cch_node_list *twins, cch_graph *graph,
                       const char *operation) {
  cch_graph *clone;
  CCH__RETURN_FAILURE(clone_graph(&clone, graph, operation));
  cch_node_list from = {0}, to = {0};
  const int status = list_pairs(&from, &to, graph, clone, operation);
  if (status == 0) {
    *out = clone;
    *nodes = from;
    *twins = to;
    return 0;
  }
  cch_node_list_free(&from);
  cch_node_list_free(&to);
  cch_graph_unref(clone);
  return status;
}

cch_status cch_graph_clone(cch_graph **out, cch_node_list *nodes, cch_node_list *copies, cch_graph *graph) {
  CCH__REQUIRE_USABLE(out, graph);
  CCH__RETURN_FAILURE(cch__graph_check(graph, __func__));
  cch__poll();
  return CCH__IN_TURN(graph, NULL,
                      nodes != NULL && copies != NULL ? clone_pairs(out, nodes, copies, graph, __func__)
                                                      : clone_graph(out, graph, __func__));
}

cch_status cch_graph_keep(cch_graph *graph, cch_bundle *bundle) {
  CCH__REQUIRE_USABLE(graph, bundle);
  cch__poll();
  return CCH__IN_TURN(graph, NULL, cch__graph_keep(graph, bundle, __func__));
}

cch_status cch_graph_condition(CUgraphConditionalHandle *out, cch_graph *graph, cch_context *context, int has_default,
                               unsigned value) {
  CCH__REQUIRE_USABLE(out, graph);
  CCH__REQUIRE_USABLE_OR_NULL(context);
  cch__poll();
  CUcontext raw = NULL;
  int status = 0;
  if (context != NULL)
    raw = context->raw;
  else
    status = CCH__CALL(cuCtxGetCurrent, (&raw));
  if (status != 0)
    return status;
  CUgraphConditionalHandle condition;
  status = CCH__IN_TURN(graph, NULL,
                        CCH__CALL(cuGraphConditionalHandleCreate, (&condition, graph->raw, raw, value,
                                                                   has_default ? CU_GRAPH_COND_ASSIGN_DEFAULT : 0)));
  if (status == 0)
    *out = condition;
  return status;
}

cch_status cch_graph_debug_dot_print(cch_graph *graph, const char *path, unsigned flags) {
  CCH__REQUIRE_USABLE(graph, path);
  return CCH__IN_TURN(graph, NULL, CCH__CALL(cuGraphDebugDotPrint, (graph->raw, path, flags)));
}

/* ---- graphs in nodes ---- */

/* Returns the level of a graph in a node; NULL if memory ran out. The lock is held. */
static cch__level *level_of(cch__level *parent, CUgraphNode node, CUgraph raw) {
  cch__record *record = cch__record_find(parent, node);
  if (record != NULL)
    for (cch__level *child = record->children; child != NULL; child = child->next)
      if (child->raw == raw)
        return child;
  cch__level *made = calloc(1, sizeof *made);
  if (made == NULL || (record == NULL && !cch__level_reserve(parent, 1))) {
    free(made);
    return NULL;
  }
  made->raw = raw;
  record = cch__record_enter(parent, node);
  made->next = record->children;
  record->children = made;
  return made;
}

int cch__graph_in_node(cch_graph **out, cch_graph *parent, CUgraphNode node, CUgraph raw, const char *operation) {
  cch_graph *graph = cch__box_new(CCH_KIND_GRAPH, sizeof *graph, operation), *known = NULL;
  if (graph == NULL)
    return CCH_ENOMEM;
  graph->raw = raw;
  graph->node = node;
  graph->hierarchy = parent->hierarchy;
  graph->box.context = parent->box.context;
  cch__graph_lock(parent);
  int status = 0;
  cch__level *level = parent->level != NULL ? level_of(parent->level, node, raw) : NULL;
  if (parent->level == NULL) {
    status = cch__fail_gone(parent, operation);
  } else if (level == NULL) {
    status = cch__fail_nomem(operation);
  } else if (level->box != NULL && cch__box_try_ref(&level->box->box)) {
    known = level->box;
  } else {
    if (level->box != NULL)
      level->box->level = NULL; /* the old box has no references; without a level, it cannot detach the new box */
    level->box = graph;
    graph->level = level;
    graph->parent = cch_graph_ref(parent);
    atomic_store_explicit(&parent->has_room, false, memory_order_relaxed); /* the node may need a new record */
    cch__registry_insert(graph, raw);
  }
  cch__graph_unlock(parent);
  if (graph->level == NULL)
    cch__box_free(graph);
  if (status == 0)
    *out = known != NULL ? known : graph;
  return status;
}

/* ---- destruction ---- */

bool cch__graph_destroy(cch_graph *graph) {
  if (graph->capture != NULL && !cch__capture_abandon(graph))
    return false;
  if (!graph->box.owned)
    return true;
  int status = CCH__RELAXED(CCH__CALL(cuGraphDestroy, (graph->raw)));
  return cch__destroyed(status);
}

/*
 * Detaches the box of a graph in a node from the graph's level. The records of the graph's nodes remain for its next
 * box.
 */
static void leave_level(cch_graph *graph) {
  cch__graph_lock(graph);
  cch__level *level = graph->level;
  if (level != NULL && level->box == graph) {
    level->box = NULL;
    cch__record *record = cch__record_find(graph->parent->level, graph->node);
    if (record != NULL)
      cch__children_trim(graph->parent->level, record);
  }
  cch__graph_unlock(graph);
}

void cch__graph_unref_held(cch_graph *graph) {
  cch__capture_free(graph);
  if (graph->parent != NULL)
    leave_level(graph);
  else
    free_hierarchy(graph->hierarchy);
  cch_graph_unref(graph->parent);
}
