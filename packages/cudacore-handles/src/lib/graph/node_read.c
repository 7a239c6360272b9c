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

/* Gets parameters, and the bundle that has what they point to. */
static int get(void *params, cch_bundle **kept, cch_graph_node *node, const char *operation) {
  cch_bundle *bundle = bundle_of(node);
  int status = cch__node_params_get(params, node, bundle, operation);
  if (status == 0 && node->read != NULL) { /* this has the arguments and, if there are any, the caller's owners */
    cch__unref_later(bundle);
    bundle = cch_bundle_ref(node->read);
  }
  if (status == 0)
    *kept = bundle;
  else
    cch__unref_later(bundle);
  return status;
}

cch_status cch_graph_node_get(void *params, cch_graph_node *node) {
  CCH__REQUIRE_USABLE(params, node);
  cch_bundle *kept = NULL;
  int status = CCH__IN_TURN(node, NULL, get(params, &kept, node, __func__));
  cch_bundle_unref(kept); /* the node keeps what the parameters point to, as long as it has them */
  return status;
}

cch_status cch_graph_node_read(void *params, cch_bundle **kept, cch_bundle **bundle, cch_graph_node *node) {
  CCH__REQUIRE_USABLE(params, kept, bundle, node);
  CCH__RETURN_FAILURE(CCH__IN_TURN(node, NULL, get(params, kept, node, __func__)));
  *bundle = cch_bundle_ref(cch__bundle_given(*kept));
  return 0;
}

/* ---- graphs in nodes ---- */

int cch__node_child(cch_graph **out, cch_graph_node *node, unsigned index, const char *operation) {
  const cch__node_type *type = cch__node_type_of(node->type);
  if (type->child == NULL)
    return cch__fail(CCH_EINVAL, operation, "a node of type %d has no graph number %u", node->type, index);
  CUgraph raw = NULL;
  cch_bundle *bundle = bundle_of(node);
  int status = type->child(&raw, node, index, bundle, operation);
  cch__unref_later(bundle);
  return status != 0 ? status : cch__graph_in_node(out, node->graph, node->raw, raw, operation);
}

cch_status cch_graph_node_child(cch_graph **out, cch_graph_node *node, unsigned index) {
  CCH__REQUIRE_USABLE(out, node);
  return CCH__IN_TURN(node, NULL, cch__node_child(out, node, index, __func__));
}

/* Queries the context of a node, and records it. */
static int query_context(CUcontext *out, cch_graph_node *node, const cch__node_type *type) {
  CCH__RETURN_FAILURE(type->context(out, node->raw));
  cch__graph_lock(node->graph);
  cch__record *found = cch__record_find(node->graph->level, node->raw);
  if (found != NULL && !node->graph->hierarchy->shared)
    found->context = *out; /* no other code can change the context */
  cch__graph_unlock(node->graph);
  return 0;
}

/* Gets the context of a node's parameters; NULL if they have none, or it is not known. */
static int context_of(CUcontext *out, cch_graph_node *node) {
  const cch__hierarchy *hierarchy = node->graph->hierarchy;
  const cch_context *of_capture =
      hierarchy->captured && node->graph->level == &hierarchy->root ? hierarchy->context : NULL;
  cch__graph_lock(node->graph);
  const cch__record *record = cch__record_find(node->graph->level, node->raw);
  *out = record != NULL ? record->context : NULL;
  cch__graph_unlock(node->graph);
  if (*out == NULL && of_capture != NULL && (node->type == CCH_NODE_MEMCPY || node->type == CCH_NODE_MEMSET))
    *out = of_capture->raw;
  const cch__node_type *type = cch__node_type_of(node->type);
  if (*out != NULL || type->context == NULL)
    return 0;
  return CCH__IN_TURN(node, NULL, query_context(out, node, type));
}

cch_status cch_graph_node_context(cch_context **out, cch_graph_node *node) {
  CCH__REQUIRE_USABLE(out, node);
  CUcontext raw, current = NULL;
  int status = context_of(&raw, node);
  if (status == 0 && raw != NULL)
    status = CCH__CALL(cuCtxGetCurrent, (&current));
  if (status == 0 && raw != current)
    return cch_context_wrap(out, raw, NULL, NULL);
  if (status == 0)
    *out = NULL;
  return status;
}
