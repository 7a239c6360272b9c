/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes, as the driver has them. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* Writes as much of a structure as the caller's has. */
#define GIVE(given, known, oldest_end)                                                                                 \
  give(given, &(known), sizeof(known), offsetof(__typeof__(known), oldest_end) + sizeof((known).oldest_end), operation)

static int give(void *given, void *known, size_t size, size_t oldest, const char *operation) {
  size_t room = *(size_t *)given;
  if (room < oldest)
    return cch__fail(CCH_EINVAL, operation, "the size of the structure is %zu, and none has less than %zu bytes", room,
                     oldest);
  *(size_t *)known = room;
  if (room > size)
    memset((char *)given + size, 0, room - size);
  memcpy(given, known, room < size ? room : size);
  return 0;
}

/* What the current parameters of a node use, a reference; NULL where it is not known. */
static cch_bundle *bundle_of(cch_graph_node *node) {
  cch__graph_lock(node->graph);
  cch__record *record = cch__record_find(node->graph->level, node->raw);
  cch_bundle *bundle = record != NULL ? cch_bundle_ref(record->bundle) : NULL;
  cch__graph_unlock(node->graph);
  return bundle;
}

cch_bundle *cch_graph_node_bundle(cch_graph_node *node) {
  CCH__REQUIRE_ELSE(NULL, node);
  if (cch__is_gone(node) || cch__forked()) /* where the lock may be a thread's that is not here */
    return NULL;
  cch_bundle *bundle = bundle_of(node), *given = cch_bundle_ref(cch__bundle_given(bundle));
  cch_bundle_unref(bundle);
  return given;
}

