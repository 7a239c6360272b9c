/* SPDX-License-Identifier: Apache-2.0 */
/* Conditional nodes. */
#include "graph/nodes/nodes.h"

#include <string.h>

static int fill_conditional(cch__node_params *out, const cch__node_source *from) {
  const cch_conditional_node *node = from->given;
  bool fits = node->type == CCH_CONDITIONAL_IF       ? node->count == 1 || node->count == 2
              : node->type == CCH_CONDITIONAL_WHILE  ? node->count == 1
              : node->type == CCH_CONDITIONAL_SWITCH ? node->count >= 1
                                                     : false;
  if (!fits)
    return cch__fail(CCH_EINVAL, from->operation, "a conditional node of type %d cannot have %u bodies", node->type,
                     node->count);
  CCH__RETURN_FAILURE(cch__bundle_wrap(&out->kept, NULL, from->bundle,
                                       sizeof(cch__condition) + node->count * sizeof *((cch__condition *)NULL)->bodies,
                                       from->operation));
  out->kept->is_condition = true;
  ((cch__condition *)out->kept->payload)->node = *node;
  CUDA_CONDITIONAL_NODE_PARAMS *native = &out->native.conditional;
  native->handle = node->condition;
  native->type = (CUgraphConditionalNodeType)node->type;
  native->size = node->count;
  return cch__node_context(&native->ctx, from->context);
}

/* The driver has replaced the array of bodies, so the pointer from before the call is invalid. */
static void take_bodies(cch__node_params *params) {
  cch__condition *condition = params->kept->payload;
  memcpy(condition->bodies, params->native.conditional.phGraph_out, condition->node.count * sizeof *condition->bodies);
}

static int get_conditional(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  (void)operation;
  cch_conditional_node *out = params;
  if (bundle != NULL && bundle->wraps) {
    *out = ((cch__condition *)bundle->payload)->node;
    return 0;
  }
  CUgraphNodeParams native = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphNodeGetParams, (node->raw, &native)));
  *out = (cch_conditional_node){.condition = native.conditional.handle,
                                .type = (int32_t)native.conditional.type,
                                .count = native.conditional.size};
  return 0;
}

/* Creates a condition in another graph for the parameters, because each graph needs its own condition. */
static int adapt(CUgraphNodeParams *params, CUgraph graph) {
  CUDA_CONDITIONAL_NODE_PARAMS *native = &params->conditional;
  return CCH__CALL(cuGraphConditionalHandleCreate, (&native->handle, graph, native->ctx, 0, 0));
}

static bool enter(cch__table *used, CUgraphConditionalHandle condition) {
  const void *key = (const void *)(uintptr_t)condition;
  return cch__table_reserve(used, sizeof key, 1) && cch__table_enter(used, sizeof key, key) != NULL;
}

/* Enters the conditions that nodes of a graph, and below it, use; false if memory ran out. The lock is held. */
static bool enter_used(cch__table *used, const cch__level *level) {
  for (const cch__record *record = NULL; (record = cch__record_next(level, record)) != NULL;) {
    const cch_bundle *bundle = record->raw != NULL ? record->bundle : NULL;
    if (bundle != NULL && bundle->is_condition && !enter(used, ((cch__condition *)bundle->payload)->node.condition))
      return false;
    for (const cch__level *child = record->children; child != NULL; child = child->next)
      if (!enter_used(used, child))
        return false;
  }
  return true;
}

int cch__condition_use(cch__table *used, const cch_graph *graph, CUgraphConditionalHandle condition,
                       const char *operation) {
  bool room = true;
  if (used->count == 0) {
    cch__graph_lock(graph);
    room = enter_used(used, &graph->hierarchy->root);
    cch__graph_unlock(graph);
  }
  const size_t count = used->count;
  if (!room || !enter(used, condition))
    return cch__fail_nomem(operation);
  if (used->count > count)
    return 0;
  return cch__fail(CCH_EINVAL, operation,
                   "a conditional node already uses the condition %#llx; each node needs a condition of its own",
                   (unsigned long long)condition);
}

static int explain_conditional(const cch_graph *graph, const void *given, const char *operation) {
  cch__table used = {0};
  const int status = cch__condition_use(&used, graph, ((const cch_conditional_node *)given)->condition, operation);
  cch__table_free(&used);
  return status != 0 ? status : CUDA_ERROR_INVALID_VALUE;
}

static int body(CUgraph *out, cch_graph_node *node, unsigned index, const cch_bundle *bundle, const char *operation) {
  unsigned count;
  const CUgraph *bodies;
  CUgraphNodeParams native = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
  if (bundle != NULL && bundle->wraps) {
    const cch__condition *condition = bundle->payload;
    count = condition->node.count;
    bodies = condition->bodies;
  } else {
    CCH__RETURN_FAILURE(CCH__CALL(cuGraphNodeGetParams, (node->raw, &native)));
    count = native.conditional.size;
    bodies = native.conditional.phGraph_out;
  }
  if (index >= count)
    return cch__fail(CCH_EINVAL, operation, "the node has no body number %u, but %u of them", index, count);
  *out = bodies[index];
  return 0;
}

const cch__node_type cch__node_type_conditional = {CCH__NODE_STRUCT(cch_conditional_node, count),
                                                   .fill = fill_conditional,
                                                   .get = get_conditional,
                                                   .added = take_bodies,
                                                   .explain = explain_conditional,
                                                   .adapt = adapt,
                                                   .child = body,
                                                   .is_fixed = true};
