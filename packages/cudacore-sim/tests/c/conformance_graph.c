/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The behaviour of graphs that cudacore-handles relies on, tested on the driver that $CUDACORE_DRIVER names, as in
 * conformance.c.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdatomic.h>

#undef cuGraphAddNode
#undef cuGraphExecUpdate
#undef cuGraphKernelNodeGetParams
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies
#define FUNCTIONS(X)                                                                                                   \
  X(cuInit, 2000)                                                                                                      \
  X(cuDevicePrimaryCtxRetain, 7000)                                                                                    \
  X(cuDevicePrimaryCtxRelease, 11000)                                                                                  \
  X(cuCtxSetCurrent, 4000)                                                                                             \
  X(cuStreamCreateWithPriority, 5050)                                                                                  \
  X(cuStreamDestroy, 4000)                                                                                             \
  X(cuStreamSynchronize, 2000)                                                                                         \
  X(cuStreamBeginCapture, 10010)                                                                                       \
  X(cuStreamBeginCaptureToGraph, 12030)                                                                                \
  X(cuStreamEndCapture, 10000)                                                                                         \
  X(cuStreamGetCaptureInfo, 11030)                                                                                     \
  X(cuStreamUpdateCaptureDependencies, 11030)                                                                          \
  X(cuMemAlloc, 3020)                                                                                                  \
  X(cuMemFree, 3020)                                                                                                   \
  X(cuLibraryLoadData, 12000)                                                                                          \
  X(cuLibraryUnload, 12000)                                                                                            \
  X(cuLibraryGetKernel, 12000)                                                                                         \
  X(cuLaunchKernelEx, 11060)                                                                                           \
  X(cuUserObjectCreate, 11030)                                                                                         \
  X(cuUserObjectRelease, 11030)                                                                                        \
  X(cuGraphRetainUserObject, 11030)                                                                                    \
  X(cuGraphReleaseUserObject, 11030)                                                                                   \
  X(cuGraphCreate, 10000)                                                                                              \
  X(cuGraphDestroy, 10000)                                                                                             \
  X(cuGraphClone, 10000)                                                                                               \
  X(cuGraphConditionalHandleCreate, 12030)                                                                             \
  X(cuGraphAddNode, 12020)                                                                                             \
  X(cuGraphDestroyNode, 10000)                                                                                         \
  X(cuGraphNodeSetParams, 12020)                                                                                       \
  X(cuGraphNodeFindInClone, 10000)                                                                                     \
  X(cuGraphKernelNodeGetParams, 12000)                                                                                 \
  X(cuGraphKernelNodeGetAttribute, 11000)                                                                              \
  X(cuGraphKernelNodeSetAttribute, 11000)                                                                              \
  X(cuGraphChildGraphNodeGetGraph, 10000)                                                                              \
  X(cuGraphGetNodes, 10000)                                                                                            \
  X(cuGraphAddDependencies, 10000)                                                                                     \
  X(cuGraphRemoveDependencies, 10000)                                                                                  \
  X(cuGraphInstantiateWithParams, 12000)                                                                               \
  X(cuGraphExecDestroy, 10000)                                                                                         \
  X(cuGraphExecUpdate, 12000)                                                                                          \
  X(cuGraphExecNodeSetParams, 12020)                                                                                   \
  X(cuGraphNodeSetEnabled, 11060)                                                                                      \
  X(cuGraphLaunch, 10000)

static struct {
#define FIELD(name, version) PFN_##name##_v##version name;
  FUNCTIONS(FIELD)
#undef FIELD
} cu;

static void open(void) {
  void *entry = NULL;
  PFN_cuGetProcAddress_v12000 get_proc_address = check_open_driver();
  FUNCTIONS(CHECK_LOAD)
}

static CUcontext context;
static CUstream stream;
static CUlibrary library;
static CUkernel kernel;
static CUdeviceptr memory;

static void set_up(void) {
  ANSWERS(0, cuInit(0));
  ANSWERS(0, cuDevicePrimaryCtxRetain(&context, 0));
  ANSWERS(0, cuCtxSetCurrent(context));
  ANSWERS(0, cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  ANSWERS(0, cuLibraryLoadData(&library, check_ptx, NULL, NULL, 0, NULL, NULL, 0));
  ANSWERS(0, cuLibraryGetKernel(&kernel, library, "empty"));
  ANSWERS(0, cuMemAlloc(&memory, 256));
}

static void tear_down(void) {
  ANSWERS(0, cuMemFree(memory));
  ANSWERS(0, cuLibraryUnload(library));
  ANSWERS(0, cuStreamDestroy(stream));
  ANSWERS(0, cuDevicePrimaryCtxRelease(0));
}

static CUgraph new_graph(void) {
  CUgraph graph;
  ANSWERS(0, cuGraphCreate(&graph, 0));
  return graph;
}

static CUgraphNodeParams kernel_params(CUcontext in, unsigned grid) {
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  params.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.gridDimX = grid,
                                               .gridDimY = 1,
                                               .gridDimZ = 1,
                                               .blockDimX = 1,
                                               .blockDimY = 1,
                                               .blockDimZ = 1,
                                               .kern = kernel,
                                               .ctx = in};
  return params;
}

