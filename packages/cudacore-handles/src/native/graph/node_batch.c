/* SPDX-License-Identifier: Apache-2.0 */
/* Adds many nodes in one call, with little Python code for each. */
#include "graph/node_methods.h"

enum { FEW = 2 }; /* this many dependencies need no allocation */

typedef struct item {
  node_params params; /* must not be moved, because it contains pointers to itself */
  const node_method *method;
  PyObject *after; /* a copy of a list of dependencies, which other code cannot change; otherwise NULL */
  cch_graph_node *nodes[FEW];
  uint32_t indices[FEW];
  void *heap; /* in place of these two arrays, for more dependencies */
} item;

typedef struct batch {
  state *st;
  cch_graph *graph;
  size_t count;
  item *items;
  cch_node_spec *specs;
} batch;

/* Reads dependencies: each a node of the graph, or the index of an earlier node of the batch. */
static int read_dependencies(batch *self, size_t place, values after, cch_graph_node **nodes, uint32_t *indices) {
  cch_node_spec *spec = &self->specs[place];
  spec->dependencies = nodes;
  spec->earlier = indices;
  for (Py_ssize_t i = 0; i < after.count; i++) {
    PyObject *one = value_at(&after, i);
    if (!PyLong_Check(one) || PyBool_Check(one)) {
      if ((nodes[spec->dependency_count++] = node_in(self->st, one, "after", self->graph)) == NULL)
        return -1;
      continue;
    }
    size_t index = PyLong_AsSize_t(one);
    if (index == (size_t)-1 || index >= place) {
      PyErr_Clear();
      return raise_error(PyExc_ValueError, "%R is not the number of an earlier node of the batch", one);
    }
    indices[spec->earlier_count++] = (uint32_t)index;
  }
  return 0;
}

static int read_after(batch *self, size_t place, PyObject *after) {
  item *node = &self->items[place];
  values given = {.array = &after, .count = after != Py_None};
  if (PyList_Check(after) && (after = node->after = PySequence_Tuple(after)) == NULL)
    return -1;
  if (PyTuple_Check(after))
    given = (values){.tuple = after, .count = PyTuple_Size(after)};
  if (given.count <= FEW)
    return read_dependencies(self, place, given, node->nodes, node->indices);
  const size_t count = (size_t)given.count;
  cch_graph_node **nodes = node->heap = PyMem_Malloc(count * (sizeof *nodes + sizeof(uint32_t)));
  if (nodes == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  return read_dependencies(self, place, given, nodes, (uint32_t *)(nodes + count));
}

/* Reads one node of the batch, a tuple (method, after, *arguments). */
static int read_item(batch *self, size_t place, PyObject *tuple) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) < 2)
    return raise_error(PyExc_TypeError, "a node of a batch is a tuple (method, after, *arguments), not %R", tuple);
  item *node = &self->items[place];
  node_params *params = &node->params;
  const values given = {.tuple = tuple, .first = 2, .count = PyTuple_Size(tuple) - 2};
  node->method = node_method_find(PyTuple_GetItem(tuple, 0));
  if (node->method == NULL || read_after(self, place, PyTuple_GetItem(tuple, 1)) < 0 ||
      node_params_read(self->st, node->method, given, true, NULL, NULL, params) < 0 ||
      node_params_check(params, self->graph) < 0)
    return -1;
  cch_node_spec *spec = &self->specs[place];
  spec->size = sizeof *spec;
  spec->type = params->type;
  spec->params = node_params_of(params);
  spec->bundle = params->bundle;
  return 0;
}

static int read_items(batch *self, PyObject *items) {
  for (size_t i = 0; i < self->count; i++)
    if (read_item(self, i, PyList_GetItem(items, (Py_ssize_t)i)) < 0) {
      name_node(i);
      return -1;
    }
  return 0;
}

void name_node(size_t place) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *types[] = {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError};
  bool ours = false;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    ours |= PyErr_GivenExceptionMatches(type, types[i]) != 0;
  PyObject *old = ours ? PyObject_GetAttrString(value, "args") : NULL;
  if (old != NULL && PyTuple_Size(old) == 1) {
    PyObject *message = PyUnicode_FromFormat("node %zu: %S", place, value);
    PyObject *args = message != NULL ? PyTuple_Pack(1, message) : NULL;
    if (args != NULL)
      PyObject_SetAttrString(value, "args", args);
    Py_XDECREF(args);
    Py_XDECREF(message);
  }
  PyErr_Clear();
  Py_XDECREF(old);
  PyErr_Restore(type, value, traceback);
}

/* Makes a list of the faces of new nodes. Takes over the references to the boxes. */
static PyObject *faces_of(const batch *self, cch_graph_node **nodes) {
  PyObject *result = PyList_New((Py_ssize_t)self->count);
  for (size_t i = 0; i < self->count; i++) {
    if (result == NULL) {
      cch_graph_node_unref(nodes[i]);
      continue;
    }
    PyObject *face = node_face(self->st, nodes[i], self->items[i].params.class);
    if (face == NULL)
      Py_CLEAR(result);
    else
      PyList_SetItem(result, (Py_ssize_t)i, face);
  }
  return result;
}

/* Adds the nodes that were read. */
static PyObject *add(const batch *self, cch_graph_node **nodes) {
  size_t failed = 0;
  int status;
  WITHOUT_GIL(status = cch_graph_add_batch(nodes, self->graph, self->specs, self->count, &failed));
  if (status == 0)
    return faces_of(self, nodes);
  raise_failed(self->st, status, self->items[failed < self->count ? failed : 0].method->name, (Py_ssize_t)failed);
  name_node(failed);
  return NULL;
}

static void release(const batch *self) {
  for (size_t i = 0; self->items != NULL && i < self->count; i++) {
    item *node = &self->items[i];
    node_params_unref(&node->params);
    PyMem_Free(node->heap);
    if (node->after != NULL)
      KEEPING_EXCEPTION(Py_DECREF(node->after));
  }
  PyMem_Free(self->items);
  PyMem_Free(self->specs);
}

static PyObject *add_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("add_nodes(graph, items)", count, 2) < 0)
    return NULL;
  PyObject *items = PySequence_List(arguments[1]); /* a copy that no other code can change */
  cch_graph *graph = items != NULL ? graph_use(st, arguments[0], NULL) : NULL;
  PyObject *result = NULL;
  if (graph != NULL) {
    batch self = {.st = st, .graph = graph, .count = (size_t)PyList_Size(items)};
    const size_t room = self.count + 1; /* not 0 */
    self.items = PyMem_Calloc(room, sizeof *self.items);
    self.specs = PyMem_Calloc(room, sizeof *self.specs);
    cch_graph_node **nodes = PyMem_Calloc(room, sizeof(void *));
    if (self.items == NULL || self.specs == NULL || nodes == NULL)
      PyErr_NoMemory();
    else if (read_items(&self, items) == 0)
      result = add(&self, nodes);
    release(&self);
    PyMem_Free(nodes);
    handle_done(arguments[0]);
  }
  KEEPING_EXCEPTION(Py_XDECREF(items));
  owners_drain(st);
  return result;
}

PyMethodDef node_batch_functions[] = {
    {"add_nodes", FASTCALL(add_nodes), METH_FASTCALL, DOC_add_nodes},
    {NULL, NULL, 0, NULL},
};
