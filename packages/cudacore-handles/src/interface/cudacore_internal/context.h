/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_CONTEXT_H
#define CUDACORE_INTERNAL_CONTEXT_H

#include <cudacore/cudacore.h>

#include <cudacore_internal/resource.h>

CCH_BEGIN_DECLS

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

/** The lowest and the highest priority of streams in a context (cuCtxGetStreamPriorityRange). Smaller numbers are
 * higher priorities, so `*highest` is the smallest number. */
CCH_EXPORT cch_status cch_context_priorities(int *lowest, int *highest, cch_context *context);

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

CCH_END_DECLS

#endif
