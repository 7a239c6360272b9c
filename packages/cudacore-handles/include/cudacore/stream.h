/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_STREAM_H
#define CUDACORE_STREAM_H

/**
 * @file stream.h
 * Streams. A box keeps its context. The two default streams are static boxes without a context: they mean the context
 * that is current at each call. If an allocation is given a default stream, it has a box of the stream with the context
 * and, for the per-thread one, the thread of that call. Operations on all streams but the static boxes work with any
 * current context, and do not change it.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** The handles of the default streams, as numbers: CU_STREAM_LEGACY and CU_STREAM_PER_THREAD. */
#define CCH_STREAM_LEGACY 1u
#define CCH_STREAM_PER_THREAD 2u

/** cch_stream_create flag: no implicit ordering with the legacy default stream (CU_STREAM_NON_BLOCKING). */
#define CCH_STREAM_NON_BLOCKING 1u

/**
 * Makes a stream in a context (cuStreamCreateWithPriority). Streams with a lower `priority` run first; the driver
 * clamps the number to the device's range. Streams of a green context (cuGreenCtxStreamCreate, of CUDA 12.5) must be
 * non-blocking.
 * @since 0.1
 */
CCH_EXPORT cch_status cch_stream_create(cch_stream **out, cch_context *context, unsigned flags, int priority);

/**
 * Borrows a stream. CU_STREAM_LEGACY, NULL and CU_STREAM_PER_THREAD return the boxes of the default streams. `owner`
 * and `release` are as in cch_context_wrap(). @since 0.1
 */
CCH_EXPORT cch_status cch_stream_wrap(cch_stream **out, CUstream CCH_NULLABLE raw, void *CCH_NULLABLE owner,
                                      cch_release_fn CCH_NULLABLE release);

/** The legacy default stream. A new reference to a box that is never freed. Destructor-safe. @since 0.1 */
CCH_EXPORT cch_stream *cch_stream_legacy(void);

/** The per-thread default stream. A new reference to a box that is never freed. Destructor-safe. @since 0.1 */
CCH_EXPORT cch_stream *cch_stream_per_thread(void);

/** The stream's context, borrowed from the box; NULL for a default stream. @since 0.1 */
CCH_EXPORT cch_context *cch_stream_context(const cch_stream *stream);

/** 1 while the stream is being captured, even if the capture is no longer valid, else 0 (cuStreamIsCapturing).
 * @since 0.1 */
CCH_EXPORT cch_status cch_stream_is_capturing(int *out, cch_stream *stream);

/** 0 if all work is done, CUDA_ERROR_NOT_READY if not (cuStreamQuery). @since 0.1 */
CCH_EXPORT cch_status cch_stream_query(cch_stream *stream);

/** Waits until all work is done (cuStreamSynchronize). @since 0.1 */
CCH_EXPORT cch_status cch_stream_synchronize(cch_stream *stream);

/** Makes later work of `stream` wait for the last record of an event (cuStreamWaitEvent). @since 0.1 */
CCH_EXPORT cch_status cch_stream_wait_event(cch_stream *stream, cch_event *event);

/** Makes later work of `stream` wait for the present work of `other`, by a temporary event. @since 0.1 */
CCH_EXPORT cch_status cch_stream_wait_stream(cch_stream *stream, cch_stream *other);

/**
 * Calls a host function after the stream's present work, and before its later work (cuLaunchHostFunc). The function
 * must not call CUDA. A box whose last reference the function drops is destroyed later. `bundle` (may be NULL) is kept
 * until the function was called. If the stream is captured, each launch of the graph calls the function, and the graph
 * keeps `bundle`, whichever code began the capture. After work in a context has failed, functions are no longer called.
 * @since 0.1
 */
CCH_EXPORT cch_status cch_stream_callback(cch_stream *stream, cch_host_fn function, void *CCH_NULLABLE data,
                                          cch_bundle *CCH_NULLABLE bundle);

CCH_EXPORT CUstream cch_stream_raw(const cch_stream *stream);

CCH_END_DECLS

#endif
