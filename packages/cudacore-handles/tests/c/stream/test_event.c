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
  FAILS(CCH_EINVAL, cch_event_wrap(&event, NULL, NULL, NULL));
  CHECK_EQ(driver.cuEventDestroy(raw), 0);
}

int main(void) {
  check_open();
  check_around(open, close);
  RUN(default_stream_is_the_events);
  RUN(foreign_event_keeps_its_owner);
  return 0;
}
