/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that does nothing, so that the instructions of a call are those of the code above the driver. Functions
 * succeed; those that make an object return a new handle. It remembers only the nodes and edges of graphs and which
 * stream is captured. A call that has no answer here fails, and its name is printed.
 *
 * instructions.py builds it as libcuda.so.1, and runs programs with it under callgrind. null_clock() is the clock of
 * such a program: it returns the number of instructions that have been executed so far.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define EXPORTED __attribute__((visibility("default")))
typedef uintptr_t word;

/*
 * ANSWER(cuCtxGetCurrent)(...) {...} answers a function; its parameters are those that it needs. With OLD, it answers
 * the version before CUDA 12.3.
 */
#define ANSWER(name) EXPORTED __attribute__((used)) CUresult answer_##name
#define OLD(name) ANSWER(old_##name)

/* ---- answers of several functions: RULES has their names ---- */

static CUresult nothing(void) { return CUDA_SUCCESS; }

static CUresult zero(int *out) { return *out = 0, CUDA_SUCCESS; }

static CUresult one(int *out) { return *out = 1, CUDA_SUCCESS; }

static CUresult handle(word *out) {
  static word last = 0x10000;
  return *out = last += 0x100, CUDA_SUCCESS;
}

static CUresult memory(word *out, size_t size) {
  static word end = 0x7f0000000000;
  *out = end;
  return end += (size + 511) / 512 * 512, CUDA_SUCCESS;
}

static CUresult name_of_result(CUresult result, const char **out) { return *out = "CUDA_ERROR", result = CUDA_SUCCESS; }

static CUresult context(word *out) { return *out = 0x1000, CUDA_SUCCESS; }

static CUresult id(word of, uint64_t *out) { return *out = 1 + 0 * of, CUDA_SUCCESS; }

static CUresult text(char *out, int size) { return snprintf(out, (size_t)size, "0000:00:00.0") <= 0; }

/* ---- devices, memory, kernels ---- */

ANSWER(cuDriverGetVersion)(int *out) { return *out = CUDA_VERSION / 1000 * 1000, CUDA_SUCCESS; }

ANSWER(cuDeviceGetUuid)(CUuuid *out) { return memset(out, 1, sizeof *out) == NULL; }

/* Limits are 1024; features exist. The compute capability is 9.0. */
ANSWER(cuDeviceGetAttribute)(int *out, CUdevice_attribute which) {
  *out = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
         : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
         : which < 100                                           ? 1024
                                                                 : 1;
  return CUDA_SUCCESS;
}

ANSWER(cuStreamGetCtx)(word stream, word *out) { return *out = 0x1000 + 0 * stream, CUDA_SUCCESS; }

ANSWER(cuCtxGetStreamPriorityRange)(int *least, int *greatest) { return *least = 0, *greatest = -5, CUDA_SUCCESS; }

ANSWER(cuMemGetInfo)(size_t *free, size_t *total) { return *free = *total = (size_t)1 << 36, CUDA_SUCCESS; }

ANSWER(cuMemHostAlloc)(void **out, size_t size) { return (*out = malloc(size)) == NULL; }

ANSWER(cuMemFreeHost)(void *memory) { return free(memory), CUDA_SUCCESS; }

