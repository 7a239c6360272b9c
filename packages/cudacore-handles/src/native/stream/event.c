/* SPDX-License-Identifier: Apache-2.0 */
/* Implements Event's frequent operations: creating, waiting, querying, timing; its properties. Recording: stream.c. */
#include "base/failure.h"
#include "driver/context.h"
#include "stream/stream.h"

/* Reads options whose values need no check. Returns false for all others. */
static bool read_usual(const state *st, PyObject *options, unsigned *flags) {
  if (!is_options(st, options))
    return false;
  int timing = option_flag(options, st->names.timing_enabled), blocking = option_flag(options, st->names.blocking_sync);
  *flags = (timing == 0 ? CCH_EVENT_DISABLE_TIMING : 0u) | (blocking == 1 ? CCH_EVENT_BLOCKING_SYNC : 0u);
  return timing >= 0 && blocking >= 0 && option_flag(options, st->names.ipc_enabled) == 0;
}

/* Checks all other options, and returns the flags; -1 with an exception on failure. */
static long read_unusual(const state *st, cch_context *context, PyObject *options) {
  PyObject *face = context_face(st, cch_ref(context));
  PyObject *made = face != NULL ? PyObject_CallFunctionObjArgs(st->faces.event_flags, face, options, NULL) : NULL;
  long flags = made != NULL ? PyLong_AsLong(made) : -1;
  Py_XDECREF(made);
  Py_XDECREF(face);
  return flags;
}

PyObject *make_event(const state *st, cch_context *context, PyObject *options) {
  unsigned flags = CCH_EVENT_DISABLE_TIMING;
  if (options != Py_None && !read_usual(st, options, &flags)) {
    long checked = read_unusual(st, context, options);
    if (checked < 0)
      return NULL;
    flags = (unsigned)checked;
  }
  cch_event *event = NULL;
  int status;
  WITHOUT_GIL(status = cch_event_create(&event, context, flags));
  if (status != 0)
    return raise_status(st, status);
  return handle_make(st, (PyTypeObject *)st->faces.event, event);
}

static PyObject *create_event(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("create_event(context, options)", count, 2) < 0)
    return NULL;
  cch_context *context = context_use(st, arguments[0]);
  if (context == NULL)
    return NULL;
  PyObject *event = make_event(st, context, arguments[1]);
  handle_done(arguments[0]);
  return event;
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

static PyObject *has_flag(PyObject *self, void *flag) {
  const cch_event *event = handle_use(self);
  if (event == NULL)
    return NULL;
  const bool has = (cch_event_flags(event) & (uintptr_t)flag) != 0;
  handle_done(self);
  return PyBool_FromLong(has);
}

static PyObject *lacks_flag(PyObject *self, void *flag) {
  PyObject *has = has_flag(self, flag);
  Py_XDECREF(has);
  return has != NULL ? PyBool_FromLong(has == Py_False) : NULL;
}

static PyObject *context(PyObject *self, void *closure) {
  (void)closure;
  const cch_event *event = handle_use(self);
  if (event == NULL)
    return NULL;
  cch_context *found = cch_event_context(event);
  PyObject *face = found != NULL ? context_face(((handle *)self)->st, cch_ref(found)) : Py_NewRef(Py_None);
  handle_done(self);
  return face;
}

static PyObject *device(PyObject *self, void *closure) {
  (void)closure;
  const cch_event *event = handle_use(self);
  if (event == NULL)
    return NULL;
  const cch_context *found = cch_event_context(event);
  PyObject *device = found != NULL ? device_of(((handle *)self)->st, found) : Py_NewRef(Py_None);
  handle_done(self);
  return device;
}

static PyGetSetDef properties[] = {
    {"is_done", is_done, NULL, DOC_EventHandle_is_done, NULL},
    {"is_timing_enabled", lacks_flag, NULL, DOC_EventHandle_is_timing_enabled, (void *)CCH_EVENT_DISABLE_TIMING},
    {"is_blocking_sync", has_flag, NULL, DOC_EventHandle_is_blocking_sync, (void *)CCH_EVENT_BLOCKING_SYNC},
    {"is_ipc_enabled", has_flag, NULL, DOC_EventHandle_is_ipc_enabled, (void *)CCH_EVENT_INTERPROCESS},
    {"context", context, NULL, DOC_EventHandle_context, NULL},
    {"device", device, NULL, DOC_EventHandle_device, NULL},
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
