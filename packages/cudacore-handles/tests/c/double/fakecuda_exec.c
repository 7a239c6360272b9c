/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs: copies that run at once, but for kernels. */
#include "double/fakecuda_graph.h"

static object *first_in_cycle(object *graph) {
  const struct fake_graph *g = graph->u.graph;
  object **order = in_order(graph);
  free(order);
  if (!order)
    return g->nodes[0];
  for (size_t i = 0; i < g->count; i++)
    for (size_t k = 0; k < g->nodes[i]->u.node->child_count; k++) {
      object *found = first_in_cycle((object *)g->nodes[i]->u.node->children[k]);
      if (found)
        return found;
    }
  return NULL;
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph handle, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
  ENTER(cuGraphInstantiateWithParams);
  object *graph;
  TRY(find_object(&graph, FAKE_GRAPH, handle));
  params->hErrNode_out = (CUgraphNode)first_in_cycle(graph);
  params->result_out = params->hErrNode_out ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE : CUDA_GRAPH_INSTANTIATE_SUCCESS;
  if (params->hErrNode_out)
    return leave(CUDA_SUCCESS); /* as the driver can do */
  object *exec = new_object(FAKE_EXEC);
  exec->u.exec.graph = copy_graph(graph);
  exec->u.exec.flags = params->flags;
  *out = (CUgraphExec)exec;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) {
  ENTER(cuGraphExecDestroy);
  object *exec;
  TRY(find_object(&exec, FAKE_EXEC, handle));
  end_graph(exec->u.exec.graph);
  end_object(exec);
  return leave_with_destructors(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags) {
  ENTER(cuGraphExecGetFlags);
  object *exec;
  TRY(find_object(&exec, FAKE_EXEC, handle));
  *flags = exec->u.exec.flags;
  return leave(CUDA_SUCCESS);
}

/* The first node that is of another type, or NULL; *alike says whether there are as many. */
static object *first_unlike(object *graph, object *other, bool *alike) {
  const struct fake_graph *a = graph->u.graph, *b = other->u.graph;
  *alike = a->count == b->count;
  for (size_t i = 0; i < a->count && i < b->count; i++)
    if (a->nodes[i]->u.node->params.type != b->nodes[i]->u.node->params.type)
      return b->nodes[i];
  return NULL;
}

/* Nodes of the copy are found by those of the graph that was instantiated. */
static void take_originals(object *copy, object *from) {
  for (size_t i = 0; i < copy->u.graph->count; i++) {
    struct fake_node *to = copy->u.graph->nodes[i]->u.node, *old = from->u.graph->nodes[i]->u.node;
    to->original = old->original;
    for (size_t k = 0; k < to->child_count && k < old->child_count; k++)
      take_originals((object *)to->children[k], (object *)old->children[k]);
  }
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *result) {
  ENTER(cuGraphExecUpdate_v2);
  object *exec, *graph;
  TRY(find_object(&exec, FAKE_EXEC, handle));
  TRY(find_object(&graph, FAKE_GRAPH, graph_handle));
  bool alike;
  object *unlike = first_unlike(exec->u.exec.graph, graph, &alike);
  *result = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
  if (unlike || !alike) {
    result->result =
        unlike ? CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    result->errorNode = (CUgraphNode)unlike;
    return leave(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  }
  object *copy = copy_graph(graph);
  take_originals(copy, exec->u.exec.graph);
  end_graph(exec->u.exec.graph);
  exec->u.exec.graph = copy;
  return leave_with_destructors(CUDA_SUCCESS);
}

static object *find_copy(object *graph, CUgraphNode original) {
  for (size_t i = 0; i < graph->u.graph->count; i++) {
    object *node = graph->u.graph->nodes[i];
    if (node->u.node->original == (object *)original)
      return node;
    for (size_t k = 0; k < node->u.node->child_count; k++) {
      object *found = find_copy((object *)node->u.node->children[k], original);
      if (found)
        return found;
    }
  }
  return NULL;
}

static CUresult find_exec_node(object **out, CUgraphExec handle, CUgraphNode original) {
  object *exec, *node;
  CUresult result = find_object(&exec, FAKE_EXEC, handle);
  if (result == CUDA_SUCCESS)
    result = find_object(&node, FAKE_NODE, original);
  if (result != CUDA_SUCCESS)
    return result;
  *out = find_copy(exec->u.exec.graph, original);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec handle, CUgraphNode original, CUgraphNodeParams *params) {
  ENTER(cuGraphExecNodeSetParams);
  object *node;
  TRY(find_exec_node(&node, handle, original));
  TRY(check_params(params));
  if (node->u.node->params.type != params->type)
    return leave(CUDA_ERROR_INVALID_VALUE);
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    object *copy = copy_graph((object *)params->graph.graph);
    take_originals(copy, (object *)node->u.node->children[0]);
    copy->u.graph->node = node;
    end_graph((object *)node->u.node->children[0]);
    node->u.node->children[0] = (CUgraph)copy;
  }
  copy_params(node->u.node, params);
  return leave_with_destructors(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode original, unsigned enabled) {
  ENTER(cuGraphNodeSetEnabled);
  object *node;
  TRY(find_exec_node(&node, handle, original));
  node->u.node->disabled = !enabled;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode original, unsigned *enabled) {
  ENTER(cuGraphNodeGetEnabled);
  object *node;
  TRY(find_exec_node(&node, handle, original));
  *enabled = !node->u.node->disabled;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
  ENTER(cuGraphUpload);
  object *exec, *stream, *context;
  TRY(find_object(&exec, FAKE_EXEC, handle));
  return leave(find_stream(&stream, &context, stream_handle));
}

/* Host functions that a launch has come to: they run when the lock is free. */
typedef struct host_calls {
  size_t count, room;
  struct {
    CUhostFn function;
    void *data;
  } *calls;
} host_calls;

static void run_kernel(const struct fake_node *node, CUstream stream) {
  const CUDA_KERNEL_NODE_PARAMS_v3 *params = &node->params.kernel;
  fake_launch *launch = &state.last_launch;
  memset(launch, 0, offsetof(fake_launch, args));
  launch->kernel = params->kern;
  launch->stream = stream;
  launch->context = params->ctx;
  memcpy(launch->grid, &params->gridDimX, sizeof launch->grid);
  memcpy(launch->block, &params->blockDimX, sizeof launch->block);
  memcpy(launch->cluster, &node->attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION].clusterDim, sizeof launch->cluster);
  launch->shared_bytes = params->sharedMemBytes;
  launch->args_size = ((object *)params->kern)->u.kernel.signature->end;
  memcpy(launch->args, node->args, launch->args_size);
  state.launched = true;
}

static bool is_of_a_graph(CUdeviceptr address) { return address >> 40 == 0x70; }

static void run_copy(const CUDA_MEMCPY3D *copy) {
  if (is_of_a_graph(copy->dstDevice) || is_of_a_graph(copy->srcDevice))
    return;
  for (size_t z = 0; z < copy->Depth; z++)
    for (size_t y = 0; y < copy->Height; y++)
      memcpy((char *)(uintptr_t)copy->dstDevice + (z * copy->dstHeight + y) * copy->dstPitch,
             (const char *)(uintptr_t)copy->srcDevice + (z * copy->srcHeight + y) * copy->srcPitch, copy->WidthInBytes);
}

static void run_fill(const CUDA_MEMSET_NODE_PARAMS_v2 *fill) {
  if (is_of_a_graph(fill->dst))
    return;
  for (size_t y = 0; y < fill->height; y++)
    for (size_t x = 0; x < fill->width; x++)
      memcpy((char *)(uintptr_t)fill->dst + y * fill->pitch + x * fill->elementSize, &fill->value, fill->elementSize);
}

static void run_graph(object *graph, CUstream stream, host_calls *calls) {
  object **order = in_order(graph);
  for (size_t i = 0; order && i < graph->u.graph->count; i++) {
    const struct fake_node *node = order[i]->u.node;
    object *event;
    if (node->disabled)
      continue;
    switch (node->params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      run_kernel(node, stream);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      run_copy(&node->params.memcpy.copyParams);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      run_fill(&node->params.memset);
      break;
    case CU_GRAPH_NODE_TYPE_HOST:
      if (calls->count == calls->room) {
        calls->room = calls->room ? 2 * calls->room : 4;
        calls->calls = realloc(calls->calls, calls->room * sizeof *calls->calls);
      }
      calls->calls[calls->count].function = node->params.host.fn;
      calls->calls[calls->count++].data = node->params.host.userData;
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      run_graph((object *)node->children[0], stream, calls);
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      if (find_object(&event, FAKE_EVENT, node->params.eventRecord.event) == CUDA_SUCCESS)
        event->u.event.recorded = true;
      break;
    default: /* conditional bodies do not run: no kernel sets a condition */
      break;
    }
  }
  free(order);
}

void fake_forbid(int now);

static void *run_host(void *opaque) {
  host_calls *calls = opaque;
  fake_forbid(1);
  for (size_t i = 0; i < calls->count; i++)
    calls->calls[i].function(calls->calls[i].data);
  return NULL;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  ENTER(cuGraphLaunch);
  object *exec, *stream, *context, *captured;
  TRY(find_object(&exec, FAKE_EXEC, handle));
  TRY(find_stream(&stream, &context, stream_handle));
  TRY(find_capture(&captured, stream, stream_handle));
  if (captured)
    return leave(capture_graph(captured, exec->u.exec.graph));
  host_calls calls = {0};
  run_graph(exec->u.exec.graph, stream_handle, &calls);
  leave(CUDA_SUCCESS);
  pthread_t thread;
  if (calls.count && pthread_create(&thread, NULL, run_host, &calls) == 0)
    pthread_join(thread, NULL);
  free(calls.calls);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
  ENTER(cuLaunchHostFunc);
  object *stream, *context, *captured;
  TRY(find_stream(&stream, &context, handle));
  TRY(find_capture(&captured, stream, handle));
  if (captured)
    return leave(CUDA_ERROR_NOT_SUPPORTED);
  leave(CUDA_SUCCESS);
  host_calls calls = {.calls = malloc(sizeof *calls.calls), .count = 1};
  calls.calls[0].function = function;
  calls.calls[0].data = data;
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_host, &calls) == 0)
    pthread_join(thread, NULL);
  free(calls.calls);
  return CUDA_SUCCESS;
}
