/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_NODE_KINDS_H
#define CUDACORE_NATIVE_NODE_KINDS_H

/*
 * The kinds of nodes: one for each method that adds nodes. The stub declares the methods' arguments, and
 * tools/read_stubs.py generates the list ADDERS from it. The function read_METHOD(), in the file of the node type,
 * reads the arguments.
 */

#include "graph/graph.h"

enum { MAX_ARGUMENTS = 12 };

/* All kinds: those that graphs and nodes share, and empty nodes, which only graphs can add. */
#define NODE_METHODS(X) ADDERS(X) X(empty, 0, 0, false, )

/* The arguments of a method. */
typedef struct node_arguments {
  PyObject *const *named; /* in the order of the kind's names; NULL if not given */
  values rest;            /* the remaining arguments of a variadic method */
  void *scratch;          /* SCRATCH_SIZE bytes, or NULL */
} node_arguments;

struct node_kind {
  const char *name; /* the name of the method */
  int positional, required;
  bool variadic; /* any number of arguments may follow the positional ones */
  int name_count;
  int (*read)(state *st, const node_arguments *given, node_params *out);
  const char *names[MAX_ARGUMENTS + 1];
};

enum {
#define NUMBER(method, ...) KIND_##method,
  NODE_METHODS(NUMBER)
#undef NUMBER
      NODE_KIND_COUNT
};
extern const node_kind node_kinds[];

/*
 * Each reads the arguments of its method, and sets the type and the class of the node; -1 with an exception. Runs
 * Python code.
 */
#define DECLARE(method, ...) int read_##method(state *st, const node_arguments *given, node_params *out);
NODE_METHODS(DECLARE)
#undef DECLARE

/* Reads an integer of at least `least`. If it is not given, *out is unchanged. -1 with an exception. */
int read_size(const state *st, PyObject *value, const char *name, size_t least, size_t *out);

/* Reads an address that is given as an int instead of a Buffer; -1 with an exception. */
int read_address(PyObject *value, const char *name, CUdeviceptr *out);

/* The box of a face of a given type, in use until node_params_drop(); NULL with an exception. */
void *use_face(PyObject *face, const PyTypeObject *type, const char *message, node_params *out);

/* Makes the bundle of a node from the list of owners, and releases the list. */
int take_bundle(const state *st, owners *keep, node_params *out, int status);

#endif
