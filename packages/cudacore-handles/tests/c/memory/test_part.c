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

static int calls_on(const char *name, const void *stream) {
  cudasim_call call;
  int count = 0;
  for (size_t i = 0; sim.log(i, &call, 1) == 1; i++)
    count += strcmp(call.function, name) == 0 && call.stream == stream;
  return count;
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

int main(void) {
  check_open();
  RUN(frees_share_a_helper_stream);
  RUN(memory_does_not_keep_all_streams);
  RUN(uses_of_foreign_streams_are_a_set);
  return 0;
}
