/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in the driver's table for functions that drivers of CUDA 12.0 and 12.1 lack, and that older functions can
 * do as well: nodes of any type by those of each type, and advice and prefetches by those that only know devices.
 */
#include "driver/driver_table.h"

#include <string.h>

/* The older functions, with the CUDA version of the ABI. They are only looked for where they are needed. */
#define OLDER_FUNCTIONS(X)                                                                                             \
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

static struct {
#define FIELD(name, version) PFN_##name##_v##version name;
  OLDER_FUNCTIONS(FIELD)
#undef FIELD
} older;

/* The driver's function itself is needed: cch__fail_driver() says so. */
#define TOO_OLD ((CUresult)CCH_ENOSYMBOL)

#define OLDER(name, arguments) (older.name != NULL ? checked(older.name arguments, #name) : TOO_OLD)

/* The function that failed on this thread just now, in place of the newer one that the caller knows of. */
static _Thread_local const char *failed;

static CUresult checked(CUresult result, const char *name) {
  if (result != CUDA_SUCCESS)
    failed = name;
  return result;
}

const char *cch__really_called(const char *operation) {
  const char *name = failed != NULL ? failed : operation;
  failed = NULL;
  return name;
}

/* ---- nodes of graphs ---- */

static CUDA_KERNEL_NODE_PARAMS_v2 kernel_of(const CUgraphNodeParams *params) {
  const CUDA_KERNEL_NODE_PARAMS_v3 *kernel = &params->kernel;
  return (CUDA_KERNEL_NODE_PARAMS_v2){.func = kernel->func,
                                      .gridDimX = kernel->gridDimX,
                                      .gridDimY = kernel->gridDimY,
                                      .gridDimZ = kernel->gridDimZ,
                                      .blockDimX = kernel->blockDimX,
                                      .blockDimY = kernel->blockDimY,
                                      .blockDimZ = kernel->blockDimZ,
                                      .sharedMemBytes = kernel->sharedMemBytes,
                                      .kernelParams = kernel->kernelParams,
                                      .extra = kernel->extra,
                                      .kern = kernel->kern,
                                      .ctx = kernel->ctx};
}

static CUDA_MEMSET_NODE_PARAMS_v1 memset_of(const CUgraphNodeParams *params) {
  const CUDA_MEMSET_NODE_PARAMS_v2 *fill = &params->memset;
  return (CUDA_MEMSET_NODE_PARAMS_v1){.dst = fill->dst,
                                      .pitch = fill->pitch,
                                      .value = fill->value,
                                      .elementSize = fill->elementSize,
                                      .width = fill->width,
                                      .height = fill->height};
}

static CUDA_HOST_NODE_PARAMS_v1 host_of(const CUgraphNodeParams *params) {
  return (CUDA_HOST_NODE_PARAMS_v1){.fn = params->host.fn, .userData = params->host.userData};
}

static CUresult add_alloc(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                          CUDA_MEM_ALLOC_NODE_PARAMS_v2 *alloc) {
  CUDA_MEM_ALLOC_NODE_PARAMS_v1 native = {.poolProps = alloc->poolProps,
                                          .accessDescs = alloc->accessDescs,
                                          .accessDescCount = alloc->accessDescCount,
                                          .bytesize = alloc->bytesize};
  CUresult result = OLDER(cuGraphAddMemAllocNode, (out, graph, before, count, &native));
  if (result == CUDA_SUCCESS)
    alloc->dptr = native.dptr;
  return result;
}

static CUresult CUDAAPI add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                                 CUgraphNodeParams *params) {
  switch (params->type) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    const CUDA_KERNEL_NODE_PARAMS_v2 kernel = kernel_of(params);
    return OLDER(cuGraphAddKernelNode, (out, graph, before, count, &kernel));
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return OLDER(cuGraphAddMemcpyNode, (out, graph, before, count, &params->memcpy.copyParams, params->memcpy.copyCtx));
  case CU_GRAPH_NODE_TYPE_MEMSET: {
    const CUDA_MEMSET_NODE_PARAMS_v1 fill = memset_of(params);
    return OLDER(cuGraphAddMemsetNode, (out, graph, before, count, &fill, params->memset.ctx));
  }
  case CU_GRAPH_NODE_TYPE_HOST: {
    const CUDA_HOST_NODE_PARAMS_v1 host = host_of(params);
    return OLDER(cuGraphAddHostNode, (out, graph, before, count, &host));
  }
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return OLDER(cuGraphAddChildGraphNode, (out, graph, before, count, params->graph.graph));
  case CU_GRAPH_NODE_TYPE_EMPTY:
    return OLDER(cuGraphAddEmptyNode, (out, graph, before, count));
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return OLDER(cuGraphAddEventRecordNode, (out, graph, before, count, params->eventRecord.event));
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return OLDER(cuGraphAddEventWaitNode, (out, graph, before, count, params->eventWait.event));
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    return add_alloc(out, graph, before, count, &params->alloc);
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    return OLDER(cuGraphAddMemFreeNode, (out, graph, before, count, params->free.dptr));
  default:
    return TOO_OLD;
  }
}

