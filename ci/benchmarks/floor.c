/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: for each row of rows.py, the time that its calls of the driver take in plain C, without Python.
 *
 * usage: floor CODE [ROW...]: prints a line for each row: its name, and the nanoseconds of each measurement
 * usage: floor --first CODE: does the work of first_result.py once
 *
 * The program loads libcuda.so.1, but no CUDA library is needed to link it: see floor.py.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static CUcontext context;
static CUstream stream;
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

static char **chosen; /* the names of the rows to measure, ending with NULL; NULL for all rows */

static bool wanted(const char *name) {
  for (char **each = chosen; each != NULL && *each != NULL; each++)
    if (strcmp(*each, name) == 0)
      return true;
  return chosen == NULL;
}

static void report(const char *name, const double *times, size_t count) {
  printf("%s", name);
  for (size_t i = 0; i < count; i++)
    printf("\t%.1f", times[i]);
  printf("\n");
}

/*
 * Measures a row as worker.py does: a short warm-up, then `repeat` measurements without anything between them. `per` is
 * the number of operations in a statement.
 */
#define ROW_PER(per, name, number, repeat, statement)                                                                  \
  do {                                                                                                                 \
    if (!wanted(name))                                                                                                 \
      break;                                                                                                           \
    double times[repeat];                                                                                              \
    for (int r = -1; r < (repeat); r++) {                                                                              \
      int n = r < 0 ? (number) / 10 + 1 : (number);                                                                    \
      double start = now();                                                                                            \
      for (int i = 0; i < n; i++) {                                                                                    \
        statement;                                                                                                     \
      }                                                                                                                \
      if (r >= 0)                                                                                                      \
        times[r] = (now() - start) / n / (per);                                                                        \
      CHECK(cuCtxSynchronize());                                                                                       \
    }                                                                                                                  \
    report(name, times, repeat);                                                                                       \
  } while (0)
#define ROW(name, number, repeat, statement) ROW_PER(1, name, number, repeat, statement)

static CUlaunchConfig one_block(CUstream on) {
  CUlaunchConfig config;
  memset(&config, 0, sizeof config);
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = on;
  return config;
}

static void launches(CUlibrary library, CUdeviceptr pointer) {
  static CUdeviceptr pointers[257];
  static void *many[257];
  for (int i = 0; i < 257; i++) {
    pointers[i] = pointer;
    many[i] = &pointers[i];
  }
  float f32 = 1.0f;
  int i32 = 2;
  double f64 = 3.0;
  unsigned long long u64 = 7;
  void *mixed[] = {&pointer, &f32, &i32, &f64, &u64};

  const struct {
    const char *row, *kernel;
    void **arguments;
  } table[] = {
      {"launch, 0 arguments", "k0", NULL},  {"launch, 1 pointer", "k1", many},      {"launch, 5 mixed", "k5", mixed},
      {"launch, 17 pointers", "k17", many}, {"launch, 257 pointers", "k257", many}, {"launch, 2 ints", "k2", many},
      {"launch, 8 ints", "k8", many},
  };
  CUlaunchConfig config = one_block(stream);
  for (size_t t = 0; t < sizeof table / sizeof table[0]; t++) {
    CUkernel kernel;
    CHECK(cuLibraryGetKernel(&kernel, library, table[t].kernel));
    ROW(table[t].row, 500, 15, CHECK(cuLaunchKernelEx(&config, (CUfunction)kernel, table[t].arguments, NULL)));
  }
}

enum { MAX_THREADS = 16, LAUNCHES = 20000 }; /* the same numbers as in rows.py */

typedef struct worker {
  CUstream stream;
  CUkernel kernel;
  CUdeviceptr pointer;
  int count;
} worker;

static void *launch_many(void *data) {
  worker *w = data;
  void *arguments[] = {&w->pointer};
  CUlaunchConfig config = one_block(w->stream);
  CHECK(cuCtxSetCurrent(context));
  for (int i = 0; i < w->count; i++)
    CHECK(cuLaunchKernelEx(&config, (CUfunction)w->kernel, arguments, NULL));
  return NULL;
}

