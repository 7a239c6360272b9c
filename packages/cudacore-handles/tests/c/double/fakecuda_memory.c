/* SPDX-License-Identifier: Apache-2.0 */
/* The double's memory and pools. Memory is the host's, so that copies and fills really happen. */
#include "double/fakecuda_internal.h"

#include <unistd.h>

#define MEMORY_LIMIT (4ull << 30)
#define MEMORY_GRANULE 512
#define FREED_BYTE 0xDD

/* ---- pools ------------------------------------------------------------------------------------------------------- */

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
  ENTER(cuMemPoolCreate);
  const int managed = 2; /* a name that only CUDA 13 has */
  bool anywhere = (int)props->allocType == managed && props->location.type == CU_MEM_LOCATION_TYPE_INVALID;
  if (((props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && (int)props->allocType != managed) ||
       props->location.type < CU_MEM_LOCATION_TYPE_DEVICE || props->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA) &&
      !anywhere)
    return leave(CUDA_ERROR_INVALID_VALUE);
  bool on_device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (on_device)
    TRY(check_device(props->location.id));
  object *pool = new_object(FAKE_POOL);
  if (!pool)
    return leave(CUDA_ERROR_OUT_OF_MEMORY);
  pool->u.pool.device = on_device ? props->location.id : -1;
  pool->u.pool.props = *props;
  *out = (CUmemoryPool)pool;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle) {
  ENTER(cuMemPoolDestroy);
  object *pool;
  TRY(find_object(&pool, FAKE_POOL, handle));
  if (pool->u.pool.is_default)
    return leave(CUDA_ERROR_INVALID_VALUE);
  TRY(check_captures());
  if (pool->u.pool.imports > 1) {
    pool->u.pool.imports--;
    return leave(CUDA_SUCCESS);
  }
  if (pool->u.pool.allocations)
    violate("the pool goes with %zu allocations alive in it", pool->u.pool.allocations);
  if (pool->u.pool.source)
    pool->u.pool.source->u.pool.import = NULL;
  if (pool->u.pool.import)
    pool->u.pool.import->u.pool.source = pool->u.pool.import; /* nobody's any more */
  end_object(pool);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device) {
  ENTER(cuDeviceGetMemPool);
  TRY(check_device(device));
  *out = (CUmemoryPool)&state.pools[device];
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type) {
  ENTER(cuMemGetMemPool);
  bool on_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED && (int)type != 2)
    return leave(CUDA_ERROR_INVALID_VALUE);
  if (on_device)
    TRY(check_device(location->id));
  *out = (CUmemoryPool)&state.pools[on_device ? location->id : DEVICES];
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  ENTER(cuMemPoolTrimTo);
  object *pool;
  (void)keep;
  TRY(find_object(&pool, FAKE_POOL, handle));
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) {
  ENTER(cuDeviceGetDefaultMemPool);
  TRY(check_device(device));
  *out = (CUmemoryPool)&state.pools[device];
  return leave(CUDA_SUCCESS);
}

static bool is_flag(CUmemPool_attribute attribute) {
  return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
  ENTER(cuMemPoolSetAttribute);
  object *pool;
  TRY(find_object(&pool, FAKE_POOL, handle));
  if (is_flag(attribute))
    pool->u.pool.attributes[attribute] = (cuuint64_t) * (int *)value;
  else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    pool->u.pool.attributes[attribute] = *(cuuint64_t *)value;
  else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && *(cuuint64_t *)value == 0)
    pool->u.pool.used_high = pool->u.pool.used;
  else
    return leave(CUDA_ERROR_INVALID_VALUE);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
  ENTER(cuMemPoolGetAttribute);
  object *pool;
  TRY(find_object(&pool, FAKE_POOL, handle));
  if (is_flag(attribute))
    *(int *)value = (int)pool->u.pool.attributes[attribute];
  else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    *(cuuint64_t *)value = pool->u.pool.attributes[attribute];
  else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
    *(cuuint64_t *)value = pool->u.pool.used_high;
  else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
    *(cuuint64_t *)value = pool->u.pool.used;
  else
    return leave(CUDA_ERROR_INVALID_VALUE);
  return leave(CUDA_SUCCESS);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* A freed block, in its own first bytes. */
struct freed_block {
  freed_block *next;
  size_t capacity;
};

