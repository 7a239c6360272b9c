/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_DRIVER_TABLE_H
#define CUDACORE_DRIVER_TABLE_H

/* The entry points of the driver, and the macros that call them. */

#include "base/errors.h"
#include "base/process.h"

#include <cuda.h>
#include <cudaTypedefs.h>

/* Every entry point that the library uses, with the CUDA version of the ABI that it was written for. */
#define CCH__DRIVER_FUNCTIONS(X)                                                                                       \
  X(cuInit, 2000)                                                                                                      \
  X(cuGetErrorName, 6000)                                                                                              \
  X(cuGetErrorString, 6000)                                                                                            \
  X(cuDriverGetVersion, 2020)                                                                                          \
  X(cuDeviceGetCount, 2000)                                                                                            \
  X(cuDeviceGet, 2000)                                                                                                 \
  X(cuDeviceGetAttribute, 2000)                                                                                        \
  X(cuDeviceGetName, 2000)                                                                                             \
  X(cuDeviceGetUuid, 11040)                                                                                            \
  X(cuDeviceGetPCIBusId, 4010)                                                                                         \
  X(cuDeviceCanAccessPeer, 4000)                                                                                       \
  X(cuCheckpointProcessGetState, 12080)                                                                                \
  X(cuCheckpointProcessGetRestoreThreadId, 12080)                                                                      \
  X(cuCheckpointProcessLock, 12080)                                                                                    \
  X(cuCheckpointProcessCheckpoint, 12080)                                                                              \
  X(cuCheckpointProcessRestore, 12080)                                                                                 \
  X(cuCheckpointProcessUnlock, 12080)                                                                                  \
  X(cuDeviceGetDevResource, 12040)                                                                                     \
  X(cuDevSmResourceSplitByCount, 12040)                                                                                \
  X(cuDevSmResourceSplit, 13010)                                                                                       \
  X(cuDevResourceGenerateDesc, 12040)                                                                                  \
  X(cuDevicePrimaryCtxGetState, 7000)                                                                                  \
  X(cuDevicePrimaryCtxRetain, 7000)                                                                                    \
  X(cuDevicePrimaryCtxRelease, 11000)                                                                                  \
  X(cuCtxGetCurrent, 4000)                                                                                             \
  X(cuCtxGetId, 12000)                                                                                                 \
  X(cuCtxSetCurrent, 4000)                                                                                             \
  X(cuCtxGetDevice, 2000)                                                                                              \
  X(cuCtxGetStreamPriorityRange, 5050)                                                                                 \
  X(cuCtxRecordEvent, 12050)                                                                                           \
  X(cuCtxSynchronize, 2000)                                                                                            \
  X(cuCtxGetDevResource, 12040)                                                                                        \
  X(cuCtxFromGreenCtx, 12040)                                                                                          \
  X(cuGreenCtxCreate, 12040)                                                                                           \
  X(cuGreenCtxDestroy, 12040)                                                                                          \
  X(cuGreenCtxGetDevResource, 12040)                                                                                   \
  X(cuGreenCtxStreamCreate, 12050)                                                                                     \
  X(cuStreamCreateWithPriority, 5050)                                                                                  \
  X(cuStreamDestroy, 4000)                                                                                             \
  X(cuStreamGetCtx, 9020)                                                                                              \
  X(cuStreamGetGreenCtx, 12040)                                                                                        \
  X(cuStreamGetFlags, 5050)                                                                                            \
  X(cuStreamGetPriority, 5050)                                                                                         \
  X(cuStreamQuery, 2000)                                                                                               \
  X(cuStreamSynchronize, 2000)                                                                                         \
  X(cuStreamIsCapturing, 10000)                                                                                        \
  X(cuStreamGetCaptureInfo, 10010)                                                                                     \
  X(cuThreadExchangeStreamCaptureMode, 10010)                                                                          \
  X(cuStreamWaitEvent, 3020)                                                                                           \
  X(cuEventCreate, 2000)                                                                                               \
  X(cuEventDestroy, 4000)                                                                                              \
  X(cuEventRecord, 2000)                                                                                               \
  X(cuEventQuery, 2000)                                                                                                \
  X(cuEventSynchronize, 2000)                                                                                          \
  X(cuEventElapsedTime, 12080)                                                                                         \
  X(cuMemPoolCreate, 11020)                                                                                            \
  X(cuMemPoolDestroy, 11020)                                                                                           \
  X(cuDeviceGetMemPool, 11020)                                                                                         \
  X(cuMemPoolGetAttribute, 11020)                                                                                      \
  X(cuMemPoolSetAttribute, 11020)                                                                                      \
  X(cuMemPoolGetAccess, 11020)                                                                                         \
  X(cuMemPoolSetAccess, 11020)                                                                                         \
  X(cuMemPoolExportToShareableHandle, 11020)                                                                           \
  X(cuMemPoolImportFromShareableHandle, 11020)                                                                         \
  X(cuMemPoolExportPointer, 11020)                                                                                     \
  X(cuMemPoolImportPointer, 11020)                                                                                     \
  X(cuIpcGetEventHandle, 4010)                                                                                         \
  X(cuIpcOpenEventHandle, 4010)                                                                                        \
  X(cuMemAllocFromPoolAsync, 11020)                                                                                    \
  X(cuMemFreeAsync, 11020)                                                                                             \
  X(cuMemGetInfo, 3020)                                                                                                \
  X(cuMemAlloc, 3020)                                                                                                  \
  X(cuMemFree, 3020)                                                                                                   \
  X(cuMemHostAlloc, 2020)                                                                                              \
  X(cuMemFreeHost, 2000)                                                                                               \
  X(cuMemHostRegister, 6050)                                                                                           \
  X(cuMemHostUnregister, 4000)                                                                                         \
  X(cuMemAllocManaged, 6000)                                                                                           \
  X(cuMemGetMemPool, 13000)                                                                                            \
  X(cuMemPoolTrimTo, 11020)                                                                                            \
  X(cuMemAddressReserve, 10020)                                                                                        \
  X(cuMemAddressFree, 10020)                                                                                           \
  X(cuMemCreate, 10020)                                                                                                \
  X(cuMemRelease, 10020)                                                                                               \
  X(cuMemMap, 10020)                                                                                                   \
  X(cuMemUnmap, 10020)                                                                                                 \
  X(cuMemGetAccess, 10020)                                                                                             \
  X(cuMemSetAccess, 10020)                                                                                             \
  X(cuMemRetainAllocationHandle, 11000)                                                                                \
  X(cuMemExportToShareableHandle, 10020)                                                                               \
  X(cuMemImportFromShareableHandle, 10020)                                                                             \
  X(cuMemGetAllocationPropertiesFromHandle, 10020)                                                                     \
  X(cuMemGetAllocationGranularity, 10020)                                                                              \
  X(cuGraphicsGLRegisterBuffer, 3000)                                                                                  \
  X(cuGraphicsGLRegisterImage, 3000)                                                                                   \
  X(cuGraphicsUnregisterResource, 3000)                                                                                \
  X(cuGraphicsMapResources, 3000)                                                                                      \
  X(cuGraphicsUnmapResources, 3000)                                                                                    \
  X(cuGraphicsResourceGetMappedPointer, 3020)                                                                          \
  X(cuMemAdvise, 12020)                                                                                                \
  X(cuMemRangeGetAttribute, 8000)                                                                                      \
  X(cuMemPrefetchAsync, 12020)                                                                                         \
  X(cuMemPrefetchBatchAsync, 13000)                                                                                    \
  X(cuMemDiscardBatchAsync, 13000)                                                                                     \
  X(cuMemDiscardAndPrefetchBatchAsync, 13000)                                                                          \
  X(cuMemcpyBatchAsync, 12080)                                                                                         \
  X(cuMemcpy3DAsync, 3020)                                                                                             \
  X(cuArray3DCreate, 3020)                                                                                             \
  X(cuArray3DGetDescriptor, 3020)                                                                                      \
  X(cuArrayDestroy, 2000)                                                                                              \
  X(cuMipmappedArrayCreate, 5000)                                                                                      \
  X(cuMipmappedArrayGetLevel, 5000)                                                                                    \
  X(cuMipmappedArrayDestroy, 5000)                                                                                     \
  X(cuDeviceGetTexture1DLinearMaxWidth, 11010)                                                                         \
  X(cuTexObjectCreate, 5000)                                                                                           \
  X(cuTexObjectDestroy, 5000)                                                                                          \
  X(cuSurfObjectCreate, 5000)                                                                                          \
  X(cuSurfObjectDestroy, 5000)                                                                                         \
  X(cuMemcpyAsync, 4000)                                                                                               \
  X(cuMemcpyPeerAsync, 4000)                                                                                           \
  X(cuMemcpy3DPeerAsync, 4000)                                                                                         \
  X(cuMemsetD8Async, 3020)                                                                                             \
  X(cuMemsetD16Async, 3020)                                                                                            \
  X(cuMemsetD2D32Async, 3020)                                                                                          \
  X(cuMemsetD32Async, 3020)                                                                                            \
  X(cuPointerGetAttribute, 4000)                                                                                       \
  X(cuPointerGetAttributes, 7000)                                                                                      \
  X(cuLaunchHostFunc, 10000)                                                                                           \
  X(cuTensorMapEncodeTiled, 12000)                                                                                     \
  X(cuTensorMapEncodeIm2col, 12000)                                                                                    \
  X(cuTensorMapEncodeIm2colWide, 12080)                                                                                \
  X(cuLibraryLoadData, 12000)                                                                                          \
  X(cuLibraryUnload, 12000)                                                                                            \
  X(cuLibraryGetKernel, 12000)                                                                                         \
  X(cuLibraryGetGlobal, 12000)                                                                                         \
  X(cuLibraryGetModule, 12000)                                                                                         \
  X(cuLibraryGetKernelCount, 12040)                                                                                    \
  X(cuLibraryEnumerateKernels, 12040)                                                                                  \
  X(cuModuleLoadDataEx, 2010)                                                                                          \
  X(cuModuleUnload, 2000)                                                                                              \
  X(cuLinkCreate, 6050)                                                                                                \
  X(cuLinkAddData, 6050)                                                                                               \
  X(cuLinkComplete, 5050)                                                                                              \
  X(cuLinkDestroy, 5050)                                                                                               \
  X(cuKernelGetName, 12030)                                                                                            \
  X(cuKernelGetLibrary, 12050)                                                                                         \
  X(cuKernelGetParamInfo, 12040)                                                                                       \
  X(cuKernelGetAttribute, 12000)                                                                                       \
  X(cuKernelSetAttribute, 12000)                                                                                       \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050)                                                                 \
  X(cuOccupancyMaxPotentialBlockSize, 6050)                                                                            \
  X(cuOccupancyAvailableDynamicSMemPerBlock, 10020)                                                                    \
  X(cuOccupancyMaxPotentialClusterSize, 11070)                                                                         \
  X(cuOccupancyMaxActiveClusters, 11070)                                                                               \
  X(cuLaunchKernelEx, 11060)                                                                                           \
  X(cuUserObjectCreate, 11030)                                                                                         \
  X(cuUserObjectRelease, 11030)                                                                                        \
  X(cuGraphRetainUserObject, 11030)                                                                                    \
  X(cuGraphReleaseUserObject, 11030)                                                                                   \
  X(cuGraphCreate, 10000)                                                                                              \
  X(cuGraphDestroy, 10000)                                                                                             \
  X(cuGraphClone, 10000)                                                                                               \
  X(cuGraphDebugDotPrint, 11030)                                                                                       \
  X(cuDeviceGetGraphMemAttribute, 11040)                                                                               \
  X(cuDeviceSetGraphMemAttribute, 11040)                                                                               \
  X(cuDeviceGraphMemTrim, 11040)                                                                                       \
  X(cuGraphConditionalHandleCreate, 12030)                                                                             \
  X(cuGraphAddNode, 12020)                                                                                             \
  X(cuGraphDestroyNode, 10000)                                                                                         \
  X(cuGraphNodeSetParams, 12020)                                                                                       \
  X(cuGraphNodeGetParams, 13020)                                                                                       \
  X(cuGraphNodeGetType, 10000)                                                                                         \
  X(cuGraphNodeFindInClone, 10000)                                                                                     \
  X(cuGraphKernelNodeGetParams, 12000)                                                                                 \
  X(cuGraphKernelNodeGetAttribute, 11000)                                                                              \
  X(cuGraphKernelNodeSetAttribute, 11000)                                                                              \
  X(cuGraphMemcpyNodeGetParams, 10000)                                                                                 \
  X(cuGraphMemsetNodeGetParams, 10000)                                                                                 \
  X(cuGraphHostNodeGetParams, 10000)                                                                                   \
  X(cuGraphChildGraphNodeGetGraph, 10000)                                                                              \
  X(cuGraphEventRecordNodeGetEvent, 11010)                                                                             \
  X(cuGraphEventWaitNodeGetEvent, 11010)                                                                               \
  X(cuGraphMemAllocNodeGetParams, 11040)                                                                               \
  X(cuGraphMemFreeNodeGetParams, 11040)                                                                                \
  X(cuGraphGetNodes, 10000)                                                                                            \
  X(cuGraphGetEdges, 10000)                                                                                            \
  X(cuGraphNodeGetDependencies, 10000)                                                                                 \
  X(cuGraphNodeGetDependentNodes, 10000)                                                                               \
  X(cuGraphAddDependencies, 10000)                                                                                     \
  X(cuGraphRemoveDependencies, 10000)                                                                                  \
  X(cuGraphInstantiateWithParams, 12000)                                                                               \
  X(cuGraphExecDestroy, 10000)                                                                                         \
  X(cuGraphExecUpdate, 12000)                                                                                          \
  X(cuGraphExecNodeSetParams, 12020)                                                                                   \
  X(cuGraphNodeSetEnabled, 11060)                                                                                      \
  X(cuGraphNodeGetEnabled, 11060)                                                                                      \
  X(cuGraphUpload, 11010)                                                                                              \
  X(cuGraphLaunch, 10000)                                                                                              \
  X(cuStreamBeginCapture, 10010)                                                                                       \
  X(cuStreamBeginCaptureToGraph, 12030)                                                                                \
  X(cuStreamEndCapture, 10000)                                                                                         \
  X(cuStreamUpdateCaptureDependencies, 11030)

