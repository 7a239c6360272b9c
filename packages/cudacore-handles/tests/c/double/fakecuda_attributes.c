/* SPDX-License-Identifier: Apache-2.0 */
/* What the double says of devices, kernels, pools and addresses when it is asked. */
#include "double/fakecuda_internal.h"

#include <stdio.h>

#define MULTIPROCESSORS 132
#define THREADS_PER_MULTIPROCESSOR 2048
#define THREADS_PER_BLOCK 1024
#define SHARED_PER_MULTIPROCESSOR 233472
#define SHARED_PER_BLOCK 49152
#define SHARED_PER_BLOCK_OPTIN 232448
#define BLOCKS_PER_CLUSTER 8

/* ---- devices ----------------------------------------------------------------------------------------------------- */

CUresult CUDAAPI cuDeviceGetName(char *out, int size, CUdevice device) {
  ENTER(cuDeviceGetName);
  TRY(check_device(device));
  snprintf(out, (size_t)size, "Double %d", device);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *out, CUdevice device) {
  ENTER(cuDeviceGetUuid_v2);
  TRY(check_device(device));
  for (int i = 0; i < 16; i++)
    out->bytes[i] = (char)(0xf0 + i - device);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *out, int size, CUdevice device) {
  ENTER(cuDeviceGetPCIBusId);
  TRY(check_device(device));
  if (size < 13)
    return leave(CUDA_ERROR_INVALID_VALUE);
  snprintf(out, (size_t)size, "0000:%02X:00.0", device + 1);
  return leave(CUDA_SUCCESS);
}

/* Only the second device reaches the first: what is asked the wrong way round shows. */
CUresult CUDAAPI cuDeviceCanAccessPeer(int *out, CUdevice device, CUdevice peer) {
  ENTER(cuDeviceCanAccessPeer);
  TRY(check_device(device));
  TRY(check_device(peer));
  *out = device == 1 && peer == 0;
  return leave(CUDA_SUCCESS);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static int shared_limit(const object *kernel, int device) {
  int limit = kernel->u.kernel.shared_limits[device];
  return limit ? limit : SHARED_PER_BLOCK;
}

CUresult CUDAAPI cuKernelGetAttribute(int *out, CUfunction_attribute attribute, CUkernel handle, CUdevice device) {
  ENTER(cuKernelGetAttribute);
  object *kernel;
  TRY(find_object(&kernel, FAKE_KERNEL, handle));
  TRY(check_device(device));
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *out = THREADS_PER_BLOCK;
    return leave(CUDA_SUCCESS);
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *out = shared_limit(kernel, device);
    return leave(CUDA_SUCCESS);
  default:
    return leave(CUDA_ERROR_INVALID_VALUE);
  }
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice device) {
  ENTER(cuKernelSetAttribute);
  object *kernel;
  TRY(find_object(&kernel, FAKE_KERNEL, handle));
  TRY(check_device(device));
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > SHARED_PER_BLOCK_OPTIN)
    return leave(CUDA_ERROR_INVALID_VALUE);
  kernel->u.kernel.shared_limits[device] = value;
  return leave(CUDA_SUCCESS);
}

/* ---- occupancy --------------------------------------------------------------------------------------------------- */

/* A function is a kernel, on the current context's device. */
static CUresult find_function(object **kernel, int *device, CUfunction handle) {
  object *context;
  CUresult result = find_object(kernel, FAKE_KERNEL, handle);
  if (result == CUDA_SUCCESS)
    result = current_context(&context);
  if (result == CUDA_SUCCESS)
    *device = context->u.ctx.device;
  return result;
}

