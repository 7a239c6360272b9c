/* SPDX-License-Identifier: Apache-2.0 */
/* Passes parameters to existing nodes, and reads them. */
#include "base/failure.h"
#include "graph/node_methods.h"

#include <cuda.h>
#include <stdlib.h>

/* Sets the parameters of a node of an executable graph in the current context or, if that is refused, in `other`. */
static int set_in_exec(cch_graph_exec *exec, cch_graph_node *node, node_params *params, cch_context *other) {
  const int status = cch_graph_exec_set(exec, node, node_params_of(params), params->bundle, NULL);
  return status != CUDA_ERROR_INVALID_VALUE || other == NULL
             ? status
             : cch_graph_exec_set(exec, node, node_params_of(params), params->bundle, other);
}

/*
 * Sets the parameters of a node: in its graph if `exec` is NULL, otherwise in that executable graph. `other` is a
 * context that the node may be in if it is not in the current one; NULL if there is none.
 */
static PyObject *set(const state *st, const node_method *method, PyObject *face, PyObject *exec, node_params *params,
                     cch_context *other) {
  cch_graph_node *node = node_box(st, face, "node");
  cch_graph_exec *used = NULL;
  /* An executable graph cannot contain itself, so a child graph for one of its nodes needs no check. */
  if (node == NULL || (exec == NULL && node_params_check(params, cch_graph_node_graph(node)) < 0) ||
      (exec != NULL && (used = handle_use(exec)) == NULL))
    return NULL;
  int status;
  WITHOUT_GIL(status = used != NULL ? set_in_exec(used, node, params, other)
                                    : cch_graph_node_set(node, node_params_of(params), params->bundle, NULL));
  if (status != 0)
    raise_failed(st, status, method->name, used != NULL ? PLACE_IN_EXEC : NO_PLACE);
  if (used != NULL)
    handle_done(exec);
  return status == 0 ? Py_NewRef(Py_None) : NULL;
}

int enter_context(const state *st, cch_graph_node *node, context_change *out) {
  cch_context *own = NULL;
  *out = (context_change){NULL, false};
  int status;
  WITHOUT_GIL(status = cch_graph_node_context(&own, node));
  if (status == 0 && own != NULL && (status = cch_context_current(&out->before)) == 0) {
    status = cch_context_set_current(own);
    out->changed = status == 0;
  }
  box_unref(own);
  if (status == 0)
    return 0;
  box_unref(out->before);
  raise_status(st, status);
  return -1;
}

void leave_context(const context_change *change) {
  if (change->changed)
    cch_context_restore(change->before); /* if this is an error of earlier work, the next call returns it again */
  box_unref(change->before);
}

/* Returns the method that adds nodes of the type of a node; NULL with an exception if there is none. */
static const node_method *method_for(const cch_graph_node *node) {
  const int type = cch_graph_node_type(node);
  for (size_t i = 0; i < NODE_METHOD_COUNT; i++)
    if (*node_methods[i].type == type)
      return &node_methods[i];
  PyErr_Format(PyExc_TypeError, "nodes of type %d cannot be set", type);
  return NULL;
}

/* Reads the remaining arguments as parameters, and sets them in a node. */
static PyObject *read_and_set(state *st, PyObject *exec, PyObject *face, values given) {
  cch_graph_node *node = node_box(st, face, "node");
  const node_method *method = node != NULL ? method_for(node) : NULL;
  node_params params = {0};
  context_change change;
  if (method == NULL || enter_context(st, node, &change) < 0)
    return NULL;
  unsigned char scratch[SCRATCH_SIZE];
  PyObject *result = NULL;
  /* A fork of another context may have captured the node. The driver does not report that, but the user can make that
   * context current. */
  const int type = cch_graph_node_type(node);
  cch_context *other = type == CCH_NODE_MEMCPY || type == CCH_NODE_MEMSET ? change.before : NULL;
  if (node_params_read(st, method, given, true, NULL, scratch, &params) == 0)
    result = set(st, method, face, exec, &params, other);
  leave_context(&change);
  node_params_unref(&params);
  owners_drain(st);
  return result;
}

static PyObject *set_node(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (count < 1)
    return PyErr_Format(PyExc_TypeError, "set_node(node, ...) takes an argument, not %zd", count);
  return read_and_set(PyModule_GetState(module), NULL, arguments[0],
                      (values){.array = arguments + 1, .count = count - 1});
}

static PyObject *set_exec_node(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (count < 2)
    return PyErr_Format(PyExc_TypeError, "set_exec_node(graph, node, ...) takes 2 arguments, not %zd", count);
  if (!PyType_IsSubtype(Py_TYPE(arguments[0]), st->exec_type)) {
    raise_about(PyExc_TypeError, "graph must be a Graph, not '%U'", arguments[0], 0, 0);
    return NULL;
  }
  return read_and_set(st, arguments[0], arguments[1], (values){.array = arguments + 2, .count = count - 2});
}

