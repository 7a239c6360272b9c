/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_EVENT_H
#define CUDACORE_INTERNAL_EVENT_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/** Borrows an event of a context, and keeps the context, which is NULL if it is not known. */
CCH_EXPORT cch_status cch_event_wrap_in(cch_event **out, CUevent raw, cch_context *CCH_NULLABLE context,
                                        void *CCH_NULLABLE owner, cch_release_fn CCH_NULLABLE release);

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

CCH_END_DECLS

#endif
