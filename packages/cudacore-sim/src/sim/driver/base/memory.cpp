/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all allocations: lookup by address, access rights, and the memory that kernels see. */
#include "sim/driver/base/memory.h"
#include "sim/driver/base/handles.h"

#include "sim/control/report.h"
#include "sim/driver/base/host_memory.h"
#include "sim/driver/base/state.h"
#include "sim/driver/base/host_budget.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

constexpr size_t history_length = 4096; /* freed allocations that reports can name */
constexpr uint64_t near = 1 << 20;      /* allocations farther away are not mentioned in reports */

uint64_t distance(uint64_t address, uint64_t base, uint64_t size) {
  if (address < base)
    return base - address;
  return address < base + size ? 0 : address - (base + size) + 1;
}

std::string bytes_text(uint64_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

std::string where_text(uint64_t address, uint64_t base, uint64_t size) {
  if (address < base)
    return bytes_text(base - address) + " before ";
  if (address < base + size)
    return bytes_text(address - base) + " into ";
  return bytes_text(address - (base + size)) + " past the end of ";
}

std::string block_text(const char *kind, uint64_t id, uint64_t base, uint64_t size) {
  return std::string("the ") + bytes_text(size) + " of " + kind + " at " + hex(base) + " (allocation " +
         std::to_string(id) + ")";
}

} // namespace

const char *describe(const Allocation &allocation) {
  switch (allocation.kind) {
  case Allocation::Kind::device:
    return allocation.is_array ? "memory of an array" : "device memory";
  case Allocation::Kind::pooled:
    return allocation.import != nullptr ? "imported stream-ordered memory" : "stream-ordered memory";
  case Allocation::Kind::pinned:
    return "pinned host memory";
  case Allocation::Kind::registered:
    return "registered host memory";
  case Allocation::Kind::managed:
    return "managed memory";
  case Allocation::Kind::mapped:
    return allocation.physical->imported ? "imported mapped memory" : "mapped memory";
  case Allocation::Kind::imported:
    return "imported device memory";
  case Allocation::Kind::graph:
    return "memory of a graph";
  }
  return "memory";
}

std::shared_ptr<const void> Allocation::backing() const {
  if (import != nullptr)
    return import->file;
  return pool != nullptr && pool->file != nullptr ? pool : nullptr;
}

/* A map that keeps its memory mapped, so that a kernel that uses freed memory does not crash the process. */
struct LastingMap : MemoryMap {
  std::vector<std::shared_ptr<const void>> kept;
};

std::byte *Allocation::written() const {
  bool is_ours = (!internal || is_array) && !host_accessible() && exported == nullptr && import == nullptr;
  return is_ours ? state().arena.written(host) : nullptr;
}

bool may_access(const Context &context, const Allocation &allocation, bool write) {
  int ordinal = context.device->ordinal;
  auto granted = [&](const auto &list) {
    for (const auto &[device, writable] : list)
      if (device == ordinal)
        return writable || !write;
    return false;
  };
  switch (allocation.kind) {
  case Allocation::Kind::registered:
    return !write || !allocation.read_only;
  case Allocation::Kind::pinned:
  case Allocation::Kind::managed:
    return true;
  case Allocation::Kind::mapped:
    return granted(allocation.access);
  case Allocation::Kind::pooled:
    return allocation.pool->is_managed() || allocation.device == context.device || granted(allocation.pool->access);
  case Allocation::Kind::graph:
    return allocation.device == context.device || granted(allocation.access);
  case Allocation::Kind::imported: /* cuIpcOpenMemHandle gives the context access to the memory's device */
    return allocation.device == context.device || allocation.context.lock().get() == &context;
  case Allocation::Kind::device: {
    if (allocation.device == context.device)
      return true;
    ContextPtr owner = allocation.context.lock();
    return owner != nullptr && context.peers.count(owner->handle) != 0;
  }
  }
  return false;
}

