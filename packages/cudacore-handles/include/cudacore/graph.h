/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_GRAPH_H
#define CUDACORE_GRAPH_H

/**
 * @file graph.h
 * Graphs: their nodes and edges, child graphs and bodies of conditional nodes.
 *
 * A root graph, the child graphs in it and the bodies of its conditional nodes are one hierarchy. A box of any of them,
 * or of one of their nodes, keeps the root alive. The root is destroyed with the last of these boxes. CUDA can destroy
 * parts of a hierarchy earlier: a node, the child graph of a node, and everything in it. Then their boxes are no longer
 * valid: cch_is_valid() returns 0, and other functions fail with CCH_EGONE.
 *
 * While references to a node exist, it has one box. The graph keeps the objects that the parameters of a node use, in a
 * bundle for each version of the parameters. Graphs that this library clones or instantiates from the graph keep them
 * too, even if the node is updated or destroyed, and executable graphs keep them until their launches are done. Graphs
 * that other code makes from the graph's handle keep them only if the graph was shared: see cch_graph_share().
 *
 * CUDA cannot remove nodes or edges from a graph that has memory nodes (CCH_NODE_ALLOC, CCH_NODE_FREE). In such a
 * graph, a function that fails cannot remove the nodes that it has added: they remain, with everything that they use.
 *
 * CUDA allows one thread at a time to work on a hierarchy, or on an executable graph. The library sees to that: a
 * function waits while another thread is in a call for the same hierarchy, or for the same executable graph. So all
 * functions can be called on any thread.
 */

#include <cudacore/base.h>
#include <cudacore/kernel.h>

CCH_BEGIN_DECLS

/** Types of nodes, with CUDA's numbers. */
typedef enum cch_node_type {
  CCH_NODE_KERNEL = 0,
  CCH_NODE_MEMCPY = 1,
  CCH_NODE_MEMSET = 2,
  CCH_NODE_HOST = 3,
  CCH_NODE_GRAPH = 4,
  CCH_NODE_EMPTY = 5,
  CCH_NODE_EVENT_WAIT = 6,
  CCH_NODE_EVENT_RECORD = 7,
  CCH_NODE_ALLOC = 10,
  CCH_NODE_FREE = 11,
  CCH_NODE_CONDITIONAL = 13
} cch_node_type;

/*
 * Parameters by type. Zero-initialise; set `size` to the size of the structure, which determines the fields that exist.
 * The node keeps the boxes and the argument block of its parameters as long as it needs them. The caller must put the
 * owners of raw addresses into the node's bundle.
 */

/**
 * For CCH_NODE_KERNEL. CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION makes the edges from kernels to the node
 * programmatic when the node is added (driver 12.3). This flag cannot be changed later.
 */
typedef struct cch_kernel_node {
  size_t size;
  const cch_launch_config *config;
  cch_kernel *kernel;
  const void *args; /**< the block of packed arguments, as in cch_launch() */
  size_t args_size;
} cch_kernel_node;

/** For CCH_NODE_MEMCPY: a copy in up to three dimensions. The driver determines the location of the operands. */
typedef struct cch_memcpy_node {
  size_t size;
  CUdeviceptr dst;                /**< an address, of a device or of the host */
  CUdeviceptr src;                /**< likewise */
  size_t width;                   /**< bytes per row */
  size_t height;                  /**< rows per slice; 0 means 1 */
  size_t depth;                   /**< slices; 0 means 1 */
  size_t dst_pitch;               /**< bytes from row to row; 0: the width */
  size_t src_pitch;               /**< as for `dst` */
  size_t dst_height;              /**< rows from slice to slice; 0: the height */
  size_t src_height;              /**< as for `dst` */
  CUarray CCH_NULLABLE dst_array; /**< used instead of `dst` */
  CUarray CCH_NULLABLE src_array; /**< used instead of `src` */
} cch_memcpy_node;

/** For CCH_NODE_MEMSET. */
typedef struct cch_memset_node {
  size_t size;
  CUdeviceptr dst;
  uint32_t value;
  uint32_t element_size; /**< bytes per element: 1, 2 or 4 */
  size_t width;          /**< elements per row */
  size_t height;         /**< rows; 0 means 1 */
  size_t pitch;          /**< bytes from row to row; not used for one row */
} cch_memset_node;

