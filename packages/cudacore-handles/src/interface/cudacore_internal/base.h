/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_BASE_H
#define CUDACORE_INTERNAL_BASE_H

#include <cudacore/cudacore.h>

/** Path of the loaded shared library, or an empty string. The string lives as long as the library. */
CCH_EXPORT const char *cch_library_path(void);

/**
 * Drops a reference, unless that would call CUDA or a release function. So this function can be called with a lock
 * held, even if CUDA or the release function could wait for that lock. Returns NULL if the reference was dropped.
 * Otherwise returns a box with a reference that the caller must pass to cch_unref(). NULL does nothing.
 * Destructor-safe.
 */
CCH_EXPORT void *cch_unref_lightly(void *CCH_NULLABLE box);

/** The owner at a position, borrowed from the bundle. Owners are in the order in which they were added. `*release` is
 * NULL if the owner is a box. CCH_EINVAL if `index` is out of range. */
CCH_EXPORT cch_status cch_bundle_get(void **out, cch_release_fn *release, const cch_bundle *bundle, size_t index);

/**
 * Restores a copy of the last failure, for code that must run other calls before the failure is read. Destructor-safe.
 */
CCH_EXPORT void cch_error_restore(const cch_error *error);

/** Name of a code of a cch_domain: "NVRTC_ERROR_COMPILATION". Never NULL. */
CCH_EXPORT const char *cch_error_name_in(int domain, int code);

/** The meaning of a code of a cch_domain, in one line without a full stop. Never NULL. */
CCH_EXPORT const char *cch_error_string_in(int domain, int code);

/**
 * 1 if the calling thread has called cch_callback_enter() and not yet cch_callback_leave(), for example in a host
 * function of a graph. Functions for graphs then return CUDA_ERROR_NOT_PERMITTED, because waiting for a thread that
 * launches a graph would be a deadlock. Destructor-safe.
 */
CCH_EXPORT bool cch_callback_active(void);

/**
 * Waits until no thread is in a call of a compiler; compilations of NVRTC that still run are cancelled. To be called at
 * the end of the process, when no thread can make such a call any more: exit() destroys the data of the compilers'
 * libraries, and a thread that still compiles would crash.
 */
CCH_EXPORT void cch_compilers_finish(void);

/**
 * Number of streams that the library has made in contexts to free memory that was used on several streams. Each exists
 * as long as its context. For tests and diagnostics. Destructor-safe.
 */
CCH_EXPORT size_t cch_helper_stream_count(void);

/** Number of queued boxes, for tests and diagnostics. Destructor-safe. */
CCH_EXPORT size_t cch_reclaim_pending(void);

#endif
