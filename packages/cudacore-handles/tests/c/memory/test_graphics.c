/* SPDX-License-Identifier: Apache-2.0 */
/* Graphics resources, with the simulated driver's buffers instead of OpenGL's. */
#include "check.h"

static unsigned name;
static int *numbers; /* the contents of the OpenGL buffer */
static cch_context *context;
static cch_stream *stream;

static cch_graphics *begin(void) {
  cch_graphics *resource;
  void *data;
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  name = sim.gl_buffer(64, &data);
  numbers = data;
  OK(cch_graphics_register_gl_buffer(&resource, context, name, 0));
  return resource;
}

static cch_graphics *begin_mapped(cch_deviceptr **memory) {
  cch_graphics *resource = begin();
  OK(cch_graphics_map(memory, resource, stream));
  return resource;
}

static void finish(cch_graphics *resource) {
  cch_graphics_unref(resource);
  cch_stream_unref(stream);
  cch_context_unref(context);
  CHECK_EQ(sim.gl_delete(name), 0);
  CHECK_EQ(sim.live(CUDASIM_GRAPHICS), 0);
}

/* Mapped memory would not contain the bytes of the OpenGL buffer, or OpenGL would not see CUDA's changes. */
static void memory_is_the_buffers(void) {
  cch_graphics *resource = begin();
  cch_deviceptr *memory, *part;
  numbers[0] = 77;
  OK(cch_graphics_map(&memory, resource, stream));
  CHECK_EQ(cch_graphics_is_mapped(resource), 1);
  CHECK_EQ(cch_deviceptr_size(memory), 64);
  CHECK_PTR(cch_deviceptr_backing(memory), resource);
  OK(cch_deviceptr_part(&part, memory, 4, 4));
  OK(cch_deviceptr_fill(part, 5, 4, stream));
  cch_deviceptr_unref(memory);
  CHECK_EQ(cch_graphics_is_mapped(resource), 1); /* a part of the memory keeps the resource mapped */
  CHECK_EQ(numbers[1], 0);
  cch_deviceptr_unref(part);
  CHECK_EQ(cch_graphics_is_mapped(resource), 0);
  OK(cch_stream_synchronize(stream));
  CHECK_EQ(numbers[0], 77);
  CHECK_EQ(numbers[1], 5);
  finish(resource);
}

/* Memory, or a part of it, would be used after it is unmapped, when its address may belong to another mapping. */
static void unmapping_invalidates(void) {
  cch_deviceptr *memory, *part, *again, *other;
  cch_graphics *resource = begin_mapped(&memory);
  OK(cch_deviceptr_part(&part, memory, 4, 4));
  FAILS(CCH_EINVAL, cch_graphics_map(&again, resource, stream));
  OK(cch_graphics_unmap(resource, NULL));
  FAILS(CCH_EINVAL, cch_graphics_unmap(resource, NULL));
  CHECK_EQ(cch_is_valid(memory), 0);
  CHECK_EQ(cch_is_valid(part), 0);
  FAILS(CCH_EGONE, cch_deviceptr_fill(memory, 1, 4, stream));
  CHECK_HAS(check_error()->message, "its graphics resource was unmapped");
  FAILS(CCH_EGONE, cch_deviceptr_fill(part, 1, 4, stream));
  FAILS(CCH_EGONE, cch_deviceptr_part(&other, part, 0, 1));
  OK(cch_graphics_map(&again, resource, stream));
  cch_deviceptr_unref(memory);
  cch_deviceptr_unref(part);
  CHECK_EQ(cch_graphics_is_mapped(resource), 1);
  OK(cch_deviceptr_fill(again, 1, 4, stream));
  OK(cch_graphics_unregister(resource, NULL));
  CHECK_EQ(cch_is_valid(again), 0);
  CHECK_EQ(sim.live(CUDASIM_GRAPHICS), 0);
  FAILS(CCH_EGONE, cch_graphics_map(&memory, resource, stream));
  cch_deviceptr_unref(again);
  finish(resource);
}

