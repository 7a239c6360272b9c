/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that graphs allocate: an address from the node on, memory from launches to frees. */
#include "sim/driver/graph/graph.h"

#include "sim/control/report.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

constexpr uint64_t piece = 32 << 20; /* in which memory is reserved for graphs */

std::shared_ptr<GraphMemory> find_memory(CUdeviceptr address) {
  AllocationPtr allocation = state().memory.find(address);
  return allocation != nullptr && allocation->base == address ? allocation->node.lock() : nullptr;
}

CUresult check_access(const CUDA_MEM_ALLOC_NODE_PARAMS &from, std::vector<CUmemAccessDesc> &out) {
  if (from.accessDescCount > state().devices.size() || (from.accessDescs == nullptr && from.accessDescCount != 0))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < from.accessDescCount; i++) {
    const CUmemAccessDesc &access = from.accessDescs[i];
    Device *device = nullptr;
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = find_device(access.location.id, device))
      return result;
    if (access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_NOT_SUPPORTED;
    out.push_back(access);
  }
  return CUDA_SUCCESS;
}

CUresult find_value(CUdevice ordinal, CUgraphMem_attribute attribute, uint64_t *&out) {
  Device *device = nullptr;
  if (CUresult result = find_device(ordinal, device))
    return result;
  GraphMemoryUse &use = device->graph_memory;
  switch (static_cast<int>(attribute)) {
  case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
  case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
    out = &use.reserved; /* what was freed counts as used until it is trimmed */
    return CUDA_SUCCESS;
  case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
    out = &use.used_high;
    return CUDA_SUCCESS;
  case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
    out = &use.reserved_high;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

} // namespace

GraphMemory::~GraphMemory() {
  /* What a launch has allocated stays until it is freed. */
  if (allocation->freed && state().memory.find(allocation->base) == allocation)
    release_memory(allocation, "the destruction of its graph");
}

CUresult read_alloc(const Graph &into, CUDA_MEM_ALLOC_NODE_PARAMS &from, ParamsPtr &out) {
  State &s = state();
  Device *device = nullptr;
  AllocParams params{from, {}, nullptr};
  const CUmemPoolProps &pool = from.poolProps;
  if (into.owner != nullptr && into.owner->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return CUDA_ERROR_NOT_SUPPORTED;
  bool is_managed = pool.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (from.bytesize == 0 || (pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED && !is_managed) ||
      pool.location.type == CU_MEM_LOCATION_TYPE_INVALID)
    return CUDA_ERROR_INVALID_VALUE;
  if (pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE || pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (find_device(pool.location.id, device) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = check_access(from, params.access))
    return result;
  if (from.bytesize > device->memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t base = s.arena.take(from.bytesize);
  if (base == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (is_managed)
    note("managed memory of graphs is simulated as memory of the device, which host code cannot use");
  auto allocation = std::make_shared<Allocation>();
  allocation->kind = Allocation::Kind::graph;
  allocation->base = base;
  allocation->size = from.bytesize;
  allocation->host = s.arena.host(base);
  allocation->device = device;
  allocation->visible = false;
  allocation->freed = true;
  for (const CUmemAccessDesc &access : params.access)
    allocation->access.emplace_back(access.location.id, true);
  s.memory.add(allocation);
  params.memory = std::make_shared<GraphMemory>();
  params.memory->allocation = allocation;
  params.memory->home = into.handle;
  allocation->node = params.memory;
  from.dptr = params.fields.dptr = base;
  auto made = std::make_shared<Params>(std::move(params));
  AllocParams &kept = std::get<AllocParams>(*made);
  kept.access.reserve(1);
  kept.fields.accessDescs = kept.access.data();
  out = std::move(made);
  return CUDA_SUCCESS;
}

CUresult read_free(const Graph &into, CUdeviceptr address, ParamsPtr &out) {
  std::shared_ptr<GraphMemory> memory = find_memory(address);
  if (memory == nullptr || memory->freed_in_graph == into.handle)
    return CUDA_ERROR_INVALID_VALUE;
  /* Either the graph that allocates frees, or others do. */
  if (memory->freed_in_graph != 0 && (into.handle == memory->home || memory->freed_in_graph == memory->home))
    return CUDA_ERROR_INVALID_VALUE;
  if (into.owner != nullptr && into.owner->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (into.handle == memory->home && !into.executable.expired())
    return CUDA_ERROR_INVALID_VALUE; /* it counts on what is not freed */
  memory->freed_in_graph = into.handle;
  out = std::make_shared<const Params>(FreeParams{address, memory});
  return CUDA_SUCCESS;
}

CUresult reserve_memory(const std::vector<std::shared_ptr<GraphMemory>> &wanted) {
  std::map<Device *, uint64_t> more;
  for (const std::shared_ptr<GraphMemory> &memory : wanted)
    if (memory->allocation->freed)
      more[memory->allocation->device] += memory->allocation->size;
  for (const auto &[device, bytes] : more) {
    GraphMemoryUse &use = device->graph_memory;
    uint64_t needed = (use.used + bytes + piece - 1) / piece * piece;
    if (needed <= use.reserved)
      continue;
    if (!device->charge(needed - use.reserved))
      return CUDA_ERROR_OUT_OF_MEMORY;
    use.reserved = needed;
    use.used_high = std::max(use.used_high, needed);
    use.reserved_high = std::max(use.reserved_high, needed);
  }
  return CUDA_SUCCESS;
}

void mark_allocated(Allocation &memory) {
  memory.freed = false;
  memory.device->graph_memory.used += memory.size;
}

void mark_freed(Allocation &memory) {
  if (memory.freed)
    return;
  memory.freed = true;
  memory.device->graph_memory.used -= memory.size;
}

void bring_memory(Allocation &memory) {
  state().arena.forget_writes(memory.base, memory.size);
  fill_new_memory(memory.host, memory.size);
  memory.visible = true;
  state().memory.changed();
}

void free_graph_memory(const AllocationPtr &memory, const char *by) {
  memory->visible = false;
  state().memory.changed();
  if (memory->freed && memory->node.expired() && state().memory.find(memory->base) == memory)
    release_memory(memory, by);
}

namespace api {

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
  uint64_t *found = nullptr;
  if (CUresult result = find_value(device, attr, found))
    return result;
  if (value == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(value, found, sizeof *found);
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
  uint64_t *found = nullptr, given = 0;
  if (CUresult result = find_value(device, attr, found))
    return result;
  bool is_mark = attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  if (value == nullptr || !is_mark)
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(&given, value, sizeof given);
  if (given != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const GraphMemoryUse &use = state().devices[static_cast<size_t>(device)]->graph_memory;
  *found = use.reserved;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
  Device *found = nullptr;
  if (CUresult result = find_device(device, found))
    return result;
  GraphMemoryUse &use = found->graph_memory;
  uint64_t needed = std::min(use.reserved, (use.used + piece - 1) / piece * piece);
  found->discharge(use.reserved - needed);
  use.reserved = needed;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
