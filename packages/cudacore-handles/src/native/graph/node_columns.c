/* SPDX-License-Identifier: Apache-2.0 */
/* Adds many nodes of one kernel in one call, with columns of arguments, and makes their faces when they are needed. */
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
  if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
    PyErr_SetString(PyExc_TypeError, "a tuple of two integers is needed");
    return -1;
  }
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
  if (!kernel_has_layout(face) || PyTuple_Size(columns) != face->params.count) {
    PyErr_SetString(PyExc_ValueError, "a column is needed for each parameter of a kernel whose layout is known");
    return -1;
  }
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
  self->given.after_count = remove_duplicates(self->after, (size_t)count, sizeof *self->after, compare_boxes);
  return 0;
}

/* Reads all arguments except the graph. Runs Python code. */
static int read_all(additions *self, PyObject *const *arguments) {
  PyObject *face = arguments[2];
  unsigned long long edges;
  long long edge_count;
  if (!PyTuple_Check(arguments[1]) || !PyTuple_Check(arguments[3]) || !PyTuple_Check(arguments[6])) {
    PyErr_SetString(PyExc_TypeError, "configs, columns and after must be tuples");
    return -1;
  }
  self->count = PyLong_AsSize_t(arguments[4]);
  if (PyErr_Occurred() || read_pair(arguments[5], &edges, &edge_count) < 0)
    return -1;
  self->given.size = sizeof self->given;
  self->given.edges = (const uint32_t *)(uintptr_t)edges;
  self->given.edge_count = (size_t)edge_count;
  self->given.kernel = use_face(face, self->st->kernel_type, "kernel must be a Kernel, not '%U'", &self->params);
  if (self->given.kernel == NULL || read_configs(self, arguments[1]) < 0 ||
      find_device_for_memory_checks(self->st, CURRENT_DEVICE, &self->device) < 0)
    return -1;
  int status = read_columns(self, face, arguments[3]);
  status = take_bundle(self->st, &self->keep, &self->params, status);
  self->given.bundle = self->params.bundle;
  return status == 0 ? read_after(self, arguments[6]) : -1; /* last: runs no Python code, so the nodes stay valid */
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
    return raise_node_failed(self->st, status, &node_methods[METHOD_launch], (Py_ssize_t)failed);
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
  node_params_unref(&self.params);
  handle_done(arguments[0]);
  for (size_t i = 0; self.blocks != NULL && i < self.given.column_count; i++)
    PyMem_Free(self.blocks[i]);
  PyMem_Free(self.blocks);
  PyMem_Free(self.columns);
  PyMem_Free(self.configs);
  PyMem_Free(self.after);
  owners_drain(st);
  return result;
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

static PyMethodDef functions[] = {
    {"add_kernels", FASTCALL(add_kernels), METH_FASTCALL, DOC_add_kernels},
    {"numbered_node", FASTCALL(numbered_node), METH_FASTCALL, DOC_numbered_node},
    {NULL, NULL, 0, NULL},
};

int add_node_column_functions(PyObject *module) { return PyModule_AddFunctions(module, functions); }
