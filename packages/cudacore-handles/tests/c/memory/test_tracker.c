/* SPDX-License-Identifier: Apache-2.0 */
/* Trackers: counts, limits, lists and logs. */
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

/* Allocations would be counted wrongly, or frees not at all. */
static void allocations_are_counted(void) {
  cch_tracker *t = tracker(0, 0, NULL);
  cch_deviceptr *a = allocate(t, 100), *b = allocate(t, 50);
  CHECK_EQ(counts(t).current_bytes, 150);
  CHECK_AFTER(cch_deviceptr_unref(a), counts(t).current_bytes, 50);
  CHECK_EQ(counts(t).current_count, 1);
  CHECK_EQ(counts(t).peak_bytes, 150);
  CHECK_EQ(counts(t).peak_count, 2);
  CHECK_EQ(counts(t).total_bytes, 150);
  CHECK_EQ(counts(t).total_count, 2);
  CHECK_AFTER(cch_deviceptr_unref(b), counts(t).current_bytes, 0);
  cch_tracker_unref(t);
}

/* A tracker would be destroyed before its allocations, and freeing an allocation would then write to freed memory. */
static void allocations_keep_their_tracker(void) {
  size_t before = cch_live_count(CCH_KIND_TRACKER);
  cch_tracker *t = tracker(0, CCH_TRACKER_LIST, NULL);
  cch_deviceptr *a = allocate(t, 100);
  cch_tracker_unref(t);
  CHECK_EQ(cch_live_count(CCH_KIND_TRACKER), before + 1);
  cch_deviceptr_unref(a);
  CHECK_EQ(cch_live_count(CCH_KIND_TRACKER), before);
}

/* Memory would count as freed while parts of it are alive. */
static void parts_belong_to_the_allocation(void) {
  cch_tracker *t = tracker(0, 0, NULL);
  cch_deviceptr *a = allocate(t, 100), *part;
  OK(cch_deviceptr_part(&part, a, 10, 20));
  CHECK_AFTER(cch_deviceptr_unref(a), counts(t).current_bytes, 100);
  CHECK_AFTER(cch_deviceptr_unref(part), counts(t).current_bytes, 0);
  cch_tracker_unref(t);
}

/* A part that was given to a tracker would count as freed while parts of that part are alive. */
static void parts_belong_to_the_part_that_is_tracked(void) {
  cch_tracker *t = tracker(0, CCH_TRACKER_LIST, NULL);
  cch_deviceptr *a = allocate(t, 100), *part, *inner, *innermost;
  uint64_t id;
  OK(cch_deviceptr_part(&part, a, 10, 20));
  OK(cch_tracker_begin(t, 20));
  OK(cch_tracker_add(&id, t, part, 20));
  OK(cch_deviceptr_part(&inner, part, 0, 10));
  OK(cch_deviceptr_part(&innermost, inner, 0, 5));
  cch_deviceptr_unref(part);
  CHECK_AFTER(cch_deviceptr_unref(inner), counts(t).current_bytes, 120);
  CHECK_AFTER(cch_deviceptr_unref(innermost), counts(t).current_bytes, 100);
  CHECK_AFTER(cch_deviceptr_unref(a), counts(t).current_bytes, 0);
  cch_tracker_unref(t);
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

/* A limit would be exceeded, or failed allocations would count against it. */
static void limits_hold(void) {
  cch_tracker *t = tracker(100, 0, NULL), *outer = tracker(0, 0, NULL);
  cch_tracker *both[] = {outer, t};
  cch_deviceptr *a = allocate(t, 60), *b;
  FAILS(CCH_ELIMIT, cch_deviceptr_alloc_tracked(&b, pool, 41, stream, both, 2));
  CHECK_EQ(counts(outer).total_count, 0);
  sim.fail("cuMemAllocFromPoolAsync", 1, CUDA_ERROR_OUT_OF_MEMORY);
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cch_deviceptr_alloc_tracked(&b, pool, 40, stream, both, 2));
  OK(cch_deviceptr_alloc_tracked(&b, pool, 40, stream, both, 2));
  CHECK_EQ(counts(t).current_bytes, 100);
  FAILS(CCH_ELIMIT, cch_tracker_begin(t, 1));
  cch_deviceptr_unref(a);
  OK(cch_tracker_begin(t, 60));
  FAILS(CCH_ELIMIT, cch_tracker_begin(t, 1));
  cch_tracker_cancel(t, 60, NULL);
  OK(cch_tracker_begin(t, 1));
  cch_tracker_cancel(t, 1, stream);
  cch_deviceptr_unref(b);
  cch_tracker_unref(t);
  cch_tracker_unref(outer);
}

