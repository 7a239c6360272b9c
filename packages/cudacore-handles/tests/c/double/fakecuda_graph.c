/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, their nodes and edges, and what they keep. */
#include "double/fakecuda_graph.h"

#include <stdio.h>

/* Room for one more. */
#define GROW(array, count, room)                                                                                       \
  do {                                                                                                                 \
    if ((count) == (room)) {                                                                                           \
      (room) = (room) ? 2 * (room) : 4;                                                                                \
      (array) = realloc(array, (room) * sizeof *(array));                                                              \
    }                                                                                                                  \
  } while (0)

/* ---- user objects ------------------------------------------------------------------------------------------------ */

/* Those that have died during the current call; guarded by the lock. */
static struct dead {
  void *data;
  CUhostFn destroy;
  struct dead *next;
} *dead;

void release_user(object *user, size_t count) {
  if (user->u.user.references < count) {
    violate("user object %p has %zu references, not %zu", (void *)user, user->u.user.references, count);
    return;
  }
  user->u.user.references -= count;
  if (user->u.user.references)
    return;
  struct dead *one = malloc(sizeof *one);
  *one = (struct dead){user->u.user.data, user->u.user.destroy, dead};
  dead = one;
  end_object(user);
}

void fake_forbid(int now);

static void *run_destructors(void *list) {
  fake_forbid(1);
  for (struct dead *one = list, *next; one; one = next) {
    next = one->next;
    one->destroy(one->data);
    free(one);
  }
  return NULL;
}

