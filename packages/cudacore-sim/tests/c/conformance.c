/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The behaviour that cudacore-handles relies on, tested on the driver that $CUDACORE_DRIVER names. The simulated driver
 * must give the same results as a real one.
 */
#include "conformance.h"

#undef cuCtxGetDevice
#undef cuCtxSynchronize
#undef cuStreamGetCtx
#undef cuEventElapsedTime
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#define FUNCTIONS(X)                                                                                                   \
  X(cuInit, 2000)                                                                                                      \
  X(cuGetErrorName, 6000)                                                                                              \
  X(cuDeviceGetAttribute, 2000)                                                                                        \
  X(cuDevicePrimaryCtxRetain, 7000)                                                                                    \
  X(cuDevicePrimaryCtxRelease, 11000)                                                                                  \
  X(cuDeviceGetDefaultMemPool, 11020)                                                                                  \
  X(cuCtxGetCurrent, 4000)                                                                                             \
  X(cuCtxSetCurrent, 4000)                                                                                             \
  X(cuCtxPushCurrent, 4000)                                                                                            \
  X(cuCtxPopCurrent, 4000)                                                                                             \
  X(cuCtxGetDevice, 2000)                                                                                              \
  X(cuCtxSynchronize, 2000)                                                                                            \
  X(cuStreamCreateWithPriority, 5050)                                                                                  \
  X(cuStreamDestroy, 4000)                                                                                             \
  X(cuStreamGetCtx, 9020)                                                                                              \
  X(cuStreamGetFlags, 5050)                                                                                            \
  X(cuStreamGetPriority, 5050)                                                                                         \
  X(cuStreamQuery, 2000)                                                                                               \
  X(cuStreamSynchronize, 2000)                                                                                         \
  X(cuStreamWaitEvent, 3020)                                                                                           \
  X(cuEventCreate, 2000)                                                                                               \
  X(cuEventDestroy, 4000)                                                                                              \
  X(cuEventRecord, 2000)                                                                                               \
  X(cuEventQuery, 2000)                                                                                                \
  X(cuEventSynchronize, 2000)                                                                                          \
  X(cuEventElapsedTime, 2000)                                                                                          \
  X(cuMemPoolCreate, 11020)                                                                                            \
  X(cuMemPoolDestroy, 11020)                                                                                           \
  X(cuMemAllocFromPoolAsync, 11020)                                                                                    \
  X(cuMemFreeAsync, 11020)                                                                                             \
  X(cuMemAlloc, 3020)                                                                                                  \
  X(cuMemFree, 3020)                                                                                                   \
  X(cuMemHostAlloc, 2020)                                                                                              \
  X(cuMemFreeHost, 2000)                                                                                               \
  X(cuMemcpyAsync, 4000)                                                                                               \
  X(cuMemsetD8Async, 3020)                                                                                             \
  X(cuMemsetD32Async, 3020)                                                                                            \
  X(cuPointerGetAttribute, 4000)                                                                                       \
  X(cuLibraryLoadData, 12000)                                                                                          \
  X(cuLibraryUnload, 12000)                                                                                            \
  X(cuLibraryGetKernel, 12000)                                                                                         \
  X(cuKernelGetParamInfo, 12040)                                                                                       \
  X(cuLaunchKernelEx, 11060)

static struct {
#define FIELD(name, version) PFN_##name##_v##version name;
  FUNCTIONS(FIELD)
#undef FIELD
} cu;
static PFN_cuGetProcAddress_v12000 get_proc_address;

static void open(void) {
  void *entry = NULL;
  get_proc_address = check_open_driver();
  FUNCTIONS(CHECK_LOAD)
}