/* Takes the block of this capacity that was freed last, or a new one. */
static CUdeviceptr take_block(size_t capacity) {
  freed_block **at = &state.freed;
  while (*at && (*at)->capacity != capacity)
    at = &(*at)->next;
  freed_block *block = *at;
  if (block)
    *at = block->next;
  else
    block = aligned_alloc(MEMORY_GRANULE, capacity);
  return (CUdeviceptr)(uintptr_t)block;
}

static void put_block(CUdeviceptr base, size_t capacity) {
  freed_block *block = (freed_block *)(uintptr_t)base;
  memset(block, FREED_BYTE, capacity);
  block->next = state.freed;
  block->capacity = capacity;
  state.freed = block;
}

CUresult allocate(object **out, size_t size) {
  if (size > MEMORY_LIMIT - state.memory_used)
    return CUDA_ERROR_OUT_OF_MEMORY;
  size_t capacity = (size + MEMORY_GRANULE - 1) / MEMORY_GRANULE * MEMORY_GRANULE;
  CUdeviceptr base = take_block(capacity);
  if (!base)
    return CUDA_ERROR_OUT_OF_MEMORY;
  object *memory = new_object(FAKE_MEMORY);
  if (!memory) {
    put_block(base, capacity);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memory->u.memory.base = base;
  memory->u.memory.size = size;
  memory->u.memory.capacity = capacity;
  state.memory_used += size;
  *out = memory;
  return CUDA_SUCCESS;
}

object *allocation_of(CUdeviceptr ptr) {
  for (chunk *c = state.chunks[FAKE_MEMORY]; c; c = c->next)
    for (int i = 0; i < CHUNK; i++) {
      object *o = &c->objects[i];
      if (o->live && ptr - o->u.memory.base < o->u.memory.size)
        return o;
    }
  return NULL;
}

static bool in_freed_block(CUdeviceptr ptr) {
  for (const freed_block *block = state.freed; block; block = block->next)
    if (ptr - (uintptr_t)block < block->capacity)
      return true;
  return false;
}

/* The allocation that begins at an address and may be freed by the calling entry point. */
static CUresult find_allocation(object **out, CUdeviceptr ptr, unsigned origins) {
  object *memory = allocation_of(ptr);
  if (!memory || memory->u.memory.base != ptr) {
    violate(in_freed_block(ptr) ? "0x%llx was freed" : "0x%llx is no allocation", ptr);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!(origins & 1u << memory->u.memory.origin)) {
    violate("0x%llx was not allocated for this free", ptr);
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = memory;
  return memory->context ? check_context(memory->context) : CUDA_SUCCESS;
}

static void end_allocation(object *memory) {
  object *pool = memory->u.memory.pool;
  if (pool) {
    pool->u.pool.allocations--;
    pool->u.pool.used -= memory->u.memory.size;
  }
  if (memory->u.memory.source)
    memory->u.memory.source->u.memory.import = NULL;
  if (memory->u.memory.import) {
    violate("0x%llx is freed while another process has it", memory->u.memory.base);
    memory->u.memory.import->u.memory.source = NULL;
  }
  state.memory_used -= memory->u.memory.size;
  put_block(memory->u.memory.base, memory->u.memory.capacity);
  end_object(memory);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool_handle, CUstream handle) {
  ENTER(cuMemAllocFromPoolAsync);
  object *pool, *stream, *context, *memory;
  TRY(find_stream(&stream, &context, handle));
  TRY(find_object(&pool, FAKE_POOL, pool_handle));
  if (pool->u.pool.source)
    return leave(CUDA_ERROR_INVALID_VALUE);
  if (size == 0) {
    *out = 0;
    return leave(CUDA_SUCCESS);
  }
  object *capture;
  TRY(find_capture(&capture, stream, handle));
  if (!capture)
    TRY(check_captures());
  TRY(allocate(&memory, size));
  memory->u.memory.capture_id = capture ? capture->u.stream.capture_id : 0;
  memory->u.memory.thread = handle == CU_STREAM_PER_THREAD ? (uint64_t)gettid() : 0;
  memory->u.memory.origin = POOL_MEMORY;
  memory->u.memory.pool = pool;
  pool->u.pool.allocations++;
  pool->u.pool.used += size;
  if (pool->u.pool.used > pool->u.pool.used_high)
    pool->u.pool.used_high = pool->u.pool.used;
  *out = memory->u.memory.base;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr ptr, CUstream handle) {
  ENTER(cuMemFreeAsync);
  object *stream, *context, *memory;
  TRY(find_stream(&stream, &context, handle));
  if (!ptr)
    return leave(CUDA_SUCCESS);
  object *capture;
  TRY(find_capture(&capture, stream, handle));
  if (!capture)
    TRY(check_captures());
  TRY(find_allocation(&memory, ptr, 1u << DEVICE_MEMORY | 1u << POOL_MEMORY));
  uint64_t allocated_in = memory->u.memory.capture_id, thread = memory->u.memory.thread;
  if (capture && !allocated_in)
    return leave(CUDA_ERROR_INVALID_VALUE); /* and the capture goes on */
  if (capture && capture->u.stream.capture_id != allocated_in)
    violate("memory of one capture is freed in another");
  if (handle == CU_STREAM_PER_THREAD && thread && thread != (uint64_t)gettid())
    violate("memory of another thread's default stream is freed on this one's");
  end_allocation(memory);
  /* There is none before the graph runs, which here none ever does. */
  return leave(allocated_in && !capture ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *out, size_t size) {
  ENTER(cuMemAlloc_v2);
  object *context, *memory;
  TRY(current_context(&context));
  if (size == 0)
    return leave(CUDA_ERROR_INVALID_VALUE);
  TRY(allocate(&memory, size));
  bind_to_context(memory, context);
  memory->u.memory.origin = DEVICE_MEMORY;
  *out = memory->u.memory.base;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemFree(CUdeviceptr ptr) {
  ENTER(cuMemFree_v2);
  object *memory;
  if (!ptr)
    return leave(CUDA_SUCCESS);
  TRY(check_captures());
  TRY(find_allocation(&memory, ptr, 1u << DEVICE_MEMORY | 1u << POOL_MEMORY));
  end_allocation(memory);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemHostAlloc(void **out, size_t size, unsigned flags) {
  ENTER(cuMemHostAlloc);
  object *context, *memory;
  TRY(current_context(&context));
  const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (flags & ~known)
    return leave(CUDA_ERROR_INVALID_VALUE);
  *out = NULL;
  if (size == 0)
    return leave(CUDA_SUCCESS);
  TRY(allocate(&memory, size));
  bind_to_context(memory, context);
  memory->u.memory.origin = HOST_MEMORY;
  *out = (void *)(uintptr_t)memory->u.memory.base;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemFreeHost(void *ptr) {
  ENTER(cuMemFreeHost);
  object *memory;
  if (!ptr)
    return leave(CUDA_SUCCESS);
  TRY(check_captures());
  TRY(find_allocation(&memory, (CUdeviceptr)(uintptr_t)ptr, 1u << HOST_MEMORY));
  end_allocation(memory);
  return leave(CUDA_SUCCESS);
}

/* Pageable host memory may be copied to and from; whatever is known must have the bytes. */
static CUresult check_range(CUdeviceptr ptr, size_t size, bool pageable) {
  const object *memory = allocation_of(ptr);
  if (memory) {
    if (size <= memory->u.memory.size - (ptr - memory->u.memory.base))
      return CUDA_SUCCESS;
    violate("%zu bytes at 0x%llx reach beyond the allocation", size, ptr);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (in_freed_block(ptr)) {
    violate("0x%llx was freed", ptr);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return pageable && ptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle) {
  ENTER(cuMemcpyAsync);
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  if (size == 0)
    return leave(CUDA_SUCCESS);
  TRY(check_range(dst, size, true));
  TRY(check_range(src, size, true));
  memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, size);
  return leave(CUDA_SUCCESS);
}

/* A batch goes neither into a capture nor onto the legacy stream. */
static CUresult check_batch(size_t count, CUstream handle) {
  object *stream, *context, *capture;
  CUresult result = find_stream(&stream, &context, handle);
  if (result == CUDA_SUCCESS)
    result = find_capture(&capture, stream, handle);
  if (result != CUDA_SUCCESS)
    return result;
  if (capture)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return count && handle && handle != CU_STREAM_LEGACY ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The runs of a batch that have attributes, or locations, of their own. */
static bool are_runs(const size_t *first, size_t runs, size_t count) {
  bool ordered = runs > 0 && runs <= count && first[0] == 0;
  for (size_t i = 1; i < runs && ordered; i++)
    ordered = first[i] > first[i - 1] && first[i] < count;
  return ordered;
}

static CUresult copy_batch(CUdeviceptr *dst, CUdeviceptr *src, size_t *sizes, size_t count,
                           const CUmemcpyAttributes *attributes, const size_t *first, size_t runs, CUstream handle) {
  CUresult result = check_batch(count, handle);
  for (size_t i = 0; i < runs && result == CUDA_SUCCESS; i++)
    if (attributes[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
      result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && !are_runs(first, runs, count))
    result = CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
    result = sizes[i] ? check_range(dst[i], sizes[i], true) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
      result = check_range(src[i], sizes[i], true);
    if (result == CUDA_SUCCESS)
      memmove((void *)(uintptr_t)dst[i], (const void *)(uintptr_t)src[i], sizes[i]);
  }
  return result;
}

CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *dst, CUdeviceptr *src, size_t *sizes, size_t count,
                                       CUmemcpyAttributes *attributes, size_t *first, size_t runs, CUstream stream) {
  ENTER(cuMemcpyBatchAsync_v2);
  return leave(copy_batch(dst, src, sizes, count, attributes, first, runs, stream));
}

CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *dst, CUdeviceptr *src, size_t *sizes, size_t count,
                                    CUmemcpyAttributes *attributes, size_t *first, size_t runs, size_t *failed,
                                    CUstream stream) {
  ENTER(cuMemcpyBatchAsync);
  *failed = SIZE_MAX;
  return leave(copy_batch(dst, src, sizes, count, attributes, first, runs, stream));
}

/* The copies between devices name the contexts of both, and go into no capture. */
static CUresult check_peers(CUcontext dst, CUcontext src, CUstream handle) {
  object *stream, *context, *capture;
  CUresult result = find_stream(&stream, &context, handle);
  if (result == CUDA_SUCCESS)
    result = find_capture(&capture, stream, handle);
  if (result == CUDA_SUCCESS && capture)
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (result == CUDA_SUCCESS && (dst == NULL || src == NULL))
    result = CUDA_ERROR_INVALID_CONTEXT;
  return result;
}

static CUresult copy_box(const CUDA_MEMCPY3D *copy) {
  for (size_t z = 0; z < copy->Depth; z++)
    for (size_t y = 0; y < copy->Height; y++) {
      CUdeviceptr dst = copy->dstDevice + (z * copy->dstHeight + y) * copy->dstPitch;
      CUdeviceptr src = copy->srcDevice + (z * copy->srcHeight + y) * copy->srcPitch;
      CUresult result = check_range(dst, copy->WidthInBytes, copy->dstMemoryType == CU_MEMORYTYPE_HOST);
      if (result == CUDA_SUCCESS)
        result = check_range(src, copy->WidthInBytes, copy->srcMemoryType == CU_MEMORYTYPE_HOST);
      if (result != CUDA_SUCCESS)
        return result;
      memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, copy->WidthInBytes);
    }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream handle) {
  ENTER(cuMemcpy3DAsync_v2);
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  return leave(copy_box(copy));
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                                   size_t size, CUstream stream) {
  ENTER(cuMemcpyPeerAsync);
  TRY(check_peers(dst_context, src_context, stream));
  TRY(check_range(dst, size, false));
  TRY(check_range(src, size, false));
  memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, size);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream) {
  ENTER(cuMemcpy3DPeerAsync);
  TRY(check_peers(copy->dstContext, copy->srcContext, stream));
  const CUDA_MEMCPY3D box = {.srcMemoryType = copy->srcMemoryType,
                             .srcDevice = copy->srcDevice,
                             .srcPitch = copy->srcPitch,
                             .srcHeight = copy->srcHeight,
                             .dstMemoryType = copy->dstMemoryType,
                             .dstDevice = copy->dstDevice,
                             .dstPitch = copy->dstPitch,
                             .dstHeight = copy->dstHeight,
                             .WidthInBytes = copy->WidthInBytes,
                             .Height = copy->Height,
                             .Depth = copy->Depth};
  return leave(copy_box(&box));
}

/* ---- managed memory, which any memory is taken for ---- */

CUresult CUDAAPI cuMemAdvise(CUdeviceptr ptr, size_t size, CUmem_advise advice, CUmemLocation location) {
  ENTER(cuMemAdvise_v2);
  (void)advice, (void)location;
  return leave(check_range(ptr, size, false));
}

CUresult CUDAAPI cuMemRangeGetAttribute(void *out, size_t room, CUmem_range_attribute attribute, CUdeviceptr ptr,
                                        size_t size) {
  ENTER(cuMemRangeGetAttribute);
  (void)attribute;
  TRY(check_range(ptr, size, false));
  memset(out, 0, room);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr ptr, size_t size, CUmemLocation location, unsigned flags,
                                    CUstream handle) {
  ENTER(cuMemPrefetchAsync_v2);
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  return leave(location.type == CU_MEM_LOCATION_TYPE_INVALID || flags ? CUDA_ERROR_INVALID_VALUE
                                                                      : check_range(ptr, size, false));
}

static CUresult move_batch(const CUdeviceptr *ptrs, const size_t *sizes, size_t count, CUstream handle) {
  CUresult result = check_batch(count, handle);
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
    result = sizes[i] ? check_range(ptrs[i], sizes[i], false) : CUDA_ERROR_INVALID_VALUE;
  return result;
}

CUresult CUDAAPI cuMemPrefetchBatchAsync(CUdeviceptr *ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
                                         size_t *first, size_t runs, unsigned long long flags, CUstream stream) {
  ENTER(cuMemPrefetchBatchAsync);
  (void)locations;
  return leave(flags || !are_runs(first, runs, count) ? CUDA_ERROR_INVALID_VALUE
                                                      : move_batch(ptrs, sizes, count, stream));
}

CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr *ptrs, size_t *sizes, size_t count, unsigned long long flags,
                                        CUstream stream) {
  ENTER(cuMemDiscardBatchAsync);
  return leave(flags ? CUDA_ERROR_INVALID_VALUE : move_batch(ptrs, sizes, count, stream));
}

CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *ptrs, size_t *sizes, size_t count,
                                                   CUmemLocation *locations, size_t *first, size_t runs,
                                                   unsigned long long flags, CUstream stream) {
  ENTER(cuMemDiscardAndPrefetchBatchAsync);
  (void)locations;
  return leave(flags || !are_runs(first, runs, count) ? CUDA_ERROR_INVALID_VALUE
                                                      : move_batch(ptrs, sizes, count, stream));
}

static CUresult fill(CUdeviceptr dst, unsigned value, size_t width, size_t count, CUstream handle) {
  object *stream, *context;
  CUresult result = find_stream(&stream, &context, handle);
  if (result == CUDA_SUCCESS)
    result =
        dst % width || count > SIZE_MAX / width ? CUDA_ERROR_INVALID_VALUE : check_range(dst, count * width, false);
  if (result != CUDA_SUCCESS)
    return result;
  unsigned char *bytes = (unsigned char *)(uintptr_t)dst;
  for (size_t i = 0; i < count * width; i++)
    bytes[i] = (unsigned char)(value >> 8 * (i % width));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  ENTER(cuMemsetD8Async);
  return leave(fill(dst, value, 1, count, stream));
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream) {
  ENTER(cuMemsetD16Async);
  return leave(fill(dst, value, 2, count, stream));
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream) {
  ENTER(cuMemsetD32Async);
  return leave(fill(dst, value, 4, count, stream));
}

CUresult pointer_attribute(void *out, CUpointer_attribute attribute, CUdeviceptr ptr) {
  const object *memory = allocation_of(ptr);
  if (!memory)
    return CUDA_ERROR_INVALID_VALUE;
  const object *pool = memory->u.memory.pool, *context = memory->context;
  bool host = memory->u.memory.origin == HOST_MEMORY || (pool && pool->u.pool.device < 0);
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    *(CUcontext *)out = (CUcontext)context;
    break;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned *)out = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: { /* no device has access to another's memory */
    object *current;
    CUresult status = current_context(&current);
    if (status != CUDA_SUCCESS)
      return status;
    if (!host && current->u.ctx.device != (context ? context->u.ctx.device : pool->u.pool.device))
      return CUDA_ERROR_INVALID_VALUE;
    *(CUdeviceptr *)out = ptr;
    break;
  }
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (!host)
      return CUDA_ERROR_INVALID_VALUE;
    *(void **)out = (void *)(uintptr_t)ptr;
    break;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    *(unsigned *)out = 0;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *(int *)out = context ? context->u.ctx.device : pool->u.pool.device;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *(CUdeviceptr *)out = memory->u.memory.base;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *(size_t *)out = memory->u.memory.size;
    break;
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    *(CUmemoryPool *)out = (CUmemoryPool)pool;
    break;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr ptr) {
  ENTER(cuPointerGetAttribute);
  return leave(pointer_attribute(out, attribute, ptr));
}
