/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools. */
#include "check.h"

static cch_pool_config config(int device) {
  return (cch_pool_config){.size = sizeof(cch_pool_config), .location_type = 1, .location_id = device};
}

/* A pool would be of another device than requested, or outlive its box. */
static void pool_is_as_asked(void) {
  cch_pool *pool, *host;
  cch_pool_config on_device = config(1), on_host = {.size = sizeof on_host, .location_type = CCH_LOCATION_HOST};
  OK(cch_pool_create(&pool, &on_device));
  OK(cch_pool_create(&host, &on_host));
  CHECK_EQ(cch_pool_device(pool), 1);
  CHECK_EQ(cch_pool_device(host), -1);
  int type, id;
  cch_pool_location(&type, &id, pool);
  CHECK(type == CCH_LOCATION_DEVICE && id == 1);
  CHECK_EQ(cch_pool_alloc_type(pool), CCH_ALLOCATION_PINNED);
  cch_pool_location(&type, &id, host);
  CHECK(type == CCH_LOCATION_HOST && id == 0);
  CHECK_EQ(sim.live(CUDASIM_POOL), 2);
  cch_pool_unref(pool);
  on_device.alloc_type = CCH_ALLOCATION_MANAGED;
  OK(cch_pool_create(&pool, &on_device));
  CHECK_EQ(cch_pool_alloc_type(pool), CCH_ALLOCATION_MANAGED);
  cch_pool_unref(pool);
  cch_pool_unref(host);
}

/* A config of an older or newer header would be read beyond its end. */
static void config_says_its_size(void) {
  cch_pool *pool = NULL;
  cch_pool_config small = config(0);
  small.size = offsetof(cch_pool_config, alloc_type) - 1; /* smaller than in any version */
  FAILS(CCH_EINVAL, cch_pool_create(&pool, &small));
  small.size = 0;
  FAILS(CCH_EINVAL, cch_pool_create(&pool, &small));
  FAILS(CCH_EINVAL, cch_pool_create(&pool, NULL));
  struct {
    cch_pool_config now;
    uint64_t later;
  } larger = {config(0), 1};
  larger.now.size = sizeof larger;
  FAILS(CCH_EINVAL, cch_pool_create(&pool, &larger.now)); /* the config has a field that this library does not have */
  CHECK(pool == NULL);
  larger.later = 0;
  larger.now.reserved = 1;
  FAILS(CCH_EINVAL, cch_pool_create(&pool, &larger.now));
  larger.now.reserved = 0;
  larger.now.reserved_2 = 1;
  FAILS(CCH_EINVAL, cch_pool_create(&pool, &larger.now));
  larger.now.reserved_2 = 0;
  OK(cch_pool_create(&pool, &larger.now));
  cch_pool_unref(pool);
}

/* Creating a pool at an invalid location would be reported as success. */
static void bad_location_is_refused(void) {
  cch_pool *pool = NULL;
  cch_pool_config bad = config(7);
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_pool_create(&pool, &bad));
  bad = config(0);
  bad.location_type = 99;
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_pool_create(&pool, &bad));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_pool_current(&pool, 7));
  CHECK(pool == NULL);
}

/* A device's own pool would be destroyed with the box that borrows it. */
static void devices_pool_is_borrowed(void) {
  cch_pool *pool, *again;
  OK(cch_pool_current(&pool, 1));
  OK(cch_pool_current(&again, 1));
  CHECK_PTR(cch_pool_raw(pool), cch_pool_raw(again));
  CHECK_EQ(cch_pool_device(pool), 1);
  cch_pool_unref(pool);
  cch_pool_unref(again);
  CHECK_EQ(sim.calls("cuMemPoolDestroy"), 0);
}

/* A pool would be destroyed before its allocations. */
static void allocation_keeps_the_pool(void) {
  cch_pool_config on_device = config(0);
  cch_context *context;
  cch_stream *stream;
  cch_pool *pool;
  cch_deviceptr *ptr;
  OK(cch_context_primary(&context, 0));
  OK(cch_stream_create(&stream, context, 0, 0));
  OK(cch_pool_create(&pool, &on_device));
  OK(cch_deviceptr_alloc_async(&ptr, pool, 1000, stream));
  cch_pool_unref(pool);
  cch_stream_unref(stream);
  cch_context_unref(context);
  CHECK_EQ(sim.live(CUDASIM_POOL), 1);
  CHECK(cch_deviceptr_pool(ptr) == pool);
  cch_deviceptr_unref(ptr);
}

/* A foreign pool would be destroyed by us, or lose its owner. */
static void foreign_pool_keeps_its_owner(void) {
  int one = 1;
  CUmemoryPool raw;
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
  cch_pool *pool;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  OK(cch_driver_init());
  CHECK_EQ(driver.cuMemPoolCreate(&raw, &props), 0);
  OK(cch_pool_wrap(&pool, raw, 0, &one, check_release));
  CHECK_PTR(cch_pool_raw(pool), raw);
  CHECK_EQ(cch_pool_device(pool), 0);
  CHECK_AFTER(cch_pool_unref(pool), check_released, 1);
  CHECK_EQ(driver.cuMemPoolDestroy(raw), 0);
  FAILS(CCH_EINVAL, cch_pool_wrap(&pool, NULL, 0, NULL, NULL));
}

int main(void) {
  check_open();
  RUN(pool_is_as_asked);
  RUN(config_says_its_size);
  RUN(bad_location_is_refused);
  RUN(devices_pool_is_borrowed);
  RUN(allocation_keeps_the_pool);
  RUN(foreign_pool_keeps_its_owner);
  return 0;
}
