/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_CAPTURE_RULES_H
#define CUDACORE_SIM_DRIVER_BASE_CAPTURE_RULES_H

#include "sim/driver/base/state.h"

/*
 * Rules for calls while streams are captured. A call that is not allowed invalidates the captures that forbid it. The
 * functions are defined with captures, in the room of graphs, and called from all other rooms.
 */
namespace sim {

/* Fails with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if a capture forbids unsafe calls, which cannot be captured. */
CUresult check_unsafe();

/* Fails if a stream must not be queried. Captured work has no result yet, so a query has the same rules as a wait. */
CUresult check_question(const StreamPtr &stream);

/* Fails if no work may be submitted to a stream. Sets `is_captured` if the work must become a node of a capture. */
CUresult check_work(const StreamPtr &stream, bool &is_captured);
CUresult check_uncaptured_work(const StreamPtr &stream); /* for work that cannot be part of a graph */

/* Fails if the application must not wait for all work of a context. */
CUresult check_wait(Context &context);

/* Fails if the stream is the legacy stream, and would wait for a stream that is captured. */
CUresult check_legacy(const StreamPtr &stream, bool invalidates);

/* Fails with CUDA_ERROR_CAPTURED_EVENT if an event must not be queried or waited for. */
CUresult check_event(const Event &event, bool invalidates);

void invalidate_capture(const Stream &stream); /* invalidates the capture that a stream is in */
void invalidate_capture(const Event &event);   /* invalidates the capture that an event was recorded in */

/* Called when a stream is destroyed while it is captured. */
void abandon_capture(const StreamPtr &stream);

} // namespace sim

#endif
