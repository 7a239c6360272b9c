/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemAlloc, cuMemFree, host memory, managed memory. */
#include "../control/report.h"
#include "ipc.h"

#include <cerrno>
#include <cstdint>
#include <sys/mman.h>

namespace sim {
namespace {

constexpr uint64_t page = 4096;

uint64_t whole_pages(uint64_t size) { return (size + page - 1) / page * page; }

/* Memory that host and devices share, at one address. */
CUresult new_host_memory(const ContextPtr &context, Allocation::Kind kind, size_t size, unsigned flags,
                         AllocationPtr &out) {
  std::byte *memory = map_host_memory(size);
  if (memory == nullptr)
    return CUDA_ERROR_OUT_OF_MEMORY;
  out = std::make_shared<Allocation>();
  out->kind = kind;
  out->base = value_of(memory);
  out->size = size;
  out->host = memory;
  out->device = context->device;
  out->context = context;
  out->flags = flags;
  state().memory.add(out);
  return CUDA_SUCCESS;
}

const char *caller() { return Call::active() ? symbol_of(Call::current().entry) : "cudasim_reset_device"; }

/* Frees of memory wait for the work of its context, as the driver's do. */
CUresult free_after_work(const AllocationPtr &allocation) {
  if (ContextPtr context = allocation->context.lock(); context != nullptr && !context->destroyed) {
    CUresult result = synchronize(context);
    if (result != CUDA_SUCCESS)
      return result;
  }
  /* Another thread may have been faster while the lock was given up. */
  if (state().memory.find(allocation->base) != allocation)
    return CUDA_ERROR_INVALID_VALUE;
  release_memory(allocation, caller());
  return CUDA_SUCCESS;
}

/* A context that failed says so before anything else; without one there is nothing to say. */
CUresult current_error() {
  ContextPtr context = current_context();
  return context != nullptr ? context->error : CUDA_SUCCESS;
}

AllocationPtr allocation_at(uint64_t base) {
  AllocationPtr found = state().memory.find(base);
  return found != nullptr && found->base == base ? found : nullptr;
}

CUresult bad_free(uint64_t address) {
  report(std::string(caller()) + " was given " + hex(address) +
         ", which is not the start of an allocation that it frees: " + state().memory.explain(address));
  return CUDA_ERROR_INVALID_VALUE;
}

} // namespace

std::byte *map_host_memory(uint64_t size) {
  if (size > SIZE_MAX / 2)
    return nullptr;
  void *memory =
      mmap(nullptr, whole_pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte *>(memory);
}

void unmap_host_memory(std::byte *memory, uint64_t size) { munmap(memory, whole_pages(size)); }

void release_memory(const AllocationPtr &allocation, const char *by) {
  State &s = state();
  if (allocation->exported != nullptr && allocation->exported->withdraw())
    report(std::string(by) + " frees memory that another process has open: " + s.memory.explain(allocation->base));
  s.memory.remove(allocation, by);
  switch (allocation->kind) {
  case Allocation::Kind::device:
    allocation->device->discharge(allocation->size);
    s.arena.give_back(allocation->base, allocation->size);
    break;
  case Allocation::Kind::pooled:
    allocation->pool->give_back(*allocation);
    break;
  case Allocation::Kind::imported:
    s.arena.give_back(allocation->base, allocation->size);
    break;
  case Allocation::Kind::pinned:
  case Allocation::Kind::managed:
    unmap_host_memory(allocation->host, allocation->size);
    break;
  case Allocation::Kind::registered:
  case Allocation::Kind::mapped:
    break;
  }
}

namespace api {

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  ContextPtr context;
  if (CUresult result = need_context(context))
    return result;
  if (free == nullptr || total == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *total = context->device->memory;
  *free = context->device->memory - context->device->used;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
  ContextPtr context;
  if (CUresult result = need_context(context))
    return result;
  if (dptr == nullptr || bytesize == 0)
    return CUDA_ERROR_INVALID_VALUE;
  AllocationPtr allocation;
  CUresult result = new_device_memory(context, bytesize, allocation);
  if (result == CUDA_SUCCESS)
    *dptr = allocation->base;
  return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
  constexpr size_t pitch_alignment = 512;
  if (dptr == nullptr || pPitch == nullptr || WidthInBytes == 0 || Height == 0 ||
      (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) || WidthInBytes > SIZE_MAX / 2)
    return CUDA_ERROR_INVALID_VALUE;
  size_t pitch = (WidthInBytes + pitch_alignment - 1) / pitch_alignment * pitch_alignment, bytes = 0;
  if (__builtin_mul_overflow(pitch, Height, &bytes))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = api::cuMemAlloc_v2(dptr, bytes);
  if (result == CUDA_SUCCESS)
    *pPitch = pitch;
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
  if (CUresult result = current_error())
    return result;
  if (dptr == 0)
    return CUDA_SUCCESS;
  AllocationPtr allocation = allocation_at(dptr);
  if (allocation == nullptr || allocation->freed)
    return bad_free(dptr);
  if (ContextPtr context = allocation->context.lock())
    if (CUresult result = usable(context))
      return result;
  switch (allocation->kind) {
  case Allocation::Kind::device:
  case Allocation::Kind::managed:
    return free_after_work(allocation);
  case Allocation::Kind::pooled: {
    for (const ContextPtr &context : state().contexts.all())
      if (context->device == allocation->device)
        if (CUresult result = synchronize(context))
          return result;
    if (allocation->freed || state().memory.find(dptr) != allocation)
      return CUDA_ERROR_INVALID_VALUE;
    allocation->pool->used -= allocation->size;
    release_memory(allocation, caller());
    return CUDA_SUCCESS;
  }
  default:
    return bad_free(dptr);
  }
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
  AllocationPtr allocation = state().memory.find(dptr);
  if (allocation == nullptr || allocation->freed)
    return CUDA_ERROR_NOT_FOUND;
  if (pbase != nullptr)
    *pbase = allocation->base;
  if (psize != nullptr)
    *psize = allocation->size;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
  constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  ContextPtr context;
  if (CUresult result = need_context(context))
    return result;
  if (pp == nullptr || bytesize == 0 || (Flags & ~known) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  AllocationPtr allocation;
  /* With unified addressing all of it is mapped, whether it was asked for or not. */
  CUresult result =
      new_host_memory(context, Allocation::Kind::pinned, bytesize, Flags | CU_MEMHOSTALLOC_DEVICEMAP, allocation);
  if (result == CUDA_SUCCESS)
    *pp = allocation->host;
  return result;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize) { return api::cuMemHostAlloc(pp, bytesize, 0); }

CUresult cuMemFreeHost(void *p) {
  if (p == nullptr)
    return CUDA_SUCCESS;
  AllocationPtr allocation = allocation_at(value_of(p));
  if (allocation == nullptr || allocation->kind != Allocation::Kind::pinned)
    return bad_free(value_of(p));
  if (ContextPtr context = allocation->context.lock())
    if (CUresult result = usable(context))
      return result;
  return free_after_work(allocation);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
  constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |
                             CU_MEMHOSTREGISTER_READ_ONLY;
  ContextPtr context;
  if (CUresult result = need_context(context))
    return result;
  if (p == nullptr || bytesize == 0 || (Flags & ~known) != 0 || bytesize > UINT64_MAX - value_of(p))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t base = value_of(p);
  for (const AllocationPtr &other : state().memory.all())
    if (other->base < base + bytesize && base < other->end())
      return other->kind == Allocation::Kind::registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                                         : CUDA_ERROR_INVALID_VALUE;
  /* Tells whether something is mapped in all of it. */
  uint64_t start = base / page * page;
  if (msync(handle_of<void *>(start), base + bytesize - start, MS_ASYNC) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto allocation = std::make_shared<Allocation>();
  allocation->kind = Allocation::Kind::registered;
  allocation->base = base;
  allocation->size = bytesize;
  allocation->host = static_cast<std::byte *>(p);
  allocation->device = context->device;
  allocation->context = context;
  allocation->flags = Flags | CU_MEMHOSTALLOC_DEVICEMAP;
  state().memory.add(allocation);
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p) {
  AllocationPtr allocation = allocation_at(value_of(p));
  if (allocation == nullptr || allocation->kind != Allocation::Kind::registered)
    return p == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  return free_after_work(allocation);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
  AllocationPtr allocation = state().memory.find(value_of(p));
  if (pdptr == nullptr || Flags != 0 || allocation == nullptr || !allocation->host_accessible())
    return CUDA_ERROR_INVALID_VALUE;
  *pdptr = value_of(p);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p) {
  AllocationPtr allocation = state().memory.find(value_of(p));
  if (pFlags == nullptr || allocation == nullptr || allocation->kind != Allocation::Kind::pinned)
    return CUDA_ERROR_INVALID_VALUE;
  *pFlags = allocation->flags;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
  ContextPtr context;
  if (CUresult result = need_context(context))
    return result;
  if (dptr == nullptr || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  AllocationPtr allocation;
  CUresult result = new_host_memory(context, Allocation::Kind::managed, bytesize, flags, allocation);
  if (result == CUDA_SUCCESS)
    *dptr = allocation->base;
  return result;
}

} // namespace api
} // namespace sim
