/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that call host functions. */
#include "graph/node_methods.h"

/*
 * Returns whether an object is certainly a Python function, not a foreign one: types of foreign functions have a
 * metaclass.
 */
static bool is_python_function(PyObject *function) {
  return Py_TYPE(Py_TYPE(function)) == &PyType_Type && PyCallable_Check(function);
}

/* Reads a Python function. The owner that keeps the function is also the data that the driver passes to the call. */
static int read_function(const state *st, PyObject *function, node_params *out) {
  owner *kept = owner_make(st, function, false);
  if (kept == NULL)
    return -1;
  int status = cch_bundle_create(&out->bundle, 1);
  if (status == 0)
    status = cch_bundle_add_object(out->bundle, kept, owner_release);
  if (status != 0) {
    owner_discard(kept);
    raise_status(st, status);
    return -1;
  }
  out->of.host.function = call_python;
  out->of.host.data = kept;
  return 0;
}

const int type_of_callback = CCH_NODE_HOST;
int read_callback(state *st, const node_arguments *arguments, node_params *out) {
  PyObject *const *given = arguments->named;
  out->of.host.size = sizeof out->of.host;
  PyObject *function = given[0], *data = given[1] != NULL ? given[1] : Py_None;
  if (data == Py_None && is_python_function(function))
    return read_function(st, function, out);
  PyObject *found = PyObject_CallFunctionObjArgs(st->faces.host_function, function, data, NULL);
  if (found == Py_None) {
    Py_DECREF(found);
    return read_function(st, function, out);
  }
  unsigned long long address, argument;
  PyObject *keepers;
  int status =
      found != NULL && PyArg_ParseTuple(found, "KKO!:host_function", &address, &argument, &PyTuple_Type, &keepers) ? 0
                                                                                                                   : -1;
  if (status == 0) {
    out->of.host.function = (cch_host_fn)(uintptr_t)address;
    out->of.host.data = (void *)(uintptr_t)argument;
    owners keep;
    owners_init(&keep, false);
    for (Py_ssize_t i = 0; i < PyTuple_Size(keepers) && status == 0; i++) {
      PyObject *keeper = PyTuple_GetItem(keepers, i);
      Py_INCREF(keeper);
      status = owners_add(&keep, (owned){NULL, keeper, 0, HELD});
    }
    status = take_bundle(st, &keep, out, status);
  }
  Py_XDECREF(found);
  return status;
}
