/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that call a function of the application. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

constexpr CUgraphNodeType type = CU_GRAPH_NODE_TYPE_HOST;

struct HostParams : Params {
  explicit HostParams(const CUDA_HOST_NODE_PARAMS_v2 &fields) : fields(fields) {}

  const CUDA_HOST_NODE_PARAMS_v2 fields;

  void write(CUgraphNodeParams &out) const override { out.host = fields; }

  CUresult submit(const LaunchPtr &launch, const ExecNode &, std::vector<UnitPtr> before, UnitPtr &out) const override {
    out = new_unit("host function of a graph", launch->context, [function = fields.fn, data = fields.userData] {
      CallbackScope scope("a host function");
      function(data);
    });
    out->of_application = true;
    submit_unit(launch, out, before);
    return CUDA_SUCCESS;
  }

  std::string describe(const DotNode &node) const override {
    std::string lines;
    if (node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
      lines = "fn: " + dot_address(reinterpret_cast<const void *>(fields.fn)) +
              "\nuserData: " + dot_address(fields.userData) + "\n";
    return node.rectangle("HOST", lines);
  }
};

CUresult read_fields(const CUDA_HOST_NODE_PARAMS_v2 &from, ParamsPtr &out) {
  if (from.fn == nullptr || from.syncMode > 1)
    return CUDA_ERROR_INVALID_VALUE;
  out = std::make_shared<HostParams>(from);
  return CUDA_SUCCESS;
}

auto reader(const CUDA_HOST_NODE_PARAMS *from) {
  return [from](const Graph *, const Params *, ParamsPtr &out) {
    if (from == nullptr || from->fn == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    out = make_host(from->fn, from->userData);
    return CUDA_SUCCESS;
  };
}

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = type;
  row.bytes = sizeof(CUDA_HOST_NODE_PARAMS_v2);
  row.read = [](const Graph *, const Params *, CUgraphNodeParams &from, ParamsPtr &out) {
    return read_fields(from.host, out);
  };
  return row;
}());

} // namespace

ParamsPtr make_host(CUhostFn function, void *data) {
  CUDA_HOST_NODE_PARAMS_v2 fields{};
  fields.fn = function;
  fields.userData = data;
  return std::make_shared<HostParams>(fields);
}

namespace api {

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                            size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  return add_one(type, phGraphNode, hGraph, dependencies, numDependencies, reader(nodeParams));
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams) {
  return get_one<HostParams>(type, hNode, nodeParams, [](const HostParams &params, auto &out) {
    out = {params.fields.fn, params.fields.userData};
  });
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  return set_one(type, hNode, reader(nodeParams));
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS *nodeParams) {
  return set_in_exec(type, hGraphExec, hNode, reader(nodeParams));
}

} // namespace api
} // namespace sim
