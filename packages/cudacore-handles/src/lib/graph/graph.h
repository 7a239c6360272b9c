/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCH_GRAPH_H
#define CCH_GRAPH_H

/* The library's records about graphs and their nodes, in addition to the driver's own data. */

#include "base/bundle.h"
#include "base/reclaim.h"
#include "driver/current.h"
#include "driver/user_object.h"
#include "graph/graph.h"
#include "stream/capture.h"

#include <cudacore_shared/table.h>
#include <pthread.h>

/*
 * The library's data about a node. A record exists only if there is something to record: a graph of a hundred thousand
 * empty nodes has no records, a graph of as many kernel nodes has a record for each.
 */
typedef struct cch__record {
  CUgraphNode raw;
  cch_bundle *bundle;   /* the owners of the objects that the current parameters use */
  CUuserObject object;  /* the user object by which the driver also keeps the bundle, if the graph is shared */
  cch_graph_node *box;  /* weak */
  cch__level *children; /* the child graph or the bodies of the node */
  CUcontext context; /* the context of a kernel, copy or fill node: the driver does not report it for all such nodes */
  uint64_t number;   /* the number of a node that was added without a box, unique in the hierarchy; otherwise 0 */
} cch__record;

/*
 * A graph in a hierarchy. It outlives boxes of a child graph: a later box for the same child finds the records of its
 * nodes again.
 */
struct cch__level {
  CUgraph raw;
  cch_graph *box;      /* weak */
  cch_bundle *kept;    /* objects that the graph uses in addition to its nodes' bundles; NULL if there are none */
  cch__table records;  /* of cch__record */
  bool exported;       /* its handle was exported: the driver keeps the objects that the graph used at that time */
  CUuserObject object; /* by which it keeps them; NULL if there were none */
  cch__level *next;    /* the next level of the same node */
};

/*
 * A root graph and everything in it. The lock guards levels and records, and is never held during a call of the driver.
 * A thread that calls the driver for any of its graphs holds the turn: see turn.c.
 */
struct cch__hierarchy {
  pthread_mutex_t lock;
  pthread_mutex_t turn;
  uint64_t serial;      /* a number that no other hierarchy has */
  uint64_t numbers;     /* how many numbers were given to nodes */
  bool shared;          /* a handle was exported: from then on, the driver also keeps the objects that nodes use */
  bool captured;        /* a capture made the root graph: its copies and fills without a record are of `context` */
  cch_context *context; /* the context that was current at the creation, if any: the nodes are lost with it */
  cch__level root;
};

struct cch_graph_node {
  cch__box box;
  CUgraphNode raw;
  cch_graph *graph;
  int type;
  cch_node_face face;
  cch_bundle *read; /* the arguments of a kernel node, as last read, if other code set them; guarded by the turn */
};

/* ---- table.c. The caller holds the hierarchy's lock ---- */

/* Returns the record of a node, or NULL. Entering a record can move the others. */
cch__record *cch__record_find(const cch__level *level, CUgraphNode raw);
/* Makes room for `more` records, so that cch__record_enter() cannot fail; false if memory ran out. */
bool cch__level_reserve(cch__level *level, size_t more);
/* Returns the record of a node, which is created if there is none. */
cch__record *cch__record_enter(cch__level *level, CUgraphNode raw);
/* Returns a new record for a node that was just made. Any record of an earlier node with the same handle is ended. */
cch__record *cch__record_begin(cch__level *level, CUgraphNode raw);
/* Returns the record after another one, or the first one if that is NULL; NULL at the end. */
cch__record *cch__record_next(const cch__level *level, const cch__record *record);
/* Removes a record that is empty. */
void cch__record_trim(cch__level *level, cch__record *record);
/*
 * Ends the record of a destroyed node, and the records of the nodes of all graphs in it. Their boxes become tombstones.
 */
void cch__record_close(cch__level *level, cch__record *record);
/* Returns whether a stream is being captured into a graph in a node. The lock is held. */
bool cch__record_is_captured(const cch__record *record);
/* Ends the records of the nodes of all graphs in a node. */
void cch__record_close_children(cch__record *record);
/* Ends the records of all nodes of a graph. The level itself remains, and is empty. */
void cch__level_close(cch__level *level);
/* From the children of a node, removes those that no longer have a box or records. */
void cch__children_trim(cch__level *level, cch__record *record);