/*
 * Newer versions of some entry points, which accept or return more. They are used if the driver has them. The names of
 * their fields in the table end with the version number.
 */
#define CCH__NEWER_FUNCTIONS(X)                                                                                        \
  X(cuGraphAddNode, 12030)                                                                                             \
  X(cuGraphGetEdges, 12030)                                                                                            \
  X(cuGraphNodeGetDependencies, 12030)                                                                                 \
  X(cuGraphNodeGetDependentNodes, 12030)                                                                               \
  X(cuGraphAddDependencies, 12030)                                                                                     \
  X(cuGraphRemoveDependencies, 12030)                                                                                  \
  X(cuMemcpyBatchAsync, 13000)                                                                                         \
  X(cuStreamGetCaptureInfo, 11030)                                                                                     \
  X(cuStreamGetCaptureInfo, 12030)

/* Functions of drivers before 12.2 that newer functions replace. They are only looked up in such drivers. */
#define CCH__OLDER_FUNCTIONS(X)                                                                                        \
  X(cuGraphAddKernelNode, 12000)                                                                                       \
  X(cuGraphAddMemcpyNode, 10000)                                                                                       \
  X(cuGraphAddMemsetNode, 10000)                                                                                       \
  X(cuGraphAddHostNode, 10000)                                                                                         \
  X(cuGraphAddChildGraphNode, 10000)                                                                                   \
  X(cuGraphAddEmptyNode, 10000)                                                                                        \
  X(cuGraphAddEventRecordNode, 11010)                                                                                  \
  X(cuGraphAddEventWaitNode, 11010)                                                                                    \
  X(cuGraphAddMemAllocNode, 11040)                                                                                     \
  X(cuGraphAddMemFreeNode, 11040)                                                                                      \
  X(cuGraphKernelNodeSetParams, 12000)                                                                                 \
  X(cuGraphMemcpyNodeSetParams, 10000)                                                                                 \
  X(cuGraphMemsetNodeSetParams, 10000)                                                                                 \
  X(cuGraphHostNodeSetParams, 10000)                                                                                   \
  X(cuGraphEventRecordNodeSetEvent, 11010)                                                                             \
  X(cuGraphEventWaitNodeSetEvent, 11010)                                                                               \
  X(cuGraphExecKernelNodeSetParams, 12000)                                                                             \
  X(cuGraphExecMemcpyNodeSetParams, 10020)                                                                             \
  X(cuGraphExecMemsetNodeSetParams, 10020)                                                                             \
  X(cuGraphExecHostNodeSetParams, 10020)                                                                               \
  X(cuGraphExecChildGraphNodeSetParams, 11010)                                                                         \
  X(cuGraphExecEventRecordNodeSetEvent, 11010)                                                                         \
  X(cuGraphExecEventWaitNodeSetEvent, 11010)                                                                           \
  X(cuMemAdvise, 8000)                                                                                                 \
  X(cuMemPrefetchAsync, 8000)

