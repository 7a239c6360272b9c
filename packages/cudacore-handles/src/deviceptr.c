/* SPDX-License-Identifier: Apache-2.0 */
#include "internal.h"

CUdeviceptr cch_deviceptr_raw(const cch_deviceptr *ptr) { return ptr ? ptr->ptr : 0; }
cch_deviceptr *cch_deviceptr_ref(cch_deviceptr *ptr) { return cch__box_ref(ptr); }
void cch_deviceptr_unref(cch_deviceptr *ptr) { cch__box_unref(ptr); }

size_t cch_deviceptr_size(const cch_deviceptr *ptr) { return ptr->size; }

cch_stream *cch_deviceptr_stream(const cch_deviceptr *ptr) { return ptr->stream; }

cch_pool *cch_deviceptr_pool(const cch_deviceptr *ptr) { return ptr->pool; }

cch_context *cch_deviceptr_context(const cch_deviceptr *ptr) { return ptr->context; }

static cch_deviceptr *new_box(cch__origin origin, size_t size, const char *operation) {
  cch_deviceptr *ptr = cch__box_new(CCH_KIND_DEVICEPTR, sizeof *ptr, operation);
  if (ptr != NULL) {
    ptr->origin = origin;
    ptr->size = size;
  }
  return ptr;
}

int cch_deviceptr_alloc_async(cch_deviceptr **out, cch_pool *pool, size_t size, cch_stream *stream) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (pool == NULL || stream == NULL)
    return cch__fail(CCH_EINVAL, __func__, "the %s is NULL", pool == NULL ? "pool" : "stream");
  if (size == 0)
    return cch__fail(CCH_EINVAL, __func__, "the size is 0");
  cch__reclaim_poll();
  cch_deviceptr *ptr = new_box(CCH__FROM_POOL, size, __func__);
  if (ptr == NULL)
    return CCH_ENOMEM;
  /* On a default stream the free must find the context that is current now. */
  if (stream->context != NULL)
    ptr->context = cch_context_ref(stream->context);
  else
    status = cch_context_current(&ptr->context);
  if (status == 0) {
    cch__current current;
    status = cch__current_enter(&current, stream->context);
    if (status == 0) {
      status = CCH__CALL(cuMemAllocFromPoolAsync, (&ptr->ptr, size, pool->raw, stream->raw));
      cch__current_leave(&current);
    }
  }
  if (status != 0) {
    cch_context_unref(ptr->context);
    cch__box_discard(ptr);
    return status;
  }
  ptr->pool = cch_pool_ref(pool);
  ptr->stream = cch_stream_ref(stream);
  *out = ptr;
  return 0;
}

int cch_deviceptr_alloc(cch_deviceptr **out, cch_context *context, size_t size) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (context == NULL || size == 0)
    return cch__fail(CCH_EINVAL, __func__, context == NULL ? "the context is NULL" : "the size is 0");
  cch__reclaim_poll();
  cch_deviceptr *ptr = new_box(CCH__FROM_DEVICE, size, __func__);
  if (ptr == NULL)
    return CCH_ENOMEM;
  cch__current current;
  status = cch__current_enter(&current, context);
  if (status == 0) {
    status = CCH__CALL(cuMemAlloc, (&ptr->ptr, size));
    cch__current_leave(&current);
  }
  if (status != 0) {
    cch__box_discard(ptr);
    return status;
  }
  ptr->context = cch_context_ref(context);
  *out = ptr;
  return 0;
}

int cch_deviceptr_alloc_host(cch_deviceptr **out, cch_context *context, size_t size, unsigned flags) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (context == NULL || size == 0)
    return cch__fail(CCH_EINVAL, __func__, context == NULL ? "the context is NULL" : "the size is 0");
  cch__reclaim_poll();
  cch_deviceptr *ptr = new_box(CCH__FROM_HOST, size, __func__);
  if (ptr == NULL)
    return CCH_ENOMEM;
  cch__current current;
  status = cch__current_enter(&current, context);
  if (status == 0) {
    void *host = NULL;
    status = CCH__CALL(cuMemHostAlloc, (&host, size, flags));
    ptr->ptr = (CUdeviceptr)(uintptr_t)host;
    cch__current_leave(&current);
  }
  if (status != 0) {
    cch__box_discard(ptr);
    return status;
  }
  ptr->context = cch_context_ref(context);
  *out = ptr;
  return 0;
}

int cch_deviceptr_wrap(cch_deviceptr **out, CUdeviceptr raw, size_t size, cch_context *context, void *owner,
                       cch_free_fn free) {
  int status = cch__ready();
  if (status != 0)
    return status;
  cch_deviceptr *ptr = new_box(CCH__FOREIGN, size, __func__);
  if (ptr == NULL)
    return CCH_ENOMEM;
  ptr->ptr = raw;
  ptr->context = cch_context_ref(context);
  ptr->box.owner = owner;
  ptr->free = free;
  *out = ptr;
  return 0;
}

