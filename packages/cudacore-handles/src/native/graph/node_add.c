/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds nodes to a graph, by the methods that GraphDefinition and GraphNode share, and to the captures of streams.
 * node_set.c passes parameters to existing nodes.
 */
#include "base/failure.h"
#include "graph/node_methods.h"

enum { INLINE_DEPENDENCIES = 16 };

PyObject *raise_failed(const state *st, int status, const char *what, Py_ssize_t place) {
  return PyObject_CallFunction(st->faces.node_failed, "Nsn", failure_status(status), what, place);
}

/* ---- adding ---- */

/*
 * Adds a node that depends on others of the graph or, if `stream` is not NULL, on what the stream has captured. Takes
 * over the parameters, even if it fails.
 */
static PyObject *add(state *st, const node_method *method, node_params *params, cch_graph *graph, cch_stream *stream,
                     cch_graph_node *const *dependencies, size_t count) {
  PyObject *result = NULL;
  if (node_params_check(params, graph) == 0) {
    const cch_node_spec spec = {.size = sizeof spec,
                                .type = params->type,
                                .params = node_params_of(params),
                                .bundle = params->bundle,
                                .dependencies = dependencies,
                                .dependency_count = count};
    cch_graph_node *node = NULL;
    int status;
    WITHOUT_GIL(status = stream != NULL ? cch_capture_add(&node, stream, &spec) : cch_graph_add(&node, graph, &spec));
    result = status == 0 ? node_face(st, node, params->class) : raise_failed(st, status, method->name, NO_PLACE);
  }
  node_params_unref(params);
  owners_drain(st);
  return result;
}

/*
 * Returns the graph that a method of a graph or of a node adds to, and that node; NULL with an exception on failure. If
 * there is no node, the graph is in use until handle_done().
 */
static cch_graph *target_use(const state *st, PyObject *self, cch_graph_node **own) {
  const bool is_node = PyType_IsSubtype(Py_TYPE(self), st->node_type) != 0;
  *own = is_node ? node_box(st, self, "self") : NULL;
  return *own != NULL ? cch_graph_node_graph(*own) : is_node ? NULL : handle_use(self);
}

static PyObject *add_by_method(const node_method *method, PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                               PyObject *keywords) {
  state *st = (state *)((handle *)self)->st;
  if (st == NULL)
    return handle_hold(self);
  node_params params = {0};
  unsigned char scratch[SCRATCH_SIZE];
  const values given = {.array = arguments, .count = count};
  const bool read = node_params_read(st, method, given, false, keywords, scratch, &params) == 0;
  cch_graph_node *own;
  cch_graph *graph = read ? target_use(st, self, &own) : NULL;
  if (graph == NULL) {
    node_params_unref(&params);
    return NULL;
  }
  PyObject *result = add(st, method, &params, graph, NULL, &own, own != NULL);
  if (own == NULL)
    handle_done(self);
  return result;
}

static PyObject *capture_add(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (count < 3)
    return PyErr_Format(PyExc_TypeError, "capture_add(stream, graph, method, ...) takes 3 arguments, not %zd", count);
  const node_method *method = node_method_find(arguments[2]);
  if (method == NULL)
    return NULL;
  node_params params = {0};
  unsigned char scratch[SCRATCH_SIZE];
  const values given = {.array = arguments + 3, .count = count - 3};
  const bool read = node_params_read(st, method, given, true, NULL, scratch, &params) == 0;
  cch_graph *graph = read ? handle_use(arguments[1]) : NULL;
  cch_stream *stream = graph != NULL ? handle_use(arguments[0]) : NULL;
  PyObject *result = NULL;
  if (stream != NULL) {
    result = add(st, method, &params, graph, stream, NULL, 0);
    handle_done(arguments[0]);
  } else {
    node_params_unref(&params);
  }
  if (graph != NULL)
    handle_done(arguments[1]);
  return result;
}

PyMethodDef capture_functions[] = {
    {"capture_add", FASTCALL(capture_add), METH_FASTCALL, DOC_capture_add},
    {NULL, NULL, 0, NULL},
};

/* ---- joins ---- */

/*
 * Implements the method join(): adds an empty node that depends on `self`, if it is a node, and on all nodes in the
 * arguments.
 */
static PyObject *join(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  state *st = (state *)((handle *)self)->st;
  if (st == NULL)
    return handle_hold(self);
  cch_graph_node *own;
  cch_graph *graph = target_use(st, self, &own);
  if (graph == NULL)
    return NULL;
  cch_graph_node *inside[INLINE_DEPENDENCIES], **nodes = inside;
  if (count + 1 > INLINE_DEPENDENCIES)
    nodes = PyMem_Malloc((size_t)(count + 1) * sizeof *nodes);
  const values given = {.array = arguments, .count = count};
  PyObject *result = NULL;
  if (nodes == NULL) {
    PyErr_NoMemory();
  } else if (read_nodes(st, given, "nodes", graph, nodes) == 0) {
    node_params params = {.type = CCH_NODE_EMPTY, .class = CCH_NODE_EMPTY};
    nodes[count] = own;
    result = add(st, &node_methods[METHOD_empty], &params, graph, NULL, nodes, (size_t)count + (own != NULL));
  }
  if (own == NULL)
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
