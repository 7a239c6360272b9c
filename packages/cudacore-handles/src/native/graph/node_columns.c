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
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item = PyTuple_GetItem(after, i);
    if ((self->after[i] = node_in(self->st, item, "after", self->graph)) == NULL)
      return -1;
  }
  self->given.after = self->after;
  self->given.after_count = (size_t)count;
  return 0;
}

/* Reads what nodes launch: the configurations, the kernel and the columns. Runs Python code. */
static int read_parameters(additions *self, PyObject *configs, PyObject *face, PyObject *columns) {
  if (!PyTuple_Check(configs) || !PyTuple_Check(columns))
    return raise_error(PyExc_TypeError, "configs and columns must be tuples");
  self->given.size = sizeof self->given;
  self->given.kernel = use_face(face, self->st->kernel_type, "kernel must be a Kernel, not '%U'", &self->params);
  if (self->given.kernel == NULL || read_configs(self, configs) < 0 ||
      find_device_for_memory_checks(self->st, CURRENT_DEVICE, &self->device) < 0)
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
  self.graph = graph_use(st, arguments[0], "a GraphDefinition is needed, not '%U'");
  if (self.graph == NULL)
    return NULL;
  PyObject *result = read_all(&self, arguments) == 0 ? add(&self) : NULL;
  handle_done(arguments[0]);
  release(&self);
  return result;
}

/* ---- nodes that exist ---- */

/* Nodes that a call changes or destroys, each with a reference. */
typedef struct existing {
  cch_graph_node **nodes;
  size_t count;
} existing;

static void release_existing(existing *self) {
  for (size_t i = 0; i < self->count; i++)
    box_unref(self->nodes[i]);
  PyMem_Free(self->nodes);
}

/* Gets the boxes of nodes that add_kernels() added, by their handles and numbers. A node that was destroyed is NULL. */
static int find_numbered(const state *st, cch_graph *graph, PyObject *handles, PyObject *numbers, existing *out) {
  unsigned long long first;
  long long step;
  if (read_pair(numbers, &first, &step) < 0)
    return -1;
  const CUgraphNode *raw = (const CUgraphNode *)(const void *)PyBytes_AsString(handles);
  const size_t count = (size_t)PyBytes_Size(handles) / sizeof *raw;
  if ((out->nodes = allocate(count, sizeof(void *))) == NULL)
    return -1;
  out->count = count;
  int status = 0;
  Py_BEGIN_ALLOW_THREADS;
  for (size_t i = 0; i < count && (status == 0 || status == CCH_EGONE); i++)
    status = cch_graph_node_numbered(&out->nodes[i], graph, raw[i], first + (uint64_t)(step * (long long)i));
  Py_END_ALLOW_THREADS;
  return status != CCH_EGONE ? check_status(st, status) : 0;
}

/* Gets the boxes of the nodes of a tuple, which must be in `graph`, unless that is NULL. */
static int read_faces(const state *st, const cch_graph *graph, PyObject *faces, existing *out) {
  const Py_ssize_t count = PyTuple_Size(faces);
  if (count < 0 || (out->nodes = allocate((size_t)count, sizeof(void *))) == NULL)
    return -1;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *face = PyTuple_GetItem(faces, i);
    cch_graph_node *node = PyType_IsSubtype(Py_TYPE(face), st->node_type) ? ((handle *)face)->box : NULL;
    if (node == NULL || cch_is_valid(node))
      node = node_in(st, face, "nodes", graph);
    if (node == NULL) {
      name_node((size_t)i);
      return -1;
    }
    out->nodes[out->count++] = cch_graph_node_ref(node);
  }
  return 0;
}

/* Reads nodes: a tuple of faces; or bytes with handles, and a tuple of the first node's number and the step. */
static int read_existing(const state *st, cch_graph *graph, PyObject *nodes, PyObject *numbers, existing *out) {
  return PyBytes_Check(nodes) ? find_numbered(st, graph, nodes, numbers, out) : read_faces(st, graph, nodes, out);
}

static PyObject *set_all(additions *self, PyObject *exec_face, const existing *those) {
  const bool in_exec = exec_face != Py_None;
  cch_graph_exec *exec = in_exec ? handle_use(exec_face) : NULL;
  if (in_exec && exec == NULL)
    return NULL;
  size_t failed = 0;
  int status;
  WITHOUT_GIL(status = cch_graph_set_kernels(exec, those->nodes, &self->given, those->count, &failed));
  if (in_exec)
    handle_done(exec_face);
  return status == 0 ? Py_NewRef(Py_None) : raise_failed(self->st, status, "update_many", (Py_ssize_t)failed);
}

/* Calls `prepare` in the context of the nodes, and changes the nodes as its result says. */
static PyObject *set_existing(additions *self, PyObject *exec_face, PyObject *prepare, const existing *those) {
  context_change change;
  for (size_t i = 0; i < those->count; i++)
    if (those->nodes[i] == NULL || !cch_is_valid(those->nodes[i]))
      return PyErr_Format(self->st->faces.closed_error, "node %zu was destroyed: it is in no graph any more", i);
  if (those->count == 0 || enter_context(self->st, those->nodes[0], &change) < 0)
    return those->count == 0 ? Py_NewRef(Py_None) : NULL;
  PyObject *given = PyObject_CallNoArgs(prepare), *result = NULL;
  PyObject *configs, *kernel, *columns;
  if (given != NULL && PyArg_ParseTuple(given, "OOO", &configs, &kernel, &columns) &&
      read_parameters(self, configs, kernel, columns) == 0)
    result = set_all(self, exec_face, those);
  leave_context(&change);
  KEEPING_EXCEPTION(Py_XDECREF(given));
  return result;
}

static PyObject *set_kernels(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("set_kernels(executable, graph, nodes, numbers, prepare)", count, 5) < 0)
    return NULL;
  additions self = {.st = st, .device = UNCHECKED_DEVICE};
  owners_init(&self.keep, false);
  existing those = {0};
  PyObject *result = NULL;
  const bool has_graph = arguments[1] != Py_None;
  cch_graph *graph = has_graph ? graph_use(st, arguments[1], "a GraphDefinition is needed, not '%U'") : NULL;
  if (has_graph && graph == NULL)
    return NULL;
  if (read_existing(st, graph, arguments[2], arguments[3], &those) == 0) {
    self.count = those.count;
    result = set_existing(&self, arguments[0], arguments[4], &those);
  }
  if (has_graph)
    handle_done(arguments[1]);
  KEEPING_EXCEPTION(release_existing(&those); release(&self));
  return result;
}

static PyObject *destroy_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("destroy_nodes(graph, nodes, numbers)", count, 3) < 0)
    return NULL;
  cch_graph *graph = graph_use(st, arguments[0], "a GraphDefinition is needed, not '%U'");
  existing those = {0};
  if (graph == NULL)
    return NULL;
  size_t failed = 0;
  int status = -1;
  if (read_existing(st, graph, arguments[1], arguments[2], &those) == 0) {
    WITHOUT_GIL(status = cch_graph_destroy_nodes(graph, those.nodes, those.count, &failed));
    if (status != 0)
      raise_failed(st, status, "destroy", (Py_ssize_t)failed);
  }
  handle_done(arguments[0]);
  KEEPING_EXCEPTION(release_existing(&those));
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
  cch_graph *graph = graph_use(st, arguments[0], "a GraphDefinition is needed, not '%U'");
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
