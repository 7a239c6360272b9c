/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory: physical memory that is mapped to reserved addresses. An allocation is a sequence of ranges. An
 * allocation that grew in place shares the ranges of the old allocation. An allocation that moved maps the same
 * physical memory a second time.
 */
#include "memory/deviceptr.h"

#include "driver/current.h"
#include "base/reclaim.h"

#include <stdlib.h>
#include <string.h>

static CUmemAllocationProp properties(const cch_virtual_config *config) {
  CUmemAllocationProp prop;
  memset(&prop, 0, sizeof prop);
  prop.type = config->alloc_type != 0 ? (CUmemAllocationType)config->alloc_type : CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = (CUmemAllocationHandleType)config->handle_types;
  prop.location.type = (CUmemLocationType)config->location_type;
  prop.location.id = config->location_id;
  prop.allocFlags.gpuDirectRDMACapable = (config->flags & CCH_VIRTUAL_RDMA) != 0;
  return prop;
}

static int granularity(size_t *out, const cch_virtual_config *config) {
  CUmemAllocationProp prop = properties(config);
  size_t found = 0;
  int status = CCH__CALL(cuMemGetAllocationGranularity,
                         (&found, &prop,
                          (config->flags & CCH_VIRTUAL_MINIMUM) != 0 ? CU_MEM_ALLOC_GRANULARITY_MINIMUM
                                                                     : CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  if (status == 0)
    *out = found;
  return status;
}

cch_status cch_virtual_granularity(size_t *out, const cch_virtual_config *config) {
  CCH__REQUIRE_USABLE(out, config);
  return granularity(out, config);
}

/* Rounds a size up to the next multiple of the granularity. */
static int round_up(size_t *out, const cch_virtual_config *config, size_t size, const char *operation) {
  size_t unit = 0;
  if (size == 0)
    return cch__fail(CCH_EINVAL, operation, "the size is 0");
  CCH__RETURN_FAILURE(granularity(&unit, config));
  if (unit == 0 || size > SIZE_MAX - unit)
    return cch__fail(CCH_EINVAL, operation, "%zu bytes are more than any multiple of the granularity, %zu bytes", size,
                     unit);
  *out = (size + unit - 1) / unit * unit;
  return 0;
}

/* ---- ranges ---- */

/* Reserves a range of addresses, which has no memory yet, with room for `parts` parts. */
static int reserve(cch__range **out, size_t size, size_t parts, const cch_virtual_config *config, CUdeviceptr hint,
                   const char *operation) {
  cch__range *range = calloc(1, sizeof *range + parts * sizeof *range->parts);
  if (range == NULL)
    return cch__fail_nomem(operation);
  int status = CCH__CALL(cuMemAddressReserve, (&range->address, size, (size_t)config->address_alignment, hint, 0));
  if (status != 0) {
    free(range);
    return status;
  }
  atomic_init(&range->references, 1);
  range->size = size;
  *out = range;
  return 0;
}

static size_t mapped(const cch__range *range) {
  size_t bytes = 0;
  for (size_t i = 0; i < range->count; i++)
    bytes += range->parts[i];
  return bytes;
}

static void release(CUmemGenericAllocationHandle handle) { CCH__ASIDE(cch__report(CCH__CALL(cuMemRelease, (handle)))); }

/* Maps physical memory at the end of a range. The mapping keeps the memory, so the handle is released. */
static int map(cch__range *range, CUmemGenericAllocationHandle handle, size_t size) {
  int status = CCH__CALL(cuMemMap, (range->address + mapped(range), size, 0, handle, 0));
  release(handle);
  if (status == 0)
    range->parts[range->count++] = size;
  return status;
}

static int add_new(cch__range *range, const cch_virtual_config *config, size_t size) {
  CUmemAllocationProp prop = properties(config);
  CUmemGenericAllocationHandle handle;
  int status = CCH__CALL(cuMemCreate, (&handle, size, &prop, 0));
  return status != 0 ? status : map(range, handle, size);
}

/* Maps the memory of `other` into `range`, too, after the memory that `range` has. */
static int add_shared(cch__range *range, const cch__range *other) {
  CUdeviceptr address = other->address;
  int status = 0;
  for (size_t i = 0; i < other->count && status == 0; i++) {
    CUmemGenericAllocationHandle handle;
    status = CCH__CALL(cuMemRetainAllocationHandle, (&handle, (void *)(uintptr_t)address));
    if (status == 0)
      status = map(range, handle, other->parts[i]);
    address += other->parts[i];
  }
  return status;
}

static int allow(CUdeviceptr address, size_t size, const cch_virtual_config *config, const char *operation) {
  if (config->access_count == 0)
    return 0;
  CUmemAccessDesc *accesses = calloc(config->access_count, sizeof *accesses);
  if (accesses == NULL)
    return cch__fail_nomem(operation);
  for (size_t i = 0; i < config->access_count; i++) {
    accesses[i].location.type = (CUmemLocationType)config->accesses[i].location_type;
    accesses[i].location.id = config->accesses[i].location_id;
    accesses[i].flags = (CUmemAccess_flags)config->accesses[i].access;
  }
  int status = CCH__CALL(cuMemSetAccess, (address, size, accesses, config->access_count));
  free(accesses);
  return status;
}

/* Releases a range; returns the driver's result. If the driver refuses, the range is unchanged. */
static int range_unref(cch__range *range) {
  if (atomic_fetch_sub_explicit(&range->references, 1, memory_order_acq_rel) != 1)
    return 0;
  int status = 0;
  if (range->count > 0) {
    status = CCH__CALL(cuMemUnmap, (range->address, mapped(range)));
    if (cch__is_retryable(status)) {
      atomic_store(&range->references, 1); /* no other thread has a reference to the range */
      return status;
    }
  }
  /* Addresses that are still mapped are not released, because the driver would reuse them. */
  if (status == 0)
    status = CCH__CALL(cuMemAddressFree, (range->address, range->size));
  free(range);
  return status;
}

int cch__ranges_destroy(cch_deviceptr *ptr) {
  int first = 0;
  while (ptr->range_count > 0) {
    int status = range_unref(ptr->ranges[ptr->range_count - 1]);
    if (cch__is_retryable(status))
      return status;
    ptr->range_count--;
    if (first == 0)
      first = status;
  }
  return first;
}

/* ---- access ---- */

/* Attributes of addresses do not show whether memory is virtual, but only virtual memory has an allocation handle. */
int cch__is_virtual(bool *out, CUdeviceptr ptr) {
  CUmemGenericAllocationHandle handle;
  *out = false;
  if (cch__driver.cuMemRetainAllocationHandle == NULL)
    return 0;
  CUresult result = cch__driver.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)ptr);
  if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_PERMITTED || result == CUDA_ERROR_NOT_SUPPORTED)
    return 0;
  if (result != CUDA_SUCCESS)
    return cch__fail_driver((int)result, "cuMemRetainAllocationHandle");
  release(handle);
  *out = true;
  return 0;
}

