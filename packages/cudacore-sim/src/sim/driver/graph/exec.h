/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_EXEC_H
#define CUDACORE_SIM_DRIVER_GRAPH_EXEC_H

#include "sim/driver/graph/graph.h"

namespace sim {

struct ExecGraph;

/* A launch that is running. Nodes in the bodies of conditional nodes are submitted while it runs. */
struct GraphLaunch {
  ContextPtr context;   /* the context of the stream */
  int priority = 0;     /* the priority of the stream */
  bool by_node = false; /* whether each node has its own priority */
  std::shared_ptr<const References> references;
  TracedPtr traced;   /* the unit at the beginning of the launch; null: no trace is made */
  OrderedPtr ordered; /* the same unit in the check of the order; null: the order is not checked */
};

/* A node of an executable graph. */
struct ExecNode {
  uint64_t source = 0; /* the handle of the node of the original graph */
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  ParamsPtr params, first; /* now, and at the instantiation */
  bool enabled = true;
  std::vector<std::pair<size_t, CUgraphEdgeData>> before; /* the dependencies, as indices of nodes */
  std::vector<size_t> after;
  std::vector<std::shared_ptr<ExecGraph>> parts; /* the child graph, or the bodies of a conditional node */
};

/* A graph of an executable graph. Running launches share it, so it is copied before it is changed. */
struct ExecGraph {
  std::vector<ExecNode> nodes; /* in the order in which they were created */
  std::vector<size_t> order;   /* indices of nodes, dependencies first */
};

struct GraphExec {
  uint64_t handle = 0;
  unsigned id = 0;
  uint64_t flags = 0;
  uint64_t graph = 0; /* the graph from which this one was instantiated */
  std::weak_ptr<Context> context;
  std::shared_ptr<ExecGraph> top;
  struct NodeLocation {
    std::vector<std::pair<size_t, size_t>> path; /* the path from `top`: indices of a node, and of a graph in it */
    size_t index = 0;
  };
  std::unordered_map<uint64_t, NodeLocation> locations; /* where each node is, by its handle */
  std::shared_ptr<References> references;
  std::vector<std::shared_ptr<Condition>> conditions;
  std::vector<std::shared_ptr<GraphMemory>> allocations, frees;
  UnitPtr last; /* the unit of the last launch */
};

using ExecPtr = std::shared_ptr<GraphExec>;

CUresult find_exec(CUgraphExec handle, ExecPtr &out);

CUresult launch_graph(const ExecPtr &exec, const StreamPtr &stream);

/* Submits the nodes of a graph, which come after `head`. `leaves`: the units that nothing in the graph waits for. */
CUresult submit_graph(const LaunchPtr &launch, const std::shared_ptr<ExecGraph> &graph, const UnitPtr &head,
                      std::vector<UnitPtr> &leaves);
void submit_unit(const LaunchPtr &launch, const UnitPtr &unit, const std::vector<UnitPtr> &dependencies);
CUresult submit_empty(const LaunchPtr &launch, const std::vector<UnitPtr> &before, UnitPtr &out);

std::shared_ptr<ExecGraph> make_exec_graph(const Graph &graph);
/* Finds a node of an executable graph, in order to change it. */
CUresult find_exec_node(CUgraphExec exec_handle, CUgraphNode node_handle, ExecPtr &exec, ExecNode *&node);
/* Returns CUDA_ERROR_INVALID_VALUE if these parameters cannot replace the parameters of the node. */
CUresult replace_params(const GraphExec &exec, ExecNode &node, ParamsPtr params);

/* The references of a graph and of all graphs in it. */
std::shared_ptr<References> references_of(const Graph &graph);
void add_references_of(GraphExec &exec, const Graph &graph);

CUresult update_exec_graph(GraphExec &exec, std::shared_ptr<ExecGraph> &old, const Graph &now,
                           CUgraphExecUpdateResultInfo &info);

} // namespace sim

#endif