/* A missing entry point could not be distinguished from one that is newer than the requested version. */
static void entry_points(void) {
  void *entry = &entry;
  CUdriverProcAddressQueryResult found;
  CHECK_EQ(get_proc_address("cuNoSuchThing", &entry, 12000, 0, &found), 0);
  CHECK(entry == NULL && found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK_EQ(get_proc_address("cuKernelGetParamInfo", &entry, 12000, 0, &found), 0);
  CHECK(entry == NULL && found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK_EQ(get_proc_address("cuStreamDestroy_v2", &entry, 12000, 0, &found), 0);
  CHECK(entry == NULL && found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK_EQ(get_proc_address("cuInit", &entry, 19000, 0, &found), CUDA_ERROR_INVALID_VALUE);
}

/* Before cuInit, the names of errors could not be queried, or calls that need cuInit would not fail. */
static void before_init(void) {
  const char *name = "";
  CUcontext context;
  ANSWERS(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
  ANSWERS(0, cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &name));
  CHECK_STR(name, "CUDA_ERROR_INVALID_VALUE");
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &name));
  CHECK(name == NULL);
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
}

static CUcontext context;
static CUstream stream, second;
static CUevent start, end, untimed;
static CUmemoryPool pool;
static CUlibrary library;
static CUkernel kernel, empty;
static CUdeviceptr memory;
static const CUstream defaults[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};

static void set_up(void) {
  ANSWERS(0, cuInit(0));
  int value;
  CUdevice device;
  CUcontext current;
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, (CUdevice_attribute)100000, 0));
  ANSWERS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99));
  ANSWERS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&context, 99));
  ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
  ANSWERS(0, cuDevicePrimaryCtxRetain(&context, 0));
  ANSWERS(0, cuCtxGetCurrent(&current));
  CHECK(current == NULL);
  ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device));
  ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
  ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&current));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuCtxPushCurrent(NULL));
  ANSWERS(0, cuCtxSetCurrent(NULL));
  ANSWERS(0, cuCtxSetCurrent(context));
  ANSWERS(0, cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  ANSWERS(0, cuStreamCreateWithPriority(&second, CU_STREAM_NON_BLOCKING, 0));
  ANSWERS(0, cuEventCreate(&start, 0));
  ANSWERS(0, cuEventCreate(&end, 0));
  ANSWERS(0, cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  ANSWERS(0, cuDeviceGetDefaultMemPool(&pool, 0));
  ANSWERS(0, cuLibraryLoadData(&library, check_ptx, NULL, NULL, 0, NULL, NULL, 0));
  ANSWERS(0, cuLibraryGetKernel(&kernel, library, "mixed"));
  ANSWERS(0, cuLibraryGetKernel(&empty, library, "empty"));
  ANSWERS(0, cuMemAlloc(&memory, 256));
}

static void tear_down(void) {
  ANSWERS(0, cuCtxSetCurrent(context));
  ANSWERS(0, cuCtxSynchronize());
  ANSWERS(0, cuMemFree(memory));
  ANSWERS(0, cuLibraryUnload(library));
  ANSWERS(0, cuEventDestroy(untimed));
  ANSWERS(0, cuEventDestroy(end));
  ANSWERS(0, cuEventDestroy(start));
  ANSWERS(0, cuStreamDestroy(second));
  ANSWERS(0, cuStreamDestroy(stream));
  ANSWERS(0, cuCtxSetCurrent(NULL));
  ANSWERS(0, cuDevicePrimaryCtxRelease(0));
}

/* Calls with unusual flags or priorities, or on events that were never recorded, would return unexpected results. */
static void streams_and_events(void) {
  CUstream made;
  CUevent event;
  int priority;
  float elapsed;
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuStreamCreateWithPriority(&made, 0x100, 0));
  ANSWERS(0, cuStreamCreateWithPriority(&made, 0, -1000));
  ANSWERS(0, cuStreamGetPriority(made, &priority));
  CHECK(priority > -1000);
  ANSWERS(0, cuStreamDestroy(made));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, 0x100));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS));
  ANSWERS(0, cuEventQuery(start)); /* never recorded */
  ANSWERS(0, cuEventSynchronize(start));
  ANSWERS(0, cuStreamWaitEvent(stream, start, 0));
  ANSWERS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&elapsed, start, end));
  ANSWERS(0, cuEventRecord(untimed, stream));
  ANSWERS(0, cuEventSynchronize(untimed));
  ANSWERS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&elapsed, untimed, untimed));
}

