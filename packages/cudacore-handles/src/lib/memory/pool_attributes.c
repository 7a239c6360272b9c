/* SPDX-License-Identifier: Apache-2.0 */
/* Asked in relaxed capture mode: any other forbids it while a stream captures. */
#include "driver/current.h"

#include <stdlib.h>

/* The reuse policies are ints, and so is much that came later. */
static bool is_64_bits(int attribute) {
  switch ((CUmemPool_attribute)attribute) {
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    return true;
  default:
    return false;
  }
}

typedef union value {
  cuuint64_t wide;
  int narrow;
} value;

int cch_pool_attribute(uint64_t *out, cch_pool *pool, int attribute) {
  CCH__REQUIRE_USABLE(out, pool);
  value found = {0};
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = CCH__CALL(cuMemPoolGetAttribute, (pool->raw, (CUmemPool_attribute)attribute, &found));
  cch__relaxed_leave(mode);
  if (status == 0)
    *out = is_64_bits(attribute) ? found.wide : (uint64_t)found.narrow;
  return status;
}

int cch_pool_set_attribute(cch_pool *pool, int attribute, uint64_t number) {
  CCH__REQUIRE_USABLE(pool);
  value wanted = {0};
  if (is_64_bits(attribute))
    wanted.wide = number;
  else
    wanted.narrow = (int)number;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = CCH__CALL(cuMemPoolSetAttribute, (pool->raw, (CUmemPool_attribute)attribute, &wanted));
  cch__relaxed_leave(mode);
  return status;
}

int cch_pool_access(int *out, cch_pool *pool, int device) {
  CCH__REQUIRE_USABLE(out, pool);
  CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = CCH__CALL(cuMemPoolGetAccess, (&flags, pool->raw, &location));
  cch__relaxed_leave(mode);
  if (status == 0)
    *out = (int)flags;
  return status;
}

int cch_pool_set_access(cch_pool *pool, const int *devices, const int *access, size_t count) {
  CCH__REQUIRE_USABLE(pool);
  CCH__REQUIRE_ARRAY(devices, count);
  CCH__REQUIRE_ARRAY(access, count);
  if (count == 0)
    return 0;
  CUmemAccessDesc *descriptors = calloc(count, sizeof *descriptors);
  if (descriptors == NULL)
    return cch__fail_nomem(__func__);
  for (size_t i = 0; i < count; i++) {
    descriptors[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    descriptors[i].location.id = devices[i];
    descriptors[i].flags = (CUmemAccess_flags)access[i];
  }
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = CCH__CALL(cuMemPoolSetAccess, (pool->raw, descriptors, count));
  cch__relaxed_leave(mode);
  free(descriptors);
  return status;
}
