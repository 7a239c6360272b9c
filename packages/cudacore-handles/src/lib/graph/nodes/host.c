/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that call host functions. */
#include "graph/nodes/nodes.h"

static int fill_host(cch__node_params *out, const cch__node_source *from) {
  const cch_host_node *node = from->given;
  if (node->function == NULL)
    return cch__fail(CCH_EINVAL, from->operation, "the host function is NULL");
  CCH__RETURN_FAILURE(cch__bundle_wrap(&out->kept, NULL, from->bundle, sizeof(cch__host_call), from->operation));
  *(cch__host_call *)out->kept->payload = (cch__host_call){node->function, node->data};
  out->native.host.fn = cch__host_trampoline;
  out->native.host.userData = out->kept->payload;
  return 0;
}

/*
 * A clone of a node has the same data pointer as the original. So for clones, too, the pointer can be to the library's
 * own payload.
 */
static int get_host(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  (void)bundle, (void)operation;
  CUDA_HOST_NODE_PARAMS_v1 native;
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphHostNodeGetParams, (node->raw, &native)));
  const cch__host_call *call = native.userData;
  bool ours = native.fn == cch__host_trampoline;
  *(cch_host_node *)params =
      (cch_host_node){.function = ours ? call->function : native.fn, .data = ours ? call->data : native.userData};
  return 0;
}

/* ---- drivers before 12.2 ---- */

static int older(const cch__older_call *to, CUgraphNodeParams *params) {
  const CUDA_HOST_NODE_PARAMS_v1 host = {.fn = params->host.fn, .userData = params->host.userData};
  return CCH__OLDER_NODE(to, AddHostNode, HostNodeSetParams, ExecHostNodeSetParams, &host);
}

const cch__node_type cch__node_type_host = {CCH__NODE_STRUCT(cch_host_node, data), .fill = fill_host, .get = get_host,
                                            .older = older};
