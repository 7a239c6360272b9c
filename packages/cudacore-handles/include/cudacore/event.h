/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_EVENT_H
#define CUDACORE_EVENT_H

/**
 * @file event.h
 * Events. A box keeps its context, and the flags, which the driver cannot report.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** Event flags, with CUDA's numbers. */
#define CCH_EVENT_BLOCKING_SYNC 1u
#define CCH_EVENT_DISABLE_TIMING 2u
#define CCH_EVENT_INTERPROCESS 4u

/** The flags of a borrowed event, which are not known. */
#define CCH_EVENT_UNKNOWN 0x80000000u

/** Makes an event in a context (cuEventCreate). CCH_EVENT_INTERPROCESS needs CCH_EVENT_DISABLE_TIMING. @since 0.1 */
CCH_EXPORT cch_status cch_event_create(cch_event **out, cch_context *context, unsigned flags);

/**
 * Borrows an event. Its context is not known, because the driver cannot report it. So cch_event_record() on a default
 * stream records the event in the current context. `owner` and `release` are as in cch_context_wrap(). @since 0.1
 */
CCH_EXPORT cch_status cch_event_wrap(cch_event **out, CUevent raw, void *CCH_NULLABLE owner,
                                     cch_release_fn CCH_NULLABLE release);

/**
 * Records the event after the present work of `stream` (cuEventRecord). CCH_EMISMATCH if the event and the stream have
 * different contexts. A wait uses the last record, so the *caller serialises* a record and the waits that depend on it.
 * @since 0.1
 */
CCH_EXPORT cch_status cch_event_record(cch_event *event, cch_stream *stream);

/**
 * 0 if the recorded work is done, CUDA_ERROR_NOT_READY if not (cuEventQuery). CUDA_ERROR_CAPTURED_EVENT if the event
 * was recorded in a capture; the query does not invalidate that capture, whichever code began it. This holds for
 * records by this library, and for borrowed events. cch_event_synchronize() treats such events in the same way.
 * @since 0.1
 */
CCH_EXPORT cch_status cch_event_query(cch_event *event);

/** Waits until the recorded work is done (cuEventSynchronize). @since 0.1 */
CCH_EXPORT cch_status cch_event_synchronize(cch_event *event);

/** Milliseconds from `start` to `end` (cuEventElapsedTime). @since 0.1 */
CCH_EXPORT cch_status cch_event_elapsed(float *out, cch_event *start, cch_event *end);

CCH_EXPORT CUevent cch_event_raw(const cch_event *event);

CCH_END_DECLS

#endif
