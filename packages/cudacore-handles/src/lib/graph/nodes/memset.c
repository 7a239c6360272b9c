/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that fill memory. */
#include "graph/nodes/nodes.h"

static int fill_memset(cch__node_params *out, const cch__node_source *from) {
  const cch_memset_node *node = from->given;
  if (node->element_size != 1 && node->element_size != 2 && node->element_size != 4)
    return cch__fail(CCH_EINVAL, from->operation, "an element to set has 1, 2 or 4 bytes, not %u", node->element_size);
  if (node->element_size < 4 && node->value >> (8 * node->element_size) != 0)
    return cch__fail(CCH_EINVAL, from->operation, "the value 0x%x is too large for %u bytes", node->value,
                     node->element_size);
  CUDA_MEMSET_NODE_PARAMS_v2 *native = &out->native.memset;
  *native = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = node->dst,
                                         .pitch = node->pitch,
                                         .value = node->value,
                                         .elementSize = node->element_size,
                                         .width = node->width,
                                         .height = cch__or_one(node->height)};
  return cch__node_place(out, &native->ctx, &native->dst, 1, from);
}

static int get_memset(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  (void)bundle, (void)operation;
  CUDA_MEMSET_NODE_PARAMS_v1 native;
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphMemsetNodeGetParams, (node->raw, &native)));
  *(cch_memset_node *)params = (cch_memset_node){.dst = native.dst,
                                                 .value = native.value,
                                                 .element_size = native.elementSize,
                                                 .width = native.width,
                                                 .height = native.height,
                                                 .pitch = native.pitch};
  return 0;
}

/* ---- drivers before 12.2 ---- */

static int older(const cch__older_call *to, CUgraphNodeParams *params) {
  const CUDA_MEMSET_NODE_PARAMS_v2 *fill = &params->memset;
  const CUDA_MEMSET_NODE_PARAMS_v1 native = {.dst = fill->dst,
                                             .pitch = fill->pitch,
                                             .value = fill->value,
                                             .elementSize = fill->elementSize,
                                             .width = fill->width,
                                             .height = fill->height};
  return CCH__OLDER_NODE(to, AddMemsetNode, MemsetNodeSetParams, ExecMemsetNodeSetParams, &native, fill->ctx);
}

const cch__node_type cch__node_type_memset = {CCH__NODE_STRUCT(cch_memset_node, pitch), .fill = fill_memset,
                                              .get = get_memset, .older = older};
