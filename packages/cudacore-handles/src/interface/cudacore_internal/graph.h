/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_GRAPH_H
#define CUDACORE_INTERNAL_GRAPH_H

#include <cudacore/cudacore.h>

/**
 * Copies a graph, with child graphs and bodies (cuGraphClone). The copy keeps the objects that the nodes use. Unless
 * they are NULL, the lists get the nodes of the graph, and for each of them its copy (cuGraphNodeFindInClone); they
 * have the same length, whatever other threads do. The caller releases them.
 */
CCH_EXPORT cch_status cch_graph_clone(cch_graph **out, cch_node_list *CCH_NULLABLE nodes,
                                      cch_node_list *CCH_NULLABLE copies, cch_graph *graph);

/** The graph that contains a child graph or a body, borrowed; NULL for a root graph. */
CCH_EXPORT cch_graph *cch_graph_parent(const cch_graph *graph);

/** Writes the driver's own description in the DOT language (cuGraphDebugDotPrint). */
CCH_EXPORT cch_status cch_graph_debug_dot_print(cch_graph *graph, const char *path, unsigned flags);

/**
 * A column of arguments: the argument of node i is at `data + i * stride`. If the stride is 0, all nodes have the same
 * argument.
 */
typedef struct cch_column {
  const void *data;
  int64_t stride; /**< bytes */
} cch_column;

/** Many nodes that launch the same kernel. */
typedef struct cch_kernel_columns {
  cch_kernel *kernel;
  const cch_launch_config *const *configs; /**< one for all nodes, or one for each node */
  size_t config_count;
  const cch_column *columns; /**< one column for each parameter of the kernel */
  size_t column_count;
  const uint32_t *edges; /**< pairs of indices: the second node depends on the first; the caller has checked them */
  size_t edge_count;     /**< pairs */
  cch_graph_node *const *after; /**< existing nodes: each new node that no edge leads to depends on all of them */
  size_t after_count;
  cch_bundle *bundle;   /**< owners of the memory that the arguments point into, or NULL; the nodes take a reference */
  cch_context *context; /**< the context of the nodes; NULL for the current one */
} cch_kernel_columns;

/**
 * Adds many kernel nodes in one call: all or none, like cch_graph_add_batch(). No boxes are made:
 * cch_graph_node_numbered() makes the box of a node when it is needed. The nodes share one set of owners, which is kept
 * until no node needs it any longer.
 *
 * `out` has room for `count` handles. `*first` becomes the number of the first node, which is never 0; the numbers of
 * the other nodes follow it. On failure, `failed` (which may be NULL) is the index of the node that could not be added.
 */
CCH_EXPORT cch_status cch_graph_add_kernels(CUgraphNode *out, uint64_t *first, cch_graph *graph,
                                            const cch_kernel_columns *columns, size_t count,
                                            size_t *CCH_NULLABLE failed);

/**
 * Changes the arguments of many kernel nodes of one kernel, and their configurations if there are any in `columns`: in
 * an executable graph, or in their graph if `exec` is NULL. The context of the columns is that of all nodes; there are
 * no edges. Wrong arguments are found before the first change. After a refusal of the driver, `*failed` is the index of
 * the node that could not be changed, and the nodes before it have been changed.
 */
CCH_EXPORT cch_status cch_graph_set_kernels(cch_graph_exec *CCH_NULLABLE exec, cch_graph_node *const *nodes,
                                            const cch_kernel_columns *columns, size_t count,
                                            size_t *CCH_NULLABLE failed);

/** The node with a handle and a number from cch_graph_add_kernels(), as a new reference. CCH_EGONE if the node was
 * destroyed. */
CCH_EXPORT cch_status cch_graph_node_numbered(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, uint64_t number);

/** The graph that the node is in, borrowed from the box. */
CCH_EXPORT cch_graph *cch_graph_node_graph(const cch_graph_node *node);

/** Type of the node (CUgraphNodeType). It can be a type that this library cannot add. */
CCH_EXPORT int cch_graph_node_type(const cch_graph_node *node);

/** The object that represents a node in a binding: see cch_graph_node_face(). */
typedef struct cch_node_face {
  void *face;     /**< NULL: none. */
  uint64_t owner; /**< Distinguishes the users of the field, such as interpreters. */
} cch_node_face;

/**
 * The place in the box of a node for the object that represents it in a binding. The binding guards it, and clears it
 * before it gives up its reference to the node. Destructor-safe.
 */
CCH_EXPORT cch_node_face *cch_graph_node_face(cch_graph_node *node);

/**
 * Like cch_graph_node_get(), but what the parameters point to stays as long as the caller keeps `*kept`, even if other
 * threads read or change the node. `*bundle` becomes the bundle that cch_graph_node_bundle() returns for these
 * parameters. Both are new references, or NULL.
 */
CCH_EXPORT cch_status cch_graph_node_read(void *params, cch_bundle **kept, cch_bundle **bundle, cch_graph_node *node);

/**
 * The context of a kernel, copy or fill node, if that is not the current one, as a new reference. NULL in *out if it
 * is, for other nodes, and for copies and fills that other code added. Captured copies and fills are of the capture's.
 */
CCH_EXPORT cch_status cch_graph_node_context(cch_context **out, cch_graph_node *node);

/** The nodes that wait for a node if `forward` is set, otherwise those that it waits for. */
CCH_EXPORT cch_status cch_graph_node_neighbours(cch_node_list *out, cch_graph_node *node, bool forward);

/**
 * Removes and adds edges of a node, all or none: those to its dependents if `forward` is set, otherwise those from its
 * dependencies. Added edges get a type. CUDA_ERROR_INVALID_VALUE if an added edge exists. The driver finds cycles at
 * instantiation.
 */
CCH_EXPORT cch_status cch_graph_rewire(cch_graph_node *node, bool forward, cch_graph_node *const *lost,
                                       size_t lost_count, cch_graph_node *const *gained, size_t count, int type);

/**
 * Whether a node belongs to the graph that an executable graph was instantiated from, including child graphs and
 * bodies. cch_graph_exec_set() and cch_graph_exec_enabled() accept such nodes.
 * Destructor-safe.
 */
CCH_EXPORT bool cch_graph_exec_has(const cch_graph_exec *exec, const cch_graph_node *node);
/** Enables or disables a kernel, memcpy or memset node (cuGraphNodeSetEnabled); if `enabled` is negative, it only
 * queries whether the node is enabled (cuGraphNodeGetEnabled). `*out` becomes the state of the node. */
CCH_EXPORT cch_status cch_graph_exec_enabled(int *out, cch_graph_exec *exec, cch_graph_node *node, int enabled);

#endif
