/* SPDX-License-Identifier: Apache-2.0 */
/* Adds, changes and destroys nodes. */
#include "graph/nodes/nodes.h"
#include "base/reclaim.h"
#include "stream/capture.h"

#include <stdlib.h>
#include <string.h>

/* cch_graph_node_raw() */
CCH__DEFINE_RAW(cch_graph_node, CUgraphNode, raw)
CCH__DEFINE_GET(cch_graph *, cch_graph_node_graph, cch_graph_node, node, NULL, graph)
CCH__DEFINE_GET(int, cch_graph_node_type, cch_graph_node, node, CCH_EINVAL, type)

cch_node_face *cch_graph_node_face(cch_graph_node *node) {
  CCH__REQUIRE_ELSE(NULL, node);
  return &node->face;
}

/* ---- boxes ---- */

static cch_graph_node *new_node(cch_graph *graph, CUgraphNode raw, int type, const char *operation) {
  cch_graph_node *node = cch__box_new(CCH_KIND_GRAPH_NODE, sizeof *node, operation);
  if (node != NULL) {
    node->raw = raw;
    node->graph = cch_graph_ref(graph);
    node->box.context = graph->box.context;
    node->type = type;
  }
  return node;
}

static void free_box(cch_graph_node *node) {
  if (node == NULL)
    return;
  cch_graph_unref(node->graph);
  cch__box_free(node);
}

static cch_graph_node *known_box(cch_graph *graph, CUgraphNode raw) {
  cch__graph_lock(graph);
  cch__record *record = cch__record_find(graph->level, raw);
  cch_graph_node *node = record != NULL ? record->box : NULL;
  if (node != NULL && !cch__box_try_ref(&node->box))
    node = NULL;
  cch__graph_unlock(graph);
  return node;
}

int cch__node_box(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, int type, const char *operation) {
  cch_graph_node *node = known_box(graph, raw);
  if (node != NULL) {
    *out = node;
    return 0;
  }
  CUgraphNodeType found = (CUgraphNodeType)type;
  int status = type >= 0 ? 0 : CCH__CALL(cuGraphNodeGetType, (raw, &found));
  return status != 0 ? status : cch__node_box_numbered(out, graph, raw, (int)found, 0, operation);
}

/* Returns whether the node of a record has a number; always true for 0. The lock is held. */
static bool has_number(const cch_graph *graph, CUgraphNode raw, uint64_t number) {
  const cch__record *record = number != 0 ? cch__record_find(graph->level, raw) : NULL;
  return number == 0 || (record != NULL && record->number == number);
}

int cch__node_box_numbered(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, int type, uint64_t number,
                           const char *operation) {
  cch_graph_node *node = new_node(graph, raw, type, operation), *known = NULL;
  if (node == NULL)
    return CCH_ENOMEM;
  int status = 0;
  cch__graph_lock(graph);
  if (graph->level == NULL) {
    status = cch__fail_gone(graph, operation);
  } else if (!has_number(graph, raw, number)) {
    status = cch__fail(CCH_EGONE, operation, "the node %p was destroyed", (void *)raw);
  } else if (!cch__level_reserve(graph->level, 1)) {
    status = cch__fail_nomem(operation);
  } else {
    cch__record *record = cch__record_enter(graph->level, raw);
    atomic_store_explicit(&graph->has_room, false, memory_order_relaxed); /* the record used the reserved room */
    if (record->box != NULL && cch__box_try_ref(&record->box->box))
      known = record->box; /* another thread has made the box first */
    else
      record->box = node;
  }
  cch__graph_unlock(graph);
  if (status != 0 || known != NULL) {
    free_box(node);
    node = known;
  }
  if (status == 0)
    *out = node;
  return status;
}

/* The lock is held. */
static void leave_record(const cch_graph_node *node) {
  cch__record *record = cch__record_find(node->graph->level, node->raw);
  if (record != NULL && record->box == node) {
    record->box = NULL;
    cch__record_trim(node->graph->level, record);
  }
}

