/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_NODE_KINDS_H
#define CUDACORE_NATIVE_NODE_KINDS_H

/*
 * The kinds of nodes: each method that adds nodes has a row in the table of node_params.c, and a function that reads
 * its arguments, in the file of its type.
 */

#include "graph/graph.h"

enum { MAX_ARGUMENTS = 12 };

struct node_kind {
  const char *name; /* of the method */
  int type;         /* cch_node_type */
  int class;        /* of the node that it makes */
  int positional, required;
  int (*read)(state *st, const node_kind *kind, PyObject *const *given, node_params *out); /* NULL: a kernel's */
  const char *names[MAX_ARGUMENTS + 1];
};

/* They read the arguments of their methods; -1 with an exception. Run Python code. */
int read_memcpy(state *st, const node_kind *kind, PyObject *const *given, node_params *out);
int read_memset(state *st, const node_kind *kind, PyObject *const *given, node_params *out);
int read_callback(state *st, const node_kind *kind, PyObject *const *given, node_params *out);
int read_alloc(state *st, const node_kind *kind, PyObject *const *given, node_params *out);
int read_free(state *st, const node_kind *kind, PyObject *const *given, node_params *out);
int read_condition(state *st, const node_kind *kind, PyObject *const *given, node_params *out);

/* Reads a number from `least` on; one that is not given stays as it is. -1 with an exception. */
int read_size(const state *st, PyObject *value, const char *name, size_t least, size_t *out);

/* Reads an address that is an int, in place of a Buffer; -1 with an exception. */
int read_address(PyObject *value, const char *name, CUdeviceptr *out);

/* The box of a face of a type, in use until node_params_drop(); NULL with an exception. */
void *use_face(PyObject *face, const PyTypeObject *type, const char *message, node_params *out);

/* The kind of a name; NULL with an exception. */
const node_kind *node_kind_named(const char *name);

/* Makes the bundle of a node of the list of what is kept, and releases the list. */
int take_bundle(const state *st, owners *keep, node_params *out, int status);

#endif
