/* SPDX-License-Identifier: Apache-2.0 */
/* Implements Event's frequent operations: creating, waiting, querying, timing. Recording is in stream.c. */
#include "base/failure.h"
#include "stream/stream.h"

static PyObject *create_event(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("create_event(context, options)", count, 2) < 0)
    return NULL;
  unsigned long flags = CCH_EVENT_DISABLE_TIMING;
  if (arguments[1] != Py_None) {
    PyObject *made = PyObject_CallFunctionObjArgs(st->faces.event_flags, arguments[0], arguments[1], NULL);
    flags = made != NULL ? PyLong_AsUnsignedLong(made) : 0;
    Py_XDECREF(made);
    if (PyErr_Occurred())
      return NULL;
  }
  cch_context *context = context_use(st, arguments[0]);
  if (context == NULL)
    return NULL;
  cch_event *event = NULL;
  int status;
  WITHOUT_GIL(status = cch_event_create(&event, context, (unsigned)flags));
  handle_done(arguments[0]);
  if (status != 0)
    return raise_status(st, status);
  return handle_make(st, (PyTypeObject *)st->faces.event, event);
}

static PyObject *synchronize(PyObject *self, PyObject *nothing) {
  (void)nothing;
  cch_event *event = handle_use(self);
  if (event == NULL)
    return NULL;
  cch_status status = 0;
  int waited = wait_for_event(((handle *)self)->st, event, &status);
  return wait_done(((handle *)self)->st, self, waited, status);
}

static PyObject *is_done(PyObject *self, void *closure) {
  (void)closure;
  cch_event *event = handle_use(self);
  if (event == NULL)
    return NULL;
  int status;
  WITHOUT_GIL(status = cch_event_query(event));
  handle_done(self);
  if (status == 0)
    Py_RETURN_TRUE;
  if (status == CCH_NOT_READY)
    Py_RETURN_FALSE;
  return raise_status(((handle *)self)->st, status);
}

static PyObject *subtract(PyObject *left, PyObject *right) {
  /* Python calls this if either operand is an event. */
  PyTypeObject *type = Py_TYPE(left) != Py_TYPE(right) ? Py_TYPE(left) : NULL;
  /* `left` may be of a subclass whose own __sub__ calls this function */
  while (type != NULL && (void *)PyType_GetSlot(type, Py_nb_subtract) != (void *)subtract)
    type = PyType_GetSlot(type, Py_tp_base);
  const state *st = type != NULL || Py_TYPE(left) == Py_TYPE(right) ? ((handle *)left)->st : NULL;
  if (st == NULL || (type != NULL && !PyType_IsSubtype(Py_TYPE(right), st->event_type)))
    Py_RETURN_NOTIMPLEMENTED;
  cch_event *end = handle_use(left);
  if (end == NULL)
    return NULL;
  cch_event *start = handle_use(right);
  if (start == NULL) {
    handle_done(left);
    return NULL;
  }
  float milliseconds = 0;
  int status;
  WITHOUT_GIL(status = cch_event_elapsed(&milliseconds, start, end));
  handle_done(right);
  handle_done(left);
  if (status == 0)
    return PyFloat_FromDouble(milliseconds);
  return PyObject_CallFunction(st->faces.raise_not_elapsed, "OON", left, right, failure_status(status));
}

static PyMethodDef methods[] = {
    {"sync", synchronize, METH_NOARGS, DOC_EventHandle_sync},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"is_done", is_done, NULL, DOC_EventHandle_is_done, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Spec spec =
    TYPE_SPEC("cudacore_handles.Event", handle, SLOT(tp_doc, DOC_EventHandle), SLOT(tp_dealloc, handle_dealloc),
              SLOT(tp_methods, methods), SLOT(tp_getset, properties), SLOT(nb_subtract, subtract));

static PyObject *sync_context(PyObject *module, PyObject *face) {
  const state *st = PyModule_GetState(module);
  cch_context *context = context_use(st, face);
  if (context == NULL)
    return NULL;
  cch_status status = 0;
  int waited = wait_for_context(st, context, &status);
  return wait_done(st, face, waited, status);
}

static PyMethodDef functions[] = {
    {"sync_context", sync_context, METH_O, DOC_sync_context},
    {"create_event", FASTCALL(create_event), METH_FASTCALL, DOC_create_event},
    {NULL, NULL, 0, NULL},
};

int add_event_type(PyObject *module, state *st) {
  return add_type(module, functions, "EventHandle", &spec, st->handle_type, &st->event_type);
}
