/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements Stream's frequent operations: creating, waiting, recording; its properties; and orders the streams of the
 * producer and the consumer of an array.
 */
#include "driver/context.h"
#include "graph/graph.h"
#include "stream/stream.h"

#include <stdlib.h>

PyObject *stream_accept(const state *st, PyObject *argument) {
  PyObject *stream = stream_or_builder(st, argument);
  if (is_stream(st, stream))
    return stream;
  PyObject *accepted = PyObject_CallFunctionObjArgs(st->faces.accept_stream, stream, NULL);
  Py_DECREF(stream);
  return accepted;
}

/*
 * Reads options whose values need no check: non-blocking, with the default priority, which is 0. Returns false for all
 * others.
 */
static bool are_usual(const state *st, PyObject *options) {
  if (!is_options(st, options) || option_flag(options, st->names.nonblocking) != 1)
    return false;
  PyObject *priority = PyObject_GetAttr(options, st->names.stream_priority);
  bool is_usual =
      priority == Py_None || (priority != NULL && PyLong_CheckExact(priority) && !PyObject_IsTrue(priority));
  PyErr_Clear();
  Py_XDECREF(priority);
  return is_usual;
}

static PyObject *create_stream(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("create_stream(context, options)", count, 2) < 0)
    return NULL;
  unsigned flags = CCH_STREAM_NON_BLOCKING;
  int priority = 0;
  if (arguments[1] != Py_None && !are_usual(st, arguments[1])) {
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

/*
 * Returns a new reference to the context of a stream; for a default stream, to the current one. NULL with an exception
 * on failure.
 */
static cch_context *context_of(const state *st, const cch_stream *stream) {
  cch_context *context = cch_stream_context(stream);
  if (context != NULL)
    return cch_context_ref(context);
  int status;
  WITHOUT_GIL(status = cch_context_current(&context));
  if (status != 0)
    raise_status(st, status);
  else if (context == NULL)
    PyObject_CallFunctionObjArgs(st->faces.raise_no_context, NULL);
  return context;
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
    cch_context *context = context_of(st, stream);
    face = context != NULL ? make_event(st, context, given[1]) : NULL;
    box_unref(context);
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

/* The same for a Stream. */
static cch_context *context_of_face(PyObject *self) {
  const cch_stream *stream = handle_use(self);
  if (stream == NULL)
    return NULL;
  cch_context *found = context_of(((handle *)self)->st, stream);
  handle_done(self);
  return found;
}

static PyObject *context(PyObject *self, void *closure) {
  (void)closure;
  cch_context *found = context_of_face(self);
  return found != NULL ? context_face(((handle *)self)->st, found) : NULL;
}

static PyObject *device(PyObject *self, void *closure) {
  (void)closure;
  cch_context *found = context_of_face(self);
  PyObject *device = found != NULL ? device_of(((handle *)self)->st, found) : NULL;
  box_unref(found);
  return device;
}

static PyObject *is_nonblocking(PyObject *self, void *closure) {
  (void)closure;
  cch_stream *stream = handle_use(self);
  if (stream == NULL)
    return NULL;
  unsigned flags = 0;
  int status;
  WITHOUT_GIL(status = cch_stream_flags(&flags, stream));
  handle_done(self);
  if (check_status(((handle *)self)->st, status) < 0)
    return NULL;
  return PyBool_FromLong((flags & CCH_STREAM_NON_BLOCKING) != 0);
}

static PyObject *priority(PyObject *self, void *closure) {
  (void)closure;
  cch_stream *stream = handle_use(self);
  if (stream == NULL)
    return NULL;
  int found = 0, status;
  WITHOUT_GIL(status = cch_stream_priority(&found, stream));
  handle_done(self);
  return check_status(((handle *)self)->st, status) == 0 ? PyLong_FromLong(found) : NULL;
}

static PyGetSetDef properties[] = {
    {"is_nonblocking", is_nonblocking, NULL, DOC_StreamHandle_is_nonblocking, NULL},
    {"priority", priority, NULL, DOC_StreamHandle_priority, NULL},
    {"context", context, NULL, DOC_StreamHandle_context, NULL},
    {"device", device, NULL, DOC_StreamHandle_device, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Spec spec =
    TYPE_SPEC("cudacore_handles.Stream", handle, SLOT(tp_doc, DOC_StreamHandle), SLOT(tp_dealloc, handle_dealloc),
              SLOT(tp_methods, methods), SLOT(tp_getset, properties));

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

/*
 * The variable is read each time, as the assignments of Python code to os.environ take effect at once. They have the
 * GIL, like this function, which is not called if there is none.
 */
static PyObject *selects_per_thread(PyObject *module, PyObject *nothing) {
  (void)module;
  (void)nothing;
  const char *value = getenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM");
  return PyBool_FromLong(value != NULL && *value != '\0' && strcmp(value, "0") != 0);
}

static PyMethodDef functions[] = {
    {"order_streams", FASTCALL(order_streams), METH_FASTCALL, DOC_order_streams},
    {"selects_per_thread", selects_per_thread, METH_NOARGS, DOC_selects_per_thread},
    {"create_stream", FASTCALL(create_stream), METH_FASTCALL, DOC_create_stream},
    {NULL, NULL, 0, NULL},
};

int add_stream_type(PyObject *module, state *st) {
  return add_type(module, functions, "StreamHandle", &spec, st->handle_type, &st->stream_type);
}
