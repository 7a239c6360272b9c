/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes, from the structures that callers fill to the driver's one. */
#include "graph/graph.h"
#include "code/launch_config.h"
#include "memory/peers.h"

#include <stdlib.h>
#include <string.h>

/* Reads a structure of version 0.1 or later into `known`, which has that of this version. */
#define READ(known, given, last, operation)                                                                            \
  cch__read_sized(&(known), sizeof(known), given, *(const size_t *)(given),                                            \
                  offsetof(__typeof__(known), last) + sizeof((known).last), "structure of a node's parameters",        \
                  operation)

static size_t or_one(size_t count) { return count != 0 ? count : 1; }

/* The context that a node works in, where none is given. */
static int context_of(CUcontext *out, const cch_context *context) {
  if (context == NULL)
    return CCH__CALL(cuCtxGetCurrent, (out));
  *out = context->raw;
  return 0;
}

static int keep_given(cch__node_params *out, cch_bundle *bundle) {
  out->kept = cch_bundle_ref(bundle);
  return 0;
}

static int fill_kernel(cch__node_params *out, const void *given, cch_bundle *bundle, const cch_context *context,
                       const char *operation) {
  cch_kernel_node node;
  int status = READ(node, given, args_size, operation);
  if (status != 0)
    return status;
  status = CCH__USABLE(node.kernel, "the kernel of the node's parameters", operation);
  if (status == 0)
    status = CCH__USABLE(node.config, "the config of the node's parameters", operation);
  if (status == 0 && node.args_size > 0)
    status = CCH__USABLE(node.args, "the block of arguments of the node's parameters", operation);
  if (status != 0)
    return status;
  const cch__params *params;
  status = cch__kernel_params(&params, node.kernel);
  if (status != 0)
    return status;
  if (node.args_size != params->block_size)
    return cch__fail(CCH_EMISMATCH, operation, "the kernel takes %zu bytes of arguments, not %zu", params->block_size,
                     node.args_size);
  cch__native_launch launch;
  status = cch__native_launch_fill(&launch, node.config, NULL, operation);
  if (status != 0)
    return status;
  status = cch__bundle_wrap(&out->kept, node.kernel, bundle, node.args_size, operation);
  if (status != 0)
    return status;
  /* Pointers rather than the block itself: so any reader of the graph is told the values, each at its place. */
  if (params->count > sizeof out->few / sizeof *out->few) {
    out->pointers = malloc(params->count * sizeof *out->pointers);
    if (out->pointers == NULL)
      return cch__fail_nomem(operation);
  }
  if (node.args_size > 0)
    memcpy(out->kept->payload, node.args, node.args_size);
  for (size_t i = 0; i < params->count; i++)
    out->pointers[i] = (char *)out->kept->payload + params->param[i].offset;
  for (unsigned i = 0; i < launch.config.numAttrs; i++)
    if (launch.attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      out->programmatic = true; /* of a stream's launches; between nodes it is their edges that are so */
    else
      out->attributes[out->attribute_count++] = launch.attributes[i];
  out->native.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.gridDimX = launch.config.gridDimX,
                                                    .gridDimY = launch.config.gridDimY,
                                                    .gridDimZ = launch.config.gridDimZ,
                                                    .blockDimX = launch.config.blockDimX,
                                                    .blockDimY = launch.config.blockDimY,
                                                    .blockDimZ = launch.config.blockDimZ,
                                                    .sharedMemBytes = launch.config.sharedMemBytes,
                                                    .kernelParams = params->count > 0 ? out->pointers : NULL,
                                                    .kern = node.kernel->raw};
  return context_of(&out->native.kernel.ctx, context);
}

static int fill_memcpy(cch__node_params *out, const void *given, cch_bundle *bundle, const cch_context *context,
                       const char *operation) {
  cch_memcpy_node node;
  int status = READ(node, given, src_height, operation);
  if (status != 0)
    return status;
  size_t height = or_one(node.height), depth = or_one(node.depth);
  /* Unified: the driver finds out what the addresses are of, those included that the graph itself allocates. */
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
  if (context == NULL)
    status = cch__context_for_copy(&native->copyCtx, node.dst, node.src, bundle);
  else
    native->copyCtx = context->raw;
  return status != 0 ? status : keep_given(out, bundle);
}