/* As the driver does on a thread of its own; the caller waits, so that tests know when. */
CUresult leave_with_destructors(CUresult result) {
  struct dead *list = dead;
  dead = NULL;
  leave(result);
  pthread_t thread;
  if (list && pthread_create(&thread, NULL, run_destructors, list) == 0)
    pthread_join(thread, NULL);
  return result;
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned count, unsigned flags) {
  ENTER(cuUserObjectCreate);
  if (!out || !destroy || !count || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return leave(CUDA_ERROR_INVALID_VALUE);
  object *user = new_object(FAKE_USER_OBJECT);
  user->u.user.data = data;
  user->u.user.destroy = destroy;
  user->u.user.references = count;
  *out = (CUuserObject)user;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject handle, unsigned count) {
  ENTER(cuUserObjectRelease);
  object *user;
  TRY(find_object(&user, FAKE_USER_OBJECT, handle));
  release_user(user, count);
  return leave_with_destructors(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph handle, CUuserObject user_handle, unsigned count, unsigned flags) {
  ENTER(cuGraphRetainUserObject);
  object *graph, *user;
  TRY(find_object(&graph, FAKE_GRAPH, handle));
  TRY(find_object(&user, FAKE_USER_OBJECT, user_handle));
  struct fake_graph *g = graph->u.graph;
  GROW(g->kept, g->kept_count, g->kept_room);
  g->kept[g->kept_count++] = (struct kept){user, count};
  if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
    user->u.user.references += count;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph handle, CUuserObject user_handle, unsigned count) {
  ENTER(cuGraphReleaseUserObject);
  object *graph, *user;
  TRY(find_object(&graph, FAKE_GRAPH, handle));
  TRY(find_object(&user, FAKE_USER_OBJECT, user_handle));
  struct fake_graph *g = graph->u.graph;
  size_t i = g->kept_count;
  while (i-- > 0 && g->kept[i].user != user)
    ;
  if (i == (size_t)-1 || g->kept[i].count < count) {
    violate("graph %p does not keep user object %p", (void *)graph, (void *)user);
    return leave(CUDA_ERROR_INVALID_VALUE);
  }
  g->kept[i].count -= count;
  if (!g->kept[i].count)
    g->kept[i] = g->kept[--g->kept_count];
  release_user(user, count);
  return leave_with_destructors(CUDA_SUCCESS);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

object *new_graph(void) {
  object *graph = new_object(FAKE_GRAPH);
  graph->u.graph = calloc(1, sizeof *graph->u.graph);
  return graph;
}

static void end_node(object *node) {
  struct fake_node *n = node->u.node;
  for (size_t i = 0; i < n->child_count; i++)
    end_graph((object *)n->children[i]);
  free(n->children);
  free(n->before);
  free(n->edges);
  free(n->args);
  free(n->pointers);
  free(n);
  end_object(node);
}

void end_graph(object *graph) {
  struct fake_graph *g = graph->u.graph;
  for (size_t i = g->count; i-- > 0;)
    end_node(g->nodes[i]);
  for (size_t i = 0; i < g->kept_count; i++)
    release_user(g->kept[i].user, g->kept[i].count);
  free(g->nodes);
  free(g->kept);
  free(g);
  end_object(graph);
}

static object *add_node(object *graph) {
  struct fake_graph *g = graph->u.graph;
  object *node = new_object(FAKE_NODE);
  node->u.node = calloc(1, sizeof *node->u.node);
  node->u.node->graph = graph;
  GROW(g->nodes, g->count, g->room);
  g->nodes[g->count++] = node;
  return node;
}

/* Arguments are copied, as the driver does. */
void copy_params(struct fake_node *node, const CUgraphNodeParams *params) {
  node->params = *params;
  if (params->type != CU_GRAPH_NODE_TYPE_KERNEL)
    return;
  object *kernel = (object *)(params->kernel.kern ? (void *)params->kernel.kern : (void *)params->kernel.func);
  const struct signature *signature = kernel->u.kernel.signature;
  unsigned char *args = calloc(1, signature->end + 1);
  void **pointers = calloc(signature->count + 1, sizeof *pointers);
  for (size_t i = 0; i < signature->count; i++) {
    pointers[i] = args + signature->params[i].offset;
    memcpy(pointers[i], params->kernel.kernelParams[i], signature->params[i].size);
  }
  free(node->args);
  free(node->pointers);
  node->args = args;
  node->pointers = pointers;
  node->params.kernel.kernelParams = pointers;
}

static object *copy_of(object *original, object *copy) {
  struct fake_graph *g = copy->u.graph;
  for (size_t i = 0; i < g->count; i++)
    if (g->nodes[i]->u.node->original == original)
      return g->nodes[i];
  return NULL;
}

static void add_child(object *node, object *child) {
  struct fake_node *n = node->u.node;
  n->children = realloc(n->children, (n->child_count + 1) * sizeof *n->children);
  n->children[n->child_count++] = (CUgraph)child;
  child->u.graph->node = node;
}

object *copy_graph(object *graph) {
  object *copy = new_graph();
  const struct fake_graph *g = graph->u.graph;
  struct fake_graph *c = copy->u.graph;
  for (size_t i = 0; i < g->count; i++) {
    const struct fake_node *from = g->nodes[i]->u.node;
    object *node = add_node(copy);
    struct fake_node *to = node->u.node;
    copy_params(to, &from->params);
    memcpy(to->attributes, from->attributes, sizeof to->attributes);
    to->original = g->nodes[i];
    to->disabled = from->disabled;
    for (size_t k = 0; k < from->child_count; k++)
      add_child(node, copy_graph((object *)from->children[k]));
  }
  for (size_t i = 0; i < g->count; i++) {
    const struct fake_node *from = g->nodes[i]->u.node;
    struct fake_node *to = c->nodes[i]->u.node;
    to->before = calloc(from->before_count + 1, sizeof *to->before);
    to->edges = calloc(from->before_count + 1, sizeof *to->edges);
    if (from->before_count)
      memcpy(to->edges, from->edges, from->before_count * sizeof *to->edges);
    for (size_t k = 0; k < from->before_count; k++)
      to->before[to->before_count++] = copy_of(from->before[k], copy);
  }
  for (size_t i = 0; i < g->kept_count; i++) {
    GROW(c->kept, c->kept_count, c->kept_room);
    c->kept[c->kept_count++] = g->kept[i];
    g->kept[i].user->u.user.references += g->kept[i].count;
  }
  c->has_memory = g->has_memory;
  return copy;
}

CUresult CUDAAPI cuGraphCreate(CUgraph *out, unsigned flags) {
  ENTER(cuGraphCreate);
  if (flags)
    return leave(CUDA_ERROR_INVALID_VALUE);
  *out = (CUgraph)new_graph();
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle) {
  ENTER(cuGraphDestroy);
  object *graph;
  TRY(find_object(&graph, FAKE_GRAPH, handle));
  if (graph->u.graph->node) {
    violate("graph %p is in a node", (void *)graph);
    return leave(CUDA_ERROR_INVALID_VALUE);
  }
  end_graph(graph);
  return leave_with_destructors(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphClone(CUgraph *out, CUgraph handle) {
  ENTER(cuGraphClone);
  object *graph;
  TRY(find_object(&graph, FAKE_GRAPH, handle));
  if (graph->u.graph->has_memory)
    return leave(CUDA_ERROR_NOT_SUPPORTED);
  *out = (CUgraph)copy_graph(graph);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned flags) {
  (void)flags;
  ENTER(cuGraphDebugDotPrint);
  object *graph;
  TRY(find_object(&graph, FAKE_GRAPH, handle));
  FILE *file = fopen(path, "w");
  if (!file)
    return leave(CUDA_ERROR_INVALID_VALUE);
  fprintf(file, "digraph dot {}\n");
  fclose(file);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph handle, CUcontext context,
                                                unsigned value, unsigned flags) {
  (void)value, (void)flags;
  static uint64_t conditions;
  ENTER(cuGraphConditionalHandleCreate);
  object *graph, *current;
  TRY(find_object(&graph, FAKE_GRAPH, handle));
  TRY(context ? find_object(&current, FAKE_CONTEXT, context) : current_context(&current));
  *out = ++conditions;
  return leave(CUDA_SUCCESS);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static CUresult check_context_of_node(CUcontext handle) {
  object *context;
  if (!handle)
    return CUDA_ERROR_INVALID_CONTEXT;
  CUresult result = find_object(&context, FAKE_CONTEXT, handle);
  return result == CUDA_SUCCESS ? check_context(context) : result;
}

/* All that parameters refer to is alive, and the right kind. */
CUresult check_params(const CUgraphNodeParams *params) {
  object *found;
  switch (params->type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    if (!params->kernel.gridDimX || !params->kernel.blockDimX)
      return CUDA_ERROR_INVALID_VALUE;
    if (!params->kernel.ctx) {
      CUresult result = current_context(&found);
      if (result != CUDA_SUCCESS)
        return result;
    }
    return find_object(&found, FAKE_KERNEL,
                       params->kernel.kern ? (void *)params->kernel.kern : (void *)params->kernel.func);
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    if (!params->memcpy.copyParams.WidthInBytes)
      return CUDA_ERROR_INVALID_VALUE;
    return check_context_of_node(params->memcpy.copyCtx);
  case CU_GRAPH_NODE_TYPE_MEMSET:
    if (!params->memset.width)
      return CUDA_ERROR_INVALID_VALUE;
    return check_context_of_node(params->memset.ctx);
  case CU_GRAPH_NODE_TYPE_HOST:
    return params->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return find_object(&found, FAKE_GRAPH, params->graph.graph);
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return find_object(&found, FAKE_EVENT, params->eventWait.event);
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return find_object(&found, FAKE_EVENT, params->eventRecord.event);
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return check_context_of_node(params->conditional.ctx);
  case CU_GRAPH_NODE_TYPE_EMPTY:
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

static CUresult check_before(object *graph, const CUgraphNode *before, size_t count) {
  for (size_t i = 0; i < count; i++) {
    object *node;
    CUresult result = find_object(&node, FAKE_NODE, before[i]);
    if (result != CUDA_SUCCESS)
      return result;
    if (node->u.node->graph != graph)
      return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < i; k++)
      if (before[k] == before[i])
        return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static object *make_node(object *graph, const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count,
                         CUgraphNodeParams *params) {
  static CUdeviceptr next_address = 0x700000000000;
  object *node = add_node(graph);
  struct fake_node *n = node->u.node;
  n->before = calloc(count + 1, sizeof *n->before);
  n->edges = calloc(count + 1, sizeof *n->edges);
  if (edges && count)
    memcpy(n->edges, edges, count * sizeof *edges);
  for (size_t i = 0; i < count; i++)
    n->before[n->before_count++] = (object *)before[i];
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    params->alloc.dptr = next_address;
    next_address += (params->alloc.bytesize + 0x1fffff) & ~(CUdeviceptr)0x1fffff;
  }
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    graph->u.graph->has_memory = true;
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
    add_child(node, copy_graph((object *)params->graph.graph));
  if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    for (unsigned i = 0; i < params->conditional.size; i++)
      add_child(node, new_graph());
    params->conditional.phGraph_out = n->children; /* an array of the driver's own */
  }
  copy_params(n, params);
  return node;
}

static CUresult add(CUgraphNode *out, CUgraph handle, const CUgraphNode *before, const CUgraphEdgeData *edges,
                    size_t count, CUgraphNodeParams *params) {
  object *graph;
  CUresult result = find_object(&graph, FAKE_GRAPH, handle);
  if (result == CUDA_SUCCESS)
    result = check_before(graph, before, count);
  if (result == CUDA_SUCCESS)
    result = check_params(params);
  if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_GRAPH &&
      ((object *)params->graph.graph)->u.graph->has_memory)
    result = CUDA_ERROR_NOT_SUPPORTED;
  if (result == CUDA_SUCCESS)
    *out = (CUgraphNode)make_node(graph, before, edges, count, params);
  return result;
}

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                   const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params) {
  ENTER(cuGraphAddNode_v2);
  return leave(add(out, graph, before, edges, count, params));
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                                CUgraphNodeParams *params) {
  ENTER(cuGraphAddNode);
  return leave(add(out, graph, before, NULL, count, params));
}

CUresult capture_launch(object *stream, const CUlaunchConfig *config, object *kernel, const fake_launch *launch) {
  const struct signature *signature = kernel->u.kernel.signature;
  void **pointers = calloc(signature->count + 1, sizeof *pointers);
  for (size_t i = 0; i < signature->count; i++)
    pointers[i] = (void *)(uintptr_t)(launch->args + signature->params[i].offset);
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  params.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.gridDimX = config->gridDimX,
                                               .gridDimY = config->gridDimY,
                                               .gridDimZ = config->gridDimZ,
                                               .blockDimX = config->blockDimX,
                                               .blockDimY = config->blockDimY,
                                               .blockDimZ = config->blockDimZ,
                                               .sharedMemBytes = config->sharedMemBytes,
                                               .kernelParams = pointers,
                                               .kern = (CUkernel)kernel};
  object *node = make_node(stream->u.stream.graph, stream->u.stream.last, NULL, stream->u.stream.last_count, &params);
  stream->u.stream.last[0] = (CUgraphNode)node;
  stream->u.stream.last_count = 1;
  free(pointers);
  return CUDA_SUCCESS;
}

CUresult capture_graph(object *stream, object *graph) {
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
  params.graph.graph = (CUgraph)graph;
  object *node = make_node(stream->u.stream.graph, stream->u.stream.last, NULL, stream->u.stream.last_count, &params);
  stream->u.stream.last[0] = (CUgraphNode)node;
  stream->u.stream.last_count = 1;
  return CUDA_SUCCESS;
}

static void cut(object *node, object *from) {
  struct fake_node *n = node->u.node;
  for (size_t i = 0; i < n->before_count; i++)
    if (n->before[i] == from) {
      memmove(&n->before[i], &n->before[i + 1], (n->before_count - i - 1) * sizeof *n->before);
      memmove(&n->edges[i], &n->edges[i + 1], (n->before_count - i - 1) * sizeof *n->edges);
      n->before_count--;
      return;
    }
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode handle) {
  ENTER(cuGraphDestroyNode);
  object *node;
  TRY(find_object(&node, FAKE_NODE, handle));
  struct fake_graph *g = node->u.node->graph->u.graph;
  if (g->has_memory)
    return leave(CUDA_ERROR_NOT_SUPPORTED);
  for (size_t i = 0; i < g->count; i++)
    cut(g->nodes[i], node);
  for (size_t i = 0; i < g->count; i++)
    if (g->nodes[i] == node) {
      memmove(&g->nodes[i], &g->nodes[i + 1], (g->count - i - 1) * sizeof *g->nodes);
      g->count--;
      break;
    }
  end_node(node);
  return leave_with_destructors(CUDA_SUCCESS);
}

static CUresult find_node(object **out, CUgraphNode handle, CUgraphNodeType type) {
  CUresult result = find_object(out, FAKE_NODE, handle);
  return result == CUDA_SUCCESS && (*out)->u.node->params.type != type ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode handle, CUgraphNodeParams *params) {
  ENTER(cuGraphNodeSetParams);
  object *node;
  TRY(find_node(&node, handle, params->type));
  TRY(check_params(params));
  struct fake_node *n = node->u.node;
  unsigned cluster = n->attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION].clusterDim.x;
  if (params->type == CU_GRAPH_NODE_TYPE_KERNEL && cluster && params->kernel.gridDimX % cluster)
    return leave(CUDA_ERROR_INVALID_CLUSTER_SIZE);
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    object *copy = copy_graph((object *)params->graph.graph);
    end_graph((object *)n->children[0]);
    n->child_count = 0;
    add_child(node, copy);
  }
  copy_params(n, params);
  return leave_with_destructors(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphNodeGetParams(CUgraphNode handle, CUgraphNodeParams *params) {
  ENTER(cuGraphNodeGetParams);
  object *node;
  TRY(find_object(&node, FAKE_NODE, handle));
  *params = node->u.node->params;
  if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    params->conditional.phGraph_out = node->u.node->children;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type) {
  ENTER(cuGraphNodeGetType);
  object *node;
  TRY(find_object(&node, FAKE_NODE, handle));
  *type = node->u.node->params.type;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph handle) {
  ENTER(cuGraphNodeFindInClone);
  object *graph, *node;
  TRY(find_object(&graph, FAKE_GRAPH, handle));
  TRY(find_object(&node, FAKE_NODE, original));
  object *copy = copy_of(node, graph);
  if (!copy)
    return leave(CUDA_ERROR_INVALID_VALUE);
  *out = (CUgraphNode)copy;
  return leave(CUDA_SUCCESS);
}

#define GETTER(name, type, Out, expression)                                                                            \
  CUresult CUDAAPI name(CUgraphNode handle, Out *out) {                                                                \
    ENTER(name);                                                                                                       \
    object *node;                                                                                                      \
    TRY(find_node(&node, handle, type));                                                                               \
    const CUgraphNodeParams *p = &node->u.node->params;                                                                \
    *out = expression;                                                                                                 \
    return leave(CUDA_SUCCESS);                                                                                        \
  }

CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v2 *out) {
  ENTER(cuGraphKernelNodeGetParams_v2);
  object *node;
  TRY(find_node(&node, handle, CU_GRAPH_NODE_TYPE_KERNEL));
  memcpy(out, &node->u.node->params.kernel, sizeof *out); /* the same fields */
  return leave(CUDA_SUCCESS);
}
GETTER(cuGraphMemcpyNodeGetParams, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, p->memcpy.copyParams)
GETTER(cuGraphMemsetNodeGetParams, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS,
       ((CUDA_MEMSET_NODE_PARAMS){p->memset.dst, p->memset.pitch, p->memset.value, p->memset.elementSize,
                                  p->memset.width, p->memset.height}))
GETTER(cuGraphHostNodeGetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS,
       ((CUDA_HOST_NODE_PARAMS){p->host.fn, p->host.userData}))
GETTER(cuGraphChildGraphNodeGetGraph, CU_GRAPH_NODE_TYPE_GRAPH, CUgraph, (p ? node->u.node->children[0] : NULL))
GETTER(cuGraphEventRecordNodeGetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, CUevent, p->eventRecord.event)
GETTER(cuGraphEventWaitNodeGetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CUevent, p->eventWait.event)
GETTER(cuGraphMemAllocNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS,
       ((CUDA_MEM_ALLOC_NODE_PARAMS){
           .poolProps = p->alloc.poolProps, .bytesize = p->alloc.bytesize, .dptr = p->alloc.dptr}))
GETTER(cuGraphMemFreeNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_FREE, CUdeviceptr, p->free.dptr)

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID id, CUkernelNodeAttrValue *out) {
  ENTER(cuGraphKernelNodeGetAttribute);
  object *node;
  TRY(find_node(&node, handle, CU_GRAPH_NODE_TYPE_KERNEL));
  if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
    return leave(CUDA_ERROR_INVALID_VALUE);
  *out = node->u.node->attributes[id & 15];
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                               const CUkernelNodeAttrValue *value) {
  ENTER(cuGraphKernelNodeSetAttribute);
  object *node;
  TRY(find_node(&node, handle, CU_GRAPH_NODE_TYPE_KERNEL));
  if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
    return leave(CUDA_ERROR_INVALID_VALUE);
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && value->clusterDim.x &&
      node->u.node->params.kernel.gridDimX % value->clusterDim.x)
    return leave(CUDA_ERROR_INVALID_CLUSTER_SIZE);
  node->u.node->attributes[id & 15] = *value;
  return leave(CUDA_SUCCESS);
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* Tells as many as there is room for, or how many there are. */
static CUresult tell(CUgraphNode *out, size_t *count, object *const *nodes, size_t total) {
  if (out)
    for (size_t i = 0; i < *count && i < total; i++)
      out[i] = (CUgraphNode)nodes[i];
  if (!out || total < *count)
    *count = total;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count) {
  ENTER(cuGraphGetNodes);
  object *graph;
  TRY(find_object(&graph, FAKE_GRAPH, handle));
  return leave(tell(nodes, count, graph->u.graph->nodes, graph->u.graph->count));
}

static CUresult get_edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count) {
  object *graph;
  CUresult result = find_object(&graph, FAKE_GRAPH, handle);
  if (result != CUDA_SUCCESS)
    return result;
  size_t total = 0;
  for (size_t i = 0; i < graph->u.graph->count; i++) {
    const struct fake_node *n = graph->u.graph->nodes[i]->u.node;
    for (size_t k = 0; k < n->before_count; k++, total++)
      if (from && total < *count) {
        from[total] = (CUgraphNode)n->before[k];
        to[total] = (CUgraphNode)graph->u.graph->nodes[i];
        if (edges)
          edges[total] = n->edges[k];
      }
  }
  *count = total;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges,
                                    size_t *count) {
  ENTER(cuGraphGetEdges_v2);
  return leave(get_edges(graph, from, to, edges, count));
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  ENTER(cuGraphGetEdges);
  return leave(get_edges(graph, from, to, NULL, count));
}

static CUresult get_before(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count) {
  object *node;
  CUresult result = find_object(&node, FAKE_NODE, handle);
  if (result != CUDA_SUCCESS)
    return result;
  for (size_t i = 0; edges && nodes && i < *count && i < node->u.node->before_count; i++)
    edges[i] = node->u.node->edges[i];
  return tell(nodes, count, node->u.node->before, node->u.node->before_count);
}

CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
                                               size_t *count) {
  ENTER(cuGraphNodeGetDependencies_v2);
  return leave(get_before(node, nodes, edges, count));
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  ENTER(cuGraphNodeGetDependencies);
  return leave(get_before(node, nodes, NULL, count));
}

