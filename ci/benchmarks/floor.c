/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: for each row of rows.py, the time that its calls of the driver take in plain C, without Python. rows.py
 * has the calls of each row; floor.py writes them to rows.inc.
 *
 * usage: floor CODE [ROW...]: prints a line for each row: its name, and the nanoseconds of each measurement
 * usage: floor --first CODE: does the work of first_result.py once
 *
 * The program loads libcuda.so.1, but needs no driver to be built.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char image[1 << 20]; /* the compiled kernels; PTX ends with a NUL */

static void check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS)
    return;
  const char *name = "unknown error";
  cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\n", call, name);
  exit(1);
}

#define CHECK(call) check(call, #call)

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static char **chosen; /* the names of the rows to measure, ending with NULL */

static bool wanted(const char *name) {
  for (char **each = chosen; *each != NULL; each++)
    if (strcmp(*each, name) == 0)
      return true;
  return *chosen == NULL;
}

/*
 * Measures a row as worker.py does: a short warm-up, then `repeat` measurements. `per` is the number of operations in a
 * statement.
 */
#define ROW(name, number, repeat, per, statement)                                                                      \
  do {                                                                                                                 \
    if (!wanted(name))                                                                                                 \
      break;                                                                                                           \
    printf("%s", name);                                                                                                \
    for (int r = -1; r < (repeat); r++) {                                                                              \
      int n = r < 0 ? (number) / 10 + 1 : (number);                                                                    \
      double start = now();                                                                                            \
      for (int i = 0; i < n; i++) {                                                                                    \
        statement;                                                                                                     \
      }                                                                                                                \
      double time = (now() - start) / n / (per);                                                                       \
      if (r >= 0)                                                                                                      \
        printf("\t%.1f", time);                                                                                        \
      CHECK(cuCtxSynchronize());                                                                                       \
    }                                                                                                                  \
    printf("\n");                                                                                                      \
  } while (0)

/* ---- what the rows use; graphs.py and worker.py have the same in Python ---- */

static CUcontext context;
static CUstream stream, made_stream;
static CUevent event, early, late, made_event;
static CUlibrary library, loaded;
static CUkernel k0, k1, k2, k5, k8, k17, k257, found;
static CUdeviceptr buffer, other, made;
static float milliseconds, f32 = 1.0f;
static int i32 = 2;
static double f64 = 3.0;
static unsigned long long u64 = 7;
static CUdeviceptr pointers[257];
static void *all_pointers[257], *mixed[] = {&buffer, &f32, &i32, &f64, &u64};
static CUgraphNode nodes[LARGE], ends[NODES];
static CUgraphNodeParams kernel_node = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
static CUgraphNodeParams memset_node = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
static CUgraphNodeParams empty_node = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
static CUgraph chain;
static CUgraphExec one_node, many;

static CUresult load(void) { return cuLibraryLoadData(&loaded, image, NULL, NULL, 0, NULL, NULL, 0); }

static CUresult launch_on(CUstream on, CUkernel kernel, void **arguments) {
  CUlaunchConfig config = {1, 1, 1, 1, 1, 1, .hStream = on};
  return cuLaunchKernelEx(&config, (CUfunction)kernel, arguments, NULL);
}

static CUresult launch(CUkernel kernel, void **arguments) { return launch_on(stream, kernel, arguments); }

static int launches; /* of each thread */
static CUstream streams[MAX_THREADS];

static void *launch_many(void *on) {
  CHECK(cuCtxSetCurrent(context));
  for (int i = 0; i < launches; i++)
    CHECK(launch_on(on, k1, all_pointers));
  return NULL;
}

static CUresult launch_from_threads(int count) {
  pthread_t threads[MAX_THREADS];
  launches = LAUNCHES / count;
  for (int i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, launch_many, streams[i])) {
      perror("pthread_create");
      exit(1);
    }
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  return CUDA_SUCCESS;
}

static void nothing(void *data) { (void)data; }

/*
 * Builds a graph of nodes with the same parameters: a chain, or independent nodes. If `own` is true, the graph retains
 * a user object for each node.
 */