void cch__graph_node_unref_held(cch_graph_node *node) {
  cch__graph_lock(node->graph);
  leave_record(node);
  cch__graph_unlock(node->graph);
  cch_graph_unref(node->graph);
  cch_bundle_unref(node->read);
}

cch_graph *cch__graph_node_unref_lightly(cch_graph_node *node) {
  cch_graph *graph = node->graph;
  cch__graph_lock(graph);
  /* A thread that has no reference to the node can get one only while it holds this lock. */
  bool last = !cch__box_unref_unless_last(&node->box);
  if (last)
    leave_record(node);
  cch__graph_unlock(graph);
  if (!last)
    return NULL;
  cch__unref_later(node->read);
  cch__box_free(node);
  return cch__box_unref_unless_last(&graph->box) ? NULL : graph;
}

/* ---- add ---- */

/* The size of the specification in version 0.1; later versions may append fields. */
enum { SPEC_0_1 = offsetof(cch_node_spec, earlier_count) + sizeof(size_t) };

int cch__node_spec_read(const cch_node_spec **spec, cch_node_spec *room, const char *operation) {
  if ((*spec)->size != sizeof **spec) {
    CCH__RETURN_FAILURE(
        cch__read_sized(room, sizeof *room, *spec, (*spec)->size, SPEC_0_1, "cch_node_spec", operation));
    *spec = room;
  }
  const cch_node_spec *given = *spec;
  if (given->reserved != 0)
    return cch__fail(CCH_EINVAL, operation, "the reserved field of the cch_node_spec is not 0");
  if (given->dependency_count > 0 && given->dependencies == NULL)
    return cch__fail_argument(NULL, -1, "the array of dependencies of the cch_node_spec", operation);
  if (given->earlier_count > 0 && given->earlier == NULL)
    return cch__fail_argument(NULL, -1, "the array of earlier nodes of the cch_node_spec", operation);
  return 0;
}

int cch__node_spec_check(const cch_node_spec *spec, const char *operation) {
  CCH__RETURN_FAILURE(CCH__USABLE_OR_NULL(spec->context, "the context of the cch_node_spec", operation));
  return CCH__USABLE_OR_NULL(spec->bundle, "the bundle of the cch_node_spec", operation);
}

int cch__node_is_of(const cch_graph_node *node, const cch_graph *graph, const char *operation) {
  CCH__RETURN_FAILURE(CCH__USABLE(node, "a node", operation));
  if (node->graph != graph)
    return cch__fail(CCH_EMISMATCH, operation, "the node %p is of the graph %p, not of %p", (void *)node->raw,
                     (void *)node->graph->raw, (void *)graph->raw);
  return 0;
}

int cch__node_set_attributes(CUgraphNode raw, const CUlaunchAttribute *attributes, unsigned count) {
  int status = 0;
  for (unsigned i = 0; i < count && status == 0; i++)
    status = CCH__CALL(cuGraphKernelNodeSetAttribute, (raw, attributes[i].id, &attributes[i].value));
  return status;
}

