/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: of many allocations at once, and of parts of allocations. Moving managed memory. */
#include "check.h"

enum { COUNT = 3, SIZE = 64 };

static cch_context *context;
static cch_stream *stream;
static cch_deviceptr *src[COUNT], *dst[COUNT];

/* Waits for all work, and returns the bytes of pinned memory. */
static unsigned char *host(const cch_deviceptr *ptr) {
  check_settle();
  return (unsigned char *)(uintptr_t)cch_deviceptr_raw(ptr);
}

static void open(void) {
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  for (int i = 0; i < COUNT; i++) {
    OK(cch_deviceptr_alloc_host(&src[i], context, SIZE, 0));
    OK(cch_deviceptr_alloc_host(&dst[i], context, SIZE, 0));
    memset(host(src[i]), i + 1, SIZE);
    memset(host(dst[i]), 0, SIZE);
  }
}

static void close(void) {
  for (int i = 0; i < COUNT; i++) {
    cch_deviceptr_unref(src[i]);
    cch_deviceptr_unref(dst[i]);
  }
  cch_stream_unref(stream);
  cch_context_unref(context);
}

static void check_copied(void) {
  for (int i = 0; i < COUNT; i++) {
    CHECK_EQ(host(dst[i])[0], i + 1);
    CHECK_EQ(host(dst[i])[SIZE - 1], i + 1);
    memset(host(dst[i]), 0, SIZE);
  }
}

/* A batch would take more than one driver call, or not be copied completely. Or it would fail on default streams, for
 * which the driver refuses batches. */
static void batch_is_one_call(void) {
  cch_stream *legacy = cch_stream_legacy();
  const cch_copy_attributes plain = {.size = sizeof plain, .order = CCH_COPY_ANY_ORDER},
                            other = {.size = sizeof other, .flags = CCH_COPY_OVERLAP, .src_location_type = 2};
  const cch_copy_attributes *attributes[COUNT] = {&plain, &plain, &other};
  OK(cch_copy_batch(dst, src, COUNT, NULL, stream));
  check_copied();
  OK(cch_copy_batch(dst, src, COUNT, attributes, stream));
  check_copied();
  CHECK_EQ(sim.calls("cuMemcpyBatchAsync"), 2);
  CHECK_EQ(sim.calls("cuMemcpyAsync"), 0);
  OK(cch_context_set_current(context));
  OK(cch_copy_batch(dst, src, COUNT, attributes, legacy));
  check_copied();
  CHECK_EQ(sim.calls("cuMemcpyBatchAsync"), 2);
  CHECK_EQ(sim.calls("cuMemcpyAsync"), COUNT);
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 0);
  OK(cch_context_set_current(NULL));
  OK(cch_copy_batch(NULL, NULL, 0, NULL, stream));
  cch_stream_unref(legacy);
}

/* A call that must read a source before it returns would return while the source is still being read. */
static void source_is_read_during_the_call(void) {
  cch_stream *legacy = cch_stream_legacy();
  const cch_copy_attributes now = {.size = sizeof now, .order = CCH_COPY_DURING_CALL};
  const cch_copy_attributes *attributes[COUNT] = {NULL, &now, NULL};
  cch_graph *graph;
  OK(cch_context_set_current(context));
  OK(cch_copy_batch(dst, src, COUNT, attributes, legacy));
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 1);
  OK(cch_context_set_current(NULL));
  OK(cch_capture_begin(&graph, stream, CCH_CAPTURE_RELAXED));
  FAILS(CCH_EINVAL, cch_copy_batch(dst, src, COUNT, attributes, stream));
  CHECK_HAS(check_error()->message, "the graph reads it later");
  OK(cch_capture_end(graph, stream));
  cch_graph_unref(graph);
  cch_stream_unref(legacy);
}

