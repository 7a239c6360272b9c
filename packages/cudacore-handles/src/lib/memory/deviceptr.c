/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/deviceptr.h"

#include "memory/overlap.h"
#include "memory/peers.h"
#include "stream/capture.h"
#include "stream/stream.h"
#include "base/reclaim.h"
#include "base/registry.h"

#include <pthread.h>
#include <stdlib.h>

/* cch_deviceptr_raw() */
CCH__DEFINE_RAW(cch_deviceptr, CUdeviceptr, ptr)
CCH__DEFINE_GET(size_t, cch_deviceptr_size, cch_deviceptr, ptr, 0, size)

/* A part that has no stream of its own uses the stream of the whole allocation. */
cch_stream *cch_deviceptr_stream(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(NULL, ptr);
  cch_stream *stream = atomic_load_explicit(&ptr->stream, memory_order_acquire);
  return stream != NULL || ptr->origin != CCH__PART ? stream : cch_deviceptr_stream(cch_deviceptr_whole(ptr));
}

cch_pool *cch_deviceptr_pool(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(NULL, ptr);
  const cch__box *backing = cch_deviceptr_whole(ptr)->backing;
  return backing != NULL && backing->kind == CCH_KIND_POOL ? (cch_pool *)backing : NULL;
}

CCH__DEFINE_GET(cch_context *, cch_deviceptr_context, cch_deviceptr, ptr, NULL, context)

bool cch_deviceptr_can_be_lost(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(false, ptr);
  return ptr->box.context != NULL;
}

cch_status cch_deviceptr_check(const cch_deviceptr *ptr) {
  CCH__REQUIRE(ptr);
  if (!cch_deviceptr_can_be_lost(ptr))
    return 0;
  CCH__REQUIRE_USABLE(ptr);
  /* A part of mapped memory is lost with the whole memory, which is lost with the context. */
  return cch__in_callback() ? 0 : cch__context_check(cch__lost_with(&cch__whole(ptr)->box), __func__);
}

bool cch_deviceptr_is_wrapped(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(false, ptr);
  return cch_deviceptr_whole(ptr)->origin == CCH__FOREIGN;
}

static cch_deviceptr *new_memory(cch__origin origin, size_t size, const char *operation) {
  cch_deviceptr *ptr = cch__box_new(CCH_KIND_DEVICEPTR, sizeof *ptr, operation);
  if (ptr != NULL) {
    ptr->origin = origin;
    ptr->size = size;
  }
  return ptr;
}

/*
 * Gets the number of the capture that a stream is in; 0 if there is none. The stream's context must be current. With a
 * driver without cuStreamIsCapturing, allocations still work: no stream counts as captured.
 */
