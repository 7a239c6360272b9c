/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations: from pools, on the device, on the host, foreign; copies, fills, and the streams of frees. */
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

/* Device and pinned memory would be freed with the wrong driver call, or while the memory's stream uses it. */
static void immediate_frees_wait_for_the_stream(void) {
  cch_deviceptr *device, *pinned, *quiet;
  OK(cch_deviceptr_alloc(&device, context, 100));
  OK(cch_deviceptr_alloc_host(&pinned, context, 100, CU_MEMHOSTALLOC_PORTABLE));
  OK(cch_deviceptr_alloc(&quiet, context, 100));
  CHECK(cch_deviceptr_pool(device) == NULL && cch_deviceptr_stream(device) == NULL);
  CHECK(cch_deviceptr_context(device) == context && cch_deviceptr_context(pinned) == context);
  CHECK(!cch_deviceptr_is_wrapped(device));
  cch_deviceptr_unref(quiet);
  CHECK_EQ(sim.calls("cuMemFree"), 1);
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 0);
  OK(cch_deviceptr_set_stream(device, stream));
  OK(cch_deviceptr_set_stream(pinned, stream));
  cch_deviceptr_unref(device);
  CHECK_EQ(sim.calls("cuMemFree"), 2);
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 1);
  cch_deviceptr_unref(pinned);
  CHECK_EQ(sim.calls("cuMemFreeHost"), 1);
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 2);
}

static int releases;
static void count_release(void *owner) {
  CHECK_EQ(sim.calls("cuMemHostUnregister"), 1); /* the memory may be freed from here on */
  CHECK(owner == &releases);
  releases++;
}

/* Registered memory would be released while it is registered, or while its stream uses it, or never. */
static void registered_memory_is_released(void) {
  static char host[100];
  cch_deviceptr *ptr = NULL, *part;
  OK(cch_deviceptr_register_host(&ptr, context, host + 1, 50, 0, &releases, count_release));
  CHECK(cch_deviceptr_raw(ptr) == (CUdeviceptr)(uintptr_t)(host + 1) && cch_deviceptr_size(ptr) == 50);
  CHECK(!cch_deviceptr_is_wrapped(ptr) && !cch_deviceptr_is_read_only(ptr));
  OK(cch_deviceptr_part(&part, ptr, 10, 20));
  OK(cch_deviceptr_set_stream(ptr, stream));
  CHECK_AFTER(cch_deviceptr_unref(ptr), releases, 0);
  CHECK_AFTER(cch_deviceptr_unref(part), releases, 1);
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 1);
  FAILS(CUDA_ERROR_INVALID_VALUE,
        cch_deviceptr_register_host(&ptr, context, host, 1, 0x1000, &releases, count_release));
  FAILS(CCH_EINVAL, cch_deviceptr_register_host(&ptr, context, host, 0, 0, &releases, count_release));
  CHECK_EQ(releases, 1); /* on failure, the caller keeps the owner */
  OK(cch_deviceptr_register_host(&ptr, context, host, 50, CU_MEMHOSTREGISTER_READ_ONLY, NULL, NULL));
  OK(cch_deviceptr_part(&part, ptr, 10, 20));
  CHECK(cch_deviceptr_is_read_only(ptr) && cch_deviceptr_is_read_only(part));
  FAILS(CCH_EINVAL, cch_deviceptr_fill(part, 0, 1, stream));
  FAILS(CCH_EINVAL, cch_deviceptr_copy(ptr, ptr, 50, stream));
  FAILS(CCH_EINVAL, cch_copy_batch(&ptr, &ptr, 1, NULL, stream));
  cch_deviceptr_unref(part);
  cch_deviceptr_unref(ptr);
}

/* Managed memory would be freed with the wrong driver call, or while the memory's stream uses it. */
static void managed_memory(void) {
  cch_deviceptr *ptr = NULL;
  int type, device, is_managed = 0;
  OK(cch_deviceptr_alloc_managed(&ptr, context, 100, CU_MEM_ATTACH_GLOBAL));
  OK(cch_pointer_attributes(&type, &device, &is_managed, cch_deviceptr_raw(ptr)));
  CHECK(is_managed);
  OK(cch_deviceptr_set_stream(ptr, stream));
  cch_deviceptr_unref(ptr);
  CHECK_EQ(sim.calls("cuMemFree"), 1);
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 1);
  FAILS(CCH_EINVAL, cch_deviceptr_alloc_managed(&ptr, context, 0, CU_MEM_ATTACH_GLOBAL));
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_deviceptr_alloc_managed(&ptr, context, 1, 0));
}

/* For a size of 0, nothing would be allocated, and a null pointer would be returned as memory. */
static void nothing_is_refused(void) {
  cch_deviceptr *ptr = NULL;
  FAILS(CCH_EINVAL, cch_deviceptr_alloc_async(&ptr, pool, 0, stream));
  CHECK_HAS(check_error()->message, "size");
  FAILS(CCH_EINVAL, cch_deviceptr_alloc(&ptr, context, 0));
  FAILS(CCH_EINVAL, cch_deviceptr_alloc_host(&ptr, context, 0, 0));
  CHECK(ptr == NULL);
  OK(cch_deviceptr_wrap(&ptr, 0, 0, NULL, NULL, NULL)); /* foreign memory may have a size of 0 */
  OK(cch_deviceptr_copy(ptr, ptr, 0, stream));
  OK(cch_deviceptr_fill(ptr, 7, 4, stream));
  CHECK_EQ(sim.calls("cuMemcpyAsync") + sim.calls("cuMemsetD32Async"), 0);
  cch_deviceptr_unref(ptr);
}