/*
 * cuda.h renames some functions by macros, such as cuMemFree to cuMemFree_v2. In the types PFN_* and in messages, the
 * name is pasted or made a string, and the macro must not be expanded. In the table and in its uses, the macro is
 * expanded, so that both have the same name.
 */

/* Declared in cudaGL.h, which needs the headers of OpenGL. */
typedef CUresult(CUDAAPI *PFN_cuGraphicsGLRegisterBuffer_v3000)(CUgraphicsResource *pCudaResource, unsigned int buffer,
                                                                unsigned int Flags);
typedef CUresult(CUDAAPI *PFN_cuGraphicsGLRegisterImage_v3000)(CUgraphicsResource *pCudaResource, unsigned int image,
                                                               unsigned int target, unsigned int Flags);

/* Types that are missing in the oldest CUDA headers with which the library can be built. */
#if CUDA_VERSION < 13010
typedef struct CU_DEV_SM_RESOURCE_GROUP_PARAMS_st {
  unsigned smCount, coscheduledSmCount, preferredCoscheduledSmCount, flags, reserved[12];
} CU_DEV_SM_RESOURCE_GROUP_PARAMS;
typedef CUresult(CUDAAPI *PFN_cuDevSmResourceSplit_v13010)(CUdevResource *result, unsigned int nbGroups,
                                                           const CUdevResource *input, CUdevResource *remainder,
                                                           unsigned int flags,
                                                           CU_DEV_SM_RESOURCE_GROUP_PARAMS *groupParams);
