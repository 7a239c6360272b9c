/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds, changes and destroys many nodes in one call. Nodes of one kernel have columns of arguments; faces of added
 * nodes are made when they are needed.
 */
#include "graph/node_methods.h"
#include "launch/pack.h"

typedef struct additions {
  state *st;
  cch_graph *graph;
  size_t count;
  node_params params; /* shared by the nodes: the kernel, which is in use, and the bundle */
  owners keep;
  int device;
  cch_kernel_columns given;
  const cch_launch_config **configs;
  cch_column *columns;
  cch_graph_node **after;
  void **blocks; /* for each column that is not an array, its packed values */
} additions;

static void *allocate(size_t count, size_t size) {
  void *memory = PyMem_Calloc(count != 0 ? count : 1, size != 0 ? size : 1);
  if (memory == NULL)
    PyErr_NoMemory();
  return memory;
}

/* Reads a tuple of two integers. */
static int read_pair(PyObject *pair, unsigned long long *first, long long *second) {
  if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2)
    return raise_error(PyExc_TypeError, "a tuple of two integers is needed");
  *first = PyLong_AsUnsignedLongLong(PyTuple_GetItem(pair, 0));
  *second = PyErr_Occurred() ? -1 : PyLong_AsLongLong(PyTuple_GetItem(pair, 1));
  return PyErr_Occurred() ? -1 : 0;
}

/* ---- columns ---- */

/* Packs a column that is a list with one value for each node. */
static int read_list(additions *self, const layout *params, size_t index, PyObject *list) {
  const param p = param_at(params, (Py_ssize_t)index);
  unsigned char *block = self->blocks[index] = allocate(self->count, p.size);
  if (block == NULL)
    return -1;
  self->columns[index] = (cch_column){block, (int64_t)p.size};
  for (size_t i = 0; i < self->count; i++) {
    PyObject *value = PySequence_GetItem(list, (Py_ssize_t)i);
    /* pack_parameter() adds the offset of the parameter, so the offset is subtracted here. */
    unsigned char *out = (unsigned char *)((uintptr_t)block + i * p.size - p.offset);
    int status =
        value != NULL ? pack_parameter(self->st, params, (Py_ssize_t)index, value, out, &self->keep, self->device) : -1;
    if (status == 0) {
      Py_DECREF(value);
      continue;
    }
    KEEPING_EXCEPTION(Py_XDECREF(value));
    name_node(i);
    return -1;
  }
  return 0;
}

static int read_column(additions *self, const layout *params, size_t index, PyObject *column) {
  if (PyTuple_Check(column)) {
    unsigned long long address;
    long long stride;
    if (read_pair(column, &address, &stride) < 0)
      return -1;
    self->columns[index] = (cch_column){(const void *)(uintptr_t)address, stride};
    return 0;
  }
  if (PyList_Check(column))
    return read_list(self, params, index, column);
  const param p = param_at(params, (Py_ssize_t)index);
  unsigned char *block = self->blocks[index] = allocate(1, p.size);
  if (block == NULL)
    return -1;
  self->columns[index] = (cch_column){block, 0};
  return pack_parameter(self->st, params, (Py_ssize_t)index, column, (unsigned char *)((uintptr_t)block - p.offset),
                        &self->keep, self->device);
}

static int read_columns(additions *self, PyObject *kernel_face, PyObject *columns) {
  const kernel *face = (const kernel *)kernel_face;
  self->given.column_count = (size_t)PyTuple_Size(columns);
  if (!kernel_has_layout(face) || PyTuple_Size(columns) != face->params.count)
    return raise_error(PyExc_ValueError, "a column is needed for each parameter of a kernel whose layout is known");
  self->columns = allocate(self->given.column_count, sizeof *self->columns);
  self->blocks = allocate(self->given.column_count, sizeof *self->blocks);
  if (self->columns == NULL || self->blocks == NULL)
    return -1;
  self->given.columns = self->columns;
  int status = 0;
  for (size_t i = 0; i < self->given.column_count && status == 0; i++)
    status = read_column(self, &face->params, i, PyTuple_GetItem(columns, (Py_ssize_t)i));
  return status;
}

/* ---- reading the other arguments, and adding the nodes ---- */

static int read_configs(additions *self, PyObject *configs) {
  const Py_ssize_t count = PyTuple_Size(configs);
  if (count < 0 || (self->configs = allocate((size_t)count, sizeof *self->configs)) == NULL)
    return -1;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item = PyTuple_GetItem(configs, i);
    if (!PyType_IsSubtype(Py_TYPE(item), self->st->config_type)) {
      raise_about(PyExc_TypeError, "config must be a LaunchConfig, not '%U'", item, 0, 0);
      return -1;
    }
    self->configs[i] = &((config *)item)->config; /* the caller's tuple keeps the configuration alive */
  }
  self->given.configs = self->configs;
  self->given.config_count = (size_t)count;
  return 0;
}