/* Calls for empty memory, huge memory, or memory that is unknown to the driver would return unexpected results. */
static void memory_calls(void) {
  CUdeviceptr ptr;
  void *pinned = &ptr;
  char pageable[64] = {0};
  unsigned type = 0;
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&ptr, 0));
  ANSWERS(0, cuMemAllocFromPoolAsync(&ptr, 0, pool, stream));
  ANSWERS(0, cuMemHostAlloc(&pinned, 0, 0));
  CHECK(pinned == NULL);
  ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&ptr, (size_t)1 << 50));
  ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&ptr, (size_t)1 << 50, pool, stream));
  ANSWERS(0, cuMemFree(0));
  ANSWERS(0, cuMemFreeAsync(0, stream));
  ANSWERS(0, cuMemFreeHost(NULL));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemFree(0x1234567));
  ANSWERS(0, cuMemAllocFromPoolAsync(&ptr, 1024, pool, stream));
  ANSWERS(0, cuMemFree(ptr));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool)); /* the device's default pool */
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(memory, 0, (size_t)1 << 40, stream));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async((CUdeviceptr)(uintptr_t)pageable, 0, 64, stream));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(memory + 1, 0, 4, stream));
  ANSWERS(0, cuMemcpyAsync(memory, (CUdeviceptr)(uintptr_t)pageable, 64, stream));
  ANSWERS(0, cuMemcpyAsync(memory, memory, 0, stream));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x123456));
  ANSWERS(0, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
  CHECK_EQ(type, CU_MEMORYTYPE_DEVICE);
}

/* Queries of parameters that do not exist, or launches with a wrong argument size, would return unexpected results. */
static void kernels(void) {
  CUkernel found;
  size_t offset = 0, size = 0, args_size;
  ANSWERS(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&found, library, "nope"));
  ANSWERS(0, cuLibraryGetKernel(&found, library, "mixed"));
  CHECK(found == kernel);
  static const size_t expected[CHECK_MIXED_COUNT][2] = {{0, 8}, {8, 4}, {12, 4}, {16, 8}, {24, 12}};
  for (size_t i = 0; i < CHECK_MIXED_COUNT; i++) {
    ANSWERS(0, cuKernelGetParamInfo(kernel, i, &offset, &size));
    CHECK(offset == expected[i][0] && size == expected[i][1]);
  }
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo(kernel, CHECK_MIXED_COUNT, &offset, &size));
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo(empty, 0, &offset, &size));

  char args[64] = {0};
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_size, CU_LAUNCH_PARAM_END};
  CUlaunchConfig config = {
      .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .hStream = stream};
  args_size = CHECK_MIXED_SIZE;
  ANSWERS(0, cuLaunchKernelEx(&config, (CUfunction)kernel, NULL, extra));
  args_size = 4; /* the driver accepts too few bytes silently, so the library must check the size */
  ANSWERS(0, cuLaunchKernelEx(&config, (CUfunction)kernel, NULL, extra));
  args_size = CHECK_MIXED_SIZE + 4;
  ANSWERS(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cuLaunchKernelEx(&config, (CUfunction)kernel, NULL, extra));
  args_size = 0;
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&config, (CUfunction)kernel, NULL, extra));
  ANSWERS(0, cuLaunchKernelEx(&config, (CUfunction)empty, NULL, extra));
  ANSWERS(0, cuLaunchKernelEx(&config, (CUfunction)empty, NULL, NULL));
  config.gridDimX = 0;
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&config, (CUfunction)empty, NULL, NULL));
  config.gridDimX = 1, config.blockDimX = 2048;
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&config, (CUfunction)empty, NULL, NULL));
  config.blockDimX = 1, config.sharedMemBytes = 1 << 20;
  ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&config, (CUfunction)empty, NULL, NULL));
}

/* Loading an invalid image would succeed, and only later calls would fail. */
static void bad_images(void) {
  CUlibrary bad;
  CUkernel found;
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  ANSWERS(0, cuLibraryLoadData(&bad, "hello, world", options, values, 2, NULL, NULL, 0));
  CHECK(*log != '\0');
  ANSWERS(CUDA_ERROR_INVALID_IMAGE, cuLibraryGetKernel(&found, bad, "hello"));
  ANSWERS(0, cuLibraryUnload(bad));
}

