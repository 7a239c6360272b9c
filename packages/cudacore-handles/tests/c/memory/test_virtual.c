/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory: sizes, growth, frees, and sharing. */
#include "check.h"

#include <unistd.h>

enum { UNIT = 1 << 21 };

static const cch_access everybody[] = {{CCH_LOCATION_DEVICE, 0, 3}, {CCH_LOCATION_DEVICE, 1, 1}};

static cch_virtual_config config(void) {
  /*
   * Shareable, because in the simulated driver, physical memory that is not shareable takes addresses of its own, which
   * could be those directly after the range.
   */
  return (cch_virtual_config){.size = sizeof(cch_virtual_config),
                              .location_type = 1,
                              .handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                              .accesses = everybody,
                              .access_count = 2};
}

/*
 * Checks the number of address ranges, and of units of physical memory on device 0, which has no other memory in use.
 */
static void check_live(size_t addresses, size_t physical) {
  CUcontext context, before;
  size_t left, all;
  CHECK_EQ(sim.live(CUDASIM_ADDRESS_RANGE), addresses);
  CHECK_EQ(sim.live(CUDASIM_PHYSICAL_MEMORY), 0); /* the mappings keep the physical memory, so no handles are needed */
  CHECK_EQ(driver.cuCtxGetCurrent(&before), 0);
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&context, 0), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(context), 0);
  CHECK_EQ(driver.cuMemGetInfo(&left, &all), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(before), 0);
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(0), 0);
  CHECK_EQ(all - left, physical * UNIT);
}

/*
 * Sizes that are not multiples of the granularity would reach the driver; or no memory would be allocated, or it would
 * never be freed.
 */
static void size_is_rounded_up(void) {
  cch_virtual_config c = config();
  cch_deviceptr *ptr;
  size_t unit;
  OK(cch_virtual_granularity(&unit, &c));
  CHECK_EQ(unit, UNIT);
  OK(cch_virtual_alloc(&ptr, &c, 1));
  CHECK_EQ(cch_deviceptr_size(ptr), UNIT);
  check_live(1, 1);
  cch_deviceptr_unref(ptr);
  check_live(0, 0);
  c.flags = CCH_VIRTUAL_MINIMUM;
  OK(cch_virtual_granularity(&unit, &c));
  CHECK(unit <= UNIT);
  OK(cch_virtual_alloc(&ptr, &c, unit + 1));
  CHECK_EQ(cch_deviceptr_size(ptr), 2 * unit);
  cch_deviceptr_unref(ptr);
}

/* Grown memory would not share the physical memory of the original, or dropping one of the two would free both. */
static void grown_memory_shares(void) {
  cch_virtual_config c = config();
  cch_deviceptr *first, *grown, *more;
  int moved = 7;
  for (int order = 0; order < 2; order++) {
    OK(cch_virtual_alloc(&first, &c, UNIT));
    OK(cch_virtual_grow(&grown, &moved, first, &c, 2 * UNIT + 1));
    CHECK_EQ(moved, 0);
    CHECK_EQ(cch_deviceptr_raw(grown), cch_deviceptr_raw(first));
    CHECK_EQ(cch_deviceptr_size(grown), 3 * UNIT);
    CHECK_EQ(cch_deviceptr_size(first), UNIT);
    check_live(2, 3);
    OK(cch_virtual_grow(&more, &moved, grown, &c, 4 * UNIT));
    check_live(3, 4);
    cch_deviceptr_unref(order ? more : first);
    cch_deviceptr_unref(grown);
    check_live(order ? 1 : 3, order ? 1 : 4);
    cch_deviceptr_unref(order ? first : more);
    check_live(0, 0);
  }
}

/* If the addresses after some memory are taken, the memory could not grow, or its contents would be lost. */
static void memory_moves_where_it_must(void) {
  cch_virtual_config c = config();
  cch_deviceptr *first, *behind, *grown, *more;
  int moved;
  OK(cch_virtual_alloc(&first, &c, UNIT));
  OK(cch_virtual_alloc(&behind, &c, UNIT));
  OK(cch_virtual_grow(&grown, &moved, first, &c, 2 * UNIT));
  CHECK_EQ(moved, 1);
  CHECK(cch_deviceptr_raw(grown) != cch_deviceptr_raw(first));
  check_live(3, 3);
  cch_deviceptr_unref(first); /* the physical memory of `first` is also mapped in `grown` */
  check_live(2, 3);
  OK(cch_virtual_grow(&more, &moved, grown, &c, 3 * UNIT)); /* in place, with a second reserved range */
  CHECK_EQ(moved, 0);
  cch_deviceptr_unref(grown);
  cch_deviceptr_unref(behind);
  check_live(2, 3);
  cch_deviceptr_unref(more);
  check_live(0, 0);
}

