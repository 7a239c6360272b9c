/* SPDX-License-Identifier: Apache-2.0 */
/* Reads parameters, contained graphs and the context of a node. */
#include "graph/nodes/nodes.h"

/* Returns the bundle of a node's current parameters, as a new reference; NULL if the bundle is not known. */
static cch_bundle *bundle_of(cch_graph_node *node) {
  cch__graph_lock(node->graph);
  cch__record *record = cch__record_find(node->graph->level, node->raw);
  cch_bundle *bundle = record != NULL ? cch_bundle_ref(record->bundle) : NULL;
  cch__graph_unlock(node->graph);
  return bundle;
}

cch_bundle *cch_graph_node_bundle(cch_graph_node *node) {
  CCH__REQUIRE_ELSE(NULL, node);
  if (cch__is_gone(node) || cch__forked()) /* after a fork, the lock may be held by a thread that no longer exists */
    return NULL;
  cch_bundle *bundle = bundle_of(node), *given = cch_bundle_ref(cch__bundle_given(bundle));
  cch_bundle_unref(bundle);
  return given;
}

int cch_graph_node_get(void *params, cch_graph_node *node) {
  CCH__REQUIRE_USABLE(params, node);
  cch_bundle *bundle = bundle_of(node);
  int status = cch__node_params_get(params, node, bundle, __func__);
  cch_bundle_unref(bundle); /* the graph keeps the bundle as long as the node has these parameters */
  return status;
}

/* ---- graphs in nodes ---- */

int cch_graph_node_child(cch_graph **out, cch_graph_node *node, unsigned index) {
  CCH__REQUIRE_USABLE(out, node);
  const cch__node_type *type = cch__node_type_of(node->type);
  if (type->child == NULL)
    return cch__fail(CCH_EINVAL, __func__, "a node of type %d has no graph number %u", node->type, index);
  CUgraph raw = NULL;
  cch_bundle *bundle = bundle_of(node);
  int status = type->child(&raw, node, index, bundle, __func__);
  cch_bundle_unref(bundle);
  return status != 0 ? status : cch__graph_in_node(out, node->graph, node->raw, raw, __func__);
}

int cch__node_child_count(unsigned *out, cch_graph_node *node) {
  const cch__node_type *type = cch__node_type_of(node->type);
  *out = type->child != NULL ? 1 : 0;
  if (type->child_count == NULL)
    return 0;
  cch_bundle *bundle = bundle_of(node);
  int status = type->child_count(out, node, bundle);
  cch_bundle_unref(bundle);
  return status;
}

/* Gets the context of a node's parameters; NULL if they have none. */
static int context_of(CUcontext *out, cch_graph_node *node) {
  cch__graph_lock(node->graph);
  const cch__record *record = cch__record_find(node->graph->level, node->raw);
  *out = record != NULL ? record->context : NULL;
  cch__graph_unlock(node->graph);
  const cch__node_type *type = cch__node_type_of(node->type);
  if (*out != NULL || type->context == NULL)
    return 0;
  CCH__RETURN_FAILURE(type->context(out, node->raw));
  cch__graph_lock(node->graph);
  cch__record *found = cch__record_find(node->graph->level, node->raw);
  if (found != NULL && !node->graph->hierarchy->shared)
    found->context = *out; /* no other code can change the context */
  cch__graph_unlock(node->graph);
  return 0;
}

int cch_graph_node_context(cch_context **out, cch_graph_node *node) {
  CCH__REQUIRE_USABLE(out, node);
  CUcontext raw;
  int status = context_of(&raw, node);
  if (status == 0 && raw != NULL)
    return cch_context_wrap(out, raw, NULL, NULL);
  if (status == 0)
    *out = NULL;
  return status;
}

int cch_graph_node_is_current(int *out, cch_graph_node *node) {
  CCH__REQUIRE_USABLE(out, node);
  CUcontext raw, current;
  int status = context_of(&raw, node);
  if (status == 0 && raw != NULL)
    status = CCH__CALL(cuCtxGetCurrent, (&current));
  if (status == 0)
    *out = raw == NULL || raw == current;
  return status;
}
