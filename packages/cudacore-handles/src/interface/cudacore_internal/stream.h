/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_STREAM_H
#define CUDACORE_INTERNAL_STREAM_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/**
 * Decides which stream a default stream means: returns a box of that of the current context and, for the per-thread
 * one, of the calling thread. If no context is current, the box has no context. Any other stream is returned itself.
 * The result is a new reference.
 */
CCH_EXPORT cch_status cch_stream_resolve(cch_stream **out, cch_stream *stream);

/**
 * Queries a stream during a wait, without affecting captures, which other threads can begin meanwhile. If the stream is
 * captured, fails with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED. If the work is done, the wait ends as with
 * cch_stream_finish().
 */
CCH_EXPORT cch_status cch_stream_poll(cch_stream *stream);

/** Ends a wait for a stream that a query has found to be done, as cch_event_finish() does. */
CCH_EXPORT cch_status cch_stream_finish(cch_stream *stream);

/** Makes an event behind the work that a stream has now. */
CCH_EXPORT cch_status cch_stream_mark(cch_event **out, cch_stream *stream);

/** The CU_STREAM_* flags of a stream (cuStreamGetFlags). */
CCH_EXPORT cch_status cch_stream_flags(unsigned *out, cch_stream *stream);

/** The priority of a stream (cuStreamGetPriority). */
CCH_EXPORT cch_status cch_stream_priority(int *out, cch_stream *stream);

CCH_END_DECLS

#endif