int cch__virtual_is_open(bool *out, int device, CUdeviceptr ptr) {
  CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  unsigned long long flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  int status = CCH__CALL(cuMemGetAccess, (&flags, &location, ptr));
  *out = flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return status;
}

/*
 * Retains the context that virtual memory can need later, for copies and for nodes of graphs: the primary context of
 * the first device with access or, if no device has access, of the device whose memory it is.
 */
static int retain_context(cch_context **out, const cch_virtual_config *config) {
  int device = config->location_type == CCH_LOCATION_DEVICE ? config->location_id : -1;
  for (size_t i = 0; i < config->access_count; i++)
    if (config->accesses[i].location_type == CCH_LOCATION_DEVICE) {
      device = config->accesses[i].location_id;
      break;
    }
  return device < 0 ? 0 : cch_context_primary(out, device);
}

/* ---- allocations ---- */

static int new_allocation(cch_deviceptr **out, const cch_virtual_config *config, size_t size, size_t ranges,
                          const char *operation) {
  cch_deviceptr *ptr = cch__box_new(CCH_KIND_DEVICEPTR, sizeof *ptr, operation);
  if (ptr == NULL)
    return CCH_ENOMEM;
  ptr->ranges = calloc(ranges, sizeof(*ptr->ranges));
  int status = ptr->ranges != NULL ? retain_context(&ptr->context, config) : cch__fail_nomem(operation);
  if (status != 0) {
    free(ptr->ranges);
    cch__box_free(ptr);
    return status;
  }
  ptr->origin = CCH__FROM_RANGES;
  ptr->size = size;
  ptr->on_host = config->location_type != CCH_LOCATION_DEVICE;
  *out = ptr;
  return 0;
}

static void append(cch_deviceptr *ptr, cch__range *range) {
  if (ptr->range_count == 0)
    ptr->ptr = range->address;
  ptr->ranges[ptr->range_count++] = range;
}

