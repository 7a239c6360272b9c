/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_GRAPH_H
#define CUDACORE_NATIVE_GRAPH_H

/* Graphs, their nodes, and functions that they call. */

#include "launch/launch.h"

#include "node_types.h"

/* ---- graph.c ---- */

/*
 * CUDA lets one thread at a time work on a hierarchy of graphs, and calls let go of the GIL: who changes a graph, or
 * lists what is in it, has its lock. The lock is taken last, and given back before any Python code runs.
 */
typedef struct graph_lock {
  uint32_t stripes; /* a bit for each */
} graph_lock;

/* `other`: a second graph, or NULL. Lets go of the GIL where it must wait. */
graph_lock graph_lock_take(const cch_graph *graph, const cch_graph *other);
/* Likewise of any number of graphs, which are added to a lock that is all zero, and then taken together. */
void graph_lock_add(graph_lock *lock, const cch_graph *graph);
void graph_lock_take_added(graph_lock *lock);
void graph_lock_give(graph_lock lock);

typedef struct condition {
  PyObject_HEAD unsigned long long handle; /* CUgraphConditionalHandle */
  PyObject *graph;                         /* a face of its own, of the graph that it is of */
  bool used;                               /* a conditional node had it, and can have it still */
  bool pending;                            /* a node that is being added has it */
} condition;

typedef struct exec {
  handle base;
  pthread_mutex_t lock; /* launches and updates come one after the other */
  bool has_lock;        /* from the first one on */
} exec;

/* The box of a Graph, for a call that nobody else makes at the same time; -1 with an exception. No Python code runs
 * before exec_done(). */
int exec_use(PyObject *face, cch_graph_exec **out);
void exec_done(PyObject *face);

int add_graph_types(PyObject *module, state *st);
int add_node_set_functions(PyObject *module);
int add_node_batch_functions(PyObject *module);
int add_callback_functions(PyObject *module);

/* ---- node.c ---- */

/* One graph node that has a face: the face is not kept alive, it leaves the table when it dies. */
typedef struct node_slot {
  const void *box; /* the key; NULL: a free slot */
  PyObject *face;
} node_slot;

/* Places in faces.node_classes, after those that are CUDA's types. */
enum { CLASS_IF = 14, CLASS_IF_ELSE, CLASS_WHILE, CLASS_SWITCH, CLASS_OTHER, CLASS_COUNT };

int add_node_type(PyObject *module, state *st);

/* ---- adjacency.c ---- */

int add_adjacency_type(PyObject *module, state *st);
/* The properties `pred` and `succ` of a node. */
PyObject *get_adjacency(PyObject *node, void *forward);
int set_adjacency(PyObject *node, PyObject *nodes, void *forward);

/* The face of a node: the one that it has, or a new one. Takes over a reference to the box, also on failure: NULL with
 * an exception. `class` is a place in faces.node_classes; -1: as the box says. */
PyObject *node_face(state *st, cch_graph_node *box, int class);

/* The box of a node that exists, for as long as the caller keeps the face; NULL with an exception. */
cch_graph_node *node_box(const state *st, PyObject *face, const char *name);

/* Raises for a face of what was destroyed. */
void raise_node_gone(const state *st, PyObject *face);

/* The box of a definition whose graph exists, in use until handle_done(); NULL with an exception. `message` is for
 * what is no definition. */
cch_graph *graph_use(const state *st, PyObject *face, const char *message);

/* ---- node_params.c ---- */

/* The parameters of one node as the library takes them, with what they use. Zero-initialise; stays where it is. */
typedef struct node_params {
  int type;  /* cch_node_type */
  int class; /* of the node that they make: a place in faces.node_classes */
  union {
#define MEMBER(name) cch_##name##_node name;
    CCH_NODE_STRUCTS(MEMBER)
#undef MEMBER
  } of;
  cch_bundle *bundle;       /* what they point into; NULL: nothing */
  cch_launch_config config; /* of a kernel */
  PyObject *used;           /* a face in use: of the kernel, the event or the child graph */
  PyObject *condition;
  bool took_condition;
  void *heap; /* the argument block, or the peers */
} node_params;

/* A kind of node: the method that adds it. */
typedef struct node_kind node_kind;

/* The kind of a name; NULL with an exception. */
const node_kind *node_kind_find(PyObject *name);
const char *node_kind_name(const node_kind *kind);

/*
 * Reads the arguments of a method; -1 with an exception. `scratch` is room for an argument block of SCRATCH_SIZE, or
 * NULL. Runs Python code. The caller calls node_params_drop(), also after a failure.
 */
int node_params_read(state *st, const node_kind *kind, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords,
                     void *scratch, node_params *out);
/* The same, without keywords, for arguments in a tuple, from `first` on. */
int node_params_read_tuple(state *st, const node_kind *kind, PyObject *tuple, Py_ssize_t first, void *scratch,
                           node_params *out);
/* The same for an array; arguments of which there can be any number are a tuple, the last item. */
int node_params_read_given(state *st, const node_kind *kind, PyObject *const *arguments, Py_ssize_t count,
                           void *scratch, node_params *out);
/* Whether a node with these parameters may be in a graph; -1 with an exception. */
int node_params_check(const state *st, const node_params *params, const cch_graph *graph);
/* What goes to the library as `params`. */
const void *node_params_of(const node_params *params);
/* The graph that is copied into the node; NULL: none. */
const cch_graph *node_params_child(const node_params *params);
/* A node with the parameters is being added: its condition is no other's now. */
void node_params_done(node_params *params);
/* It was not, after all. */
void node_params_undone(node_params *params);
void node_params_drop(node_params *params);

/* ---- node_add.c: methods of graphs and nodes, and where else parameters go ---- */

extern PyMethodDef graph_adders[], node_adders[];

/* Raises for a node that the library refused just now; returns NULL. `place`: in a batch, or one of those below. */
enum { NO_PLACE = -1, PLACE_IN_EXEC = -2 };
PyObject *raise_node_failed(const state *st, int status, const node_kind *kind, Py_ssize_t place);
/* Likewise for something else that was to be done with a node. */
PyObject *raise_failed(const state *st, int status, const char *what, Py_ssize_t place);

/* Puts each item of a list there once: nodes to wait for, which the driver takes no node twice of, in any order.
 * Returns how many are left. */
size_t drop_doubles(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));
int compare_boxes(const void *a, const void *b);

/* ---- node_batch.c ---- */

/* ---- callback.c ---- */

/* A cch_host_fn whose data is an owner of a Python function. */
void call_python(void *data);

#endif