static int fill_memset(cch__node_params *out, const void *given, cch_bundle *bundle, const cch_context *context,
                       const char *operation) {
  cch_memset_node node;
  int status = READ(node, given, pitch, operation);
  if (status != 0)
    return status;
  if (node.element_size != 1 && node.element_size != 2 && node.element_size != 4)
    return cch__fail(CCH_EINVAL, operation, "an element to set has 1, 2 or 4 bytes, not %u", node.element_size);
  if (node.element_size < 4 && node.value >> (8 * node.element_size) != 0)
    return cch__fail(CCH_EINVAL, operation, "the value 0x%x is too large for %u bytes", node.value, node.element_size);
  CUDA_MEMSET_NODE_PARAMS_v2 *native = &out->native.memset;
  *native = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = node.dst,
                                         .pitch = node.pitch,
                                         .value = node.value,
                                         .elementSize = node.element_size,
                                         .width = node.width,
                                         .height = or_one(node.height)};
  status = context_of(&native->ctx, context);
  return status != 0 ? status : keep_given(out, bundle);
}

static int fill_host(cch__node_params *out, const void *given, cch_bundle *bundle, const char *operation) {
  cch_host_node node;
  int status = READ(node, given, data, operation);
  if (status != 0)
    return status;
  if (node.function == NULL)
    return cch__fail(CCH_EINVAL, operation, "the host function is NULL");
  status = cch__bundle_wrap(&out->kept, NULL, bundle, sizeof(cch__host_call), operation);
  if (status != 0)
    return status;
  *(cch__host_call *)out->kept->payload = (cch__host_call){node.function, node.data};
  out->native.host.fn = cch__host_trampoline;
  out->native.host.userData = out->kept->payload;
  return 0;
}

static int fill_child(cch__node_params *out, const void *given, cch_bundle *bundle, const char *operation) {
  cch_child_node node;
  int status = READ(node, given, graph, operation);
  if (status != 0)
    return status;
  status = CCH__USABLE(node.graph, "the child graph", operation);
  if (status != 0)
    return status;
  out->native.graph.graph = node.graph->raw;
  cch_bundle *uses;
  status = cch__graph_uses(&uses, node.graph, operation);
  if (status != 0 || uses == NULL)
    return status != 0 ? status : keep_given(out, bundle);
  status = cch__bundle_wrap(&out->kept, uses, bundle, 0, operation);
  cch_bundle_unref(uses);
  return status;
}

