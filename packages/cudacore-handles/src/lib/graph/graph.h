/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCH_GRAPH_H
#define CCH_GRAPH_H

/* What the library knows of graphs and their nodes, beside what the driver does. */

#include "driver/current.h"

#include <pthread.h>

typedef struct cch__level cch__level;

/*
 * What is known of a node. There is a record only while there is something to know: a graph of a hundred thousand nodes
 * has none, one of as many kernels has a hundred thousand.
 */
typedef struct cch__record {
  CUgraphNode raw;
  cch_bundle *bundle;   /* what the current parameters use */
  CUuserObject object;  /* by which the driver keeps that, too, where the graph is shared */
  cch_graph_node *box;  /* weak */
  cch__level *children; /* of child graphs and bodies in the node */
  CUcontext context;    /* of a kernel, a copy or a fill: the driver does not tell all of them */
} cch__record;

/*
 * A graph in a hierarchy. It outlives boxes of a child graph: who asks for the child again finds what is known of its
 * nodes.
 */
struct cch__level {
  CUgraph raw;
  cch_graph *box;         /* weak */
  cch_bundle *kept;       /* what the graph uses beside what is known of its nodes; NULL for nothing */
  cch__record *records;   /* a hash table */
  size_t count, capacity; /* a power of two, or 0 */
  bool shared;            /* the driver keeps what the graph used when its handle was given to others */
  cch__level *next;       /* of the same node */
};

/* A root graph and all in it. The lock guards levels and records; it is never held in the driver. */
typedef struct cch__hierarchy {
  pthread_mutex_t lock;
  uint64_t serial;      /* no other hierarchy has it */
  bool shared;          /* a handle was given to others: what nodes are given from then on the driver keeps, too */
  cch_context *context; /* that was current when it began, if any: its nodes are lost with it */
  cch__level root;
} cch__hierarchy;

/* A stream of a capture whose work is in order with another's from the point on where that one waited for it. */
typedef struct cch__joined {
  struct cch__joined *next;
  cch_stream *stream, *into;
  uint64_t capture;
  uint64_t thread; /* whose the per-thread default stream is, if it is one of the two */
} cch__joined;

/* A capture into a graph, which ends with the graph's box, if nobody ends it before. */
typedef struct cch__capture {
  cch_stream *stream;
  cch_context *context; /* the stream's; for a default stream the one that was current when it began */
  cch_bundle *kept;     /* what captured work uses, which the graph keeps; guarded by a lock of capture.c */
  uint64_t id;
  uint64_t thread;  /* whose stream it is, if that is the per-thread default stream */
  bool makes_graph; /* the graph began with the capture, and fails with it */
} cch__capture;

struct cch_graph {
  cch__box box;
  CUgraph raw;
  cch_graph *parent; /* NULL for a root, whose `hierarchy` it is */
  cch__hierarchy *hierarchy;
  cch__level *level;     /* NULL once the graph is gone; guarded by the hierarchy's lock */
  CUgraphNode node;      /* that it is in */
  atomic_bool has_room;  /* the level has it for one more record; false: perhaps not */
  cch__capture *capture; /* guarded by a lock of capture.c */
  cch__joined
      *joined; /* guarded by the hierarchy's lock; after a capture those on which there is memory that it allocated */
};

struct cch_graph_node {
  cch__box box;
  CUgraphNode raw;
  cch_graph *graph;
  int type;
  void *block; /* arguments that others gave to a kernel node, as they were last read */
};

/* ---- table.c. Whoever calls these holds the hierarchy's lock ---- */

/* The record of a node, or NULL. Records move when others are entered. */
cch__record *cch__record_find(const cch__level *level, CUgraphNode raw);
/* Makes room for one more, so that cch__record_enter() cannot fail; false where memory ran out. */
bool cch__level_reserve(cch__level *level);
/* The record of a node, a new one where there was none. */
cch__record *cch__record_enter(cch__level *level, CUgraphNode raw);
/* A new record of a node that was just made: what is known of another one that had the handle is over. */
cch__record *cch__record_begin(cch__level *level, CUgraphNode raw);
/* Forgets a record in which nothing is left. */
void cch__record_trim(cch__level *level, cch__record *record);
/* The node is no more, nor is anything in it: boxes become tombstones. */
void cch__record_end(cch__level *level, cch__record *record);
/* Likewise of the graphs in a node. */
void cch__record_end_children(cch__record *record);
/* Likewise of all nodes of a graph; the level itself stays, and is empty. */
void cch__level_end(cch__level *level);
/* The children of a node that have no box any more, and of which nothing is known, are forgotten. */
void cch__children_trim(cch__level *level, cch__record *record);

