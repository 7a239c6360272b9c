/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that signal external semaphores or wait for them. These nodes are not simulated. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

NodeType make_row(CUgraphNodeType type) {
  NodeType row{};
  row.type = type;
  row.read = read_unsupported;
  row.can_change = false;
  return row;
}

const RegisterNodeType signal_registered(make_row(CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL));
const RegisterNodeType wait_registered(make_row(CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT));

} // namespace
} // namespace sim