/** For CCH_NODE_HOST. The caller keeps `data` alive, or adds its owner to the node's bundle. */
typedef struct cch_host_node {
  size_t size;
  cch_host_fn function;
  void *data;
} cch_host_node;

/** For CCH_NODE_GRAPH: the graph is copied into the node. */
typedef struct cch_child_node {
  size_t size;
  cch_graph *graph;
} cch_child_node;

/** For CCH_NODE_EVENT_RECORD and CCH_NODE_EVENT_WAIT. */
typedef struct cch_event_node {
  size_t size;
  cch_event *event;
} cch_event_node;

/** For CCH_NODE_ALLOC: memory that the graph allocates at each launch, always at the same address. */
typedef struct cch_alloc_node {
  size_t size;
  size_t bytes;
  int32_t location_type; /**< CCH_LOCATION_*; 0 means a device */
  int32_t location_id;
  int32_t alloc_type; /**< CUmemAllocationType; 0 means pinned */
  uint32_t reserved;
  const int32_t *peers; /**< further devices that can access the memory */
  size_t peer_count;
  CUdeviceptr address; /**< out */
} cch_alloc_node;

/** For CCH_NODE_FREE. */
typedef struct cch_free_node {
  size_t size;
  CUdeviceptr address;
} cch_free_node;

/** Kinds of conditional node, with CUDA's numbers. */
typedef enum cch_conditional_type {
  CCH_CONDITIONAL_IF = 0,
  CCH_CONDITIONAL_WHILE = 1,
  CCH_CONDITIONAL_SWITCH = 2
} cch_conditional_type;

/** For CCH_NODE_CONDITIONAL. Its bodies are empty graphs at first; cch_graph_node_child() returns them. */
typedef struct cch_conditional_node {
  size_t size;
  CUgraphConditionalHandle condition;
  int32_t type;   /**< cch_conditional_type */
  uint32_t count; /**< number of bodies: 1, or for IF 1 or 2 */
} cch_conditional_node;

/* ---- graphs ---- */

/** Nodes, each with a reference. To take over a reference, replace it with NULL. */
typedef struct cch_node_list {
  size_t count;
  cch_graph_node **nodes;
} cch_node_list;

/** Makes an empty graph (cuGraphCreate). @since 0.1 */
CCH_EXPORT cch_status cch_graph_create(cch_graph **out);

/** Keeps a bundle as long as the graph, or anything that is instantiated from it, exists. @since 0.1 */
CCH_EXPORT cch_status cch_graph_keep(cch_graph *graph, cch_bundle *bundle);

/**
 * Makes the driver keep the objects that the graph's nodes use, now and later (cuUserObjectCreate,
 * cuGraphRetainUserObject). Then graphs that other code makes from the graph's handle keep these objects, too. Call it
 * before passing the handle to other code. Objects that the nodes use at that time are kept until the graph is
 * destroyed. After this call, adding nodes takes longer, and so do launches of graphs that are instantiated later.
 * @since 0.1
 */
CCH_EXPORT cch_status cch_graph_share(cch_graph *graph);

/**
 * Makes a condition of a graph (cuGraphConditionalHandleCreate). One conditional node at a time can use it, in this
 * graph or in another graph of its hierarchy. If `has_default` is set, each launch sets the condition to `value` at its
 * beginning. @since 0.1
 */
CCH_EXPORT cch_status cch_graph_condition(CUgraphConditionalHandle *out, cch_graph *graph,
                                          cch_context *CCH_NULLABLE context, int has_default, unsigned value);

CCH_EXPORT CUgraph cch_graph_raw(const cch_graph *graph);

/* ---- nodes ---- */

/** One node to add. Zero-initialise, and set `size`. */
typedef struct cch_node_spec {
  size_t size;
  int32_t type; /**< cch_node_type */
  uint32_t reserved;
  const void *params;   /**< the parameter structure of the type; NULL for CCH_NODE_EMPTY */
  cch_bundle *bundle;   /**< the owners that the parameters need; the node takes a reference; NULL: none */
  cch_context *context; /**< the context of a kernel, copy, memset or conditional node; NULL: the current one */
  cch_graph_node *const *dependencies; /**< nodes of the same graph that the node depends on */
  size_t dependency_count;
  const uint32_t *earlier; /**< dependencies on earlier nodes of the batch, as their indices; NULL: none */
  size_t earlier_count;
} cch_node_spec;