/* Makes the edges that let a node begin before the kernels that it depends on have ended. The other edges are plain. */
static int make_programmatic(CUgraphEdgeData **out, const CUgraphNode *before, size_t count, const char *operation) {
  CUgraphEdgeData *edges = calloc(count, sizeof *edges);
  if (edges == NULL)
    return cch__fail_nomem(operation);
  int status = 0;
  for (size_t i = 0; i < count && status == 0; i++) {
    CUgraphNodeType type;
    status = CCH__CALL(cuGraphNodeGetType, (before[i], &type));
    if (status == 0 && type == CU_GRAPH_NODE_TYPE_KERNEL) {
      edges[i].from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
      edges[i].type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
  }
  if (status == 0)
    *out = edges;
  else
    free(edges);
  return status;
}

int cch__driver_add_edges(CUgraphNode *raw, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges,
                          size_t count, cch__node_params *params, const char *operation) {
  CUgraphEdgeData *programmatic = NULL;
  if (params->programmatic && count > 0) {
    CCH__RETURN_FAILURE(make_programmatic(&programmatic, before, count, operation));
    edges = programmatic;
  }
  int status;
  if (edges == NULL)
    status = cch__driver_add_node(raw, graph, before, count, &params->native);
  else if (cch__driver.cuGraphAddNode_v12030 == NULL)
    status = cch__fail_missing_version("cuGraphAddNode", 12030);
  else
    status = cch__checked((int)cch__driver.cuGraphAddNode_v12030(raw, graph, before, edges, count, &params->native),
                          "cuGraphAddNode");
  free(programmatic);
  return status;
}

/* Forgets a node that the driver has destroyed. */
static void close_record(cch_graph *graph, CUgraphNode raw) {
  CUuserObject object = NULL;
  cch__graph_lock(graph);
  cch__record *record = cch__record_find(graph->level, raw);
  if (record != NULL) {
    object = record->object;
    cch__record_close(graph->level, record);
  }
  cch__graph_unlock(graph);
  cch__driver_unref(graph->raw, object, 1);
}

void cch__node_undo(cch_graph *graph, CUgraphNode raw) {
  if (CCH__ASIDE(cch__report(CCH__CALL(cuGraphDestroyNode, (raw)))) == 0)
    close_record(graph, raw); /* otherwise the node remains, and everything that it uses is kept */
}

/* Adds a node whose parameters are complete. If the graph is shared, `object` keeps the bundle already. */
static int add_ready(CUgraphNode *out, cch_graph_node *box, cch_graph *graph, cch__node_params *params,
                     CUuserObject object, const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count,
                     const char *operation) {
  CUgraphNode raw = NULL;
  int status = cch__driver_add_edges(&raw, graph->raw, before, edges, count, params, operation);
  if (status != 0) {
    cch__driver_unref(graph->raw, object, 1);
    return status;
  }
  if (params->type->added != NULL)
    params->type->added(params);
  if (params->kept != NULL || box != NULL || params->context != NULL) {
    cch__graph_lock(graph);
    cch__record *record = cch__record_begin(graph->level, raw);
    record->object = object;
    record->bundle = cch_bundle_ref(params->kept);
    record->box = box;
    record->context = params->context;
    if (box != NULL)
      box->raw = raw;
    /* Reserves room for the next record, so that adding the next node need not take the lock a second time. */
    atomic_store_explicit(&graph->has_room, cch__level_reserve(graph->level, 1), memory_order_relaxed);
    cch__graph_unlock(graph);
  }
  status = cch__node_set_attributes(raw, params->attributes, params->attribute_count);
  if (status != 0)
    cch__node_undo(graph, raw);
  else
    *out = raw;
  return status;
}

static int add_in_context(CUgraphNode *raw, cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec,
                          const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count,
                          const char *operation) {
  cch__node_params params;
  CUuserObject object = NULL;
  cch_graph_node *box = NULL;
  int status = cch__node_params_fill(&params, spec->type, spec->params, spec->bundle, spec->context, operation);
  if (status == 0 && out != NULL && (box = new_node(graph, NULL, spec->type, operation)) == NULL)
    status = CCH_ENOMEM;
  if (status == 0 && !atomic_load_explicit(&graph->has_room, memory_order_relaxed)) {
    cch__graph_lock(graph);
    bool room = cch__level_reserve(graph->level, 1);
    cch__graph_unlock(graph);
    if (!room)
      status = cch__fail_nomem(operation);
  }
  /*
   * If an attribute is refused, the node is removed again. If nodes cannot be removed from this graph, the parameters
   * are tried in another graph first.
   */
  bool keeps = false;
  if (status == 0 && params.attribute_count > 0)
    status = cch__graph_forbids_removal(&keeps, graph);
  if (status == 0 && keeps)
    status = cch__node_try(&params);
  if (status == 0)
    status = cch__driver_keep_shared(&object, graph, params.kept, 1);
  if (status == 0)
    status = add_ready(raw, box, graph, &params, object, before, edges, count, operation);
  cch__node_params_unref(&params);
  if (status == 0 && out != NULL)
    *out = box;
  else
    cch_graph_node_unref(box);
  if (status == CUDA_ERROR_INVALID_VALUE && params.type->explain != NULL)
    status = params.type->explain(graph, spec->params, operation);
  return status;
}

int cch__node_add(CUgraphNode *raw, cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec,
                  const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count, const char *operation) {
  CCH__RETURN_FAILURE(cch__node_spec_check(spec, operation));
  return CCH__IN_CONTEXT(spec->context, add_in_context(raw, out, graph, spec, before, edges, count, operation));
}

/* Up to this many handles are stored on the stack, more of them on the heap. */
enum { FEW = 64 };

int cch__spec_dependencies(CUgraphNode *before, const cch_graph *graph, const cch_node_spec *spec,
                           const CUgraphNode *added, size_t place, const char *operation) {
  for (size_t i = 0; i < spec->dependency_count; i++) {
    CCH__RETURN_FAILURE(cch__node_is_of(spec->dependencies[i], graph, operation));
    if (before != NULL)
      before[i] = spec->dependencies[i]->raw;
  }
  for (size_t i = 0; i < spec->earlier_count; i++) {
    if (spec->earlier[i] >= place)
      return cch__fail(CCH_EINVAL, operation, "node %zu of the batch cannot wait for node %u, which is not earlier",
                       place, spec->earlier[i]);
    if (before != NULL)
      before[spec->dependency_count + i] = added[spec->earlier[i]];
  }
  return 0;
}

int cch__node_add_spec(CUgraphNode *raw, cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec,
                       const CUgraphNode *added, size_t done, const char *operation) {
  cch_node_spec known;
  int status = cch__node_spec_read(&spec, &known, operation);
  if (status != 0)
    return status;
  CUgraphNode few[FEW], *before = few;
  size_t count = spec->dependency_count + spec->earlier_count;
  if (count > FEW && (before = malloc(count * sizeof *before)) == NULL)
    return cch__fail_nomem(operation);
  status = cch__spec_dependencies(before, graph, spec, added, done, operation);
  if (status == 0 && count > 1) /* the driver refuses duplicates */
    count = cch__sort_unique(before, count);
  if (status == 0)
    status = cch__node_add(raw, out, graph, spec, before, NULL, count, operation);
  if (before != few)
    free(before);
  return status;
}

cch_status cch_graph_add(cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec) {
  CCH__REQUIRE_USABLE(graph, spec);
  cch__poll();
  CUgraphNode raw;
  return CCH__IN_TURN(graph, cch__child_in(spec->type, spec->params),
                      cch__node_add_spec(&raw, out, graph, spec, NULL, 0, __func__));
}

/* ---- change ---- */

/*
 * Fails if a stream is being captured into the graph of a node, or into a body of the node. In the first case, the
 * driver would refuse to destroy the node. In the second case, it would destroy the graph of the capture.
 */
static int check_not_captured(const cch_graph_node *node, const char *operation) {
  const cch_graph *graph = node->graph;
  bool captured = cch__graph_is_captured(graph);
  if (!captured) {
    cch__graph_lock(graph);
    const cch__record *record = graph->level != NULL ? cch__record_find(graph->level, node->raw) : NULL;
    captured = record != NULL && cch__record_is_captured(record);
    cch__graph_unlock(graph);
  }
  if (!captured)
    return 0;
  int status = cch__fail_driver(CUDA_ERROR_ILLEGAL_STATE, operation);
  cch__fail_explain("a stream is being captured into the graph of the node, or into a body of the node");
  return status;
}

static int destroy(cch_graph_node *node) {
  CCH__RETURN_FAILURE(check_not_captured(node, "cuGraphDestroyNode"));
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphDestroyNode, (node->raw)));
  close_record(node->graph, node->raw);
  return 0;
}

