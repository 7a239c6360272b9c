/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the parameters of graph nodes from the arguments of the methods that add them. All Python code runs here.
 * Afterwards, references to everything that the node uses are held, and only the library's call remains.
 */
#include "graph/node_methods.h"

#include <stdio.h>

/* ---- functions for several types of nodes ---- */

int read_size(const state *st, PyObject *value, const char *name, size_t least, size_t *out) {
  if (value == NULL)
    return 0;
  if (PyLong_CheckExact(value)) {
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow && number >= 0 && (size_t)number >= least) {
      *out = (size_t)number;
      return 0;
    }
  }
  PyObject *number = integer_of(st, value);
  if (number != NULL) {
    size_t size = PyLong_AsSize_t(number);
    Py_DECREF(number);
    if (!(size == (size_t)-1 && PyErr_Occurred()) && size >= least && size <= PTRDIFF_MAX) {
      *out = size;
      return 0;
    }
    PyErr_Clear();
    return raise_error(PyExc_ValueError, "%s is %R; it must be at least %zu, and less than 2**63", name, value, least);
  }
  if (PyErr_Occurred())
    return -1;
  char format[96];
  PyOS_snprintf(format, sizeof format, "%s must be an int, not '%%U'", name);
  return raise_about(PyExc_TypeError, format, value, 0, 0);
}

int take_bundle(const state *st, owners *keep, node_params *out, int status) {
  if (keep->items == keep->inside && owners_own_nothing(keep))
    return status; /* there are no owners, so the node has no bundle */
  if (status == 0)
    status = owners_bundle(st, keep, &out->bundle);
  KEEPING_EXCEPTION(owners_unref(keep));
  return status;
}

/* ---- faces that the parameters use ---- */

void *use_face(PyObject *face, const PyTypeObject *type, const char *message, node_params *out) {
  if (!PyType_IsSubtype(Py_TYPE(face), (PyTypeObject *)type)) {
    raise_about(PyExc_TypeError, message, face, 0, 0);
    return NULL;
  }
  void *box = handle_use(face);
  if (box != NULL) {
    Py_INCREF(face);
    out->used = face;
  }
  return box;
}

/* ---- checks of child graphs and conditions ---- */

int node_params_check(const node_params *params, const cch_graph *graph) {
  const cch_graph *child = params->type == CCH_NODE_GRAPH ? params->of.child.graph : NULL;
  if (child != NULL && root_of(child) == root_of(graph))
    return raise_error(PyExc_ValueError, "child is in the same graph as the node that is to run it; clone() makes an "
                                         "independent graph of it");
  if (params->condition == NULL || root_of_condition((condition *)params->condition) == root_of(graph))
    return 0;
  return raise_error(PyExc_ValueError,
                     "%R is of another graph: a conditional node takes a condition of its own graph, bodies and child "
                     "graphs included; create_condition() makes one",
                     params->condition);
}

/* ---- the methods, and reading their arguments ---- */

const node_method node_methods[] = {
#define ROW(method, positional, required, variadic, ...)                                                               \
  {#method,                                                                                                            \
   positional,                                                                                                         \
   required,                                                                                                           \
   variadic,                                                                                                           \
   sizeof((const char *[]){__VA_ARGS__ NULL}) / sizeof(char *) - 1,                                                    \
   &type_of_##method,                                                                                                  \
   read_##method,                                                                                                      \
   {__VA_ARGS__ NULL}},
    NODE_METHODS(ROW)
#undef ROW
};

const node_method *const callback_method = &node_methods[METHOD_callback];

const node_method *node_method_find(PyObject *name) {
  for (size_t i = 0; PyUnicode_Check(name) && i < NODE_METHOD_COUNT; i++)
    if (PyUnicode_CompareWithASCIIString(name, node_methods[i].name) == 0)
      return &node_methods[i];
  char known[256] = "";
  for (size_t i = 0; i < NODE_METHOD_COUNT; i++)
    snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i > 0 ? ", " : "", node_methods[i].name);
  PyErr_Format(PyExc_ValueError, "%R is not a method that adds a node; it must be one of %s", name, known);
  return NULL;
}

int node_params_read(state *st, const node_method *method, values given, bool by_position, PyObject *keywords,
                     void *scratch, node_params *out) {
  PyObject *named[MAX_ARGUMENTS] = {NULL}, *items[MAX_ARGUMENTS];
  node_arguments read = {.named = named, .scratch = scratch};
  Py_ssize_t positional = by_position ? method->name_count : method->positional;
  if (method->variadic && (keywords == NULL || PyTuple_Size(keywords) == 0)) {
    positional = given.count < method->positional ? given.count : method->positional;
    read.rest = values_from(given, positional);
    given.count = positional;
  }
  for (Py_ssize_t i = 0; given.array == NULL && i < given.count && i < MAX_ARGUMENTS; i++)
    items[i] = value_at(&given, i);
  if (sort_arguments(method->name, method->names, method->name_count, positional,
                     given.array != NULL ? given.array : items, given.count, keywords, named) < 0)
    return -1;
  for (int i = 0; i < method->required && !method->variadic; i++) /* a variadic method checks its arguments itself */
    if (named[i] == NULL)
      return raise_error(PyExc_TypeError, "%s() needs %s", method->name, method->names[i]);
  out->type = out->class = *method->type;
  return method->read(st, &read, out);
}

const void *node_params_of(const node_params *params) { return params->type == CCH_NODE_EMPTY ? NULL : &params->of; }

void node_params_unref(node_params *params) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (params->bundle != NULL) {
    /* Usually the graph has another reference, so that this does not call the driver. */
    box_unref(params->bundle);
    params->bundle = NULL;
  }
  if (params->used != NULL) {
    handle_done(params->used);
    Py_CLEAR(params->used);
  }
  Py_CLEAR(params->condition);
  PyMem_Free(params->heap);
  params->heap = NULL;
  PyErr_Restore(type, value, traceback);
}
