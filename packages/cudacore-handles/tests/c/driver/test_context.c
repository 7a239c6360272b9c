/* SPDX-License-Identifier: Apache-2.0 */
/* Primary, foreign and current contexts. */
#include "check.h"

/* After a primary context was released, it could not be retained again. */
static void primary_comes_back(void) {
  for (int i = 0; i < 3; i++) {
    cch_context *context;
    OK(cch_context_primary(&context, 0));
    CHECK_EQ(sim.live(CUDASIM_CONTEXT), 1);
    cch_context_unref(context);
    CHECK_EQ(sim.live(CUDASIM_CONTEXT), 0);
  }
}

static int released;
static void release(void *owner) {
  CHECK_EQ(*(int *)owner, 42);
  released++;
}

/* A foreign context would be released by us; or its owner would be released too early, twice or never. */
static void foreign_context_keeps_its_owner(void) {
  int owner = 42;
  CUcontext raw;
  cch_context *context, *again;
  OK(cch_driver_init());
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&raw, 1), 0);
  released = 0;
  OK(cch_context_wrap(&context, raw, &owner, release));
  CHECK_PTR(cch_context_raw(context), raw);
  CHECK_EQ(cch_context_device(context), 1);
  CHECK_EQ(cch_context_is_primary(context), 0);
  OK(cch_context_wrap(&again, raw, NULL, NULL));
  CHECK(again != context); /* not the same box: a borrowed handle can be reused for another context */
  cch_context_unref(again);
  CHECK_EQ(released, 0);
  cch_context_unref(context);
  CHECK_EQ(released, 1);
  CHECK_EQ(sim.live(CUDASIM_CONTEXT), 1);
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(1), 0);
}

/* Wrapping a context of the library would make a second, borrowed box, or keep an owner that the box does not need. */
static void own_context_is_recognised(void) {
  int owner = 42;
  cch_context *context, *wrapped;
  OK(cch_context_primary(&context, 0));
  released = 0;
  OK(cch_context_wrap(&wrapped, cch_context_raw(context), &owner, release));
  CHECK(wrapped == context);
  CHECK_EQ(released, 1);
  cch_context_unref(wrapped);
  cch_context_unref(context);
}

/* A borrowed box of a primary context would be found instead of the box that retains the context. */
static void primary_replaces_borrowed(void) {
  CUcontext raw;
  cch_context *borrowed, *primary, *found;
  OK(cch_driver_init());
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&raw, 0), 0);
  OK(cch_context_wrap(&borrowed, raw, NULL, NULL));
  OK(cch_context_primary(&primary, 0));
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(0), 0);
  CHECK_EQ(cch_context_is_primary(primary), 1);
  cch_context_unref(borrowed);
  OK(cch_context_wrap(&found, raw, NULL, NULL));
  CHECK(found == primary);
  cch_context_unref(found);
  CHECK_EQ(sim.live(CUDASIM_CONTEXT), 1);
  cch_context_unref(primary);
}

/* The wrong context would be returned, or a thread without a context would get an error. */
static void current_context_is_found(void) {
  cch_context *context, *found;
  int device = -1;
  OK(cch_context_current(&found));
  CHECK(found == NULL);
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cch_current_device(&device));
  CHECK_EQ(device, -1);
  OK(cch_context_primary(&context, 1));
  OK(cch_context_set_current(context));
  CHECK_EQ(sim.depth(), 1);
  OK(cch_context_current(&found));
  CHECK(found == context);
  OK(cch_current_device(&device));
  CHECK_EQ(device, 1);
  cch_context_unref(found);
  OK(cch_context_set_current(NULL));
  CHECK_EQ(sim.depth(), 0);
  cch_context_unref(context);
}

/*
 * Free memory would be that of another device, or could not be queried if no context is current; or the query would
 * invalidate a capture.
 */
static void memory_info_is_the_contexts(void) {
  cch_context *context;
  cch_stream *stream;
  CUgraph graph;
  size_t before = 0, left = 0, total = 0;
  cch_deviceptr *ptr;
  OK(cch_context_primary(&context, 0));
  OK(cch_context_memory_info(&before, &total, context));
  CHECK(before <= total);
  OK(cch_deviceptr_alloc(&ptr, context, 1 << 20));
  OK(cch_stream_create(&stream, context, CCH_STREAM_NON_BLOCKING, 0));
  OK(driver.cuStreamBeginCapture(cch_stream_raw(stream), CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cch_context_memory_info(&left, &total, context));
  OK(driver.cuStreamEndCapture(cch_stream_raw(stream), &graph));
  CHECK_EQ(left, before - (1 << 20));
  CHECK_EQ(sim.depth(), 0);
  OK(driver.cuGraphDestroy(graph));
  cch_deviceptr_unref(ptr);
  cch_stream_unref(stream);
  cch_context_unref(context);
}

int main(void) {
  check_open();
  RUN(memory_info_is_the_contexts);
  RUN(primary_comes_back);
  RUN(foreign_context_keeps_its_owner);
  RUN(own_context_is_recognised);
  RUN(primary_replaces_borrowed);
  RUN(current_context_is_found);
  return 0;
}
