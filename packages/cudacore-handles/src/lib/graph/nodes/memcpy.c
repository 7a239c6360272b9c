/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that copy memory. */
#include "graph/nodes/nodes.h"
#include "memory/peers.h"

static int fill_memcpy(cch__node_params *out, const cch__node_source *from) {
  cch_memcpy_node node;
  int status = CCH__NODE_READ(node, from, src_height);
  if (status != 0)
    return status;
  size_t height = cch__or_one(node.height), depth = cch__or_one(node.depth);
  /* Unified: the driver finds the kind of each address, also for memory that the graph itself allocates. */
  CUDA_MEMCPY_NODE_PARAMS *native = &out->native.memcpy;
  native->copyParams = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                       .srcDevice = node.src,
                                       .srcPitch = node.src_pitch != 0 ? node.src_pitch : node.width,
                                       .srcHeight = node.src_height != 0 ? node.src_height : height,
                                       .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                       .dstDevice = node.dst,
                                       .dstPitch = node.dst_pitch != 0 ? node.dst_pitch : node.width,
                                       .dstHeight = node.dst_height != 0 ? node.dst_height : height,
                                       .WidthInBytes = node.width,
                                       .Height = height,
                                       .Depth = depth};
  if (from->context == NULL)
    status = cch__context_for_copy(&native->copyCtx, node.dst, node.src, from->bundle);
  else
    native->copyCtx = from->context->raw;
  out->context = native->copyCtx;
  return status != 0 ? status : cch__node_keep(out, from);
}

static int read_memcpy(cch_graph_node *node, cch_memcpy_node *out) {
  CUDA_MEMCPY3D native;
  int status = CCH__CALL(cuGraphMemcpyNodeGetParams, (node->raw, &native));
  if (status != 0)
    return status;
  *out = (cch_memcpy_node){
      .dst = native.dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)native.dstHost : native.dstDevice,
      .src = native.srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)native.srcHost : native.srcDevice,
      .width = native.WidthInBytes,
      .height = native.Height,
      .depth = native.Depth,
      .dst_pitch = native.dstPitch,
      .src_pitch = native.srcPitch,
      .dst_height = native.dstHeight,
      .src_height = native.srcHeight};
  return 0;
}

static int get_memcpy(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  cch_memcpy_node known = {0};
  (void)bundle;
  int status = read_memcpy(node, &known);
  return status != 0 ? status : CCH__NODE_GIVE(params, known, src_height);
}

/* ---- drivers before 12.2 ---- */

static int older_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                     CUgraphNodeParams *params) {
  return CCH__OLDER(cuGraphAddMemcpyNode,
                    (out, graph, before, count, &params->memcpy.copyParams, params->memcpy.copyCtx));
}

static int older_set(CUgraphNode node, const CUgraphNodeParams *params) {
  return CCH__OLDER(cuGraphMemcpyNodeSetParams, (node, &params->memcpy.copyParams));
}

static int older_set_exec(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params) {
  return CCH__OLDER(cuGraphExecMemcpyNodeSetParams, (exec, node, &params->memcpy.copyParams, params->memcpy.copyCtx));
}

const cch__node_type cch__node_type_memcpy = {.fill = fill_memcpy,
                                              .get = get_memcpy,
                                              .older_add = older_add,
                                              .older_set = older_set,
                                              .older_set_exec = older_set_exec};