#endif
typedef CUresult(CUDAAPI *PFN_cuGraphNodeGetParams_v13020)(CUgraphNode hNode, CUgraphNodeParams *nodeParams);

typedef struct cch__driver_table {
#define CCH__FIELD(name, version) PFN_##name##_v##version name;
  CCH__DRIVER_FUNCTIONS(CCH__FIELD)
#undef CCH__FIELD
#define CCH__FIELD(name, version) PFN_##name##_v##version name##_v##version;
  CCH__NEWER_FUNCTIONS(CCH__FIELD)
#undef CCH__FIELD
} cch__driver_table;

extern cch__driver_table cch__driver;

typedef struct cch__older_table {
#define CCH__FIELD(name, version) PFN_##name##_v##version name;
  CCH__OLDER_FUNCTIONS(CCH__FIELD)
#undef CCH__FIELD
} cch__older_table;

extern cch__older_table cch__older;

/*
 * Returns an entry point with the ABI of a version of CUDA; NULL if the driver does not have it. The driver must be
 * loaded.
 */
void *cch__driver_entry(const char *name, int version);

/*
 * Finds the older functions that this driver needs, and stores their replacements in empty places of the table:
 * older_driver.c.
 */
void cch__stand_in(void);

/* Returns whether the table is filled. For functions that may run before, or without, cch_driver_init(). */
bool cch__driver_loaded(void);