static int get_attributes(cch_launch_config *config, CUgraphNode raw, const char *operation) {
  CUlaunchAttributeValue cluster, cooperative, priority;
  bool known = false, programmatic;
  int status = cch__node_is_programmatic(&programmatic, raw, operation);
  if (status == 0)
    status = cch__node_attribute(&cluster, &known, raw, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  if (status == 0)
    status = cch__node_attribute(&cooperative, &known, raw, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  if (status == 0)
    status = cch__node_attribute(&priority, &known, raw, CU_LAUNCH_ATTRIBUTE_PRIORITY);
  if (status != 0)
    return status;
  config->cluster[0] = cluster.clusterDim.x;
  config->cluster[1] = cluster.clusterDim.y;
  config->cluster[2] = cluster.clusterDim.z;
  config->flags = (cooperative.cooperative ? CCH_LAUNCH_COOPERATIVE : 0) |
                  (programmatic ? CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION : 0) | (known ? CCH_LAUNCH_PRIORITY : 0);
  config->priority = priority.priority;
  return 0;
}

static int get_config(cch_launch_config *given, CUgraphNode raw, const CUDA_KERNEL_NODE_PARAMS *native,
                      const char *operation) {
  enum { CONFIG_0_1 = offsetof(cch_launch_config, shared_bytes) + sizeof(uint32_t) };
  cch_launch_config config = {.size = given->size,
                              .grid = {native->gridDimX, native->gridDimY, native->gridDimZ},
                              .block = {native->blockDimX, native->blockDimY, native->blockDimZ},
                              .shared_bytes = native->sharedMemBytes};
  if (given->size < CONFIG_0_1)
    return cch__fail(CCH_EINVAL, operation, "the size of the cch_launch_config is %u, and none has less than %d bytes",
                     given->size, (int)CONFIG_0_1);
  int status = get_attributes(&config, raw, operation);
  if (status != 0)
    return status;
  if (given->size > sizeof config)
    memset((char *)given + sizeof config, 0, given->size - sizeof config);
  memcpy(given, &config, given->size < sizeof config ? given->size : sizeof config);
  return 0;
}

cch_kernel *cch__kernel_of(const cch_bundle *bundle) {
  cch__box *first = bundle != NULL && bundle->wraps && bundle->count > 0 ? bundle->owners[0].object : NULL;
  return first != NULL && first->kind == CCH_KIND_KERNEL ? (cch_kernel *)first : NULL;
}

void cch__kernel_read_drop(cch__kernel_read *read) {
  cch_kernel_unref(read->kernel);
  free(read->block);
  *read = (cch__kernel_read){0};
}

/* One block that was given as it is. */
static void copy_extra(void *block, size_t size, void **extra) {
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      memcpy(block, extra[1], size);
}

/* Copies the arguments, if their places are known: a driver before 12.4 cannot tell them. */
static int copy_arguments(cch__kernel_read *read, const char *operation) {
  cch_context context = {.raw = read->native.ctx};
  if (!cch__kernel_has_params(read->kernel))
    return 0;
  int status =
      CCH__IN_CONTEXT(read->native.ctx != NULL ? &context : NULL, cch__kernel_params(&read->params, read->kernel));
  if (status != 0 || read->params->block_size == 0)
    return status;
  read->block = calloc(1, read->params->block_size);
  if (read->block == NULL)
    return cch__fail_nomem(operation);
  if (read->native.kernelParams == NULL)
    copy_extra(read->block, read->params->block_size, read->native.extra);
  for (size_t i = 0; read->native.kernelParams != NULL && i < read->params->count; i++)
    memcpy((char *)read->block + read->params->param[i].offset, read->native.kernelParams[i],
           read->params->param[i].size);
  return 0;
}

int cch__kernel_read_node(cch__kernel_read *out, CUgraphNode raw, cch_kernel *known, bool copies,
                          const char *operation) {
  *out = (cch__kernel_read){0};
  int status = CCH__CALL(cuGraphKernelNodeGetParams, (raw, &out->native));
  if (status != 0)
    return status;
  if (known != NULL)
    out->kernel = cch_kernel_ref(known);
  else if (out->native.kern != NULL) /* or else it is of a module, and no kernel */
    status = cch_kernel_wrap(&out->kernel, out->native.kern, NULL, NULL, NULL);
  if (status == 0 && out->kernel != NULL && copies)
    status = copy_arguments(out, operation);
  if (status != 0)
    cch__kernel_read_drop(out);
  return status;
}

static int get_kernel(cch_graph_node *node, cch_kernel_node *out, cch_bundle *bundle, const char *operation) {
  cch_kernel *known = cch__kernel_of(bundle);
  cch__kernel_read read;
  int status = cch__kernel_read_node(&read, node->raw, known, known == NULL, operation);
  if (status != 0)
    return status;
  if (out->config != NULL)
    status = get_config((cch_launch_config *)(uintptr_t)out->config, node->raw, &read.native, operation);
  if (status == 0) {
    out->kernel = cch_kernel_ref(read.kernel);
    out->args = known != NULL ? bundle->payload : read.block;
    out->args_size = known != NULL ? bundle->payload_size : read.params != NULL ? read.params->block_size : 0;
    if (known == NULL) {
      free(node->block);
      node->block = read.block;
      read.block = NULL;
    }
  }
  cch__kernel_read_drop(&read);
  return status;
}

static int get_event(cch_graph_node *node, cch_event **out, cch_bundle *bundle) {
  CUevent raw;
  int status = node->type == CCH_NODE_EVENT_RECORD ? CCH__CALL(cuGraphEventRecordNodeGetEvent, (node->raw, &raw))
                                                   : CCH__CALL(cuGraphEventWaitNodeGetEvent, (node->raw, &raw));
  if (status != 0)
    return status;
  cch__box *first = bundle != NULL && bundle->wraps && bundle->count > 0 ? bundle->owners[0].object : NULL;
  if (first != NULL && first->kind == CCH_KIND_EVENT && ((cch_event *)first)->raw == raw) {
    *out = cch_event_ref((cch_event *)first);
    return 0;
  }
  return cch_event_wrap(out, raw, NULL, NULL);
}

static int get_memcpy(cch_graph_node *node, cch_memcpy_node *out) {
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

static int get_memset(cch_graph_node *node, cch_memset_node *out) {
  CUDA_MEMSET_NODE_PARAMS_v1 native;
  int status = CCH__CALL(cuGraphMemsetNodeGetParams, (node->raw, &native));
  if (status == 0)
    *out = (cch_memset_node){.dst = native.dst,
                             .value = native.value,
                             .element_size = native.elementSize,
                             .width = native.width,
                             .height = native.height,
                             .pitch = native.pitch};
  return status;
}

/* What the driver was given is ours, in a clone too. */
static int get_host(cch_graph_node *node, cch_host_node *out) {
  CUDA_HOST_NODE_PARAMS_v1 native;
  int status = CCH__CALL(cuGraphHostNodeGetParams, (node->raw, &native));
  if (status != 0)
    return status;
  const cch__host_call *call = native.userData;
  bool ours = native.fn == cch__host_trampoline;
  *out = (cch_host_node){.function = ours ? call->function : native.fn, .data = ours ? call->data : native.userData};
  return 0;
}

static int get_alloc(cch_graph_node *node, cch_alloc_node *out) {
  CUDA_MEM_ALLOC_NODE_PARAMS_v1 native;
  int status = CCH__CALL(cuGraphMemAllocNodeGetParams, (node->raw, &native));
  if (status != 0)
    return status;
  int32_t *peers = (int32_t *)(uintptr_t)out->peers;
  for (size_t i = 0; peers != NULL && i < out->peer_count && i < native.accessDescCount; i++)
    peers[i] = native.accessDescs[i].location.id;
  *out = (cch_alloc_node){.bytes = native.bytesize,
                          .location_type = (int32_t)native.poolProps.location.type,
                          .location_id = native.poolProps.location.id,
                          .alloc_type = (int32_t)native.poolProps.allocType,
                          .peers = peers,
                          .peer_count = native.accessDescCount,
                          .address = native.dptr};
  return 0;
}

static int get_conditional(cch_graph_node *node, cch_conditional_node *out, cch_bundle *bundle) {
  if (bundle != NULL && bundle->wraps) {
    *out = ((cch__condition *)bundle->payload)->node;
    return 0;
  }
  CUgraphNodeParams native = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
  int status = CCH__CALL(cuGraphNodeGetParams, (node->raw, &native));
  if (status == 0)
    *out = (cch_conditional_node){.condition = native.conditional.handle,
                                  .type = (int32_t)native.conditional.type,
                                  .count = native.conditional.size};
  return status;
}

#define GET(type, last, ...)                                                                                           \
  do {                                                                                                                 \
    type known = {0};                                                                                                  \
    int status = __VA_ARGS__;                                                                                          \
    return status != 0 ? status : GIVE(params, known, last);                                                           \
  } while (0)

static int get(void *params, cch_graph_node *node, cch_bundle *bundle, const char *operation) {
  switch ((cch_node_type)node->type) {
  case CCH_NODE_KERNEL: {
    cch_kernel_node known = {.config = ((cch_kernel_node *)params)->config};
    int status = get_kernel(node, &known, bundle, operation);
    if (status != 0)
      return status;
    status = GIVE(params, known, args_size);
    if (status != 0)
      cch_kernel_unref(known.kernel);
    return status;
  }
  case CCH_NODE_MEMCPY:
    GET(cch_memcpy_node, src_height, get_memcpy(node, &known));
  case CCH_NODE_MEMSET:
    GET(cch_memset_node, pitch, get_memset(node, &known));
  case CCH_NODE_HOST:
    GET(cch_host_node, data, get_host(node, &known));
  case CCH_NODE_GRAPH: {
    cch_child_node known = {0};
    int status = cch_graph_node_child(&known.graph, node, 0);
    if (status != 0)
      return status;
    status = GIVE(params, known, graph);
    if (status != 0)
      cch_graph_unref(known.graph);
    return status;
  }
  case CCH_NODE_EVENT_RECORD:
  case CCH_NODE_EVENT_WAIT: {
    cch_event_node known = {0};
    int status = get_event(node, &known.event, bundle);
    if (status != 0)
      return status;
    status = GIVE(params, known, event);
    if (status != 0)
      cch_event_unref(known.event);
    return status;
  }
  case CCH_NODE_ALLOC: {
    const cch_alloc_node *given = params;
    cch_alloc_node known = {.peers = given->peers, .peer_count = given->peer_count};
    int status = get_alloc(node, &known);
    return status != 0 ? status : GIVE(params, known, address);
  }
  case CCH_NODE_FREE:
    GET(cch_free_node, address, CCH__CALL(cuGraphMemFreeNodeGetParams, (node->raw, &known.address)));
  case CCH_NODE_CONDITIONAL:
    GET(cch_conditional_node, count, get_conditional(node, &known, bundle));
  case CCH_NODE_EMPTY:
    break;
  }
  return cch__fail(CCH_EINVAL, operation, "a node of type %d has no parameters that are known", node->type);
}

int cch_graph_node_get(void *params, cch_graph_node *node) {
  CCH__REQUIRE_USABLE(params, node);
  if (node->type == CCH_NODE_KERNEL)
    CCH__RETURN_FAILURE(cch__graph_check(node->graph, __func__));
  cch_bundle *bundle = bundle_of(node);
  int status = get(params, node, bundle, __func__);
  cch_bundle_unref(bundle); /* the graph keeps it, as long as these are the parameters */
  return status;
}

/* ---- graphs in nodes ---- */

static int body_of(CUgraph *out, cch_graph_node *node, unsigned index, const cch_bundle *bundle,
                   const char *operation) {
  unsigned count;
  const CUgraph *bodies;
  CUgraphNodeParams native = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
  if (bundle != NULL && bundle->wraps) {
    const cch__condition *condition = bundle->payload;
    count = condition->node.count;
    bodies = condition->bodies;
  } else {
    int status = CCH__CALL(cuGraphNodeGetParams, (node->raw, &native));
    if (status != 0)
      return status;
    count = native.conditional.size;
    bodies = native.conditional.phGraph_out;
  }
  if (index >= count)
    return cch__fail(CCH_EINVAL, operation, "the node has no body number %u, but %u of them", index, count);
  *out = bodies[index];
  return 0;
}

int cch_graph_node_child(cch_graph **out, cch_graph_node *node, unsigned index) {
  CCH__REQUIRE_USABLE(out, node);
  int status = 0;
  CUgraph raw = NULL;
  if (node->type == CCH_NODE_CONDITIONAL) {
    cch_bundle *bundle = bundle_of(node);
    status = body_of(&raw, node, index, bundle, __func__);
    cch_bundle_unref(bundle);
  } else if (node->type == CCH_NODE_GRAPH && index == 0) {
    status = CCH__CALL(cuGraphChildGraphNodeGetGraph, (node->raw, &raw));
  } else {
    status = cch__fail(CCH_EINVAL, __func__, "a node of type %d has no graph number %u", node->type, index);
  }
  return status != 0 ? status : cch__graph_in_node(out, node->graph, node->raw, raw, __func__);
}

/* The context of a node's parameters, NULL where they have none. */
static int context_of(CUcontext *out, cch_graph_node *node) {
  cch__graph_lock(node->graph);
  const cch__record *record = cch__record_find(node->graph->level, node->raw);
  *out = record != NULL ? record->context : NULL;
  cch__graph_unlock(node->graph);
  if (*out != NULL || node->type != CCH_NODE_KERNEL)
    return 0;
  CUDA_KERNEL_NODE_PARAMS native;
  int status = CCH__CALL(cuGraphKernelNodeGetParams, (node->raw, &native));
  if (status != 0)
    return status;
  *out = native.ctx;
  cch__graph_lock(node->graph);
  cch__record *found = cch__record_find(node->graph->level, node->raw);
  if (found != NULL && !node->graph->hierarchy->shared)
    found->context = native.ctx; /* nobody else can change it */
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
