/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the rows about graphs in plain C. Their Python code is in graphs.py. */
#include "floor.h"

enum { NODES = 1000, BIG = 100, LARGE = 100000 }; /* the same numbers as in rows.py */

static CUgraphNode nodes[NODES + 1], ends[NODES];

static void nothing(void *data) { (void)data; }

static CUgraph empty_graph(void) {
  CUgraph graph;
  CHECK(cu.cuGraphCreate(&graph, 0));
  return graph;
}

/*
 * Builds a graph of nodes with the same parameters: a chain, or independent nodes. If `own` is true, the graph retains
 * a user object for each node.
 */
static CUgraph build(CUgraphNodeParams *params, int in_a_chain, int own) {
  CUgraph graph = empty_graph();
  for (int i = 0; i < NODES; i++) {
    int has_previous = in_a_chain && i > 0;
    if (own) {
      CUuserObject object;
      CHECK(cu.cuUserObjectCreate(&object, nodes, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
      CHECK(cu.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    }
    CHECK(cu.cuGraphAddNode(&nodes[i], graph, has_previous ? &nodes[i - 1] : NULL, NULL, (size_t)has_previous, params));
  }
  return graph;
}

/* Builds a chain of kernels, each with its own argument. */
static CUgraph build_large(CUgraphNodeParams *params) {
  static CUgraphNode chain[LARGE];
  static CUdeviceptr values[LARGE];
  void *arguments[1], **before = params->kernel.kernelParams;
  CUgraph graph = empty_graph();
  params->kernel.kernelParams = arguments;
  for (int i = 0; i < LARGE; i++) {
    values[i] = *(CUdeviceptr *)before[0] + (CUdeviceptr)(i % 1024 * 4);
    arguments[0] = &values[i];
    CHECK(cu.cuGraphAddNode(&chain[i], graph, i > 0 ? &chain[i - 1] : NULL, NULL, (size_t)(i > 0), params));
  }
  params->kernel.kernelParams = before;
  return graph;
}

static void large(CUgraphNodeParams *params) {
  static const char copying[] = "copy of 100,000 kernel nodes", updating[] = "graph.update, 100,000 nodes";
  CUgraph graph, copy;
  CUgraphExec exec;
  CUgraphExecUpdateResultInfo info;
  ROW_PER(LARGE, "add 100,000 kernel nodes, in columns", 1, 5, CHECK(cu.cuGraphDestroy(build_large(params))));
  if (!wanted(copying) && !wanted(updating))
    return;
  graph = build_large(params);
  ROW_PER(LARGE, copying, 1, 5, {
    CHECK(cu.cuGraphClone(&copy, graph));
    CHECK(cu.cuGraphDestroy(copy));
  });
  if (wanted(updating)) {
    CHECK(cu.cuGraphInstantiate(&exec, graph, 0));
    ROW_PER(LARGE, updating, 1, 5, CHECK(cu.cuGraphExecUpdate(exec, graph, &info)));
    CHECK(cu.cuGraphExecDestroy(exec));
  }
  CHECK(cu.cuGraphDestroy(graph));
}

static CUgraph capture(CUkernel kernel, void **arguments, int count) {
  CUgraph graph;
  CUlaunchConfig config = one_block(stream);
  CHECK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < count; i++)
    CHECK(cu.cuLaunchKernelEx(&config, (CUfunction)kernel, arguments, NULL));
  CHECK(cu.cuStreamEndCapture(stream, &graph));
  return graph;
}

static void adding(CUgraphNodeParams *kernel, CUcontext context, CUdeviceptr pointer) {
  CUgraphNodeParams memset_params = {.type = CU_GRAPH_NODE_TYPE_MEMSET},
                    memcpy_params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY}, empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY},
                    host = {.type = CU_GRAPH_NODE_TYPE_HOST}, record = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};
  memset_params.memset.dst = pointer;
  memset_params.memset.elementSize = 1;
  memset_params.memset.width = 16;
  memset_params.memset.height = 1;
  memset_params.memset.ctx = context;
  CUDA_MEMCPY3D *copy = &memcpy_params.memcpy.copyParams;
  memcpy_params.memcpy.copyCtx = context;
  copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy->srcDevice = pointer;
  copy->dstDevice = pointer + 2048;
  copy->WidthInBytes = 16;
  copy->Height = copy->Depth = 1;
  host.host.fn = nothing;
  CHECK(cu.cuEventCreate(&record.eventRecord.event, CU_EVENT_DISABLE_TIMING));

  const struct {
    const char *row;
    CUgraphNodeParams *params;
    int in_a_chain, own;
  } table[] = {
      {"add kernel node, pointer", kernel, 1, 1},
      {"add memset node", &memset_params, 0, 1},
      {"add memcpy node, Buffers", &memcpy_params, 1, 1},
      {"add empty node", &empty, 1, 0},
      {"add callback node", &host, 0, 1},
      {"add event record node", &record, 1, 1},
  };
  for (size_t t = 0; t < sizeof table / sizeof table[0]; t++)
    ROW_PER(NODES, table[t].row, 3, 5,
            { CHECK(cu.cuGraphDestroy(build(table[t].params, table[t].in_a_chain, table[t].own))); });
  CHECK(cu.cuEventDestroy(record.eventRecord.event));
}

