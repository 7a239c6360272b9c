/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that contain a copy of a graph. */
#include "graph/nodes/nodes.h"

static int fill_child(cch__node_params *out, const cch__node_source *from) {
  const cch_child_node *node = from->given;
  CCH__RETURN_FAILURE(CCH__USABLE(node->graph, "the child graph", from->operation));
  out->native.graph.graph = node->graph->raw;
  cch_bundle *uses;
  int status = cch__graph_uses(&uses, node->graph, from->operation);
  if (status != 0 || uses == NULL)
    return status != 0 ? status : cch__node_keep(out, from);
  status = cch__bundle_wrap(&out->kept, uses, from->bundle, 0, from->operation);
  cch_bundle_unref(uses);
  return status;
}

static int get_child(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  (void)bundle;
  return cch__node_child(&((cch_child_node *)params)->graph, node, 0, operation);
}

static int child(CUgraph *out, cch_graph_node *node, unsigned index, const cch_bundle *bundle, const char *operation) {
  (void)bundle;
  if (index != 0)
    return cch__fail(CCH_EINVAL, operation, "a node of type %d has no graph number %u", node->type, index);
  return CCH__CALL(cuGraphChildGraphNodeGetGraph, (node->raw, out));
}

/* ---- drivers before 12.2 ---- */

static int older(const cch__older_call *to, CUgraphNodeParams *params) {
  return to->out != NULL    ? CCH__OLDER_ADD(to, AddChildGraphNode, params->graph.graph)
         : to->exec != NULL ? CCH__OLDER_SET_EXEC(to, ExecChildGraphNodeSetParams, params->graph.graph)
                            : CCH_ENOSYMBOL;
}

const cch__node_type cch__node_type_graph = {CCH__NODE_STRUCT(cch_child_node, graph), .fill = fill_child,
                                             .get = get_child, .child = child, .older = older};