/* ---- graph.c ---- */

static inline void cch__graph_lock(const cch_graph *graph) { pthread_mutex_lock(&graph->hierarchy->lock); }
static inline void cch__graph_unlock(const cch_graph *graph) { pthread_mutex_unlock(&graph->hierarchy->lock); }

/* A box for a root graph whose handle is not known yet; nothing is owned. */
int cch__graph_new(cch_graph **out, const char *operation);
/* Says which context was current when a graph began, a reference that is taken over; NULL: none. */
void cch__graph_is_of(cch_graph *graph, cch_context *context);
/*
 * Whether that context is still there: 0, or a recorded failure. After a reset the driver crashes (13.0, H200) when it
 * copies or instantiates the graph, or reads a kernel node of it. It only destroys it.
 */
int cch__graph_check(const cch_graph *graph, const char *operation);
/* The graph exists: its box has the handle, and is known by it. */
void cch__graph_made(cch_graph *graph, CUgraph raw, bool owned);
/* Undoes cch__graph_new. */
void cch__graph_discard(cch_graph *graph);
/* The box of a graph that lies in a node, a new reference. */
int cch__graph_in_node(cch_graph **out, cch_graph *parent, CUgraphNode node, CUgraph raw, const char *operation);

/* ---- keep.c: what graphs keep ---- */

/* Has a graph keep a bundle. */
int cch__graph_keep(cch_graph *graph, cch_bundle *bundle, const char *operation);
/* All that the nodes of a graph use, those of graphs in them included: a bundle, NULL for nothing. */
int cch__graph_uses(cch_bundle **out, const cch_graph *graph, const char *operation);
/* Has the driver keep a bundle as long as a graph and what is made of it, through a user object. */
int cch__driver_keep(CUuserObject *out, CUgraph graph, cch_bundle *bundle);
/* Likewise what a node is given, if the graph is shared; no object otherwise. */
int cch__driver_keep_shared(CUuserObject *out, const cch_graph *graph, cch_bundle *bundle);
/* Has it let go of that. */
void cch__driver_let_go(CUgraph graph, CUuserObject object);

/* ---- nodes/kernel.c ---- */

/* A kernel node as the driver has it. */
typedef struct cch__kernel_read {
  CUDA_KERNEL_NODE_PARAMS native;
  cch_kernel *kernel; /* a reference */
  const cch__params *params;
  void *block; /* the arguments, in memory of their own; NULL for none, or where their places are not known */
} cch__kernel_read;

/* `known` is the kernel, if it is known; arguments are read if they are to be copied. What is read goes with
 * cch__kernel_read_drop(). */
int cch__kernel_read_node(cch__kernel_read *out, CUgraphNode raw, cch_kernel *known, bool copies,
                          const char *operation);
void cch__kernel_read_drop(cch__kernel_read *read);
/* The kernel that a bundle of the library's own keeps for its node, borrowed; NULL for none. */
cch_kernel *cch__kernel_of(const cch_bundle *bundle);

/* ---- callback.c ---- */

/* What CUDA calls on the host through us: the payload of a bundle. */
typedef struct cch__host_call {
  cch_host_fn function;
  void *data;
} cch__host_call;

/* Takes a cch__host_call. */
void CUDA_CB cch__host_trampoline(void *data);

/* ---- nodes/conditional.c ---- */

/* What is known of a conditional node: the payload of its bundle. */
typedef struct cch__condition {
  cch_conditional_node node;
  CUgraph bodies[];
} cch__condition;

/* A body of a conditional node; its bundle is NULL where it is not known. */
int cch__condition_body(CUgraph *out, cch_graph_node *node, unsigned index, const cch_bundle *bundle,
                        const char *operation);

