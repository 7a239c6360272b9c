/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: for each row of rows.py, the time that its calls of the driver take in plain C, without Python.
 *
 * usage: floor CODE [ROW...]: prints a line for each row: its name, and the nanoseconds of each measurement
 * usage: floor --first CODE: does the work of first_result.py once
 *
 * The program needs cuda.h, but is not linked to a CUDA library: it loads the driver at run time.
 */
#include "floor.h"

#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <pthread.h>

struct driver cu;
CUstream stream;

static double (*null_clock)(void); /* of null_driver.c */

static void load_driver(void) {
  const char *path = getenv("CUDACORE_DRIVER");
  void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
  PFN_cuGetProcAddress_v12000 get = NULL;
  if (!library || !(*(void **)&get = dlsym(library, "cuGetProcAddress_v2"))) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  /*
   * A driver that is older than cuda.h may lack the newest version of a function. The function without a version, which
   * takes the same arguments, is then used. The driver that does nothing exports only cuGetProcAddress.
   */
#define TEXT_OF(text) #text
#define TEXT(name) TEXT_OF(name)
#define LOAD(name)                                                                                                     \
  if (!(*(void **)&cu.name = dlsym(library, TEXT(name))) && !(*(void **)&cu.name = dlsym(library, #name)) &&           \
      get(#name, (void **)&cu.name, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, NULL) != CUDA_SUCCESS) {                \
    fprintf(stderr, "the driver has no %s\n", #name);                                                                  \
    exit(1);                                                                                                           \
  }
  FUNCTIONS(LOAD)
  *(void **)&null_clock = dlsym(library, "null_clock");
}

void check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS)
    return;
  const char *name = "unknown error";
  cu.cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\n", call, name);
  exit(1);
}

static void *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) {
    perror(path);
    exit(1);
  }
  long size = ftell(file);
  rewind(file);
  void *data = malloc((size_t)size + 1);
  if (data)
    ((char *)data)[size] = '\0'; /* PTX must end with a NUL */
  if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
    perror(path);
    exit(1);
  }
  fclose(file);
  return data;
}

double now(void) {
  struct timespec time;
  if (null_clock)
    return null_clock();
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static char **chosen; /* the names of the rows to measure, ending with NULL; NULL for all rows */

bool wanted(const char *name) {
  for (char **each = chosen; each != NULL && *each != NULL; each++)
    if (strcmp(*each, name) == 0)
      return true;
  return chosen == NULL;
}

void report(const char *name, const double *times, size_t count) {
  printf("%s", name);
  for (size_t i = 0; i < count; i++)
    printf("\t%.1f", times[i]);
  printf("\n");
}

CUlaunchConfig one_block(CUstream on) {
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
    CHECK(cu.cuLibraryGetKernel(&kernel, library, table[t].kernel));
    ROW(table[t].row, 500, 15, CHECK(cu.cuLaunchKernelEx(&config, (CUfunction)kernel, table[t].arguments, NULL)));
  }
}

enum { MAX_THREADS = 16, LAUNCHES = 20000 }; /* the same numbers as in rows.py */

typedef struct worker {
  CUcontext context;
  CUstream stream;
  CUkernel kernel;
  CUdeviceptr pointer;
  int count;
} worker;