static bool waits_for(object *node, object *from) {
  for (size_t i = 0; i < node->u.node->before_count; i++)
    if (node->u.node->before[i] == from)
      return true;
  return false;
}

static CUresult get_behind(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count) {
  object *node;
  CUresult result = find_object(&node, FAKE_NODE, handle);
  if (result != CUDA_SUCCESS)
    return result;
  if (edges && nodes)
    memset(edges, 0, *count * sizeof *edges);
  const struct fake_graph *g = node->u.node->graph->u.graph;
  size_t total = 0;
  for (size_t i = 0; i < g->count; i++)
    if (waits_for(g->nodes[i], node)) {
      if (nodes && total < *count)
        nodes[total] = (CUgraphNode)g->nodes[i];
      total++;
    }
  *count = total;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
                                                 size_t *count) {
  ENTER(cuGraphNodeGetDependentNodes_v2);
  return leave(get_behind(node, nodes, edges, count));
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  ENTER(cuGraphNodeGetDependentNodes);
  return leave(get_behind(node, nodes, NULL, count));
}

/* Both ends of an edge, which there must be, or must not. */
static CUresult check_edge(object *graph, const CUgraphNode *from, const CUgraphNode *to, bool there) {
  CUresult result = check_before(graph, from, 1);
  if (result == CUDA_SUCCESS)
    result = check_before(graph, to, 1);
  if (result == CUDA_SUCCESS && waits_for((object *)*to, (object *)*from) != there)
    result = CUDA_ERROR_INVALID_VALUE;
  return result;
}

