/* SPDX-License-Identifier: Apache-2.0 */
/* Shares memory of cuMemAlloc with other processes. */
#include "sim/control/report.h"
#include "sim/driver/memory/ipc.h"

#include <cstring>
#include <unistd.h>

namespace sim {
namespace {

/* The imported memory that this context has already opened from the record with this name; null: there is none. */
AllocationPtr opened(const Context &context, uint64_t name) {
  for (const AllocationPtr &allocation : state().memory.all())
    if (allocation->kind == Allocation::Kind::imported && allocation->import->name == name &&
        allocation->context.lock().get() == &context)
      return allocation;
  return nullptr;
}

CUresult open(CUdeviceptr *out, const CUipcMemHandle &handle, const ContextPtr &context) {
  State &s = state();
  Record record;
  Device *device = nullptr;
  std::shared_ptr<Import> import = import_reference(&handle, nullptr, Shared::memory, record);
  if (import == nullptr || device_of(record, device) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (AllocationPtr known = opened(*context, record.name)) {
    known->opens++;
    *out = known->base;
    return CUDA_SUCCESS;
  }
  if (!import->file->map(record.offset, record.size))
    return CUDA_ERROR_MAP_FAILED;
  uint64_t base = s.arena.take(record.size);
  if (base == 0)
    return CUDA_ERROR_MAP_FAILED;
  auto allocation = std::make_shared<Allocation>(Allocation::Kind::imported, base, record.size,
                                                 import->file->at(record.offset), device);
  allocation->context = context;
  allocation->import = std::move(import);
  s.memory.add(allocation);
  *out = base;
  return CUDA_SUCCESS;
}

} // namespace

namespace api {

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
  ContextPtr context;
  State &s = state();
  SIM_RETURN_FAILURE(need_context(context));
  AllocationPtr allocation = s.memory.find(dptr);
  if (pHandle == nullptr || allocation == nullptr || allocation->kind != Allocation::Kind::device || allocation->freed)
    return CUDA_ERROR_INVALID_VALUE;
  if (allocation->exported == nullptr) {
    allocation->exported = Export::make(s.arena, Shared::memory, allocation->device);
    if (allocation->exported == nullptr)
      return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->exported->record().offset = s.arena.offset(allocation->base);
    allocation->exported->record().size = allocation->size;
  }
  Reference reference = allocation->exported->reference();
  std::memcpy(pHandle, &reference, sizeof reference);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (pdptr == nullptr || (Flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  Reference reference;
  std::memcpy(&reference, &handle, sizeof reference);
  if (reference.process == getpid())
    return CUDA_ERROR_INVALID_CONTEXT;
  return open(pdptr, handle, context);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return api::cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  AllocationPtr allocation = state().memory.find(dptr);
  if (allocation == nullptr || allocation->base != dptr || allocation->kind != Allocation::Kind::imported) {
    report("cuIpcCloseMemHandle was given " + hex(dptr) +
           ", which is not what cuIpcOpenMemHandle gave: " + state().memory.explain(dptr));
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (--allocation->opens > 0)
    return CUDA_SUCCESS;
  for (const ContextPtr &user : state().contexts.all())
    synchronize(user);
  if (state().memory.find(dptr) == allocation)
    release_memory(allocation, "cuIpcCloseMemHandle");
  return usable(context);
}

} // namespace api
} // namespace sim