/**
 * Adds one node. CCH_EMISMATCH if a dependency is in another graph, CCH_EGONE if a dependency was destroyed. The graph
 * is then unchanged. `out` may be NULL if the box is not needed. @since 0.1
 */
CCH_EXPORT cch_status cch_graph_add(cch_graph_node **CCH_NULLABLE out, cch_graph *graph, const cch_node_spec *spec);

/**
 * Adds many nodes, in order. All specifications have the same size. On failure, the nodes that were added are destroyed
 * again, and `failed` (which may be NULL) is the index of the node that could not be added. `out` has room for `count`
 * references, or is NULL.
 *
 * The driver cannot remove nodes from a graph that has nodes that allocate or free memory. For such a graph, the batch
 * is tried in a separate graph first. Two kinds of failure still occur only in the real graph: the driver has no
 * resources left, or it refuses to free an address in memory that is allocated, for instance because a node frees it
 * already. Then the nodes before the failed one remain in the graph, and the message says so. @since 0.1
 */
CCH_EXPORT cch_status cch_graph_add_batch(cch_graph_node **CCH_NULLABLE out, cch_graph *graph,
                                          const cch_node_spec *specs, size_t count, size_t *CCH_NULLABLE failed);

/** Removes a node and its edges from its graph (cuGraphDestroyNode). The box of the node, and the boxes of graphs in
 * it, are no longer valid. @since 0.1 */
CCH_EXPORT cch_status cch_graph_node_destroy(cch_graph_node *node);

/**
 * Sets the parameters of a kernel, memcpy, memset, host, child graph or event node, in the structure of its type
 * (cuGraphNodeSetParams). The graph releases the old bundle; graphs that were made from it before keep the old bundle.
 * `context` is the new context of a kernel, copy or fill; NULL: the current one. @since 0.1
 */
CCH_EXPORT cch_status cch_graph_node_set(cch_graph_node *node, const void *CCH_NULLABLE params,
                                         cch_bundle *CCH_NULLABLE bundle, cch_context *CCH_NULLABLE context);

/**
 * Reads the parameters of a node from the driver into the structure of its type, whose `size` must be set. Boxes are
 * new references. Kernels and events are the existing boxes, or boxes that borrow the handle. The config of a kernel
 * node is written to where `config` points, unless that is NULL. The kernel is NULL if the node's function belongs to a
 * module. `args` is NULL if the offsets of the arguments are not known (before driver 12.4); the arguments belong to
 * the node until its parameters are changed or read again. The function and data of a host node are those that the
 * caller passed, even in clones. The peers of an alloc node are written to where `peers` points, unless that is NULL,
 * up to the number in `peer_count`; `peer_count` is then their total number. @since 0.1
 */
CCH_EXPORT cch_status cch_graph_node_get(void *params, cch_graph_node *node);

/** The bundle of the node's parameters, as a new reference; NULL if there is none or it is not known. @since 0.1 */
CCH_EXPORT cch_bundle *cch_graph_node_bundle(cch_graph_node *node);

/** The child graph of a node, or its body number `index`; a new reference. @since 0.1 */
CCH_EXPORT cch_status cch_graph_node_child(cch_graph **out, cch_graph_node *node, unsigned index);

CCH_EXPORT CUgraphNode cch_graph_node_raw(const cch_graph_node *node);

/* ---- lists: one block with new references, which cch_node_list_free() releases ---- */

/**
 * Types of edges: what a node waits for. All but the default lead from a kernel to a kernel, and need a driver for CUDA
 * 12.3. The numbers are those of CUDA's ports.
 */
typedef enum cch_edge_type {
  CCH_EDGE_DEFAULT = 0,      /**< the end of the other node */
  CCH_EDGE_PROGRAMMATIC = 1, /**< that all blocks have called cudaTriggerProgrammaticLaunchCompletion(), or ended */
  CCH_EDGE_LAUNCH_ORDER = 2, /**< that all blocks have begun */
  CCH_EDGE_OTHER = 3         /**< another type, which can only be read */
} cch_edge_type;

