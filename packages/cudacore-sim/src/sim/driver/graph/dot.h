/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_DOT_H
#define CUDACORE_SIM_DRIVER_GRAPH_DOT_H

#include "sim/driver/graph/graph.h"

/* Describes nodes for Graphviz, with the same text as the driver. */
namespace sim {

/* A node that is written as text. */
class DotNode {
public:
  DotNode(const GraphNode &node, unsigned flags, size_t place) : node(node), flags(flags), place(place) {}

  /* Whether cuGraphDebugDotPrint was called with a flag of CUgraphDebugDot_flags. */
  bool wants(unsigned flag) const { return (flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0; }
  /* The number of the node and, on demand, its place in the order of nodes. */
  std::string identity() const;
  /* The line with the handle of the node; empty if it is not requested. */
  std::string handle_line() const;
  uint64_t handle() const { return node.handle; }
  /* A rectangle with some lines. */
  std::string rectangle(const std::string &title, const std::string &lines = {}) const;

private:
  const GraphNode &node;
  unsigned flags;
  size_t place;
};

std::string dot_number(uint64_t value);
std::string dot_address(uint64_t value);
inline std::string dot_address(const void *value) { return dot_address(value_of(value)); }

} // namespace sim

#endif