/* Invalid input would reach the driver, or an out-parameter would change. */
static void bad_input_is_refused(void) {
  cch_virtual_config c = config(), bad = c;
  cch_deviceptr *ptr, *other = NULL;
  cch_context *context;
  int moved = 7;
  OK(cch_context_primary(&context, 0));
  OK(cch_virtual_alloc(&ptr, &c, UNIT));
  sim.reset();
  FAILS(CCH_EINVAL, cch_virtual_alloc(&other, &c, 0));
  FAILS(CCH_EINVAL, cch_virtual_alloc(&other, NULL, 1));
  bad.flags = 4;
  FAILS(CCH_EINVAL, cch_virtual_alloc(&other, &bad, 1));
  bad = c;
  bad.reserved = 1;
  FAILS(CCH_EINVAL, cch_virtual_alloc(&other, &bad, 1));
  CHECK_EQ(sim.calls("cuMemGetAllocationGranularity"), 0);
  FAILS(CCH_EINVAL, cch_virtual_alloc(&other, &c, SIZE_MAX));
  bad = c;
  bad.accesses = NULL;
  bad.access_count = 1;
  FAILS(CCH_EINVAL, cch_virtual_alloc(&other, &bad, 1));
  CHECK_HAS(check_error()->message, "the array of accesses");
  FAILS(CCH_EINVAL, cch_virtual_grow(&other, &moved, ptr, &c, UNIT));
  FAILS(CCH_EINVAL, cch_virtual_grow(&other, &moved, NULL, &c, UNIT));
  CHECK_EQ(sim.calls("cuMemAddressReserve"), 0);
  CHECK(other == NULL && moved == 7);
  cch_deviceptr_unref(ptr);
  OK(cch_deviceptr_alloc_host(&ptr, context, UNIT, 0));
  FAILS(CCH_EINVAL, cch_virtual_grow(&other, &moved, ptr, &c, 2 * UNIT));
  cch_deviceptr_unref(ptr);
  cch_context_unref(context);
}

/* Memory would be unmapped while work uses it. */
static void end_waits_for_the_stream(void) {
  cch_virtual_config c = config();
  cch_context *context;
  cch_stream *stream;
  cch_deviceptr *ptr;
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_virtual_alloc(&ptr, &c, UNIT));
  OK(cch_deviceptr_set_stream(ptr, stream));
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 0);
  cch_deviceptr_unref(ptr);
  CHECK_EQ(sim.calls("cuStreamSynchronize"), 1);
  CHECK_EQ(sim.calls("cuMemUnmap"), 1);
  cch_stream_unref(stream);
  cch_context_unref(context);
}

/* Memory that is released in a host function would be unmapped there, or never. */
static void end_waits_for_a_safe_point(void) {
  cch_virtual_config c = config();
  cch_deviceptr *ptr, *grown;
  int moved;
  OK(cch_virtual_alloc(&ptr, &c, UNIT));
  OK(cch_virtual_grow(&grown, &moved, ptr, &c, 2 * UNIT));
  cch_deviceptr_unref(ptr);
  sim.forbid(1); /* as in a host function, but without cch_callback_enter() */
  cch_deviceptr_unref(grown);
  sim.forbid(0);
  check_live(2, 2);
  cch_reclaim_drain();
  check_live(0, 0);
}

/* An importer would map other memory than was exported, or shared memory would be freed too early, or never. */
static void memory_is_shared(void) {
  cch_virtual_config c = config(), host = config();
  cch_deviceptr *first, *grown, *import = NULL, *part;
  int moved, descriptors[2] = {-1, -1};
  size_t sizes[2] = {0};
  OK(cch_virtual_alloc(&first, &c, UNIT));
  OK(cch_virtual_grow(&grown, &moved, first, &c, 2 * UNIT));
  CHECK_EQ(cch_virtual_piece_count(first), 1);
  CHECK_EQ(cch_virtual_piece_count(grown), 2);
  OK(cch_deviceptr_part(&part, grown, 5, 5));
  CHECK_EQ(cch_virtual_piece_count(part), 2);
  FAILS(CCH_EINVAL, cch_virtual_export(descriptors, sizes, 1, grown));
  OK(cch_virtual_export(descriptors, sizes, 2, part));
  CHECK(sizes[0] == UNIT && sizes[1] == UNIT);
  cch_deviceptr_unref(part);
  cch_deviceptr_unref(first);
  cch_deviceptr_unref(grown);
  OK(cch_virtual_import(&import, &c, descriptors, sizes, 2));
  CHECK_EQ(cch_deviceptr_size(import), 2 * UNIT);
  CHECK(cch_deviceptr_is_imported(import));
  check_live(1, 0); /* this process has only the range that it imported */
  cch_deviceptr_unref(import);
  import = NULL;
  host.location_type = CCH_LOCATION_HOST;
  FAILS(CCH_EMISMATCH, cch_virtual_import(&import, &host, descriptors, sizes, 2));
  FAILS(CCH_EINVAL, cch_virtual_import(&import, &c, descriptors, sizes, 0));
  sizes[1] = 0;
  FAILS(CCH_EINVAL, cch_virtual_import(&import, &c, descriptors, sizes, 2));
  sizes[1] = SIZE_MAX;
  FAILS(CCH_EINVAL, cch_virtual_import(&import, &c, descriptors, sizes, 2));
  CHECK(import == NULL);
  close(descriptors[0]);
  close(descriptors[1]);
  sizes[1] = UNIT;
  FAILS(CUDA_ERROR_UNKNOWN, cch_virtual_import(&import, &c, descriptors, sizes, 2));
  check_live(0, 0);
}

int main(void) {
  check_open();
  RUN(size_is_rounded_up);
  RUN(grown_memory_shares);
  RUN(memory_moves_where_it_must);
  RUN(bad_input_is_refused);
  RUN(end_waits_for_the_stream);
  RUN(end_waits_for_a_safe_point);
  RUN(memory_is_shared);
  return 0;
}