cch_status cch_graph_node_destroy(cch_graph_node *node) {
  CCH__REQUIRE_USABLE(node);
  cch__poll();
  const int status = CCH__IN_TURN(node, NULL, destroy(node));
  cch__poll(); /* destroys boxes that are no longer needed */
  return status;
}

static int set_filled(cch_graph_node *node, cch__node_params *filled, bool attributes, const char *operation) {
  cch_graph *graph = node->graph;
  CUuserObject object = NULL;
  CCH__RETURN_FAILURE(cch__driver_keep_shared(&object, graph, filled->kept, 1));
  int status = attributes && filled->type->change != NULL ? filled->type->change(node->raw, filled, operation)
                                                          : cch__driver_set_node(node->raw, &filled->native);
  if (status != 0) {
    cch__driver_unref(graph->raw, object, 1);
    return status;
  }
  cch__graph_lock(graph);
  cch__record *record = cch__record_find(graph->level, node->raw); /* a node with a box has a record */
  cch__unref_later(record->bundle);
  CUuserObject old = record->object;
  record->object = object;
  record->bundle = cch_bundle_ref(filled->kept);
  record->context = filled->context;
  if (filled->type->child != NULL)
    cch__record_close_children(record);
  cch__graph_unlock(graph);
  cch__driver_unref(graph->raw, old, 1);
  return 0;
}

