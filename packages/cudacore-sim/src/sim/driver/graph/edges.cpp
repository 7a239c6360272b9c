/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and changes of nodes and edges. */
#include "sim/driver/graph/graph.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

constexpr CUgraphEdgeData ordinary{};

/* Whether an edge between nodes of these types can have these annotations. */
bool is_edge(const CUgraphEdgeData &data, CUgraphNodeType from, CUgraphNodeType to) {
  return may_leave(data, from) && (is_default(data) || to == CU_GRAPH_NODE_TYPE_KERNEL);
}

const Edge *find_edge(const GraphNode &from, const GraphNode &to) {
  bool forward = from.after.size() < to.before.size();
  const std::vector<Edge> &edges = forward ? from.after : to.before;
  const GraphNode *wanted = forward ? &to : &from;
  auto found = std::find_if(edges.begin(), edges.end(), [&](const Edge &edge) { return edge.node == wanted; });
  return found != edges.end() ? &*found : nullptr;
}

void erase_edge(std::vector<Edge> &edges, const GraphNode *node) {
  edges.erase(std::find_if(edges.begin(), edges.end(), [&](const Edge &edge) { return edge.node == node; }));
}

/*
 * Copies a list to the caller's array, as far as it fits, and clears the rest of the array. Without an array, returns
 * only the size of the list. An array of no items is refused.
 */
template <class Item> CUresult give(const std::vector<Item> &items, Item *out, size_t *count) {
  if (out != nullptr && *count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = items.size();
    return CUDA_SUCCESS;
  }
  size_t copied = std::min(*count, items.size());
  std::copy_n(items.begin(), copied, out);
  std::fill(out + copied, out + *count, Item{});
  *count = copied;
  return CUDA_SUCCESS;
}

