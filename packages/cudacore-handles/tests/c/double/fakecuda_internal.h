/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKECUDA_INTERNAL_H
#define FAKECUDA_INTERNAL_H

/* What the double's source files share: its entry points, its state, and how every call begins and ends. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cuda.h>

#include "double/fakecuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#pragma GCC visibility push(hidden)

#define DEVICES 2
#define MAX_DEPTH 32
#define MAX_LOG 65536
#define MAX_FAILURES 64
#define CHUNK 256

#define LEAST_PRIORITY 0
#define GREATEST_PRIORITY (-5) /* smaller numbers run first */

/*
 * Entry points: name, CUDA version of this ABI, the function, flags. Where a name has several versions, the newest
 * comes first.
 */
#define BEFORE_INIT 1      /* works before cuInit */
#define IN_HOST_FUNCTION 2 /* works in a host function, as driver 580 has it */
#define ENTRY_POINTS(X)                                                                                                \
  X(cuGetProcAddress, 12000, cuGetProcAddress_v2, BEFORE_INIT)                                                         \
  X(cuInit, 2000, cuInit, BEFORE_INIT)                                                                                 \
  X(cuDriverGetVersion, 2020, cuDriverGetVersion, BEFORE_INIT)                                                         \
  X(cuGetErrorName, 6000, cuGetErrorName, BEFORE_INIT)                                                                 \
  X(cuGetErrorString, 6000, cuGetErrorString, BEFORE_INIT)                                                             \
  X(cuGetExportTable, 3000, cuGetExportTable, BEFORE_INIT)                                                             \
  X(cuDeviceGetCount, 2000, cuDeviceGetCount, 0)                                                                       \
  X(cuDeviceGet, 2000, cuDeviceGet, 0)                                                                                 \
  X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute, 0)                                                               \
  X(cuDeviceGetName, 2000, cuDeviceGetName, 0)                                                                         \
  X(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2, 0)                                                                     \
  X(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId, 0)                                                                 \
  X(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer, 0)                                                             \
  X(cuDeviceGetDevResource, 12040, cuDeviceGetDevResource, 0)                                                          \
  X(cuDevSmResourceSplitByCount, 12040, cuDevSmResourceSplitByCount, 0)                                                \
  X(cuDevSmResourceSplit, 13010, cuDevSmResourceSplit, 0)                                                              \
  X(cuDevResourceGenerateDesc, 12040, cuDevResourceGenerateDesc, 0)                                                    \
  X(cuCtxGetDevResource, 12040, cuCtxGetDevResource, 0)                                                                \
  X(cuCtxFromGreenCtx, 12040, cuCtxFromGreenCtx, 0)                                                                    \
  X(cuGreenCtxCreate, 12040, cuGreenCtxCreate, 0)                                                                      \
  X(cuGreenCtxDestroy, 12040, cuGreenCtxDestroy, 0)                                                                    \
  X(cuGreenCtxGetDevResource, 12040, cuGreenCtxGetDevResource, 0)                                                      \
  X(cuGreenCtxStreamCreate, 12050, cuGreenCtxStreamCreate, 0)                                                          \
  X(cuStreamGetGreenCtx, 12040, cuStreamGetGreenCtx, 0)                                                                \
  X(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState, 0)                                                   \
  X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain, 0)                                                       \
  X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2, 0)                                                 \
  X(cuCtxGetCurrent, 4000, cuCtxGetCurrent, 0)                                                                         \
  X(cuCtxGetId, 12000, cuCtxGetId, 0)                                                                                  \
  X(cuCtxSetCurrent, 4000, cuCtxSetCurrent, 0)                                                                         \
  X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2, 0)                                                                    \
  X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2, 0)                                                                      \
  X(cuCtxGetDevice, 2000, cuCtxGetDevice, 0)                                                                           \
  X(cuCtxSynchronize, 2000, cuCtxSynchronize, 0)                                                                       \
  X(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange, 0)                                                 \
  X(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority, 0)                                                   \
  X(cuStreamDestroy, 4000, cuStreamDestroy_v2, IN_HOST_FUNCTION)                                                       \
  X(cuStreamGetCtx, 9020, cuStreamGetCtx, 0)                                                                           \
  X(cuStreamGetFlags, 5050, cuStreamGetFlags, 0)                                                                       \
  X(cuStreamGetPriority, 5050, cuStreamGetPriority, 0)                                                                 \
  X(cuStreamQuery, 2000, cuStreamQuery, 0)                                                                             \
  X(cuStreamSynchronize, 2000, cuStreamSynchronize, IN_HOST_FUNCTION)                                                  \
  X(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2, 0)                                                           \
  X(cuStreamEndCapture, 10000, cuStreamEndCapture, 0)                                                                  \
  X(cuStreamIsCapturing, 10000, cuStreamIsCapturing, IN_HOST_FUNCTION)                                                 \
  X(cuStreamGetCaptureInfo, 12030, cuStreamGetCaptureInfo_v3, 0)                                                       \
  X(cuStreamGetCaptureInfo, 11030, cuStreamGetCaptureInfo_v2, 0)                                                       \
  X(cuStreamGetCaptureInfo, 10010, cuStreamGetCaptureInfo, 0)                                                          \
  X(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph, 0)                                                \
  X(cuStreamUpdateCaptureDependencies, 11030, cuStreamUpdateCaptureDependencies, 0)                                    \
  X(cuStreamWaitEvent, 3020, cuStreamWaitEvent, 0)                                                                     \
  X(cuEventCreate, 2000, cuEventCreate, 0)                                                                             \
  X(cuEventDestroy, 4000, cuEventDestroy_v2, IN_HOST_FUNCTION)                                                         \
  X(cuEventRecord, 2000, cuEventRecord, 0)                                                                             \
  X(cuEventQuery, 2000, cuEventQuery, IN_HOST_FUNCTION)                                                                \
  X(cuEventSynchronize, 2000, cuEventSynchronize, 0)                                                                   \
  X(cuEventElapsedTime, 12080, cuEventElapsedTime_v2, 0)                                                               \
  X(cuEventElapsedTime, 2000, cuEventElapsedTime, 0)                                                                   \
  X(cuMemPoolCreate, 11020, cuMemPoolCreate, 0)                                                                        \
  X(cuMemPoolDestroy, 11020, cuMemPoolDestroy, 0)                                                                      \
  X(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool, 0)                                                                  \
  X(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool, 0)                                                    \
  X(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute, 0)                                                            \
  X(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode, IN_HOST_FUNCTION)                     \
  X(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute, 0)                                                            \
  X(cuMemPoolGetAccess, 11020, cuMemPoolGetAccess, 0)                                                                  \
  X(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess, 0)                                                                  \
  X(cuMemPoolExportToShareableHandle, 11020, cuMemPoolExportToShareableHandle, 0)                                      \
  X(cuMemPoolImportFromShareableHandle, 11020, cuMemPoolImportFromShareableHandle, 0)                                  \
  X(cuMemPoolExportPointer, 11020, cuMemPoolExportPointer, 0)                                                          \
  X(cuMemPoolImportPointer, 11020, cuMemPoolImportPointer, 0)                                                          \
  X(cuIpcGetEventHandle, 4010, cuIpcGetEventHandle, 0)                                                                 \
  X(cuIpcOpenEventHandle, 4010, cuIpcOpenEventHandle, 0)                                                               \
  X(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync, 0)                                                        \
  X(cuMemFreeAsync, 11020, cuMemFreeAsync, 0)                                                                          \
  X(cuMemAlloc, 3020, cuMemAlloc_v2, 0)                                                                                \
  X(cuMemFree, 3020, cuMemFree_v2, 0)                                                                                  \
  X(cuMemHostAlloc, 2020, cuMemHostAlloc, 0)                                                                           \
  X(cuMemFreeHost, 2000, cuMemFreeHost, 0)                                                                             \
  X(cuMemGetMemPool, 13000, cuMemGetMemPool, 0)                                                                        \
  X(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo, 0)                                                                        \
  X(cuMemAddressReserve, 10020, cuMemAddressReserve, 0)                                                                \
  X(cuMemAddressFree, 10020, cuMemAddressFree, 0)                                                                      \
  X(cuMemCreate, 10020, cuMemCreate, 0)                                                                                \
  X(cuMemRelease, 10020, cuMemRelease, 0)                                                                              \
  X(cuMemMap, 10020, cuMemMap, 0)                                                                                      \
  X(cuMemUnmap, 10020, cuMemUnmap, 0)                                                                                  \
  X(cuMemSetAccess, 10020, cuMemSetAccess, 0)                                                                          \
  X(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle, 0)                                                \
  X(cuMemGetAllocationGranularity, 10020, cuMemGetAllocationGranularity, 0)                                            \
  X(cuMemAdvise, 12020, cuMemAdvise_v2, 0)                                                                             \
  X(cuMemRangeGetAttribute, 8000, cuMemRangeGetAttribute, 0)                                                           \
  X(cuMemPrefetchAsync, 12020, cuMemPrefetchAsync_v2, 0)                                                               \
  X(cuMemPrefetchBatchAsync, 13000, cuMemPrefetchBatchAsync, 0)                                                        \
  X(cuMemDiscardBatchAsync, 13000, cuMemDiscardBatchAsync, 0)                                                          \
  X(cuMemDiscardAndPrefetchBatchAsync, 13000, cuMemDiscardAndPrefetchBatchAsync, 0)                                    \
  X(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2, 0)                                                               \
  X(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync, 0)                                                                  \
  X(cuMemcpy3DAsync, 3020, cuMemcpy3DAsync_v2, 0)                                                                      \
  X(cuMemcpyAsync, 4000, cuMemcpyAsync, 0)                                                                             \
  X(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync, 0)                                                                     \
  X(cuMemcpy3DPeerAsync, 4000, cuMemcpy3DPeerAsync, 0)                                                                 \
  X(cuMemsetD8Async, 3020, cuMemsetD8Async, 0)                                                                         \
  X(cuMemsetD16Async, 3020, cuMemsetD16Async, 0)                                                                       \
  X(cuMemsetD32Async, 3020, cuMemsetD32Async, 0)                                                                       \
  X(cuPointerGetAttribute, 4000, cuPointerGetAttribute, 0)                                                             \
  X(cuPointerGetAttributes, 7000, cuPointerGetAttributes, 0)                                                           \
  X(cuLaunchHostFunc, 10000, cuLaunchHostFunc, 0)                                                                      \
  X(cuLibraryLoadData, 12000, cuLibraryLoadData, 0)                                                                    \
  X(cuLibraryUnload, 12000, cuLibraryUnload, 0)                                                                        \
  X(cuLibraryGetKernel, 12000, cuLibraryGetKernel, 0)                                                                  \
  X(cuLibraryGetKernelCount, 12040, cuLibraryGetKernelCount, 0)                                                        \
  X(cuLibraryEnumerateKernels, 12040, cuLibraryEnumerateKernels, 0)                                                    \
  X(cuKernelGetLibrary, 12050, cuKernelGetLibrary, 0)                                                                  \
  X(cuKernelGetName, 12030, cuKernelGetName, 0)                                                                        \
  X(cuKernelGetParamInfo, 12040, cuKernelGetParamInfo, 0)                                                              \
  X(cuKernelGetAttribute, 12000, cuKernelGetAttribute, 0)                                                              \
  X(cuKernelSetAttribute, 12000, cuKernelSetAttribute, 0)                                                              \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor, 0)                 \
  X(cuOccupancyMaxPotentialBlockSize, 6050, cuOccupancyMaxPotentialBlockSize, 0)                                       \
  X(cuOccupancyAvailableDynamicSMemPerBlock, 10020, cuOccupancyAvailableDynamicSMemPerBlock, 0)                        \
  X(cuOccupancyMaxPotentialClusterSize, 11070, cuOccupancyMaxPotentialClusterSize, 0)                                  \
  X(cuOccupancyMaxActiveClusters, 11070, cuOccupancyMaxActiveClusters, 0)                                              \
  X(cuLaunchKernelEx, 11060, cuLaunchKernelEx, 0)                                                                      \
  X(cuUserObjectCreate, 11030, cuUserObjectCreate, 0)                                                                  \
  X(cuUserObjectRelease, 11030, cuUserObjectRelease, 0)                                                                \
  X(cuGraphRetainUserObject, 11030, cuGraphRetainUserObject, 0)                                                        \
  X(cuGraphReleaseUserObject, 11030, cuGraphReleaseUserObject, 0)                                                      \
  X(cuGraphCreate, 10000, cuGraphCreate, 0)                                                                            \
  X(cuGraphDestroy, 10000, cuGraphDestroy, 0)                                                                          \
  X(cuGraphClone, 10000, cuGraphClone, 0)                                                                              \
  X(cuGraphDebugDotPrint, 11030, cuGraphDebugDotPrint, 0)                                                              \
  X(cuGraphConditionalHandleCreate, 12030, cuGraphConditionalHandleCreate, 0)                                          \
  X(cuGraphAddNode, 12030, cuGraphAddNode_v2, 0)                                                                       \
  X(cuGraphAddNode, 12020, cuGraphAddNode, 0)                                                                          \
  X(cuGraphDestroyNode, 10000, cuGraphDestroyNode, 0)                                                                  \
  X(cuGraphNodeSetParams, 12020, cuGraphNodeSetParams, 0)                                                              \
  X(cuGraphNodeGetParams, 13020, cuGraphNodeGetParams, 0)                                                              \
  X(cuGraphNodeGetType, 10000, cuGraphNodeGetType, 0)                                                                  \
  X(cuGraphNodeFindInClone, 10000, cuGraphNodeFindInClone, 0)                                                          \
  X(cuGraphKernelNodeGetParams, 12000, cuGraphKernelNodeGetParams_v2, 0)                                               \
  X(cuGraphKernelNodeGetAttribute, 11000, cuGraphKernelNodeGetAttribute, 0)                                            \
  X(cuGraphKernelNodeSetAttribute, 11000, cuGraphKernelNodeSetAttribute, 0)                                            \
  X(cuGraphMemcpyNodeGetParams, 10000, cuGraphMemcpyNodeGetParams, 0)                                                  \
  X(cuGraphMemsetNodeGetParams, 10000, cuGraphMemsetNodeGetParams, 0)                                                  \
  X(cuGraphHostNodeGetParams, 10000, cuGraphHostNodeGetParams, 0)                                                      \
  X(cuGraphChildGraphNodeGetGraph, 10000, cuGraphChildGraphNodeGetGraph, 0)                                            \
  X(cuGraphEventRecordNodeGetEvent, 11010, cuGraphEventRecordNodeGetEvent, 0)                                          \
  X(cuGraphEventWaitNodeGetEvent, 11010, cuGraphEventWaitNodeGetEvent, 0)                                              \
  X(cuGraphMemAllocNodeGetParams, 11040, cuGraphMemAllocNodeGetParams, 0)                                              \
  X(cuGraphMemFreeNodeGetParams, 11040, cuGraphMemFreeNodeGetParams, 0)                                                \
  X(cuGraphGetNodes, 10000, cuGraphGetNodes, 0)                                                                        \
  X(cuGraphGetEdges, 12030, cuGraphGetEdges_v2, 0)                                                                     \
  X(cuGraphGetEdges, 10000, cuGraphGetEdges, 0)                                                                        \
  X(cuGraphNodeGetDependencies, 12030, cuGraphNodeGetDependencies_v2, 0)                                               \
  X(cuGraphNodeGetDependencies, 10000, cuGraphNodeGetDependencies, 0)                                                  \
  X(cuGraphNodeGetDependentNodes, 12030, cuGraphNodeGetDependentNodes_v2, 0)                                           \
  X(cuGraphNodeGetDependentNodes, 10000, cuGraphNodeGetDependentNodes, 0)                                              \
  X(cuGraphAddDependencies, 12030, cuGraphAddDependencies_v2, 0)                                                       \
  X(cuGraphAddDependencies, 10000, cuGraphAddDependencies, 0)                                                          \
  X(cuGraphRemoveDependencies, 12030, cuGraphRemoveDependencies_v2, 0)                                                 \
  X(cuGraphRemoveDependencies, 10000, cuGraphRemoveDependencies, 0)                                                    \
  X(cuGraphInstantiateWithParams, 12000, cuGraphInstantiateWithParams, 0)                                              \
  X(cuGraphExecDestroy, 10000, cuGraphExecDestroy, 0)                                                                  \
  X(cuGraphExecUpdate, 12000, cuGraphExecUpdate_v2, 0)                                                                 \
  X(cuGraphExecGetFlags, 12000, cuGraphExecGetFlags, 0)                                                                \
  X(cuGraphExecNodeSetParams, 12020, cuGraphExecNodeSetParams, 0)                                                      \
  X(cuGraphNodeSetEnabled, 11060, cuGraphNodeSetEnabled, 0)                                                            \
  X(cuGraphNodeGetEnabled, 11060, cuGraphNodeGetEnabled, 0)                                                            \
  X(cuGraphUpload, 11010, cuGraphUpload, 0)                                                                            \
  X(cuGraphLaunch, 10000, cuGraphLaunch, 0)

