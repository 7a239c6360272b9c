/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds nodes to a graph, by the methods that GraphDefinition and GraphNode share. node_set.c passes parameters to
 * captures and to existing nodes.
 */
#include "base/failure.h"
#include "graph/node_methods.h"

#include <stdlib.h>

enum { INLINE_DEPENDENCIES = 16 };

PyObject *raise_failed(const state *st, int status, const char *what, Py_ssize_t place) {
  return PyObject_CallFunction(st->faces.node_failed, "Nsn", failure_status(status), what, place);
}

PyObject *raise_node_failed(const state *st, int status, const node_method *method, Py_ssize_t place) {
  return raise_failed(st, status, method->name, place);
}

/* ---- adding ---- */

/* Adds a node that depends on others of the graph. Takes over the parameters, even if it fails. */
static PyObject *add(state *st, const node_method *method, node_params *params, cch_graph *graph,
                     cch_graph_node *const *dependencies, size_t count) {
  PyObject *result = NULL;
  /* The condition is taken before the call, because another thread could otherwise use it meanwhile. */
  if (node_params_check(st, params, graph) == 0 && node_params_take(st, params) == 0) {
    const cch_node_spec spec = {.size = sizeof spec,
                                .type = params->type,
                                .params = node_params_of(params),
                                .bundle = params->bundle,
                                .dependencies = dependencies,
                                .dependency_count = count};
    cch_graph_node *node = NULL;
    int status;
    WITHOUT_GIL(status = cch_graph_add(&node, graph, &spec));
    if (status == 0) {
      result = node_face(st, node, params->class);
    } else {
      node_params_undone(params);
      raise_node_failed(st, status, method, NO_PLACE);
    }
  }
  node_params_unref(params);
  owners_drain(st);
  return result;
}

static PyObject *add_by_method(const node_method *method, PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                               PyObject *keywords) {
  state *st = (state *)((handle *)self)->st;
  if (st == NULL)
    return handle_hold(self);
  node_params params = {0};
  unsigned char scratch[SCRATCH_SIZE];
  const values given = {.array = arguments, .count = count};
  if (node_params_read(st, method, given, false, keywords, scratch, &params) < 0) {
    node_params_unref(&params);
    return NULL;
  }
  if (PyType_IsSubtype(Py_TYPE(self), st->node_type)) {
    cch_graph_node *after = node_box(st, self, "self");
    if (after != NULL)
      return add(st, method, &params, cch_graph_node_graph(after), &after, 1);
    node_params_unref(&params);
    return NULL;
  }
  cch_graph *graph = handle_use(self);
  if (graph == NULL) {
    node_params_unref(&params);
    return NULL;
  }
  PyObject *result = add(st, method, &params, graph, NULL, 0);
  handle_done(self);
  return result;
}

/*
 * Reads nodes that must be in `*graph` if that is set, or else in the graph of the first node. Returns -1 with an
 * exception on failure.
 */
static int read_nodes(const state *st, PyObject *const *nodes, Py_ssize_t count, cch_graph **graph,
                      cch_graph_node **out) {
  for (Py_ssize_t i = 0; i < count; i++) {
    if ((out[i] = node_in(st, nodes[i], "nodes", *graph)) == NULL)
      return -1;
    *graph = cch_graph_node_graph(out[i]);
  }
  return 0;
}

int compare_boxes(const void *a, const void *b) {
  const uintptr_t left = (uintptr_t)*(void *const *)a, right = (uintptr_t)*(void *const *)b;
  return (left > right) - (left < right);
}

size_t remove_duplicates(void *items, size_t count, size_t size, int (*compare)(const void *, const void *)) {
  size_t ascending = 1; /* nodes created one after another often have ascending addresses */
  while (ascending < count && compare((char *)items + (ascending - 1) * size, (char *)items + ascending * size) < 0)
    ascending++;
  if (ascending >= count)
    return count;
  qsort(items, count, size, compare);
  char *last = items; /* the last of the items that remain */
  for (size_t i = 1; i < count; i++) {
    const char *item = (const char *)items + i * size;
    if (compare(item, last) != 0)
      memmove(last += size, item, size);
  }
  return (size_t)(last - (char *)items) / size + 1;
}

/*
 * Implements the method join(): adds an empty node that depends on `self`, if it is a node, and on all nodes in the
 * arguments.
 */
static PyObject *join(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  state *st = (state *)((handle *)self)->st;
  if (st == NULL)
    return handle_hold(self);
  cch_graph_node *inside[INLINE_DEPENDENCIES], **nodes = inside;
  if (count + 1 > INLINE_DEPENDENCIES && (nodes = PyMem_Malloc((size_t)(count + 1) * sizeof *nodes)) == NULL)
    return PyErr_NoMemory();
  bool is_node = PyType_IsSubtype(Py_TYPE(self), st->node_type) != 0;
  cch_graph *graph = NULL;
  size_t own = 0;
  bool fine;
  if (is_node) {
    fine = read_nodes(st, &self, 1, &graph, nodes) == 0;
    own = 1;
  } else {
    fine = (graph = handle_use(self)) != NULL;
  }
  PyObject *result = NULL;
  if (fine && read_nodes(st, arguments, count, &graph, nodes + own) == 0) {
    size_t different = remove_duplicates(nodes, (size_t)count + own, sizeof *nodes, compare_boxes);
    node_params params = {.type = CCH_NODE_EMPTY, .class = CCH_NODE_EMPTY};
    result = add(st, &node_methods[METHOD_empty], &params, graph, nodes, different);
  }
  if (!is_node && fine)
    handle_done(self);
  if (nodes != inside)
    PyMem_Free(nodes);
  return result;
}

#define DEFINE(method, ...)                                                                                            \
  static PyObject *add_##method(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {    \
    return add_by_method(&node_methods[METHOD_##method], self, arguments, count, keywords);                            \
  }
NODE_METHODS(DEFINE)
#undef DEFINE

#define METHOD(method, ...) {#method, FASTCALL(add_##method), METH_FASTCALL | METH_KEYWORDS, DOC_NodeMethods_##method},
PyMethodDef graph_adders[] = {
    SHARED_NODE_METHODS(METHOD){"empty", FASTCALL(add_empty), METH_FASTCALL | METH_KEYWORDS, DOC_GraphHandle_empty},
    {"join", FASTCALL(join), METH_FASTCALL, DOC_GraphHandle_join},
    {NULL, NULL, 0, NULL},
};
PyMethodDef node_adders[] = {
    SHARED_NODE_METHODS(METHOD){"join", FASTCALL(join), METH_FASTCALL, DOC_NodeHandle_join},
    {NULL, NULL, 0, NULL},
};
#undef METHOD
