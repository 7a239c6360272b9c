/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_GRAPH_H
#define CUDACORE_NATIVE_GRAPH_H

/* Graphs, their nodes, and the functions that nodes call. */

#include "launch/launch.h"

#include "node_types.h"

/* ---- graph.c ---- */

typedef struct condition {
  PyObject_HEAD unsigned long long handle; /* CUgraphConditionalHandle */
  PyObject *graph;                         /* a separate face of the graph that the condition belongs to */
} condition;

/* A node of an executable graph. */
typedef struct executable_node {
  PyObject_HEAD PyObject *graph, *node; /* NULL in an object that graph[node] has not made */
} executable_node;

int add_graph_types(PyObject *module, state *st);
/* Returns a new GraphCondition of a graph, of which it makes a face of its own; NULL with an exception on failure. */
PyObject *condition_make(const state *st, cch_graph *graph, unsigned long long number);
/* Returns the graph in which a child graph or a body is at last; a graph that is in no other one itself. */
const cch_graph *root_of(const cch_graph *graph);
const cch_graph *root_of_condition(const condition *self);
extern PyMethodDef node_set_functions[];
extern PyMethodDef node_batch_functions[];
extern PyMethodDef node_column_functions[];
extern PyMethodDef callback_functions[];

/* ---- node.c ---- */

/* Indices in faces.node_classes, after those that are CUDA's node types. */
enum { CLASS_IF = 14, CLASS_IF_ELSE, CLASS_WHILE, CLASS_SWITCH, CLASS_OTHER };

int add_node_type(PyObject *module, state *st);

/* ---- node_get.c ---- */

/* Adds the types that are the bases of classes of nodes; the type NodeHandle exists. */
int add_node_property_types(PyObject *module, const state *st);
/* The method _graph_in() of nodes. */
PyObject *node_graph_in(PyObject *face, PyObject *index);

/* ---- adjacency.c ---- */

int add_adjacency_type(PyObject *module, state *st);
/* Gets the property `succ` of a node if `forward` is not NULL, otherwise the property `pred`. */
PyObject *get_adjacency(PyObject *node, void *forward);
int set_adjacency(PyObject *node, PyObject *nodes, void *forward);

/*
 * Returns the face of a node: the existing one, or a new one. Takes over a reference to the box, even on failure, and
 * then returns NULL with an exception. `class` is an index in faces.node_classes; -1: determined from the box.
 */
PyObject *node_face(state *st, cch_graph_node *box, int class);

/*
 * Returns the box of a node that exists, valid as long as the caller keeps the face; NULL with an exception on failure.
 */
cch_graph_node *node_box(const state *st, PyObject *face, const char *name);

/* Likewise, for a node that must be in a graph; NULL: in any graph. */
cch_graph_node *node_in(const state *st, PyObject *face, const char *name, const cch_graph *graph);

/* Likewise, for several nodes. Returns -1 with an exception on failure. */
int read_nodes(const state *st, values faces, const char *name, const cch_graph *graph, cch_graph_node **out);

/* Raises an error for a face whose node was destroyed. */
void raise_node_gone(const state *st, PyObject *face);

/*
 * Returns the box of a definition whose graph exists, in use until handle_done(); NULL with an exception on failure.
 * `message` is the error if `face` is not a definition; NULL: the usual one.
 */
cch_graph *graph_use(const state *st, PyObject *face, const char *message);

/* ---- node_params.c ---- */

/*
 * The parameters of one node in the library's form, with the objects that they use. Initialise with zeros. The
 * structure must not be moved.
 */
typedef struct node_params {
  int type;  /* cch_node_type */
  int class; /* the class of the node: an index in faces.node_classes */
  union {
#define MEMBER(name) cch_##name##_node name;
    CCH_NODE_STRUCTS(MEMBER)
#undef MEMBER
  } of;
  cch_bundle *bundle;       /* the objects that the parameters point into; NULL if there are none */
  cch_launch_config config; /* the configuration of a kernel node */
  PyObject *used;           /* the face of the kernel, event or child graph, in use */
  PyObject *condition;
  void *heap; /* the argument block, or the list of peers */
} node_params;

/* A method that adds a node: its arguments, and the function that reads them. */
typedef struct node_method node_method;

/* The method callback(), whose arguments Stream.callback() has, too. */
extern const node_method *const callback_method;
/* Finds a method by its name; NULL with an exception on failure. */
const node_method *node_method_find(PyObject *name);

/*
 * Reads the arguments of a method, some of them by their names in `keywords`, which can be NULL. `by_position`: those
 * that users must name can be given by their position. Returns -1 with an exception on failure. `scratch` is room for
 * an argument block of SCRATCH_SIZE, or NULL. Runs Python code. The caller calls node_params_unref() in any case.
 */
int node_params_read(state *st, const node_method *method, values given, bool by_position, PyObject *keywords,
                     void *scratch, node_params *out);
/* Checks whether a node with these parameters can be in a graph. Returns 0, or -1 with an exception. */
int node_params_check(const node_params *params, const cch_graph *graph);
/* Returns the pointer to pass to the library as `params`. */
const void *node_params_of(const node_params *params);
void node_params_unref(node_params *params);

/* ---- node_add.c ---- */

extern PyMethodDef graph_adders[], node_adders[], capture_functions[];

/*
 * Raises the exception for a node that the library just refused; returns NULL. `what` is the method that adds such a
 * node, or another operation. `place` is the index of the node in a batch, or one of the constants below.
 */
enum { NO_PLACE = -1, PLACE_IN_EXEC = -2 };
PyObject *raise_failed(const state *st, int status, const char *what, Py_ssize_t place);

/* ---- node_set.c ---- */

/* The context that was current before a node's context was entered. */
typedef struct context_change {
  cch_context *before;
  bool changed;
} context_change;

/*
 * Makes the context of a node current while its parameters are set, because packing, checks and the driver depend on
 * the current context. Returns -1 with an exception on failure.
 */
int enter_context(const state *st, cch_graph_node *node, context_change *out);
void leave_context(const context_change *change);

/* ---- node_batch.c ---- */

/*
 * Adds the index of a node in its batch to the message of an exception, if the only argument of the exception is a
 * message of this module.
 */
void name_node(size_t place);

/* ---- callback.c ---- */

/* A cch_host_fn whose data is an owner of a Python function. */
void call_python(void *data);

#endif
