/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that copy memory. */
#include "graph/nodes/nodes.h"
#include "memory/overlap.h"
#include "memory/peers.h"

/* Returns the context of an array that the bundle keeps; NULL if the bundle does not have it. */
static CUcontext context_of_array(CUarray raw, const cch_bundle *bundle) {
  for (size_t i = 0; bundle != NULL && i < bundle->count; i++) {
    const cch_array *array = bundle->owners[i].object;
    if (bundle->owners[i].release == NULL && array->box.kind == CCH_KIND_ARRAY && array->raw == raw &&
        array->context != NULL)
      return array->context->raw;
  }
  return NULL;
}

/* Gets the context that a copy from or to an array works in: that of the array. */
static int context_with_array(CUcontext *out, const cch_memcpy_node *node, const cch_bundle *bundle) {
  *out = context_of_array(node->dst_array != NULL ? node->dst_array : node->src_array, bundle);
  return *out != NULL ? 0 : CCH__CALL(cuCtxGetCurrent, (out));
}

/* The source or the destination of a copy. */
typedef struct side {
  CUmemorytype type;
  CUarray array;
  CUdeviceptr device;
  size_t pitch, height;
} side;

static side side_of(CUarray array, CUdeviceptr device, size_t pitch, size_t height, const CUDA_MEMCPY3D *copy) {
  if (array != NULL)
    return (side){.type = CU_MEMORYTYPE_ARRAY, .array = array};
  /* Unified: the driver finds the kind of each address, even for memory that the graph itself allocates. */
  return (side){.type = CU_MEMORYTYPE_UNIFIED,
                .device = device,
                .pitch = pitch != 0 ? pitch : copy->WidthInBytes,
                .height = height != 0 ? height : copy->Height};
}

static int fill_memcpy(cch__node_params *out, const cch__node_source *from) {
  const cch_memcpy_node *node = from->given;
  CUDA_MEMCPY_NODE_PARAMS *native = &out->native.memcpy;
  CUDA_MEMCPY3D *copy = &native->copyParams;
  *copy = (CUDA_MEMCPY3D){
      .WidthInBytes = node->width, .Height = cch__or_one(node->height), .Depth = cch__or_one(node->depth)};
  side src = side_of(node->src_array, node->src, node->src_pitch, node->src_height, copy);
  copy->srcMemoryType = src.type;
  copy->srcArray = src.array;
  copy->srcDevice = src.device;
  copy->srcPitch = src.pitch;
  copy->srcHeight = src.height;
  side dst = side_of(node->dst_array, node->dst, node->dst_pitch, node->dst_height, copy);
  copy->dstMemoryType = dst.type;
  copy->dstArray = dst.array;
  copy->dstDevice = dst.device;
  copy->dstPitch = dst.pitch;
  copy->dstHeight = dst.height;
  if (node->dst_array == NULL && node->src_array == NULL)
    CCH__RETURN_FAILURE(cch__check_box_apart(copy, from->operation));
  if (from->context != NULL || (node->dst_array == NULL && node->src_array == NULL))
    return cch__node_place(out, &native->copyCtx, (CUdeviceptr[]){node->dst, node->src}, 2, from);
  int status = context_with_array(&native->copyCtx, node, from->bundle);
  out->context = native->copyCtx;
  return status != 0 ? status : cch__node_keep(out, from);
}

static CUdeviceptr address_of(CUmemorytype type, const void *host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)host : type == CU_MEMORYTYPE_ARRAY ? 0 : device;
}

static int get_memcpy(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation) {
  (void)bundle, (void)operation;
  CUDA_MEMCPY3D native;
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphMemcpyNodeGetParams, (node->raw, &native)));
  *(cch_memcpy_node *)params =
      (cch_memcpy_node){.dst = address_of(native.dstMemoryType, native.dstHost, native.dstDevice),
                        .src = address_of(native.srcMemoryType, native.srcHost, native.srcDevice),
                        .width = native.WidthInBytes,
                        .height = native.Height,
                        .depth = native.Depth,
                        .dst_pitch = native.dstPitch,
                        .src_pitch = native.srcPitch,
                        .dst_height = native.dstHeight,
                        .src_height = native.srcHeight,
                        .dst_array = native.dstMemoryType == CU_MEMORYTYPE_ARRAY ? native.dstArray : NULL,
                        .src_array = native.srcMemoryType == CU_MEMORYTYPE_ARRAY ? native.srcArray : NULL};
  return 0;
}

static int explain(const cch_graph *graph, const void *given, const char *operation) {
  (void)graph, (void)operation;
  const cch_memcpy_node *node = given;
  cch__explain_graph_copy(node->dst, node->src);
  return CUDA_ERROR_INVALID_VALUE;
}

/* ---- drivers before 12.2 ---- */

static int older(const cch__older_call *to, CUgraphNodeParams *params) {
  return CCH__OLDER_NODE(to, AddMemcpyNode, MemcpyNodeSetParams, ExecMemcpyNodeSetParams, &params->memcpy.copyParams,
                         params->memcpy.copyCtx);
}

const cch__node_type cch__node_type_memcpy = {CCH__NODE_STRUCT(cch_memcpy_node, src_height), .fill = fill_memcpy,
                                              .get = get_memcpy, .explain = explain, .older = older};