/* A call would need a current context although the library makes none current for it, or the reverse. */
static void without_a_context(void) {
  CUstream made;
  CUevent event;
  CUdeviceptr ptr;
  CUmemoryPool made_pool;
  CUlibrary loaded;
  CUkernel found;
  CUcontext of_stream = NULL;
  void *pinned;
  size_t offset, size;
  unsigned flags;
  float elapsed;
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
  CUlaunchConfig config = {
      .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .hStream = stream};
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  ANSWERS(0, cuStreamCreateWithPriority(&made, 0, 0));
  ANSWERS(0, cuEventCreate(&event, 0));
  ANSWERS(0, cuMemAlloc(&ptr, 64));
  ANSWERS(0, cuMemHostAlloc(&pinned, 64, 0));
  ANSWERS(0, cuCtxSetCurrent(NULL));

  /* Calls with a stream argument, and calls that destroy an object, use the context of the stream or the object. */
  ANSWERS(0, cuStreamSynchronize(stream));
  ANSWERS(0, cuStreamGetFlags(stream, &flags));
  ANSWERS(0, cuStreamGetCtx(stream, &of_stream));
  CHECK(of_stream == context);
  ANSWERS(0, cuEventRecord(start, stream));
  ANSWERS(0, cuEventRecord(end, stream));
  ANSWERS(0, cuEventSynchronize(end));
  ANSWERS(0, cuEventElapsedTime(&elapsed, start, end));
  ANSWERS(0, cuStreamWaitEvent(second, end, 0));
  ANSWERS(0, cuMemsetD8Async(memory, 1, 64, stream));
  ANSWERS(0, cuMemcpyAsync(memory, memory + 64, 64, stream));
  ANSWERS(0, cuLaunchKernelEx(&config, (CUfunction)empty, NULL, NULL));
  ANSWERS(0, cuStreamSynchronize(stream));
  ANSWERS(0, cuStreamDestroy(made));
  ANSWERS(0, cuEventDestroy(event));
  ANSWERS(0, cuMemFree(ptr));
  ANSWERS(0, cuMemFreeHost(pinned));
  ANSWERS(0, cuMemAllocFromPoolAsync(&ptr, 1024, pool, stream));
  ANSWERS(0, cuMemFreeAsync(ptr, stream));
  ANSWERS(0, cuMemPoolCreate(&made_pool, &props));
  ANSWERS(0, cuMemPoolDestroy(made_pool));
  ANSWERS(0, cuLibraryLoadData(&loaded, check_ptx, NULL, NULL, 0, NULL, NULL, 0));
  ANSWERS(0, cuLibraryGetKernel(&found, loaded, "mixed"));
  ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuKernelGetParamInfo(found, 0, &offset, &size)); /* loads it into a context */
  ANSWERS(0, cuLibraryUnload(loaded));

  /* New objects, and work on a default stream, belong to the current context. */
  ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreateWithPriority(&made, 0, 0));
  ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuEventCreate(&event, 0));
  ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&ptr, 64));
  ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuMemHostAlloc(&pinned, 64, 0));
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
    config.hStream = defaults[i];
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(defaults[i]));
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuStreamGetCtx(defaults[i], &of_stream));
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuEventRecord(start, defaults[i]));
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuStreamWaitEvent(defaults[i], end, 0));
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocFromPoolAsync(&ptr, 64, pool, defaults[i]));
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuLaunchKernelEx(&config, (CUfunction)empty, NULL, NULL));
  }
}

int main(void) {
  open();
  CHECK_SECTION(entry_points)
  CHECK_SECTION(before_init)
  CHECK_SECTION(set_up)
  CHECK_SECTION(streams_and_events)
  CHECK_SECTION(memory_calls)
  CHECK_SECTION(kernels)
  CHECK_SECTION(bad_images)
  CHECK_SECTION(without_a_context)
  CHECK_SECTION(tear_down)
  return 0;
}