/* Reserves addresses at the end of an allocation. */
static int append_new(cch_deviceptr *ptr, size_t size, size_t parts, const cch_virtual_config *config, CUdeviceptr hint,
                      const char *operation) {
  cch__range *range;
  CCH__RETURN_FAILURE(reserve(&range, size, parts, config, hint, operation));
  append(ptr, range);
  return 0;
}

/*
 * Stores an allocation whose memory was mapped in *out or, if that failed, undoes its creation. If the driver refuses
 * that, the failure is reported.
 */
static int complete(cch_deviceptr **out, cch_deviceptr *ptr, const cch_virtual_config *config, int status,
                    const char *operation) {
  if (status == 0)
    status = allow(ptr->ptr, ptr->size, config, operation);
  if (status == 0) {
    *out = ptr;
    return 0;
  }
  cch__destructor_enter();
  cch__report(cch__ranges_destroy(ptr));
  cch_context_unref(ptr->context);
  cch__destructor_leave();
  free(ptr->ranges);
  cch__box_free(ptr);
  return status;
}

static int make(cch_deviceptr **out, const cch_virtual_config *config, size_t size, const char *operation) {
  cch_deviceptr *ptr;
  CCH__RETURN_FAILURE(round_up(&size, config, size, operation));
  CCH__RETURN_FAILURE(new_allocation(&ptr, config, size, 1, operation));
  int status = append_new(ptr, size, 1, config, (CUdeviceptr)config->address_hint, operation);
  if (status == 0)
    status = add_new(ptr->ranges[0], config, size);
  return complete(out, ptr, config, status, operation);
}

cch_status cch_virtual_alloc(cch_deviceptr **out, const cch_virtual_config *config, size_t size) {
  CCH__REQUIRE_USABLE(out, config);
  cch__poll();
  return CCH__RELAXED(make(out, config, size, __func__));
}

/*
 * Grows an allocation at its end. *fits is false if the driver did not reserve the addresses directly after the old
 * ones.
 */
static int grow_in_place(cch_deviceptr *ptr, bool *fits, const cch_deviceptr *old, const cch_virtual_config *config,
                         const char *operation) {
  CUdeviceptr end = old->ptr + old->size;
  size_t size = ptr->size - old->size;
  cch__range *range;
  CCH__RETURN_FAILURE(reserve(&range, size, 1, config, end, operation));
  *fits = range->address == end;
  if (!*fits)
    return range_unref(range);
  int status = add_new(range, config, size);
  if (status != 0) {
    CCH__ASIDE(cch__report(range_unref(range)));
    return status;
  }
  for (size_t i = 0; i < old->range_count; i++) {
    atomic_fetch_add_explicit(&old->ranges[i]->references, 1, memory_order_relaxed);
    append(ptr, old->ranges[i]);
  }
  append(ptr, range);
  return 0;
}

static int grow_elsewhere(cch_deviceptr *ptr, const cch_deviceptr *old, const cch_virtual_config *config,
                          const char *operation) {
  size_t parts = 1;
  for (size_t i = 0; i < old->range_count; i++)
    parts += old->ranges[i]->count;
  CCH__RETURN_FAILURE(append_new(ptr, ptr->size, parts, config, 0, operation));
  for (size_t i = 0; i < old->range_count; i++)
    CCH__RETURN_FAILURE(add_shared(ptr->ranges[0], old->ranges[i]));
  return add_new(ptr->ranges[0], config, ptr->size - old->size);
}

static int grow(cch_deviceptr **out, int *moved, const cch_deviceptr *old, const cch_virtual_config *config,
                size_t size, const char *operation) {
  bool in_place = false;
  cch_deviceptr *ptr;
  CCH__RETURN_FAILURE(round_up(&size, config, size, operation));
  if (size <= old->size)
    return cch__fail(CCH_EINVAL, operation, "%zu bytes are not more than the current %zu", size, old->size);
  CCH__RETURN_FAILURE(new_allocation(&ptr, config, size, old->range_count + 1, operation));
  int status = grow_in_place(ptr, &in_place, old, config, operation);
  if (status == 0 && !in_place)
    status = grow_elsewhere(ptr, old, config, operation);
  status = complete(out, ptr, config, status, operation);
  if (status == 0)
    *moved = !in_place;
  return status;
}

cch_status cch_virtual_grow(cch_deviceptr **out, int *moved, cch_deviceptr *ptr, const cch_virtual_config *config,
                            size_t size) {
  CCH__REQUIRE_USABLE(out, moved, ptr, config);
  if (ptr->origin != CCH__FROM_RANGES)
    return cch__fail(CCH_EINVAL, __func__, "the allocation is not one of cch_virtual_alloc()");
  cch__poll();
  return CCH__RELAXED(grow(out, moved, ptr, config, size, __func__));
}