/** One edge: `to` waits for `from`. */
typedef struct cch_edge {
  cch_graph_node *from;
  cch_graph_node *to;
  int32_t type; /**< cch_edge_type */
  uint32_t reserved;
} cch_edge;

/** Edges, each with references to its nodes. They can be taken over as in a cch_node_list. */
typedef struct cch_edge_list {
  size_t count;
  cch_edge *edges;
} cch_edge_list;

/** All nodes of a graph, without the nodes of its child graphs and bodies. @since 0.1 */
CCH_EXPORT cch_status cch_graph_nodes(cch_node_list *out, cch_graph *graph);
/** All edges of a graph, without the edges of its child graphs and bodies. @since 0.1 */
CCH_EXPORT cch_status cch_graph_edges(cch_edge_list *out, cch_graph *graph);
/** Releases the contents of a list, which can be empty or zeroed. @since 0.1 */
CCH_EXPORT void cch_node_list_free(cch_node_list *list);
/** Releases the contents of a list, which can be empty or zeroed. @since 0.1 */
CCH_EXPORT void cch_edge_list_free(cch_edge_list *list);

/* ---- executable graphs ---- */

/** Options for cch_graph_instantiate(). Zero-initialise, and set `size`. */
typedef struct cch_instantiate_params {
  size_t size;
  uint64_t flags;       /**< CUDA_GRAPH_INSTANTIATE_FLAG_* */
  cch_stream *upload;   /**< the stream for an immediate upload, which `flags` must also request */
  cch_context *context; /**< the context to use; NULL: that of `upload`, or the current one */
} cch_instantiate_params;

/**
 * Makes an executable graph (cuGraphInstantiateWithParams), for which CUDA needs a context. The driver can return
 * success and report a refusal in the result structure; this counts as a failure. The error record has the node that
 * was refused. `params` may be NULL. @since 0.1
 */
CCH_EXPORT cch_status cch_graph_instantiate(cch_graph_exec **out, cch_graph *graph,
                                            const cch_instantiate_params *CCH_NULLABLE params);

/** The reason why an executable graph could not be updated. Set `size`. */
typedef struct cch_update_result {
  size_t size;
  int32_t result; /**< CUgraphExecUpdateResult */
  uint32_t reserved;
  CUgraphNode node; /**< the responsible node of the new graph; NULL if there is no single one */
  CUgraphNode from; /**< the source of the edge, if an edge is responsible */
} cch_update_result;

/**
 * Sets the parameters of an executable graph to those of another graph of the same topology (cuGraphExecUpdate).
 * `result` may be NULL. @since 0.1
 */
CCH_EXPORT cch_status cch_graph_exec_update(cch_graph_exec *exec, cch_graph *graph,
                                            cch_update_result *CCH_NULLABLE result);

/** Uploads the graph, so that its first launch is faster (cuGraphUpload). @since 0.1 */
CCH_EXPORT cch_status cch_graph_upload(cch_graph_exec *exec, cch_stream *stream);
/** Launches on a stream (cuGraphLaunch), after earlier launches of the same graph. @since 0.1 */
CCH_EXPORT cch_status cch_graph_launch(cch_graph_exec *exec, cch_stream *stream);

/**
 * Sets the parameters of one node (cuGraphExecNodeSetParams), from the next launch on. Objects that launches in flight
 * use are kept until these launches are done. CCH_EMISMATCH for a node of another graph. A kernel keeps the attributes
 * of the node (cluster, cooperative, priority); CCH_EINVAL if others are given. `context` must be that of the node;
 * NULL means the current one. @since 0.1
 */
CCH_EXPORT cch_status cch_graph_exec_set(cch_graph_exec *exec, cch_graph_node *node, const void *CCH_NULLABLE params,
                                         cch_bundle *CCH_NULLABLE bundle, cch_context *CCH_NULLABLE context);

CCH_EXPORT CUgraphExec cch_graph_exec_raw(const cch_graph_exec *exec);

CCH_END_DECLS

#endif
