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
  OK(cch_graphics_register(&resource, context, name, 0, 0));
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

int main(void) {
  check_open();
  RUN(another_thread_has_opengl);
  return 0;
}