/* Copies between devices need access to mappings and pooled memory, but not to memory of cuMemAlloc. */
static bool needs_access(const Allocation &allocation) {
  return allocation.kind == Allocation::Kind::mapped ||
         (allocation.kind == Allocation::Kind::pooled && allocation.device != nullptr);
}

void Memory::add(AllocationPtr allocation) {
  allocation->id = next_id++;
  allocation->number = number_object();
  if (ordering())
    forget_accesses(allocation->base, allocation->size);
  uint64_t base = allocation->base;
  if (allocation->kind == Allocation::Kind::registered)
    registered.insert(allocation);
  allocations[base] = std::move(allocation);
  changed();
}

void Memory::remove(const AllocationPtr &allocation, const char *by) {
  history.push_back({allocation->base, allocation->size, allocation->id, describe(*allocation), by});
  if (history.size() > history_length)
    history.pop_front();
  allocations.erase(allocation->base);
  registered.erase(allocation);
  changed();
}

AllocationPtr Memory::find(uint64_t address) const {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin())
    return nullptr;
  const AllocationPtr &candidate = std::prev(after)->second;
  return address < candidate->end() ? candidate : nullptr;
}

std::vector<AllocationPtr> Memory::all() const {
  std::vector<AllocationPtr> found;
  for (const auto &entry : allocations)
    found.push_back(entry.second);
  return found;
}

std::vector<AllocationPtr> Memory::overlapping(uint64_t address, uint64_t size) const {
  std::vector<AllocationPtr> found;
  auto one = allocations.upper_bound(address);
  if (one != allocations.begin() && address < std::prev(one)->second->end())
    --one;
  for (; one != allocations.end() && one->first < address + size; ++one)
    found.push_back(one->second);
  return found;
}

bool Memory::accessible(const Context &context, uint64_t address, uint64_t size, bool write, Check check) const {
  if (size > UINT64_MAX - address)
    return false;
  for (uint64_t at = address, end = address + size; at < end;) {
    AllocationPtr allocation = find(at);
    if (allocation == nullptr)
      return false;
    bool is_later = check == Check::node && allocation->kind == Allocation::Kind::graph;
    if (!is_later && (check == Check::copy_at_run ? !allocation->visible : allocation->freed))
      return false;
    if (write && allocation->read_only) {
      sim::explain("a copy or fill writes to " + hex(at) + ", " + this->explain(at) +
                   ", which was registered read-only (CU_MEMHOSTREGISTER_READ_ONLY)");
      return false;
    }
    /* Copies use virtual memory of the host at its address on the host (13.0, H200). */
    if (!allocation->on_host && needs_access(*allocation) && !may_access(context, *allocation, write)) {
      sim::explain("a copy or fill " + std::string(write ? "writes to " : "reads from ") + hex(at) + ", " +
                   this->explain(at) + ": device " + std::to_string(context.device->ordinal) +
                   " has not been given access to it (cuMemSetAccess, cuMemPoolSetAccess)");
      return false;
    }
    if (allocation->kind != Allocation::Kind::mapped && allocation->end() < end)
      return false;
    at = allocation->end();
  }
  return true;
}

/* Makes registered memory that the application has unmapped inaccessible to work. */
void Memory::hide_unmapped() {
  for (const AllocationPtr &allocation : registered)
    if (allocation->visible && !is_mapped(allocation->base, allocation->size)) {
      report("registered host memory was unmapped before cuMemHostUnregister: " +
             block_text(describe(*allocation), allocation->id, allocation->base, allocation->size));
      allocation->visible = false;
      changed();
    }
}

std::shared_ptr<const MemoryMap> Memory::map_for(Context &context) {
  hide_unmapped();
  if (context.map != nullptr && context.map_version == version)
    return context.map;
  auto map = std::make_shared<LastingMap>();
  map->ranges.reserve(allocations.size());
  for (const auto &[base, allocation] : allocations)
    if (allocation->visible && may_access(context, *allocation, false)) {
      map->ranges.push_back({base, allocation->end(), allocation->host, may_access(context, *allocation, true),
                             allocation->id, allocation->written()});
      if (auto backing = allocation->backing())
        map->kept.push_back(std::move(backing));
    }
  context.map = map;
  context.map_version = version;
  return map;
}

