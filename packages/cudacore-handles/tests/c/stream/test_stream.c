/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that were created, foreign streams and default streams, and waits between streams. */
#include "check.h"

static cch_context *context;

static void primary(void) { OK(cch_context_primary(&context, 0)); }

/*
 * A wait for the legacy stream would not fail without a current context, although the stream then belongs to no
 * context.
 */
static void waiting_for_the_legacy_stream_needs_a_context(void) {
  cch_stream *stream, *legacy = cch_stream_legacy();
  primary();
  OK(cch_stream_create(&stream, context, 0, 0));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cch_stream_wait_stream(stream, legacy));
  sim.reset();
  cch_stream_unref(stream);
  cch_stream_unref(legacy);
  cch_context_unref(context);
}

/* If the driver refuses to destroy the event of a wait, the event would remain until the process ends. */
static void event_of_a_wait_is_destroyed_later(void) {
  cch_stream *stream, *other;
  primary();
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_stream_create(&other, context, 0, 0));
  sim.fail("cuEventDestroy", 1, CUDA_ERROR_NOT_PERMITTED);
  sim.fail("cuEventDestroy", 2, CUDA_ERROR_NOT_PERMITTED);
  OK(cch_stream_wait_stream(stream, other));
  CHECK_EQ(cch_reclaim_pending(), sim.live(CUDASIM_EVENT));
  cch_reclaim_drain();
  CHECK_EQ(sim.live(CUDASIM_EVENT), 0);
  cch_stream_unref(stream);
  cch_stream_unref(other);
  cch_context_unref(context);
}

/* An event that measures time, and that processes are to share, would fail with a code that says nothing. */
static void shared_events_measure_no_time(void) {
  cch_event *event = NULL;
  primary();
  FAILS(CCH_EINVAL, cch_event_create(&event, context, CCH_EVENT_INTERPROCESS));
  CHECK(event == NULL);
  cch_context_unref(context);
}

int main(void) {
  check_open();
  RUN(event_of_a_wait_is_destroyed_later);
  RUN(waiting_for_the_legacy_stream_needs_a_context);
  RUN(shared_events_measure_no_time);
  return 0;
}