/* cuda.h's macro gives only the newer of these its name. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
/* The library asks for the version that gives the id alone. */
#undef cuStreamGetCaptureInfo
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id);
/* Older and newer versions of the others stand beside each other. */
#undef cuStreamUpdateCaptureDependencies
CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count,
                                                   unsigned flags);
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                           CUgraph *graph, const CUgraphNode **dependencies, size_t *count);
#undef cuGraphAddNode
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
CUresult CUDAAPI cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                                CUgraphNodeParams *params);
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count);
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count);
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count);
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count);
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count);
#undef cuMemcpyBatchAsync
CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *dst, CUdeviceptr *src, size_t *sizes, size_t count,
                                    CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
                                    size_t *failed, CUstream stream);
CUresult CUDAAPI cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end);

/* One number an entry point; both versions of cuEventElapsedTime are the same to the log. */
enum function {
#define NUMBER(name, version, symbol, flags) FN_##symbol,
  ENTRY_POINTS(NUMBER)
#undef NUMBER
      FUNCTIONS
};

/* One CUDA object. Its address is its handle. Objects are never given back to the heap, only to their free list. */
typedef struct object object;
struct object {
  fake_kind kind;
  bool live;
  object *next_free;
  object *context; /* of streams, events, allocations; of green contexts the primary one */
  union {
    struct {
      int device;
      size_t retains, residents;
      uint32_t multiprocessors; /* of a green one */
      uint64_t id;              /* another one each time that a primary one comes to be */
    } ctx;
    struct {
      unsigned flags;
      int priority;
      CUstreamCaptureStatus capture;
      CUstreamCaptureMode mode;
      uint64_t capture_id, capture_thread;
      object *graph;     /* that it is captured into */
      bool makes_graph;  /* which the capture began */
      CUgraphNode *last; /* what the next captured work comes behind */
      size_t last_count;
    } stream;
    struct {
      unsigned flags;
      bool imported;
      bool recorded;
      struct timespec time;
    } event;
    struct {
      int device;
      bool is_default;
      CUmemPoolProps props;
      cuuint64_t attributes[16];
      size_t used, used_high, allocations;
      CUmemAccess_flags access[DEVICES];
      object *source, *import; /* whose import it is; its own import */
      size_t imports;
    } pool;
    struct {
      enum { POOL_MEMORY, DEVICE_MEMORY, HOST_MEMORY } origin;
      CUdeviceptr base;
      size_t size, capacity;
      object *pool;
      uint64_t capture_id;     /* that it was allocated in */
      object *source, *import; /* whose import it is; its own import */
      uint64_t thread;         /* on whose default stream it was allocated */
    } memory;
    struct { /* reserved, or mapped */
      CUdeviceptr base;
      size_t size;
      object *physical;
    } addresses;
    struct {
      size_t size, handles, mappings;
    } physical;
    struct {
      object **kernels;
      unsigned count;
      CUresult broken; /* what the deferred load of a bad image comes to */
    } library;
    struct {
      object *library;
      char *name;
      struct signature *signature;
      int shared_limits[DEVICES]; /* that were set; 0: as it came */
    } kernel;
    struct fake_graph *graph;
    struct fake_node *node;
    struct {
      object *graph; /* a copy of what was instantiated */
      cuuint64_t flags;
    } exec;
    struct {
      void *data;
      CUhostFn destroy;
      size_t references;
    } user;
  } u;
};

