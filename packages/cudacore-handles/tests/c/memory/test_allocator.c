/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators, which free memory by its address, and the functions for PyTorch. */
#include "check.h"

static cch_context *context;
static cch_stream *stream, *second;
static cch_pool *pool;

static void open_pool(void) {
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_stream_create(&second, context, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_pool_current(&pool, 0));
  OK(cch_context_set_current(context));
  sim.reset();
}

static void close_pool(void) {
  OK(cch_context_set_current(NULL));
  cch_pool_unref(pool);
  cch_stream_unref(stream);
  cch_stream_unref(second);
  cch_context_unref(context);
}

static cch_allocator *allocator_of(cch_tracker *tracker) {
  cch_allocator *made;
  OK(cch_allocator_create(&made, pool, &tracker, tracker != NULL));
  return made;
}

static int64_t live_bytes(cch_tracker *of) {
  cch_tracker_counts found;
  OK(cch_tracker_read(&found, of));
  return found.current_bytes;
}

/* Memory could not be freed by its address, would be freed twice, or would outlive its pool. */
static void addresses_are_freed_once(void) {
  open_pool();
  cch_allocator *allocator = allocator_of(NULL);
  CUdeviceptr a, b, legacy;
  OK(cch_allocator_alloc(&a, allocator, 100, cch_stream_raw(stream)));
  OK(cch_allocator_alloc(&b, allocator, 100, cch_stream_raw(stream)));
  OK(cch_allocator_alloc(&legacy, allocator, 100, NULL));
  CHECK(a != b && b != legacy);
  FAILS(CCH_EINVAL, cch_allocator_alloc(&legacy, allocator, 0, NULL));
  cch_allocator_unref(allocator);
  OK(cch_allocator_free(a));
  FAILS(CCH_EINVAL, cch_allocator_free(a));
  FAILS(CCH_EINVAL, cch_allocator_free(b + 1));
  CHECK_HAS(check_error()->message, "is not an address that an allocator has allocated");
  OK(cch_allocator_free(b));
  OK(cch_allocator_free(legacy));
  CHECK_EQ(sim.calls("cuMemFreeAsync"), 3);
  close_pool();
}

/* PyTorch would not allocate from the pool that was set for its device, or could not allocate before CUDA is used. */
static void torch_uses_the_allocator_of_its_device(void) {
  open_pool();
  cch_tracker *trackers[2];
  for (int i = 0; i < 2; i++)
    OK(cch_tracker_create(&trackers[i], &(cch_tracker_config){0}));
  for (int i = 0; i < 2; i++) {
    cch_allocator *allocator = allocator_of(trackers[i]);
    OK(cch_torch_set_allocator(0, allocator));
    cch_allocator_unref(allocator);
    if (i == 0)
      OK(cch_context_set_current(NULL));
    void *a = cch_torch_alloc(100, 0, i == 0 ? NULL : cch_stream_raw(stream));
    CHECK(a != NULL);
    CHECK_EQ(live_bytes(trackers[i]), 100);
    OK(cch_torch_set_allocator(0, NULL)); /* memory that is already allocated remains valid */
    cch_torch_record_stream(a, cch_stream_raw(second));
    cch_torch_record_stream(NULL, NULL);
    cch_torch_free(a, 100, 0, NULL);
    cch_torch_free(NULL, 0, 0, NULL);
    CHECK_EQ(live_bytes(trackers[i]), 0);
    cch_tracker_unref(trackers[i]);
    OK(cch_context_set_current(context));
  }
  cch_allocator *allocator = allocator_of(NULL);
  FAILS(CCH_EINVAL, cch_torch_set_allocator(-1, allocator));
  FAILS(CCH_EINVAL, cch_torch_set_allocator(1000, allocator));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_torch_set_allocator(60, allocator));
  cch_allocator_unref(allocator);
  close_pool();
}

int main(void) {
  check_open();
  RUN(addresses_are_freed_once);
  RUN(torch_uses_the_allocator_of_its_device);
  return 0;
}