static void launch_from_threads(worker *workers, int count) {
  pthread_t threads[MAX_THREADS];
  for (int i = 0; i < count; i++) {
    workers[i].count = LAUNCHES / count;
    if (pthread_create(&threads[i], NULL, launch_many, &workers[i])) {
      perror("pthread_create");
      exit(1);
    }
  }
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
}

static void threads(CUlibrary library, CUdeviceptr pointer) {
  worker workers[MAX_THREADS];
  CUkernel kernel;
  CHECK(cuLibraryGetKernel(&kernel, library, "k1"));
  for (int i = 0; i < MAX_THREADS; i++) {
    workers[i] = (worker){NULL, kernel, pointer, 0};
    CHECK(cuStreamCreateWithPriority(&workers[i].stream, CU_STREAM_NON_BLOCKING, 0));
  }
  for (int count = 1; count <= MAX_THREADS; count *= 2) {
    char name[64];
    snprintf(name, sizeof name, "launch, %d threads at once", count);
    ROW_PER(LAUNCHES, name, 1, 5, launch_from_threads(workers, count));
  }
}

static void streams_and_events(void) {
  CUstream s;
  CUevent event, early, late, e;
  float ms;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&early, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&late, CU_EVENT_DEFAULT));
  CHECK(cuEventRecord(early, stream));
  CHECK(cuEventRecord(event, stream));
  CHECK(cuEventRecord(late, stream));
  CHECK(cuStreamSynchronize(stream));

  ROW("device.set_current", 20000, 7, CHECK(cuCtxSetCurrent(context)));
  ROW("stream create and close", 500, 7, {
    CHECK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuStreamDestroy(s));
  });
  ROW("stream.sync, idle", 2000, 7, CHECK(cuStreamSynchronize(stream)));
  ROW("event create and close", 5000, 7, {
    CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventDestroy(e));
  });
  ROW("stream.record(event)", 2000, 7, CHECK(cuEventRecord(event, stream)));
  ROW("stream.wait(event)", 2000, 7, CHECK(cuStreamWaitEvent(stream, event, 0)));
  ROW("event.is_done", 5000, 7, CHECK(cuEventQuery(event)));
  ROW("event.sync, done", 5000, 7, CHECK(cuEventSynchronize(event)));
  ROW("event - event", 5000, 7, CHECK(cuEventElapsedTime(&ms, early, late)));
}

static void memory(CUdeviceptr buffer) {
  CUdeviceptr other, p;
  CHECK(cuMemAllocAsync(&other, 4096, stream));
  ROW("buffer allocate and close", 2000, 7, {
    CHECK(cuMemAllocAsync(&p, 1024, stream));
    CHECK(cuMemFreeAsync(p, stream));
  });
  ROW("buffer.copy_to, device", 500, 15, CHECK(cuMemcpyAsync(other, buffer, 4096, stream)));
  ROW("buffer.fill", 500, 15, CHECK(cuMemsetD8Async(buffer, 0, 4096, stream)));
}

static void objects(void) {
  CUlibrary library;
  CUkernel kernel;
  ROW("object load and get_kernel", 50, 5, {
    CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "k0"));
    CHECK(cuLibraryUnload(library));
  });
}

/* ---- graphs: their Python code is in graphs.py ---- */

enum { NODES = 1000, LARGE = 100000 }; /* the same numbers as in rows.py */

static CUgraphNode nodes[NODES + 1], ends[NODES];

static void nothing(void *data) { (void)data; }

static CUgraph empty_graph(void) {
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
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
      CHECK(cuUserObjectCreate(&object, nodes, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
      CHECK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    }
    CHECK(cuGraphAddNode(&nodes[i], graph, has_previous ? &nodes[i - 1] : NULL, NULL, (size_t)has_previous, params));
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
    CHECK(cuGraphAddNode(&chain[i], graph, i > 0 ? &chain[i - 1] : NULL, NULL, (size_t)(i > 0), params));
  }
  params->kernel.kernelParams = before;
  return graph;
}