static int fill_event(cch__node_params *out, const void *given, cch_bundle *bundle, const char *operation) {
  cch_event_node node;
  int status = READ(node, given, event, operation);
  if (status != 0)
    return status;
  status = CCH__USABLE(node.event, "the event", operation);
  if (status != 0)
    return status;
  if (out->native.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
    out->native.eventRecord.event = node.event->raw;
  else
    out->native.eventWait.event = node.event->raw;
  return cch__bundle_wrap(&out->kept, node.event, bundle, 0, operation);
}

static int fill_alloc(cch__node_params *out, const void *given, cch_bundle *bundle, const char *operation) {
  cch_alloc_node node;
  int status = READ(node, given, address, operation);
  if (status != 0)
    return status;
  if (node.bytes == 0)
    return cch__fail(CCH_EINVAL, operation, "the size is 0");
  CUDA_MEM_ALLOC_NODE_PARAMS_v2 *native = &out->native.alloc;
  native->bytesize = node.bytes;
  native->poolProps.allocType =
      node.alloc_type != 0 ? (CUmemAllocationType)node.alloc_type : CU_MEM_ALLOCATION_TYPE_PINNED;
  native->poolProps.location.type =
      node.location_type != 0 ? (CUmemLocationType)node.location_type : CU_MEM_LOCATION_TYPE_DEVICE;
  native->poolProps.location.id = node.location_id;
  if (node.peer_count > 0) {
    status = CCH__USABLE(node.peers, "the array of peers of the node's parameters", operation);
    if (status != 0)
      return status;
    out->peers = calloc(node.peer_count, sizeof *out->peers);
    if (out->peers == NULL)
      return cch__fail_nomem(operation);
    for (size_t i = 0; i < node.peer_count; i++) {
      out->peers[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      out->peers[i].location.id = node.peers[i];
      out->peers[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    native->accessDescs = out->peers;
    native->accessDescCount = node.peer_count;
  }
  out->alloc = (cch_alloc_node *)(uintptr_t)given;
  return keep_given(out, bundle);
}

static int fill_free(cch__node_params *out, const void *given, cch_bundle *bundle, const char *operation) {
  cch_free_node node;
  int status = READ(node, given, address, operation);
  if (status != 0)
    return status;
  if (node.address == 0)
    return cch__fail(CCH_EINVAL, operation, "the address to free is 0");
  out->native.free.dptr = node.address;
  return keep_given(out, bundle);
}

static int fill_conditional(cch__node_params *out, const void *given, cch_bundle *bundle, const cch_context *context,
                            const char *operation) {
  cch_conditional_node node;
  int status = READ(node, given, count, operation);
  if (status != 0)
    return status;
  bool fits = node.type == CCH_CONDITIONAL_IF       ? node.count == 1 || node.count == 2
              : node.type == CCH_CONDITIONAL_WHILE  ? node.count == 1
              : node.type == CCH_CONDITIONAL_SWITCH ? node.count >= 1
                                                    : false;
  if (!fits)
    return cch__fail(CCH_EINVAL, operation, "a conditional node of type %d cannot have %u bodies", node.type,
                     node.count);
  status = cch__bundle_wrap(&out->kept, NULL, bundle,
                            sizeof(cch__condition) + node.count * sizeof *((cch__condition *)NULL)->bodies, operation);
  if (status != 0)
    return status;
  out->kept->is_condition = true;
  ((cch__condition *)out->kept->payload)->node = node;
  CUDA_CONDITIONAL_NODE_PARAMS *native = &out->native.conditional;
  native->handle = node.condition;
  native->type = (CUgraphConditionalNodeType)node.type;
  native->size = node.count;
  return context_of(&native->ctx, context);
}

int cch__node_params_fill(cch__node_params *out, int type, const void *params, cch_bundle *bundle,
                          const cch_context *context, const char *operation) {
  memset(&out->native, 0, sizeof out->native);
  out->native.type = (CUgraphNodeType)type;
  out->kept = NULL;
  out->attribute_count = 0;
  out->programmatic = false;
  out->pointers = out->few;
  out->peers = NULL;
  out->alloc = NULL;
  if (params == NULL && type != CCH_NODE_EMPTY)
    return cch__fail(CCH_EINVAL, operation, "the parameters of the node are NULL");
  switch ((cch_node_type)type) {
  case CCH_NODE_KERNEL:
    return fill_kernel(out, params, bundle, context, operation);
  case CCH_NODE_MEMCPY:
    return fill_memcpy(out, params, bundle, context, operation);
  case CCH_NODE_MEMSET:
    return fill_memset(out, params, bundle, context, operation);
  case CCH_NODE_HOST:
    return fill_host(out, params, bundle, operation);
  case CCH_NODE_GRAPH:
    return fill_child(out, params, bundle, operation);
  case CCH_NODE_EMPTY:
    return keep_given(out, bundle);
  case CCH_NODE_EVENT_WAIT:
  case CCH_NODE_EVENT_RECORD:
    return fill_event(out, params, bundle, operation);
  case CCH_NODE_ALLOC:
    return fill_alloc(out, params, bundle, operation);
  case CCH_NODE_FREE:
    return fill_free(out, params, bundle, operation);
  case CCH_NODE_CONDITIONAL:
    return fill_conditional(out, params, bundle, context, operation);
  }
  return cch__fail(CCH_EINVAL, operation, "nodes of type %d cannot be added", type);
}

CUcontext cch__node_params_context(const cch__node_params *params) {
  switch ((int)params->native.type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return params->native.kernel.ctx;
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return params->native.memcpy.copyCtx;
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return params->native.memset.ctx;
  default:
    return NULL;
  }
}

void cch__node_params_drop(cch__node_params *params) {
  cch_bundle_unref(params->kept);
  if (params->pointers != params->few)
    free(params->pointers);
  free(params->peers);
}