/* ---- nodes/nodes.c: what depends on the type of a node ---- */

typedef struct cch__node_type cch__node_type;

/* A node's parameters as the driver takes them, and what is to be kept for them. */
typedef struct cch__node_params {
  CUgraphNodeParams native;
  const cch__node_type *type;
  cch_bundle *kept;  /* a reference; NULL for nothing */
  CUcontext context; /* of a kernel, a copy or a fill */
  unsigned attribute_count;
  CUlaunchAttribute attributes[4];
  bool programmatic; /* may begin before the kernels end that it waits for */
  void **pointers;   /* to arguments: `few`, or on the heap */
  void *few[32];
  CUmemAccessDesc *peers;
  cch_alloc_node *alloc; /* where the address goes */
} cch__node_params;

/* The right context is current. What it allocates goes with cch__node_params_drop(), also after a failure. */
int cch__node_params_fill(cch__node_params *out, int type, const void *params, cch_bundle *bundle,
                          const cch_context *context, const char *operation);
void cch__node_params_drop(cch__node_params *params);
/* Reads the parameters of a node into a structure of its type; its bundle is NULL where it is not known. */
int cch__node_params_get(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation);
/* Whether the parameters of a node can be changed. */
int cch__node_check_change(const cch_graph_node *node, const char *operation);
/* Changes the parameters of a node. */
int cch__node_change(const cch_graph_node *node, cch__node_params *params, const char *operation);
/* Takes what the driver has put into the parameters of a new node. */
void cch__node_added(cch__node_params *params);
/* Call the driver: before 12.2 the function of the node's type. */
int cch__driver_add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                         CUgraphNodeParams *params);
int cch__driver_set_node(CUgraphNode node, CUgraphNodeParams *params);
int cch__driver_set_exec_node(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params);

/* ---- node.c ---- */

/* The box of a node of this graph, a new reference. `type` is negative where it is not known. */
int cch__node_box(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, int type, const char *operation);
/* Adds a node behind those whose handles are given, with `edges` where these are not plain ones. */
int cch__node_add(CUgraphNode *raw, cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec,
                  const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count, const char *operation);
/* Likewise by a specification, with what it waits for; `added` are the handles of earlier nodes of its batch. */
int cch__node_add_spec(CUgraphNode *raw, cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec,
                       const CUgraphNode *added, size_t done, const char *operation);
/* Whether the node of a batch is behind an earlier one: number `i` of those that its specification names. */
int cch__check_earlier(const cch_node_spec *spec, size_t i, size_t place, const char *operation);
/* Sets attributes of a kernel node. */
int cch__node_set_attributes(CUgraphNode raw, const CUlaunchAttribute *attributes, unsigned count);
/* Takes out a node that was just added: nothing of it stays, if CUDA lets it go. */
void cch__node_undo(cch_graph *graph, CUgraphNode raw);
/* Reads a spec of any size. */
int cch__node_spec_read(const cch_node_spec **spec, cch_node_spec *room, const char *operation);
/* An attribute of a kernel node: zero, and not known, where the driver does not have it. */
int cch__node_attribute(CUlaunchAttributeValue *out, bool *known, CUgraphNode raw, CUlaunchAttributeID id);
/* Whether a node may begin before a kernel ends that it waits for: one of its edges says so. */
int cch__node_is_programmatic(bool *out, CUgraphNode raw, const char *operation);
/* Whether a kernel node's attributes are others than parameters ask for. */
int cch__node_attributes_change(bool *out, CUgraphNode raw, const cch__node_params *params);

/* ---- batch.c ---- */

/* Whether the driver takes no node out of a graph, because it has nodes that allocate or free memory. */
int cch__graph_keeps_nodes(bool *out, const cch_graph *graph);
/* Whether the driver makes a node of parameters: it adds one to a graph of its own. */
int cch__node_try(cch__node_params *params);

/* ---- node.c ---- */

/* Whether an object is a node of a graph. */
int cch__node_is_of(const cch_graph_node *node, const cch_graph *graph, const char *operation);

#endif