static CUresult CUDAAPI set_params(CUgraphNode node, CUgraphNodeParams *params) {
  switch (params->type) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    const CUDA_KERNEL_NODE_PARAMS_v2 kernel = kernel_of(params);
    return OLDER(cuGraphKernelNodeSetParams, (node, &kernel));
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return OLDER(cuGraphMemcpyNodeSetParams, (node, &params->memcpy.copyParams));
  case CU_GRAPH_NODE_TYPE_MEMSET: {
    const CUDA_MEMSET_NODE_PARAMS_v1 fill = memset_of(params);
    return OLDER(cuGraphMemsetNodeSetParams, (node, &fill));
  }
  case CU_GRAPH_NODE_TYPE_HOST: {
    const CUDA_HOST_NODE_PARAMS_v1 host = host_of(params);
    return OLDER(cuGraphHostNodeSetParams, (node, &host));
  }
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return OLDER(cuGraphEventRecordNodeSetEvent, (node, params->eventRecord.event));
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return OLDER(cuGraphEventWaitNodeSetEvent, (node, params->eventWait.event));
  default:
    return TOO_OLD;
  }
}

static CUresult CUDAAPI exec_set_params(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params) {
  switch (params->type) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    const CUDA_KERNEL_NODE_PARAMS_v2 kernel = kernel_of(params);
    return OLDER(cuGraphExecKernelNodeSetParams, (exec, node, &kernel));
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return OLDER(cuGraphExecMemcpyNodeSetParams, (exec, node, &params->memcpy.copyParams, params->memcpy.copyCtx));
  case CU_GRAPH_NODE_TYPE_MEMSET: {
    const CUDA_MEMSET_NODE_PARAMS_v1 fill = memset_of(params);
    return OLDER(cuGraphExecMemsetNodeSetParams, (exec, node, &fill, params->memset.ctx));
  }
  case CU_GRAPH_NODE_TYPE_HOST: {
    const CUDA_HOST_NODE_PARAMS_v1 host = host_of(params);
    return OLDER(cuGraphExecHostNodeSetParams, (exec, node, &host));
  }
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return OLDER(cuGraphExecChildGraphNodeSetParams, (exec, node, params->graph.graph));
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return OLDER(cuGraphExecEventRecordNodeSetEvent, (exec, node, params->eventRecord.event));
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return OLDER(cuGraphExecEventWaitNodeSetEvent, (exec, node, params->eventWait.event));
  default:
    return TOO_OLD;
  }
}

/* ---- managed memory ---- */

/* The device that stands for a place: the host is one, too, but not one of its nodes. */
static CUresult device_of(CUdevice *out, CUmemLocation location) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE && location.type != CU_MEM_LOCATION_TYPE_HOST)
    return TOO_OLD;
  *out = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI advise(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location) {
  CUdevice device;
  CUresult result = device_of(&device, location);
  return result != CUDA_SUCCESS ? result : OLDER(cuMemAdvise, (address, size, advice, device));
}

static CUresult CUDAAPI prefetch(CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags,
                                 CUstream stream) {
  CUdevice device;
  CUresult result = device_of(&device, location);
  (void)flags;
  return result != CUDA_SUCCESS ? result : OLDER(cuMemPrefetchAsync, (address, size, device, stream));
}

void cch__stand_in(void) {
  if (cch__driver.cuGraphAddNode != NULL && cch__driver.cuMemAdvise != NULL)
    return; /* both came with 12.2 */
  void *entry;
#define RESOLVE(name, version)                                                                                         \
  entry = cch__driver_entry(#name, version);                                                                           \
  memcpy(&older.name, &entry, sizeof entry);
  OLDER_FUNCTIONS(RESOLVE)
#undef RESOLVE
  if (cch__driver.cuGraphAddNode == NULL && older.cuGraphAddKernelNode != NULL) {
    cch__driver.cuGraphAddNode = add_node;
    cch__driver.cuGraphNodeSetParams = set_params;
    cch__driver.cuGraphExecNodeSetParams = exec_set_params;
  }
  if (cch__driver.cuMemAdvise == NULL && older.cuMemAdvise != NULL) {
    cch__driver.cuMemAdvise = advise;
    cch__driver.cuMemPrefetchAsync = prefetch;
  }
}
