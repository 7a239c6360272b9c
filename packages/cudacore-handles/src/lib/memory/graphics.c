/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of OpenGL, and the memory that they are mapped to. */
#include "memory/deviceptr.h"

#include "base/reclaim.h"
#include "driver/current.h"
#include "stream/stream.h"

#include <pthread.h>

/* cch_graphics_raw() */
CCH__DEFINE_RAW(cch_graphics, CUgraphicsResource, raw)

/* Guards `mapped` and `busy` of all resources. It is never held during a call of the driver. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

cch_status cch_graphics_register(cch_graphics **out, cch_context *context, unsigned name, unsigned target,
                                 unsigned flags) {
  CCH__REQUIRE_USABLE(out, context);
  cch__poll();
  cch_graphics *resource = cch__box_new(CCH_KIND_GRAPHICS, sizeof *resource, __func__);
  if (resource == NULL)
    return CCH_ENOMEM;
  int status =
      CCH__IN_CONTEXT(context, target != 0 ? CCH__CALL(cuGraphicsGLRegisterImage, (&resource->raw, name, target, flags))
                                           : CCH__CALL(cuGraphicsGLRegisterBuffer, (&resource->raw, name, flags)));
  CCH__RETURN_FAILURE(cch__box_created(resource, status));
  cch__box_in(&resource->box, &resource->context, context);
  *out = resource;
  return 0;
}

/*
 * Begins mapping or unmapping a resource; only one thread at a time does so. *mapped is a new reference to the memory
 * that the resource is mapped to; NULL if the resource is not mapped. The caller must call finish().
 */
static int begin(cch_deviceptr **mapped, cch_graphics *resource, const char *operation) {
  pthread_mutex_lock(&lock);
  /* If the memory has no references left, it is being destroyed, which unmaps the resource. */
  bool busy = resource->busy || (resource->mapped != NULL && !cch__box_try_ref(&resource->mapped->box));
  if (!busy) {
    resource->busy = true;
    *mapped = resource->mapped;
  }
  pthread_mutex_unlock(&lock);
  return busy ? cch__fail(CCH_EINVAL, operation, "another thread is mapping or unmapping the resource") : 0;
}

static void finish(cch_graphics *resource, cch_deviceptr *mapped) {
  pthread_mutex_lock(&lock);
  resource->mapped = mapped;
  resource->busy = false;
  pthread_mutex_unlock(&lock);
}

/* The context of the resource must be current. A default stream is that of this context. */
static int map(cch_deviceptr *memory, cch_graphics *resource, cch_stream *stream) {
  cch_stream *resolved;
  CUstream raw = cch__stream_here(stream);
  CCH__RETURN_FAILURE(cch__stream_resolve(&resolved, stream, resource->context));
  int status = CCH__CALL(cuGraphicsMapResources, (1, &resource->raw, raw));
  if (status == 0) {
    status = CCH__CALL(cuGraphicsResourceGetMappedPointer, (&memory->ptr, &memory->size, resource->raw));
    if (status != 0 && cch__driver.cuGraphicsUnmapResources != NULL) /* the first failure is returned */
      cch__driver.cuGraphicsUnmapResources(1, &resource->raw, raw);
  }
  if (status == 0)
    atomic_init(&memory->stream, resolved);
  else
    cch_stream_unref(resolved);
  return status;
}

cch_status cch_graphics_map(cch_deviceptr **out, cch_graphics *resource, cch_stream *stream) {
  CCH__REQUIRE_USABLE(out, resource, stream);
  CCH__REQUIRE_CONTEXT(stream->context);
  cch__poll();
  cch_deviceptr *mapped = NULL, *memory;
  int status = begin(&mapped, resource, __func__);
  if (status != 0)
    return status;
  memory = mapped == NULL ? cch__box_new(CCH_KIND_DEVICEPTR, sizeof *memory, __func__) : NULL;
  if (mapped != NULL)
    status = cch__fail(CCH_EINVAL, __func__, "the resource is mapped already");
  else if (memory == NULL)
    status = CCH_ENOMEM;
  else
    status = CCH__IN_CONTEXT(resource->context, map(memory, resource, stream));
  if (status != 0) {
    finish(resource, mapped);
    cch_deviceptr_unref(mapped);
    if (memory != NULL)
      cch__box_free(memory);
    return status;
  }
  memory->origin = CCH__FROM_GRAPHICS;
  memory->context = cch_context_ref(resource->context);
  memory->box.context = resource->box.context;
  memory->backing = cch__box_ref(resource);
  finish(resource, memory);
  *out = memory;
  return 0;
}

