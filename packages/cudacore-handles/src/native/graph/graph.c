/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the frequent operations of GraphDefinition, GraphCondition and Graph. */
#include "base/failure.h"
#include "graph/graph.h"

#include <cuda.h>
#include <stdlib.h>

static PyObject *clone_graph(PyObject *module, PyObject *face) {
  state *st = PyModule_GetState(module);
  cch_graph *graph = graph_use(st, face, NULL), *copy = NULL;
  if (graph == NULL)
    return NULL;
  cch_node_list list = {0}, copies = {0};
  int status;
  WITHOUT_GIL(status = cch_graph_clone(&copy, &list, &copies, graph));
  if (status != 0)
    raise_failed(st, status, "clone", NO_PLACE);
  handle_done(face);
  if (status != 0)
    return NULL;
  PyObject *pairs = PyDict_New();
  for (size_t i = 0; pairs != NULL && i < list.count; i++) {
    cch_graph_node *node = list.nodes[i], *twin = copies.nodes[i];
    list.nodes[i] = copies.nodes[i] = NULL; /* the faces take over the references */
    PyObject *key = node_face(st, node, -1), *value = node_face(st, twin, -1);
    if (key == NULL || value == NULL || PyDict_SetItem(pairs, key, value) < 0)
      Py_CLEAR(pairs);
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  cch_node_list_free(&list);
  cch_node_list_free(&copies);
  if (pairs == NULL) {
    KEEPING_EXCEPTION(box_unref(copy));
    return NULL;
  }
  PyObject *twin = handle_make(st, Py_TYPE(face), copy);
  return twin != NULL ? Py_BuildValue("NN", twin, pairs) : (Py_DECREF(pairs), NULL);
}

/* ---- frequent operations of GraphDefinition ---- */

static PyObject *create_graph(PyObject *module, PyObject *cls) {
  const state *st = PyModule_GetState(module);
  cch_graph *graph = NULL;
  int status;
  WITHOUT_GIL(status = cch_graph_create(&graph));
  return status == 0 ? handle_make(st, (PyTypeObject *)cls, graph) : raise_status(st, status);
}

/* When CUDA destroys a graph, another one can get its handle. So graphs are compared by their boxes. */
static PyObject *graph_compare(PyObject *a, PyObject *b, int operation) {
  const handle *self = (const handle *)a, *other = (const handle *)b;
  if ((operation != Py_EQ && operation != Py_NE) || self->st == NULL ||
      !PyType_IsSubtype(Py_TYPE(b), self->st->graph_type))
    Py_RETURN_NOTIMPLEMENTED;
  int equal = a == b || (self->box == other->box && handle_is_open(self) && handle_is_open(other));
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_hash_t graph_hash(PyObject *object) {
  const handle *self = (const handle *)object;
  return (Py_hash_t)(self->raw >> 4);
}

static PyObject *is_valid(PyObject *object, void *closure) {
  (void)closure;
  const void *box = handle_try_use(object);
  bool valid = box != NULL && cch_is_valid(box);
  if (box != NULL)
    handle_done(object);
  return PyBool_FromLong(valid);
}

static PyGetSetDef graph_properties[] = {
    {"is_valid", is_valid, NULL, DOC_GraphHandle_is_valid, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Spec graph_spec =
    TYPE_SPEC("cudacore_graph.GraphDefinition", handle, SLOT(tp_doc, DOC_GraphHandle), SLOT(tp_dealloc, handle_dealloc),
              SLOT(tp_richcompare, graph_compare), SLOT(tp_hash, graph_hash), SLOT(tp_methods, graph_adders),
              SLOT(tp_getset, graph_properties));

/* ---- frequent operations of GraphCondition ---- */

const cch_graph *root_of(const cch_graph *graph) {
  for (const cch_graph *parent = cch_graph_parent(graph); parent != NULL; parent = cch_graph_parent(parent))
    graph = parent;
  return graph;
}

const cch_graph *root_of_condition(const condition *self) { return root_of(((handle *)self->graph)->box); }

PyObject *condition_make(const state *st, cch_graph *graph, unsigned long long number) {
  /* Only the condition can close its face of the graph. */
  PyObject *own = handle_make(st, (PyTypeObject *)st->faces.graph, cch_graph_ref(graph));
  condition *self = own != NULL ? new_object((PyTypeObject *)st->faces.condition) : NULL;
  if (self == NULL) {
    Py_XDECREF(own);
    return NULL;
  }
  self->graph = own;
  self->handle = number;
  return (PyObject *)self;
}

static void condition_dealloc(PyObject *object) {
  condition *self = (condition *)object;
  Py_XDECREF(self->graph);
  free_object(object);
}

static PyObject *condition_compare(PyObject *a, PyObject *b, int operation) {
  const state *st = state_of_type(Py_TYPE(a));
  if ((operation != Py_EQ && operation != Py_NE) || !PyType_IsSubtype(Py_TYPE(b), st->condition_type))
    Py_RETURN_NOTIMPLEMENTED;
  const condition *one = (const condition *)a, *other = (const condition *)b;
  /* Conditions of two graphs can have the same handle. */
  bool equal = one->handle == other->handle && root_of_condition(one) == root_of_condition(other);
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_hash_t condition_hash(PyObject *object) {
  const Py_hash_t value = (Py_hash_t)((condition *)object)->handle;
  return value == -1 ? -2 : value;
}

static PyMemberDef condition_members[] = {
    {"value", T_ULONGLONG, offsetof(condition, handle), READONLY, DOC_Condition_value},
    {"_graph", T_OBJECT, offsetof(condition, graph), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Spec condition_spec = TYPE_SPEC_WITH(
    Py_TPFLAGS_DISALLOW_INSTANTIATION, "cudacore_graph.GraphCondition", condition, SLOT(tp_doc, DOC_Condition),
    SLOT(tp_dealloc, condition_dealloc), SLOT(tp_richcompare, condition_compare), SLOT(tp_hash, condition_hash),
    SLOT(tp_members, condition_members));

/* ---- methods of Graph that programs call often ---- */

/*
 * Reads the stream from a method's arguments, and calls a function of the library with an executable graph and that
 * stream. `method` is the name in messages.
 */
static PyObject *run(PyObject *self, const char *method, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *keywords, int (*call)(cch_graph_exec *, cch_stream *)) {
  static const char *const names[] = {"stream"};
  const state *st = ((handle *)self)->st;
  PyObject *argument = NULL;
  if (count == 1 && keywords == NULL) {
    argument = arguments[0];
  } else if (sort_arguments(method, names, 1, 1, arguments, count, keywords, &argument) < 0) {
    return NULL;
  } else if (argument == NULL) {
    return PyErr_Format(PyExc_TypeError, "%s() needs a stream", method);
  }
  PyObject *face = st != NULL ? stream_accept(st, argument) : handle_hold(self);
  cch_stream *stream = face != NULL ? handle_use(face) : NULL;
  cch_graph_exec *box = stream != NULL ? handle_use(self) : NULL;
  int status = -1;
  if (box != NULL) {
    WITHOUT_GIL(status = call(box, stream));
    if (status == CUDA_ERROR_INVALID_VALUE)
      raise_failed(st, status, method, PLACE_IN_EXEC); /* the message lists the possible reasons */
    else if (status != 0)
      raise_status(st, status);
    handle_done(self);
  }
  if (stream != NULL)
    handle_done(face);
  Py_XDECREF(face);
  if (status != 0)
    return NULL;
  owners_drain(st);
  Py_RETURN_NONE;
}

static PyObject *launch_graph(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return run(self, "Graph.launch", arguments, count, keywords, cch_graph_launch);
}

static PyObject *upload_graph(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return run(self, "Graph.upload", arguments, count, keywords, cch_graph_upload);
}

static PyObject *instantiate(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  enum { STREAMS = 2 };
  const state *st = PyModule_GetState(module);
  if (check_argument_count("instantiate(cls, definition, flags, upload, stream)", count, 3 + STREAMS) < 0)
    return NULL;
  cch_instantiate_params params = {.size = sizeof params, .flags = PyLong_AsUnsignedLongLong(arguments[2])};
  cch_graph *graph = PyErr_Occurred() ? NULL : graph_use(st, arguments[1], NULL);
  PyObject *faces[STREAMS] = {NULL}, *result = NULL;
  cch_stream *streams[STREAMS] = {NULL};
  bool ready = graph != NULL;
  for (int i = 0; i < STREAMS && ready; i++)
    if (arguments[3 + i] != Py_None) {
      faces[i] = stream_accept(st, arguments[3 + i]);
      streams[i] = faces[i] != NULL ? handle_use(faces[i]) : NULL;
      ready = streams[i] != NULL;
    }
  if (ready) {
    cch_graph_exec *exec = NULL;
    int status;
    params.upload = streams[0];
    params.context = streams[1] != NULL ? cch_stream_context(streams[1]) : NULL;
    WITHOUT_GIL(status = cch_graph_instantiate(&exec, graph, &params));
    result = status == 0 ? handle_make(st, (PyTypeObject *)arguments[0], exec) : failure_status(status);
  }
  for (int i = 0; i < STREAMS; i++) {
    if (streams[i] != NULL)
      handle_done(faces[i]);
    Py_XDECREF(faces[i]);
  }
  if (graph != NULL)
    handle_done(arguments[1]);
  return result;
}

static PyObject *create_condition(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("create_condition(graph, stream, default_value)", count, 3) < 0)
    return NULL;
  const bool has_default = arguments[2] != Py_None;
  const unsigned long value = has_default ? PyLong_AsUnsignedLong(arguments[2]) : 0;
  cch_graph *graph = PyErr_Occurred() ? NULL : graph_use(st, arguments[0], NULL);
  cch_stream *stream = graph != NULL && arguments[1] != Py_None ? handle_use(arguments[1]) : NULL;
  PyObject *result = NULL;
  if (graph != NULL && (stream != NULL || arguments[1] == Py_None)) {
    CUgraphConditionalHandle condition = 0;
    cch_context *context = stream != NULL ? cch_stream_context(stream) : NULL;
    int status;
    WITHOUT_GIL(status = cch_graph_condition(&condition, graph, context, has_default, (unsigned)value));
    result = status == 0 ? condition_make(st, graph, condition) : raise_status(st, status);
  }
  if (stream != NULL)
    handle_done(arguments[1]);
  if (graph != NULL)
    handle_done(arguments[0]);
  return result;
}

static PyObject *update_exec(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("update_exec(graph, definition)", count, 2) < 0)
    return NULL;
  if (!PyType_IsSubtype(Py_TYPE(arguments[0]), st->exec_type))
    return PyErr_Format(PyExc_TypeError, "a Graph is needed");
  cch_graph *graph = graph_use(st, arguments[1], NULL);
  if (graph == NULL)
    return NULL;
  PyObject *result = NULL;
  cch_graph_exec *box = handle_use(arguments[0]);
  if (box != NULL) {
    cch_update_result found = {.size = sizeof found};
    int status;
    WITHOUT_GIL(status = cch_graph_exec_update(box, graph, &found));
    result = Py_BuildValue("NiKK", failure_status(status), (int)found.result, (unsigned long long)(uintptr_t)found.node,
                           (unsigned long long)(uintptr_t)found.from);
    handle_done(arguments[0]);
  }
  handle_done(arguments[1]);
  return result;
}

/* ---- nodes of executable graphs ---- */

static PyObject *exec_node(PyObject *object, PyObject *face) {
  const state *st = ((handle *)object)->st;
  if (st == NULL)
    return handle_hold(object);
  cch_graph_node *node = node_box(st, face, "node");
  cch_graph_exec *box = node != NULL ? handle_use(object) : NULL;
  if (box == NULL)
    return NULL;
  const bool has = cch_graph_exec_has(box, node);
  handle_done(object);
  if (!has)
    return PyErr_Format(PyExc_ValueError, "%R is not of the graph that %R was made from", face, object);
  PyObject *cls = PyObject_GetAttrString(face, "_EXECUTABLE");
  executable_node *self = NULL;
  if (cls != NULL && PyType_IsSubtype((PyTypeObject *)cls, st->executable_node_type))
    self = new_object((PyTypeObject *)cls);
  Py_XDECREF(cls);
  if (self == NULL)
    return NULL;
  self->graph = Py_NewRef(object);
  self->node = Py_NewRef(face);
  return (PyObject *)self;
}

static void executable_node_dealloc(PyObject *object) {
  executable_node *self = (executable_node *)object;
  Py_XDECREF(self->graph);
  Py_XDECREF(self->node);
  free_object(object);
}

/* Enables or disables the node, unless the number is negative. Returns whether it is enabled. */
static PyObject *switch_node(PyObject *object, PyObject *number) {
  executable_node *self = (executable_node *)object;
  if (self->graph == NULL)
    return PyErr_Format(PyExc_RuntimeError, "the object was never initialised");
  const state *st = ((handle *)self->graph)->st;
  const long wanted = PyLong_AsLong(number);
  cch_graph_node *node = PyErr_Occurred() ? NULL : node_box(st, self->node, "node");
  cch_graph_exec *box = node != NULL ? handle_use(self->graph) : NULL;
  if (box == NULL)
    return NULL;
  int enabled = 0, status;
  WITHOUT_GIL(status = cch_graph_exec_enabled(&enabled, box, node, (int)wanted));
  handle_done(self->graph);
  return status == 0 ? PyBool_FromLong(enabled) : raise_failed(st, status, "enable", PLACE_IN_EXEC);
}

static PyMemberDef executable_node_members[] = {
    {"_graph", T_OBJECT, offsetof(executable_node, graph), READONLY, NULL},
    {"_node", T_OBJECT, offsetof(executable_node, node), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef executable_node_methods[] = {
    {"_switch", switch_node, METH_O, DOC_ExecutableNode__switch},
    {NULL, NULL, 0, NULL},
};

static PyType_Spec executable_node_spec =
    TYPE_SPEC("cudacore_graph.ExecutableGraphNode", executable_node, SLOT(tp_doc, DOC_ExecutableNode),
              SLOT(tp_dealloc, executable_node_dealloc), SLOT(tp_members, executable_node_members),
              SLOT(tp_methods, executable_node_methods));

static PyMethodDef exec_methods[] = {
    {"launch", FASTCALL(launch_graph), METH_FASTCALL | METH_KEYWORDS, DOC_ExecHandle_launch},
    {"upload", FASTCALL(upload_graph), METH_FASTCALL | METH_KEYWORDS, DOC_ExecHandle_upload},
    {NULL, NULL, 0, NULL},
};

static PyType_Spec exec_spec =
    TYPE_SPEC("cudacore_graph.Graph", handle, SLOT(tp_doc, DOC_ExecHandle), SLOT(tp_dealloc, handle_dealloc),
              SLOT(tp_methods, exec_methods), SLOT(mp_subscript, exec_node));

/* A graph, or the graph of a node, is used by other code from now on. Returns the raw handle. */
static PyObject *share_graph(PyObject *module, PyObject *face) {
  const state *st = PyModule_GetState(module);
  const bool is_node = PyType_IsSubtype(Py_TYPE(face), st->node_type) != 0;
  void *box = is_node ? (void *)node_box(st, face, "node") : graph_use(st, face, NULL);
  if (box == NULL)
    return NULL;
  cch_graph *graph = is_node ? cch_graph_node_graph(box) : box;
  int status;
  WITHOUT_GIL(status = cch_graph_share(graph));
  if (!is_node)
    handle_done(face);
  return status == 0 ? PyLong_FromSize_t(((handle *)face)->raw) : raise_status(st, status);
}

static PyMethodDef functions[] = {
    {"clone_graph", clone_graph, METH_O, DOC_clone_graph},
    {"create_graph", create_graph, METH_O, DOC_create_graph},
    {"create_condition", FASTCALL(create_condition), METH_FASTCALL, DOC_create_condition},
    {"instantiate", FASTCALL(instantiate), METH_FASTCALL, DOC_instantiate},
    {"share_graph", share_graph, METH_O, DOC_share_graph},
    {"update_exec", FASTCALL(update_exec), METH_FASTCALL, DOC_update_exec},
    {NULL, NULL, 0, NULL},
};

int add_graph_types(PyObject *module, state *st) {
  if (add_type(module, functions, "GraphHandle", &graph_spec, st->handle_type, &st->graph_type) < 0 ||
      add_type(module, NULL, "Condition", &condition_spec, NULL, &st->condition_type) < 0 ||
      PyModule_AddIntConstant(module, "PLACE_IN_EXEC", PLACE_IN_EXEC) < 0)
    return -1;
  if (add_type(module, NULL, "ExecutableNode", &executable_node_spec, NULL, &st->executable_node_type) < 0)
    return -1;
  return add_type(module, NULL, "ExecHandle", &exec_spec, st->handle_type, &st->exec_type);
}
