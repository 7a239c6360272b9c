/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements Stream's frequent operations: creating, waiting, recording; makes contexts current; and orders the streams
 * of the producer and the consumer of an array.
 */
#include "graph/graph.h"
#include "stream/stream.h"

PyObject *stream_accept(const state *st, PyObject *argument) {
  PyObject *stream = stream_or_builder(st, argument);
  if (is_stream(st, stream))
    return stream;
  PyObject *accepted = PyObject_CallFunctionObjArgs(st->faces.accept_stream, stream, NULL);
  Py_DECREF(stream);
  return accepted;
}

static PyObject *create_stream(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("create_stream(context, options)", count, 2) < 0)
    return NULL;
  unsigned flags = CCH_STREAM_NON_BLOCKING;
  int priority = 0;
  if (arguments[1] != Py_None) {
    PyObject *made = PyObject_CallFunctionObjArgs(st->faces.stream_flags, arguments[0], arguments[1], NULL);
    bool parsed = made != NULL && PyArg_ParseTuple(made, "Ii", &flags, &priority);
    Py_XDECREF(made);
    if (!parsed)
      return NULL;
  }
  cch_context *context = context_use(st, arguments[0]);
  if (context == NULL)
    return NULL;
  cch_stream *stream = NULL;
  int status;
  WITHOUT_GIL(status = cch_stream_create(&stream, context, flags, priority));
  handle_done(arguments[0]);
  if (status != 0)
    return raise_status(st, status);
  return handle_make(st, (PyTypeObject *)st->faces.stream, stream);
}

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

static PyObject *synchronize(PyObject *self, PyObject *nothing) {
  (void)nothing;
  cch_stream *stream = handle_use(self);
  if (stream == NULL)
    return NULL;
  const state *st = ((handle *)self)->st;
  cch_status status = 0;
  int waited = wait_for_stream(st, stream, &status);
  return wait_done(st, self, waited, status);
}

static PyObject *finish(PyObject *self, PyObject *nothing) {
  (void)nothing;
  cch_stream *stream = handle_use(self);
  if (stream == NULL)
    return NULL;
  cch_status status;
  WITHOUT_GIL(status = cch_stream_synchronize(stream));
  return wait_done(((handle *)self)->st, self, 0, status);
}

static PyObject *record(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  static const char *const names[] = {"event", "options"};
  PyObject *given[] = {Py_None, Py_None};
  if (sort_arguments("record", names, 2, 2, arguments, count, keywords, given) < 0)
    return NULL;
  cch_stream *stream = handle_use(self);
  if (stream == NULL)
    return NULL;
  const state *st = ((handle *)self)->st;
  PyObject *face = NULL;
  if (given[0] == Py_None) {
    face = PyObject_CallFunctionObjArgs(st->faces.new_event, self, given[1], NULL);
  } else if (given[1] != Py_None) {
    PyErr_SetString(PyExc_TypeError, "options are for a new event: give either event or options");
  } else if (!is_event(st, given[0])) {
    raise_about(PyExc_TypeError, "event must be an Event, not '%U'", given[0], 0, 0);
  } else {
    Py_INCREF(given[0]);
    face = given[0];
  }
  cch_event *event = face != NULL ? handle_use(face) : NULL;
  int status = -1;
  if (event != NULL) {
    WITHOUT_GIL(status = cch_event_record(event, stream));
    handle_done(face);
  }
  handle_done(self);
  if (status == 0)
    return face;
  Py_XDECREF(face);
  return event == NULL ? NULL : raise_status(st, status);
}