/* A resource would be unregistered while its memory is in use, or in a function where CUDA calls are forbidden. */
static void memory_keeps_the_resource(void) {
  cch_deviceptr *memory;
  cch_graphics *resource = begin_mapped(&memory);
  cch_graphics_unref(resource);
  CHECK_EQ(sim.live(CUDASIM_GRAPHICS), 1);
  OK(cch_deviceptr_fill(memory, 3, 4, stream));
  sim.forbid(1);
  cch_callback_enter();
  cch_deviceptr_unref(memory);
  CHECK_EQ(cch_reclaim_pending(), 1);
  cch_callback_leave();
  sim.forbid(0);
  CHECK_EQ(sim.live(CUDASIM_GRAPHICS), 1);
  cch_reclaim_drain();
  CHECK_EQ(sim.live(CUDASIM_GRAPHICS), 0);
  CHECK_EQ(sim.calls("cuGraphicsUnmapResources"), 1);
  finish(NULL);
}

/* A call that the driver refuses would change the resource or an out-parameter. */
static void refusals_change_nothing(void) {
  cch_graphics *resource = begin(), *none = NULL;
  cch_deviceptr *memory = NULL;
  FAILS(CUDA_ERROR_INVALID_HANDLE, cch_graphics_register_gl_buffer(&none, context, 4711, 0));
  FAILS(CCH_EINVAL, cch_graphics_register_gl_image(&none, context, name, 0, 0));
  OK(cch_graphics_register_gl_image(&none, context, name, 0x0DE1, 0));
  FAILS(CUDA_ERROR_NOT_MAPPED_AS_POINTER, cch_graphics_map(&memory, none, stream));
  CHECK_EQ(cch_graphics_is_mapped(none), 0);
  CHECK(memory == NULL);
  cch_graphics_unref(none);
  OK(cch_graphics_map(&memory, resource, stream));
  sim.fail("cuGraphicsUnmapResources", 1, CUDA_ERROR_UNKNOWN);
  FAILS(CUDA_ERROR_UNKNOWN, cch_graphics_unregister(resource, NULL));
  CHECK_EQ(cch_is_valid(memory), 1);
  sim.fail("cuGraphicsUnregisterResource", 1, CUDA_ERROR_UNKNOWN);
  FAILS(CUDA_ERROR_UNKNOWN, cch_graphics_unregister(resource, NULL));
  CHECK_EQ(cch_is_valid(memory), 0);
  CHECK_EQ(cch_is_valid(resource), 1);
  cch_deviceptr_unref(memory);
  finish(resource);
}

/*
 * For a call that fails because there is no OpenGL, the driver's error code would be lost, or an object would remain.
 */
static void there_is_no_opengl(void) {
  cch_graphics *resource = begin(), *none = NULL;
  sim.gl_delete(name);
  FAILS(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, cch_graphics_register_gl_buffer(&none, context, name, 0));
  FAILS(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, cch_graphics_register_gl_image(&none, context, name, 0x0DE1, 0));
  name = sim.gl_buffer(4, NULL);
  finish(resource);
}

/* A resource that is released on a thread without the OpenGL context would stay registered or mapped forever. */
static void another_thread_has_opengl(void) {
  cch_deviceptr *memory;
  cch_graphics *resource = begin_mapped(&memory);
  cch_graphics_unref(resource);
  sim.fail("cuGraphicsUnmapResources", 1, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT);
  sim.fail("cuGraphicsUnregisterResource", 1, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT);
  cch_deviceptr_unref(memory);
  CHECK_EQ(cch_reclaim_pending(), 1);
  for (int i = 0; i < 2; i++)
    cch_reclaim_drain();
  CHECK_EQ(cch_reclaim_pending(), 0);
  finish(NULL);
}

static void map_and_unmap(int index, void *resource) {
  for (int i = 0; i < 50; i++) {
    cch_deviceptr *memory;
    if (cch_graphics_map(&memory, resource, stream) != 0)
      continue; /* another thread has mapped the resource */
    if (index % 2 == 0)
      OK(cch_graphics_unmap(resource, NULL));
    cch_deviceptr_unref(memory);
  }
}

/* Threads would unmap a resource twice, or use memory that another thread has unmapped. */
static void threads_share_a_resource(void) {
  cch_graphics *resource = begin();
  check_threads(8, map_and_unmap, resource);
  CHECK_EQ(cch_graphics_is_mapped(resource), 0);
  CHECK_EQ(sim.calls("cuGraphicsMapResources"), sim.calls("cuGraphicsUnmapResources"));
  finish(resource);
}

int main(void) {
  check_open();
  RUN(memory_is_the_buffers);
  RUN(unmapping_invalidates);
  RUN(memory_keeps_the_resource);
  RUN(refusals_change_nothing);
  RUN(there_is_no_opengl);
  RUN(another_thread_has_opengl);
  RUN(threads_share_a_resource);
  return 0;
}