static int capture_of(uint64_t *out, CUstream stream) {
  CUstreamCaptureStatus capture;
  cuuint64_t id = 0;
  *out = 0;
  if (cch__driver.cuStreamIsCapturing == NULL)
    return 0;
  int status = CCH__CALL(cuStreamIsCapturing, (stream, &capture));
  if (status != 0 || capture != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return status;
  status = CCH__CALL(cuStreamGetCaptureInfo, (stream, &capture, &id));
  *out = id;
  return status;
}

/*
 * Returns the box of the graph that a stream is captured into, as a new reference. NULL if the capture was not begun by
 * this library. The stream's context must be current.
 */
static cch_graph *graph_of_capture(CUstream stream) {
  cch__capture_info info;
  if (cch_capture_count() == 0 || cch__capture_info_of(&info, stream) != 0 || info.graph == NULL)
    return NULL;
  return cch__registry_find(CCH_KIND_GRAPH, info.graph);
}

/*
 * Makes a box for memory that is about to be allocated, with a reference to the context. The caller must call
 * end_alloc().
 */
static inline __attribute__((always_inline)) int begin_alloc(cch_deviceptr **out, cch__origin origin, size_t size,
                                                             cch_context *context, const char *operation) {
  if (size == 0)
    return cch__fail(CCH_EINVAL, operation, "the size is 0");
  cch__poll();
  cch_deviceptr *ptr = new_memory(origin, size, operation);
  if (ptr == NULL)
    return CCH_ENOMEM;
  ptr->context = cch_context_ref(context);
  if (origin != CCH__FROM_POOL) /* memory of a pool survives a reset of the context */
    ptr->box.context = context->box.context;
  *out = ptr;
  return 0;
}

/* Stores the box in *out, or discards it if the allocation failed. */
static inline int end_alloc(cch_deviceptr **out, cch_deviceptr *ptr, int status) {
  if (status == 0) {
    *out = ptr;
    return 0;
  }
  cch_context_unref(ptr->context);
  cch__box_free(ptr);
  return status;
}

/* Takes over a reference to the resolved stream, unless it fails. The context of the stream must be current. */
static int alloc_async(cch_deviceptr *ptr, cch_pool *pool, cch_stream *stream) {
  CUstream raw = cch__stream_here(stream);
  int status = capture_of(&ptr->capture, raw);
  cch_graph *graph = status == 0 && ptr->capture != 0 ? graph_of_capture(raw) : NULL;
  if (graph != NULL)
    status = cch__runs_reserve(graph, "cuMemAllocFromPoolAsync");
  if (status == 0)
    status = CCH__CALL(cuMemAllocFromPoolAsync, (&ptr->ptr, ptr->size, pool->raw, raw));
  if (status != 0) {
    cch_graph_unref(graph);
    return status;
  }
  ptr->graph = graph;
  ptr->backing = cch__box_ref(pool);
  atomic_init(&ptr->stream, stream);
  return 0;
}

cch_status cch_deviceptr_alloc_async(cch_deviceptr **out, cch_pool *pool, size_t size, cch_stream *stream) {
  CCH__REQUIRE_USABLE(out, pool, stream);
  cch_stream *resolved;
  CCH__RETURN_FAILURE(cch__stream_resolve(&resolved, stream, NULL));
  cch_deviceptr *ptr = NULL;
  int status = begin_alloc(&ptr, CCH__FROM_POOL, size, resolved->context, __func__);
  if (status == 0) {
    status = cch__pool_keep_context(pool);
    if (status == 0) /* the context of a default stream that was just resolved is the current one, or there is none */
      status = CCH__IN_CONTEXT(stream->context, alloc_async(ptr, pool, resolved));
    status = end_alloc(out, ptr, status);
  }
  if (status != 0)
    cch_stream_unref(resolved);
  return status;
}

cch_status cch_deviceptr_alloc(cch_deviceptr **out, cch_context *context, size_t size) {
  CCH__REQUIRE_USABLE(out, context);
  cch_deviceptr *ptr = NULL;
  CCH__RETURN_FAILURE(begin_alloc(&ptr, CCH__FROM_DEVICE, size, context, __func__));
  return end_alloc(out, ptr, CCH__IN_CONTEXT(context, CCH__CALL(cuMemAlloc, (&ptr->ptr, size))));
}

cch_status cch_deviceptr_alloc_host(cch_deviceptr **out, cch_context *context, size_t size, unsigned flags) {
  CCH__REQUIRE_USABLE(out, context);
  cch_deviceptr *ptr = NULL;
  CCH__RETURN_FAILURE(begin_alloc(&ptr, CCH__FROM_HOST, size, context, __func__));
  void *host = NULL;
  int status = CCH__IN_CONTEXT(context, CCH__CALL(cuMemHostAlloc, (&host, size, flags)));
  ptr->ptr = (CUdeviceptr)(uintptr_t)host;
  return end_alloc(out, ptr, status);
}

cch_status cch_deviceptr_alloc_managed(cch_deviceptr **out, cch_context *context, size_t size, unsigned flags) {
  CCH__REQUIRE_USABLE(out, context);
  cch_deviceptr *ptr = NULL;
  CCH__RETURN_FAILURE(begin_alloc(&ptr, CCH__FROM_MANAGED, size, context, __func__));
  return end_alloc(out, ptr, CCH__IN_CONTEXT(context, CCH__CALL(cuMemAllocManaged, (&ptr->ptr, size, flags))));
}

cch_status cch_deviceptr_register_host(cch_deviceptr **out, cch_context *context, void *host, size_t size,
                                       unsigned flags, void *owner, cch_release_fn release) {
  CCH__REQUIRE_USABLE(out, context);
  CCH__REQUIRE(host);
  cch_deviceptr *ptr = NULL;
  CCH__RETURN_FAILURE(begin_alloc(&ptr, CCH__REGISTERED, size, context, __func__));
  int status = CCH__IN_CONTEXT(context, CCH__CALL(cuMemHostRegister, (host, size, flags)));
  ptr->ptr = (CUdeviceptr)(uintptr_t)host;
  ptr->read_only = (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
  if (status == 0) { /* on failure, the caller keeps the owner */
    ptr->box.owner = owner;
    ptr->box.release = release;
  }
  return end_alloc(out, ptr, status);
}

CCH__DEFINE_GET(bool, cch_deviceptr_is_read_only, cch_deviceptr, ptr, false, read_only)

cch_status cch_deviceptr_wrap(cch_deviceptr **out, CUdeviceptr raw, size_t size, cch_context *context, void *owner,
                              cch_free_fn free) {
  CCH__REQUIRE(out);
  CCH__REQUIRE_USABLE_OR_NULL(context);
  cch_deviceptr *ptr = new_memory(CCH__FOREIGN, size, __func__);
  if (ptr == NULL)
    return CCH_ENOMEM;
  ptr->ptr = raw;
  ptr->context = cch_context_ref(context);
  ptr->box.owner = owner;
  ptr->free = free;
  *out = ptr;
  return 0;
}

/*
 * Guards the time between reading the stream of a box and taking a reference to it. Otherwise, another thread could
 * drop the box's own reference to the stream in that time.
 */
static pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER;

bool cch_deviceptr_has_stream(const cch_deviceptr *ptr, const cch_stream *stream) {
  CCH__REQUIRE_ELSE(false, ptr);
  CCH__REQUIRE_ELSE(false, stream);
  return atomic_load_explicit(&ptr->stream, memory_order_relaxed) == stream && !cch__is_gone(ptr) &&
         !cch__is_gone(stream);
}

cch_status cch_deviceptr_set_stream(cch_deviceptr *ptr, cch_stream *stream) {
  CCH__REQUIRE_USABLE(ptr, stream);
  cch_stream *resolved;
  CCH__RETURN_FAILURE(cch__stream_resolve(&resolved, stream, ptr->context));
  pthread_mutex_lock(&stream_lock);
  cch_stream *old = atomic_exchange_explicit(&ptr->stream, resolved, memory_order_acq_rel);
  pthread_mutex_unlock(&stream_lock);
  cch_stream_unref(old);
  return 0;
}

cch_stream *cch_deviceptr_stream_ref(cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(NULL, ptr);
  if (cch__forked()) /* a thread that does not exist in this process may hold the lock, but streams are no longer set */
    return cch_stream_ref(cch_deviceptr_stream(ptr));
  pthread_mutex_lock(&stream_lock);
  cch_stream *stream = cch_stream_ref(cch_deviceptr_stream(ptr));
  pthread_mutex_unlock(&stream_lock);
  const cch_deviceptr *whole = cch_deviceptr_whole(ptr);
  if (whole->graph != NULL) {
    cch_stream *joined = cch__capture_stream(stream, whole->capture);
    cch_stream_unref(stream);
    stream = joined;
  }
  cch_stream *here = cch__stream_ref_here(stream);
  cch_stream_unref(stream);
  return here;
}

int cch__memory_write_check(const cch_deviceptr *dst, const cch_stream *stream, const char *operation) {
  if (dst->read_only)
    return cch__fail(CCH_EINVAL, operation, "the destination is host memory that was registered read-only");
  return cch__memory_check(dst, stream, operation);
}

int cch__memory_keep(cch_deviceptr *dst, cch_deviceptr *src, cch_stream *stream, const char *operation) {
  bool captured;
  int status = cch__memory_write_check(dst, stream, operation);
  if (status == 0 && src != NULL)
    status = cch__memory_check(src, stream, operation);
  return status != 0 ? status : cch__capture_keep(&captured, stream, (void *[]){dst, src}, src != NULL ? 2 : 1);
}

static int copy(cch_deviceptr *dst, cch_deviceptr *src, size_t size, cch_stream *stream, const char *operation) {
  int status = cch__memory_keep(dst, src, stream, operation);
  if (status != 0)
    return status;
  cch__peers peers = {0};
  if (!cch__is_one_device())
    status = cch__peers_find(&peers, dst, src, stream);
  if (status == 0)
    status = cch__copy_line(&peers, dst->ptr, src->ptr, size, stream->raw);
  cch__peers_unref(&peers);
  return status;
}

cch_status cch_deviceptr_copy(cch_deviceptr *dst, cch_deviceptr *src, size_t size, cch_stream *stream) {
  CCH__REQUIRE_USABLE(dst, src, stream);
  if (size > dst->size || size > src->size)
    return cch__fail(CCH_EINVAL, __func__, "cannot copy %zu bytes from an allocation of %zu bytes to one of %zu bytes",
                     size, src->size, dst->size);
  CCH__RETURN_FAILURE(cch__check_apart(dst->ptr, src->ptr, size, __func__));
  return size == 0 ? 0 : CCH__IN_CONTEXT(stream->context, copy(dst, src, size, stream, __func__));
}

/*
 * Fills with 8 bytes whose halves differ, for which no driver has a function: each half is a column of a matrix with
 * two. That takes 0.6 ns a row (H200). So only the beginning of a device's memory is filled in this way, and then
 * copied, each time as far as it reaches. Between host memory, the driver's copies would wait for the stream.
 */
static int fill_halves(const cch_deviceptr *dst, uint32_t low, uint32_t high, CUstream stream) {
  enum { FIRST = 16384 };
  size_t filled = dst->size;
  if (filled > FIRST) {
    int type, device, is_managed;
    CCH__RETURN_FAILURE(cch_pointer_attributes(&type, &device, &is_managed, dst->ptr));
    filled = type == CU_MEMORYTYPE_DEVICE ? FIRST : filled;
  }
  int status = CCH__CALL(cuMemsetD2D32Async, (dst->ptr, 8, low, 1, filled / 8, stream));
  if (status == 0)
    status = CCH__CALL(cuMemsetD2D32Async, (dst->ptr + 4, 8, high, 1, filled / 8, stream));
  for (; filled < dst->size && status == 0; filled *= 2) {
    const size_t rest = dst->size - filled;
    status = CCH__CALL(cuMemcpyAsync, (dst->ptr + filled, dst->ptr, rest < filled ? rest : filled, stream));
  }
  return status;
}

static int fill(cch_deviceptr *dst, uint64_t value, unsigned width, cch_stream *stream, const char *operation) {
  if (!cch__is_one_device())
    CCH__RETURN_FAILURE(cch__peers_check_fill(dst, stream));
  CCH__RETURN_FAILURE(cch__memory_keep(dst, NULL, stream, operation));
  if (width == 1)
    return CCH__CALL(cuMemsetD8Async, (dst->ptr, (unsigned char)value, dst->size, stream->raw));
  if (width == 2)
    return CCH__CALL(cuMemsetD16Async, (dst->ptr, (unsigned short)value, dst->size / 2, stream->raw));
  const uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32);
  if (width == 8 && low != high)
    return fill_halves(dst, low, high, stream->raw);
  return CCH__CALL(cuMemsetD32Async, (dst->ptr, low, dst->size / 4, stream->raw));
}

cch_status cch_deviceptr_fill(cch_deviceptr *dst, uint64_t value, unsigned width, cch_stream *stream) {
  CCH__REQUIRE_USABLE(dst, stream);
  if (width != 1 && width != 2 && width != 4 && width != 8)
    return cch__fail(CCH_EINVAL, __func__, "value must be 1, 2, 4 or 8 bytes, got %u", width);
  if (dst->size % width != 0)
    return cch__fail(CCH_EINVAL, __func__, "buffer size (%zu) must be divisible by %u, the bytes of value", dst->size,
                     width);
  if (dst->ptr % width != 0)
    return cch__fail(CCH_EINVAL, __func__, "the address of the buffer must be a multiple of %u, the bytes of value",
                     width);
  return dst->size == 0 ? 0 : CCH__IN_CONTEXT(stream->context, fill(dst, value, width, stream, __func__));
}

cch_status cch_pointer_check(CUdeviceptr raw) {
  CCH__RETURN_FAILURE(cch__ready());
  CUdevice device;
  CCH__RETURN_FAILURE(CCH__CALL(cuCtxGetDevice, (&device)));
  int owner = -1;
  unsigned type = 0;
  if (cch__driver.cuPointerGetAttribute == NULL)
    return cch__fail_missing("cuPointerGetAttribute");
  CUresult result = cch__driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, raw);
  if (result == CUDA_SUCCESS)
    result = cch__driver.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, raw);
  if (result == CUDA_ERROR_INVALID_VALUE) /* the result for an address that the driver does not know */
    return cch__fail(CCH_EMISMATCH, __func__, "0x%llx is not an address of memory that CUDA manages", raw);
  if (result != CUDA_SUCCESS)
    return cch__fail_driver((int)result, "cuPointerGetAttribute");
  /* Every device can access pinned and managed memory, but virtual memory only if it was given access. */
  int managed = 0;
  if (owner == device && type == CU_MEMORYTYPE_DEVICE)
    return 0;
  if (type == CU_MEMORYTYPE_HOST) {
    bool is_virtual = false, is_open = true;
    int status = cch__is_one_device() ? 0 : cch__is_virtual(&is_virtual, raw);
    if (status == 0 && is_virtual)
      status = cch__virtual_is_open(&is_open, device, raw);
    if (status != 0 || is_open)
      return status;
    return cch__fail(CCH_EMISMATCH, __func__,
                     "0x%llx is memory of the host that was made for another device, and the current device is %d", raw,
                     device);
  }
  if (cch__driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, raw) == CUDA_SUCCESS && managed)
    return 0;
  /*
   * A device can access memory of another device if access was granted. The driver then has a device address for that
   * memory.
   */
  CUdeviceptr address;
  if (cch__driver.cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, raw) == CUDA_SUCCESS)
    return 0;
  return cch__fail(CCH_EMISMATCH, __func__,
                   "0x%llx is memory of device %d, and the current device is %d, which has no access to it", raw, owner,
                   device);
}

