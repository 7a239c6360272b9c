/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: creation, copies, destruction. */
#include "sim/driver/graph/capture.h"

#include "sim/control/report.h"

#include <algorithm>

namespace sim {
namespace {

template <class Found> bool any_node(const Graph &graph, Found found) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto &entry) {
    const GraphNode &node = *entry.second;
    if (found(node))
      return true;
    std::vector<GraphPtr> parts = node.params->graphs();
    return std::any_of(parts.begin(), parts.end(), [&](const GraphPtr &part) { return any_node(*part, found); });
  });
}

void forget_node(const NodePtr &node) {
  for (const GraphPtr &part : node->params->graphs())
    destroy_graph(part);
  node->params->release();
  state().graph_nodes.remove(node->handle);
}

void erase_edge(std::vector<Edge> &edges, const GraphNode *node) {
  auto found = std::find_if(edges.begin(), edges.end(), [&](const Edge &edge) { return edge.node == node; });
  if (found != edges.end())
    edges.erase(found);
}

} // namespace

Graph &Graph::root() const { return owner != nullptr ? owner->graph->root() : const_cast<Graph &>(*this); }

CUresult find_graph(CUgraph handle, GraphPtr &out) {
  return find_object(state().graphs, Kind::graph, handle, out) == CUDA_SUCCESS ? CUDA_SUCCESS
                                                                               : CUDA_ERROR_INVALID_VALUE;
}

CUresult find_node(CUgraphNode handle, NodePtr &out) {
  return find_object(state().graph_nodes, Kind::graph_node, handle, out) == CUDA_SUCCESS ? CUDA_SUCCESS
                                                                                         : CUDA_ERROR_INVALID_VALUE;
}

GraphPtr new_graph(GraphNode *owner) {
  auto graph = std::make_shared<Graph>();
  graph->owner = owner;
  graph->id = state().next_graph_id++;
  graph->handle = state().graphs.add(graph);
  return graph;
}

void destroy_graph(const GraphPtr &graph) {
  if (graph->lost) {
    report(std::string(symbol_of(Call::current().entry)) +
           " destroyed a graph around a body that a failed capture had destroyed: here the driver crashes");
    return;
  }
  for (const auto &[id, node] : graph->nodes)
    forget_node(node);
  graph->nodes.clear();
  for (const std::shared_ptr<Capture> &capture : state().captures)
    if (capture->graph == graph)
      invalidate(*capture);
  graph->references.clear(); /* events of the graph's capture keep the object alive */
  state().graphs.remove(graph->handle);
}

void destroy_graph_node(const NodePtr &node) {
  for (const Edge &edge : node->before)
    erase_edge(edge.node->after, node.get());
  for (const Edge &edge : node->after)
    erase_edge(edge.node->before, node.get());
  forget_node(node);
  node->graph->nodes.erase(node->id);
}

NodePtr add_node(Graph &graph, CUgraphNodeType type, ParamsPtr params, const std::vector<Edge> &before) {
  auto node = std::make_shared<GraphNode>();
  node->graph = &graph;
  node->id = graph.next_id++;
  node->type = type;
  node->handle = state().graph_nodes.add(node);
  node->before = before;
  graph.nodes.emplace_hint(graph.nodes.end(), node->id, node);
  for (const Edge &edge : before)
    edge.node->after.push_back({node.get(), edge.data});
  if (params != nullptr)
    set_params(*node, std::move(params));
  graph.has_memory_nodes |= find_node_type(type)->has_memory;
  return node;
}

void set_params(GraphNode &node, ParamsPtr params) {
  node.params = std::move(params);
  for (const GraphPtr &part : node.params->graphs())
    part->owner = &node;
}

bool has_memory(const Graph &graph) {
  return any_node(graph, [](const GraphNode &node) { return find_node_type(node.type)->has_memory; });
}

bool has_conditions(const Graph &graph) {
  return !graph.conditions.empty() ||
         any_node(graph, [](const GraphNode &node) { return node.type == CU_GRAPH_NODE_TYPE_CONDITIONAL; });
}

