/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/peers.h"

#include "driver/current.h"
#include "stream/capture.h"
#include "base/reclaim.h"

#include <cudacore/device.h>
#include <cudacore/managed.h>
#include <cudacore/pointer.h>
#include <cudacore/pool.h>

#include <stdio.h>

enum {
  ANY_DEVICE = -1, /* host memory that CUDA manages, and managed memory: every device can access it */
  PAGEABLE = -2    /* other host memory */
};

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

/* Returns whether `here` can access memory of `device`, or of the host, without being granted access. */
static bool is_at(int here, int device) { return device == here || device < 0; }

static int device_of_address(int *out, CUdeviceptr ptr) {
  int type = 0, device = ANY_DEVICE, is_managed = 0;
  int status = cch_pointer_attributes(&type, &device, &is_managed, ptr);
  *out = ANY_DEVICE;
  if (status == 0 && type == CU_MEMORYTYPE_DEVICE && !is_managed)
    *out = device;
  else if (status == 0 && type == 0)
    *out = PAGEABLE;
  return status;
}

static int device_of(int *out, const cch_deviceptr *ptr) {
  const cch_deviceptr *whole = cch__whole(ptr);
  if (whole->backing != NULL && whole->backing->kind == CCH_KIND_POOL) {
    const cch_pool *pool = (const cch_pool *)whole->backing;
    if (pool->location_type == CCH_LOCATION_DEVICE && pool->alloc_type != CCH_ALLOCATION_MANAGED) {
      *out = pool->location_id;
      return 0;
    }
  }
  if (whole->origin == CCH__FROM_DEVICE) {
    *out = whole->context->device;
    return 0;
  }
  if (whole->origin == CCH__FROM_HOST || whole->origin == CCH__REGISTERED || whole->origin == CCH__FROM_MANAGED) {
    *out = ANY_DEVICE;
    return 0;
  }
  return device_of_address(out, ptr->ptr);
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

int cch__peers_find(cch__peers *out, const cch_deviceptr *dst, const cch_deviceptr *src, const cch_stream *stream) {
  int here, to, from;
  *out = (cch__peers){0};
  int status = device_of(&to, dst);
  if (status == 0)
    status = device_of(&from, src);
  if (status != 0)
    return status;
  out->dst_pageable = to == PAGEABLE;
  out->src_pageable = from == PAGEABLE;
  status = count_devices();
  if (status != 0 || cch__is_one_device())
    return status;
  status = device_of_stream(&here, stream);
  if (status != 0 || (is_at(here, to) && is_at(here, from)) || cch__is_capturing(stream->raw))
    return status;
  /* Memory that is on no device can be used in any context. */
  status = cch_context_primary(&out->dst, to >= 0 ? to : from);
  if (status == 0)
    status = cch_context_primary(&out->src, from >= 0 ? from : to);
  if (status != 0)
    cch__peers_release(out);
  return status;
}

void cch__peers_release(cch__peers *peers) {
  cch_context_unref(peers->dst);
  cch_context_unref(peers->src);
  *peers = (cch__peers){0};
}

void cch__explain_graph_copy(CUdeviceptr dst, CUdeviceptr src) {
  int to, from;
  CUdevice here;
  if (cch__is_one_device())
    return;
  cch_error saved = *cch_error_last();
  bool known =
      CCH__CALL(cuCtxGetDevice, (&here)) == 0 && device_of_address(&to, dst) == 0 && device_of_address(&from, src) == 0;
  cch_error_restore(&saved);
  if (!known || (is_at((int)here, to) && is_at((int)here, from)))
    return;
  char why[256];
  snprintf(why, sizeof why,
           "in a graph, the device that copies needs access to all of the memory, which is on device %d and device %d; "
           "give it access (peer_accessible_by of the memory's resource), or copy outside of the graph",
           from >= 0 ? from : to, to >= 0 ? to : from);
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
  if (!peers->dst_pageable && !peers->src_pageable)
    return CCH__CALL(cuMemcpyPeerAsync, (dst, peers->dst->raw, src, peers->src->raw, size, stream));
  const CUDA_MEMCPY3D line = {.srcDevice = src, .dstDevice = dst, .WidthInBytes = size, .Height = 1, .Depth = 1};
  return cch__copy_box(peers, &line, stream);
}

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
  const CUDA_MEMCPY3D_PEER between = {.srcMemoryType = plain.srcMemoryType,
                                      .srcDevice = plain.srcDevice,
                                      .srcHost = plain.srcHost,
                                      .srcContext = peers->src->raw,
                                      .srcPitch = plain.srcPitch,
                                      .srcHeight = plain.srcHeight,
                                      .dstMemoryType = plain.dstMemoryType,
                                      .dstDevice = plain.dstDevice,
                                      .dstHost = plain.dstHost,
                                      .dstContext = peers->dst->raw,
                                      .dstPitch = plain.dstPitch,
                                      .dstHeight = plain.dstHeight,
                                      .WidthInBytes = plain.WidthInBytes,
                                      .Height = plain.Height,
                                      .Depth = plain.Depth};
  return CCH__CALL(cuMemcpy3DPeerAsync, (&between, stream));
}