cch_context *cch__context_after(const cch_context *lost) {
  cch_context *context = NULL;
  unsigned flags;
  int active = 0, status = CCH__CALL(cuDevicePrimaryCtxGetState, (lost->device, &flags, &active));
  if (status == 0 && active)
    status = cch_context_primary(&context, lost->device);
  cch__report(status);
  return context;
}

/*
 * Calls the function that frees foreign memory. It would take another thread's per-thread default stream for that of
 * its own thread, so it gets the legacy stream instead.
 */
static void free_foreign(cch_deviceptr *ptr, cch_stream *stream) {
  cch__errors saved;
  cch_stream *here = cch__stream_ref_here(stream);
  cch__owner_enter(&saved);
  ptr->free(ptr->box.owner, ptr->ptr, ptr->size, here);
  cch__owner_leave(&saved);
  cch_stream_unref(here);
}

/* Returns whether memory of a graph is allocated now: a launch has allocated it, and nothing has freed it since. */
static bool is_allocated(const cch_deviceptr *ptr) {
  unsigned type;
  return cch__driver.cuPointerGetAttribute == NULL ||
         cch__driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr->ptr) !=
             CUDA_ERROR_INVALID_VALUE;
}

/*
 * Frees memory of a pool; returns the driver's result. Memory that a capture allocated is freed in that capture. After
 * the capture has ended, or failed, it is freed only if a launch of the graph has allocated it. Other memory cannot be
 * freed in a capture: the driver reports that the address does not belong to the graph.
 */