static int active_blocks(const object *kernel, int device, int block_size, size_t shared) {
  if (block_size > THREADS_PER_BLOCK || shared > (size_t)shared_limit(kernel, device))
    return 0;
  size_t by_threads = (size_t)(THREADS_PER_MULTIPROCESSOR / block_size);
  size_t by_shared = shared ? SHARED_PER_MULTIPROCESSOR / shared : by_threads;
  return (int)(by_threads < by_shared ? by_threads : by_shared);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction handle, int block_size,
                                                             size_t shared) {
  ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  object *kernel;
  int device;
  TRY(find_function(&kernel, &device, handle));
  if (block_size < 1)
    return leave(CUDA_ERROR_INVALID_VALUE);
  *out = active_blocks(kernel, device, block_size, shared);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *grid_size, int *block_size, CUfunction handle,
                                                  CUoccupancyB2DSize shared_of, size_t shared, int limit) {
  ENTER(cuOccupancyMaxPotentialBlockSize);
  object *kernel;
  int device, best = 0, best_threads = 0;
  TRY(find_function(&kernel, &device, handle));
  for (int size = limit ? limit : THREADS_PER_BLOCK; size > 0; size -= 32) {
    int threads = size * active_blocks(kernel, device, size, shared_of ? shared_of(size) : shared);
    if (threads > best_threads) {
      best = size;
      best_threads = threads;
    }
  }
  *block_size = best;
  *grid_size = best ? MULTIPROCESSORS * best_threads / best : 0;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t *out, CUfunction handle, int blocks, int block_size) {
  ENTER(cuOccupancyAvailableDynamicSMemPerBlock);
  object *kernel;
  int device;
  TRY(find_function(&kernel, &device, handle));
  if (blocks < 1 || block_size < 1 || blocks > THREADS_PER_MULTIPROCESSOR / block_size)
    return leave(CUDA_ERROR_INVALID_VALUE);
  size_t limit = (size_t)shared_limit(kernel, device), share = SHARED_PER_MULTIPROCESSOR / (size_t)blocks;
  *out = share < limit ? share : limit;
  return leave(CUDA_SUCCESS);
}

/* The blocks of a cluster that a launch states, 0 for none. */
static int cluster_of(const CUlaunchConfig *config) {
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttributeValue *value = &config->attrs[i].value;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      return (int)(value->clusterDim.x * value->clusterDim.y * value->clusterDim.z);
  }
  return 0;
}

CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int *out, CUfunction handle, const CUlaunchConfig *config) {
  ENTER(cuOccupancyMaxPotentialClusterSize);
  object *kernel;
  int device;
  TRY(find_function(&kernel, &device, handle));
  int threads = (int)(config->blockDimX * config->blockDimY * config->blockDimZ);
  *out = active_blocks(kernel, device, threads, config->sharedMemBytes) ? BLOCKS_PER_CLUSTER : 0;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int *out, CUfunction handle, const CUlaunchConfig *config) {
  ENTER(cuOccupancyMaxActiveClusters);
  object *kernel;
  int device, cluster = cluster_of(config);
  TRY(find_function(&kernel, &device, handle));
  if (cluster > BLOCKS_PER_CLUSTER)
    return leave(CUDA_ERROR_INVALID_CLUSTER_SIZE);
  *out = cluster ? MULTIPROCESSORS / cluster : 0;
  return leave(CUDA_SUCCESS);
}

/* ---- pools ------------------------------------------------------------------------------------------------------- */

/* A device's own pool is always its to use. */
static CUmemAccess_flags access_of(const object *pool, int device) {
  return pool->u.pool.device == device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : pool->u.pool.access[device];
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *out, CUmemoryPool handle, CUmemLocation *location) {
  ENTER(cuMemPoolGetAccess);
  object *pool;
  TRY(find_object(&pool, FAKE_POOL, handle));
  if (location->type == CU_MEM_LOCATION_TYPE_HOST) { /* which has only its own */
    if (pool->u.pool.props.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      return leave(CUDA_ERROR_INVALID_VALUE);
    *out = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return leave(CUDA_SUCCESS);
  }
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return leave(CUDA_ERROR_INVALID_VALUE);
  TRY(check_device(location->id));
  *out = access_of(pool, location->id);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *wanted, size_t count) {
  ENTER(cuMemPoolSetAccess);
  object *pool;
  TRY(find_object(&pool, FAKE_POOL, handle));
  for (size_t i = 0; i < count; i++) {
    TRY(check_device(wanted[i].location.id));
    if (wanted[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || wanted[i].location.id == pool->u.pool.device)
      return leave(CUDA_ERROR_INVALID_VALUE);
  }
  for (size_t i = 0; i < count; i++)
    pool->u.pool.access[wanted[i].location.id] = wanted[i].flags;
  return leave(CUDA_SUCCESS);
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* Of an address that it does not know, the driver says so and does not fail. */
CUresult CUDAAPI cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **values,
                                        CUdeviceptr ptr) {
  ENTER(cuPointerGetAttributes);
  for (unsigned i = 0; i < count; i++) {
    CUresult result = pointer_attribute(values[i], attributes[i], ptr);
    if (result == CUDA_SUCCESS)
      continue;
    if (result != CUDA_ERROR_INVALID_VALUE)
      return leave(result);
    switch (attributes[i]) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned *)values[i] = 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *(int *)values[i] = -2;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *(bool *)values[i] = false;
      break;
    default:
      *(void **)values[i] = NULL;
    }
  }
  return leave(CUDA_SUCCESS);
}
