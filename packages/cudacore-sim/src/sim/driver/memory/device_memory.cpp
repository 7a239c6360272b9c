/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemAlloc, cuMemFree, host memory, managed memory. */
#include "sim/control/report.h"
#include "sim/driver/base/state.h"
#include "sim/driver/base/host_memory.h"
#include "sim/driver/memory/ipc.h"
#include "sim/driver/base/host_budget.h"

#include <cerrno>
#include <cstdint>
#include <sys/mman.h>

namespace sim {
namespace {

/* Allocates memory that host and devices share at one address. */
CUresult new_host_memory(const ContextPtr &context, Allocation::Kind kind, size_t size, unsigned flags,
                         AllocationPtr &out) {
  std::byte *memory = map_host_memory(size);
  if (memory == nullptr)
    return CUDA_ERROR_OUT_OF_MEMORY;
  out = std::make_shared<Allocation>(kind, value_of(memory), size, memory, context->device);
  out->context = context;
  out->flags = flags;
  state().memory.add(out);
  return CUDA_SUCCESS;
}

const char *caller() { return Call::active() ? symbol_of(Call::current().entry) : "cudasim_reset_device"; }

/* Waits for the work of the memory's context, as the driver does, and frees the memory. */
CUresult free_after_work(const AllocationPtr &allocation) {
  if (ContextPtr context = allocation->context.lock(); context != nullptr && !context->destroyed) {
    CUresult result = synchronize(context);
    if (result != CUDA_SUCCESS)
      return result;
  }
  /* Another thread may have freed the memory while the lock was released. */
  if (state().memory.find(allocation->base) != allocation)
    return CUDA_ERROR_INVALID_VALUE;
  if (ordering()) /* work of other contexts was not waited for, so it must be ordered */
    record_access(new_host_action(caller()), allocation->base, allocation->size, AccessKind::free);
  release_memory(allocation, caller());
  return CUDA_SUCCESS;
}

/* The error of the current context, which takes precedence over other errors; CUDA_SUCCESS if there is no context. */
CUresult current_error() {
  ContextPtr context = current_context();
  return context != nullptr ? usable(context) : CUDA_SUCCESS;
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
      mmap(nullptr, page_above(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte *>(memory);
}

void unmap_host_memory(std::byte *memory, uint64_t size) { munmap(memory, page_above(size)); }

void hide_from_host(Allocation &mapping) {
  if (mapping.on_host)
    mmap(handle_of<void *>(mapping.base), mapping.size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  mapping.on_host = false;
}

void release_memory(const AllocationPtr &allocation, const char *by) {
  State &s = state();
  /* Whether another process has the memory open. */
  bool is_kept = allocation->exported != nullptr && allocation->exported->withdraw();
  if (is_kept)
    report(std::string(by) + " frees memory that another process has open: " + s.memory.explain(allocation->base));
  s.memory.remove(allocation, by);
  switch (allocation->kind) {
  case Allocation::Kind::device:
    allocation->device->discharge(allocation->size);
    if (!is_kept)
      s.arena.give_back(allocation->base, allocation->size);
    break;
  case Allocation::Kind::pooled:
    if (allocation->pool->destroyed)
      allocation->pool->trim(0);
    if (!is_kept)
      allocation->pool->give_back(*allocation);
    break;
  case Allocation::Kind::imported:
  case Allocation::Kind::graph:
    s.arena.give_back(allocation->base, allocation->size);
    break;
  case Allocation::Kind::pinned:
  case Allocation::Kind::managed:
    remove_managed(allocation->host);
    unmap_host_memory(allocation->host, allocation->size);
    break;
  case Allocation::Kind::mapped:
    hide_from_host(*allocation);
    break;
  case Allocation::Kind::registered:
    break;
  }
}

namespace api {

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  store_optional(total, context->device->memory);
  store_optional(free, context->device->memory - context->device->used);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (dptr == nullptr || bytesize == 0)
    return CUDA_ERROR_INVALID_VALUE;
  AllocationPtr allocation;
  SIM_RETURN_FAILURE(new_device_memory(context, bytesize, allocation));
  fill_new_memory(allocation->host, bytesize);
  *dptr = allocation->base;
  return CUDA_SUCCESS;
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
  SIM_RETURN_FAILURE(current_error());
  if (dptr == 0)
    return CUDA_SUCCESS;
  AllocationPtr allocation = allocation_at(dptr);
  if (allocation == nullptr || allocation->freed || allocation->internal)
    return bad_free(dptr);
  if (ContextPtr context = allocation->context.lock())
    SIM_RETURN_FAILURE(usable(context));
  switch (allocation->kind) {
  case Allocation::Kind::device:
  case Allocation::Kind::managed:
    return free_after_work(allocation);
  case Allocation::Kind::pooled:
  case Allocation::Kind::graph: {
    for (const ContextPtr &context : state().contexts.all())
      if (context->device == allocation->device || allocation->device == nullptr)
        SIM_RETURN_FAILURE(synchronize(context));
    if (allocation->freed || state().memory.find(dptr) != allocation)
      return CUDA_ERROR_INVALID_VALUE;
    if (allocation->kind == Allocation::Kind::graph) {
      mark_freed(*allocation);
      free_graph_memory(allocation, caller());
      return CUDA_SUCCESS;
    }
    allocation->pool->used -= allocation->size;
    release_memory(allocation, caller());
    return CUDA_SUCCESS;
  }
  default:
    return bad_free(dptr);
  }
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  AllocationPtr allocation = state().memory.find(dptr);
  if (allocation == nullptr || allocation->freed)
    return CUDA_ERROR_NOT_FOUND;
  /* Memory of a host pool is found only if the device has access to it. */
  bool is_in_host_pool =
      allocation->pool != nullptr && allocation->device == nullptr && !allocation->pool->is_managed();
  if (is_in_host_pool && !may_access(*home_of(context), *allocation, false))
    return CUDA_ERROR_NOT_FOUND;
  store_optional(pbase, allocation->base);
  store_optional(psize, allocation->size);
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
  constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (pp == nullptr || (Flags & ~known) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytesize == 0) {
    *pp = nullptr;
    return CUDA_SUCCESS;
  }
  AllocationPtr allocation;
  /* All host memory is mapped and portable, but cuMemHostGetFlags always reports DEVICEMAP, and never PORTABLE. */
  unsigned reported = (Flags & ~static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE)) | CU_MEMHOSTALLOC_DEVICEMAP;
  CUresult result = new_host_memory(context, Allocation::Kind::pinned, bytesize, reported, allocation);
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
    SIM_RETURN_FAILURE(usable(context));
  return free_after_work(allocation);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
  /* Not CU_MEMHOSTREGISTER_IOMEMORY: memory of other devices is not simulated. */
  constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (p == nullptr || bytesize == 0 || (Flags & ~known) != 0 || bytesize > UINT64_MAX - value_of(p))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t base = value_of(p);
  if (std::vector<AllocationPtr> others = state().memory.overlapping(base, bytesize); !others.empty())
    return others.front()->kind == Allocation::Kind::registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                                                : CUDA_ERROR_INVALID_VALUE;
  /* Registered memory is pinned, so all of it must be usable. */
  bool write = (Flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0;
  if (!is_usable(base, bytesize, write) || (write && !can_be_pinned_for_writing(base, bytesize)))
    return CUDA_ERROR_INVALID_VALUE;
  auto allocation = std::make_shared<Allocation>(Allocation::Kind::registered, base, bytesize,
                                                 static_cast<std::byte *>(p), context->device);
  allocation->context = context;
  allocation->flags = (Flags & CU_MEMHOSTREGISTER_PORTABLE) | CU_MEMHOSTREGISTER_DEVICEMAP;
  allocation->read_only = (Flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
  state().memory.add(allocation);
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p) {
  AllocationPtr allocation = state().memory.find(value_of(p));
  if (p != nullptr && allocation == nullptr)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (p == nullptr || allocation->kind != Allocation::Kind::registered || allocation->base != value_of(p))
    return CUDA_ERROR_INVALID_VALUE;
  return free_after_work(allocation);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
  AllocationPtr allocation = state().memory.find(value_of(p));
  if (pdptr == nullptr || Flags != 0 || allocation == nullptr || !allocation->host_accessible() ||
      allocation->kind == Allocation::Kind::managed)
    return CUDA_ERROR_INVALID_VALUE;
  *pdptr = value_of(p);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p) {
  AllocationPtr allocation = state().memory.find(value_of(p));
  using Kind = Allocation::Kind;
  SIM_REQUIRE(pFlags != nullptr && allocation != nullptr);
  if (allocation->kind != Kind::pinned && allocation->kind != Kind::registered && allocation->kind != Kind::managed)
    return CUDA_ERROR_INVALID_VALUE;
  *pFlags = allocation->kind == Kind::managed ? CU_MEMHOSTALLOC_DEVICEMAP : allocation->flags;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (dptr == nullptr || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  if (!may_promise(bytesize))
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, host_exhausted_text());
  AllocationPtr allocation;
  SIM_RETURN_FAILURE(new_host_memory(context, Allocation::Kind::managed, bytesize, flags, allocation));
  add_managed(allocation->host, allocation->size, false);
  *dptr = allocation->base;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
