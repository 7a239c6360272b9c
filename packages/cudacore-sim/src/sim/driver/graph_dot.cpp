/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text for Graphviz. */
#include "graph.h"

#include "../control/report.h"

#include <cstdio>
#include <string>

namespace sim {
namespace {

constexpr unsigned known_flags = CU_GRAPH_DEBUG_DOT_FLAGS_FABRIC_CPY_BATCH_NODE_PARAMS * 2 - 1;

const char *name_of(CUgraphNodeType type) {
  switch (static_cast<int>(type)) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return "KERNEL";
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return "MEMCPY";
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return "MEMSET";
  case CU_GRAPH_NODE_TYPE_HOST:
    return "HOST";
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return "GRAPH";
  case CU_GRAPH_NODE_TYPE_EMPTY:
    return "EMPTY";
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return "WAIT_EVENT";
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return "EVENT_RECORD";
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    return "MEM_ALLOC";
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    return "MEM_FREE";
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return "CONDITIONAL";
  default:
    return "UNKNOWN";
  }
}

class Dot {
public:
  Dot(std::FILE *file, unsigned flags) : file(file), flags(flags) {}

  void write(const Graph &graph) {
    std::fprintf(file, "digraph dot {\n");
    write_graph(graph);
    std::fprintf(file, "}\n");
  }

private:
  bool wants(unsigned flag) const { return (flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0; }

  static std::string id(const GraphNode &node) {
    return "\"graph_" + std::to_string(node.graph->id) + "_node_" + std::to_string(node.id) + "\"";
  }

  std::string label(const GraphNode &node) const {
    std::string text = std::to_string(node.id) + "\\n" + name_of(node.type);
    if (const auto *kernel = std::get_if<KernelParams>(node.params.get())) {
      const Dim3 &grid = kernel->request.grid, &block = kernel->request.block;
      text += "\\n" + kernel->what.info().name;
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
        text += "\\n<<<{" + std::to_string(grid[0]) + "," + std::to_string(grid[1]) + "," + std::to_string(grid[2]) +
                "},{" + std::to_string(block[0]) + "," + std::to_string(block[1]) + "," + std::to_string(block[2]) +
                "}," + std::to_string(kernel->request.dynamic_shared) + ">>>";
    } else if (const auto *copy = std::get_if<MemcpyParams>(node.params.get())) {
      auto place = [](CUmemorytype type) { return type == CU_MEMORYTYPE_HOST ? "H" : "D"; };
      text += std::string("\\n(") + place(copy->fields.srcMemoryType) + "to" + place(copy->fields.dstMemoryType) + "," +
              std::to_string(copy->shape.width * copy->shape.height * copy->shape.depth) + ")";
    } else if (const auto *fill = std::get_if<MemsetParams>(node.params.get())) {
      const CUDA_MEMSET_NODE_PARAMS_v2 &fields = fill->fields;
      text += "\\n(" + hex(fields.dst) + "," + std::to_string(fields.value) + "," +
              std::to_string(fields.width * fields.elementSize * fields.height) + ")";
    } else if (const auto *alloc = std::get_if<AllocParams>(node.params.get())) {
      text += "\\n(" + hex(alloc->fields.dptr) + "," + std::to_string(alloc->fields.bytesize) + ")";
    } else if (const auto *freed = std::get_if<FreeParams>(node.params.get())) {
      text += "\\n(" + hex(freed->address) + ")";
    }
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      text += "\\n" + hex(node.handle);
    return text;
  }

  void write_graph(const Graph &graph) {
    std::fprintf(file, "subgraph cluster_%u {\nlabel=\"graph_%u\" graph[style=\"dashed\"];\n", graph.id, graph.id);
    for (const auto &[number, node] : graph.nodes)
      std::fprintf(file, "%s[style=\"solid\" shape=\"rectangle\" label=\"%s\"];\n", id(*node).c_str(),
                   label(*node).c_str());
    for (const auto &[number, node] : graph.nodes)
      for (const Edge &edge : node->after)
        std::fprintf(file, "%s -> %s;\n", id(*node).c_str(), id(*edge.node).c_str());
    std::fprintf(file, "}\n");
    for (const auto &[number, node] : graph.nodes) {
      if (const auto *child = std::get_if<ChildParams>(node->params.get()))
        write_graph(*child->graph);
      if (const auto *conditional = std::get_if<ConditionalParams>(node->params.get()))
        for (const GraphPtr &body : conditional->bodies)
          write_graph(*body);
    }
  }

  std::FILE *file;
  unsigned flags;
};

} // namespace

namespace api {

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags) {
  GraphPtr graph;
  if (CUresult result = find_graph(hGraph, graph))
    return result;
  if (path == nullptr || (flags & ~known_flags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::FILE *file = std::fopen(path, "w");
  if (file == nullptr)
    return CUDA_ERROR_OPERATING_SYSTEM;
  Dot(file, flags).write(*graph);
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

} // namespace api
} // namespace sim
