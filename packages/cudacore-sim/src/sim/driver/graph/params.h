/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_PARAMS_H
#define CUDACORE_SIM_DRIVER_GRAPH_PARAMS_H

#include "sim/driver/base/state.h"

/*
 * The parameters of nodes. There is one class for each type of node. Each class has its own file in `nodes`, where the
 * type is also registered. Everything else in this folder treats all nodes alike.
 */
namespace sim {

class DotNode;
struct ExecNode;
struct GraphLaunch;

using GraphPtr = std::shared_ptr<Graph>;
using LaunchPtr = std::shared_ptr<const GraphLaunch>;

struct Params;
using ParamsPtr = std::shared_ptr<const Params>;

/* The parameters of a node. The parameters never change: a node gets new parameters instead. */
struct Params {
  virtual ~Params() = default;

  /* Fills in the union member of the node's type, for cuGraphNodeGetParams. */
  virtual void write(CUgraphNodeParams &out) const = 0;
  /* Returns the node as text in the language of Graphviz. */
  virtual std::string describe(const DotNode &node) const = 0;
  /* Submits the work of the node, which depends on `before`. `out` receives the units that its dependents wait for. */
  virtual CUresult submit(const LaunchPtr &launch, const ExecNode &node, std::vector<UnitPtr> before,
                          UnitPtr &out) const = 0;

  /* The graphs in the node: a child graph, or the bodies of a conditional node. */
  virtual std::vector<GraphPtr> graphs() const { return {}; }
  /* Makes parameters for a copy of the node, the first argument. If none are made, the copy shares these parameters. */
  virtual CUresult clone(GraphNode &, ParamsPtr &) const { return CUDA_SUCCESS; }
  /* Whether an executable graph can have the node. */
  virtual CUresult check_instance() const { return CUDA_SUCCESS; }
  /* Whether the node can run now. */
  virtual CUresult check_launch() const { return CUDA_SUCCESS; }
  /* Whether parameters of the same type can replace these, which `node` has, in an executable graph. */
  virtual CUgraphExecUpdateResult check_change(const GraphExec &, const ExecNode &, const Params &) const {
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  }
  /* Whether cuGraphExecUpdate can replace these parameters. */
  virtual CUgraphExecUpdateResult check_update(const GraphExec &exec, const ExecNode &node, const Params &now) const {
    return check_change(exec, node, now);
  }
  /* Adds the memory that the node allocates or frees to the lists of an executable graph. */
  virtual void list_memory(GraphExec &) const {}
  /* Called when the node is destroyed. */
  virtual void release() const {}
  /*
   * Whether these parameters refer to objects that were destroyed with a primary context: the driver crashes when it
   * reads such parameters.
   */
  virtual bool is_lost() const { return false; }
};

/* The caller has checked the type of the node. */
template <class T> const T &as(const Params &params) { return static_cast<const T &>(params); }
template <class T> const T &as(const ParamsPtr &params) { return as<T>(*params); }

/* The properties of a type of node. */
struct NodeType {
  CUgraphNodeType type;
  size_t bytes; /* how many bytes of CUgraphNodeParams the type uses; all others must be zero */

  /*
   * Checks parameters and makes a copy of them. `into`: the graph of the node; null for a node of an executable
   * graph. `old`: the parameters that the node has; null for a new node.
   */
  CUresult (*read)(const Graph *into, const Params *old, CUgraphNodeParams &from, ParamsPtr &out);
  /* Called when a node was added; null: there is nothing to do. */
  void (*complete)(GraphNode &node, CUgraphNodeParams &from) = nullptr;

  /* Changes the node of an executable graph in place; null: the node gets the parameters that `read` makes. */
  CUresult (*change_in_exec)(GraphExec &exec, ExecNode &node, const CUgraphNodeParams &from) = nullptr;

  bool can_change = true;                 /* whether cuGraphNodeSetParams accepts other parameters */
  bool can_be_disabled = false;           /* whether cuGraphNodeSetEnabled accepts the node */
  bool may_be_in_body = false;            /* whether the node may be in the body of a conditional node */
  bool may_be_launched_by_device = false; /* whether the node may be in a graph that a kernel launches */
  bool has_memory = false;                /* whether the node allocates or frees memory of the graph */
};

/* Registers a type of node. Each file in `nodes` has a static object of this class for each of its types. */
class RegisterNodeType {
public:
  explicit RegisterNodeType(const NodeType &type);

private:
  const NodeType row;
};

const NodeType *find_node_type(CUgraphNodeType type); /* null: no such nodes */

} // namespace sim

#endif
