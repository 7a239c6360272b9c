/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/current.h"

#include <stdlib.h>

cch_status cch_managed_advise(cch_deviceptr *ptr, int advice, int location_type, int location_id) {
  CCH__REQUIRE_USABLE(ptr);
  CUmemLocation location = {.type = (CUmemLocationType)location_type, .id = location_id};
  int status = CCH__RELAXED(CCH__CALL(cuMemAdvise, (ptr->ptr, ptr->size, (CUmem_advise)advice, location)));
  return status;
}

cch_status cch_managed_attribute(int *out, size_t count, cch_deviceptr *ptr, int attribute) {
  CCH__REQUIRE_USABLE(out, ptr);
  if (count == 0)
    return cch__fail(CCH_EINVAL, __func__, "there is no room for the attribute: the count is 0");
  int *found = calloc(count, sizeof *found);
  if (found == NULL)
    return cch__fail_nomem(__func__);
  int status = CCH__RELAXED(CCH__CALL(
      cuMemRangeGetAttribute, (found, count * sizeof *found, (CUmem_range_attribute)attribute, ptr->ptr, ptr->size)));
  for (size_t i = 0; i < count && status == 0; i++)
    out[i] = found[i];
  free(found);
  return status;
}

/* The arrays of one batch, in one block of memory, in the driver's form. */
typedef struct batch {
  size_t count; /* the number of allocations that are not empty */
  CUdeviceptr *address;
  size_t *sizes, *places; /* places[i]: the index of the allocation that location i is for, as the driver requires */
  CUmemLocation *locations;
} batch;

/* Reads the arguments of a call. `locations` may be NULL. The caller must free `address`. */
static int batch_open(batch *out, cch_deviceptr *const *ptrs, const cch_location *locations, size_t count,
                      const char *operation) {
  for (size_t i = 0; i < count; i++) {
    CCH__RETURN_FAILURE(cch__fail_at_place(CCH__USABLE(ptrs[i], "the argument ptrs[i]", operation), i));
  }
  enum { EACH = sizeof(CUdeviceptr) + 2 * sizeof(size_t) + sizeof(CUmemLocation) };
  *out = (batch){.address = calloc(count + 1, EACH)};
  if (out->address == NULL)
    return cch__fail_nomem(operation);
  out->sizes = (size_t *)(out->address + count);
  out->places = out->sizes + count;
  out->locations = (CUmemLocation *)(out->places + count);
  for (size_t i = 0; i < count; i++) {
    if (ptrs[i]->size == 0)
      continue;
    size_t place = out->count++;
    out->address[place] = ptrs[i]->ptr;
    out->sizes[place] = ptrs[i]->size;
    out->places[place] = place;
    if (locations != NULL)
      out->locations[place] = (CUmemLocation){.type = (CUmemLocationType)locations[i].type, .id = locations[i].id};
  }
  return 0;
}

static int prefetch(const batch *all, CUstream stream) {
  int status = 0;
  if (all->count > 1 && cch__driver.cuMemPrefetchBatchAsync != NULL && stream != CU_STREAM_LEGACY)
    return CCH__CALL(cuMemPrefetchBatchAsync,
                     (all->address, all->sizes, all->count, all->locations, all->places, all->count, 0, stream));
  for (size_t i = 0; i < all->count && status == 0; i++)
    status = CCH__CALL(cuMemPrefetchAsync, (all->address[i], all->sizes[i], all->locations[i], 0, stream));
  return status;
}

static int discard(const batch *all, bool moves, CUstream stream) {
  if (all->count == 0)
    return 0;
  if (!moves)
    return CCH__CALL(cuMemDiscardBatchAsync, (all->address, all->sizes, all->count, 0, stream));
  return CCH__CALL(cuMemDiscardAndPrefetchBatchAsync,
                   (all->address, all->sizes, all->count, all->locations, all->places, all->count, 0, stream));
}

cch_status cch_managed_move(cch_deviceptr *const *ptrs, const cch_location *locations, size_t count, bool discards,
                            cch_stream *stream) {
  CCH__REQUIRE_USABLE(stream);
  CCH__REQUIRE_ARRAY(ptrs, count);
  if (!discards)
    CCH__REQUIRE_ARRAY(locations, count);
  else if (stream->raw == CU_STREAM_LEGACY)
    return cch__fail(CCH_EINVAL, __func__, "the driver does not take the legacy default stream for it");
  batch all;
  CCH__RETURN_FAILURE(batch_open(&all, ptrs, locations, count, __func__));
  int status = CCH__IN_CONTEXT(stream->context,
                               discards ? discard(&all, locations != NULL, stream->raw) : prefetch(&all, stream->raw));
  free(all.address);
  return status;
}
