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

CCH_BEGIN_DECLS

/** The primary context of a device, retained (cuDevicePrimaryCtxRetain). It is not made current. @since 0.1 */
CCH_EXPORT cch_status cch_context_primary(cch_context **out, int device);

/** Borrows a context. `owner` (may be NULL) is kept until the box is destroyed, and then passed to `release`. If the
 * library already has a box that owns the context, that box is returned, and `owner` is released at once. On failure,
 * the caller keeps `owner`. @since 0.1 */
CCH_EXPORT cch_status cch_context_wrap(cch_context **out, CUcontext raw, void *CCH_NULLABLE owner,
                                       cch_release_fn CCH_NULLABLE release);

/** The calling thread's current context, as a new reference; NULL in *out if there is none. @since 0.1 */
CCH_EXPORT cch_status cch_context_current(cch_context **out);

/** Makes a context current on the calling thread (cuCtxSetCurrent); NULL for none. @since 0.1 */
CCH_EXPORT cch_status cch_context_set_current(cch_context *CCH_NULLABLE context);

/** Waits for all work of a context, whatever context is current (cuCtxSynchronize). @since 0.1 */
CCH_EXPORT cch_status cch_context_synchronize(cch_context *context);

/** Ordinal of a context's device. @since 0.1 */
CCH_EXPORT int cch_context_device(const cch_context *context);

CCH_EXPORT CUcontext cch_context_raw(const cch_context *context);

CCH_END_DECLS

#endif
