/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that run another graph. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

constexpr CUgraphNodeType type = CU_GRAPH_NODE_TYPE_GRAPH;

struct ChildParams : Params {
  explicit ChildParams(GraphPtr graph) : graph(std::move(graph)) {}

  const GraphPtr graph;

  std::vector<GraphPtr> graphs() const override { return {graph}; }

  CUresult clone(GraphNode &owner, ParamsPtr &out) const override {
    GraphPtr copy;
    SIM_RETURN_FAILURE(clone_graph(*graph, &owner, copy));
    out = std::make_shared<ChildParams>(copy);
    return CUDA_SUCCESS;
  }

  void write(CUgraphNodeParams &out) const override {
    out.graph = {handle_of_graph(*graph), CU_GRAPH_CHILD_GRAPH_OWNERSHIP_INVALID};
  }

  CUresult submit(const LaunchPtr &launch, const ExecNode &node, std::vector<UnitPtr> before,
                  UnitPtr &out) const override {
    UnitPtr head = new_unit("child graph", launch->context);
    submit_unit(launch, head, before);
    std::vector<UnitPtr> leaves;
    SIM_RETURN_FAILURE(submit_graph(launch, node.parts[0], head, leaves));
    out = new_unit("end of a child graph", launch->context);
    submit_unit(launch, out, leaves);
    return CUDA_SUCCESS;
  }

  std::string describe(const DotNode &node) const override { return node.rectangle("graph_" + dot_number(graph->id)); }
};

CUresult read_fields(const Graph *into, const CUDA_CHILD_GRAPH_NODE_PARAMS &from, ParamsPtr &out) {
  GraphPtr graph, made;
  SIM_RETURN_FAILURE(find_graph(from.graph, graph));
  bool is_moved = from.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  if (!is_moved && from.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
    return CUDA_ERROR_INVALID_VALUE;
  if (has_conditions(*graph) || graph->moved)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (is_moved) {
    bool is_own = graph.get() == &into->root();
    if (graph->owner != nullptr || is_own)
      return CUDA_ERROR_INVALID_VALUE;
    graph->moved = true;
    made = graph;
  } else {
    if (graph->owner != nullptr || has_memory(*graph))
      return CUDA_ERROR_NOT_SUPPORTED;
    SIM_RETURN_FAILURE(check_kernels(*graph));
    SIM_RETURN_FAILURE(clone_graph(*graph, nullptr, made));
  }
  out = std::make_shared<ChildParams>(std::move(made));
  return CUDA_SUCCESS;
}

/* Updates a child graph node of an executable graph: its own graph gets the parameters of the given graph's nodes. */
CUresult update_child(GraphExec &exec, ExecNode &node, CUgraph handle) {
  GraphPtr graph;
  SIM_RETURN_FAILURE(find_graph(handle, graph));
  if (node.type != type)
    return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info{};
  SIM_RETURN_FAILURE(update_exec_graph(exec, node.parts[0], *graph, info));
  add_references_of(exec, *graph);
  return CUDA_SUCCESS;
}

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = type;
  row.bytes = sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS);
  row.read = [](const Graph *into, const Params *, CUgraphNodeParams &from, ParamsPtr &out) {
    return read_fields(into, from.graph, out);
  };
  row.change_in_exec = [](GraphExec &exec, ExecNode &node, const CUgraphNodeParams &from) {
    return update_child(exec, node, from.graph.graph);
  };
  row.may_be_in_body = row.may_be_launched_by_device = true;
  return row;
}());

} // namespace

namespace api {

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, CUgraph childGraph) {
  return add_one(type, phGraphNode, hGraph, dependencies, numDependencies,
                 [childGraph](const Graph *into, const Params *, ParamsPtr &out) {
                   return read_fields(into, {childGraph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE}, out);
                 });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
  return get_one<ChildParams>(type, hNode, phGraph,
                              [](const ChildParams &params, CUgraph &out) { out = handle_of_graph(*params.graph); });
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
  ExecPtr exec;
  ExecNode *node = nullptr;
  SIM_RETURN_FAILURE(find_exec_node(hGraphExec, hNode, exec, node));
  return update_child(*exec, *node, childGraph);
}

} // namespace api
} // namespace sim
