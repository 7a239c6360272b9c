/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations: their addresses, trackers, streams and allocators; resources of the simulated OpenGL. */
#include "device.h"

static cch_context *other;
static cch_stream *second;

static void open(void) {
  device_open();
  cch_stream_unref(stream);
  OK(cch_stream_create(&stream, context, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_stream_create(&second, context, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_context_primary(&other, 1));
}

static void close(void) {
  cch_context_unref(other);
  cch_stream_unref(second);
  device_close();
}

/* As an argument of a kernel, a pointer to another device's memory, or to memory unknown to CUDA, would be accepted. */
static void pointers_are_checked(void) {
  cch_deviceptr *here, *there, *pinned;
  char local[16];
  OK(cch_deviceptr_alloc(&here, context, 16));
  OK(cch_deviceptr_alloc(&there, other, 16));
  OK(cch_deviceptr_alloc_host(&pinned, other, 16, 0));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cch_pointer_check(cch_deviceptr_raw(here)));
  OK(cch_context_set_current(context));
  OK(cch_pointer_check(cch_deviceptr_raw(here)));
  OK(cch_pointer_check(cch_deviceptr_raw(here) + 15));
  OK(cch_pointer_check(cch_deviceptr_raw(pinned)));
  FAILS(CCH_EMISMATCH, cch_pointer_check(cch_deviceptr_raw(there)));
  CHECK_HAS(check_error()->message, "device 1");
  FAILS(CCH_EMISMATCH, cch_pointer_check((CUdeviceptr)(uintptr_t)local));
  OK(cch_context_set_current(NULL));
  cch_deviceptr_unref(here);
  cch_deviceptr_unref(there);
  cch_deviceptr_unref(pinned);
}

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

/* A resource that is released on a thread without the OpenGL context would stay registered or mapped forever. */
static void another_thread_has_opengl(void) {
  void *data;
  unsigned name = sim.gl_buffer(64, &data);
  cch_graphics *resource;
  cch_deviceptr *memory;
  OK(cch_graphics_register(&resource, context, name, 0, 0));
  OK(cch_graphics_map(&memory, resource, stream));
  cch_graphics_unref(resource);
  sim.fail("cuGraphicsUnmapResources", 1, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT);
  sim.fail("cuGraphicsUnregisterResource", 1, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT);
  cch_deviceptr_unref(memory);
  CHECK_EQ(cch_reclaim_pending(), 1);
  for (int i = 0; i < 2; i++)
    cch_reclaim_drain();
  CHECK_EQ(cch_reclaim_pending(), 0);
  CHECK_EQ(sim.gl_delete(name), 0);
  CHECK_EQ(sim.live(CUDASIM_GRAPHICS), 0);
}

static int calls_on(const char *name, const void *stream) {
  cudasim_call call;
  int count = 0;
  for (size_t i = 0; sim.log(i, &call, 1) == 1; i++)
    count += strcmp(call.function, name) == 0 && call.stream == stream;
  return count;
}

static void free_behind_two_streams(void) {
  cch_deviceptr *whole;
  OK(cch_deviceptr_alloc_async(&whole, pool, 64, stream));
  OK(cch_deviceptr_record_stream(whole, second));
  cch_deviceptr_unref(whole);
}

/* Each free behind several streams would create and destroy a stream, or make a stream of the program wait. */
static void frees_share_a_helper_stream(void) {
  sim.reset();
  CHECK_EQ(sim.fail("cuStreamCreateWithPriority", 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
  free_behind_two_streams();
  CHECK_EQ(sim.calls("cuMemFreeAsync"), 1); /* on a stream of the memory */
  sim.reset();
  for (int i = 0; i < 10; i++)
    free_behind_two_streams();
  CHECK_EQ(sim.calls("cuStreamCreateWithPriority"), 1);
  CHECK_EQ(sim.calls("cuStreamDestroy"), 0);
  CHECK_EQ(sim.calls("cuMemFreeAsync"), 10);
  CHECK_EQ(calls_on("cuStreamWaitEvent", cch_stream_raw(stream)), 0);
  CHECK_EQ(calls_on("cuStreamWaitEvent", cch_stream_raw(second)), 0);
}

/* Long-lived memory would keep all streams on which it was used. */
static void memory_does_not_keep_all_streams(void) {
  cch_deviceptr *whole;
  OK(cch_deviceptr_alloc_async(&whole, pool, 64, stream));
  for (int i = 0; i < 400; i++) {
    cch_stream *used;
    OK(cch_stream_create(&used, context, CCH_STREAM_NON_BLOCKING, 0));
    OK(cch_deviceptr_record_stream(whole, used));
    cch_stream_unref(used);
  }
  CHECK(cch_live_count(CCH_KIND_STREAM) < 30);
  cch_deviceptr_unref(whole);
}

/* Each use on a stream of other code would add to the uses. */
static void uses_of_foreign_streams_are_a_set(void) {
  cch_deviceptr *whole;
  CUstream foreign;
  OK(cch_deviceptr_alloc_async(&whole, pool, 64, stream));
  OK(cch_context_set_current(context));
  CHECK_EQ(driver.cuStreamCreateWithPriority(&foreign, 0, 0), CUDA_SUCCESS);
  for (int i = 0; i < 400; i++) {
    cch_stream *used;
    OK(cch_stream_wrap(&used, foreign, NULL, NULL));
    OK(cch_deviceptr_record_stream(whole, used));
    cch_stream_unref(used);
  }
  CHECK_EQ(cch_live_count(CCH_KIND_STREAM), 3);
  cch_deviceptr_unref(whole);
  CHECK_EQ(driver.cuStreamDestroy(foreign), CUDA_SUCCESS);
  OK(cch_context_set_current(NULL));
}

static cch_allocator *allocator_of(cch_tracker *tracker) {
  cch_allocator *made;
  OK(cch_allocator_create(&made, pool, &tracker, tracker != NULL));
  return made;
}

/* Memory could not be freed by its address, would be freed twice, or would outlive its pool. */
static void addresses_are_freed_once(void) {
  OK(cch_context_set_current(context));
  sim.reset();
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
  OK(cch_context_set_current(NULL));
}

/* PyTorch would not allocate from the pool that was set for its device, or could not allocate before CUDA is used. */
static void torch_uses_the_allocator_of_its_device(void) {
  OK(cch_context_set_current(context));
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
    CHECK_EQ(counts(trackers[i]).current_bytes, 100);
    OK(cch_torch_set_allocator(0, NULL)); /* memory that is already allocated remains valid */
    cch_torch_record_stream(a, cch_stream_raw(second));
    cch_torch_record_stream(NULL, NULL);
    cch_torch_free(a, 100, 0, NULL);
    cch_torch_free(NULL, 0, 0, NULL);
    CHECK_EQ(counts(trackers[i]).current_bytes, 0);
    cch_tracker_unref(trackers[i]);
    OK(cch_context_set_current(context));
  }
  cch_allocator *allocator = allocator_of(NULL);
  FAILS(CCH_EINVAL, cch_torch_set_allocator(-1, allocator));
  FAILS(CCH_EINVAL, cch_torch_set_allocator(1000, allocator));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_torch_set_allocator(60, allocator));
  cch_allocator_unref(allocator);
  OK(cch_context_set_current(NULL));
}

int main(void) {
  check_open();
  check_around(open, close);
  RUN(pointers_are_checked);
  RUN(frees_are_counted_when_they_happen);
  RUN(another_thread_has_opengl);
  RUN(frees_share_a_helper_stream);
  RUN(memory_does_not_keep_all_streams);
  RUN(uses_of_foreign_streams_are_a_set);
  RUN(addresses_are_freed_once);
  RUN(torch_uses_the_allocator_of_its_device);
  return 0;
}
