/* SPDX-License-Identifier: Apache-2.0 */
/* Adds many nodes in one call, with little Python code for each. */
#include "graph/node_methods.h"

/* The dependencies of one node of the batch: ranges of the two lists below. */
typedef struct span {
  size_t nodes, node_count, indices, index_count;
} span;

typedef struct batch {
  state *st;
  cch_graph *graph;
  size_t count;
  node_params *params; /* must not be moved, because they contain pointers to themselves */
  const node_method **methods;
  span *spans;
  cch_graph_node **nodes; /* for all nodes of the batch, the dependencies that are nodes of the graph */
  size_t node_count, node_room;
  uint32_t *indices; /* for all nodes of the batch, the dependencies that are indices of earlier nodes */
  size_t index_count, index_room;
  PyObject *kept; /* a list that keeps the nodes' faces alive, because other threads could release them */
} batch;

static int grow(void **array, size_t *room, size_t needed, size_t size) {
  if (needed <= *room)
    return 0;
  size_t more = *room == 0 ? 64 : 2 * *room;
  void *larger = PyMem_Realloc(*array, more * size);
  if (larger == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  *array = larger;
  *room = more;
  return 0;
}

/* Reads one dependency: a node of the graph, or the index of an earlier node of the batch. */
static int read_dependency(batch *self, size_t place, PyObject *item) {
  if (PyLong_Check(item) && !PyBool_Check(item)) {
    size_t index = PyLong_AsSize_t(item);
    if (index == (size_t)-1 || index >= place) {
      PyErr_Clear();
      return raise_error(PyExc_ValueError, "%R is not the number of an earlier node of the batch", item);
    }
    if (grow((void **)&self->indices, &self->index_room, self->index_count + 1, sizeof *self->indices) < 0)
      return -1;
    self->indices[self->index_count++] = (uint32_t)index;
    self->spans[place].index_count++;
    return 0;
  }
  cch_graph_node *node = node_in(self->st, item, "after", self->graph);
  if (node == NULL || PyList_Append(self->kept, item) < 0 ||
      grow((void **)&self->nodes, &self->node_room, self->node_count + 1, sizeof(void *)) < 0)
    return -1;
  self->nodes[self->node_count++] = node;
  self->spans[place].node_count++;
  return 0;
}

static int read_dependencies(batch *self, size_t place, PyObject *after) {
  self->spans[place] = (span){.nodes = self->node_count, .indices = self->index_count};
  if (after == Py_None)
    return 0;
  if (!PyTuple_Check(after) && !PyList_Check(after))
    return read_dependency(self, place, after);
  for (Py_ssize_t i = 0; i < PySequence_Size(after); i++) {
    PyObject *item = PySequence_GetItem(after, i);
    int status = item != NULL ? read_dependency(self, place, item) : -1;
    Py_XDECREF(item);
    if (status < 0)
      return -1;
  }
  return PyErr_Occurred() ? -1 : 0;
}

/* Reads one node of the batch, a tuple (method, after, *arguments). */
static int read_item(batch *self, size_t place, PyObject *item) {
  if (!PyTuple_Check(item) || PyTuple_Size(item) < 2)
    return raise_error(PyExc_TypeError, "a node of a batch is a tuple (method, after, *arguments), not %R", item);
  self->methods[place] = node_method_find(PyTuple_GetItem(item, 0));
  if (self->methods[place] == NULL || read_dependencies(self, place, PyTuple_GetItem(item, 1)) < 0)
    return -1;
  node_params *params = &self->params[place];
  const values given = {.tuple = item, .first = 2, .count = PyTuple_Size(item) - 2};
  const node_method *method = self->methods[place];
  if (node_params_read(self->st, method, given, true, NULL, NULL, params) < 0 ||
      node_params_check(self->st, params, self->graph) < 0)
    return -1;
  return node_params_take(self->st, params); /* no other node of the batch can use its condition */
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

/* Adds the nodes that were read; `out` gets their boxes. Returns -1 with an exception on failure. */
static int add(batch *self, cch_graph_node **out) {
  cch_node_spec *specs = PyMem_Calloc(self->count, sizeof *specs);
  if (specs == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < self->count; i++) {
    const span *s = &self->spans[i];
    specs[i] = (cch_node_spec){.size = sizeof *specs,
                               .type = self->params[i].type,
                               .params = node_params_of(&self->params[i]),
                               .bundle = self->params[i].bundle,
                               .dependencies = s->node_count != 0 ? self->nodes + s->nodes : NULL,
                               .dependency_count = s->node_count,
                               .earlier = s->index_count != 0 ? self->indices + s->indices : NULL,
                               .earlier_count = s->index_count};
  }
  size_t failed = 0;
  int status;
  WITHOUT_GIL(status = cch_graph_add_batch(out, self->graph, specs, self->count, &failed));
  PyMem_Free(specs);
  if (status == 0)
    return 0;
  raise_failed(self->st, status, self->methods[failed < self->count ? failed : 0]->name, (Py_ssize_t)failed);
  name_node(failed);
  return -1;
}

/* Makes a list of the faces of new nodes. Takes over the references to the boxes. */
static PyObject *faces_of(batch *self, cch_graph_node **nodes) {
  PyObject *result = PyList_New((Py_ssize_t)self->count);
  for (size_t i = 0; i < self->count; i++) {
    if (result == NULL) {
      cch_graph_node_unref(nodes[i]);
      continue;
    }
    PyObject *face = node_face(self->st, nodes[i], self->params[i].class);
    if (face == NULL)
      Py_CLEAR(result);
    else
      PyList_SetItem(result, (Py_ssize_t)i, face);
  }
  return result;
}

static PyObject *add_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("add_nodes(graph, items)", count, 2) < 0)
    return NULL;
  PyObject *items = PySequence_List(arguments[1]); /* a copy that no other code can change */
  if (items == NULL)
    return NULL;
  batch self = {.st = st, .count = (size_t)PyList_Size(items), .kept = PyList_New(0)};
  self.graph = graph_use(st, arguments[0], "a GraphDefinition is needed, not '%U'");
  PyObject *result = NULL;
  size_t read = 0;
  bool added = false;
  cch_graph_node **nodes = NULL;
  if (self.graph == NULL || self.kept == NULL)
    goto done;
  if (self.count == 0) {
    result = PyList_New(0);
    goto done;
  }
  self.params = PyMem_Calloc(self.count, sizeof *self.params);
  self.methods = PyMem_Calloc(self.count, sizeof *self.methods);
  self.spans = PyMem_Calloc(self.count, sizeof *self.spans);
  nodes = PyMem_Calloc(self.count, sizeof(void *));
  if (self.params == NULL || self.methods == NULL || self.spans == NULL || nodes == NULL) {
    PyErr_NoMemory();
    goto done;
  }
  while (read < self.count) {
    read++;
    if (read_item(&self, read - 1, PyList_GetItem(items, (Py_ssize_t)read - 1)) < 0) {
      name_node(read - 1);
      goto done;
    }
  }
  added = add(&self, nodes) == 0;
  if (added)
    result = faces_of(&self, nodes);
done:
  for (size_t i = 0; i < read; i++) {
    if (!added)
      node_params_undone(&self.params[i]);
    node_params_unref(&self.params[i]);
  }
  if (self.graph != NULL)
    handle_done(arguments[0]);
  PyMem_Free(nodes);
  PyMem_Free(self.spans);
  PyMem_Free(self.methods);
  PyMem_Free(self.params);
  PyMem_Free(self.nodes);
  PyMem_Free(self.indices);
  KEEPING_EXCEPTION(Py_XDECREF(self.kept); Py_DECREF(items));
  owners_drain(st);
  return result;
}

PyMethodDef node_batch_functions[] = {
    {"add_nodes", FASTCALL(add_nodes), METH_FASTCALL, DOC_add_nodes},
    {NULL, NULL, 0, NULL},
};
