/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCH_NODES_H
#define CCH_NODES_H

/*
 * The types of nodes. Each type has a file in this folder that converts its parameters to and from the driver's. The
 * file defines a cch__node_type, named for its CCH_NODE_* in the public header. The table in nodes.c is generated from
 * these.
 */

#include "graph/graph.h"

#include "node_types.h"

/* Where the parameters of a node come from. */
typedef struct cch__node_source {
  const void *given;  /* the structure of the type, such as cch_kernel_node, with the fields of this version */
  const void *caller; /* the same, as the caller gave it */
  cch_bundle *bundle;
  const cch_context *context; /* NULL: the current context */
  const char *operation;
} cch__node_source;

/* A call for which drivers before 12.2 have a function for each type: it adds a node, or sets its parameters. */
typedef struct cch__older_call {
  CUgraphNode *out; /* NULL: it sets the parameters of `node` */
  CUgraph graph;
  const CUgraphNode *before;
  size_t count;
  CUgraphNode node;
  CUgraphExec exec; /* NULL: the parameters are set in the graph of the node */
} cch__older_call;

/* The call by one of the functions of a type, whose names lack their cuGraph. The parameters of the node come last. */
#define CCH__OLDER_ADD(to, add, ...)                                                                                   \
  CCH__OLDER(cuGraph##add, ((to)->out, (to)->graph, (to)->before, (to)->count, __VA_ARGS__))
#define CCH__OLDER_SET_EXEC(to, set_exec, ...) CCH__OLDER(cuGraph##set_exec, ((to)->exec, (to)->node, __VA_ARGS__))
#define CCH__OLDER_NODE(to, add, set, set_exec, ...)                                                                   \
  ((to)->out != NULL    ? CCH__OLDER_ADD(to, add, __VA_ARGS__)                                                         \
   : (to)->exec != NULL ? CCH__OLDER_SET_EXEC(to, set_exec, __VA_ARGS__)                                               \
                        : CCH__OLDER(cuGraph##set, ((to)->node, CCH__FIRST(__VA_ARGS__, 0))))
#define CCH__FIRST(first, ...) first /* a context is not set again */

struct cch__node_type {
  size_t size;   /* of the structure with the parameters; 0 if the type has none */
  size_t oldest; /* its size in version 0.1; later versions may append fields */
  /* Fills `native`, and the other fields that the type needs. */
  int (*fill)(cch__node_params *out, const cch__node_source *from);
  /*
   * Reads the parameters of a node, whose bundle is NULL if it is not known. `params` has the fields of this version,
   * with the values that the caller gave. NULL: the type has no parameters.
   */
  int (*get)(void *params, cch_graph_node *node, const cch_bundle *bundle, const char *operation);
  /* Stores the results that the driver wrote into the parameters of a new node. NULL: the type has none. */
  void (*added)(cch__node_params *params);
  /* Changes the parameters of a node. NULL: calling the driver is enough. */
  int (*change)(CUgraphNode raw, cch__node_params *params, const char *operation);
  /*
   * Explains why the driver refused a node with these parameters, and returns the status for it. NULL: the driver's own
   * message is enough.
   */
  int (*explain)(const cch_graph *graph, const void *given, const char *operation);
  /* Adapts parameters to another graph, in which they are tried. NULL: they are the same for all graphs. */
  int (*adapt)(CUgraphNodeParams *params, CUgraph graph);
  /* Reads the context of a node. NULL: the type has none, or the driver does not report it. */
  int (*context)(CUcontext *out, CUgraphNode raw);
  /* Graph number `index` in a node. NULL: nodes of the type contain no graphs. */
  int (*child)(CUgraph *out, cch_graph_node *node, unsigned index, const cch_bundle *bundle, const char *operation);
  bool is_fixed; /* the parameters cannot be changed */
  /* Makes the call of a driver before 12.2. NULL, or the result CCH_ENOSYMBOL: a newer driver is needed. */
  int (*older)(const cch__older_call *to, CUgraphNodeParams *params);
};

/* The fields `size` and `oldest` of a row. `last` is the last field of the structure in version 0.1. */
#define CCH__NODE_STRUCT(type, last) .size = sizeof(type), .oldest = offsetof(type, last) + sizeof(((type *)NULL)->last)

/* The parameters of a node of any type. */
typedef union cch__any_node {
  size_t size;
#define CCH__MEMBER(name) cch_##name##_node name;
  CCH_NODE_STRUCTS(CCH__MEMBER)
#undef CCH__MEMBER
} cch__any_node;

#define CCH__DECLARE(number, name) extern const cch__node_type cch__node_type_##name;
CCH_NODE_TYPES(CCH__DECLARE)
#undef CCH__DECLARE

/* For a type that the library cannot add, all fields of the result are zero. */
const cch__node_type *cch__node_type_of(int type);

/* Makes the caller's bundle the bundle that the graph keeps for the node. */
int cch__node_keep(cch__node_params *out, const cch__node_source *from);
/*
 * The same for a node that works on memory, whose context is stored in *context, too: that of the caller, or of a
 * device with access to the operands, which the node then keeps.
 */
int cch__node_place(cch__node_params *out, CUcontext *context, const CUdeviceptr *operands, size_t count,
                    const cch__node_source *from);

static inline size_t cch__or_one(size_t count) { return count != 0 ? count : 1; }

#endif