static int free_async(const cch_deviceptr *ptr, CUstream stream) {
  if (stream == CU_STREAM_LEGACY && cch__is_capturing(stream))
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (ptr->capture != 0) {
    uint64_t capture;
    CCH__RETURN_FAILURE(capture_of(&capture, stream));
    if (capture != ptr->capture && !is_allocated(ptr))
      return 0;
    if (capture != ptr->capture && cch__is_capturing(stream))
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (cch__driver.cuMemFreeAsync == NULL)
    return cch__fail_missing("cuMemFreeAsync");
  int result = 0;
  for (int i = 0; i < 2; i++) {
    atomic_fetch_add_explicit(&cch__frees, 1, memory_order_relaxed);
    result = (int)cch__driver.cuMemFreeAsync(ptr->ptr, stream);
    if (result != CUDA_ERROR_INVALID_VALUE)
      return cch__checked(result, "cuMemFreeAsync");
    if (cch__is_capturing(stream))
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (ptr->capture != 0)
      return 0; /* the memory was freed by other code meanwhile */
    /* Another thread may have ended the capture between the refusal and cch__is_capturing(). Try once more. */
  }
  return cch__checked(result, "cuMemFreeAsync");
}

int cch__wait_for_work(CUstream stream) {
  if (cch__is_capturing(stream))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream != CU_STREAM_LEGACY)
    return CCH__CALL(cuStreamSynchronize, (stream));
  CUevent event;
  CCH__RETURN_FAILURE(CCH__CALL(cuEventCreate, (&event, CU_EVENT_DISABLE_TIMING)));
  int status = CCH__CALL(cuEventRecord, (event, stream));
  if (status == 0)
    status = CCH__CALL(cuEventSynchronize, (event));
  cch__report(CCH__CALL(cuEventDestroy, (event)));
  return status;
}

