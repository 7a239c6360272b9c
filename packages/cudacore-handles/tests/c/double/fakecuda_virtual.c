/* SPDX-License-Identifier: Apache-2.0 */
/* The double's addresses and physical memory: books alone, nothing can be read or written there. */
#include "double/fakecuda_internal.h"

#define MINIMUM ((size_t)1 << 16)
#define RECOMMENDED ((size_t)1 << 21)
#define FIRST_ADDRESS 0x600000000000ull

/* The live object of a kind that an address lies in, or NULL. Both begin with a base and a size. */
static object *at(fake_kind kind, CUdeviceptr address) {
  for (chunk *c = state.chunks[kind]; c; c = c->next)
    for (int i = 0; i < CHUNK; i++) {
      object *o = &c->objects[i];
      if (o->live && address - o->u.addresses.base < o->u.addresses.size)
        return o;
    }
  return NULL;
}

/* Whether nothing is reserved from an address on. */
static bool is_free(CUdeviceptr base, size_t size) {
  for (chunk *c = state.chunks[FAKE_ADDRESSES]; c; c = c->next)
    for (int i = 0; i < CHUNK; i++) {
      const object *o = &c->objects[i];
      if (o->live && base < o->u.addresses.base + o->u.addresses.size && o->u.addresses.base < base + size)
        return false;
    }
  return true;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option) {
  ENTER(cuMemGetAllocationGranularity);
  if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
    TRY(check_device(prop->location.id));
  *out = option == CU_MEM_ALLOC_GRANULARITY_MINIMUM ? MINIMUM : RECOMMENDED;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                                     unsigned long long flags) {
  ENTER(cuMemAddressReserve);
  if (size == 0 || size % MINIMUM || (alignment & (alignment - 1)) || flags)
    return leave(CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base = hint ? hint : FIRST_ADDRESS;
  while (!is_free(base, size))
    base = hint ? (hint = 0, FIRST_ADDRESS) : base + MINIMUM;
  object *addresses = new_object(FAKE_ADDRESSES);
  addresses->u.addresses.base = base;
  addresses->u.addresses.size = size;
  *out = base;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr base, size_t size) {
  ENTER(cuMemAddressFree);
  object *addresses = at(FAKE_ADDRESSES, base);
  if (!addresses || addresses->u.addresses.base != base || addresses->u.addresses.size != size) {
    violate("0x%llx is not reserved with %zu bytes", base, size);
    return leave(CUDA_ERROR_INVALID_VALUE);
  }
  for (CUdeviceptr address = base; address < base + size; address += MINIMUM)
    if (at(FAKE_MAPPING, address)) {
      violate("addresses that are given back are still mapped");
      return leave(CUDA_ERROR_INVALID_VALUE);
    }
  end_object(addresses);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
                             unsigned long long flags) {
  ENTER(cuMemCreate);
  if (size == 0 || size % MINIMUM || flags)
    return leave(CUDA_ERROR_INVALID_VALUE);
  if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
    TRY(check_device(prop->location.id));
  object *physical = new_object(FAKE_PHYSICAL);
  physical->u.physical.size = size;
  physical->u.physical.handles = 1;
  *out = (CUmemGenericAllocationHandle)(uintptr_t)physical;
  return leave(CUDA_SUCCESS);
}

static void end_unused(object *physical) {
  if (!physical->u.physical.handles && !physical->u.physical.mappings)
    end_object(physical);
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER(cuMemRelease);
  object *physical;
  TRY(find_object(&physical, FAKE_PHYSICAL, (const void *)(uintptr_t)handle));
  if (!physical->u.physical.handles) {
    violate("a handle is released twice");
    return leave(CUDA_ERROR_INVALID_VALUE);
  }
  physical->u.physical.handles--;
  end_unused(physical);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemMap(CUdeviceptr base, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  ENTER(cuMemMap);
  object *physical, *addresses = at(FAKE_ADDRESSES, base);
  TRY(find_object(&physical, FAKE_PHYSICAL, (const void *)(uintptr_t)handle));
  if (!addresses || base + size > addresses->u.addresses.base + addresses->u.addresses.size || offset || flags ||
      size != physical->u.physical.size || at(FAKE_MAPPING, base))
    return leave(CUDA_ERROR_INVALID_VALUE);
  object *mapping = new_object(FAKE_MAPPING);
  mapping->u.addresses.base = base;
  mapping->u.addresses.size = size;
  mapping->u.addresses.physical = physical;
  physical->u.physical.mappings++;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr base, size_t size) {
  ENTER(cuMemUnmap);
  TRY(check_captures());
  for (CUdeviceptr address = base; address < base + size;) {
    object *mapping = at(FAKE_MAPPING, address);
    if (!mapping || mapping->u.addresses.base != address) {
      violate("0x%llx is not mapped", address);
      return leave(CUDA_ERROR_INVALID_VALUE);
    }
    address += mapping->u.addresses.size;
    object *physical = mapping->u.addresses.physical;
    physical->u.physical.mappings--;
    end_unused(physical);
    end_object(mapping);
  }
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr base, size_t size, const CUmemAccessDesc *accesses, size_t count) {
  ENTER(cuMemSetAccess);
  for (size_t i = 0; i < count; i++)
    if (accesses[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      TRY(check_device(accesses[i].location.id));
  if (!at(FAKE_MAPPING, base) || !at(FAKE_MAPPING, base + size - 1))
    return leave(CUDA_ERROR_INVALID_VALUE);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
  ENTER(cuMemRetainAllocationHandle);
  const object *mapping = at(FAKE_MAPPING, (CUdeviceptr)(uintptr_t)address);
  if (!mapping)
    return leave(CUDA_ERROR_INVALID_VALUE);
  mapping->u.addresses.physical->u.physical.handles++;
  *out = (CUmemGenericAllocationHandle)(uintptr_t)mapping->u.addresses.physical;
  return leave(CUDA_SUCCESS);
}
