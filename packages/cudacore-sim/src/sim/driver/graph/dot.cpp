/* SPDX-License-Identifier: Apache-2.0 */
/* Writes graphs for Graphviz, with the same text as the driver. */
#include "sim/driver/graph/dot.h"

#include <cstdio>
#include <string>

namespace sim {
namespace {

/* Writes a graph and all graphs in it. */
class Dot {
public:
  Dot(std::FILE *file, unsigned flags) : file(file), flags(flags) {}

  void write(const Graph &graph) {
    std::fprintf(file, "digraph dot {\n");
    write_graph(graph);
    std::fprintf(file, "}\n");
  }

private:
  static std::string id(const GraphNode &node) {
    return "\"graph_" + dot_number(node.graph->id) + "_node_" + dot_number(node.id) + "\"";
  }

  void write_graph(const Graph &graph) {
    std::vector<const GraphNode *> order;
    sort_nodes(graph, order);
    for (const auto &[number, node] : graph.nodes)
      places[node.get()] = 0;
    for (size_t i = 0; i < order.size(); i++)
      places[order[i]] = order.size() - 1 - i;
    std::fprintf(file, "subgraph cluster_%u {\nlabel=\"graph_%u\" graph[style=\"dashed\"];\n", graph.id, graph.id);
    for (const auto &[number, node] : graph.nodes)
      std::fprintf(file, "%s%s;\n\n", id(*node).c_str(),
                   node->params->describe(DotNode(*node, flags, places.at(node.get()))).c_str());
    for (const auto &[number, node] : graph.nodes)
      for (const Edge &edge : node->after)
        std::fprintf(file, "%s -> %s%s;\n", id(*node).c_str(), id(*edge.node).c_str(), head(*node, *edge.node).c_str());
    std::fprintf(file, "}\n");
    for (const auto &[number, node] : graph.nodes)
      for (const GraphPtr &part : node->params->graphs())
        write_graph(*part);
  }

  /* The number of an edge among the edges to its target. */
  std::string head(const GraphNode &from, const GraphNode &to) const {
    if (!DotNode(to, flags, 0).wants(CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
      return "";
    size_t place = 0;
    while (to.before[place].node != &from)
      place++;
    return " [headlabel=" + dot_number(place) + "]";
  }

  std::FILE *file;
  unsigned flags;
  std::unordered_map<const GraphNode *, size_t> places;
};

} // namespace

std::string dot_number(uint64_t value) { return std::to_string(value); }

std::string dot_address(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016llX", static_cast<unsigned long long>(value));
  return text;
}

std::string DotNode::identity() const {
  std::string text = dot_number(node.id);
  if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
    text += " (topoId: " + dot_number(place) + ")";
  return text;
}

std::string DotNode::handle_line() const {
  return wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES) ? "node handle: " + dot_address(node.handle) + "\n" : "";
}

std::string DotNode::rectangle(const std::string &title, const std::string &lines) const {
  return "[style=\"solid\" shape=\"rectangle\" label=\"" + identity() + "\n" + title + "\n" + handle_line() + lines +
         "\"]";
}

namespace api {

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags) {
  GraphPtr graph;
  SIM_RETURN_FAILURE(find_graph(hGraph, graph));
  SIM_REQUIRE(path != nullptr);
  std::FILE *file = std::fopen(path, "w");
  if (file == nullptr)
    return CUDA_ERROR_OPERATING_SYSTEM;
  Dot(file, flags).write(*graph);
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

} // namespace api
} // namespace sim
