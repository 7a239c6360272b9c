/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text for Graphviz, in the driver's words. */
#include "sim/driver/graph/graph.h"

#include "sim/control/report.h"

#include <cstdio>
#include <string>

namespace sim {
namespace {

std::string number(uint64_t value) { return std::to_string(value); }

std::string address(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016llX", static_cast<unsigned long long>(value));
  return text;
}

std::string address(const void *value) { return address(value_of(value)); }

const char *words_for(CUmemorytype type) {
  switch (static_cast<int>(type)) {
  case CU_MEMORYTYPE_HOST:
    return "HOST";
  case CU_MEMORYTYPE_UNIFIED:
    return "UNIFIED";
  default:
    return "DEVICE";
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
    return "\"graph_" + number(node.graph->id) + "_node_" + number(node.id) + "\"";
  }

  /* The number of a node, and its place from the last one. */
  std::string identity(const GraphNode &node) const {
    std::string text = number(node.id);
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
      text += " (topoId: " + number(places.at(&node)) + ")";
    return text;
  }

  std::string handle(const GraphNode &node) const {
    return wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES) ? "node handle: " + address(node.handle) + "\n" : "";
  }

  std::string kernel(const GraphNode &node, const KernelParams &params) const {
    const std::string &name = params.what.info().name;
    if (!wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
      return "[style=\"bold\" shape=\"octagon\" label=\"" + identity(node) + "\n" + name + "\n" + handle(node) + "\"]";
    const Dim3 &grid = params.request.grid, &block = params.request.block;
    auto triple = [](const Dim3 &of) {
      std::string text = number(of[0]);
      if (of[1] != 1 || of[2] != 1)
        text = "\\{" + text + "," + number(of[1]) + (of[2] != 1 ? "," + number(of[2]) : "") + "\\}";
      return text;
    };
    auto value_of_attribute = [&](CUlaunchAttributeID attribute) {
      auto found = params.attributes.find(attribute);
      return found != params.attributes.end() ? found->second : CUlaunchAttributeValue{};
    };
    std::string text = "[style=\"bold\" shape=\"record\" label=\"{KERNEL\n| {ID | " + identity(node) + " | " + name +
                       "\\<\\<\\<" + triple(grid) + "," + triple(block) + "," + number(params.request.dynamic_shared) +
                       "\\>\\>\\>}\n";
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      text += "| {{node handle | func handle} | {" + address(node.handle) + " | " + address(params.function) + "}}\n";
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES)) {
      CUaccessPolicyWindow window = value_of_attribute(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW).accessPolicyWindow;
      text += "| {accessPolicyWindow | {base_ptr | num_bytes | hitRatio | hitProp | missProp} | {" +
              address(window.base_ptr) + " | " + number(window.num_bytes) + " | " +
              std::to_string(static_cast<double>(window.hitRatio)) + " | N | N}}\n| {cooperative | " +
              std::to_string(value_of_attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative) + "}\n| {priority | " +
              std::to_string(value_of_attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY).priority) + "}\n";
    }
    return text + "}\"]";
  }

  std::string memset(const GraphNode &node, const MemsetParams &params) const {
    const CUDA_MEMSET_NODE_PARAMS_v2 &fields = params.fields;
    if (!wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
      return "[style=\"solid\" shape=\"invtrapezium\"label=\"" + identity(node) + "\nMEMSET\n(" + number(fields.value) +
             "," + number(fields.width * fields.elementSize * fields.height) + ")\n" + handle(node) + "\"]";
    return "[style=\"solid\" style=\"solid\" shape=\"record\" label=\"{MEMSET\n| {{ID | node handle | dptr | pitch | "
           "value | elementSize | width | height} | {" +
           identity(node) + " | " + address(node.handle) + " | " + address(fields.dst) + " | " + number(fields.pitch) +
           " | " + number(fields.value) + " | " + number(fields.elementSize) + " | " + number(fields.width) + " | " +
           number(fields.height) + "}}}\"]";
  }

  static std::string side(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t z,
                          size_t pitch, size_t height) {
    return std::string(words_for(type)) + " (" + words_for(type) + ") | " + address(nullptr) + " | " + address(host) +
           " | " + address(device) + " | " + number(x) + " | " + number(y) + " | " + number(z) + " | " + number(pitch) +
           " | " + number(height) + " | 0";
  }

  std::string memcpy(const GraphNode &node, const MemcpyParams &params) const {
    const CUDA_MEMCPY3D &f = params.fields;
    if (!wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS)) {
      auto letter = [](CUmemorytype type) { return std::string(1, *words_for(type)); };
      return "[style=\"solid\" shape=\"trapezium\"label=\"" + identity(node) + "\nMEMCPY\n(" + letter(f.srcMemoryType) +
             "to" + letter(f.dstMemoryType) + "," +
             number(params.shape.width * params.shape.height * params.shape.depth) + ")\n" + handle(node) + "\"]";
    }
    const std::string fields = "MemoryType | Array | Host | Device | XInBytes | Y | Z | Pitch | Height"
                               " | LOD"; /* codespell:ignore */
    return "[style=\"solid\" shape=\"record\" label=\"{\nMEMCPY\n| {{ID | node handle} | {" + identity(node) + " | " +
           address(node.handle) + "}}\n| {{src | dst} | { " + fields + " | " + fields + "} | {" +
           side(f.srcMemoryType, f.srcHost, f.srcDevice, f.srcXInBytes, f.srcY, f.srcZ, f.srcPitch, f.srcHeight) +
           " | " +
           side(f.dstMemoryType, f.dstHost, f.dstDevice, f.dstXInBytes, f.dstY, f.dstZ, f.dstPitch, f.dstHeight) +
           "}}\n| {Extent | {WidthInBytes | Height | Depth} | {" + number(f.WidthInBytes) + " | " + number(f.Height) +
           " | " + number(f.Depth) + "}}\n}\"]";
  }

  std::string plain(const GraphNode &node, const std::string &text) const {
    return "[style=\"solid\" shape=\"rectangle\" label=\"" + identity(node) + "\n" + text + "\n" + handle(node);
  }

  std::string description(const GraphNode &node) const {
    const Params *params = node.params.get();
    if (const auto *of = std::get_if<KernelParams>(params))
      return kernel(node, *of);
    if (const auto *of = std::get_if<MemsetParams>(params))
      return memset(node, *of);
    if (const auto *of = std::get_if<MemcpyParams>(params))
      return memcpy(node, *of);
    if (const auto *of = std::get_if<ChildParams>(params))
      return plain(node, "graph_" + number(of->graph->id)) + "\"]";
    if (const auto *of = std::get_if<HostParams>(params)) {
      std::string text = plain(node, "HOST");
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
        text += "fn: " + address(reinterpret_cast<const void *>(of->fields.fn)) +
                "\nuserData: " + address(of->fields.userData) + "\n";
      return text + "\"]";
    }
    if (const auto *of = std::get_if<EventParams>(params)) {
      bool is_record = node.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
      std::string text = plain(node, is_record ? "EVENT_RECORD" : "EVENT_WAIT");
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
        text += "event: " + address(of->handle) + "\n";
      return text + "\"]";
    }
    if (const auto *of = std::get_if<AllocParams>(params)) {
      std::string text = plain(node, "MEM_ALLOC");
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
        text += "bytesize: " + number(of->fields.bytesize) + "\ndptr: " + address(of->fields.dptr) + "\n";
      return text + "\"]";
    }
    if (const auto *of = std::get_if<FreeParams>(params)) {
      std::string text = plain(node, "MEM_FREE");
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
        text += "dptr: " + address(of->address) + "\n";
      return text + "\"]";
    }
    if (const auto *of = std::get_if<ConditionalParams>(params)) {
      static constexpr const char *types[] = {"IF", "WHILE", "SWITCH"};
      std::string text = plain(node, "CONDITIONAL");
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS))
        text += std::string("type: ") + types[of->fields.type] + "\nhandle: " + address(of->fields.handle) + "\n";
      for (const GraphPtr &body : of->bodies)
        text += "graph_" + number(body->id) + "\n";
      return text + "\"]";
    }
    return plain(node, std::holds_alternative<ValueParams>(*params) ? "BATCH_MEM_OP" : "EMPTY") + "\"]";
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
      std::fprintf(file, "%s%s;\n\n", id(*node).c_str(), description(*node).c_str());
    for (const auto &[number, node] : graph.nodes)
      for (const Edge &edge : node->after)
        std::fprintf(file, "%s -> %s%s;\n", id(*node).c_str(), id(*edge.node).c_str(), head(*node, *edge.node).c_str());
    std::fprintf(file, "}\n");
    for (const auto &[number, node] : graph.nodes) {
      if (const auto *child = std::get_if<ChildParams>(node->params.get()))
        write_graph(*child->graph);
      if (const auto *conditional = std::get_if<ConditionalParams>(node->params.get()))
        for (const GraphPtr &body : conditional->bodies)
          write_graph(*body);
    }
  }

  /* The number of an edge among those that come to its node. */
  std::string head(const GraphNode &from, const GraphNode &to) const {
    if (!wants(CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
      return "";
    size_t place = 0;
    while (to.before[place].node != &from)
      place++;
    return " [headlabel=" + number(place) + "]";
  }

  std::FILE *file;
  unsigned flags;
  std::unordered_map<const GraphNode *, size_t> places;
};

} // namespace

namespace api {

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags) {
  GraphPtr graph;
  if (CUresult result = find_graph(hGraph, graph))
    return result;
  if (path == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::FILE *file = std::fopen(path, "w");
  if (file == nullptr)
    return CUDA_ERROR_OPERATING_SYSTEM;
  Dot(file, flags).write(*graph);
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

} // namespace api
} // namespace sim
