/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/peers.h"

#include "driver/current.h"
#include "memory/deviceptr.h"
#include "stream/capture.h"
#include "base/reclaim.h"

#include <cudacore_internal/driver.h>
#include <cudacore_internal/managed.h>
#include <cudacore_internal/deviceptr.h>
#include <cudacore_internal/pool.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
  ANY_DEVICE = -1, /* host memory that CUDA manages, and managed memory: every device can access it */
  PAGEABLE = -2    /* other host memory */
};

#define NEEDS_ACCESS(PLACES)                                                                                           \
  "in a graph, the device that copies needs access to all of the memory, which is on " PLACES "; give it access "      \
  "(peer_accessible_by of the memory's resource), or copy outside of the graph"

atomic_int cch__device_total;

/* Counts the devices. The number never changes. */
static int count_devices(void) {
  int count = 0;
  if (atomic_load_explicit(&cch__device_total, memory_order_relaxed) != 0)
    return 0;
  int status = cch_device_count(&count);
  if (status == 0)
    atomic_store_explicit(&cch__device_total, count, memory_order_relaxed);
  return status;
}

/* Where an operand of a copy is. */
typedef struct place {
  int device;           /* a device that can use the memory without being given access; or ANY_DEVICE, PAGEABLE */
  bool is_refused;      /* cuMemcpyPeerAsync does not take the memory */
  bool is_virtual_host; /* virtual memory of the host, to which the peer functions do not copy */
  cch_context *context; /* the context of that device, which the memory keeps; NULL if it keeps none */
} place;

/* Returns whether `here` can use the memory without being given access. */
static bool is_at(int here, const place *of) { return of->device == here || of->device < 0; }

/*
 * Completes the place of virtual memory of a device: only its own access rights count. The place is `here` if that
 * device can use the memory, and otherwise the device that the memory was made for.
 */
static int place_virtual(place *out, CUdeviceptr ptr, int here) {
  bool is_open = false;
  int status = cch__virtual_is_open(&is_open, here, ptr);
  out->device = is_open || out->context == NULL ? here : out->context->device;
  return status;
}

static int place_address(place *out, CUdeviceptr ptr) {
  int type = 0, device = ANY_DEVICE, is_managed = 0;
  int status = cch_pointer_attributes(&type, &device, &is_managed, ptr);
  *out = (place){.device = type == 0 ? PAGEABLE : ANY_DEVICE, .is_refused = type != CU_MEMORYTYPE_DEVICE};
  if (status == 0 && type == CU_MEMORYTYPE_DEVICE && !is_managed)
    out->device = device;
  if (status != 0 || type != CU_MEMORYTYPE_HOST || cch__is_one_device())
    return status;
  bool is_virtual;
  status = cch__is_virtual(&is_virtual, ptr);
  out->is_virtual_host = status == 0 && is_virtual;
  return status;
}

/*
 * Finds where memory is, for work on a device. The driver is queried only about memory of others, and virtual memory.
 * An allocation that only keeps the owner of other memory alive says nothing about that memory.
 */
static int find_place(place *out, const cch_deviceptr *ptr, int here) {
  const cch_deviceptr *whole = cch__whole(ptr);
  if (!cch__is_in(whole, ptr->ptr))
    return place_address(out, ptr->ptr);
  const cch_pool *pool =
      whole->backing != NULL && whole->backing->kind == CCH_KIND_POOL ? (cch_pool *)whole->backing : NULL;
  *out = (place){.device = ANY_DEVICE};
  if (pool != NULL && cch__pool_is_on_device(pool)) {
    out->device = pool->location_id;
    out->context = atomic_load_explicit(&pool->context, memory_order_acquire);
    return 0;
  }
  if (pool != NULL && pool->location_type != 0 && pool->alloc_type != 0) {
    out->is_refused = pool->alloc_type != CCH_ALLOCATION_MANAGED;
    return 0;
  }
  switch (whole->origin) {
  case CCH__FROM_DEVICE:
  case CCH__FROM_GRAPHICS:
    out->device = whole->context->device;
    out->context = whole->context;
    return 0;
  case CCH__FROM_HOST:
  case CCH__REGISTERED:
  case CCH__FROM_MANAGED:
    return 0;
  case CCH__FROM_RANGES:
    out->is_refused = out->is_virtual_host = whole->on_host;
    out->context = whole->on_host ? NULL : whole->context;
    return cch__is_one_device() || whole->on_host ? 0 : place_virtual(out, ptr->ptr, here);
  default:
    return place_address(out, ptr->ptr);
  }
}

/* Gets the device of a stream. If the stream has a context, it must be current. */
static int device_of_stream(int *out, const cch_stream *stream) {
  if (stream->context != NULL) {
    *out = stream->context->device;
    return 0;
  }
  CUdevice device = 0;
  int status = CCH__CALL(cuCtxGetDevice, (&device));
  *out = (int)device;
  return status;
}

