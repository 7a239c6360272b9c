/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that operate on values in memory. Only captures add them: the entry points that add them are not simulated. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

struct BatchMemOpParams : Params {
  explicit BatchMemOpParams(std::function<void(std::vector<UnitPtr>, UnitPtr &)> run) : run(std::move(run)) {}

  const std::function<void(std::vector<UnitPtr> before, UnitPtr &out)> run;

  void write(CUgraphNodeParams &) const override {}
  CUresult submit(const LaunchPtr &, const ExecNode &, std::vector<UnitPtr> before, UnitPtr &out) const override {
    run(std::move(before), out);
    return CUDA_SUCCESS;
  }
  std::string describe(const DotNode &node) const override { return node.rectangle("BATCH_MEM_OP"); }
};

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  row.read = read_unsupported;
  row.can_change = false;
  return row;
}());

} // namespace

ParamsPtr make_batch_mem_op(std::function<void(std::vector<UnitPtr> before, UnitPtr &out)> submit) {
  return std::make_shared<BatchMemOpParams>(std::move(submit));
}

} // namespace sim