static CUgraph build(CUgraphNodeParams *params, int count, bool in_a_chain, bool own) {
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
  for (int i = 0; i < count; i++) {
    bool has_previous = in_a_chain && i > 0;
    if (own) {
      CUuserObject object;
      CHECK(cuUserObjectCreate(&object, nodes, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
      CHECK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    }
    CHECK(cuGraphAddNode(&nodes[i], graph, has_previous ? &nodes[i - 1] : NULL, NULL, has_previous, params));
  }
  return graph;
}

static CUgraph capture(int count) {
  CUgraph graph;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < count; i++)
    CHECK(launch(k1, all_pointers));
  CHECK(cuStreamEndCapture(stream, &graph));
  return graph;
}

static CUresult list_nodes(void) {
  size_t count = NODES;
  CUgraphNodeType type;
  CHECK(cuGraphGetNodes(chain, nodes, &count));
  for (size_t i = 0; i < count; i++)
    CHECK(cuGraphNodeGetType(nodes[i], &type));
  return CUDA_SUCCESS;
}

static CUresult list_edges(void) {
  size_t count = NODES;
  return cuGraphGetEdges(chain, nodes, ends, NULL, &count);
}

static CUgraphExec runnable(int count) {
  CUgraphExec exec;
  CHECK(cuGraphInstantiate(&exec, capture(count), 0));
  CHECK(cuGraphUpload(exec, stream));
  return exec;
}

static void prepare(void) {
  const struct {
    CUkernel *kernel;
    const char *name;
  } kernels[] = {{&k0, "k0"}, {&k1, "k1"}, {&k2, "k2"}, {&k5, "k5"}, {&k8, "k8"}, {&k17, "k17"}, {&k257, "k257"}};
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    CHECK(cuLibraryGetKernel(kernels[i].kernel, library, kernels[i].name));
  CHECK(cuMemAllocAsync(&buffer, 4096, stream));
  CHECK(cuMemAllocAsync(&other, 4096, stream));
  for (int i = 0; i < 257; i++) {
    pointers[i] = buffer;
    all_pointers[i] = &pointers[i];
  }
  for (int i = 0; i < MAX_THREADS; i++)
    CHECK(cuStreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, 0));
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&early, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&late, CU_EVENT_DEFAULT));
  CHECK(cuEventRecord(early, stream));
  CHECK(cuEventRecord(event, stream));
  CHECK(cuEventRecord(late, stream));

  kernel_node.kernel.kern = k1;
  kernel_node.kernel.gridDimX = kernel_node.kernel.gridDimY = kernel_node.kernel.gridDimZ = 1;
  kernel_node.kernel.blockDimX = kernel_node.kernel.blockDimY = kernel_node.kernel.blockDimZ = 1;
  kernel_node.kernel.kernelParams = all_pointers;
  memset_node.memset =
      (CUDA_MEMSET_NODE_PARAMS_v2){.dst = buffer, .elementSize = 1, .width = 16, .height = 1, .ctx = context};
  chain = build(&kernel_node, NODES, true, false);
  one_node = runnable(1);
  many = runnable(NODES);
  CHECK(cuStreamSynchronize(stream));
}

static void first_result(void) {
  CUkernel kernel;
  CUdeviceptr result;
  float *host;
  CHECK(cuLibraryGetKernel(&kernel, library, "tiny"));
  CHECK(cuMemAllocAsync(&result, sizeof *host, stream));
  CHECK(cuMemHostAlloc((void **)&host, sizeof *host, CU_MEMHOSTALLOC_PORTABLE));
  void *arguments[] = {&result};
  CHECK(launch(kernel, arguments));
  CHECK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, result, sizeof *host, stream));
  CHECK(cuStreamSynchronize(stream));
  printf("%g\n", (double)*host);
}

int main(int argc, char **argv) {
  int first = argc == 3 && strcmp(argv[1], "--first") == 0;
  if (argc < 2) {
    fprintf(stderr, "usage: %s CODE [ROW...]\n       %s --first CODE\n", argv[0], argv[0]);
    return 2;
  }
  chosen = argv + 2;
  CUdevice device;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));

  FILE *file = fopen(argv[1 + first], "rb");
  if (!file || fread(image, 1, sizeof image - 1, file) == 0) {
    perror(argv[1 + first]);
    return 1;
  }
  CHECK(load());
  library = loaded;
  if (first) {
    first_result();
    return 0;
  }
  prepare();
#include "rows.inc"
  return 0;
}
