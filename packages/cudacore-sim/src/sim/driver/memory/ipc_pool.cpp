/* SPDX-License-Identifier: Apache-2.0 */
/* Shares memory pools, and memory of pools, with other processes. */
#include "sim/driver/memory/ipc.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

constexpr int by_descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/* The memory that was already imported from the record with this name, and not freed; null: there is none. */
AllocationPtr imported(const Pool &pool, uint64_t name) {
  for (const AllocationPtr &allocation : state().memory.all())
    if (allocation->pool.get() == &pool && !allocation->freed && allocation->import->name == name)
      return allocation;
  return nullptr;
}

} // namespace

namespace api {

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
                                          unsigned long long flags) {
  std::shared_ptr<Pool> found;
  SIM_RETURN_FAILURE(find_pool(pool, found));
  if (handle_out == nullptr || flags != 0 || handleType != by_descriptor || found->file == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  int descriptor = found->file->file().duplicate(false);
  if (descriptor < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int *>(handle_out) = descriptor;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
  Header header;
  Device *device = nullptr;
  if (pool_out == nullptr || handleType != by_descriptor || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<SharedFile> file = import_descriptor(handle, Shared::pool, header);
  if (file == nullptr)
    return import_descriptor(handle, Shared::physical, header) != nullptr ? CUDA_ERROR_NOT_SUPPORTED
                                                                          : CUDA_ERROR_UNKNOWN;
  if (device_of(header.record, device) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  for (const std::shared_ptr<Pool> &known : state().pools.all())
    if (known->imported != nullptr && known->imported_name == header.record.name) {
      known->references++;
      *pool_out = handle_of<CUmemoryPool>(known->handle);
      return CUDA_SUCCESS;
    }
  if (!file->map(0, file->size()))
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto imported = std::make_shared<Pool>();
  imported->device = device;
  imported->properties = header.pool;
  imported->imported = std::move(file);
  imported->imported_name = header.record.name;
  imported->access = state().imported_access[header.record.name]; /* that of an earlier import is remembered */
  imported->handle = state().pools.add(imported);
  *pool_out = handle_of<CUmemoryPool>(imported->handle);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr) {
  AllocationPtr allocation = state().memory.find(ptr);
  bool can_be_shared = allocation != nullptr && !allocation->freed && allocation->base == ptr &&
                       allocation->pool != nullptr && allocation->pool->file != nullptr;
  if (shareData_out == nullptr || !can_be_shared)
    return CUDA_ERROR_INVALID_VALUE;
  Arena &arena = *allocation->pool->file;
  if (allocation->exported == nullptr) {
    allocation->exported = Export::make(arena, Shared::pool_memory, allocation->device);
    if (allocation->exported == nullptr)
      return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->exported->record().offset = arena.offset(allocation->host);
    allocation->exported->record().size = allocation->size;
  }
  static uint32_t exports = 0;
  Reference reference = allocation->exported->reference(++exports);
  std::memcpy(shareData_out, &reference, sizeof reference);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData) {
  State &s = state();
  Record record;
  std::shared_ptr<Pool> found;
  SIM_RETURN_FAILURE(find_pool(pool, found));
  if (ptr_out == nullptr || shareData == nullptr || found->imported == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Import> import = import_reference(shareData, found->imported, Shared::pool_memory, record);
  SIM_REQUIRE(import != nullptr);
  if (AllocationPtr known = imported(*found, record.name)) {
    if (found->is_shared_with_host())
      return CUDA_ERROR_ALREADY_MAPPED;
    *ptr_out = known->base; /* although imported twice, it is freed by the first free */
    return CUDA_SUCCESS;
  }
  std::byte *host = found->imported->at(record.offset);
  uint64_t base = found->is_shared_with_host() ? value_of(host) : s.arena.take(record.size);
  if (base == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto allocation = std::make_shared<Allocation>(Allocation::Kind::pooled, base, record.size, host, found->device);
  allocation->pool = found;
  allocation->import = std::move(import);
  found->used += record.size;
  found->used_high = std::max(found->used_high, found->used);
  s.memory.add(allocation);
  *ptr_out = base;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
