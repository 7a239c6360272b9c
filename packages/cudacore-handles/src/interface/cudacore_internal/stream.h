/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_STREAM_H
#define CUDACORE_INTERNAL_STREAM_H

#include <cudacore/cudacore.h>

/**
 * Queries a stream during a wait, without affecting captures, which other threads can begin meanwhile. If the stream is
 * captured, fails with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED. If the work is done, the wait ends as with
 * cch_stream_finish().
 */
CCH_EXPORT cch_status cch_stream_poll(cch_stream *stream);

/**
 * Does the same as cch_stream_wait_stream(), but nothing if only one of the streams is being captured. The streams are
 * given by their handles; `producer` is ignored if the box of that stream is given. A default stream is that of the
 * device or, if the number of the device is negative, of the current context.
 */
CCH_EXPORT cch_status cch_stream_order(CUstream CCH_NULLABLE consumer, CUstream CCH_NULLABLE producer,
                                       cch_stream *CCH_NULLABLE known, int device);

/** Ends a wait for a stream that a query has found to be done, as cch_event_finish() does. */
CCH_EXPORT cch_status cch_stream_finish(cch_stream *stream);

/** Makes an event behind the work that a stream has now. */
CCH_EXPORT cch_status cch_stream_mark(cch_event **out, cch_stream *stream);

/** The CU_STREAM_* flags of a stream (cuStreamGetFlags). */
CCH_EXPORT cch_status cch_stream_flags(unsigned *out, cch_stream *stream);

/** The priority of a stream (cuStreamGetPriority). */
CCH_EXPORT cch_status cch_stream_priority(int *out, cch_stream *stream);

/**
 * The same as cch_event_query(), but never invalidates a capture of this thread, whatever the capture's mode.
 */
CCH_EXPORT cch_status cch_event_poll(cch_event *event);

/**
 * Ends a wait for an event that a query has found to be done. If memory was freed since the last wait for the event,
 * this is cch_event_synchronize(), at which the driver returns unused memory of pools; otherwise it does nothing. It
 * never invalidates a capture of this thread, like cch_event_poll().
 */
CCH_EXPORT cch_status cch_event_finish(cch_event *event);

/** Makes an event behind all work that a context has now (cuCtxRecordEvent). Needs a driver for CUDA 12.5. */
CCH_EXPORT cch_status cch_event_behind_context(cch_event **out, cch_context *context);

/** The flags that the event was created with, or CCH_EVENT_UNKNOWN. */
CCH_EXPORT unsigned cch_event_flags(const cch_event *event);

/** The event's context, borrowed from the box; NULL when it is not known. */
CCH_EXPORT cch_context *cch_event_context(const cch_event *event);

#endif
