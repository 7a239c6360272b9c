/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_NODES_NODE_H
#define CUDACORE_SIM_DRIVER_GRAPH_NODES_NODE_H

#include "sim/driver/graph/dot.h"
#include "sim/driver/graph/exec.h"
#include "sim/driver/graph/nodes.h"

#include <algorithm>
#include <cstring>

/*
 * The common part of the entry points for one type of node: adding a node, reading and changing its parameters, and
 * changing them in an executable graph.
 *
 * `Read` checks the application's parameters: CUresult(const Graph *into, const Params *old, ParamsPtr &out), with the
 * arguments of NodeType::read.
 */
namespace sim {

/*
 * The given context of a node, which can be green, or the current one if none is given. If no context is current,
 * instantiation fails.
 */
inline CUresult find_node_owner(CUcontext handle, ContextPtr &out) {
  ContextPtr home;
  out = handle != nullptr ? state().contexts.find(value_of(handle)) : current_context();
  return handle != nullptr ? find_context(handle, home) : CUDA_SUCCESS;
}

template <class Read>
CUresult add_one(CUgraphNodeType type, CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t count,
                 Read read) {
  GraphPtr graph;
  std::vector<Edge> before;
  ParamsPtr params;
  SIM_RETURN_FAILURE(find_graph(handle, graph));
  SIM_REQUIRE(out != nullptr);
  SIM_RETURN_FAILURE(read_dependencies(*graph, dependencies, nullptr, count, type, before));
  SIM_RETURN_FAILURE(read(graph.get(), nullptr, params));
  *out = handle_of_node(*add_node(*graph, type, std::move(params), before));
  return CUDA_SUCCESS;
}

/* NodeType::read of a type that is not simulated. */
CUresult read_unsupported(const Graph *into, const Params *old, CUgraphNodeParams &from, ParamsPtr &out);

/* Finds a node of a type. */
CUresult find_node_of(CUgraphNodeType type, CUgraphNode handle, NodePtr &out);

/* Calls write(params, *out) with the parameters of a node. */
template <class T, class Out, class Write>
CUresult get_one(CUgraphNodeType type, CUgraphNode handle, Out *out, Write write) {
  NodePtr node;
  SIM_RETURN_FAILURE(find_node_of(type, handle, node));
  SIM_REQUIRE(out != nullptr);
  SIM_RETURN_FAILURE(check_readable(*node));
  write(as<T>(node->params), *out);
  return CUDA_SUCCESS;
}

template <class Read> CUresult set_one(CUgraphNodeType type, CUgraphNode handle, Read read) {
  NodePtr node;
  ParamsPtr params;
  SIM_RETURN_FAILURE(find_node_of(type, handle, node));
  SIM_RETURN_FAILURE(read(node->graph, node->params.get(), params));
  set_params(*node, std::move(params));
  return CUDA_SUCCESS;
}

template <class Read>
CUresult set_in_exec(CUgraphNodeType type, CUgraphExec exec_handle, CUgraphNode handle, Read read) {
  ExecPtr exec;
  ExecNode *node = nullptr;
  ParamsPtr params;
  SIM_RETURN_FAILURE(find_exec_node(exec_handle, handle, exec, node));
  if (node->type != type)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(read(nullptr, node->params.get(), params));
  return replace_params(*exec, *node, std::move(params));
}

} // namespace sim

#endif