/*
 * Gets a reference to a context in which memory can be used: the one that the memory keeps. The owner of memory that
 * the library did not allocate keeps its context, so a reference for the time of the call is enough. The same applies
 * after a reset, which memory of pools survives.
 */
static int context_at(cch_context **out, const place *of) {
  if (of->context == NULL || cch__context_is_lost(of->context))
    return cch_context_primary(out, of->device);
  *out = cch_context_ref(of->context);
  return 0;
}

/* Returns whether the current device can use the memory of the operands. */
static bool reaches(const CUdeviceptr *operands, const place *places, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (places[i].device >= 0 && cch_pointer_check(operands[i]) != 0)
      return false;
  return true;
}

/*
 * Checks a captured copy. The driver refuses it if the stream's device does not have access to both sides; but if one
 * side is virtual memory of the host, it does so only when the graph is instantiated.
 */
static int check_captured(const place *to, const place *from, CUdeviceptr dst, CUdeviceptr src) {
  if (!to->is_virtual_host && !from->is_virtual_host)
    return 0;
  const CUdeviceptr operands[] = {dst, src};
  const place places[] = {*to, *from};
  if (reaches(operands, places, 2))
    return 0;
  return cch__fail(CCH_EMISMATCH, "cuMemcpyAsync", NEEDS_ACCESS("device %d and the host"),
                   to->device >= 0 ? to->device : from->device);
}

/*
 * Decides how a copy is made. If the stream's device can use both sides, or if the stream is captured, the plain
 * functions copy: others cannot be captured. Then the driver refuses memory that the device has no access to.
 * Otherwise, the peer functions copy, each side in a context of its own. cuMemcpyPeerAsync refuses memory of the host,
 * except pinned and registered memory (13.0, H200), so cuMemcpy3DPeerAsync copies that. A copy to virtual memory of the
 * host crashes in both of them, but the plain functions do it, whichever device has access to the destination.
 */
int cch__peers_find(cch__peers *out, const cch_deviceptr *dst, const cch_deviceptr *src, const cch_stream *stream) {
  int here = 0;
  place to, from;
  *out = (cch__peers){0};
  CCH__RETURN_FAILURE(count_devices());
  if (!cch__is_one_device())
    CCH__RETURN_FAILURE(device_of_stream(&here, stream));
  CCH__RETURN_FAILURE(find_place(&to, dst, here));
  CCH__RETURN_FAILURE(find_place(&from, src, here));
  out->dst_pageable = to.device == PAGEABLE;
  out->src_pageable = from.device == PAGEABLE;
  if (cch__is_one_device() || (is_at(here, &to) && is_at(here, &from)))
    return 0;
  if (cch__is_capturing(stream->raw))
    return check_captured(&to, &from, dst->ptr, src->ptr);
  if (to.is_virtual_host)
    return cch__fail(CCH_EMISMATCH, "cuMemcpyAsync",
                     "CUDA copies memory of device %d to virtual memory of the host only on a stream of that device",
                     from.device);
  out->by_box = to.is_refused || from.is_refused;
  /* Memory that is on no device can be used in any context. */
  int status = context_at(&out->dst, to.device >= 0 ? &to : &from);
  if (status == 0)
    status = context_at(&out->src, from.device >= 0 ? &from : &to);
  if (status != 0)
    cch__peers_unref(out);
  return status;
}

int cch__peers_check_fill(const cch_deviceptr *dst, const cch_stream *stream) {
  int here;
  place to;
  CCH__RETURN_FAILURE(count_devices());
  if (cch__is_one_device())
    return 0;
  int status = device_of_stream(&here, stream);
  if (status == 0)
    status = find_place(&to, dst, here);
  return status != 0 || (is_at(here, &to) && !to.is_virtual_host) ? status : cch_pointer_check(dst->ptr);
}

void cch__peers_unref(cch__peers *peers) {
  cch_context_unref(peers->dst);
  cch_context_unref(peers->src);
  *peers = (cch__peers){0};
}

void cch__explain_graph_copy(CUdeviceptr dst, CUdeviceptr src) {
  place to, from;
  CUdevice here = 0;
  if (cch__is_one_device())
    return;
  cch_error saved = *cch_error_last();
  bool known =
      CCH__CALL(cuCtxGetDevice, (&here)) == 0 && place_address(&to, dst) == 0 && place_address(&from, src) == 0;
  cch_error_restore(&saved);
  if (!known || (is_at((int)here, &to) && is_at((int)here, &from)))
    return;
  char why[256];
  snprintf(why, sizeof why, NEEDS_ACCESS("device %d and device %d"), from.device >= 0 ? from.device : to.device,
           to.device >= 0 ? to.device : from.device);
  cch__fail_explain(why);
}

/*
 * Explains the failure of a captured copy between devices: the driver refuses it if the stream's device does not have
 * access to both sides.
 */