/* Those before one that is refused are there all the same. */
static CUresult add_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges,
                          size_t count) {
  object *graph;
  CUresult result = find_object(&graph, FAKE_GRAPH, handle);
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
    result = check_edge(graph, &from[i], &to[i], false);
    if (result != CUDA_SUCCESS)
      break;
    struct fake_node *n = ((object *)to[i])->u.node;
    n->before = realloc(n->before, (n->before_count + 1) * sizeof *n->before);
    n->edges = realloc(n->edges, (n->before_count + 1) * sizeof *n->edges);
    n->edges[n->before_count] = edges ? edges[i] : (CUgraphEdgeData){0};
    n->before[n->before_count++] = (object *)from[i];
  }
  return result;
}

CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                           const CUgraphEdgeData *edges, size_t count) {
  ENTER(cuGraphAddDependencies_v2);
  return leave(add_edges(graph, from, to, edges, count));
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  ENTER(cuGraphAddDependencies);
  return leave(add_edges(graph, from, to, NULL, count));
}

static bool is_edge(object *node, object *from, const CUgraphEdgeData *edge) {
  static const CUgraphEdgeData plain;
  const struct fake_node *n = node->u.node;
  for (size_t i = 0; i < n->before_count; i++)
    if (n->before[i] == from)
      return memcmp(&n->edges[i], edge ? edge : &plain, sizeof *edge) == 0;
  return false;
}