static CUgraphNode add(CUgraph graph, CUgraphNodeParams params, CUgraphNode before) {
  CUgraphNode node;
  ANSWERS(0, cuGraphAddNode(&node, graph, &before, before != NULL, &params));
  return node;
}

static CUgraphNode add_empty(CUgraph graph, CUgraphNode before) {
  return add(graph, (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EMPTY}, before);
}

/* Adding a node whose parameters name a context would need a current context. */
static void contexts_of_nodes(void) {
  CUgraph graph = new_graph();
  CUgraphNode node;
  CUgraphNodeParams params = kernel_params(context, 1);
  ANSWERS(0, cuCtxSetCurrent(NULL));
  ANSWERS(0, cuGraphAddNode(&node, graph, NULL, 0, &params));
  CUgraphNodeParams copy = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
  copy.memcpy.copyCtx = context;
  copy.memcpy.copyParams = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                           .srcDevice = memory,
                                           .srcPitch = 64,
                                           .srcHeight = 1,
                                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                           .dstDevice = memory + 64,
                                           .dstPitch = 64,
                                           .dstHeight = 1,
                                           .WidthInBytes = 64,
                                           .Height = 1,
                                           .Depth = 1};
  ANSWERS(0, cuGraphAddNode(&node, graph, NULL, 0, &copy));
  CUgraphNodeParams fill = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
  fill.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
      .dst = memory, .value = 1, .elementSize = 1, .width = 8, .height = 1, .ctx = context};
  ANSWERS(0, cuGraphAddNode(&node, graph, NULL, 0, &fill));
  ANSWERS(0, cuCtxSetCurrent(context));
  ANSWERS(0, cuGraphDestroy(graph));
}

/* If a call adds several edges and one is refused, the edges before it would not be added. */
static void edges(void) {
  CUgraph graph = new_graph(), other = new_graph();
  CUgraphNode a = add_empty(graph, NULL), b = add_empty(graph, a), c = add_empty(graph, b), node;
  CUgraphNode stranger = add_empty(other, NULL);
  CUgraphNodeParams empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
  CUgraphNode twice[] = {a, a};
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, graph, twice, 2, &empty));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, graph, &stranger, 1, &empty));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &b, 1)); /* the edge exists already */
  CUgraphNode from[] = {a, a}, to[] = {c, b};
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, from, to, 2));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &c, 1)); /* the first of these edges was added */
  ANSWERS(0, cuGraphRemoveDependencies(graph, &a, &c, 1));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &a, &c, 1));
  size_t count;
  ANSWERS(0, cuGraphGetNodes(graph, NULL, &count));
  CHECK_EQ(count, 3);
  ANSWERS(0, cuGraphDestroy(graph));
  ANSWERS(0, cuGraphDestroy(other));
}

/* A kernel node would accept a change after which its grid cannot be divided into clusters. */
static void clusters(void) {
  CUgraph graph = new_graph();
  CUgraphNodeParams params = kernel_params(NULL, 4);
  CUgraphNode node = add(graph, params, NULL);
  CUlaunchAttributeValue value = {0};
  value.clusterDim.x = 2, value.clusterDim.y = value.clusterDim.z = 1;
  ANSWERS(0, cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value));
  params = kernel_params(NULL, 9);
  ANSWERS(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuGraphNodeSetParams(node, &params));
  value.clusterDim.x = 3;
  ANSWERS(CUDA_ERROR_INVALID_CLUSTER_SIZE,
          cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value));
  value.clusterDim.x = 1;
  ANSWERS(0, cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value));
  ANSWERS(0, cuGraphNodeSetParams(node, &params));
  value.clusterDim.x = 3;
  ANSWERS(0, cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value));
  CUDA_KERNEL_NODE_PARAMS told;
  ANSWERS(0, cuGraphKernelNodeGetParams(node, &told));
  CHECK(told.kern == kernel && told.gridDimX == 9);
  ANSWERS(0, cuGraphDestroy(graph));
}

static atomic_int ended;
static void CUDA_CB count_end(void *data) {
  (void)data;
  atomic_fetch_add(&ended, 1);
}