static CUgraph capture(CUkernel kernel, void **arguments, int count) {
  CUgraph graph;
  CUlaunchConfig config = one_block(stream);
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < count; i++)
    CHECK(cuLaunchKernelEx(&config, (CUfunction)kernel, arguments, NULL));
  CHECK(cuStreamEndCapture(stream, &graph));
  return graph;
}

static void adding(CUgraphNodeParams *kernel, CUdeviceptr pointer) {
  CUgraphNodeParams memset_params = {.type = CU_GRAPH_NODE_TYPE_MEMSET}, empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
  memset_params.memset =
      (CUDA_MEMSET_NODE_PARAMS_v2){.dst = pointer, .elementSize = 1, .width = 16, .height = 1, .ctx = context};

  const struct {
    const char *row;
    CUgraphNodeParams *params;
    int in_a_chain, own;
  } table[] = {
      {"add kernel node, pointer", kernel, 1, 1},
      {"add memset node", &memset_params, 0, 1},
      {"add empty node", &empty, 1, 0},
  };
  for (size_t t = 0; t < sizeof table / sizeof table[0]; t++)
    ROW_PER(NODES, table[t].row, 3, 5,
            { CHECK(cuGraphDestroy(build(table[t].params, table[t].in_a_chain, table[t].own))); });
}

static void listing(CUgraphNodeParams *kernel) {
  CUgraph graph = build(kernel, 1, 0);
  CUgraphNodeType type;
  size_t count;
  ROW_PER(NODES, "definition.nodes()", 10, 5, {
    count = NODES;
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++)
      CHECK(cuGraphNodeGetType(nodes[i], &type));
  });
  ROW_PER(NODES, "definition.edges()", 10, 5, {
    count = NODES;
    CHECK(cuGraphGetEdges(graph, nodes, ends, NULL, &count));
  });
}

static void running(CUkernel kernel, void **arguments) {
  CUgraph graph;
  CUgraphExec exec;
  ROW_PER(NODES, "capture 1000 launches", 3, 5, CHECK(cuGraphDestroy(capture(kernel, arguments, NODES))));
  graph = capture(kernel, arguments, NODES);
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphUpload(exec, stream));
  ROW("graph.launch, 1000 nodes", 20, 5, CHECK(cuGraphLaunch(exec, stream)));

  graph = capture(kernel, arguments, 1);
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphUpload(exec, stream));
  ROW("graph.launch, 1 node", 200, 15, CHECK(cuGraphLaunch(exec, stream)));
}

static void graphs(CUlibrary library, CUdeviceptr pointer) {
  CUkernel kernel;
  void *arguments[] = {&pointer};
  CHECK(cuLibraryGetKernel(&kernel, library, "k1"));
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  params.kernel.kern = kernel;
  params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
  params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
  params.kernel.kernelParams = arguments;
  adding(&params, pointer);
  listing(&params);
  running(kernel, arguments);
  ROW_PER(LARGE, "add 100,000 kernel nodes, in columns", 1, 5, CHECK(cuGraphDestroy(build_large(&params))));
}

static void first_result(void) {
  CUlibrary library;
  CUkernel kernel;
  CUdeviceptr result;
  float *host;
  CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
  CHECK(cuLibraryGetKernel(&kernel, library, "tiny"));
  CHECK(cuMemAllocAsync(&result, sizeof *host, stream));
  CHECK(cuMemHostAlloc((void **)&host, sizeof *host, CU_MEMHOSTALLOC_PORTABLE));
  void *arguments[] = {&result};
  CUlaunchConfig config = one_block(stream);
  CHECK(cuLaunchKernelEx(&config, (CUfunction)kernel, arguments, NULL));
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
  if (argc > 2 && !first)
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
  if (first) {
    first_result();
    return 0;
  }
  CUlibrary library;
  CUdeviceptr buffer;
  CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
  CHECK(cuMemAllocAsync(&buffer, 4096, stream));
  CHECK(cuStreamSynchronize(stream));

  launches(library, buffer);
  streams_and_events();
  memory(buffer);
  objects();
  threads(library, buffer);
  graphs(library, buffer);
  return 0;
}
