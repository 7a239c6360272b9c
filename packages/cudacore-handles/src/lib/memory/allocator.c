/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for libraries that keep only its address. The registry finds the box of an address. The other library owns the
 * only reference to that box, and drops it by freeing the address.
 */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "driver/current.h"
#include "base/registry.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct cch_allocator {
  cch__box box;
  cch_pool *pool;
  size_t count;
  cch_tracker *trackers[];
};

cch_status cch_allocator_create(cch_allocator **out, cch_pool *pool, cch_tracker *const *trackers, size_t count) {
  CCH__REQUIRE(out, pool);
  CCH__REQUIRE_ARRAY(trackers, count);
  for (size_t i = 0; i < count; i++)
    CCH__RETURN_FAILURE(cch__fail_at_place(CCH__USABLE(trackers[i], "the argument trackers[i]", __func__), i));
  cch_allocator *allocator = cch__box_new(CCH_KIND_ALLOCATOR, sizeof *allocator + count * sizeof *trackers, __func__);
  if (allocator == NULL)
    return CCH_ENOMEM;
  allocator->pool = cch_pool_ref(pool);
  for (; allocator->count < count; allocator->count++)
    allocator->trackers[allocator->count] = cch_tracker_ref(trackers[allocator->count]);
  *out = allocator;
  return 0;
}

void cch__allocator_unref_held(cch_allocator *allocator) {
  for (size_t i = 0; i < allocator->count; i++)
    cch_tracker_unref(allocator->trackers[i]);
  cch_pool_unref(allocator->pool);
}

/* ---- allocating ---- */

cch_status cch_allocator_alloc(CUdeviceptr *out, cch_allocator *allocator, size_t size, CUstream raw) {
  CCH__REQUIRE_USABLE(out, allocator);
  cch_stream *stream;
  CCH__RETURN_FAILURE(cch_stream_wrap(&stream, raw, NULL, NULL));
  cch_deviceptr *ptr = NULL;
  int status = cch_deviceptr_alloc_tracked(&ptr, allocator->pool, size, stream, allocator->trackers, allocator->count);
  cch_stream_unref(stream);
  if (status != 0)
    return status;
  cch__registry_insert(ptr, (void *)(uintptr_t)ptr->ptr);
  *out = ptr->ptr;
  return 0;
}

static int fail_unknown(CUdeviceptr ptr, const char *operation) {
  return cch__fail(CCH_EINVAL, operation, "0x%llx is not an address that an allocator has allocated", ptr);
}

/*
 * Removes the box of an address from the registry, and returns it with the reference that the other library owned. NULL
 * after a fork, because nothing is freed there.
 */
static int take(cch_deviceptr **out, CUdeviceptr ptr, const char *operation) {
  *out = NULL;
  if (cch__forked()) /* another thread of the parent may have held the registry's lock */
    return 0;
  *out = cch__registry_take(CCH_KIND_DEVICEPTR, (void *)(uintptr_t)ptr);
  return *out != NULL ? 0 : fail_unknown(ptr, operation);
}

cch_status cch_allocator_free(CUdeviceptr ptr) {
  cch_deviceptr *box;
  int status = take(&box, ptr, __func__);
  cch_deviceptr_unref(box);
  return status;
}

/* Calls a function with memory and a stream, and drops the reference to the memory. */
static int call_with(cch_deviceptr *box, CUstream raw, cch_status (*function)(cch_deviceptr *, cch_stream *)) {
  cch_stream *stream;
  int status = cch_stream_wrap(&stream, raw, NULL, NULL);
  if (status == 0) {
    status = function(box, stream);
    cch_stream_unref(stream);
  }
  cch_deviceptr_unref(box);
  return status;
}

/* The memory is freed in any case: on the allocation's own stream if the given one cannot be used. */
cch_status cch_allocator_free_async(CUdeviceptr ptr, CUstream raw) {
  cch_deviceptr *box;
  int status = take(&box, ptr, __func__);
  return box == NULL ? status : call_with(box, raw, cch_deviceptr_set_stream);
}

cch_status cch_allocator_record_stream(CUdeviceptr ptr, CUstream raw) {
  CCH__RETURN_FAILURE(cch__ready());
  cch_deviceptr *box = cch__registry_find(CCH_KIND_DEVICEPTR, (void *)(uintptr_t)ptr);
  return box == NULL ? fail_unknown(ptr, __func__) : call_with(box, raw, cch_deviceptr_record_stream);
}