/* Part of an invalid batch would be copied. */
static void bad_batch_is_refused(void) {
  cch_deviceptr *small;
  OK(cch_deviceptr_alloc_host(&small, context, SIZE / 2, 0));
  cch_deviceptr *const bad[COUNT] = {dst[0], dst[1], small}, *const none[COUNT] = {dst[0], dst[1], NULL};
  FAILS(CCH_EINVAL, cch_copy_batch(bad, src, COUNT, NULL, stream));
  CHECK_HAS(check_error()->message, "copy 2 is of 64 bytes to 32 bytes");
  FAILS(CCH_EINVAL, cch_copy_batch(none, src, COUNT, NULL, stream));
  cch_deviceptr *other_kind[COUNT];
  memcpy(other_kind, src, sizeof other_kind);
  other_kind[1] = (cch_deviceptr *)(void *)stream;
  FAILS(CCH_EINVAL, cch_copy_batch(dst, other_kind, COUNT, NULL, stream));
  CHECK_HAS(check_error()->message, "the argument src[i] is a box of kind \"stream\"");
  CHECK_HAS(check_error()->message, "i is 1");
  FAILS(CCH_EINVAL, cch_copy_batch(dst, src, COUNT, NULL, NULL));
  const cch_copy_attributes order = {.size = sizeof order, .order = 4}, flags = {.size = sizeof flags, .flags = 2};
  FAILS(CCH_EINVAL, cch_copy_batch(dst, src, 1, (const cch_copy_attributes *[]){&order}, stream));
  FAILS(CCH_EINVAL, cch_copy_batch(dst, src, 1, (const cch_copy_attributes *[]){&flags}, stream));
  CHECK_EQ(sim.calls("cuMemcpyBatchAsync"), 0);
  cch_deviceptr_unref(small);
}

/* A part of memory would be copied from or to a wrong place, or beyond the end of the memory. */
static void part_is_copied(void) {
  for (int i = 0; i < SIZE; i++)
    host(src[0])[i] = (unsigned char)i;
  cch_copy_shape shape = {.size = sizeof shape,
                          .width = 2,
                          .height = 2,
                          .depth = 2,
                          .src_offset = 9,
                          .src_pitch = 8,
                          .src_height = 3,
                          .dst_offset = 1};
  OK(cch_copy_part(dst[0], src[0], &shape, stream));
  const unsigned char wanted[] = {0, 9, 10, 17, 18, 33, 34, 41, 42, 0};
  CHECK(memcmp(host(dst[0]), wanted, sizeof wanted) == 0);
  cch_copy_shape bad = shape;
  bad.src_offset = 64 - 41 + 8; /* one byte too far */
  FAILS(CCH_EINVAL, cch_copy_part(dst[0], src[0], &bad, stream));
  bad.src_offset--;
  OK(cch_copy_part(dst[0], src[0], &bad, stream));
  bad = shape;
  bad.dst_pitch = 1;
  FAILS(CCH_EINVAL, cch_copy_part(dst[0], src[0], &bad, stream));
  bad = shape;
  bad.src_height = 1;
  FAILS(CCH_EINVAL, cch_copy_part(dst[0], src[0], &bad, stream));
  bad = shape;
  bad.src_pitch = SIZE_MAX / 2;
  FAILS(CCH_EINVAL, cch_copy_part(dst[0], src[0], &bad, stream));
  bad = shape;
  bad.dst_offset = SIZE_MAX;
  FAILS(CCH_EINVAL, cch_copy_part(dst[0], src[0], &bad, stream));
  bad = (cch_copy_shape){.size = sizeof bad, .width = 8, .src_offset = 7};
  FAILS(CCH_EINVAL, cch_copy_part(src[0], src[0], &bad, stream));
  CHECK_HAS(check_error()->message, "overlap; copy through another allocation");
  FAILS(CCH_EINVAL, cch_copy_part(NULL, src[0], &shape, stream));
  FAILS(CCH_EINVAL, cch_copy_part(dst[0], src[0], NULL, stream));
  shape.width = 0;
  OK(cch_copy_part(dst[0], src[0], &shape, stream));
  CHECK_EQ(sim.calls("cuMemcpy3DAsync"), 2);
}

/*
 * A copy between devices would be made by a driver function that needs access between the devices, or a copy within a
 * device by a driver function for two devices.
 */