static void listing(CUgraphNodeParams *kernel) {
  CUgraph graph = build(kernel, 1, 0);
  CUgraphNodeType type;
  size_t count;
  ROW_PER(NODES, "definition.nodes()", 10, 5, {
    count = NODES;
    CHECK(cu.cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++)
      CHECK(cu.cuGraphNodeGetType(nodes[i], &type));
  });
  ROW_PER(NODES, "definition.edges()", 10, 5, {
    count = NODES;
    CHECK(cu.cuGraphGetEdges(graph, nodes, ends, NULL, &count));
  });
  CUgraphNode join;
  CUgraphNodeParams empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
  CHECK(cu.cuGraphDestroy(graph));
  graph = build(kernel, 0, 0);
  CHECK(cu.cuGraphAddNode(&join, graph, nodes, NULL, BIG, &empty));
  ROW_PER(BIG, "list(node.pred)", 100, 5, {
    count = BIG;
    CHECK(cu.cuGraphNodeGetDependencies(join, ends, NULL, &count));
  });
  CHECK(cu.cuGraphDestroy(graph));
}

static void running(CUkernel kernel, void **arguments, CUgraphNodeParams *params) {
  CUgraph graph, other;
  CUgraphExec exec;
  CUgraphExecUpdateResultInfo info;
  ROW_PER(NODES, "capture 1000 launches", 3, 5, CHECK(cu.cuGraphDestroy(capture(kernel, arguments, NODES))));
  graph = capture(kernel, arguments, NODES);
  other = capture(kernel, arguments, NODES);
  ROW_PER(NODES, "complete 1000 captured launches", 3, 5, {
    CHECK(cu.cuGraphInstantiate(&exec, graph, 0));
    CHECK(cu.cuGraphExecDestroy(exec));
  });
  CHECK(cu.cuGraphInstantiate(&exec, graph, 0));
  ROW_PER(NODES, "graph.update, 1000 nodes", 5, 5, CHECK(cu.cuGraphExecUpdate(exec, other, &info)));
  CHECK(cu.cuGraphUpload(exec, stream));
  ROW("graph.launch, 1000 nodes", 20, 5, CHECK(cu.cuGraphLaunch(exec, stream)));
  CHECK(cu.cuGraphExecDestroy(exec));
  CHECK(cu.cuGraphDestroy(graph));
  CHECK(cu.cuGraphDestroy(other));

  graph = capture(kernel, arguments, 1);
  CHECK(cu.cuGraphInstantiate(&exec, graph, 0));
  CHECK(cu.cuGraphUpload(exec, stream));
  ROW("graph.launch, 1 node", 200, 15, CHECK(cu.cuGraphLaunch(exec, stream)));
  CHECK(cu.cuGraphExecDestroy(exec));
  CHECK(cu.cuGraphDestroy(graph));

  graph = build(params, 1, 0);
  ROW_PER(NODES, "definition.instantiate", 3, 5, {
    CHECK(cu.cuGraphInstantiate(&exec, graph, 0));
    CHECK(cu.cuGraphExecDestroy(exec));
  });
  CHECK(cu.cuGraphInstantiate(&exec, graph, 0));
  ROW("graph[node].update", 500, 7, CHECK(cu.cuGraphExecNodeSetParams(exec, nodes[0], params)));
  CHECK(cu.cuGraphExecDestroy(exec));
  CHECK(cu.cuGraphDestroy(graph));
}

void graphs(CUcontext context, CUlibrary library, CUdeviceptr pointer) {
  CUkernel kernel;
  void *arguments[] = {&pointer};
  CHECK(cu.cuLibraryGetKernel(&kernel, library, "k1"));
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  params.kernel.kern = kernel;
  params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
  params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
  params.kernel.kernelParams = arguments;
  adding(&params, context, pointer);
  listing(&params);
  running(kernel, arguments, &params);
  large(&params);
}