/* Returns whether the current device has access to both sides. */
static bool reaches(CUdeviceptr dst, CUdeviceptr src) {
  return cch_pointer_check(dst) == 0 && cch_pointer_check(src) == 0;
}

/* Gets the device of an operand. Usually the bundle has the box of the memory, so the driver is not called. */
static int device_of_operand(int *out, CUdeviceptr ptr, const cch_bundle *bundle) {
  enum { OPERANDS = 2 };
  for (size_t i = 0; bundle != NULL && i < bundle->count && i < OPERANDS; i++) {
    const cch_deviceptr *box = bundle->owners[i].object;
    if (bundle->owners[i].release == NULL && box->box.kind == CCH_KIND_DEVICEPTR && ptr - box->ptr < box->size)
      return device_of(out, box);
  }
  return device_of_address(out, ptr);
}

/*
 * Finds, for each side of a copy, the device whose memory the current device can access only if access was granted. -1:
 * there is none, or it is not known.
 */
static void find_other_devices(int out[2], CUdeviceptr dst, CUdeviceptr src, const cch_bundle *bundle) {
  CUdevice here = 0;
  if (CCH__CALL(cuCtxGetDevice, (&here)) != 0 || device_of_operand(&out[0], dst, bundle) != 0 ||
      device_of_operand(&out[1], src, bundle) != 0) {
    out[0] = out[1] = ANY_DEVICE;
    return;
  }
  for (int i = 0; i < 2; i++)
    if (is_at((int)here, out[i]))
      out[i] = ANY_DEVICE;
}

int cch__context_for_copy(CUcontext *out, CUdeviceptr dst, CUdeviceptr src, const cch_bundle *bundle) {
  int others[2] = {ANY_DEVICE, ANY_DEVICE};
  int status = CCH__CALL(cuCtxGetCurrent, (out));
  if (status == 0)
    status = count_devices();
  if (status != 0 || *out == NULL || cch__is_one_device())
    return status;
  cch__destructor_enter(); /* a failure of this attempt is not a failure of the caller's operation */
  find_other_devices(others, dst, src, bundle);
  bool found = (others[0] < 0 && others[1] < 0) || reaches(dst, src);
  for (int i = 0; i < 2 && !found; i++) {
    cch_context *there = NULL;
    if (others[i] < 0 || cch_context_primary(&there, others[i]) != 0)
      continue;
    found = CCH__IN_CONTEXT(there, reaches(dst, src) ? 0 : CCH_EMISMATCH) == 0;
    if (found)
      *out = there->raw; /* a primary context, which the memory keeps */
    cch_context_unref(there);
  }
  cch__destructor_leave();
  return 0;
}
