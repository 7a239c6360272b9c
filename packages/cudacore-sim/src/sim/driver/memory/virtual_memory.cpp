/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: address ranges, physical memory, and mappings. */
#include "sim/control/report.h"
#include "sim/driver/memory/ipc.h"

#include <algorithm>
#include <sys/mman.h>

namespace sim {
namespace {

constexpr uint64_t granularity = 2 << 20;

CUresult check_properties(const CUmemAllocationProp *properties, Device *&device) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  device = nullptr;
  switch (static_cast<int>(properties->location.type)) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    SIM_RETURN_FAILURE(find_device(properties->location.id, device));
    break;
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    if (properties->location.id != 0)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  case CU_MEM_LOCATION_TYPE_HOST:
    if (properties->requestedHandleTypes != 0)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

bool is_host(const CUmemLocation &location) {
  return location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* Makes host memory accessible to host code at the address that it is mapped to. */
CUresult show_to_host(Allocation &mapping) {
  void *wanted = handle_of<void *>(mapping.base);
  if (mmap(wanted, mapping.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
           mapping.physical->file->number(), static_cast<off_t>(Arena::file_header() + mapping.offset)) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  mapping.on_host = true;
  return CUDA_SUCCESS;
}

CUresult find_physical(CUmemGenericAllocationHandle handle, std::shared_ptr<Physical> &out) {
  return find_object(state().physicals, Kind::physical, handle_of<void *>(handle), out) == CUDA_SUCCESS
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

/* Memory that can be exported, or mapped for the host, has a separate file. */
bool back(Physical &physical) {
  if (physical.properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE && physical.device != nullptr)
    return (physical.base = state().arena.take(physical.size)) != 0;
  if (physical.size > UINT64_MAX - Arena::file_header())
    return false;
  physical.file = SharedFile::create(Arena::file_header() + physical.size);
  if (physical.file == nullptr)
    return false;
  Header header{};
  header.record.offset = Arena::file_header();
  header.record.size = physical.size;
  header.physical = physical.properties;
  write_header(*physical.file, header, Shared::physical, physical.device);
  return true;
}

/* The mappings that cover a range exactly; empty: the range has holes, or a mapping is only partly inside. */
std::vector<AllocationPtr> mappings_in(uint64_t address, uint64_t size) {
  std::vector<AllocationPtr> found;
  if (size == 0 || size > UINT64_MAX - address)
    return found;
  for (uint64_t at = address; at < address + size;) {
    AllocationPtr mapping = state().memory.find(at);
    if (mapping == nullptr || mapping->kind != Allocation::Kind::mapped || mapping->base != at ||
        mapping->end() > address + size)
      return {};
    found.push_back(mapping);
    at = mapping->end();
  }
  return found;
}

/* Whether [address, address + size) is in one reserved range. */
bool is_reserved(uint64_t address, uint64_t size) {
  const auto &reservations = state().reservations;
  auto after = reservations.upper_bound(address);
  if (after == reservations.begin())
    return false;
  uint64_t base = std::prev(after)->first, length = std::prev(after)->second.size;
  return size <= length && address - base <= length - size;
}

/*
 * Finds the mappings in a part of a reserved range; there may be holes between them. False: a mapping is only partly
 * inside of the part, or the part is invalid.
 */
bool whole_mappings(uint64_t address, uint64_t size, std::vector<AllocationPtr> &out) {
  if (size == 0 || size % granularity != 0 || !is_reserved(address, size))
    return false;
  out = state().memory.overlapping(address, size);
  return out.empty() || (out.front()->base >= address && out.back()->end() <= address + size);
}

/*
 * Reserves a range at a wanted address, if possible. Some addresses after each range remain free, so that accesses
 * beyond the end of the range are detected. Only a range that is wanted directly after another range uses such
 * addresses.
 */
bool reserve_at(uint64_t wanted, uint64_t size, Reservation &out) {
  State &s = state();
  out = {size, Arena::footprint(size)};
  if (wanted == 0 || wanted % granularity != 0)
    return false;
  auto after = s.reservations.lower_bound(wanted);
  if (after != s.reservations.begin()) {
    auto &[base, before] = *std::prev(after);
    uint64_t end = base + before.size, taken_to = base + before.taken;
    if (end == wanted && taken_to > end) {
      if (!s.arena.take_at(taken_to, wanted + out.taken - taken_to))
        return false;
      before.taken = before.size;
      return true;
    }
  }
  return s.arena.take_at(wanted, out.taken);
}

} // namespace

namespace api {

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
  if (out == nullptr || prop == nullptr || option < CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
      option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  *out = granularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
  State &s = state();
  bool bad_alignment = (alignment & (alignment - 1)) != 0;
  if (ptr == nullptr || size == 0 || size % granularity != 0 || bad_alignment || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (alignment > granularity)
    return CUDA_ERROR_NOT_SUPPORTED;
  Reservation reservation{size, 0};
  if (size > UINT64_MAX / 2)
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t base = addr;
  if (!reserve_at(addr, size, reservation) && (base = s.arena.take(size)) == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  s.reservations[base] = reservation;
  *ptr = base;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  State &s = state();
  auto found = s.reservations.find(ptr);
  if (found == s.reservations.end() || found->second.size != size)
    return CUDA_ERROR_INVALID_VALUE;
  if (std::vector<AllocationPtr> mapped = s.memory.overlapping(ptr, size); !mapped.empty()) {
    report("cuMemAddressFree was given a range in which memory is mapped: " + s.memory.explain(mapped.front()->base));
    return CUDA_ERROR_INVALID_VALUE;
  }
  s.arena.give_back_exactly(ptr, found->second.taken);
  s.reservations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags) {
  State &s = state();
  Device *device = nullptr;
  if (handle == nullptr || size == 0 || size % granularity != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(check_properties(prop, device));
  if (device != nullptr && !device->charge(size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto physical = std::make_shared<Physical>();
  physical->device = device;
  physical->size = size;
  physical->properties = *prop;
  if (!back(*physical))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (ordering())
    forget_accesses(value_of(physical->host()), size);
  physical->handle = s.physicals.add(physical);
  *handle = physical->handle;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::shared_ptr<Physical> physical;
  SIM_RETURN_FAILURE(find_physical(handle, physical));
  if (--physical->references == 0)
    state().physicals.remove(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  State &s = state();
  std::shared_ptr<Physical> physical;
  SIM_RETURN_FAILURE(find_physical(handle, physical));
  if (flags != 0 || size == 0 || ptr == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0 || size != physical->size) /* physical memory has to be mapped as a whole */
    return CUDA_ERROR_NOT_SUPPORTED;
  if (ptr % granularity != 0 || !is_reserved(ptr, size))
    return CUDA_ERROR_INVALID_VALUE;
  if (!s.memory.overlapping(ptr, size).empty())
    return CUDA_ERROR_INVALID_VALUE;
  auto mapping =
      std::make_shared<Allocation>(Allocation::Kind::mapped, ptr, size, physical->host() + offset, physical->device);
  mapping->offset = offset;
  mapping->physical = physical;
  s.memory.add(mapping);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  State &s = state();
  std::vector<AllocationPtr> mappings;
  if (!whole_mappings(ptr, size, mappings))
    return CUDA_ERROR_INVALID_VALUE;
  for (const ContextPtr &context : s.contexts.all())
    for (const UnitPtr &unit : outstanding(*context))
      s.executor.wait(Call::current().lock, unit);
  if (!whole_mappings(ptr, size, mappings)) /* another thread may have unmapped the range in the meantime */
    return CUDA_ERROR_INVALID_VALUE;
  for (const AllocationPtr &mapping : mappings)
    release_memory(mapping, "cuMemUnmap");
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
  std::vector<AllocationPtr> mappings = mappings_in(ptr, size);
  if (mappings.empty() || desc == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    Device *device = nullptr;
    if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_VALUE;
    if (is_host(desc[i].location)) {
      for (const AllocationPtr &mapping : mappings)
        if (mapping->device != nullptr)
          return CUDA_ERROR_NOT_SUPPORTED;
      if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        return CUDA_ERROR_NOT_SUPPORTED;
      continue;
    }
    if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        find_device(desc[i].location.id, device) != CUDA_SUCCESS)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (const AllocationPtr &mapping : mappings)
    for (size_t i = 0; i < count; i++) {
      if (is_host(desc[i].location)) {
        if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
          hide_from_host(*mapping);
        else if (CUresult result = show_to_host(*mapping))
          return result;
        continue;
      }
      auto &access = mapping->access;
      int ordinal = desc[i].location.id;
      auto is_same = [&](const auto &entry) { return entry.first == ordinal; };
      access.erase(std::remove_if(access.begin(), access.end(), is_same), access.end());
      if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        access.push_back({ordinal, desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    }
  state().memory.changed();
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
  AllocationPtr mapping = state().memory.find(ptr);
  Device *device = nullptr;
  SIM_REQUIRE(flags != nullptr && location != nullptr && mapping != nullptr);
  if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
    SIM_RETURN_FAILURE(find_device(location->id, device));
  *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  if (is_host(*location) && mapping->host_accessible())
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (const auto &[ordinal, writable] : mapping->access)
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && ordinal == location->id)
      *flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
  std::shared_ptr<Physical> physical;
  return store(find_physical(handle, physical), prop, [&] { return physical->properties; });
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType, unsigned long long flags) {
  std::shared_ptr<Physical> physical;
  SIM_RETURN_FAILURE(find_physical(handle, physical));
  if (shareableHandle == nullptr || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      physical->properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  int descriptor = physical->file->duplicate(true);
  if (descriptor < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int *>(shareableHandle) = descriptor;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType) {
  Header header;
  Device *device = nullptr;
  if (handle == nullptr || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<SharedFile> file = import_descriptor(osHandle, Shared::physical, header);
  if (file == nullptr)
    return import_descriptor(osHandle, Shared::pool, header) != nullptr ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_UNKNOWN;
  if (header.record.offset != Arena::file_header() || device_of(header.record, device) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (!file->map(0, file->size()))
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto physical = std::make_shared<Physical>();
  physical->device = device;
  physical->file = std::move(file);
  physical->imported = true;
  physical->size = header.record.size;
  physical->properties = header.physical;
  physical->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  physical->handle = state().physicals.add(physical);
  *handle = physical->handle;
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
  State &s = state();
  AllocationPtr mapping = s.memory.find(value_of(addr));
  if (handle == nullptr || mapping == nullptr || mapping->kind != Allocation::Kind::mapped)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Physical> physical = mapping->physical;
  if (physical->references++ == 0) /* all handles of the memory were released */
    physical->handle = s.physicals.add(physical);
  *handle = physical->handle;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
