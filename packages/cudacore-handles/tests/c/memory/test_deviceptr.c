/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations from pools, on the device, on the host and by other code, and the streams of frees. */
#include "device.h"

static cch_context *other;

static void open(void) {
  device_open();
  OK(cch_context_primary(&other, 1));
}

static void close(void) {
  cch_context_unref(other);
  device_close();
}

/* Memory of a pool would be freed by another call, on another stream, or never; or its box would lose the pool. */
static void pool_memory_is_freed_on_its_stream(void) {
  cch_deviceptr *ptr;
  open();
  OK(cch_deviceptr_alloc_async(&ptr, pool, 1000, stream));
  CHECK(cch_deviceptr_raw(ptr) != 0);
  CHECK_EQ(cch_deviceptr_size(ptr), 1000);
  CHECK(cch_deviceptr_pool(ptr) == pool);
  CHECK(cch_deviceptr_stream(ptr) == stream);
  CHECK(cch_deviceptr_context(ptr) == context);
  close();
  OK(cch_stream_synchronize(cch_deviceptr_stream(ptr))); /* the memory keeps its stream alive */
  cch_deviceptr_unref(ptr);
  CHECK_EQ(sim.calls("cuMemFreeAsync"), 1);
}

/* The stream on which memory is freed could not be changed, or the first stream would be kept forever. */
static void stream_of_the_free_can_be_changed(void) {
  cch_stream *second;
  cch_deviceptr *ptr;
  OK(cch_stream_create(&second, context, 0, 0));
  OK(cch_deviceptr_alloc_async(&ptr, pool, 8, stream));
  OK(cch_deviceptr_set_stream(ptr, second));
  OK(cch_deviceptr_set_stream(ptr, second)); /* `second` is already the stream of the memory */
  CHECK(cch_deviceptr_stream(ptr) == second);
  FAILS(CCH_EINVAL, cch_deviceptr_set_stream(ptr, NULL));
  cch_stream_unref(second);
  cch_stream_unref(stream);
  CHECK_EQ(sim.live(CUDASIM_STREAM), 1);
  stream = NULL;
  cch_deviceptr_unref(ptr);
}

/* A free on a default stream would be made without a context, or in a context of another device. */
static void default_stream_remembers_the_context(void) {
  cch_stream *legacy = cch_stream_legacy();
  cch_deviceptr *ptr;
  OK(cch_context_set_current(context));
  OK(cch_deviceptr_alloc_async(&ptr, pool, 64, legacy));
  CHECK(cch_deviceptr_context(ptr) == context);
  OK(cch_context_set_current(other));
  cch_deviceptr_unref(ptr);
  cudasim_call call = {0};
  for (size_t i = 0; sim.log(i, &call, 1) == 1 && strcmp(call.function, "cuMemFreeAsync") != 0;)
    i++;
  CHECK_STR(call.function, "cuMemFreeAsync");
  CHECK_PTR(call.context, cch_context_raw(context));
  OK(cch_context_set_current(NULL));
  cch_stream_unref(legacy);
}

static int freed;
static cch_stream *freed_on;
static void free_foreign(void *owner, CUdeviceptr ptr, size_t size, cch_stream *on) {
  CHECK_EQ(ptr, 0x1000);
  CHECK_EQ(size, 256);
  freed += *(int *)owner;
  freed_on = on;
}

/*
 * The library would free foreign memory itself, or would call the owner's free function twice, never, or without the
 * stream.
 */
static void foreign_memory_is_freed_by_its_owner(void) {
  int one = 1;
  cch_deviceptr *ptr;
  freed = 0;
  OK(cch_deviceptr_wrap(&ptr, 0x1000, 256, context, &one, free_foreign));
  CHECK_EQ(cch_deviceptr_raw(ptr), 0x1000);
  CHECK(cch_deviceptr_context(ptr) == context && cch_deviceptr_pool(ptr) == NULL && cch_deviceptr_is_wrapped(ptr));
  OK(cch_deviceptr_set_stream(ptr, stream));
  CHECK(cch_deviceptr_ref(ptr) == ptr);
  cch_deviceptr_unref(ptr);
  CHECK_EQ(freed, 0);
  cch_deviceptr_unref(ptr);
  CHECK(freed == 1 && freed_on == stream);
  OK(cch_deviceptr_wrap(&ptr, 0x1000, 256, NULL, &one, free_foreign));
  CHECK(cch_deviceptr_context(ptr) == NULL);
  cch_deviceptr_unref(ptr);
  CHECK(freed == 2 && freed_on == NULL);
  OK(cch_deviceptr_wrap(&ptr, 0x1000, 256, NULL, NULL, NULL));
  cch_deviceptr_unref(ptr);
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

int main(void) {
  check_open();
  RUN(pool_memory_is_freed_on_its_stream);
  check_around(open, close);
  RUN(stream_of_the_free_can_be_changed);
  RUN(default_stream_remembers_the_context);
  RUN(foreign_memory_is_freed_by_its_owner);
  RUN(pointers_are_checked);
  return 0;
}
