/* SPDX-License-Identifier: Apache-2.0 */
/* Implements Context's properties; makes contexts current; and finds the current device. */
#include "driver/context.h"

#include <cudacore_internal/driver.h>

PyObject *device_of(const state *st, const cch_context *context) {
  PyObject *ordinal = PyLong_FromLong(cch_context_device(context));
  PyObject *device = ordinal != NULL ? PyObject_CallFunctionObjArgs(st->faces.device, ordinal, NULL) : NULL;
  Py_XDECREF(ordinal);
  return device;
}

static PyObject *own(PyObject *self, PyObject *nothing) {
  (void)nothing;
  cch_context *context = handle_hold(self);
  return context != NULL ? context_face(((handle *)self)->st, context) : NULL;
}

static PyObject *device(PyObject *self, void *closure) {
  (void)closure;
  cch_context *context = handle_use(self);
  if (context == NULL)
    return NULL;
  PyObject *found = device_of(((handle *)self)->st, context);
  handle_done(self);
  return found;
}

static PyObject *is_green(PyObject *self, void *closure) {
  (void)closure;
  cch_context *context = handle_try_use(self);
  if (context == NULL)
    Py_RETURN_FALSE;
  int green = 0, status;
  WITHOUT_GIL(status = cch_context_is_green(&green, context));
  handle_done(self);
  return check_status(((handle *)self)->st, status) == 0 ? PyBool_FromLong(green) : NULL;
}

static PyMethodDef methods[] = {
    {"_own", own, METH_NOARGS, DOC_ContextHandle__own},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"device", device, NULL, DOC_ContextHandle_device, NULL},
    {"is_green", is_green, NULL, DOC_ContextHandle_is_green, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Spec spec =
    TYPE_SPEC("cudacore_handles.Context", handle, SLOT(tp_doc, DOC_ContextHandle), SLOT(tp_dealloc, handle_dealloc),
              SLOT(tp_methods, methods), SLOT(tp_getset, properties));

/*
 * Makes a driver call that does not wait, so the GIL is kept. The GIL is released only for the first call of a thread:
 * the driver then creates its data for the thread, and can wait for another thread that ends (13.0, H200).
 */
#define DRIVER_OF_THREAD(call)                                                                                         \
  do {                                                                                                                 \
    static _Thread_local bool known;                                                                                   \
    PyThreadState *released = known ? NULL : PyEval_SaveThread();                                                      \
    call;                                                                                                              \
    known = true;                                                                                                      \
    if (released != NULL)                                                                                              \
      PyEval_RestoreThread(released);                                                                                  \
  } while (0)

static PyObject *set_current(PyObject *module, PyObject *face) {
  cch_context *context = handle_use(face);
  if (context == NULL)
    return NULL;
  int status;
  DRIVER_OF_THREAD(status = cch_context_set_current(context)); /* the call affects only this thread */
  handle_done(face);
  if (status == CCH_EGONE)
    Py_RETURN_FALSE;
  if (status != 0)
    return raise_status(PyModule_GetState(module), status);
  Py_RETURN_TRUE;
}

static PyObject *current_device(PyObject *module, PyObject *nothing) {
  (void)nothing;
  int device = -1, status;
  DRIVER_OF_THREAD(status = cch_current_device(&device));
  if (status != 0 && status != CCH_INVALID_CONTEXT)
    return raise_status(PyModule_GetState(module), status);
  return PyLong_FromLong(device);
}

static PyMethodDef functions[] = {
    {"set_current", set_current, METH_O, DOC_set_current},
    {"current_device", current_device, METH_NOARGS, DOC_current_device},
    {NULL, NULL, 0, NULL},
};

int add_context_type(PyObject *module, state *st) {
  return add_type(module, functions, "ContextHandle", &spec, st->handle_type, &st->context_type);
}
