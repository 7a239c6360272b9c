/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_GRAPH_H
#define CUDACORE_SIM_DRIVER_GRAPH_GRAPH_H

#include "sim/driver/graph/params.h"
#include "sim/driver/graph/user_object.h"

namespace sim {

using NodePtr = std::shared_ptr<GraphNode>;

/* The variable of a conditional handle. Only one executable graph can use it at a time. */
struct Condition {
  uint64_t handle = 0;
  std::weak_ptr<Context> context;
  uint32_t value = 0, initial = 0;
  bool has_initial = false; /* whether `initial` becomes the value at each launch of the graph */
  bool used = false;        /* whether a node has this handle */
  ~Condition();             /* destroys the handle, when no graph uses it any more; called with the lock */
};

/* The memory of an allocation node. Its address never changes. A launch allocates it, and it exists until a free. */
struct GraphMemory {
  AllocationPtr allocation;
  uint64_t home = 0;           /* the graph with the allocation node */
  uint64_t freed_in_graph = 0; /* the graph with the free node; 0: no graph has one */
  bool was_instantiated = false;
  ~GraphMemory(); /* releases the address; called with the lock */
};

/* ---- graphs */

struct Edge {
  GraphNode *node; /* the node at the other end */
  CUgraphEdgeData data;
};

struct GraphNode {
  uint64_t handle = 0;
  Graph *graph = nullptr;
  unsigned id = 0; /* the number of the node in its graph */
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  ParamsPtr params;
  std::vector<Edge> before, after; /* dependencies and dependents, in the order in which the edges were added */
};

struct Graph : std::enable_shared_from_this<Graph> {
  uint64_t handle = 0;
  unsigned id = 0;                   /* unique among all graphs, including executable ones */
  GraphNode *owner = nullptr;        /* the child graph node or conditional node with this graph; null: a root */
  bool moved = false;                /* whether the application's graph was moved into the node, not copied */
  bool lost = false;                 /* whether a failed capture destroyed the graph, although it is part of a node */
  std::map<unsigned, NodePtr> nodes; /* nodes by id, which is the order of their creation */
  unsigned next_id = 0;
  std::map<uint64_t, uint64_t> origin; /* in a clone: maps the handle of each original node to that of its copy */
  References references;
  std::vector<std::shared_ptr<Condition>> conditions; /* conditions that were created for the graph */
  unsigned captures = 0;                              /* the number of captures that are adding nodes to the graph */
  bool has_memory_nodes = false;                      /* whether this graph or a child graph has memory nodes */
  std::weak_ptr<struct GraphExec> executable;         /* the executable graph that was instantiated last */
  mutable std::vector<std::weak_ptr<Graph>> copies;   /* clones of the graph, and child graphs that were made from it */
  Graph &root() const;
};

CUresult find_graph(CUgraph handle, GraphPtr &out); /* CUDA_ERROR_INVALID_VALUE: no such graph */
CUresult find_node(CUgraphNode handle, NodePtr &out);
inline CUgraph handle_of_graph(const Graph &graph) { return handle_of<CUgraph>(graph.handle); }
inline CUgraphNode handle_of_node(const GraphNode &node) { return handle_of<CUgraphNode>(node.handle); }

GraphPtr new_graph(GraphNode *owner);
void destroy_graph(const GraphPtr &graph); /* also destroys its nodes and the graphs in them */
void destroy_graph_node(const NodePtr &node);

/* Reads the edges of a new node. Fails with CUDA_ERROR_INVALID_VALUE if the node cannot have these edges. */
CUresult read_dependencies(const Graph &graph, const CUgraphNode *nodes, const CUgraphEdgeData *data, size_t count,
                           CUgraphNodeType type, std::vector<Edge> &out);
NodePtr add_node(Graph &graph, CUgraphNodeType type, ParamsPtr params, const std::vector<Edge> &before);
void set_params(GraphNode &node, ParamsPtr params);

/* Whether a graph has what forbids a second executable graph: nodes of memory, and conditions, used or not. */
bool has_memory(const Graph &graph);
bool has_conditions(const Graph &graph);
CUresult clone_graph(const Graph &graph, GraphNode *owner, GraphPtr &out);

/* The driver crashes when it reads the parameters of a kernel node whose primary context was destroyed. */
CUresult check_readable(const GraphNode &node);
CUresult check_kernels(const Graph &graph); /* reports nodes that crash the driver, also in child graphs and bodies */

/* Sorts the nodes so that dependencies come first; false: there is a cycle. */
bool sort_nodes(const Graph &graph, std::vector<const GraphNode *> &out);

bool is_default(const CUgraphEdgeData &data);
bool may_leave(const CUgraphEdgeData &data,
               CUgraphNodeType from); /* whether an edge from a node of this type can have these annotations */

/* ---- memory of graphs */

/* Reserves memory for a launch or an upload. */
CUresult reserve_memory(const std::vector<std::shared_ptr<GraphMemory>> &wanted);
void mark_allocated(Allocation &memory); /* called when a graph that allocates the memory is launched */
void show_memory(Allocation &memory);    /* called when the allocation node runs */
/* Whether an address is in memory that one graph allocates and frees: no node can be added that copies or fills it. */
bool is_freed_by_its_graph(uint64_t address);

} // namespace sim

#endif
