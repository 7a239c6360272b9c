/* SPDX-License-Identifier: Apache-2.0 */
/* Trackers: limits, postponed frees, and use by several threads. */
#include "device.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static cch_tracker *tracker(uint64_t limit, uint32_t flags, const char *log) {
  cch_tracker *made;
  cch_tracker_config config = {.size = sizeof config, .limit = limit, .flags = flags, .log = log};
  OK(cch_tracker_create(&made, &config));
  return made;
}

static cch_deviceptr *allocate(cch_tracker *by, size_t size) {
  cch_deviceptr *ptr;
  OK(cch_deviceptr_alloc_tracked(&ptr, pool, size, stream, &by, 1));
  return ptr;
}

static cch_tracker_counts counts(cch_tracker *of) {
  cch_tracker_counts found = {.size = sizeof found};
  OK(cch_tracker_read(&found, of));
  return found;
}

/* A free that is postponed because a stream is captured would be counted too early, or never. */
static void frees_are_counted_when_they_happen(void) {
  cch_tracker *t = tracker(0, 0, NULL);
  cch_stream *legacy = cch_stream_legacy();
  cch_deviceptr *a;
  CUgraph graph;
  cch_stream *blocking;
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

/* If an allocation is larger than the size given to cch_tracker_begin(), it would exceed the limit. */
static void limits_hold_for_sizes_that_are_rounded_up(void) {
  cch_tracker *t = tracker(100, 0, NULL), *none = tracker(0, 0, NULL);
  cch_deviceptr *a = allocate(none, 60);
  uint64_t id;
  OK(cch_tracker_begin(t, 41));
  OK(cch_tracker_begin(t, 10));
  FAILS(CCH_ELIMIT, cch_tracker_add(&id, t, a, 10));
  OK(cch_tracker_begin(t, 10)); /* cch_tracker_add() has given back the reserved bytes */
  cch_tracker_cancel(t, 41, NULL);
  OK(cch_tracker_add(&id, t, a, 10));
  CHECK_EQ(counts(t).current_bytes, 60);
  FAILS(CCH_ELIMIT, cch_tracker_begin(t, 41));
  OK(cch_tracker_begin(t, 40));
  cch_deviceptr_unref(a);
  cch_tracker_unref(none);
  cch_tracker_unref(t);
}

/* A config of an unknown version would be mistaken for a config of a known version. */
static void configs_are_checked(void) {
  cch_tracker *t;
  cch_tracker_config config = {.size = sizeof config, .flags = 2};
  FAILS(CCH_EINVAL, cch_tracker_create(&t, &config));
  config = (cch_tracker_config){.size = sizeof config, .reserved = 1};
  FAILS(CCH_EINVAL, cch_tracker_create(&t, &config));
  config = (cch_tracker_config){.size = 8};
  FAILS(CCH_EINVAL, cch_tracker_create(&t, &config));
  t = tracker(0, 0, NULL);
  FAILS(CCH_EINVAL, cch_tracker_read(&(cch_tracker_counts){.size = 8}, t));
  cch_tracker_unref(t);
}

enum { THREADS = 4, ROUNDS = 500 };

static void *churn(void *argument) {
  cch_tracker *const *both = argument;
  for (int i = 0; i < ROUNDS; i++) {
    cch_deviceptr *ptr;
    OK(cch_deviceptr_alloc_tracked(&ptr, pool, 64, stream, both, 2));
    if (i % 50 == 0) {
      cch_tracker *measurement;
      OK(cch_tracker_measure(&measurement, both[0]));
      cch_tracker_unref(measurement);
    }
    cch_deviceptr_unref(ptr);
  }
  return NULL;
}

/* Threads that use one tracker would lose counts, or corrupt the list of allocations. */
static void threads_share_a_tracker(void) {
  pthread_t threads[THREADS];
  cch_tracker *both[] = {tracker(0, CCH_TRACKER_LIST, NULL), tracker(64 * THREADS, 0, NULL)};
  size_t count;
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, churn, both);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  OK(cch_tracker_list(NULL, 0, &count, both[0]));
  CHECK_EQ(count, 0);
  for (int i = 0; i < 2; i++) {
    CHECK_EQ(counts(both[i]).current_bytes, 0);
    CHECK_EQ(counts(both[i]).total_count, THREADS * ROUNDS);
    CHECK(counts(both[i]).peak_count <= THREADS);
    cch_tracker_unref(both[i]);
  }
}

static void open_non_blocking(void) {
  device_open();
  cch_stream_unref(stream);
  OK(cch_stream_create(&stream, context, CCH_STREAM_NON_BLOCKING, 0));
}

int main(void) {
  check_open();
  RUN(configs_are_checked);
  check_around(open_non_blocking, device_close);
  RUN(frees_are_counted_when_they_happen);
  RUN(limits_hold_for_sizes_that_are_rounded_up);
  RUN(threads_share_a_tracker);
  return 0;
}