/* Unmaps the memory that begin() returned, and drops the reference. */
static int unmap(cch_graphics *resource, cch_deviceptr *mapped, cch_stream *stream) {
  cch_stream *used = stream != NULL ? cch_stream_ref(stream) : cch_deviceptr_stream_ref(mapped);
  CUstream raw = cch__stream_here(used);
  int status = cch__context_check(used->context, "cuGraphicsUnmapResources");
  if (status == 0)
    status = CCH__IN_CONTEXT(resource->context, CCH__CALL(cuGraphicsUnmapResources, (1, &resource->raw, raw)));
  if (status == 0)
    cch__invalidate(mapped);
  finish(resource, status == 0 ? NULL : mapped);
  cch_stream_unref(used);
  cch_deviceptr_unref(mapped);
  return status;
}

cch_status cch_graphics_unmap(cch_graphics *resource, cch_stream *stream) {
  CCH__REQUIRE_USABLE(resource);
  CCH__REQUIRE_USABLE_OR_NULL(stream);
  cch_deviceptr *mapped;
  CCH__RETURN_FAILURE(begin(&mapped, resource, __func__));
  if (mapped != NULL)
    return unmap(resource, mapped, stream);
  finish(resource, NULL);
  return cch__fail(CCH_EINVAL, __func__, "the resource is not mapped");
}

bool cch_graphics_is_mapped(const cch_graphics *resource) {
  CCH__REQUIRE_ELSE(false, resource);
  if (cch__forked()) /* a thread that does not exist in this process may hold the lock */
    return false;
  pthread_mutex_lock(&lock);
  bool is_mapped = resource->mapped != NULL && !cch__is_gone(resource);
  pthread_mutex_unlock(&lock);
  return is_mapped;
}

cch_status cch_graphics_unregister(cch_graphics *resource, cch_stream *stream) {
  CCH__REQUIRE_USABLE(resource);
  CCH__REQUIRE_USABLE_OR_NULL(stream);
  cch_deviceptr *mapped;
  int status = begin(&mapped, resource, __func__);
  if (status == 0 && mapped != NULL) {
    status = unmap(resource, mapped, stream);
    if (status == 0)
      status = begin(&mapped, resource, __func__);
  }
  if (status != 0)
    return status;
  if (mapped != NULL) { /* another thread has mapped the resource again */
    finish(resource, mapped);
    cch_deviceptr_unref(mapped);
    return cch__fail(CCH_EINVAL, __func__, "another thread has mapped the resource");
  }
  status = CCH__IN_CONTEXT(resource->context, CCH__CALL(cuGraphicsUnregisterResource, (resource->raw)));
  if (status == 0)
    cch__invalidate(resource);
  finish(resource, NULL);
  return status;
}

/* ---- destroying resources and unmapping memory ---- */

/*
 * Returns whether another thread can unmap the resource: the driver needs the OpenGL context, which this thread does
 * not have (13.0, H200).
 */
static bool is_elsewhere(int status) {
  return cch__is_retryable(status) || status == CUDA_ERROR_INVALID_GRAPHICS_CONTEXT;
}

int cch__graphics_unmap_memory(cch_deviceptr *mapped, CUstream stream) {
  cch_graphics *resource = (cch_graphics *)mapped->backing;
  int status = CCH__CALL(cuGraphicsUnmapResources, (1, &resource->raw, stream));
  if (is_elsewhere(status))
    return CUDA_ERROR_NOT_PERMITTED;
  finish(resource, NULL);
  return status;
}

bool cch__graphics_destroy(cch_graphics *resource) {
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = CCH__IN_CONTEXT(resource->context, CCH__CALL(cuGraphicsUnregisterResource, (resource->raw)));
  cch__relaxed_leave(mode);
  if (is_elsewhere(status))
    return false;
  cch__report(status);
  return true;
}

void cch__graphics_unref_held(cch_graphics *resource) { cch_context_unref(resource->context); }