static CUuserObject retained_by(CUgraph graph) {
  CUuserObject user;
  ANSWERS(0, cuUserObjectCreate(&user, NULL, count_end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  ANSWERS(0, cuGraphRetainUserObject(graph, user, 1, CU_GRAPH_USER_OBJECT_MOVE));
  return user;
}

static CUgraphExec instantiate(CUgraph graph) {
  CUgraphExec exec;
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
  ANSWERS(0, cuGraphInstantiateWithParams(&exec, graph, &params));
  CHECK_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
  return exec;
}

static void expect_ends(int expected) {
  for (int i = 0; i < 1000 && atomic_load(&ended) < expected; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  CHECK_EQ(atomic_load(&ended), expected);
}

/* A clone or an executable graph would not keep the user objects of its graph, or of child graphs, alive. */
static void user_objects(void) {
  CUgraph graph = new_graph(), child = new_graph(), clone, inner;
  CUuserObject user = retained_by(graph);
  retained_by(child);
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
  params.graph.graph = child;
  CUgraphNode node = add(graph, params, NULL);
  ANSWERS(0, cuGraphDestroy(child));
  ANSWERS(0, cuGraphChildGraphNodeGetGraph(node, &inner));
  retained_by(inner);
  ANSWERS(0, cuGraphClone(&clone, graph));
  CUgraphExec exec = instantiate(graph);
  ANSWERS(0, cuGraphReleaseUserObject(graph, user, 1));
  ANSWERS(0, cuGraphDestroy(graph));
  CHECK_EQ(atomic_load(&ended), 0);
  ANSWERS(0, cuGraphDestroy(clone));
  CHECK_EQ(atomic_load(&ended), 0);
  ANSWERS(0, cuGraphLaunch(exec, stream));
  ANSWERS(0, cuStreamSynchronize(stream));
  ANSWERS(0, cuGraphExecDestroy(exec));
  expect_ends(3);
}

/* A child graph and its user objects would be destroyed before the node that contains the graph, or outlive it. */
static void children(void) {
  CUgraph graph = new_graph(), child = new_graph(), inner, second;
  atomic_store(&ended, 0);
  retained_by(child);
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
  params.graph.graph = child;
  CUgraphNode node = add(graph, params, NULL), found, leaf = add_empty(child, NULL);
  ANSWERS(0, cuGraphChildGraphNodeGetGraph(node, &inner));
  CHECK(inner != child);
  ANSWERS(0, cuGraphNodeSetParams(node, &params));
  ANSWERS(0, cuGraphChildGraphNodeGetGraph(node, &second));
  ANSWERS(0, cuGraphNodeFindInClone(&found, leaf, second));
  ANSWERS(0, cuGraphDestroy(child));
  CHECK_EQ(atomic_load(&ended), 0);
  ANSWERS(0, cuGraphDestroyNode(node));
  expect_ends(1);
  ANSWERS(0, cuGraphDestroy(graph));
}

/* Adding a conditional node would not return the driver's array of its bodies, or a cycle could be instantiated. */
static void structures(void) {
  CUgraph graph = new_graph();
  CUgraphNode a = add_empty(graph, NULL), b = add_empty(graph, a), node;
  CUgraphConditionalHandle condition;
  CUgraph own[2] = {NULL, NULL};
  ANSWERS(0, cuGraphConditionalHandleCreate(&condition, graph, context, 0, 0));
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
  params.conditional = (CUDA_CONDITIONAL_NODE_PARAMS){
      .handle = condition, .type = CU_GRAPH_COND_TYPE_IF, .size = 1, .phGraph_out = NULL, .ctx = context};
  ANSWERS(0, cuGraphAddNode(&node, graph, NULL, 0, &params));
  CHECK(params.conditional.phGraph_out != NULL && params.conditional.phGraph_out != own);
  add_empty(params.conditional.phGraph_out[0], NULL);
  CUgraphExec exec = instantiate(graph);
  ANSWERS(0, cuGraphExecDestroy(exec));
  ANSWERS(0, cuGraphAddDependencies(graph, &b, &a, 1));
  CUDA_GRAPH_INSTANTIATE_PARAMS asked = {0};
  CHECK(cu.cuGraphInstantiateWithParams(&exec, graph, &asked) != 0 ||
        asked.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  ANSWERS(0, cuGraphDestroy(graph));
}

/* An executable graph could not be changed through the original's nodes, or updated from a graph of equal shape. */
static void updates(void) {
  CUgraph graph = new_graph(), same = new_graph(), unlike = new_graph();
  CUgraphNodeParams params = kernel_params(NULL, 1), wider = kernel_params(NULL, 2);
  CUgraphNode node = add(graph, params, NULL), stranger = add(same, wider, NULL);
  add_empty(unlike, NULL);
  CUgraphExec exec = instantiate(graph);
  ANSWERS(0, cuGraphExecNodeSetParams(exec, node, &wider));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphExecNodeSetParams(exec, stranger, &wider));
  ANSWERS(0, cuGraphNodeSetEnabled(exec, node, 0));
  CUgraphExecUpdateResultInfo info;
  atomic_store(&ended, 0);
  retained_by(same);
  ANSWERS(0, cuGraphExecUpdate(exec, same, &info));
  ANSWERS(0, cuGraphDestroy(same));
  CHECK_EQ(atomic_load(&ended), 0);
  ANSWERS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, unlike, &info));
  CHECK(info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS);
  ANSWERS(0, cuGraphExecUpdate(exec, graph, &info));
  expect_ends(1);
  ANSWERS(0, cuGraphExecDestroy(exec));
  ANSWERS(0, cuGraphDestroy(graph));
  ANSWERS(0, cuGraphDestroy(unlike));
}

/* Nodes or edges of a graph with memory nodes could be removed, or the graph could be copied. */
static void memory_nodes(void) {
  CUgraph graph = new_graph(), clone;
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
  params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.alloc.bytesize = 64;
  CUgraphNode node, empty = add_empty(graph, NULL);
  ANSWERS(0, cuGraphAddNode(&node, graph, &empty, 1, &params));
  CHECK(params.alloc.dptr != 0);
  CUgraphNodeParams end = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
  end.free.dptr = params.alloc.dptr;
  add(graph, end, node);
  ANSWERS(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(empty));
  ANSWERS(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&clone, graph));
  ANSWERS(0, cuGraphDestroy(graph));
}