int cch_deviceptr_set_stream(cch_deviceptr *ptr, cch_stream *stream) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (stream == NULL)
    return cch__fail(CCH_EINVAL, __func__, "the stream is NULL");
  cch_stream *old = ptr->stream;
  ptr->stream = cch_stream_ref(stream);
  cch_stream_unref(old);
  return 0;
}

int cch_deviceptr_copy(cch_deviceptr *dst, cch_deviceptr *src, size_t size, cch_stream *stream) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (size > dst->size || size > src->size)
    return cch__fail(CCH_EINVAL, __func__, "cannot copy %zu bytes from an allocation of %zu bytes to one of %zu bytes",
                     size, src->size, dst->size);
  if (size == 0)
    return 0;
  cch__current current;
  status = cch__current_enter(&current, stream->context);
  if (status != 0)
    return status;
  status = CCH__CALL(cuMemcpyAsync, (dst->ptr, src->ptr, size, stream->raw));
  cch__current_leave(&current);
  return status;
}

int cch_deviceptr_fill(cch_deviceptr *dst, uint32_t value, unsigned width, cch_stream *stream) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if ((width != 1 && width != 2 && width != 4) || dst->size % width != 0)
    return cch__fail(CCH_EINVAL, __func__, "cannot fill %zu bytes with values of %u bytes", dst->size, width);
  if (dst->size == 0)
    return 0;
  cch__current current;
  status = cch__current_enter(&current, stream->context);
  if (status != 0)
    return status;
  if (width == 1)
    status = CCH__CALL(cuMemsetD8Async, (dst->ptr, (unsigned char)value, dst->size, stream->raw));
  else if (width == 2)
    status = CCH__CALL(cuMemsetD16Async, (dst->ptr, (unsigned short)value, dst->size / 2, stream->raw));
  else
    status = CCH__CALL(cuMemsetD32Async, (dst->ptr, value, dst->size / 4, stream->raw));
  cch__current_leave(&current);
  return status;
}

int cch_pointer_check(CUdeviceptr raw) {
  int status = cch__ready();
  if (status != 0)
    return status;
  CUdevice device;
  status = CCH__CALL(cuCtxGetDevice, (&device));
  if (status != 0)
    return status;
  int owner = -1;
  unsigned type = 0;
  if (cch__driver.cuPointerGetAttribute == NULL)
    return cch__fail_missing("cuPointerGetAttribute");
  CUresult result = cch__driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, raw);
  if (result == CUDA_SUCCESS)
    result = cch__driver.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, raw);
  if (result == CUDA_ERROR_INVALID_VALUE) /* what it says to a pointer that it does not know */
    return cch__fail(CCH_EMISMATCH, __func__, "0x%llx is not memory that CUDA knows", raw);
  if (result != CUDA_SUCCESS)
    return cch__fail_driver((int)result, "cuPointerGetAttribute");
  /* Pinned and managed memory can be reached from every device. */
  int managed = 0;
  if (type == CU_MEMORYTYPE_HOST || owner == device ||
      (cch__driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, raw) == CUDA_SUCCESS && managed))
    return 0;
  /* Memory of another device can be reached where access was given; the driver has an address of it then. */
  CUdeviceptr address;
  if (cch__driver.cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, raw) == CUDA_SUCCESS)
    return 0;
  return cch__fail(CCH_EMISMATCH, __func__, "0x%llx is memory of device %d, and the current device is %d", raw, owner,
                   device);
}

static void free_memory(cch_deviceptr *ptr) {
  if (ptr->origin == CCH__FOREIGN) {
    if (ptr->free != NULL && !cch__exiting()) {
      cch__errors saved;
      cch__owner_enter(&saved);
      ptr->free(ptr->box.owner, ptr->ptr, ptr->size, ptr->stream);
      cch__owner_leave(&saved);
    }
    return;
  }
  cch_context *context = ptr->stream && ptr->stream->context ? ptr->stream->context : ptr->context;
  cch__current current;
  int entered = cch__current_enter(&current, context);
  if (ptr->origin == CCH__FROM_POOL) {
    cch__report(CCH__CALL(cuMemFreeAsync, (ptr->ptr, ptr->stream->raw)));
  } else {
    /* These frees know nothing of streams: wait for the one that still uses the memory. */
    if (ptr->stream != NULL)
      cch__report(CCH__CALL(cuStreamSynchronize, (ptr->stream->raw)));
    if (ptr->origin == CCH__FROM_DEVICE)
      cch__report(CCH__CALL(cuMemFree, (ptr->ptr)));
    else
      cch__report(CCH__CALL(cuMemFreeHost, ((void *)(uintptr_t)ptr->ptr)));
  }
  if (entered == 0)
    cch__current_leave(&current);
  else
    cch__report(entered);
}

void cch__deviceptr_destroy(cch_deviceptr *ptr) {
  free_memory(ptr);
  cch_stream_unref(ptr->stream);
  cch_pool_unref(ptr->pool);
  cch_context_unref(ptr->context);
}