/*
 * Frees memory that does not belong to a pool. Memory of a graphics resource is unmapped in the order of the stream.
 * All other free functions ignore streams, so this waits for the stream that may still use the memory.
 */
static int free_at_once(cch_deviceptr *ptr, const cch_stream *stream) {
  if (ptr->origin == CCH__FROM_GRAPHICS)
    return cch__graphics_unmap_memory(ptr, stream != NULL ? cch__stream_here(stream) : CU_STREAM_LEGACY);
  if (stream != NULL) {
    int status = cch__wait_for_work(cch__stream_here(stream));
    if (cch__is_retryable(status))
      return status;
    cch__report(status);
  }
  if (ptr->origin == CCH__FROM_RANGES)
    return cch__ranges_destroy(ptr);
  if (ptr->origin == CCH__FROM_DEVICE || ptr->origin == CCH__FROM_MANAGED)
    return CCH__CALL(cuMemFree, (ptr->ptr));
  if (ptr->origin == CCH__REGISTERED)
    return CCH__CALL(cuMemHostUnregister, ((void *)(uintptr_t)ptr->ptr));
  return CCH__CALL(cuMemFreeHost, ((void *)(uintptr_t)ptr->ptr));
}

bool cch__free_is_ordered(const cch_deviceptr *ptr) {
  return ptr->origin == CCH__FROM_POOL || ptr->origin == CCH__MAPPED || ptr->origin == CCH__FROM_GRAPHICS;
}

