/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_CONTEXT_H
#define CUDACORE_INTERNAL_CONTEXT_H

#include <cudacore/cudacore.h>

/*
 * Resources of devices: streaming multiprocessors and work queues. A green context can have a part of them
 * (cch_context_create()). A resource is a value: it can be copied, and is never freed. The driver has
 * resources since CUDA 12.4.
 */

/** Kinds of resource, with CUDA's numbers (CUdevResourceType): multiprocessors, and (since CUDA 13.1) the configuration
 * of work queues. */
#define CCH_RESOURCE_NONE 0
#define CCH_RESOURCE_SM 1
#define CCH_RESOURCE_WORKQUEUE 1000

/**
 * A resource in the driver's form, the CUdevResource of CUDA 13.1. Drivers before it report only the number of
 * multiprocessors; the other fields are 0. The settings of work queues can be changed, for contexts that are created
 * with the resource.
 */
typedef struct cch_resource {
  int32_t kind; /**< a CCH_RESOURCE_* */
  uint32_t internal[23];
  /**
   * Of multiprocessors: their number, the minimum number in a part of them, the number that is co-scheduled, and the
   * driver's flags. Of work queues: the device, the expected number of streams with work at the same time, and how
   * queues are shared (CUdevWorkqueueConfigScope).
   */
  uint32_t fields[4];
  uint64_t unused[4];
} cch_resource;

/** A device's resource of a kind (cuDeviceGetDevResource). */
CCH_EXPORT cch_status cch_resource_of_device(cch_resource *out, int device, int kind);

/**
 * A context's resource of a kind: for a green context, its part (cuGreenCtxGetDevResource); for any other context,
 * everything that its device has (cuCtxGetDevResource).
 */
CCH_EXPORT cch_status cch_resource_of_context(cch_resource *out, cch_context *context, int kind);

/* Contexts. */

/**
 * Makes a green context (cuGreenCtxCreate, of CUDA 12.4) with resources of one device: groups of multiprocessors from
 * one split, the multiprocessors that remained, or all of them; and at most one configuration of work queues. The
 * context is not made current.
 */
CCH_EXPORT cch_status cch_context_create(cch_context **out, int device, const cch_resource *resources, size_t count);

/** Undoes cch_context_set_current(): makes the previous context current again (cuCtxSetCurrent); NULL for none. A
 * failed call is repeated once, because functions of the driver also return errors of earlier work. The context is not
 * checked, because it was current before. */
CCH_EXPORT cch_status cch_context_restore(cch_context *CCH_NULLABLE context);

/** Free and total bytes of the memory of a context's device (cuMemGetInfo). This function may be called while streams
 * are captured, in any mode. */
CCH_EXPORT cch_status cch_context_memory_info(size_t *free, size_t *total, cch_context *context);

/** Ordinal of the calling thread's current device (cuCtxGetDevice). CUDA_ERROR_INVALID_CONTEXT if no context is
 * current. */
CCH_EXPORT cch_status cch_current_device(int *out);

/** 1 for a primary context that the box retains. */
CCH_EXPORT bool cch_context_is_primary(const cch_context *context);

/**
 * 1 for a green context, whichever code created it. For a borrowed context, the driver is queried
 * (cuStreamGetGreenCtx).
 */
CCH_EXPORT cch_status cch_context_is_green(int *out, cch_context *context);

#endif