/* A request for too much memory would return a pointer, or leave a box. */
static void too_much_is_refused(void) {
  cch_deviceptr *ptr = NULL;
  const size_t much = (size_t)1 << 50;
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cch_deviceptr_alloc_async(&ptr, pool, much, stream));
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cch_deviceptr_alloc(&ptr, context, much));
  FAILS(CUDA_ERROR_OUT_OF_MEMORY, cch_deviceptr_alloc_host(&ptr, context, much, 0));
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_deviceptr_alloc_host(&ptr, context, 1, 0x1000));
  FAILS(CCH_EINVAL, cch_deviceptr_alloc_async(&ptr, NULL, 1, stream));
  FAILS(CCH_EINVAL, cch_deviceptr_alloc_async(&ptr, pool, 1, NULL));
  FAILS(CCH_EINVAL, cch_deviceptr_alloc(&ptr, NULL, 1));
  FAILS(CCH_EINVAL, cch_deviceptr_alloc_host(&ptr, NULL, 1, 0));
  CHECK(ptr == NULL);
}

/* Copies the first bytes of memory to storage that the next call overwrites. */
static const unsigned char *bytes(const cch_deviceptr *ptr) {
  static unsigned char seen[128];
  size_t size = cch_deviceptr_size(ptr);
  CHECK(size <= sizeof seen);
  OK(cch_context_synchronize(context));
  OK(cch_context_set_current(context));
  CHECK_EQ(driver.cuMemcpy((CUdeviceptr)(uintptr_t)seen, cch_deviceptr_raw(ptr), size), 0);
  OK(cch_context_set_current(NULL));
  return seen;
}

static uint32_t word(const cch_deviceptr *ptr, int index) {
  uint32_t out;
  memcpy(&out, bytes(ptr) + 4 * index, sizeof out);
  return out;
}

/* Copies and fills would affect other bytes than requested, or exceed an allocation. */
static void bytes_arrive(void) {
  cch_deviceptr *pinned, *device, *from_pool;
  OK(cch_deviceptr_alloc_host(&pinned, context, 64, 0));
  OK(cch_deviceptr_alloc(&device, context, 63));
  OK(cch_deviceptr_alloc_async(&from_pool, pool, 128, stream));
  for (int i = 0; i < 64; i++)
    ((char *)(uintptr_t)cch_deviceptr_raw(pinned))[i] = (char)i;
  OK(cch_deviceptr_fill(from_pool, 0xAABBCCDD, 4, stream));
  OK(cch_deviceptr_copy(from_pool, pinned, 64, stream));
  CHECK(word(from_pool, 0) == 0x03020100 && word(from_pool, 15) == 0x3f3e3d3c);
  OK(cch_deviceptr_fill(pinned, 0x1234AB, 2, stream)); /* uses the low two bytes of the value */
  CHECK(word(pinned, 0) == 0x34AB34AB && word(pinned, 15) == 0x34AB34AB);
  OK(cch_deviceptr_fill(device, 0xAB, 1, stream));
  CHECK_EQ(bytes(device)[62], 0xAB);
  OK(cch_deviceptr_copy(pinned, from_pool, 64, stream));
  CHECK_EQ(bytes(pinned)[63], 63);
  CHECK_EQ(word(from_pool, 16), 0xAABBCCDD); /* unchanged, because it is beyond the copied bytes */

  FAILS(CCH_EINVAL, cch_deviceptr_copy(device, from_pool, 64, stream));
  CHECK_HAS(check_error()->message, "63");
  FAILS(CCH_EINVAL, cch_deviceptr_copy(from_pool, device, 64, stream));
  FAILS(CCH_EINVAL, cch_deviceptr_fill(device, 0, 2, stream));
  FAILS(CCH_EINVAL, cch_deviceptr_fill(device, 0, 4, stream));
  FAILS(CCH_EINVAL, cch_deviceptr_fill(from_pool, 0, 3, stream));
  FAILS(CCH_EINVAL, cch_deviceptr_fill(from_pool, 0, 0, stream));
  FAILS(CCH_EINVAL, cch_deviceptr_fill(from_pool, 0, 8, stream));
  cch_deviceptr_unref(pinned);
  cch_deviceptr_unref(device);
  cch_deviceptr_unref(from_pool);
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
  RUN(immediate_frees_wait_for_the_stream);
  RUN(registered_memory_is_released);
  RUN(managed_memory);
  RUN(nothing_is_refused);
  RUN(too_much_is_refused);
  RUN(bytes_arrive);
  RUN(foreign_memory_is_freed_by_its_owner);
  RUN(pointers_are_checked);
  return 0;
}