/* Sets the configuration of a kernel node, and leaves its kernel and arguments as they are. */
static PyObject *set_config(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("set_config(node, config)", count, 2) < 0)
    return NULL;
  PyObject *face = arguments[0];
  cch_graph_node *node = node_box(st, face, "node");
  context_change change;
  if (node == NULL || enter_context(st, node, &change) < 0)
    return NULL;
  node_params params = {.type = CCH_NODE_KERNEL, .config = ((config *)arguments[1])->config};
  cch_kernel_node *kernel = &params.of.kernel;
  kernel->size = sizeof *kernel;
  cch_bundle *kept = NULL; /* has the argument block */
  int status;
  WITHOUT_GIL(status = cch_graph_node_read(kernel, &kept, &params.bundle, node));
  kernel->config = &params.config;
  PyObject *result =
      status == 0 ? set(st, &node_methods[METHOD_launch], face, NULL, &params, NULL) : raise_status(st, status);
  leave_context(&change);
  node_params_unref(&params);
  box_unref(kept);
  box_unref(kernel->kernel);
  owners_drain(st);
  return result;
}

/* Gets the kernel of a node, and its configuration unless that is NULL. Returns -1 with an exception on failure. */
static int get_kernel(const state *st, PyObject *face, cch_launch_config *config, cch_kernel **out) {
  cch_graph_node *node = node_box(st, face, "node");
  if (node == NULL)
    return -1;
  cch_kernel_node params = {.size = sizeof params, .config = config};
  int status;
  WITHOUT_GIL(status = cch_graph_node_get(&params, node));
  *out = params.kernel;
  return check_status(st, status);
}

static PyObject *read_config(PyObject *module, PyObject *face) {
  const state *st = PyModule_GetState(module);
  cch_launch_config read = {.size = sizeof read};
  cch_kernel *kernel;
  if (get_kernel(st, face, &read, &kernel) < 0)
    return NULL;
  box_unref(kernel);
  return config_of_node(st, &read);
}

static PyObject *read_kernel(PyObject *module, PyObject *face) {
  const state *st = PyModule_GetState(module);
  cch_kernel *kernel;
  if (get_kernel(st, face, NULL, &kernel) < 0)
    return NULL;
  if (kernel == NULL)
    return PyErr_Format(PyExc_ValueError, "the function of %R is not a kernel", face);
  const void *bytes = NULL; /* an earlier face may have found the layout */
  size_t size = 0;
  PyObject *layout = NULL, *made = NULL;
  if (check_status(st, cch_kernel_layout(&bytes, &size, kernel, NULL, 0)) == 0)
    layout = bytes != NULL ? PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size) : Py_NewRef(Py_None);
  if (layout == NULL)
    KEEPING_EXCEPTION(box_unref(kernel));
  else
    made = handle_make(st, (PyTypeObject *)st->faces.kernel, kernel);
  if (made != NULL && layout != Py_None && PyObject_SetAttrString(made, "_layout", layout) < 0)
    Py_CLEAR(made);
  Py_XDECREF(layout);
  return made;
}

/* One of the owners in a bundle; None if there is none. */
static PyObject *owner_in(const state *st, cch_bundle *bundle, size_t index) {
  void *object = NULL;
  cch_release_fn release = NULL;
  if (bundle == NULL || cch_bundle_get(&object, &release, bundle, index) != 0)
    return Py_NewRef(Py_None);
  if (release == NULL)
    return handle_make(st, st->handle_type, cch_ref(object));
  return Py_NewRef(release == owner_release ? owner_object(object) : Py_None);
}

static PyObject *read_node(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("read_node(node, address)", count, 2) < 0)
    return NULL;
  void *params = PyLong_AsVoidPtr(arguments[1]);
  cch_graph_node *node = params != NULL ? node_box(st, arguments[0], "node") : NULL;
  if (node == NULL)
    return NULL;
  cch_bundle *kept = NULL, *bundle = NULL;
  int status;
  WITHOUT_GIL(status = cch_graph_node_read(params, &kept, &bundle, node));
  if (status != 0)
    return raise_status(st, status);
  if (cch_graph_node_type(node) == CCH_NODE_HOST && ((cch_host_node *)params)->function != call_python) {
    box_unref(bundle); /* has what a foreign function uses */
    bundle = NULL;
  }
  PyObject *first = owner_in(st, bundle, 0), *second = first != NULL ? owner_in(st, bundle, 1) : NULL;
  PyObject *result = second != NULL ? PyTuple_Pack(2, first, second) : NULL;
  Py_XDECREF(second);
  Py_XDECREF(first);
  box_unref(bundle);
  box_unref(kept);
  return result;
}

PyMethodDef node_set_functions[] = {
    {"set_node", FASTCALL(set_node), METH_FASTCALL, DOC_set_node},
    {"set_config", FASTCALL(set_config), METH_FASTCALL, DOC_set_config},
    {"set_exec_node", FASTCALL(set_exec_node), METH_FASTCALL, DOC_set_exec_node},
    {"read_config", read_config, METH_O, DOC_read_config},
    {"read_kernel", read_kernel, METH_O, DOC_read_kernel},
    {"read_node", FASTCALL(read_node), METH_FASTCALL, DOC_read_node},
    {NULL, NULL, 0, NULL},
};
