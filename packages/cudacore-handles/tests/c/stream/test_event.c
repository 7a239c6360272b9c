/* SPDX-License-Identifier: Apache-2.0 */
/* Events: flags, recording, timing, foreign events. */
#include "check.h"

static cch_context *context;
static cch_stream *stream;

static void open(void) {
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
}

static void close(void) {
  cch_stream_unref(stream);
  cch_context_unref(context);
}

/* The flags, which the driver cannot report, would be lost. */
static void flags_are_remembered(void) {
  static const unsigned kinds[] = {0, CCH_EVENT_BLOCKING_SYNC, CCH_EVENT_DISABLE_TIMING,
                                   CCH_EVENT_DISABLE_TIMING | CCH_EVENT_INTERPROCESS};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    cch_event *event, *found;
    OK(cch_event_create(&event, context, kinds[i]));
    OK(cch_event_wrap(&found, cch_event_raw(event), NULL, NULL));
    CHECK(found == event);
    CHECK_EQ(cch_event_flags(found), kinds[i]);
    CHECK(cch_event_context(found) == context);
    cch_event_unref(event);
    cch_event_unref(found);
  }
}

/* Flags that exclude each other would reach the driver, whose error does not give a reason. */
static void bad_flags_are_refused(void) {
  cch_event *event = NULL;
  FAILS(CCH_EINVAL, cch_event_create(&event, context, CCH_EVENT_INTERPROCESS));
  CHECK_HAS(check_error()->message, "interprocess");
  FAILS(CCH_EINVAL, cch_event_create(&event, NULL, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_event_create(&event, context, 0x100));
  CHECK(event == NULL);
}

/* Elapsed time would be negative, or events without timing would return a number. */
static void time_passes_between_events(void) {
  cch_event *start, *end, *untimed;
  float elapsed = -1.0f;
  OK(cch_event_create(&start, context, 0));
  OK(cch_event_create(&end, context, 0));
  OK(cch_event_create(&untimed, context, CCH_EVENT_DISABLE_TIMING));
  FAILS(CUDA_ERROR_INVALID_HANDLE, cch_event_elapsed(&elapsed, start, end)); /* the events were not recorded */
  CHECK(elapsed == -1.0f);
  OK(cch_event_record(start, stream));
  OK(cch_event_record(end, stream));
  OK(cch_event_record(untimed, stream));
  OK(cch_event_query(end));
  OK(cch_event_synchronize(end));
  OK(cch_event_elapsed(&elapsed, start, end));
  CHECK(elapsed >= 0.0f && elapsed < 10000.0f);
  FAILS(CUDA_ERROR_INVALID_HANDLE, cch_event_elapsed(&elapsed, start, untimed));
  sim.fail("cuEventQuery", 1, CUDA_ERROR_NOT_READY);
  FAILS(CUDA_ERROR_NOT_READY, cch_event_query(end));
  cch_event_unref(untimed);
  cch_event_unref(start);
  cch_event_unref(end);
}

/* On a default stream, an event would be recorded in the context that happens to be current, not in its own. */
static void default_stream_is_the_events(void) {
  cch_context *other;
  cch_event *event;
  cch_stream *legacy = cch_stream_legacy();
  OK(cch_context_primary(&other, 1));
  OK(cch_event_create(&event, context, 0));
  OK(cch_event_record(event, legacy)); /* no context is current */
  OK(cch_context_set_current(other));
  OK(cch_event_record(event, legacy));
  OK(cch_context_set_current(NULL));
  cch_event_unref(event);
  cch_context_unref(other);
  cch_stream_unref(legacy);
}

/* An event recorded on another device's stream would be accepted. */
static void other_contexts_stream_is_refused(void) {
  cch_context *other;
  cch_event *event;
  OK(cch_context_primary(&other, 1));
  OK(cch_event_create(&event, other, 0));
  FAILS(CCH_EMISMATCH, cch_event_record(event, stream));
  CHECK_HAS(check_error()->message, "device 1");
  CHECK_EQ(sim.calls("cuEventRecord"), 0);
  OK(cch_stream_wait_event(stream, event)); /* an event of another device can be waited for */
  cch_event_unref(event);
  cch_context_unref(other);
}

/* A foreign event would report guessed flags, be destroyed by the library, or lose its owner. */
static void foreign_event_keeps_its_owner(void) {
  int one = 1;
  CUevent raw;
  cch_event *event, *shared;
  OK(cch_context_set_current(context));
  CHECK_EQ(driver.cuEventCreate(&raw, 0), 0);
  OK(cch_event_wrap(&event, raw, &one, check_release));
  OK(cch_context_set_current(NULL));
  CHECK_PTR(cch_event_raw(event), raw);
  CHECK_EQ(cch_event_flags(event), CCH_EVENT_UNKNOWN);
  CHECK(cch_event_context(event) == NULL); /* the event's context is unknown, so calls use the current one */
  OK(cch_event_wrap(&shared, raw, NULL, NULL));
  CHECK(shared != event);
  CHECK(cch_event_context(shared) == NULL);
  OK(cch_event_record(event, stream));
  CHECK_AFTER(cch_event_unref(shared), check_released, 0);
  CHECK_AFTER(cch_event_unref(event), check_released, 1);
  CHECK_EQ(sim.calls("cuEventDestroy"), 0);
  OK(cch_event_wrap_in(&event, raw, context, &one, check_release));
  CHECK(cch_event_context(event) == context);
  CHECK_AFTER(cch_event_unref(event), check_released, 2);
  FAILS(CCH_EINVAL, cch_event_wrap(&event, NULL, NULL, NULL));
  CHECK_EQ(driver.cuEventDestroy(raw), 0);
}

int main(void) {
  check_open();
  check_around(open, close);
  RUN(flags_are_remembered);
  RUN(bad_flags_are_refused);
  RUN(time_passes_between_events);
  RUN(default_stream_is_the_events);
  RUN(other_contexts_stream_is_refused);
  RUN(foreign_event_keeps_its_owner);
  return 0;
}
