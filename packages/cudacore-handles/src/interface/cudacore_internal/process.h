/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_PROCESS_H
#define CUDACORE_INTERNAL_PROCESS_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

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

CCH_END_DECLS

#endif
