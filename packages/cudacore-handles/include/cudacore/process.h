/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_PROCESS_H
#define CUDACORE_PROCESS_H

/**
 * @file process.h
 * Process-wide events: the end of a managed runtime, fork, and places where CUDA calls are forbidden.
 *
 * A reference can be dropped anywhere, even where the driver must not be called: in the destructor of a CUDA user
 * object, in a host function, or during a capture that would record the free. In such places the box is queued, which
 * allocates no memory. The box is destroyed later at a safe point: the next call of this library that launches,
 * records, creates something or waits, or cch_reclaim_drain(). Announce such places with cch_callback_enter().
 * Otherwise the driver refuses the destruction; then the box is queued, too. Calls that wait try again to destroy it,
 * and so do other calls from time to time. No destructor invalidates the capture of another stream.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** Declares that the runtime that registered release callbacks (an interpreter) is shutting down. From now on, foreign
 * owners are leaked: their release functions are not called. Cannot be undone. Destructor-safe. @since 0.1 */
CCH_EXPORT void cch_process_exiting(void);

/** Marks the calling thread as running inside a CUDA callback until the matching cch_callback_leave(). Nests.
 * Destructor-safe. @since 0.1 */
CCH_EXPORT void cch_callback_enter(void);

/** Ends the state that cch_callback_enter() began. Destructor-safe. @since 0.1 */
CCH_EXPORT void cch_callback_leave(void);

/**
 * Drops a reference to a box of any kind where CUDA calls are forbidden: if it was the last reference, the box is
 * queued. NULL does nothing. Destructor-safe. @since 0.1
 */
CCH_EXPORT void cch_unref_deferred(void *CCH_NULLABLE box);

/** Destroys all queued boxes that can be destroyed, and returns their number. Does nothing inside a CUDA callback, or
 * in a release function: the caller of the release function destroys the queued boxes afterwards. @since 0.1 */
CCH_EXPORT size_t cch_reclaim_drain(void);

CCH_END_DECLS

#endif