static int read_after(additions *self, PyObject *after) {
  const Py_ssize_t count = PyTuple_Size(after);
  if (count < 0 || (self->after = allocate((size_t)count, sizeof(void *))) == NULL)
    return -1;
  if (read_nodes(self->st, (values){.tuple = after, .count = count}, "after", self->graph, self->after) < 0)
    return -1;
  self->given.after = self->after;
  self->given.after_count = (size_t)count;
  return 0;
}

/* Reads what nodes launch: the configurations, the kernel and the columns. Runs Python code. */
static int read_parameters(additions *self, PyObject *configs, PyObject *face, PyObject *columns) {
  if (!PyTuple_Check(configs) || !PyTuple_Check(columns))
    return raise_error(PyExc_TypeError, "configs and columns must be tuples");
  self->given.kernel = use_face(face, self->st->kernel_type, "kernel must be a Kernel, not '%U'", &self->params);
  if (self->given.kernel == NULL || read_configs(self, configs) < 0 ||
      find_device_for_memory_checks(self->st, NULL, &self->device) < 0)
    return -1;
  int status = read_columns(self, face, columns);
  status = take_bundle(self->st, &self->keep, &self->params, status);
  self->given.bundle = self->params.bundle;
  return status;
}

/* Reads all arguments except the graph. Runs Python code. */
static int read_all(additions *self, PyObject *const *arguments) {
  unsigned long long edges;
  long long edge_count;
  self->count = PyLong_AsSize_t(arguments[4]);
  if (PyErr_Occurred() || read_pair(arguments[5], &edges, &edge_count) < 0)
    return -1;
  self->given.edges = (const uint32_t *)(uintptr_t)edges;
  self->given.edge_count = (size_t)edge_count;
  if (read_parameters(self, arguments[1], arguments[2], arguments[3]) < 0)
    return -1;
  return read_after(self, arguments[6]); /* last: runs no Python code, so the nodes stay valid */
}

static void release(additions *self) {
  node_params_unref(&self->params);
  for (size_t i = 0; self->blocks != NULL && i < self->given.column_count; i++)
    PyMem_Free(self->blocks[i]);
  PyMem_Free(self->blocks);
  PyMem_Free(self->columns);
  PyMem_Free(self->configs);
  PyMem_Free(self->after);
  owners_drain(self->st);
}

static PyObject *add(additions *self) {
  PyObject *handles = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(self->count * sizeof(CUgraphNode)));
  if (handles == NULL)
    return NULL;
  CUgraphNode *out = (CUgraphNode *)(void *)PyBytes_AsString(handles);
  size_t failed = 0;
  uint64_t first = 0;
  int status;
  WITHOUT_GIL(status = cch_graph_add_kernels(out, &first, self->graph, &self->given, self->count, &failed));
  if (status != 0) {
    Py_DECREF(handles);
    return raise_failed(self->st, status, "launch", (Py_ssize_t)failed);
  }
  return Py_BuildValue("(NK)", handles, (unsigned long long)first);
}

static PyObject *add_kernels(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("add_kernels(graph, configs, kernel, columns, count, edges, after)", count, 7) < 0)
    return NULL;
  additions self = {.st = st, .device = UNCHECKED_DEVICE};
  owners_init(&self.keep, false);
  self.graph = graph_use(st, arguments[0], NULL);
  if (self.graph == NULL)
    return NULL;
  PyObject *result = read_all(&self, arguments) == 0 ? add(&self) : NULL;
  handle_done(arguments[0]);
  release(&self);
  return result;
}

/* ---- nodes that exist ---- */

/*
 * Returns the boxes of the nodes in a tuple, which must be in `graph`, unless that is NULL. Nodes that were destroyed
 * can be among them. The caller frees the array. NULL with an exception on failure.
 */
static cch_graph_node **read_existing(const state *st, const cch_graph *graph, PyObject *faces) {
  const Py_ssize_t count = PyTuple_Size(faces);
  cch_graph_node **nodes = count >= 0 ? allocate((size_t)count, sizeof(void *)) : NULL;
  for (Py_ssize_t i = 0; nodes != NULL && i < count; i++) {
    PyObject *face = PyTuple_GetItem(faces, i);
    nodes[i] = PyType_IsSubtype(Py_TYPE(face), st->node_type) ? ((handle *)face)->box : NULL;
    if (nodes[i] != NULL && !cch_is_valid(nodes[i]))
      continue;
    if ((nodes[i] = node_in(st, face, "nodes", graph)) == NULL) {
      name_node((size_t)i);
      PyMem_Free(nodes);
      return NULL;
    }
  }
  return nodes;
}

