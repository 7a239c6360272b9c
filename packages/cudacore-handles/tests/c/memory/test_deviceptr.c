/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations on devices and on the host, their trackers, and resources of the simulated OpenGL. */
#include "device.h"

static cch_context *other;

static void open(void) {
  device_open();
  cch_stream_unref(stream);
  OK(cch_stream_create(&stream, context, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_context_primary(&other, 1));
}

static void close(void) {
  cch_context_unref(other);
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

int main(void) {
  check_open();
  check_around(open, close);
  RUN(pointers_are_checked);
  RUN(frees_are_counted_when_they_happen);
  RUN(another_thread_has_opengl);
  return 0;
}