/* ---- sharing with other processes ---- */

size_t cch_virtual_piece_count(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(0, ptr);
  const cch_deviceptr *whole = cch__whole(ptr);
  size_t count = 0;
  for (size_t i = 0; i < whole->range_count; i++)
    count += whole->ranges[i]->count;
  return count;
}

/* Exports the piece of memory that is mapped at an address. */
static int export_piece(int *out, CUdeviceptr address) {
  CUmemGenericAllocationHandle handle;
  int descriptor = -1;
  CCH__RETURN_FAILURE(CCH__CALL(cuMemRetainAllocationHandle, (&handle, (void *)(uintptr_t)address)));
  int status =
      CCH__CALL(cuMemExportToShareableHandle, (&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  release(handle);
  if (status == 0)
    *out = descriptor;
  return status;
}

static int export_pieces(int *descriptors, size_t *sizes, const cch_deviceptr *whole) {
  size_t done = 0;
  int status = 0;
  for (size_t i = 0; i < whole->range_count && status == 0; i++) {
    const cch__range *range = whole->ranges[i];
    CUdeviceptr address = range->address;
    for (size_t k = 0; k < range->count && status == 0; k++) {
      status = export_piece(&descriptors[done], address);
      if (status == 0)
        sizes[done++] = range->parts[k];
      address += range->parts[k];
    }
  }
  return status;
}

cch_status cch_virtual_export(int *descriptors, size_t *sizes, size_t count, cch_deviceptr *ptr) {
  CCH__REQUIRE_USABLE(ptr);
  CCH__REQUIRE_ARRAY(descriptors, count);
  CCH__REQUIRE_ARRAY(sizes, count);
  size_t pieces = cch_virtual_piece_count(ptr);
  if (pieces == 0)
    return cch__fail(CCH_EINVAL, __func__, "the allocation is not one of cch_virtual_alloc()");
  if (count != pieces)
    return cch__fail(CCH_EINVAL, __func__, "count is %zu, and the allocation has %zu pieces", count, pieces);
  cch__poll();
  return CCH__RELAXED(export_pieces(descriptors, sizes, cch__whole(ptr)));
}

static int import_piece(cch__range *range, const cch_virtual_config *config, int descriptor, size_t size,
                        const char *operation) {
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp prop;
  CCH__RETURN_FAILURE(CCH__CALL(cuMemImportFromShareableHandle,
                                (&handle, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
  int status = CCH__CALL(cuMemGetAllocationPropertiesFromHandle, (&prop, handle));
  if (status == 0 && ((int)prop.location.type != config->location_type ||
                      (prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id != config->location_id)))
    status =
        cch__fail(CCH_EMISMATCH, operation, "the memory is at location %d of type %d, not at location %d of type %d",
                  prop.location.id, (int)prop.location.type, config->location_id, config->location_type);
  if (status == 0)
    return map(range, handle, size);
  release(handle);
  return status;
}

static int import_pieces(cch_deviceptr **out, const cch_virtual_config *config, const int *descriptors,
                         const size_t *sizes, size_t count, size_t total, const char *operation) {
  cch_deviceptr *ptr;
  CCH__RETURN_FAILURE(new_allocation(&ptr, config, total, 1, operation));
  int status = append_new(ptr, total, count, config, (CUdeviceptr)config->address_hint, operation);
  for (size_t i = 0; i < count && status == 0; i++)
    status = import_piece(ptr->ranges[0], config, descriptors[i], sizes[i], operation);
  ptr->imported = true;
  return complete(out, ptr, config, status, operation);
}

cch_status cch_virtual_import(cch_deviceptr **out, const cch_virtual_config *config, const int *descriptors,
                              const size_t *sizes, size_t count) {
  CCH__REQUIRE_USABLE(out, config);
  CCH__REQUIRE_ARRAY(descriptors, count);
  CCH__REQUIRE_ARRAY(sizes, count);
  size_t total = 0;
  for (size_t i = 0; i < count; i++)
    if (sizes[i] == 0 || __builtin_add_overflow(total, sizes[i], &total))
      return cch__fail_at_place(cch__fail(CCH_EINVAL, __func__, "the size is 0, or the sizes are too large"), i);
  if (count == 0)
    return cch__fail(CCH_EINVAL, __func__, "there are no descriptors");
  cch__poll();
  return CCH__RELAXED(import_pieces(out, config, descriptors, sizes, count, total, __func__));
}