static PyObject *wait(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  static const char *const names[] = {"event_or_stream"};
  PyObject *other = NULL;
  if (sort_arguments("wait", names, 1, 1, arguments, count, keywords, &other) < 0)
    return NULL;
  if (other == NULL)
    return PyErr_Format(PyExc_TypeError, "wait() needs event_or_stream: an Event, or a Stream");
  cch_stream *stream = handle_use(self);
  if (stream == NULL)
    return NULL;
  const state *st = ((handle *)self)->st;
  bool for_event = is_event(st, other);
  PyObject *face = for_event ? other : stream_accept(st, other);
  void *ahead = face != NULL ? handle_use(face) : NULL;
  int status = -1;
  if (ahead != NULL) {
    WITHOUT_GIL(status = for_event ? cch_stream_wait_event(stream, ahead) : cch_stream_wait_stream(stream, ahead));
    handle_done(face);
  }
  handle_done(self);
  if (!for_event)
    Py_XDECREF(face);
  if (ahead == NULL)
    return NULL;
  if (status != 0)
    return raise_status(st, status);
  Py_RETURN_NONE;
}

static PyObject *callback(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  state *st = (state *)((handle *)self)->st;
  cch_stream *stream = handle_use(self);
  if (stream == NULL)
    return NULL;
  const values given = {.array = arguments, .count = count};
  node_params params = {0};
  int status = -1;
  bool called = node_params_read(st, callback_method, given, false, keywords, NULL, &params) == 0;
  if (called) {
    WITHOUT_GIL(status = cch_stream_callback(stream, params.of.host.function, params.of.host.data, params.bundle));
    if (status != 0)
      raise_status(st, status);
  }
  node_params_unref(&params);
  handle_done(self);
  owners_drain(st);
  if (!called || status != 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *close_method(PyObject *object, PyObject *nothing) {
  (void)nothing;
  handle *self = (handle *)object;
  /* The default streams are shared by all, and are never destroyed. */
  if (self->raw != CCH_STREAM_LEGACY && self->raw != CCH_STREAM_PER_THREAD)
    handle_close(self);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"close", close_method, METH_NOARGS, DOC_StreamHandle_close},
    {"sync", synchronize, METH_NOARGS, DOC_StreamHandle_sync},
    {"_finish", finish, METH_NOARGS, DOC_StreamHandle__finish},
    {"record", FASTCALL(record), METH_FASTCALL | METH_KEYWORDS, DOC_StreamHandle_record},
    {"wait", FASTCALL(wait), METH_FASTCALL | METH_KEYWORDS, DOC_StreamHandle_wait},
    {"callback", FASTCALL(callback), METH_FASTCALL | METH_KEYWORDS, DOC_StreamHandle_callback},
    {NULL, NULL, 0, NULL},
};

static PyType_Spec spec = TYPE_SPEC("cudacore_handles.Stream", handle, SLOT(tp_doc, DOC_StreamHandle),
                                    SLOT(tp_dealloc, handle_dealloc), SLOT(tp_methods, methods));

static PyObject *order_streams(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("order_streams(consumer, producer, device)", count, 3) < 0)
    return NULL;
  bool is_face = is_stream(st, arguments[1]);
  size_t consumer = PyLong_AsSize_t(arguments[0]); /* four times as fast as PyLong_AsUnsignedLongLong() */
  size_t producer = PyErr_Occurred() || is_face ? 0 : PyLong_AsSize_t(arguments[1]);
  long device = PyErr_Occurred() ? -1 : PyLong_AsLong(arguments[2]);
  if (PyErr_Occurred())
    return NULL;
  cch_stream *known = is_face ? handle_use(arguments[1]) : NULL;
  if (is_face && known == NULL)
    return NULL;
  int status;
  WITHOUT_GIL(status = cch_stream_order((CUstream)consumer, (CUstream)producer, known, (int)device));
  if (is_face)
    handle_done(arguments[1]);
  if (status != 0)
    return raise_status(st, status);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"order_streams", FASTCALL(order_streams), METH_FASTCALL, DOC_order_streams},
    {"create_stream", FASTCALL(create_stream), METH_FASTCALL, DOC_create_stream},
    {"set_current", set_current, METH_O, DOC_set_current},
    {"current_device", current_device, METH_NOARGS, DOC_current_device},
    {NULL, NULL, 0, NULL},
};

int add_stream_type(PyObject *module, state *st) {
  return add_type(module, functions, "StreamHandle", &spec, st->handle_type, &st->stream_type);
}