static void *end_elsewhere(void *unused) {
  CUgraph graph;
  ANSWERS(0, cuCtxSetCurrent(context));
  ANSWERS(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(stream, &graph));
  return unused;
}

/* While a capture is in progress, its graph could not be queried, or could not retain user objects. */
static void captures(void) {
  CUgraph graph, ended_graph, into = new_graph();
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  const CUgraphNode *before;
  size_t count;
  CUlaunchConfig config = {
      .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .hStream = stream};
  atomic_store(&ended, 0);
  ANSWERS(0, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ANSWERS(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ANSWERS(0, cuStreamGetCaptureInfo(stream, &status, &id, &graph, &before, &count));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && graph != NULL && count == 0);
  retained_by(graph);
  ANSWERS(0, cuLaunchKernelEx(&config, (CUfunction)kernel, NULL, NULL));
  ANSWERS(0, cuStreamGetCaptureInfo(stream, &status, &id, &graph, &before, &count));
  CHECK_EQ(count, 1);
  CUgraphNode node = add_empty(graph, before[0]);
  ANSWERS(0, cuStreamUpdateCaptureDependencies(stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  ANSWERS(0, cuStreamGetCaptureInfo(stream, &status, &id, &graph, &before, &count));
  CHECK(count == 1 && before[0] == node);
  ANSWERS(0, cuStreamEndCapture(stream, &ended_graph));
  CHECK(ended_graph == graph);
  CUgraphExec exec = instantiate(graph);
  ANSWERS(0, cuGraphDestroy(graph));
  CHECK_EQ(atomic_load(&ended), 0);
  ANSWERS(0, cuGraphExecDestroy(exec));
  expect_ends(1);

  /* If another thread ends the capture, its call returns an error, but the capture ends nevertheless. */
  pthread_t thread;
  ANSWERS(0, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK_EQ(pthread_create(&thread, NULL, end_elsewhere, NULL), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  ANSWERS(0, cuStreamGetCaptureInfo(stream, &status, &id, &graph, &before, &count));
  CHECK_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);

  CUgraphNode first = add_empty(into, NULL);
  ANSWERS(0, cuStreamBeginCaptureToGraph(stream, into, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
  ANSWERS(0, cuStreamGetCaptureInfo(stream, &status, &id, &graph, &before, &count));
  CHECK(graph == into && count == 1 && before[0] == first);
  ANSWERS(0, cuStreamEndCapture(stream, &graph));
  CHECK(graph == into);
  ANSWERS(0, cuGraphDestroy(into));
}

int main(void) {
  open();
  CHECK_SECTION(set_up)
  CHECK_SECTION(contexts_of_nodes)
  CHECK_SECTION(edges)
  CHECK_SECTION(clusters)
  CHECK_SECTION(user_objects)
  CHECK_SECTION(children)
  CHECK_SECTION(structures)
  CHECK_SECTION(updates)
  CHECK_SECTION(memory_nodes)
  CHECK_SECTION(captures)
  CHECK_SECTION(tear_down)
  return 0;
}