namespace {

bool is_lost(const GraphNode &node) { return node.params->is_lost(); }

CUresult report_lost_kernel() {
  report(std::string(symbol_of(Call::current().entry)) +
         " was given a kernel node whose context was destroyed: here the driver crashes");
  return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

} // namespace

CUresult check_readable(const GraphNode &node) {
  if (!is_lost(node))
    return CUDA_SUCCESS;
  ContextPtr current = current_context();
  return current != nullptr && current->destroyed ? CUDA_ERROR_NOT_FOUND : report_lost_kernel();
}

CUresult check_kernels(const Graph &graph) { return any_node(graph, is_lost) ? report_lost_kernel() : CUDA_SUCCESS; }

CUresult clone_graph(const Graph &graph, GraphNode *owner, GraphPtr &out) {
  out = new_graph(owner);
  graph.copies.push_back(out);
  std::unordered_map<const GraphNode *, NodePtr> copies;
  for (const auto &[id, node] : graph.nodes) {
    NodePtr copy = add_node(*out, node->type, nullptr, {});
    ParamsPtr params;
    copies[node.get()] = copy;
    out->origin[node->handle] = copy->handle;
    copy->params = node->params;
    SIM_RETURN_FAILURE(node->params->clone(*copy, params));
    if (params != nullptr)
      set_params(*copy, std::move(params));
  }
  for (const auto &[id, node] : graph.nodes) {
    NodePtr &copy = copies[node.get()];
    for (const Edge &edge : node->before)
      copy->before.push_back({copies[edge.node].get(), edge.data});
    for (const Edge &edge : node->after)
      copy->after.push_back({copies[edge.node].get(), edge.data});
  }
  out->references.add(graph.references);
  return CUDA_SUCCESS;
}

bool sort_nodes(const Graph &graph, std::vector<const GraphNode *> &out) {
  std::unordered_map<const GraphNode *, size_t> waiting;
  out.clear();
  for (const auto &[id, node] : graph.nodes)
    if (node->before.empty())
      out.push_back(node.get());
    else
      waiting[node.get()] = node->before.size();
  for (size_t i = 0; i < out.size(); i++)
    for (const Edge &edge : out[i]->after)
      if (--waiting[edge.node] == 0)
        out.push_back(edge.node);
  return out.size() == graph.nodes.size();
}

namespace api {

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags) {
  if (phGraph == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *phGraph = handle_of_graph(*new_graph(nullptr));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph) {
  GraphPtr graph;
  SIM_RETURN_FAILURE(find_graph(hGraph, graph));
  if (graph->owner != nullptr)
    return CUDA_ERROR_INVALID_VALUE; /* the graph is destroyed with its node */
  if (graph->captures > 0) {
    report("cuGraphDestroy was given a graph that a capture goes into");
    return CUDA_ERROR_INVALID_VALUE;
  }
  destroy_graph(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph) {
  GraphPtr graph, copy;
  SIM_RETURN_FAILURE(find_graph(originalGraph, graph));
  SIM_REQUIRE(phGraphClone != nullptr);
  bool is_body = graph->owner != nullptr && graph->owner->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
  if (is_body || has_memory(*graph) || has_conditions(*graph))
    return CUDA_ERROR_NOT_SUPPORTED;
  SIM_RETURN_FAILURE(check_kernels(*graph));
  SIM_RETURN_FAILURE(clone_graph(*graph, nullptr, copy));
  *phGraphClone = handle_of_graph(*copy);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
  NodePtr original;
  GraphPtr graph;
  SIM_RETURN_FAILURE(find_node(hOriginalNode, original));
  SIM_RETURN_FAILURE(find_graph(hClonedGraph, graph));
  SIM_REQUIRE(phNode != nullptr);
  auto found = graph->origin.find(original->handle);
  if (found == graph->origin.end() || state().graph_nodes.peek(found->second) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *phNode = handle_of<CUgraphNode>(found->second);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode hNode) {
  NodePtr node;
  SIM_RETURN_FAILURE(find_node(hNode, node));
  auto goes_into = [&](const CapturePtr &one) { return !one->owns_graph && one->graph.get() == node->graph; };
  if (std::any_of(state().captures.begin(), state().captures.end(), goes_into))
    return CUDA_ERROR_ILLEGAL_STATE; /* a graph that existed before it was captured into */
  if (node->graph->has_memory_nodes)
    return CUDA_ERROR_NOT_SUPPORTED;
  destroy_graph_node(node);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetId(CUgraph hGraph, unsigned int *graphId) {
  GraphPtr graph;
  return store(find_graph(hGraph, graph), graphId, [&] { return graph->id; });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
  GraphPtr found;
  UserObjectPtr retained;
  SIM_RETURN_FAILURE(find_graph(graph, found));
  SIM_RETURN_FAILURE(find_user_object(object, count, retained));
  SIM_REQUIRE((flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)) == 0);
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0)
    retain(*retained, count);
  found->references.add(retained, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  GraphPtr found;
  UserObjectPtr released;
  SIM_RETURN_FAILURE(find_graph(graph, found));
  SIM_RETURN_FAILURE(find_user_object(object, count, released));
  return found->references.remove(released, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace api
} // namespace sim