typedef struct freed_block freed_block;

typedef struct chunk {
  struct chunk *next;
  object objects[CHUNK];
} chunk;

/* Where the parameters of a kernel lie in its argument block, which ends at `end`. */
struct signature {
  size_t count, end;
  struct {
    size_t offset, size;
  } params[];
};

/* One lock guards everything. */
struct state {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool initialised;
  pid_t process; /* that called cuInit */
  chunk *chunks[FAKE_KIND_COUNT];
  object *free[FAKE_KIND_COUNT];
  size_t live[FAKE_KIND_COUNT];
  object contexts[DEVICES];
  object pools[DEVICES + 1]; /* the devices', and the host's */
  freed_block *freed;
  size_t memory_used;
  size_t calls[FUNCTIONS];
  size_t total_calls;
  fake_call log[MAX_LOG];
  size_t logged;
  size_t violations;
  char last_violation[256];
  struct failure {
    const char *name; /* NULL: any */
    unsigned countdown;
    bool every;
    CUresult result;
  } failures[MAX_FAILURES];
  size_t failure_count;
  bool hidden[FUNCTIONS];
  bool held[FUNCTIONS];
  size_t waiting[FUNCTIONS];
  bool launched;
  fake_launch last_launch;
};

extern struct state state;

/* The calling thread's context stack. */
extern _Thread_local object *stack[MAX_DEPTH];
extern _Thread_local int depth;