CUresult give_edges(const std::vector<Edge> &edges, CUgraphNode *nodes, CUgraphEdgeData *data, bool with_data,
                    size_t *count) {
  if (count == nullptr || (nodes == nullptr && data != nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  size_t returned = nodes != nullptr ? std::min(*count, edges.size()) : 0;
  bool is_lossy = std::any_of(edges.begin(), edges.begin() + static_cast<std::ptrdiff_t>(returned),
                              [](const Edge &edge) { return !is_default(edge.data); });
  if (is_lossy && (!with_data || data == nullptr))
    return CUDA_ERROR_LOSSY_QUERY;
  std::vector<CUgraphNode> handles;
  std::vector<CUgraphEdgeData> annotations;
  for (const Edge &edge : edges) {
    handles.push_back(handle_of_node(*edge.node));
    annotations.push_back(edge.data);
  }
  size_t wanted = *count;
  if (data != nullptr)
    give(annotations, data, &wanted);
  return give(handles, nodes, count);
}

/* Returns the edges of a node in one direction: `which` is GraphNode::before or GraphNode::after. */
CUresult neighbours(std::vector<Edge> GraphNode::*which, CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
                    bool with_data, size_t *count) {
  NodePtr node;
  SIM_RETURN_FAILURE(find_node(handle, node));
  return give_edges((*node).*which, nodes, data, with_data, count);
}

CUresult edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, bool with_data,
               size_t *count) {
  GraphPtr graph;
  SIM_RETURN_FAILURE(find_graph(handle, graph));
  if (count == nullptr || (from == nullptr) != (to == nullptr) || (from == nullptr && data != nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> before, after;
  std::vector<CUgraphEdgeData> annotations;
  bool is_lossy = false;
  for (const auto &[id, node] : graph->nodes)
    for (const Edge &edge : node->after) {
      is_lossy |= !is_default(edge.data) && (from == nullptr || before.size() < *count);
      before.push_back(handle_of_node(*node));
      after.push_back(handle_of_node(*edge.node));
      annotations.push_back(edge.data);
    }
  if (is_lossy && from != nullptr && (!with_data || data == nullptr))
    return CUDA_ERROR_LOSSY_QUERY;
  size_t wanted = *count;
  if (data != nullptr)
    give(annotations, data, &wanted);
  wanted = *count;
  if (to != nullptr)
    give(after, to, &wanted);
  return give(before, from, count);
}

struct Pair {
  NodePtr from, to;
  CUgraphEdgeData data;
};

/* Checks all edges, then calls change(pair) for each, until it fails. Earlier changes remain. */
template <class Change>
CUresult change_edges(const GraphPtr &graph, const CUgraphNode *from, const CUgraphNode *to,
                      const CUgraphEdgeData *data, size_t count, Change change) {
  std::vector<Pair> pairs;
  if (count != 0 && (from == nullptr || to == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    Pair pair{nullptr, nullptr, data != nullptr ? data[i] : ordinary};
    SIM_RETURN_FAILURE(find_node(from[i], pair.from));
    SIM_RETURN_FAILURE(find_node(to[i], pair.to));
    if (pair.from->graph != graph.get() || pair.to->graph != graph.get() || pair.from == pair.to)
      return CUDA_ERROR_INVALID_VALUE;
    pairs.push_back(std::move(pair));
  }
  for (const Pair &pair : pairs)
    SIM_RETURN_FAILURE(change(pair));
  return CUDA_SUCCESS;
}

CUresult add(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
             size_t count) {
  GraphPtr graph;
  SIM_RETURN_FAILURE(find_graph(handle, graph));
  return change_edges(graph, from, to, data, count, [](const Pair &pair) {
    if (find_edge(*pair.from, *pair.to) != nullptr || !is_edge(pair.data, pair.from->type, pair.to->type))
      return CUDA_ERROR_INVALID_VALUE;
    pair.from->after.push_back({pair.to.get(), pair.data});
    pair.to->before.push_back({pair.from.get(), pair.data});
    return CUDA_SUCCESS;
  });
}

CUresult remove(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
                size_t count) {
  GraphPtr graph;
  SIM_RETURN_FAILURE(find_graph(handle, graph));
  if (graph->has_memory_nodes)
    return CUDA_ERROR_NOT_SUPPORTED; /* even if no edges are given */
  return change_edges(graph, from, to, data, count, [&](const Pair &pair) {
    const Edge *edge = find_edge(*pair.from, *pair.to);
    /* Without annotations, any edge between the nodes matches. */
    if (edge == nullptr || (data != nullptr && std::memcmp(&edge->data, &pair.data, sizeof pair.data) != 0))
      return CUDA_ERROR_INVALID_VALUE;
    erase_edge(pair.from->after, pair.to.get());
    erase_edge(pair.to->before, pair.from.get());
    return CUDA_SUCCESS;
  });
}

CUresult nodes(CUgraph handle, CUgraphNode *out, size_t *count) {
  GraphPtr graph;
  SIM_RETURN_FAILURE(find_graph(handle, graph));
  SIM_REQUIRE(count != nullptr);
  std::vector<CUgraphNode> found;
  for (const auto &[id, node] : graph->nodes)
    found.push_back(handle_of_node(*node));
  return give(found, out, count);
}

/* Returns the roots of a graph, the newest root first. */
CUresult roots(CUgraph handle, CUgraphNode *out, size_t *count) {
  GraphPtr graph;
  SIM_RETURN_FAILURE(find_graph(handle, graph));
  SIM_REQUIRE(count != nullptr);
  std::vector<CUgraphNode> found;
  for (auto entry = graph->nodes.rbegin(); entry != graph->nodes.rend(); ++entry)
    if (entry->second->before.empty())
      found.push_back(handle_of_node(*entry->second));
  return give(found, out, count);
}

template <class T, class Get> CUresult read(CUgraphNode handle, T *out, Get get) {
  NodePtr node;
  return store(find_node(handle, node), out, [&] { return get(*node); });
}

} // namespace

bool is_default(const CUgraphEdgeData &data) { return std::memcmp(&data, &ordinary, sizeof data) == 0; }

bool may_leave(const CUgraphEdgeData &data, CUgraphNodeType from) {
  if (is_default(data))
    return true;
  bool is_reserved =
      std::any_of(std::begin(data.reserved), std::end(data.reserved), [](auto byte) { return byte != 0; });
  bool is_port = data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
                 data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
  return !is_reserved && data.to_port == 0 && data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && is_port &&
         from == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult read_dependencies(const Graph &graph, const CUgraphNode *nodes, const CUgraphEdgeData *data, size_t count,
                           CUgraphNodeType type, std::vector<Edge> &out) {
  if (nodes == nullptr && count != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<const GraphNode *> seen;
  for (size_t i = 0; i < count; i++) {
    NodePtr node;
    SIM_RETURN_FAILURE(find_node(nodes[i], node));
    Edge edge{node.get(), data != nullptr ? data[i] : ordinary};
    if (node->graph != &graph || !is_edge(edge.data, node->type, type))
      return CUDA_ERROR_INVALID_VALUE;
    out.push_back(edge);
    seen.push_back(node.get());
  }
  std::sort(seen.begin(), seen.end());
  return std::adjacent_find(seen.begin(), seen.end()) == seen.end() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

namespace api {

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
  return sim::nodes(hGraph, nodes, numNodes);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes) {
  return roots(hGraph, rootNodes, numRootNodes);
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges) {
  return edges(hGraph, from, to, nullptr, false, numEdges);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData,
                            size_t *numEdges) {
  return edges(hGraph, from, to, edgeData, true, numEdges);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies) {
  return neighbours(&GraphNode::before, hNode, dependencies, nullptr, false, numDependencies);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
                                       size_t *numDependencies) {
  return neighbours(&GraphNode::before, hNode, dependencies, edgeData, true, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes) {
  return neighbours(&GraphNode::after, hNode, dependentNodes, nullptr, false, numDependentNodes);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData,
                                         size_t *numDependentNodes) {
  return neighbours(&GraphNode::after, hNode, dependentNodes, edgeData, true, numDependentNodes);
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t numDependencies) {
  return add(hGraph, from, to, nullptr, numDependencies);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edgeData, size_t numDependencies) {
  return add(hGraph, from, to, edgeData, numDependencies);
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t numDependencies) {
  return sim::remove(hGraph, from, to, nullptr, numDependencies);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edgeData, size_t numDependencies) {
  return sim::remove(hGraph, from, to, edgeData, numDependencies);
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type) {
  return sim::read(hNode, type, [](const GraphNode &node) { return node.type; });
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph *phGraph) {
  return sim::read(hNode, phGraph, [](const GraphNode &node) { return handle_of_graph(*node.graph); });
}

CUresult cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int *nodeId) {
  return sim::read(hNode, nodeId, [](const GraphNode &node) { return node.id; });
}

CUresult cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long *toolsNodeId) {
  return sim::read(hNode, toolsNodeId, [](const GraphNode &node) {
    return static_cast<unsigned long long>(node.graph->id) << 32 | node.id;
  });
}

} // namespace api
} // namespace sim