static void memory_of_two_devices_is_copied(void) {
  cch_context *other;
  cch_deviceptr *here, *there;
  cch_graph *graph;
  const cch_copy_shape shape = {.size = sizeof shape, .width = 8, .height = 2, .src_pitch = 16, .dst_pitch = 16};
  OK(cch_context_primary(&other, 1));
  OK(cch_deviceptr_alloc(&here, context, SIZE));
  OK(cch_deviceptr_alloc(&there, other, SIZE));
  OK(cch_deviceptr_copy(there, here, SIZE, stream));
  OK(cch_deviceptr_copy(there, there, SIZE, stream)); /* a copy within a device that `stream` cannot access */
  OK(cch_deviceptr_copy(src[0], there, SIZE, stream));
  CHECK_EQ(sim.calls("cuMemcpyPeerAsync"), 3);
  OK(cch_copy_part(there, here, &shape, stream));
  CHECK_EQ(sim.calls("cuMemcpy3DPeerAsync"), 1);
  OK(cch_copy_batch((cch_deviceptr *[]){dst[0], there}, (cch_deviceptr *[]){src[1], here}, 2, NULL, stream));
  CHECK_EQ(host(dst[0])[0], 2);
  CHECK_EQ(sim.calls("cuMemcpyPeerAsync"), 4);
  CHECK_EQ(sim.calls("cuMemcpyBatchAsync"), 0);
  CHECK_EQ(sim.calls("cuMemcpyAsync"), 1);
  OK(cch_deviceptr_copy(here, src[0], SIZE, stream));
  CHECK_EQ(sim.calls("cuMemcpyAsync"), 2);
  /* In a capture, copies use other functions, because those for two devices would invalidate the capture. */
  OK(cch_capture_begin(&graph, stream, CCH_CAPTURE_RELAXED));
  OK(cch_deviceptr_copy(there, here, SIZE, stream));
  CHECK_EQ(sim.calls("cuMemcpyAsync"), 3);
  OK(cch_capture_end(graph, stream));
  cch_graph_unref(graph);
  cch_deviceptr_unref(here);
  cch_deviceptr_unref(there);
  cch_context_unref(other);
}

/* Rows could not be copied from or to ordinary host memory, whose location the driver cannot determine. */
static void rows_of_pageable_memory_are_copied(void) {
  unsigned char memory[SIZE] = {1, 2, 0, 0, 3, 4};
  cch_deviceptr *pageable;
  const cch_copy_shape shape = {.size = sizeof shape, .width = 2, .height = 2, .src_pitch = 4};
  OK(cch_deviceptr_wrap(&pageable, (CUdeviceptr)(uintptr_t)memory, SIZE, NULL, NULL, NULL));
  OK(cch_copy_part(dst[0], pageable, &shape, stream)); /* reads the memory during the call */
  CHECK(memcmp(host(dst[0]), (unsigned char[]){1, 2, 3, 4}, 4) == 0);
  OK(cch_copy_part(pageable, src[2], &shape, stream));
  check_settle();
  CHECK(memcmp(memory, (unsigned char[]){3, 3, 3, 3}, 4) == 0);
  cch_deviceptr_unref(pageable);
}

static void make_managed(cch_deviceptr **out) {
  OK(cch_context_set_current(context));
  for (int i = 0; i < COUNT; i++) {
    CUdeviceptr raw;
    CHECK_EQ(driver.cuMemAllocManaged(&raw, SIZE, CU_MEM_ATTACH_GLOBAL), 0);
    OK(cch_deviceptr_wrap(&out[i], raw, SIZE, NULL, NULL, NULL));
  }
  OK(cch_context_set_current(NULL));
}

static void drop_managed(cch_deviceptr **managed) {
  OK(cch_context_synchronize(context));
  OK(cch_context_set_current(context));
  for (int i = 0; i < COUNT; i++) {
    CHECK_EQ(driver.cuMemFree(cch_deviceptr_raw(managed[i])), 0);
    cch_deviceptr_unref(managed[i]);
  }
  OK(cch_context_set_current(NULL));
}