ANSWER(cuMemPoolGetAttribute)(word pool, CUmemPool_attribute which, void *out) {
  if (which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
    return one(out);
  return *(uint64_t *)out = 0 * pool, CUDA_SUCCESS;
}

/* The host has no access. */
ANSWER(cuMemPoolGetAccess)(CUmemAccess_flags *out, word pool, const CUmemLocation *where) {
  *out = where->type == CU_MEM_LOCATION_TYPE_DEVICE && pool ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
  return CUDA_SUCCESS;
}

ANSWER(cuMemPoolExportToShareableHandle)(int *out) { return (*out = dup(STDERR_FILENO)) < 0; }

ANSWER(cuMemPoolExportPointer)(CUmemPoolPtrExportData *out) { return memset(out, 1, sizeof *out) == NULL; }

ANSWER(cuPointerGetAttribute)(void *out, CUpointer_attribute which) {
  if (which == CU_POINTER_ATTRIBUTE_CONTEXT)
    return context(out);
  if (which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    return *(unsigned *)out = CU_MEMORYTYPE_DEVICE, CUDA_SUCCESS;
  if (which == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
    return *(size_t *)out = 1 << 20, CUDA_SUCCESS;
  return zero(out);
}

ANSWER(cuPointerGetAttributes)(unsigned count, const CUpointer_attribute *which, void **out) {
  for (unsigned i = 0; i < count; i++)
    answer_cuPointerGetAttribute(out[i], which[i]);
  return CUDA_SUCCESS;
}

/* The handle of the kernel "k17" has its number of parameters. */
ANSWER(cuLibraryGetKernel)(word *out, word library, const char *name) {
  return *out = 0x20000 + (name[0] == 'k' && library ? strtoul(name + 1, NULL, 10) : 1) * 16, CUDA_SUCCESS;
}

/* All parameters have eight bytes; but "k5" has those of rows.py. */
ANSWER(cuKernelGetParamInfo)(word kernel, size_t index, size_t *offset, size_t *size) {
  static const size_t mixed[] = {0, 8, 12, 16, 24, 32};
  size_t count = (kernel - 0x20000) / 16;
  if (index >= count)
    return CUDA_ERROR_INVALID_VALUE;
  *offset = count == 5 ? mixed[index] : 8 * index;
  if (size)
    *size = count == 5 ? mixed[index + 1] - mixed[index] : 8;
  return CUDA_SUCCESS;
}

ANSWER(cuEventElapsedTime)(float *out) { return *out = 1.0f, CUDA_SUCCESS; }

/* ---- graphs ---- */

typedef struct node {
  struct node *next, **from;
  size_t count; /* of `from` */
  CUgraphNodeType type;
  CUdeviceptr memory;
} node;
typedef struct {
  node *first, **end;
  size_t edges;
} graph;

/* Handles have the same values in each run, because their hashes determine the length of a search. So nodes are never
 * freed. */
static node *new_node(void) {
  enum { ROOM = 1 << 30 };
  static node *next;
  if (next == NULL)
    next = mmap((void *)0x1000000000, ROOM, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (next == MAP_FAILED)
    abort();
  return next++;
}

ANSWER(cuGraphCreate)(graph **out) {
  graph *made = *out = calloc(1, sizeof *made);
  return made->end = &made->first, CUDA_SUCCESS;
}

ANSWER(cuGraphDestroy)(graph *of) {
  for (node *each = of->first; each; each = each->next)
    free(each->from);
  return free(of), CUDA_SUCCESS;
}

OLD(cuGraphAddDependencies)(graph *of, node **from, node **to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i]->from = realloc(to[i]->from, (to[i]->count + 1) * sizeof(node *));
    to[i]->from[to[i]->count++] = from[i];
  }
  return of->edges += count, CUDA_SUCCESS;
}

ANSWER(cuGraphAddDependencies)(graph *of, node **from, node **to, const void *data, size_t count) {
  return answer_old_cuGraphAddDependencies(of, from, to, count + 0 * (data != NULL));
}

OLD(cuGraphRemoveDependencies)(graph *of, node **from, node **to, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t k = to[i]->count; k-- > 0;)
      if (to[i]->from[k] == from[i])
        to[i]->from[k] = to[i]->from[--to[i]->count], of->edges--;
  return CUDA_SUCCESS;
}

ANSWER(cuGraphRemoveDependencies)(graph *of, node **from, node **to, const void *data, size_t count) {
  return answer_old_cuGraphRemoveDependencies(of, from, to, count + 0 * (data != NULL));
}

/* cuGraphAddKernelNode and others; their parameters are not read. */
static CUresult add_node(node **out, graph *to, node **from, size_t count) {
  node *made = *out = new_node();
  *to->end = made, to->end = &made->next;
  for (size_t i = 0; i < count; i++)
    answer_old_cuGraphAddDependencies(to, &from[i], &made, 1);
  return CUDA_SUCCESS;
}

ANSWER(cuGraphAddMemAllocNode)(node **out, graph *to, node **from, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params) {
  memory((word *)&params->dptr, params->bytesize);
  add_node(out, to, from, count);
  return (*out)->memory = params->dptr, CUDA_SUCCESS;
}

OLD(cuGraphAddNode)(node **out, graph *to, node **from, size_t count, CUgraphNodeParams *params) {
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    answer_cuGraphAddMemAllocNode(out, to, from, count, (CUDA_MEM_ALLOC_NODE_PARAMS *)&params->alloc);
  else
    add_node(out, to, from, count);
  return (*out)->type = params->type, CUDA_SUCCESS;
}

ANSWER(cuGraphAddNode)(node **out, graph *to, node **from, void *data, size_t count, CUgraphNodeParams *params) {
  return answer_old_cuGraphAddNode(out, to, from, count + 0 * (data != NULL), params);
}

ANSWER(cuGraphMemAllocNodeGetParams)(node *of, CUDA_MEM_ALLOC_NODE_PARAMS *out) {
  return *out = (CUDA_MEM_ALLOC_NODE_PARAMS){.dptr = of->memory}, CUDA_SUCCESS;
}

ANSWER(cuGraphNodeGetType)(node *of, CUgraphNodeType *out) { return *out = of->type, CUDA_SUCCESS; }

ANSWER(cuGraphGetNodes)(graph *of, node **out, size_t *count) {
  size_t found = 0;
  for (node *each = of->first; each; each = each->next, found++)
    if (out && found < *count)
      out[found] = each;
  return *count = found, CUDA_SUCCESS;
}

ANSWER(cuGraphGetEdges)(graph *of, node **from, node **to, CUgraphEdgeData *data, size_t *count) {
  size_t found = 0;
  for (node *each = of->first; from && each; each = each->next)
    for (size_t i = 0; i < each->count && found < *count; i++, found++)
      from[found] = each->from[i], to[found] = each;
  if (data)
    memset(data, 0, found * sizeof *data);
  return *count = from ? found : of->edges, CUDA_SUCCESS;
}

ANSWER(cuGraphNodeGetDependencies)(node *of, node **out, CUgraphEdgeData *data, size_t *count) {
  size_t found = out && *count < of->count ? *count : of->count;
  if (out)
    memcpy(out, of->from, found * sizeof *out);
  if (out && data)
    memset(data, 0, found * sizeof *data);
  return *count = found, CUDA_SUCCESS;
}

/* ---- captures: of one stream at a time ---- */

static word captured;
static graph *capture;

ANSWER(cuStreamBeginCapture)(word stream) { return captured = stream, answer_cuGraphCreate(&capture); }

ANSWER(cuStreamEndCapture)(word stream, graph **out) {
  return *out = captured == stream ? capture : NULL, captured = 0, CUDA_SUCCESS;
}

ANSWER(cuStreamIsCapturing)(word stream, CUstreamCaptureStatus *out) {
  *out = stream == captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

OLD(cuStreamGetCaptureInfo)(word stream, CUstreamCaptureStatus *status, cuuint64_t *number) {
  return *number = 1, answer_cuStreamIsCapturing(stream, status);
}

/* The last nodes are not set. */
ANSWER(cuStreamGetCaptureInfo)(word stream, CUstreamCaptureStatus *status, cuuint64_t *number, graph **out) {
  cuuint64_t unused;
  if (out && stream == captured)
    *out = capture;
  return answer_old_cuStreamGetCaptureInfo(stream, status, number ? number : &unused);
}

ANSWER(cuLaunchKernelEx)(const CUlaunchConfig *config) {
  node *made;
  return captured && captured == (word)config->hStream ? add_node(&made, capture, NULL, 0) : CUDA_SUCCESS;
}

/* ---- functions by name ---- */

/* The answers of functions that have none of their own, by a part of the name; the first rule counts. */
static const struct {
  const char *parts; /* each ends with a space */
  void *answer;
} RULES[] = {
    {"cuGraphAdd ", add_node},
    {"cuGetError ", name_of_result},
    {"cuDeviceGetName cuDeviceGetPCIBusId ", text},
    {"cuDeviceGetCount cuKernelGetAttribute cuFuncGetAttribute ", one},
    {"cuMemAllocHost ", answer_cuMemHostAlloc},
    {"cuDevicePrimaryCtxRetain cuCtxGetCurrent ", context},
    {"cuCtxGetId cuStreamGetId ", id},
    {"cuMemAlloc ", memory},
    {"cuInit Set Destroy Release Free Unload Launch Memcpy Memset Record Wait Synchronize Query Update Upload Exchange "
     "Encode Register Unregister cuGraphKernelNodeGet Retain ",
     nothing},
    {"MemPool Create Instantiate Import Load cuKernelGetFunction ", handle},
    {"cuCtxGetDevice cuDeviceGet cuGraphNodeGetDependentNodes ", zero},
};

/* A function, which counts its calls. There are as many as a process can look up; STUBS makes them. */
typedef CUresult (*answer)(word, word, word, word, word, word, word, word);
static struct {
  const char *name;
  answer answer;
  int version;
  unsigned calls;
} functions[1024];
static unsigned looked_up;

static CUresult unanswered(unsigned k) {
  fprintf(stderr, "null_driver.c: no answer for %s\n", functions[k].name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

#define STUB(k)                                                                                                        \
  static CUresult stub_##k(word a, word b, word c, word d, word e, word f, word g, word h) {                           \
    functions[0x##k].calls++;                                                                                          \
    return functions[0x##k].answer ? functions[0x##k].answer(a, b, c, d, e, f, g, h) : unanswered(0x##k);              \
  }
#define ADDRESS(k) stub_##k,
/* clang-format off */
#define HEX(F, k) F(k##0) F(k##1) F(k##2) F(k##3) F(k##4) F(k##5) F(k##6) F(k##7) \
                  F(k##8) F(k##9) F(k##a) F(k##b) F(k##c) F(k##d) F(k##e) F(k##f)
#define HEX2(F, k) HEX(F, k##0) HEX(F, k##1) HEX(F, k##2) HEX(F, k##3) HEX(F, k##4) HEX(F, k##5) HEX(F, k##6) \
                   HEX(F, k##7) HEX(F, k##8) HEX(F, k##9) HEX(F, k##a) HEX(F, k##b) HEX(F, k##c) HEX(F, k##d) \
                   HEX(F, k##e) HEX(F, k##f)
/* clang-format on */
#define STUBS(F) HEX2(F, 0) HEX2(F, 1) HEX2(F, 2) HEX2(F, 3)
STUBS(STUB)
static const answer addresses[] = {STUBS(ADDRESS)};

static answer answer_of(const char *name, int version) {
  char own[128];
  Dl_info self;
  dladdr((void *)nothing, &self);
  void *library = dlopen(self.dli_fname, RTLD_NOW), *found;
  for (int is_old = version < 12030; is_old >= 0; is_old--) {
    snprintf(own, sizeof own, "answer_%s%s", is_old ? "old_" : "", name);
    if ((found = dlsym(library, own)) != NULL)
      return (answer)found;
  }
  for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
    for (const char *part = RULES[i].parts, *end; (end = strchr(part, ' ')) != NULL; part = end + 1) {
      snprintf(own, sizeof own, "%.*s", (int)(end - part), part);
      if (strstr(name, own) != NULL)
        return (answer)RULES[i].answer;
    }
  return NULL;
}

EXPORTED CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                      CUdriverProcAddressQueryResult *found) {
  unsigned k = 0;
  (void)flags;
  if (found)
    *found = CU_GET_PROC_ADDRESS_SUCCESS;
  if (strcmp(name, "cuGetProcAddress") == 0)
    return *out = (void *)cuGetProcAddress_v2, CUDA_SUCCESS;
  while (k < looked_up && (functions[k].version != version || strcmp(functions[k].name, name) != 0))
    k++;
  if (k == sizeof functions / sizeof *functions)
    return CUDA_ERROR_NOT_FOUND;
  if (k == looked_up) {
    functions[k].name = strdup(name), functions[k].version = version, functions[k].answer = answer_of(name, version);
    looked_up++;
  }
  *out = (void *)addresses[k];
  return CUDA_SUCCESS;
}

/* Returns how often function number `k` has been called, and its name; NULL for the name after the last function. */
EXPORTED unsigned null_calls(unsigned k, const char **name) {
  *name = k < looked_up ? functions[k].name : NULL;
  return functions[k].calls;
}

/*
 * Returns the number of instructions that have been executed so far, without those of this function. Callgrind has no
 * request for it, but writes it into a new file, $NULL_DRIVER_PROFILE.1 and so on.
 */
EXPORTED double null_clock(void) {
  static unsigned long long total;
  static unsigned part;
  char path[4096], line[4096];
  unsigned long long more = 0;
  if (part == 0)
    CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS;
  snprintf(path, sizeof path, "%s.%u", getenv("NULL_DRIVER_PROFILE"), ++part);
  FILE *file = fopen(path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "totals: %llu", &more) == 1)
      break;
  if (file != NULL)
    fclose(file);
  total += more;
  CALLGRIND_TOGGLE_COLLECT;
  return (double)total;
}