/*
 * What a driver can offer beyond CUDA, by an exported function `const cch__driver_hooks *cudacoreDriverHooks(void)`.
 * docs/simulator/extending.rst describes it.
 */
typedef struct cch__driver_hooks {
  size_t size; /* of the structure that the driver has */
  size_t (*explain)(char *out, size_t size);
  void *(*symbol)(void *library, const char *name, void *(*look_up)(void *library, const char *name));
} cch__driver_hooks;

/*
 * Returns the hooks of the driver that is loaded, or that $CUDACORE_DRIVER selects; NULL if it has none. Callers do not
 * need a driver, so this loads none but one that a package contains, which stays open.
 */
const cch__driver_hooks *cch__driver_find_hooks(void);

/*
 * Returns the driver's name for a result, and the meaning of the result; NULL if no driver is loaded or it does not
 * define the result.
 */
const char *cch__driver_error_name(int result);
const char *cch__driver_error_string(int result);

/*
 * Returns the name of the function that failed: `operation`, or the older function that replaces it. Call it once,
 * directly after the failure.
 */
const char *cch__really_called(const char *operation);

/* Record that the driver does not have a function, and return CCH_ENOSYMBOL. */
int cch__fail_missing(const char *operation);
int cch__fail_missing_version(const char *operation, int needed); /* a CUDA version, such as 12030 */

static inline int cch__checked(int result, const char *operation) {
  return result == 0 ? 0 : cch__fail_driver(result, operation);
}

/* CCH__CALL(cuEventCreate, (&raw, flags)) calls the driver. It is 0 or a recorded failure. */
#define CCH__CALL(name, arguments)                                                                                     \
  (cch__driver.name ? cch__checked((int)cch__driver.name arguments, #name) : cch__fail_missing(#name))

/* Declares the driver's number of the device with an ordinal; returns from the function if there is no such device. */
#define CCH__FIND_DEVICE(raw, device)                                                                                  \
  CUdevice raw;                                                                                                        \
  CCH__RETURN_FAILURE(CCH__CALL(cuDeviceGet, (&raw, device)))

/*
 * Calls an older function, as CCH__CALL() calls those of the table. If the driver does not have the function, the
 * result is CCH_ENOSYMBOL, and nothing is recorded.
 */
#define CCH__OLDER(name, arguments)                                                                                    \
  (cch__older.name ? cch__checked((int)cch__older.name arguments, #name) : CCH_ENOSYMBOL)

#endif