/* ---- turn.c: one thread at a time ---- */

/*
 * CUDA allows one thread at a time to work on a hierarchy of graphs. So a public function that calls the driver for a
 * graph takes the turn of its hierarchy, and checks only then that the graph or node still exists, because the thread
 * whose turn it was may have destroyed it. The turn is held for the driver's call, however long that takes, but only
 * threads that work on the same graphs wait for it. No code of the caller and no destructor runs in a turn: references
 * are given back by cch__unref_later(), and the boxes are destroyed after the turn. A destructor that needs a turn does
 * not wait for it. An executable graph has a turn of its own, which is taken before those of graphs.
 *
 *   CCH__IN_TURN(graph, NULL, call)            in the turn of a graph's hierarchy
 *   CCH__IN_TURN(node, child, call)            likewise, for a node; also in the turn of a second graph, if it is not
 *                                              NULL
 *   CCH__IN_TURNS(graph, other, check, call)   with another check than that of `graph`
 */
#define CCH__IN_TURN(box, other, ...)                                                                                  \
  CCH__IN_TURNS(CCH__GRAPH_OF(box), other, CCH__USABLE(box, "the argument " #box, __func__), __VA_ARGS__)
#define CCH__IN_TURNS(graph, other, check, ...)                                                                        \
  __extension__({                                                                                                      \
    const cch_graph *other_here = (other);                                                                             \
    cch__hierarchy *turns_here[] = {(graph)->hierarchy, other_here != NULL ? other_here->hierarchy : NULL};            \
    const size_t turn_count_here = cch__turn_take(turns_here, other_here != NULL ? 2 : 1);                             \
    int status_in_turn = (check);                                                                                      \
    if (status_in_turn == 0)                                                                                           \
      status_in_turn = (__VA_ARGS__);                                                                                  \
    cch__turn_give(turns_here, turn_count_here);                                                                       \
    status_in_turn;                                                                                                    \
  })
#define CCH__GRAPH_OF(box) _Generic((box), cch_graph_node *: cch__graph_of_node, cch_graph *: cch__graph_itself)(box)
static inline const cch_graph *cch__graph_of_node(const cch_graph_node *node) { return node->graph; }
static inline const cch_graph *cch__graph_itself(const cch_graph *graph) { return graph; }

/* Takes the turn of each hierarchy, once. They are sorted. Returns their number without duplicates. */
size_t cch__turn_take(cch__hierarchy **all, size_t count);
void cch__turn_give(cch__hierarchy *const *all, size_t count);
/* For destructors: takes the turn if no other thread has it. */
static inline bool cch__turn_try(const cch_graph *graph) { return pthread_mutex_trylock(&graph->hierarchy->turn) == 0; }
/* Returns the graph that parameters of a node copy into the node; NULL if they are not those of a child graph node. */
const cch_graph *cch__child_in(int type, const void *params);
/* Sorts pointers, and removes duplicates. Returns the number of pointers left. */
size_t cch__sort_unique(void *pointers, size_t count);

/* ---- graph.c ---- */

static inline void cch__graph_lock(const cch_graph *graph) { pthread_mutex_lock(&graph->hierarchy->lock); }
static inline void cch__graph_unlock(const cch_graph *graph) { pthread_mutex_unlock(&graph->hierarchy->lock); }

/* Makes a box for a root graph whose handle is not known yet. The box does not own a graph yet. */
int cch__graph_new(cch_graph **out, const char *operation);
/*
 * Sets the context that was current when the graph was created. Takes over the reference; NULL if no context was
 * current.
 */
void cch__graph_is_of(cch_graph *graph, cch_context *context);
/*
 * Checks that the context of the graph still exists. Returns 0, or a recorded failure. After a reset of the context,
 * the driver crashes (13.0, H200) when it copies or instantiates the graph, or reads a kernel node of it. It can only
 * destroy the graph.
 */
int cch__graph_check(const cch_graph *graph, const char *operation);
/* Completes the box of a graph that now exists: sets its handle, and registers it. */
void cch__graph_made(cch_graph *graph, CUgraph raw, bool owned);
/* Undoes cch__graph_new. */
void cch__graph_free(cch_graph *graph);
/* Gets the box of a graph that is in a node, as a new reference. */
int cch__graph_in_node(cch_graph **out, cch_graph *parent, CUgraphNode node, CUgraph raw, const char *operation);

/* ---- keep.c: what graphs keep ---- */

/* Makes a graph keep a bundle. */
int cch__graph_keep(cch_graph *graph, cch_bundle *bundle, const char *operation);
/*
 * Makes a bundle of everything that the nodes of a graph, and of the graphs in these nodes, use; *out is NULL if they
 * use nothing.
 */
int cch__graph_uses(cch_bundle **out, const cch_graph *graph, const char *operation);
/*
 * Copies what the library knows about a graph and about the child graphs in it, for a clone of the graph. Whatever the
 * result is, cch__level_close() must be called for the copy.
 */
int cch__level_copy(cch__level *out, const cch_graph *graph, const char *operation);
/*
 * Gives such a copy to a clone of the graph `source`: the copy of each node gets a record of its own, with the bundle
 * of the node. Nodes that other code has destroyed are left out: the driver must not be asked for their copies. The
 * driver keeps the same for the clone as for the graph. What it keeps for code that has the graph's handle is given
 * back.
 */
int cch__level_give(cch__level *from, CUgraph source, cch__level *clone, const char *operation);
/*
 * Makes the driver keep the bundle of `count` new nodes, if the graph is shared, by one reference for each. Otherwise
 * no user object is made.
 */
int cch__driver_keep_shared(CUuserObject *out, const cch_graph *graph, cch_bundle *bundle, size_t count);

/* ---- nodes/kernel.c ---- */

/* A kernel node as the driver reports it. */
typedef struct cch__kernel_read {
  CUDA_KERNEL_NODE_PARAMS native;
  cch_kernel *kernel; /* a reference */
  const cch__params *params;
  void *block; /* the arguments in separate memory; NULL if there are none, or if their layout is not known */
} cch__kernel_read;

/*
 * Reads a kernel node from the driver. `known` is its kernel, or NULL if the caller does not have it. Arguments are
 * read if `copies` is set. cch__kernel_read_unref() releases the result.
 */
int cch__kernel_read_node(cch__kernel_read *out, CUgraphNode raw, cch_kernel *known, bool copies,
                          const char *operation);
void cch__kernel_read_unref(cch__kernel_read *read);
/* Returns the kernel in the bundle of a kernel node, borrowed; NULL if the bundle has none. */
cch_kernel *cch__kernel_of(const cch_bundle *bundle);

/* ---- callback.c ---- */

/* A call of a host function, which CUDA makes through the library: the payload of a bundle. */
typedef struct cch__host_call {
  cch_host_fn function;
  void *data;
} cch__host_call;

/* The function that CUDA calls for a host call. It calls the function in `data`, which is a cch__host_call. */
void CUDA_CB cch__host_trampoline(void *data);

/* ---- nodes/conditional.c ---- */

/* The payload of a conditional node's bundle. */
typedef struct cch__condition {
  cch_conditional_node node;
  CUgraph bodies[];
} cch__condition;

/*
 * Enters a condition into a table of the used ones, which begins with those that the hierarchy of the graph uses.
 * Returns 0, or a recorded failure if the condition is in the table already.
 */
int cch__condition_use(cch__table *used, const cch_graph *graph, CUgraphConditionalHandle condition,
                       const char *operation);

/* ---- nodes/nodes.c: functions that depend on the node's type ---- */

typedef struct cch__node_type cch__node_type;

/* The parameters of a node in the driver's form, and the bundle that the graph keeps for them. */
typedef struct cch__node_params {
  CUgraphNodeParams native;
  const cch__node_type *type;
  cch_bundle *kept;  /* a reference; NULL if nothing is kept */
  CUcontext context; /* the context of a kernel, copy or fill node */
  unsigned attribute_count;
  CUlaunchAttribute attributes[4];
  bool programmatic; /* the node may begin before the kernels that it depends on have ended */
  void **pointers;   /* pointers to the arguments: the array `few`, or one on the heap */
  void *few[32];
  CUmemAccessDesc *peers;
  cch_alloc_node *alloc; /* where to store the address of the allocated memory */
} cch__node_params;

/* Fills `out`. The context must be current. The caller must call cch__node_params_unref(), even after a failure. */
int cch__node_params_fill(cch__node_params *out, int type, const void *params, cch_bundle *bundle,
                          const cch_context *context, const char *operation);
void cch__node_params_unref(cch__node_params *params);
/* Reads the parameters of a node into the structure of its type. The bundle is NULL if it is not known. */
int cch__node_params_get(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation);
/* Checks that the parameters of a node can be changed. Returns 0, or a recorded failure. */
int cch__node_check_change(const cch_graph_node *node, const char *operation);
/* Fills the launch of a kernel node, without arguments and context. */
int cch__kernel_node_fill(cch__node_params *out, const cch_kernel *kernel, const cch_launch_config *config,
                          const char *operation);
/* Gets the context that a node works in: `context` or, if that is NULL, the current context. */
int cch__node_context(CUcontext *out, const cch_context *context);
/* Call the driver's function for nodes of all types or, before 12.2, the function for the type of the node. */
int cch__driver_add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                         CUgraphNodeParams *params);
int cch__driver_set_node(CUgraphNode node, CUgraphNodeParams *params);
int cch__driver_set_exec_node(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params);

/* ---- exec.c: executable graphs ---- */

/*
 * A call in the turn of an executable graph, unless that is NULL. In it, the turns of graphs can be taken, but not the
 * other way round.
 */
#define CCH__IN_TURN_OF_EXEC(exec, ...)                                                                                \
  __extension__({                                                                                                      \
    pthread_mutex_t *turn_of_exec = (exec) != NULL ? cch__exec_turn(exec) : NULL;                                      \
    if (turn_of_exec != NULL)                                                                                          \
      pthread_mutex_lock(turn_of_exec);                                                                                \
    const int status_of_exec = (__VA_ARGS__);                                                                          \
    if (turn_of_exec != NULL)                                                                                          \
      pthread_mutex_unlock(turn_of_exec);                                                                              \
    status_of_exec;                                                                                                    \
  })
pthread_mutex_t *cch__exec_turn(cch_graph_exec *exec);
/* Checks that a node is of the graph that an executable graph was made from. Returns 0, or a recorded failure. */
int cch__exec_check_has(const cch_graph_exec *exec, const cch_graph_node *node, const char *operation);
/*
 * Releases the replaced bundles that launches no longer use, the oldest first. False if a launch may still use one of
 * them.
 */
bool cch__exec_settle(cch_graph_exec *exec);
/*
 * Changes the parameters of a node, in the turns of both graphs. `attributes`: those of a kernel are in the parameters,
 * and are checked: they cannot be changed.
 */
int cch__exec_set_filled(cch_graph_exec *exec, CUgraphNode raw, cch__node_params *filled, bool attributes,
                         const char *operation);

/* ---- node.c ---- */

/*
 * Drops a reference to a node without calling the driver. Returns NULL, or the graph of the node, with a reference that
 * the caller must drop.
 */
cch_graph *cch__graph_node_unref_lightly(cch_graph_node *node);
/* Checks that a node belongs to a graph. Returns 0, or a recorded failure. */
int cch__node_is_of(const cch_graph_node *node, const cch_graph *graph, const char *operation);
/* Gets the box of a node of this graph, as a new reference. `type` is negative if it is not known. */
int cch__node_box(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, int type, const char *operation);
/* Likewise, for a node of a known type that has this number, which is not 0; CCH_EGONE if it was destroyed. */
int cch__node_box_numbered(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, int type, uint64_t number,
                           const char *operation);
/* Adds a node that depends on the nodes whose handles are given. `edges` is NULL if all edges are plain. */
int cch__node_add(CUgraphNode *raw, cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec,
                  const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count, const char *operation);
/*
 * Adds a node with the dependencies that its specification names. `added` has the handles of earlier nodes of its
 * batch.
 */
int cch__node_add_spec(CUgraphNode *raw, cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec,
                       const CUgraphNode *added, size_t done, const char *operation);
/*
 * Gets the nodes that node number `place` of a batch waits for. `added` has the handles of the earlier nodes of the
 * batch. If both arrays are NULL, the dependencies are only checked.
 */
int cch__spec_dependencies(CUgraphNode *before, const cch_graph *graph, const cch_node_spec *spec,
                           const CUgraphNode *added, size_t place, const char *operation);
/*
 * Changes the parameters of a node, and what is kept for the node: in an executable graph or, if `exec` is NULL, in the
 * node's graph. `attributes`: also those of a kernel, which are in the parameters.
 */
int cch__node_set_filled(cch_graph_exec *exec, cch_graph_node *node, cch__node_params *filled, bool attributes,
                         const char *operation);
/*
 * Calls the driver to add a node with the given edges to its dependencies. `edges` is NULL if all edges are plain,
 * unless the parameters ask for programmatic ones.
 */
int cch__driver_add_edges(CUgraphNode *raw, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges,
                          size_t count, cch__node_params *params, const char *operation);
/* Sets attributes of a kernel node. */
int cch__node_set_attributes(CUgraphNode raw, const CUlaunchAttribute *attributes, unsigned count);
/* Removes a node that was just added, without a trace if CUDA permits the removal. */
void cch__node_undo(cch_graph *graph, CUgraphNode raw);
/* Reads a node specification, whose size depends on the version that the caller was compiled for. */
int cch__node_spec_read(const cch_node_spec **spec, cch_node_spec *room, const char *operation);
/* Checks the boxes of a node specification. Returns 0, or a recorded failure. */
int cch__node_spec_check(const cch_node_spec *spec, const char *operation);
/* Gets an attribute of a kernel node. If the driver does not have it, the value is zero and *known is false. */
int cch__node_attribute(CUlaunchAttributeValue *out, bool *known, CUgraphNode raw, CUlaunchAttributeID id);
/* Finds whether a node may begin before a kernel that it depends on has ended, because of one of its edges. */
int cch__node_is_programmatic(bool *out, CUgraphNode raw, const char *operation);
/* Finds whether the attributes of a kernel node differ from those in the parameters. */
int cch__node_attributes_change(bool *out, CUgraphNode raw, const cch__node_params *params);

/* ---- edges.c ---- */

/* Lists the handles of a graph's nodes. The caller frees the array, which is NULL if there are none. */
int cch__driver_nodes(CUgraphNode **out, size_t *count, CUgraph graph, const char *operation);

/* ---- node_read.c ---- */

/* cch_graph_node_child() and cch_graph_nodes() in the turn of the caller. */
int cch__node_child(cch_graph **out, cch_graph_node *node, unsigned index, const char *operation);
int cch__graph_list(cch_node_list *out, cch_graph *graph, const char *operation);

/* ---- batch.c ---- */

/* Destroys the nodes that were added before a failure, or reports that they remain. */
void cch__batch_undo(cch_graph *graph, const CUgraphNode *added, size_t count);
/* Destroys a graph in which nodes were tried out. */
void cch__trial_destroy(CUgraph trial);

/*
 * Finds whether the driver cannot remove nodes from a graph, because nodes in it allocate or free memory, or because a
 * stream is being captured into it.
 */
int cch__graph_forbids_removal(bool *out, const cch_graph *graph);
/*
 * Checks that the driver accepts the parameters of a node, by adding a node with them to a separate graph. Returns 0,
 * or a recorded failure.
 */
int cch__node_try(cch__node_params *params);

/*
 * Called after the last reference to the graph's box was dropped, because nothing else will end its capture. Returns
 * false if that is not possible now.
 */
bool cch__capture_abandon(cch_graph *graph);
void cch__capture_free(cch_graph *graph);

#endif
