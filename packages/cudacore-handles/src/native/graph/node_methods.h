/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_NODE_METHODS_H
#define CUDACORE_NATIVE_NODE_METHODS_H

/*
 * The methods that add nodes. The stub declares their arguments, and tools/read_stubs.py generates the list
 * SHARED_NODE_METHODS from it. The function read_METHOD() reads the arguments; it is in a file of graph/nodes.
 */

#include "graph/graph.h"

enum { MAX_ARGUMENTS = 12 };

/* All methods: those that graphs and nodes share, and empty(), which only graphs have. */
#define NODE_METHODS(X) SHARED_NODE_METHODS(X) X(empty, 0, 0, false, )

/* The arguments of a method. */
typedef struct node_arguments {
  PyObject *const *named; /* in the order of the method's names; NULL if not given */
  values rest;            /* the remaining arguments of a variadic method */
  void *scratch;          /* SCRATCH_SIZE bytes, or NULL */
} node_arguments;

struct node_method {
  const char *name; /* the name of the method */
  int positional, required;
  bool variadic; /* any number of arguments may follow the positional ones */
  int name_count;
  const int *type;
  int (*read)(state *st, const node_arguments *given, node_params *out);
  const char *names[MAX_ARGUMENTS + 1];
};

enum {
#define NUMBER(method, ...) METHOD_##method,
  NODE_METHODS(NUMBER)
#undef NUMBER
      NODE_METHOD_COUNT
};
extern const node_method node_methods[];

/*
 * The types of the nodes that the methods add, and the functions read_METHOD(), which read the arguments. They return
 * -1 with an exception on failure. They run Python code.
 */
#define DECLARE(method, ...)                                                                                           \
  extern const int type_of_##method;                                                                                   \
  int read_##method(state *st, const node_arguments *given, node_params *out);
NODE_METHODS(DECLARE)
#undef DECLARE

/*
 * Reads an integer of at least `least`. If no value is given, *out is unchanged. Returns -1 with an exception on
 * failure.
 */
int read_size(const state *st, PyObject *value, const char *name, size_t least, size_t *out);

/* Returns the box of a face of a given type, in use until node_params_unref(); NULL with an exception on failure. */
void *use_face(PyObject *face, const PyTypeObject *type, const char *message, node_params *out);

/* Makes the bundle of a node from the list of owners, and releases the list. */
int take_bundle(const state *st, owners *keep, node_params *out, int status);

#endif
