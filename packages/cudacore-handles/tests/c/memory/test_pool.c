/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools. */
#include "check.h"

static cch_pool_config config(int device) {
  return (cch_pool_config){.size = sizeof(cch_pool_config), .location_type = 1, .location_id = device};
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
  RUN(config_says_its_size);
  RUN(foreign_pool_keeps_its_owner);
  return 0;
}