static PyObject *set_all(additions *self, PyObject *exec_face, cch_graph_node *const *nodes) {
  const bool in_exec = exec_face != Py_None;
  cch_graph_exec *exec = in_exec ? handle_use(exec_face) : NULL;
  if (in_exec && exec == NULL)
    return NULL;
  size_t failed = 0;
  int status;
  WITHOUT_GIL(status = cch_graph_set_kernels(exec, nodes, &self->given, self->count, &failed));
  if (in_exec)
    handle_done(exec_face);
  return status == 0 ? Py_NewRef(Py_None) : raise_failed(self->st, status, "update_many", (Py_ssize_t)failed);
}

/* Calls `prepare` in the context of the nodes, and changes the nodes as its result says. */
static PyObject *set_nodes(additions *self, PyObject *exec_face, PyObject *prepare, cch_graph_node *const *nodes) {
  context_change change;
  for (size_t i = 0; i < self->count; i++)
    if (!cch_is_valid(nodes[i]))
      return PyErr_Format(self->st->faces.closed_error, "node %zu was destroyed: it is in no graph any more", i);
  if (self->count == 0 || enter_context(self->st, nodes[0], &change) < 0)
    return self->count == 0 ? Py_NewRef(Py_None) : NULL;
  PyObject *given = PyObject_CallNoArgs(prepare), *result = NULL;
  PyObject *configs, *kernel, *columns;
  if (given != NULL && PyArg_ParseTuple(given, "OOO", &configs, &kernel, &columns) &&
      read_parameters(self, configs, kernel, columns) == 0)
    result = set_all(self, exec_face, nodes);
  leave_context(&change);
  KEEPING_EXCEPTION(Py_XDECREF(given));
  return result;
}

static PyObject *set_kernels(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("set_kernels(executable, graph, nodes, prepare)", count, 4) < 0)
    return NULL;
  const bool has_graph = arguments[1] != Py_None;
  cch_graph *graph = has_graph ? graph_use(st, arguments[1], NULL) : NULL;
  if (has_graph && graph == NULL)
    return NULL;
  additions self = {.st = st, .device = UNCHECKED_DEVICE};
  owners_init(&self.keep, false);
  PyObject *result = NULL;
  cch_graph_node **nodes = read_existing(st, graph, arguments[2]);
  if (nodes != NULL) {
    self.count = (size_t)PyTuple_Size(arguments[2]);
    result = set_nodes(&self, arguments[0], arguments[3], nodes);
  }
  if (has_graph)
    handle_done(arguments[1]);
  PyMem_Free(nodes);
  KEEPING_EXCEPTION(release(&self));
  return result;
}

/* Destroys a node, unless that has happened before. */
static int destroy_node(cch_graph_node *node) {
  const int status = cch_graph_node_destroy(node);
  return status != CCH_EGONE ? status : 0;
}

static PyObject *destroy_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("destroy_nodes(graph, nodes)", count, 2) < 0)
    return NULL;
  cch_graph *graph = graph_use(st, arguments[0], NULL);
  cch_graph_node **nodes = graph != NULL ? read_existing(st, graph, arguments[1]) : NULL;
  int status = -1;
  if (nodes != NULL) {
    const Py_ssize_t node_count = PyTuple_Size(arguments[1]);
    Py_ssize_t done = 0;
    WITHOUT_GIL(for (status = 0; status == 0 && done < node_count; done += status == 0) status =
                    destroy_node(nodes[done]));
    if (status != 0)
      raise_failed(st, status, "destroy", done);
  }
  if (graph != NULL)
    handle_done(arguments[0]);
  PyMem_Free(nodes);
  owners_drain(st);
  return status == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *numbered_node(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("numbered_node(graph, handle, number)", count, 3) < 0)
    return NULL;
  const unsigned long long handle = PyLong_AsUnsignedLongLong(arguments[1]);
  const unsigned long long number = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(arguments[2]);
  if (PyErr_Occurred())
    return NULL;
  cch_graph *graph = graph_use(st, arguments[0], NULL);
  if (graph == NULL)
    return NULL;
  cch_graph_node *node;
  const int status = cch_graph_node_numbered(&node, graph, (CUgraphNode)(uintptr_t)handle, number);
  handle_done(arguments[0]);
  if (status == CCH_EGONE)
    return Py_NewRef(Py_None);
  return status == 0 ? node_face(st, node, CCH_NODE_KERNEL) : raise_status(st, status);
}

PyMethodDef node_column_functions[] = {
    {"add_kernels", FASTCALL(add_kernels), METH_FASTCALL, DOC_add_kernels},
    {"set_kernels", FASTCALL(set_kernels), METH_FASTCALL, DOC_set_kernels},
    {"destroy_nodes", FASTCALL(destroy_nodes), METH_FASTCALL, DOC_destroy_nodes},
    {"numbered_node", FASTCALL(numbered_node), METH_FASTCALL, DOC_numbered_node},
    {NULL, NULL, 0, NULL},
};
