/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that do nothing. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

constexpr CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;

struct EmptyParams : Params {
  void write(CUgraphNodeParams &) const override {}
  CUresult submit(const LaunchPtr &launch, const ExecNode &, std::vector<UnitPtr> before, UnitPtr &out) const override {
    return submit_empty(launch, before, out);
  }
  std::string describe(const DotNode &node) const override { return node.rectangle("EMPTY"); }
};

CUresult make(const Graph *, const Params *, ParamsPtr &out) {
  out = std::make_shared<EmptyParams>();
  return CUDA_SUCCESS;
}

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = type;
  row.read = [](const Graph *into, const Params *old, CUgraphNodeParams &, ParamsPtr &out) {
    return make(into, old, out);
  };
  row.may_be_in_body = true;
  return row;
}());

} // namespace

namespace api {

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                             size_t numDependencies) {
  return add_one(type, phGraphNode, hGraph, dependencies, numDependencies, make);
}

} // namespace api
} // namespace sim
