/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that allocate memory. */
#include "sim/driver/graph/nodes/node.h"

#include "sim/control/report.h"

namespace sim {
namespace {

constexpr CUgraphNodeType type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;

struct AllocParams : Params {
  CUDA_MEM_ALLOC_NODE_PARAMS fields{};
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<GraphMemory> memory;

  void write(CUgraphNodeParams &out) const override { std::memcpy(&out.alloc, &fields, sizeof out.alloc); }

  void list_memory(GraphExec &exec) const override { exec.allocations.push_back(memory); }

  CUresult submit(const LaunchPtr &launch, const ExecNode &, std::vector<UnitPtr> before, UnitPtr &out) const override {
    out = new_unit("allocation of a graph", launch->context);
    out->finish = [memory = memory, ordered = out->ordered] {
      show_memory(*memory->allocation);
      record_access(ordered, memory->allocation->base, memory->allocation->size, AccessKind::allocate);
    };
    submit_unit(launch, out, before);
    return CUDA_SUCCESS;
  }

  std::string describe(const DotNode &node) const override {
    std::string lines;
    if (node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
      lines = "bytesize: " + dot_number(fields.bytesize) + "\ndptr: " + dot_address(fields.dptr) + "\n";
    return node.rectangle("MEM_ALLOC", lines);
  }
};

CUresult check_access(const CUDA_MEM_ALLOC_NODE_PARAMS &from, std::vector<CUmemAccessDesc> &out) {
  if (from.accessDescCount > state().devices.size() || (from.accessDescs == nullptr && from.accessDescCount != 0))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < from.accessDescCount; i++) {
    const CUmemAccessDesc &access = from.accessDescs[i];
    Device *device = nullptr;
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    SIM_RETURN_FAILURE(find_device(access.location.id, device));
    if (access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_NOT_SUPPORTED;
    out.push_back(access);
  }
  return CUDA_SUCCESS;
}

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = type;
  row.bytes = sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2);
  row.read = [](const Graph *into, const Params *, CUgraphNodeParams &from, ParamsPtr &out) {
    CUDA_MEM_ALLOC_NODE_PARAMS fields;
    static_assert(sizeof fields == sizeof from.alloc);
    std::memcpy(&fields, &from.alloc, sizeof fields);
    CUresult result = read_alloc(*into, fields, out);
    from.alloc.dptr = fields.dptr;
    return result;
  };
  row.can_change = false;
  row.has_memory = true;
  return row;
}());

} // namespace

CUresult read_alloc(const Graph &into, CUDA_MEM_ALLOC_NODE_PARAMS &from, ParamsPtr &out) {
  State &s = state();
  Device *device = nullptr;
  auto params = std::make_shared<AllocParams>();
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
  SIM_RETURN_FAILURE(check_access(from, params->access));
  if (from.bytesize > device->memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t base = s.arena.take(from.bytesize);
  if (base == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (is_managed)
    note("managed memory of graphs is simulated as memory of the device, which host code cannot use");
  auto allocation =
      std::make_shared<Allocation>(Allocation::Kind::graph, base, from.bytesize, s.arena.host(base), device);
  allocation->visible = false;
  allocation->freed = true;
  for (const CUmemAccessDesc &access : params->access)
    allocation->access.emplace_back(access.location.id, true);
  s.memory.add(allocation);
  params->memory = std::make_shared<GraphMemory>();
  params->memory->allocation = allocation;
  params->memory->home = into.handle;
  allocation->node = params->memory;
  from.dptr = base;
  params->fields = from;
  params->access.reserve(1); /* gives the list an address that is not null, even if it stays empty */
  params->fields.accessDescs = params->access.data();
  out = std::move(params);
  return CUDA_SUCCESS;
}

namespace api {

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
  return add_one(type, phGraphNode, hGraph, dependencies, numDependencies,
                 [nodeParams](const Graph *into, const Params *, ParamsPtr &out) {
                   return nodeParams == nullptr ? CUDA_ERROR_INVALID_VALUE : read_alloc(*into, *nodeParams, out);
                 });
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
  return get_one<AllocParams>(type, hNode, params_out,
                              [](const AllocParams &params, auto &out) { out = params.fields; });
}

} // namespace api
} // namespace sim