static int explain_captured(int status, CUdeviceptr dst, CUdeviceptr src, CUstream stream) {
  if (status == CUDA_ERROR_INVALID_VALUE && cch__is_capturing(stream))
    cch__explain_graph_copy(dst, src);
  return status;
}

static void *as_host(CUdeviceptr ptr) { return (void *)(uintptr_t)ptr; } /* NOLINT */

int cch__copy_line(const cch__peers *peers, CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream) {
  if (peers->dst == NULL) {
    int status = CCH__CALL(cuMemcpyAsync, (dst, src, size, stream));
    return status == 0 ? 0 : explain_captured(status, dst, src, stream);
  }
  if (!peers->by_box)
    return CCH__CALL(cuMemcpyPeerAsync, (dst, peers->dst->raw, src, peers->src->raw, size, stream));
  const CUDA_MEMCPY3D line = {.srcDevice = src, .dstDevice = dst, .WidthInBytes = size, .Height = 1, .Depth = 1};
  return cch__copy_box(peers, &line, stream);
}

/* Both structures of CUDA have the same fields, except that one has contexts where the other has reserved fields. */
static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D) &&
                  offsetof(CUDA_MEMCPY3D_PEER, srcContext) == offsetof(CUDA_MEMCPY3D, reserved0) &&
                  offsetof(CUDA_MEMCPY3D_PEER, dstContext) == offsetof(CUDA_MEMCPY3D, reserved1),
              "copies between devices are described like others");

int cch__copy_box(const cch__peers *peers, const CUDA_MEMCPY3D *box, CUstream stream) {
  /* Unified: the driver finds the kind of each address. */
  CUDA_MEMCPY3D plain = *box;
  plain.srcMemoryType = peers->src_pageable ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  plain.dstMemoryType = peers->dst_pageable ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  plain.srcHost = as_host(peers->src_pageable ? box->srcDevice : 0);
  plain.dstHost = as_host(peers->dst_pageable ? box->dstDevice : 0);
  if (peers->dst == NULL) {
    int status = CCH__CALL(cuMemcpy3DAsync, (&plain, stream));
    return status == 0 ? 0 : explain_captured(status, box->dstDevice, box->srcDevice, stream);
  }
  CUDA_MEMCPY3D_PEER between;
  memcpy(&between, &plain, sizeof between);
  between.dstContext = peers->dst->raw;
  between.srcContext = peers->src->raw;
  return CCH__CALL(cuMemcpy3DPeerAsync, (&between, stream));
}

/* ---- nodes of graphs ---- */

/* Gets the place of an operand. Usually the bundle has the box of the memory, so the driver is not called. */
static int place_operand(place *out, CUdeviceptr ptr, int here, const cch_bundle *bundle) {
  enum { OPERANDS = 2 };
  for (size_t i = 0; bundle != NULL && i < bundle->count && i < OPERANDS; i++) {
    const cch_deviceptr *box = bundle->owners[i].object;
    if (bundle->owners[i].release == NULL && box->box.kind == CCH_KIND_DEVICEPTR && cch__is_in(box, ptr))
      return find_place(out, box, here);
  }
  return place_address(out, ptr);
}

/* Finds a context other than the current one in which all operands can be used; NULL if there is none. */
static cch_context *find_context(const CUdeviceptr *operands, const place *places, size_t count) {
  for (size_t i = 0; i < count; i++) {
    cch_context *there = NULL;
    if (places[i].device < 0 || context_at(&there, &places[i]) != 0)
      continue;
    if (CCH__IN_CONTEXT(there, reaches(operands, places, count) ? 0 : CCH_EMISMATCH) == 0)
      return there;
    cch_context_unref(there);
  }
  return NULL;
}

int cch__context_for_node(CUcontext *out, cch_context **kept, const CUdeviceptr *operands, size_t count,
                          const cch_bundle *bundle) {
  enum { OPERANDS = 2 };
  place places[OPERANDS];
  CUdevice here = 0;
  *kept = NULL;
  int status = CCH__CALL(cuCtxGetCurrent, (out));
  if (status == 0)
    status = count_devices();
  if (status != 0 || *out == NULL || cch__is_one_device())
    return status;
  cch__destructor_enter(); /* a failure of this attempt is not a failure of the caller's operation */
  bool known = CCH__CALL(cuCtxGetDevice, (&here)) == 0, is_here = true;
  for (size_t i = 0; i < count && known; i++) {
    known = place_operand(&places[i], operands[i], (int)here, bundle) == 0;
    is_here = is_here && known && is_at((int)here, &places[i]);
  }
  if (known && !is_here && !reaches(operands, places, count))
    *kept = find_context(operands, places, count);
  cch__destructor_leave();
  if (*kept != NULL)
    *out = (*kept)->raw;
  return 0;
}
