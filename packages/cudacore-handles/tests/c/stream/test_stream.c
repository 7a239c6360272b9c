/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that were created, foreign streams and default streams, and waits between streams. */
#include "check.h"

static cch_context *context;

static void primary(void) { OK(cch_context_primary(&context, 0)); }

/* A default stream would get a second box, be destroyed, have a fixed context, or keep an owner. */
static void default_streams_are_static(void) {
  int one = 1;
  cch_stream *legacy = cch_stream_legacy(), *per_thread = cch_stream_per_thread(), *wrapped;
  CHECK(legacy != per_thread);
  CHECK_PTR(cch_stream_raw(legacy), CU_STREAM_LEGACY);
  CHECK_PTR(cch_stream_raw(per_thread), CU_STREAM_PER_THREAD);
  CHECK(cch_stream_context(legacy) == NULL && cch_stream_context(per_thread) == NULL);
  OK(cch_stream_wrap(&wrapped, NULL, &one, check_release));
  CHECK(wrapped == legacy && check_released == 1);
  cch_stream_unref(wrapped);
  OK(cch_stream_wrap(&wrapped, CU_STREAM_LEGACY, NULL, NULL));
  CHECK(wrapped == legacy);
  cch_stream_unref(wrapped);
  OK(cch_stream_wrap(&wrapped, CU_STREAM_PER_THREAD, &one, check_release));
  CHECK(wrapped == per_thread && check_released == 2);
  cch_stream_unref(wrapped);
  cch_stream_unref(legacy);
  cch_stream_unref(per_thread);
  CHECK(cch_stream_legacy() == legacy);
  cch_stream_unref(legacy);
}

/* A foreign stream would be destroyed by us, or lose its context; or its owner would be released too early, twice or
 * never. */
static void foreign_stream_keeps_its_owner(void) {
  int one = 1, ten = 10;
  CUstream raw;
  cch_stream *first, *shared, *second;
  primary();
  OK(cch_context_set_current(context));
  CHECK_EQ(driver.cuStreamCreateWithPriority(&raw, 0, 0), 0);
  OK(cch_context_set_current(NULL));
  OK(cch_stream_wrap(&first, raw, &one, check_release));
  CHECK_PTR(cch_stream_raw(first), raw);
  CHECK(cch_stream_context(first) == context);
  OK(cch_stream_wrap(&shared, raw, NULL, NULL));
  CHECK(shared != first); /* not the same box: a borrowed handle can be reused for another stream */
  OK(cch_stream_wrap(&second, raw, &ten, check_release)); /* another owner, so another box */
  CHECK(second != first);
  CHECK_AFTER(cch_stream_unref(shared), check_released, 0);
  CHECK_AFTER(cch_stream_unref(first), check_released, 1);
  CHECK_AFTER(cch_stream_unref(second), check_released, 11);
  CHECK_EQ(sim.calls("cuStreamDestroy"), 0);
  CHECK_EQ(driver.cuStreamDestroy(raw), 0);
  cch_context_unref(context);
}

/* If wrapping a stream fails, the library would still take over the owner. */
static void failed_wrap_leaves_the_owner(void) {
  int one = 1;
  cch_stream *stream = NULL;
  CUstream raw;
  primary();
  OK(cch_context_set_current(context));
  CHECK_EQ(driver.cuStreamCreateWithPriority(&raw, 0, 0), 0);
  OK(cch_context_set_current(NULL));
  sim.fail("cuStreamGetCtx", 1, CUDA_ERROR_UNKNOWN);
  FAILS(CUDA_ERROR_UNKNOWN, cch_stream_wrap(&stream, raw, &one, check_release));
  CHECK(stream == NULL && check_released == 0);
  CHECK_EQ(driver.cuStreamDestroy(raw), 0);
  cch_context_unref(context);
}

/* A stream of the library that other code returns would not be recognised. */
static void own_stream_is_recognised(void) {
  int one = 1;
  cch_stream *stream, *wrapped;
  primary();
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_stream_wrap(&wrapped, cch_stream_raw(stream), &one, check_release));
  CHECK(wrapped == stream && check_released == 1);
  cch_stream_unref(stream);
  CHECK_EQ(sim.live(CUDASIM_STREAM), 1);
  cch_stream_unref(wrapped);
  cch_context_unref(context);
}

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

int main(void) {
  check_open();
  RUN(event_of_a_wait_is_destroyed_later);
  RUN(default_streams_are_static);
  RUN(foreign_stream_keeps_its_owner);
  RUN(failed_wrap_leaves_the_owner);
  RUN(own_stream_is_recognised);
  RUN(waiting_for_the_legacy_stream_needs_a_context);
  return 0;
}
