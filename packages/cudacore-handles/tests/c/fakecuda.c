/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfakecuda.so: the test double of the CUDA driver that fakecuda.h describes. One lock guards everything, so
 * that it is free of data races by construction. The answers to odd calls (no current context, a context that was
 * released, arguments of the wrong size) are those that driver 580 gave on an H200.
 */

#define _GNU_SOURCE
#include <cuda.h>

#include "fakecuda.h"
#include "fakecuda_image.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define DEVICES 2
#define MAX_DEPTH 32
#define MAX_LOG 65536
#define MAX_FAILURES 64
#define MAX_THREADS 1024
#define CHUNK 256
#define MEMORY_LIMIT (4ull << 30)
#define MEMORY_GRANULE 512
#define FREED_BYTE 0xDD

/*
 * Entry points: name, CUDA version of this ABI, the function, flags. Where a name has several versions, the newest
 * comes first.
 */
#define BEFORE_INIT 1 /* works before cuInit */
#define ENTRY_POINTS(X)                                                                                                \
  X(cuGetProcAddress, 12000, cuGetProcAddress_v2, BEFORE_INIT)                                                         \
  X(cuInit, 2000, cuInit, BEFORE_INIT)                                                                                 \
  X(cuDriverGetVersion, 2020, cuDriverGetVersion, BEFORE_INIT)                                                         \
  X(cuGetErrorName, 6000, cuGetErrorName, BEFORE_INIT)                                                                 \
  X(cuGetErrorString, 6000, cuGetErrorString, BEFORE_INIT)                                                             \
  X(cuDeviceGetCount, 2000, cuDeviceGetCount, 0)                                                                       \
  X(cuDeviceGet, 2000, cuDeviceGet, 0)                                                                                 \
  X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute, 0)                                                               \
  X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain, 0)                                                       \
  X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2, 0)                                                 \
  X(cuCtxGetCurrent, 4000, cuCtxGetCurrent, 0)                                                                         \
  X(cuCtxSetCurrent, 4000, cuCtxSetCurrent, 0)                                                                         \
  X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2, 0)                                                                    \
  X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2, 0)                                                                      \
  X(cuCtxGetDevice, 2000, cuCtxGetDevice, 0)                                                                           \
  X(cuCtxSynchronize, 2000, cuCtxSynchronize, 0)                                                                       \
  X(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority, 0)                                                   \
  X(cuStreamDestroy, 4000, cuStreamDestroy_v2, 0)                                                                      \
  X(cuStreamGetCtx, 9020, cuStreamGetCtx, 0)                                                                           \
  X(cuStreamGetFlags, 5050, cuStreamGetFlags, 0)                                                                       \
  X(cuStreamGetPriority, 5050, cuStreamGetPriority, 0)                                                                 \
  X(cuStreamQuery, 2000, cuStreamQuery, 0)                                                                             \
  X(cuStreamSynchronize, 2000, cuStreamSynchronize, 0)                                                                 \
  X(cuStreamWaitEvent, 3020, cuStreamWaitEvent, 0)                                                                     \
  X(cuEventCreate, 2000, cuEventCreate, 0)                                                                             \
  X(cuEventDestroy, 4000, cuEventDestroy_v2, 0)                                                                        \
  X(cuEventRecord, 2000, cuEventRecord, 0)                                                                             \
  X(cuEventQuery, 2000, cuEventQuery, 0)                                                                               \
  X(cuEventSynchronize, 2000, cuEventSynchronize, 0)                                                                   \
  X(cuEventElapsedTime, 12080, cuEventElapsedTime_v2, 0)                                                               \
  X(cuEventElapsedTime, 2000, cuEventElapsedTime, 0)                                                                   \
  X(cuMemPoolCreate, 11020, cuMemPoolCreate, 0)                                                                        \
  X(cuMemPoolDestroy, 11020, cuMemPoolDestroy, 0)                                                                      \
  X(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool, 0)                                                                  \
  X(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool, 0)                                                    \
  X(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute, 0)                                                            \
  X(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute, 0)                                                            \
  X(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync, 0)                                                        \
  X(cuMemFreeAsync, 11020, cuMemFreeAsync, 0)                                                                          \
  X(cuMemAlloc, 3020, cuMemAlloc_v2, 0)                                                                                \
  X(cuMemFree, 3020, cuMemFree_v2, 0)                                                                                  \
  X(cuMemHostAlloc, 2020, cuMemHostAlloc, 0)                                                                           \
  X(cuMemFreeHost, 2000, cuMemFreeHost, 0)                                                                             \
  X(cuMemcpyAsync, 4000, cuMemcpyAsync, 0)                                                                             \
  X(cuMemsetD8Async, 3020, cuMemsetD8Async, 0)                                                                         \
  X(cuMemsetD16Async, 3020, cuMemsetD16Async, 0)                                                                       \
  X(cuMemsetD32Async, 3020, cuMemsetD32Async, 0)                                                                       \
  X(cuPointerGetAttribute, 4000, cuPointerGetAttribute, 0)                                                             \
  X(cuLibraryLoadData, 12000, cuLibraryLoadData, 0)                                                                    \
  X(cuLibraryUnload, 12000, cuLibraryUnload, 0)                                                                        \
  X(cuLibraryGetKernel, 12000, cuLibraryGetKernel, 0)                                                                  \
  X(cuLibraryGetKernelCount, 12040, cuLibraryGetKernelCount, 0)                                                        \
  X(cuLibraryEnumerateKernels, 12040, cuLibraryEnumerateKernels, 0)                                                    \
  X(cuKernelGetLibrary, 12050, cuKernelGetLibrary, 0)                                                                  \
  X(cuKernelGetName, 12030, cuKernelGetName, 0)                                                                        \
  X(cuKernelGetParamInfo, 12040, cuKernelGetParamInfo, 0)                                                              \
  X(cuLaunchKernelEx, 11060, cuLaunchKernelEx, 0)

/* Older ABIs that CUDA 13's header does not declare any more. */
CUresult CUDAAPI(cuEventElapsedTime)(float *milliseconds, CUevent start, CUevent end);