/* Takes the lock, logs the call, waits where it is held, and says whether the call may go on. */
CUresult enter(enum function function);
/* Logs the result, gives the lock back, and returns the result. */
CUresult leave(CUresult result);

#define ENTER(symbol)                                                                                                  \
  do {                                                                                                                 \
    CUresult refused = enter(FN_##symbol);                                                                             \
    if (refused != CUDA_SUCCESS)                                                                                       \
      return leave(refused);                                                                                           \
  } while (0)

/* Leaves with a failure of `expression`, if it has one. */
#define TRY(expression)                                                                                                \
  do {                                                                                                                 \
    CUresult failed = (expression);                                                                                    \
    if (failed != CUDA_SUCCESS)                                                                                        \
      return leave(failed);                                                                                            \
  } while (0)

/* Notes a misuse by the current call. */
__attribute__((format(printf, 1, 2))) void violate(const char *format, ...);

/* An object at the address that was freed last; NULL when memory ran out. */
object *new_object(fake_kind kind);
void end_object(object *o);
void bind_to_context(object *o, object *context);

/* The object behind a handle, if it is alive, and its context as well. */
CUresult find_object(object **out, fake_kind kind, const void *handle);
CUresult current_context(object **out);
object *home_of(object *context); /* of a green context the primary one, whose events are its own */
CUresult make_stream(CUstream *out, object *context, unsigned flags, int priority);
CUresult check_context(object *context);
CUresult check_device(CUdevice device);
CUresult pointer_attribute(void *out, CUpointer_attribute attribute, CUdeviceptr ptr);
/* A stream and its context; the default streams mean the current one, and *out is NULL for them. */
CUresult find_stream(object **out, object **context, CUstream handle);

/* What a call that waits, frees or allocates does to captures in its way: it is refused, and they are invalid. */
CUresult check_captures(void);
/* The capture that a call on this stream becomes a part of (NULL: none), with which the legacy stream cannot do. */
CUresult find_capture(object **out, object *stream, CUstream handle);

/* fakecuda_memory.c: memory of no pool yet; the live allocation that an address lies in, or NULL. */
CUresult allocate(object **out, size_t size);
object *allocation_of(CUdeviceptr ptr);

/* What a launch asks for, as fake_last_launch tells it. */
CUresult take_attributes(fake_launch *launch, const CUlaunchConfig *config);
CUresult take_arguments(fake_launch *launch, const struct signature *signature, void **params, void **extra);

/* fakecuda_graph.c: an empty graph; the end of one; a kernel node for a launch into a capture, behind what is there. */
object *new_graph(void);
void end_graph(object *graph);
CUresult capture_launch(object *stream, const CUlaunchConfig *config, object *kernel, const fake_launch *launch);
CUresult capture_graph(object *stream, object *graph);
/* The destructors of user objects that have died, run on a thread where CUDA is forbidden; then as leave(). */
CUresult leave_with_destructors(CUresult result);

#pragma GCC visibility pop

#endif
