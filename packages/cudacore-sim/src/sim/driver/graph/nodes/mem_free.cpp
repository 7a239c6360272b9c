/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that free memory of an allocation node. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

constexpr CUgraphNodeType type = CU_GRAPH_NODE_TYPE_MEM_FREE;

struct FreeParams : Params {
  FreeParams(CUdeviceptr address, std::shared_ptr<GraphMemory> memory) : address(address), memory(std::move(memory)) {}

  const CUdeviceptr address;
  const std::shared_ptr<GraphMemory> memory;

  void write(CUgraphNodeParams &out) const override { out.free.dptr = address; }

  void list_memory(GraphExec &exec) const override { exec.frees.push_back(memory); }

  CUresult submit(const LaunchPtr &launch, const ExecNode &, std::vector<UnitPtr> before, UnitPtr &out) const override {
    out = new_unit("free of a graph", launch->context);
    out->finish = [memory = memory, ordered = out->ordered] {
      record_access(ordered, memory->allocation->base, memory->allocation->size, AccessKind::free);
      free_graph_memory(memory->allocation, "a graph");
    };
    submit_unit(launch, out, before);
    return CUDA_SUCCESS;
  }

  std::string describe(const DotNode &node) const override {
    bool is_wanted = node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS);
    return node.rectangle("MEM_FREE", is_wanted ? "dptr: " + dot_address(address) + "\n" : "");
  }
};

std::shared_ptr<GraphMemory> find_memory(CUdeviceptr address) {
  AllocationPtr allocation = state().memory.find(address);
  return allocation != nullptr && allocation->base == address ? allocation->node.lock() : nullptr;
}

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = type;
  row.bytes = sizeof(CUDA_MEM_FREE_NODE_PARAMS);
  row.read = [](const Graph *into, const Params *, CUgraphNodeParams &from, ParamsPtr &out) {
    return read_free(*into, from.free.dptr, out);
  };
  row.can_change = false;
  row.has_memory = true;
  return row;
}());

} // namespace

CUresult read_free(const Graph &into, CUdeviceptr address, ParamsPtr &out) {
  std::shared_ptr<GraphMemory> memory = find_memory(address);
  if (memory == nullptr || memory->freed_in_graph == into.handle)
    return CUDA_ERROR_INVALID_VALUE;
  /* Memory is freed either by the graph that allocates it, or by other graphs, but not by both. */
  if (memory->freed_in_graph != 0 && (into.handle == memory->home || memory->freed_in_graph == memory->home))
    return CUDA_ERROR_INVALID_VALUE;
  if (into.owner != nullptr && into.owner->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (into.handle == memory->home && memory->was_instantiated)
    return CUDA_ERROR_INVALID_VALUE; /* an executable graph without this node exists, and never frees the memory */
  memory->freed_in_graph = into.handle;
  out = std::make_shared<FreeParams>(address, memory);
  return CUDA_SUCCESS;
}

namespace api {

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               size_t numDependencies, CUdeviceptr dptr) {
  return add_one(type, phGraphNode, hGraph, dependencies, numDependencies,
                 [dptr](const Graph *into, const Params *, ParamsPtr &out) { return read_free(*into, dptr, out); });
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out) {
  return get_one<FreeParams>(type, hNode, dptr_out,
                             [](const FreeParams &params, CUdeviceptr &out) { out = params.address; });
}

} // namespace api
} // namespace sim