bool cch__deviceptr_free_on(cch_deviceptr *ptr, cch_stream *stream) {
  if (ptr->origin == CCH__FOREIGN) {
    free_foreign(ptr, stream);
    return true;
  }
  cch__current current;
  /* Unmapping virtual memory needs no context. */
  const cch_context *own = ptr->origin != CCH__FROM_RANGES ? ptr->context : NULL;
  const cch_context *context = stream != NULL && stream->context != NULL ? stream->context : own;
  cch_context *after = NULL;
  bool from_pool = ptr->origin == CCH__FROM_POOL || ptr->origin == CCH__MAPPED;
  int entered = cch__current_enter(&current, context);
  if (entered == CCH_EGONE) { /* all work on the stream has ended */
    stream = NULL;
    after = cch__context_after(context);
    entered = after != NULL ? cch__current_enter(&current, after) : entered;
  }
  bool ended = !cch__is_retryable(entered);
  if (ended && !(entered == CCH_EGONE && from_pool)) {
    CUstreamCaptureMode mode = cch__relaxed_enter();
    int status = from_pool ? free_async(ptr, stream != NULL ? cch__stream_here(stream) : CU_STREAM_LEGACY)
                           : free_at_once(ptr, stream);
    cch__relaxed_leave(mode);
    if (entered == 0)
      cch__current_leave(&current);
    ended = !cch__is_retryable(status);
    if (ended) {
      cch__report(status);
      if (entered != 0)
        cch__report(entered);
    }
  }
  cch_context_unref(after);
  return ended;
}