int cch__node_set_filled(cch_graph_exec *exec, cch_graph_node *node, cch__node_params *filled, bool attributes,
                         const char *operation) {
  return exec != NULL ? cch__exec_set_filled(exec, node->raw, filled, attributes, operation)
                      : set_filled(node, filled, attributes, operation);
}

static int set_in_context(cch_graph_exec *exec, cch_graph_node *node, const void *params, cch_bundle *bundle,
                          const cch_context *context, const char *operation) {
  cch__node_params filled;
  if (exec != NULL)
    cch__exec_settle(exec);
  int status = cch__node_params_fill(&filled, node->type, params, bundle, context, operation);
  if (status == 0)
    status = cch__node_set_filled(exec, node, &filled, true, operation);
  cch__node_params_unref(&filled);
  if (status != 0)
    cch__fail_at_node(node->raw);
  return status;
}

cch_status cch_graph_node_set(cch_graph_node *node, const void *params, cch_bundle *bundle, cch_context *context) {
  CCH__REQUIRE_USABLE(node);
  CCH__REQUIRE_USABLE_OR_NULL(bundle, context);
  CCH__RETURN_FAILURE(cch__graph_check(node->graph, __func__));
  CCH__RETURN_FAILURE(cch__node_check_change(node, __func__));
  cch__poll();
  const int status =
      CCH__IN_TURN(node, cch__child_in(node->type, params),
                   CCH__IN_CONTEXT(context, set_in_context(NULL, node, params, bundle, context, __func__)));
  cch__poll(); /* destroys boxes that are no longer needed */
  return status;
}

cch_status cch_graph_exec_set(cch_graph_exec *exec, cch_graph_node *node, const void *params, cch_bundle *bundle,
                              cch_context *context) {
  CCH__REQUIRE_USABLE(exec, node);
  CCH__REQUIRE_USABLE_OR_NULL(bundle, context);
  CCH__RETURN_FAILURE(cch__exec_check_has(exec, node, __func__));
  CCH__RETURN_FAILURE(cch__node_check_change(node, __func__));
  cch__poll();
  const int status = CCH__IN_TURN_OF_EXEC(
      exec, CCH__IN_TURN(node, cch__child_in(node->type, params),
                         CCH__IN_CONTEXT(context, set_in_context(exec, node, params, bundle, context, __func__))));
  cch__poll(); /* destroys boxes that are no longer needed */
  return status;
}