/* A batch of prefetches would take many driver calls; or an empty batch would reach the driver, which refuses it. */
static void batch_is_moved_by_one_call(void) {
  const cch_location locations[COUNT] = {{CCH_LOCATION_DEVICE, 0}, {CCH_LOCATION_HOST, 0}, {CCH_LOCATION_DEVICE, 1}};
  cch_deviceptr *managed[COUNT];
  make_managed(managed);
  OK(cch_managed_prefetch(managed, locations, COUNT, stream));
  CHECK_EQ(sim.calls("cuMemPrefetchBatchAsync"), 1);
  OK(cch_managed_prefetch(managed, locations, 1, stream));
  CHECK_EQ(sim.calls("cuMemPrefetchAsync"), 1);
  OK(cch_managed_discard(managed, COUNT, stream));
  OK(cch_managed_discard_prefetch(managed, locations, COUNT, stream));
  OK(cch_managed_discard(managed, 0, stream));
  CHECK_EQ(sim.calls("cuMemDiscardBatchAsync"), 1);
  cch_stream *legacy = cch_stream_legacy();
  FAILS(CCH_EINVAL, cch_managed_discard(managed, 1, legacy));
  FAILS(CCH_EINVAL, cch_managed_discard_prefetch(managed, locations, 1, legacy));
  OK(cch_context_set_current(context));
  OK(cch_managed_prefetch(managed, locations, COUNT, legacy)); /* the driver accepts no batches on the legacy stream */
  CHECK_EQ(sim.calls("cuMemPrefetchBatchAsync"), 1);
  OK(cch_context_set_current(NULL));
  cch_stream_unref(legacy);
  FAILS(CCH_EINVAL, cch_managed_discard((cch_deviceptr *[]){NULL}, 1, stream));
  FAILS(CCH_EINVAL, cch_managed_discard(managed, 1, NULL));
  FAILS(CCH_EINVAL, cch_managed_attribute(NULL, 0, managed[0], 1));
  drop_managed(managed);
}

static int called;
static void call(void *data) { called += *(int *)data; }
static void release(void *owner) { *(int *)owner = 0; }

/* A host function would not be called, or its bundle would be released before the call, or never. */
static void function_is_called_once(void) {
  int one = 1, owner = 5;
  cch_bundle *bundle;
  OK(cch_bundle_create(&bundle, 1));
  OK(cch_bundle_add_object(bundle, &owner, release));
  called = 0;
  OK(cch_stream_callback(stream, call, &one, bundle));
  cch_bundle_unref(bundle);
  OK(cch_stream_synchronize(stream));
  CHECK_EQ(called, 1);
  check_settle();
  cch_reclaim_drain();
  CHECK_EQ(owner, 0);
  FAILS(CCH_EINVAL, cch_stream_callback(stream, NULL, NULL, NULL));
  FAILS(CCH_EINVAL, cch_stream_callback(NULL, call, &one, NULL));
}

/* A captured function would be called at once, or its bundle would be released with the capture. */
static void function_is_captured(void) {
  int one = 1, owner = 5;
  cch_bundle *bundle;
  cch_graph *graph;
  cch_graph_exec *exec;
  OK(cch_bundle_create(&bundle, 1));
  OK(cch_bundle_add_object(bundle, &owner, release));
  called = 0;
  OK(cch_capture_begin(&graph, stream, CCH_CAPTURE_RELAXED));
  OK(cch_stream_callback(stream, call, &one, bundle));
  OK(cch_capture_end(graph, stream));
  cch_bundle_unref(bundle);
  CHECK_EQ(called, 0);
  OK(cch_graph_instantiate(&exec, graph,
                           &(cch_instantiate_params){.size = sizeof(cch_instantiate_params), .context = context}));
  cch_graph_unref(graph);
  OK(cch_graph_launch(exec, stream));
  OK(cch_graph_launch(exec, stream));
  check_settle();
  CHECK_EQ(called, 2);
  CHECK_EQ(owner, 5);
  cch_graph_exec_unref(exec);
  OK(cch_stream_synchronize(stream));
  cch_reclaim_drain();
  CHECK_EQ(owner, 0);
}

int main(void) {
  check_open();
  check_around(open, close);
  RUN(batch_is_one_call);
  RUN(source_is_read_during_the_call);
  RUN(bad_batch_is_refused);
  RUN(part_is_copied);
  RUN(memory_of_two_devices_is_copied);
  RUN(rows_of_pageable_memory_are_copied);
  RUN(batch_is_moved_by_one_call);
  RUN(function_is_called_once);
  RUN(function_is_captured);
  return 0;
}
