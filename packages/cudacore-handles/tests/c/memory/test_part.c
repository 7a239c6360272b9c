/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of allocations. */
#include "check.h"

enum { SIZE = 64 };

typedef struct memory {
  cch_context *context;
  cch_stream *streams[2];
  cch_pool *pool;
  cch_deviceptr *whole;
} memory;

static void open_memory(memory *m) {
  cch_pool_config config = {.size = sizeof config, .location_type = CCH_LOCATION_DEVICE};
  OK(cch_context_primary(&m->context, 0));
  for (int i = 0; i < 2; i++)
    OK(cch_stream_create(&m->streams[i], m->context, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_pool_create(&m->pool, &config));
  OK(cch_deviceptr_alloc_async(&m->whole, m->pool, SIZE, m->streams[0]));
  sim.reset();
}

static void close_memory(memory *m) {
  cch_pool_unref(m->pool);
  for (int i = 0; i < 2; i++)
    cch_stream_unref(m->streams[i]);
  cch_context_unref(m->context);
  cch_reclaim_drain();
}

static size_t position_of(const char *name, const void *stream) {
  cudasim_call call;
  for (size_t i = 0; sim.log(i, &call, 1) == 1; i++)
    if (strcmp(call.function, name) == 0 && (stream == NULL || call.stream == stream))
      return i;
  check_fail(__FILE__, __LINE__, "%s was not called", name);
}

static int calls_on(const char *name, const void *stream) {
  cudasim_call call;
  int count = 0;
  for (size_t i = 0; sim.log(i, &call, 1) == 1; i++)
    count += strcmp(call.function, name) == 0 && call.stream == stream;
  return count;
}

/* Memory would be freed while work is in progress on a stream on which a part was closed. */
static void memory_ends_behind_its_parts(void) {
  for (int last = 0; last < 2; last++) {
    memory m;
    cch_deviceptr *part;
    open_memory(&m);
    OK(cch_deviceptr_part(&part, m.whole, 0, 8));
    OK(cch_deviceptr_set_stream(part, m.streams[1]));
    CHECK(cch_deviceptr_stream(m.whole) == m.streams[0] && cch_deviceptr_stream(part) == m.streams[1]);
    cch_deviceptr_unref(last ? m.whole : part);
    CHECK_EQ(sim.calls("cuEventRecord"), 0); /* the streams do not wait for each other */
    cch_deviceptr_unref(last ? part : m.whole);
    size_t end = position_of("cuMemFreeAsync", NULL);
    CHECK(position_of("cuEventRecord", cch_stream_raw(m.streams[0])) < end);
    CHECK(position_of("cuEventRecord", cch_stream_raw(m.streams[1])) < end);
    CHECK_EQ(sim.calls("cuStreamSynchronize"), 0);
    CHECK_EQ(sim.live(CUDASIM_STREAM), 2 + (int)cch_helper_stream_count());
    close_memory(&m);
    CHECK_EQ(cch_helper_stream_count(), 0); /* it ends with the context */
  }
}

static void free_behind_two_streams(memory *m) {
  cch_deviceptr *whole;
  OK(cch_deviceptr_alloc_async(&whole, m->pool, SIZE, m->streams[0]));
  OK(cch_deviceptr_record_stream(whole, m->streams[1]));
  cch_deviceptr_unref(whole);
}

/* Each free behind several streams would create and destroy a stream, or make a stream of the program wait. */
static void frees_share_a_helper_stream(void) {
  memory m;
  open_memory(&m);
  CHECK_EQ(sim.fail("cuStreamCreateWithPriority", 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
  free_behind_two_streams(&m);
  CHECK_EQ(sim.calls("cuMemFreeAsync"), 1); /* on a stream of the memory */
  sim.reset();
  for (int i = 0; i < 10; i++)
    free_behind_two_streams(&m);
  CHECK_EQ(sim.calls("cuStreamCreateWithPriority"), 1);
  CHECK_EQ(sim.calls("cuStreamDestroy"), 0);
  CHECK_EQ(sim.calls("cuMemFreeAsync"), 10);
  for (int i = 0; i < 2; i++)
    CHECK_EQ(calls_on("cuStreamWaitEvent", cch_stream_raw(m.streams[i])), 0);
  cch_deviceptr_unref(m.whole);
  close_memory(&m);
}

enum { STREAMS = 40 };

/* Streams that were recorded earlier would be forgotten, though they can get work before the free. */
static void all_recorded_streams_are_waited_for(void) {
  memory m;
  cch_stream *streams[STREAMS];
  open_memory(&m);
  for (int i = 0; i < STREAMS; i++) {
    OK(cch_stream_create(&streams[i], m.context, CCH_STREAM_NON_BLOCKING, 0));
    for (int j = 0; j < 3; j++)
      OK(cch_deviceptr_record_stream(m.whole, streams[i]));
  }
  sim.reset();
  cch_deviceptr_unref(m.whole);
  for (int i = 0; i < STREAMS; i++) {
    CHECK_EQ(calls_on("cuEventRecord", cch_stream_raw(streams[i])), 1);
    cch_stream_unref(streams[i]);
  }
  close_memory(&m);
}

/* Long-lived memory would keep all streams on which it was used. */
static void memory_does_not_keep_all_streams(void) {
  memory m;
  open_memory(&m);
  for (int i = 0; i < 10 * STREAMS; i++) {
    cch_stream *stream;
    OK(cch_stream_create(&stream, m.context, CCH_STREAM_NON_BLOCKING, 0));
    OK(cch_deviceptr_record_stream(m.whole, stream));
    cch_stream_unref(stream);
  }
  CHECK(cch_live_count(CCH_KIND_STREAM) < 30);
  cch_deviceptr_unref(m.whole);
  close_memory(&m);
}

/* Each use on a stream of other code would add to the uses. */
static void uses_of_foreign_streams_are_a_set(void) {
  memory m;
  CUstream foreign;
  open_memory(&m);
  OK(cch_context_set_current(m.context));
  CHECK_EQ(driver.cuStreamCreateWithPriority(&foreign, 0, 0), CUDA_SUCCESS);
  for (int i = 0; i < 10 * STREAMS; i++) {
    cch_stream *stream;
    OK(cch_stream_wrap(&stream, foreign, NULL, NULL));
    OK(cch_deviceptr_record_stream(m.whole, stream));
    cch_stream_unref(stream);
  }
  CHECK_EQ(cch_live_count(CCH_KIND_STREAM), 3);
  cch_deviceptr_unref(m.whole);
  CHECK_EQ(driver.cuStreamDestroy(foreign), CUDA_SUCCESS);
  OK(cch_context_set_current(NULL));
  close_memory(&m);
}

typedef struct freed {
  CUdeviceptr ptr;
  size_t size;
  int count;
} freed;

/* Memory that is freed synchronously would be freed while a part is in use. */
static void pinned_memory_waits_for_its_parts(void) {
  memory m;
  cch_deviceptr *pinned, *part;
  open_memory(&m);
  OK(cch_deviceptr_alloc_host(&pinned, m.context, SIZE, 0));
  OK(cch_deviceptr_part(&part, pinned, 0, 8));
  OK(cch_deviceptr_set_stream(part, m.streams[1]));
  cch_deviceptr_unref(part);
  sim.reset();
  cch_deviceptr_unref(pinned);
  CHECK(position_of("cuStreamSynchronize", cch_stream_raw(m.streams[1])) < position_of("cuMemFreeHost", NULL));
  cch_deviceptr_unref(m.whole);
  close_memory(&m);
}

int main(void) {
  check_open();
  RUN(memory_ends_behind_its_parts);
  RUN(frees_share_a_helper_stream);
  RUN(all_recorded_streams_are_waited_for);
  RUN(memory_does_not_keep_all_streams);
  RUN(uses_of_foreign_streams_are_a_set);
  RUN(pinned_memory_waits_for_its_parts);
  return 0;
}
