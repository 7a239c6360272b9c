/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that free the memory of allocation nodes. */
#include "graph/nodes/nodes.h"

static int fill_free(cch__node_params *out, const cch__node_source *from) {
  cch_free_node node;
  CCH__RETURN_FAILURE(CCH__NODE_READ(node, from, address));
  if (node.address == 0)
    return cch__fail(CCH_EINVAL, from->operation, "the address to free is 0");
  out->native.free.dptr = node.address;
  return cch__node_keep(out, from);
}

static int get_free(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  cch_free_node known = {0};
  (void)bundle;
  int status = CCH__CALL(cuGraphMemFreeNodeGetParams, (node->raw, &known.address));
  return status != 0 ? status : CCH__NODE_GIVE(params, known, address);
}

static int read_memory(CUdeviceptr *address, size_t *size, CUgraphNode raw) {
  *size = 1;
  return CCH__CALL(cuGraphMemFreeNodeGetParams, (raw, address));
}

/* ---- drivers before 12.2 ---- */

static int older(const cch__older_call *to, CUgraphNodeParams *params) {
  return CCH__OLDER_ADD(to, AddMemFreeNode, params->free.dptr);
}

const cch__node_type cch__node_type_free = {
    .fill = fill_free, .get = get_free, .memory = read_memory, .frees_memory = true, .is_fixed = true, .older = older};