static void *launch_many(void *data) {
  worker *w = data;
  void *arguments[] = {&w->pointer};
  CUlaunchConfig config = one_block(w->stream);
  CHECK(cu.cuCtxSetCurrent(w->context));
  for (int i = 0; i < w->count; i++)
    CHECK(cu.cuLaunchKernelEx(&config, (CUfunction)w->kernel, arguments, NULL));
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

static void threads(CUcontext context, const void *image, CUdeviceptr pointer) {
  worker workers[MAX_THREADS];
  CUlibrary libraries[MAX_THREADS];
  CUkernel own[MAX_THREADS];
  for (int i = 0; i < MAX_THREADS; i++) {
    CHECK(cu.cuLibraryLoadData(&libraries[i], image, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cu.cuLibraryGetKernel(&own[i], libraries[i], "k1"));
    workers[i] = (worker){context, NULL, own[0], pointer, 0};
    CHECK(cu.cuStreamCreateWithPriority(&workers[i].stream, CU_STREAM_NON_BLOCKING, 0));
  }
  ROW_PER(LAUNCHES, "launch, 1 threads at once", 1, 5, launch_from_threads(workers, 1));
  ROW_PER(LAUNCHES, "launch, 2 threads at once", 1, 5, launch_from_threads(workers, 2));
  ROW_PER(LAUNCHES, "launch, 4 threads at once", 1, 5, launch_from_threads(workers, 4));
  ROW_PER(LAUNCHES, "launch, 8 threads at once", 1, 5, launch_from_threads(workers, 8));
  ROW_PER(LAUNCHES, "launch, 16 threads at once", 1, 5, launch_from_threads(workers, 16));
  for (int i = 0; i < MAX_THREADS; i++)
    workers[i].kernel = own[i];
  ROW_PER(LAUNCHES, "launch, 8 threads at once, own kernels", 1, 5, launch_from_threads(workers, 8));
  for (int i = 0; i < MAX_THREADS; i++) {
    CHECK(cu.cuStreamDestroy(workers[i].stream));
    CHECK(cu.cuLibraryUnload(libraries[i]));
  }
}

static void streams_and_events(CUcontext context) {
  CUstream s;
  CUevent event, early, late, e;
  float ms;
  CHECK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cu.cuEventCreate(&early, CU_EVENT_DEFAULT));
  CHECK(cu.cuEventCreate(&late, CU_EVENT_DEFAULT));
  CHECK(cu.cuEventRecord(early, stream));
  CHECK(cu.cuEventRecord(event, stream));
  CHECK(cu.cuEventRecord(late, stream));
  CHECK(cu.cuStreamSynchronize(stream));

  ROW("device.set_current", 20000, 7, CHECK(cu.cuCtxSetCurrent(context)));
  ROW("stream create and close", 500, 7, {
    CHECK(cu.cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cu.cuStreamDestroy(s));
  });
  ROW("stream.sync, idle", 2000, 7, CHECK(cu.cuStreamSynchronize(stream)));
  ROW("event create and close", 5000, 7, {
    CHECK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CHECK(cu.cuEventDestroy(e));
  });
  ROW("stream.record(event)", 2000, 7, CHECK(cu.cuEventRecord(event, stream)));
  ROW("stream.wait(event)", 2000, 7, CHECK(cu.cuStreamWaitEvent(stream, event, 0)));
  ROW("event.is_done", 5000, 7, CHECK(cu.cuEventQuery(event)));
  ROW("event.sync, done", 5000, 7, CHECK(cu.cuEventSynchronize(event)));
  ROW("event - event", 5000, 7, CHECK(cu.cuEventElapsedTime(&ms, early, late)));
}

static void memory(CUdeviceptr buffer) {
  CUdeviceptr other, p;
  CHECK(cu.cuMemAllocAsync(&other, 4096, stream));
  ROW("buffer allocate and close", 2000, 7, {
    CHECK(cu.cuMemAllocAsync(&p, 1024, stream));
    CHECK(cu.cuMemFreeAsync(p, stream));
  });
  ROW("buffer.copy_to, device", 500, 15, CHECK(cu.cuMemcpyAsync(other, buffer, 4096, stream)));
  ROW("buffer.fill", 500, 15, CHECK(cu.cuMemsetD8Async(buffer, 0, 4096, stream)));
}

static void objects(const void *image) {
  CUlibrary library;
  CUkernel kernel;
  ROW("object load and get_kernel", 50, 5, {
    CHECK(cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cu.cuLibraryGetKernel(&kernel, library, "k0"));
    CHECK(cu.cuLibraryUnload(library));
  });
}

static void first_result(const void *image) {
  CUlibrary library;
  CUkernel kernel;
  CUdeviceptr result;
  float *host;
  CHECK(cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
  CHECK(cu.cuLibraryGetKernel(&kernel, library, "tiny"));
  CHECK(cu.cuMemAllocAsync(&result, sizeof *host, stream));
  CHECK(cu.cuMemHostAlloc((void **)&host, sizeof *host, CU_MEMHOSTALLOC_PORTABLE));
  void *arguments[] = {&result};
  CUlaunchConfig config = one_block(stream);
  CHECK(cu.cuLaunchKernelEx(&config, (CUfunction)kernel, arguments, NULL));
  CHECK(cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, result, sizeof *host, stream));
  CHECK(cu.cuStreamSynchronize(stream));
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
  load_driver();
  CUdevice device;
  CUcontext context;
  CHECK(cu.cuInit(0));
  CHECK(cu.cuDeviceGet(&device, 0));
  CHECK(cu.cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cu.cuCtxSetCurrent(context));
  CHECK(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));

  void *image = read_file(argv[1 + first]);
  if (first) {
    first_result(image);
    return 0;
  }
  CUlibrary library;
  CUdeviceptr buffer;
  CHECK(cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
  CHECK(cu.cuMemAllocAsync(&buffer, 4096, stream));
  CHECK(cu.cuStreamSynchronize(stream));

  launches(library, buffer);
  streams_and_events(context);
  memory(buffer);
  objects(image);
  threads(context, image, buffer);
  graphs(context, library, buffer);
  return 0;
}