static bool free_whole(cch_deviceptr *ptr, cch_stream *stream) {
  return ptr->uses == NULL ? cch__deviceptr_free_on(ptr, stream) : cch__free_after_uses(ptr, stream);
}

/*
 * Returns whether a free on the stream comes after the capture that has allocated the memory, or is not a part of it.
 * If another thread's default stream may be captured, the driver refuses the query, and the free is repeated later.
 */
static bool is_outside_of_capture(cch_stream *stream, const cch_deviceptr *ptr) {
  if (!cch__graph_is_captured(ptr->graph))
    return true;
  uint64_t capture = 0;
  CUstream raw = cch__stream_here(stream);
  return CCH__ASIDE(CCH__RELAXED(CCH__IN_CONTEXT(stream->context, capture_of(&capture, raw)))) == 0 &&
         capture != ptr->capture;
}

bool cch__deviceptr_destroy(cch_deviceptr *ptr) {
  if (ptr->tracks != NULL)
    cch__tracks_freeing(ptr);
  cch_stream *stream = atomic_load_explicit(&ptr->stream, memory_order_acquire);
  if (ptr->origin == CCH__PART) /* a part without a stream was used on the stream of the whole */
    return stream == NULL || cch__use_close((cch_deviceptr *)ptr->backing, stream);
  if (ptr->origin == CCH__FOREIGN && (ptr->free == NULL || cch__exiting()))
    return true;
  if (ptr->graph == NULL)
    return free_whole(ptr, stream);
  if (cch__is_gone(ptr->graph)) /* the capture that allocated the memory failed, so the memory never existed */
    return true;
  cch_stream *launched = NULL;
  stream = cch__capture_stream(stream, ptr->capture);
  /* During the capture, the free is captured, too. Later launches wait for the stream of the last launch. */
  if (is_outside_of_capture(stream, ptr) && !cch__runs_drop(&launched, ptr)) {
    cch_stream_unref(stream);
    return false; /* later: the graph is being launched */
  }
  bool ended = launched == NULL || cch__use_record(ptr, stream, __func__) == 0;
  ended = ended && free_whole(ptr, launched != NULL ? launched : stream);
  cch_stream_unref(launched);
  cch_stream_unref(stream);
  return ended;
}

void cch__deviceptr_unref_held(cch_deviceptr *ptr) {
  if (ptr->tracks != NULL)
    cch__tracks_close(ptr);
  cch__uses_free(ptr);
  if (ptr->origin == CCH__PART)
    cch__part_unref_held(ptr);
  free(atomic_load_explicit(&ptr->exported, memory_order_acquire));
  free(ptr->ranges);
  cch_graph_unref(ptr->graph);
  cch_stream_unref(atomic_load_explicit(&ptr->stream, memory_order_acquire));
  cch__box_unref(ptr->backing);
  cch_context_unref(ptr->context);
}

cch_status cch_pointer_attributes(int *memory_type, int *device, int *is_managed, CUdeviceptr ptr) {
  CCH__REQUIRE_USABLE(memory_type, device, is_managed);
  CUmemorytype type = (CUmemorytype)0;
  int ordinal = -1;
  unsigned managed = 0; /* the driver writes only one byte */
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void *values[] = {&type, &ordinal, &managed};
  int status = CCH__CALL(cuPointerGetAttributes, (sizeof wanted / sizeof *wanted, wanted, values, ptr));
  if (status == 0) {
    *memory_type = (int)type;
    *device = ordinal;
    *is_managed = managed != 0;
  }
  return status;
}
