/* SPDX-License-Identifier: Apache-2.0 */
/* Trackers: limits, postponed frees, and use by several threads. */
#include "device.h"

static cch_tracker_counts counts(cch_tracker *of) {
  cch_tracker_counts found;
  OK(cch_tracker_read(&found, of));
  return found;
}

/* A free that is postponed because a stream is captured would be counted too early, or never. */
static void frees_are_counted_when_they_happen(void) {
  cch_tracker *t;
  cch_stream *legacy = cch_stream_legacy();
  cch_deviceptr *a;
  CUgraph graph;
  cch_stream *blocking;
  OK(cch_tracker_create(&t, &(cch_tracker_config){0}));
  OK(cch_context_set_current(context));
  OK(cch_deviceptr_alloc_tracked(&a, pool, 100, legacy, &t, 1));
  OK(cch_stream_create(&blocking, context, 0, 0));
  CHECK_EQ(driver.cuStreamBeginCapture(cch_stream_raw(blocking), CU_STREAM_CAPTURE_MODE_RELAXED), 0);
  CHECK_AFTER(cch_deviceptr_unref(a), counts(t).current_bytes, 100);
  CHECK_EQ(driver.cuStreamEndCapture(cch_stream_raw(blocking), &graph), 0);
  cch_reclaim_drain();
  CHECK_EQ(counts(t).current_bytes, 0);
  CHECK_EQ(driver.cuGraphDestroy(graph), 0);
  cch_stream_unref(blocking);
  cch_stream_unref(legacy);
  OK(cch_context_set_current(NULL));
  cch_tracker_unref(t);
}

static void open_non_blocking(void) {
  device_open();
  cch_stream_unref(stream);
  OK(cch_stream_create(&stream, context, CCH_STREAM_NON_BLOCKING, 0));
}

int main(void) {
  check_open();
  check_around(open_non_blocking, device_close);
  RUN(frees_are_counted_when_they_happen);
  return 0;
}
