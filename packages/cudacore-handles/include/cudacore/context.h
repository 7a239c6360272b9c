/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_CONTEXT_H
#define CUDACORE_CONTEXT_H

/**
 * @file context.h
 * Contexts. A primary context is retained by its box and released with it; all requests for one device return the same
 * box. A green context has a part of a device's resources. It is destroyed with its box, and shares everything except
 * its streams with the primary context. Other contexts are borrowed. All are immutable.
 */

#include <cudacore/base.h>
#include <cudacore/resource.h>

CCH_BEGIN_DECLS

/** The primary context of a device, retained (cuDevicePrimaryCtxRetain). It is not made current. @since 0.1 */
CCH_EXPORT cch_status cch_context_primary(cch_context **out, int device);

/**
 * Makes a green context (cuGreenCtxCreate, of CUDA 12.4) with resources of one device: groups of multiprocessors from
 * one split, the multiprocessors that remained, or all of them; and at most one configuration of work queues. The
 * context is not made current. @since 0.1
 */
CCH_EXPORT cch_status cch_context_create(cch_context **out, int device, const cch_resource *resources, size_t count);

/** Borrows a context. `owner` (may be NULL) is kept until the box is destroyed, and then passed to `release`. If the
 * library already has a box that owns the context, that box is returned, and `owner` is released at once. On failure,
 * the caller keeps `owner`. @since 0.1 */
CCH_EXPORT cch_status cch_context_wrap(cch_context **out, CUcontext raw, void *CCH_NULLABLE owner,
                                       cch_release_fn CCH_NULLABLE release);

/** The calling thread's current context, as a new reference; NULL in *out if there is none. @since 0.1 */
CCH_EXPORT cch_status cch_context_current(cch_context **out);

/** Makes a context current on the calling thread (cuCtxSetCurrent); NULL for none. @since 0.1 */
CCH_EXPORT cch_status cch_context_set_current(cch_context *CCH_NULLABLE context);

/** Undoes cch_context_set_current(): makes the previous context current again (cuCtxSetCurrent); NULL for none. A
 * failed call is repeated once, because functions of the driver also return errors of earlier work. The context is not
 * checked, because it was current before. @since 0.1 */
CCH_EXPORT cch_status cch_context_restore(cch_context *CCH_NULLABLE context);

/** Waits for all work of a context, whatever context is current (cuCtxSynchronize). @since 0.1 */
CCH_EXPORT cch_status cch_context_synchronize(cch_context *context);

/** The lowest and the highest priority of streams in a context (cuCtxGetStreamPriorityRange). Smaller numbers are
 * higher priorities, so `*highest` is the smallest number. @since 0.1 */
CCH_EXPORT cch_status cch_context_priorities(int *lowest, int *highest, cch_context *context);

/** Free and total bytes of the memory of a context's device (cuMemGetInfo). This function may be called while streams
 * are captured, in any mode. @since 0.1 */
CCH_EXPORT cch_status cch_context_memory_info(size_t *free, size_t *total, cch_context *context);

/** Ordinal of the calling thread's current device (cuCtxGetDevice). CUDA_ERROR_INVALID_CONTEXT if no context is
 * current. @since 0.1 */
CCH_EXPORT cch_status cch_current_device(int *out);

/** Ordinal of a context's device. @since 0.1 */
CCH_EXPORT int cch_context_device(const cch_context *context);

/** 1 for a primary context that the box retains. @since 0.1 */
CCH_EXPORT bool cch_context_is_primary(const cch_context *context);

/**
 * 1 for a green context, whichever code created it. For a borrowed context, the driver is queried
 * (cuStreamGetGreenCtx).
 * @since 0.1
 */
CCH_EXPORT cch_status cch_context_is_green(int *out, cch_context *context);

CCH_EXPORT CUcontext cch_context_raw(const cch_context *context);

CCH_END_DECLS

#endif