/* ---- PyTorch ---- */

enum { MAX_DEVICES = 64 };

/*
 * The allocator of a device, and the context that is made current for it, because PyTorch may allocate before a context
 * is current.
 */
static struct {
  cch_allocator *allocator;
  cch_context *context;
} torch_devices[MAX_DEVICES];
static pthread_mutex_t torch_lock = PTHREAD_MUTEX_INITIALIZER;

cch_status cch_torch_set_allocator(int device, cch_allocator *allocator) {
  CCH__REQUIRE_USABLE_OR_NULL(allocator);
  if (device < 0 || device >= MAX_DEVICES)
    return cch__fail(CCH_EINVAL, __func__, "the device is %d; it must be from 0 to %d", device, MAX_DEVICES - 1);
  cch_context *context = NULL;
  CCH__RETURN_FAILURE(allocator != NULL ? cch_context_primary(&context, device) : 0);
  cch_allocator_ref(allocator);
  pthread_mutex_lock(&torch_lock);
  cch_allocator *previous = torch_devices[device].allocator;
  cch_context *previous_context = torch_devices[device].context;
  torch_devices[device].allocator = allocator;
  torch_devices[device].context = context;
  pthread_mutex_unlock(&torch_lock);
  cch_allocator_unref(previous);
  cch_context_unref(previous_context);
  return 0;
}

static int torch_alloc(CUdeviceptr *out, size_t size, int device, CUstream stream, const char *operation) {
  cch_allocator *allocator = NULL;
  cch_context *context = NULL;
  CCH__RETURN_FAILURE(cch__ready());
  if (device >= 0 && device < MAX_DEVICES) {
    pthread_mutex_lock(&torch_lock);
    allocator = cch_allocator_ref(torch_devices[device].allocator);
    context = cch_context_ref(torch_devices[device].context);
    pthread_mutex_unlock(&torch_lock);
  }
  if (allocator == NULL)
    return cch__fail(CCH_EINVAL, operation,
                     "device %d has no allocator: set one for it by cch_torch_set_allocator(), or by torch_allocator() "
                     "of cudacore.interop",
                     device);
  int status = CCH__IN_CONTEXT(context, cch_allocator_alloc(out, allocator, size, stream));
  cch_allocator_unref(allocator);
  cch_context_unref(context);
  return status;
}

/*
 * Throws std::runtime_error, which C code cannot do by itself. The function of libstdc++ is the one that C++ containers
 * use. Returns if that library is not loaded.
 */
CCH__COLD static void throw_failure(int status, size_t size, int device) {
  char text[700];
  const cch_error *failure = cch_error_last();
  const char *what = status == CUDA_ERROR_OUT_OF_MEMORY || status == CCH_ELIMIT ? "CUDA out of memory: " : "";
  snprintf(text, sizeof text, "%scudacore could not allocate %zu bytes on device %d: %s: %s", what, size, device,
           failure->operation, failure->message);
  void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  void (*throw_runtime_error)(const char *) = NULL;
  if (library != NULL) {
    *(void **)&throw_runtime_error = dlsym(library, "_ZSt21__throw_runtime_errorPKc");
    dlclose(library); /* drops the reference of dlopen(); the library remains loaded */
  }
  if (throw_runtime_error != NULL)
    throw_runtime_error(text);
}

/* PyTorch also allocates 0 bytes, and never frees NULL. */
void *cch_torch_alloc(int64_t size, int device, CUstream stream) {
  CUdeviceptr ptr = 0;
  int status = size == 0 ? 0 : torch_alloc(&ptr, (size_t)size, device, stream, __func__);
  if (status != 0)
    throw_failure(status, (size_t)size, device);
  return (void *)(uintptr_t)ptr;
}

void *cch_torch_try_alloc(int64_t size, int device, CUstream stream) {
  CUdeviceptr ptr = 0;
  return size == 0 || torch_alloc(&ptr, (size_t)size, device, stream, __func__) != 0 ? NULL : (void *)(uintptr_t)ptr;
}

void cch_torch_free(void *ptr, int64_t size, int device, CUstream stream) {
  (void)size;
  (void)device;
  (void)stream;
  if (ptr != NULL)
    cch__report(cch_allocator_free((CUdeviceptr)(uintptr_t)ptr));
}

void cch_torch_record_stream(void *ptr, CUstream stream) {
  if (ptr != NULL)
    cch__report(cch_allocator_record_stream((CUdeviceptr)(uintptr_t)ptr, stream));
}