std::string Memory::explain(uint64_t address) const {
  auto is_used_again = [&](const Freed &entry) {
    auto after = allocations.lower_bound(entry.base + entry.size);
    return after != allocations.begin() && std::prev(after)->first + std::prev(after)->second->size > entry.base;
  };
  const Freed *freed = nullptr;
  for (const Freed &entry : history)
    if (distance(address, entry.base, entry.size) == 0 && !is_used_again(entry))
      freed = &entry; /* the latest */
  AllocationPtr nearest;
  auto after = allocations.upper_bound(address);
  for (auto candidate : {after, after == allocations.begin() ? allocations.end() : std::prev(after)})
    if (candidate != allocations.end() &&
        (nearest == nullptr || distance(address, candidate->second->base, candidate->second->size) <
                                   distance(address, nearest->base, nearest->size)))
      nearest = candidate->second;
  if (nearest != nullptr && distance(address, nearest->base, nearest->size) == 0) {
    std::string text = where_text(address, nearest->base, nearest->size) +
                       block_text(describe(*nearest), nearest->id, nearest->base, nearest->size);
    if (!nearest->visible && nearest->kind == Allocation::Kind::registered)
      return text + ", which was unmapped before cuMemHostUnregister";
    if (nearest->freed || !nearest->visible)
      return text + ", which is not allocated at this point of its stream's order";
    return text + (nearest->device != nullptr ? " of device " + std::to_string(nearest->device->ordinal) : "");
  }
  if (freed != nullptr)
    return where_text(address, freed->base, freed->size) +
           block_text(freed->kind, freed->id, freed->base, freed->size) + ", which was freed by " + freed->by;
  if (address < 4096)
    return "a null pointer, or an offset from one";
  if (nearest == nullptr)
    return "there is no allocation";
  if (distance(address, nearest->base, nearest->size) > near)
    return "far from every allocation";
  return where_text(address, nearest->base, nearest->size) +
         block_text(describe(*nearest), nearest->id, nearest->base, nearest->size) + ", the nearest allocation";
}

bool Allocation::is_managed() const { return kind == Kind::managed || (pool != nullptr && pool->is_managed()); }

bool Device::charge(uint64_t bytes, const Pool *asking) {
  if (bytes > memory - used)
    for (const std::shared_ptr<Pool> &pool : state().pools.all())
      if (pool->device == this && pool.get() != asking && bytes > memory - used)
        pool->trim(0);
  if (bytes > memory - used)
    return refuse(false,
                  "device " + std::to_string(ordinal) + " has no " + std::to_string(bytes) +
                      " bytes left: " + std::to_string(used) + " of " + std::to_string(memory) + " are in use",
                  "no memory of device " + std::to_string(ordinal));
  if (!may_promise(bytes))
    return refuse(false, host_exhausted_text());
  used += bytes;
  return true;
}

CUresult new_device_memory(const ContextPtr &context, uint64_t size, AllocationPtr &out) {
  Device &device = *context->device;
  if (!device.charge(size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t base = state().arena.take(size);
  if (base == 0) {
    device.discharge(size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  out = std::make_shared<Allocation>(Allocation::Kind::device, base, size, state().arena.host(base), &device);
  out->context = context;
  state().memory.add(out);
  return CUDA_SUCCESS;
}

void fill_new_memory(std::byte *host, uint64_t size) {
  constexpr uint64_t max_filled =
      64 << 20; /* larger memory may be used only in part, and filling would commit all of it */
  if (config().fill != 0 && size <= max_filled)
    std::memset(host, config().fill, size);
}

} // namespace sim
