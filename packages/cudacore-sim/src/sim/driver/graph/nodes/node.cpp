/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for nodes of any type, and the table of the types. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

/* By CUgraphNodeType. Filled before the library is used, by the static objects of the files in this folder. */
std::array<const NodeType *, 64> types{};

/* Whether all bytes that the type does not use are zero. */
bool is_clear(const CUgraphNodeParams &params, size_t used) {
  auto is_set = [](char byte) { return byte != 0; };
  return params.reserved0[0] == 0 && params.reserved0[1] == 0 && params.reserved0[2] == 0 && params.reserved2 == 0 &&
         std::none_of(params.asBytes + used, std::end(params.asBytes), is_set);
}

bool is_clear(const CUgraphNodeParams &params, const NodeType *type) {
  return is_clear(params, type != nullptr ? type->bytes : 0);
}

CUresult add_any(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, const CUgraphEdgeData *data,
                 size_t count, CUgraphNodeParams *from) {
  GraphPtr graph;
  std::vector<Edge> before;
  ParamsPtr params;
  SIM_RETURN_FAILURE(find_graph(handle, graph));
  const NodeType *type = from != nullptr ? find_node_type(from->type) : nullptr;
  if (out == nullptr || from == nullptr || !is_clear(*from, type))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(read_dependencies(*graph, dependencies, data, count, from->type, before));
  SIM_REQUIRE(type != nullptr);
  SIM_RETURN_FAILURE(type->read(graph.get(), nullptr, *from, params));
  NodePtr node = add_node(*graph, from->type, std::move(params), before);
  if (type->complete != nullptr)
    type->complete(*node, *from);
  *out = handle_of_node(*node);
  return CUDA_SUCCESS;
}

/* Reads new parameters for an existing node. */
CUresult read_other(const Graph *graph, CUgraphNodeType type, const Params &old, CUgraphNodeParams &from,
                    ParamsPtr &out) {
  const NodeType *row = find_node_type(type);
  if (from.type != type || !is_clear(from, row))
    return CUDA_ERROR_INVALID_VALUE;
  return row->can_change ? row->read(graph, &old, from, out) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult set_any(CUgraphNode handle, CUgraphNodeParams *from) {
  NodePtr node;
  ParamsPtr params;
  SIM_RETURN_FAILURE(find_node(handle, node));
  SIM_REQUIRE(from != nullptr);
  std::vector<GraphPtr> replaced = node->params->graphs();
  if (node->type == CU_GRAPH_NODE_TYPE_GRAPH && node->graph->has_memory_nodes)
    return CUDA_ERROR_NOT_SUPPORTED; /* a graph with memory nodes keeps its child graphs */
  SIM_RETURN_FAILURE(read_other(node->graph, node->type, *node->params, *from, params));
  set_params(*node, std::move(params));
  for (const GraphPtr &graph : replaced)
    destroy_graph(graph);
  return CUDA_SUCCESS;
}

} // namespace

RegisterNodeType::RegisterNodeType(const NodeType &type) : row(type) { types[static_cast<size_t>(type.type)] = &row; }

const NodeType *find_node_type(CUgraphNodeType type) {
  size_t index = static_cast<size_t>(type);
  return index < types.size() ? types[index] : nullptr;
}

CUresult find_node_of(CUgraphNodeType type, CUgraphNode handle, NodePtr &out) {
  SIM_RETURN_FAILURE(find_node(handle, out));
  return out->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult read_unsupported(const Graph *, const Params *, CUgraphNodeParams &, ParamsPtr &) {
  return unsupported(Call::current().entry);
}

namespace api {

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                        size_t numDependencies, CUgraphNodeParams *nodeParams) {
  return add_any(phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependencyData, size_t numDependencies,
                           CUgraphNodeParams *nodeParams) {
  return add_any(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}

CUresult cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependencyData, size_t numDependencies,
                           CUgraphNodeParams *nodeParams) {
  return add_any(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) { return set_any(hNode, nodeParams); }

CUresult cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  return set_any(hNode, nodeParams);
}

CUresult cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  NodePtr node;
  SIM_RETURN_FAILURE(find_node(hNode, node));
  SIM_REQUIRE(nodeParams != nullptr);
  SIM_RETURN_FAILURE(check_readable(*node));
  *nodeParams = {};
  nodeParams->type = node->type;
  node->params->write(*nodeParams);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  ExecPtr exec;
  ExecNode *node = nullptr;
  ParamsPtr params;
  SIM_REQUIRE(nodeParams != nullptr);
  SIM_RETURN_FAILURE(find_exec_node(hGraphExec, hNode, exec, node));
  const NodeType *type = find_node_type(nodeParams->type);
  if (type != nullptr && type->change_in_exec != nullptr)
    return type->change_in_exec(*exec, *node, *nodeParams);
  if (node->type != nodeParams->type)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(read_other(nullptr, node->type, *node->params, *nodeParams, params));
  return replace_params(*exec, *node, std::move(params));
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
  ExecPtr exec;
  ExecNode *node = nullptr;
  SIM_RETURN_FAILURE(find_exec_node(hGraphExec, hNode, exec, node));
  if (!find_node_type(node->type)->can_be_disabled)
    return CUDA_ERROR_INVALID_VALUE;
  node->enabled = isEnabled != 0;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled) {
  ExecPtr exec;
  ExecNode *node = nullptr;
  SIM_RETURN_FAILURE(find_exec_node(hGraphExec, hNode, exec, node));
  if (!find_node_type(node->type)->can_be_disabled || isEnabled == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *isEnabled = node->enabled;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