/* A measurement would count allocations before its beginning or after its end, or miss those of nested measurements. */
static void measurements_count_a_time(void) {
  cch_tracker *t = tracker(0, 0, NULL), *first, *second;
  cch_deviceptr *a = allocate(t, 100), *b, *c;
  OK(cch_tracker_measure(&first, t));
  b = allocate(t, 30);
  OK(cch_tracker_measure(&second, first));
  c = allocate(t, 5);
  CHECK_AFTER(cch_deviceptr_unref(a), counts(first).current_bytes, -65);
  CHECK_EQ(counts(first).peak_bytes, 35);
  CHECK_EQ(counts(second).total_bytes, 5);
  OK(cch_tracker_stop(second));
  OK(cch_tracker_stop(second));
  OK(cch_tracker_stop(t));
  CHECK_AFTER(cch_deviceptr_unref(c), counts(second).current_bytes, -95);
  CHECK_EQ(counts(first).current_bytes, -70);
  cch_tracker_unref(first); /* the measurement was not ended by cch_tracker_stop() */
  CHECK_AFTER(cch_deviceptr_unref(b), counts(t).current_bytes, 0);
  cch_tracker_unref(t);
  CHECK_EQ(counts(second).current_bytes, -95); /* a measurement keeps its tracker alive */
  cch_tracker_unref(second);
}

/* The list would contain freed allocations, or lack live ones. */
static void lists_are_of_live_allocations(void) {
  enum { COUNT = 5 };
  cch_tracker *t = tracker(0, CCH_TRACKER_LIST, NULL), *plain = tracker(0, 0, NULL);
  cch_deviceptr *all[COUNT];
  cch_tracked found[COUNT];
  size_t count = 77;
  for (int i = 0; i < COUNT; i++)
    all[i] = allocate(t, 10 + (size_t)i);
  cch_deviceptr_unref(all[2]);
  cch_deviceptr_unref(all[4]);
  OK(cch_tracker_list(found, COUNT, &count, t));
  CHECK_EQ(count, 3);
  CHECK_EQ(found[0].size, 13);
  CHECK_EQ(found[0].ptr, cch_deviceptr_raw(all[3]));
  CHECK_EQ(found[2].size, 10);
  CHECK(found[0].id > found[1].id && found[1].id > found[2].id);
  found[1].id = 0;
  OK(cch_tracker_list(found, 1, &count, t));
  CHECK_EQ(count, 3);
  CHECK_EQ(found[1].id, 0);
  FAILS(CCH_EINVAL, cch_tracker_list(found, 1, &count, plain));
  cch_deviceptr_unref(all[0]);
  cch_deviceptr_unref(all[1]);
  cch_deviceptr_unref(all[3]);
  OK(cch_tracker_list(NULL, 0, &count, t));
  CHECK_EQ(count, 0);
  cch_tracker_unref(t);
  cch_tracker_unref(plain);
}

static size_t lines_of(const char *path, const char *with) {
  char line[256];
  size_t found = 0;
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    found += strstr(line, with) != NULL;
  if (file != NULL)
    fclose(file);
  return found;
}

/* The log would lack lines, or get a second header when it is opened again. */
static void logs_have_all_lines(void) {
  enum { MANY = 1000 };
  char path[] = "/tmp/cch_tracker_XXXXXX";
  int file = mkstemp(path);
  CHECK(file >= 0);
  close(file);
  cch_tracker *t = tracker(0, 0, path);
  cch_deviceptr *failed;
  for (int i = 0; i < MANY; i++)
    cch_deviceptr_unref(allocate(t, 64));
  sim.fail("cuMemAllocFromPoolAsync", 1, CUDA_ERROR_OUT_OF_MEMORY);
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cch_deviceptr_alloc_tracked(&failed, pool, 77, stream, &t, 1));
  OK(cch_tracker_flush(t));
  CHECK_EQ(lines_of(path, ",allocate,0x"), MANY);
  CHECK_EQ(lines_of(path, ",free,0x"), MANY);
  CHECK_EQ(lines_of(path, ",allocate failure,0x0,77,0x"), 1);
  cch_deviceptr *last = allocate(t, 64);
  cch_tracker_unref(t);
  cch_deviceptr_unref(last);
  CHECK_EQ(lines_of(path, ",free,0x"), MANY + 1);
  cch_tracker_unref(tracker(0, 0, path));
  CHECK_EQ(lines_of(path, "Thread,Time,Action,Pointer,Size,Stream\n"), 1);
  unlink(path);
  FAILS(CCH_EINVAL,
        cch_tracker_create(&t, &(cch_tracker_config){.size = sizeof(cch_tracker_config), .log = "/no/log"}));
  CHECK(strstr(check_error()->message, "No such file") != NULL);
  t = tracker(0, 0, "/dev/full");
  cch_deviceptr_unref(allocate(t, 64));
  FAILS(CCH_EINVAL, cch_tracker_flush(t));
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
  RUN(allocations_are_counted);
  RUN(allocations_keep_their_tracker);
  RUN(parts_belong_to_the_allocation);
  RUN(parts_belong_to_the_part_that_is_tracked);
  RUN(frees_are_counted_when_they_happen);
  RUN(limits_hold);
  RUN(limits_hold_for_sizes_that_are_rounded_up);
  RUN(measurements_count_a_time);
  RUN(lists_are_of_live_allocations);
  RUN(logs_have_all_lines);
  RUN(threads_share_a_tracker);
  return 0;
}
