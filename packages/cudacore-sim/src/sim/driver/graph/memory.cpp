/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of graphs: addresses are fixed when the node is added; memory exists from a launch until it is freed. */
#include "sim/driver/graph/graph.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

constexpr uint64_t piece = 32 << 20; /* memory for graphs is reserved in multiples of this size */

CUresult find_value(CUdevice ordinal, CUgraphMem_attribute attribute, uint64_t *&out) {
  Device *device = nullptr;
  SIM_RETURN_FAILURE(find_device(ordinal, device));
  GraphMemoryUse &use = device->graph_memory;
  switch (static_cast<int>(attribute)) {
  case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
  case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
    out = &use.reserved; /* freed memory counts as used until cuDeviceGraphMemTrim */
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
  /* If a launch has allocated the memory, and it is not freed, the allocation outlives the graphs. */
  if (allocation->freed && state().memory.find(allocation->base) == allocation)
    release_memory(allocation, "the destruction of its graph");
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

void show_memory(Allocation &memory) {
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

bool is_freed_by_its_graph(uint64_t address) {
  AllocationPtr allocation = state().memory.find(address);
  std::shared_ptr<GraphMemory> memory = allocation != nullptr ? allocation->node.lock() : nullptr;
  return memory != nullptr && memory->freed_in_graph == memory->home;
}

namespace api {

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
  uint64_t *found = nullptr;
  SIM_RETURN_FAILURE(find_value(device, attr, found));
  SIM_REQUIRE(value != nullptr);
  std::memcpy(value, found, sizeof *found);
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
  uint64_t *found = nullptr, given = 0;
  SIM_RETURN_FAILURE(find_value(device, attr, found));
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
  SIM_RETURN_FAILURE(find_device(device, found));
  GraphMemoryUse &use = found->graph_memory;
  uint64_t needed = std::min(use.reserved, (use.used + piece - 1) / piece * piece);
  found->discharge(use.reserved - needed);
  use.reserved = needed;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