static CUresult remove_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *edges, size_t count) {
  object *graph;
  CUresult result = find_object(&graph, FAKE_GRAPH, handle);
  if (result == CUDA_SUCCESS && graph->u.graph->has_memory)
    result = CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
    result = check_edge(graph, &from[i], &to[i], true);
    if (result == CUDA_SUCCESS && !is_edge((object *)to[i], (object *)from[i], edges ? &edges[i] : NULL))
      result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
      cut((object *)to[i], (object *)from[i]);
  }
  return result;
}

CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                              const CUgraphEdgeData *edges, size_t count) {
  ENTER(cuGraphRemoveDependencies_v2);
  return leave(remove_edges(graph, from, to, edges, count));
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                           size_t count) {
  ENTER(cuGraphRemoveDependencies);
  return leave(remove_edges(graph, from, to, NULL, count));
}

object **in_order(object *graph) {
  const struct fake_graph *g = graph->u.graph;
  object **order = calloc(g->count + 1, sizeof *order);
  size_t done = 0;
  for (bool more = true; more && done < g->count;) {
    more = false;
    for (size_t i = 0; i < g->count; i++) {
      bool there = false, ready = true;
      for (size_t k = 0; k < done; k++)
        there |= order[k] == g->nodes[i];
      for (size_t b = 0; b < g->nodes[i]->u.node->before_count && ready; b++) {
        ready = false;
        for (size_t k = 0; k < done; k++)
          ready |= order[k] == g->nodes[i]->u.node->before[b];
      }
      if (!there && ready) {
        order[done++] = g->nodes[i];
        more = true;
      }
    }
  }
  if (done == g->count)
    return order;
  free(order);
  return NULL;
}
