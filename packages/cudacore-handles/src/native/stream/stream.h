/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_STREAM_H
#define CUDACORE_NATIVE_STREAM_H

/* Streams and events, the order between streams, and objects that can be passed as streams. */

#include "base/native.h"

/* ---- event.c, stream.c ---- */

static inline bool is_stream(const state *st, PyObject *object) {
  return is_of(object, st->faces.stream, st->stream_type);
}
static inline bool is_event(const state *st, PyObject *object) {
  return is_of(object, st->faces.event, st->event_type);
}

int add_event_type(PyObject *module, state *st);
/*
 * Returns a new Event in a context, which must stay alive during this call; NULL with an exception on failure. Runs
 * Python code, unless the options are None.
 */
PyObject *make_event(const state *st, cch_context *context, PyObject *options);

int add_stream_type(PyObject *module, state *st);

/*
 * Returns the Stream that an argument is or represents, as a new reference; NULL with an exception on failure. Runs
 * Python code.
 */
PyObject *stream_accept(const state *st, PyObject *argument);

/* ---- wait.c ---- */

/*
 * Wait for work. On the main thread, signals are handled meanwhile. Return -1 with the exception that a signal handler
 * has raised.
 */
int wait_for_stream(const state *st, cch_stream *stream, cch_status *status);
int wait_for_event(const state *st, cch_event *event, cch_status *status);
int wait_for_context(const state *st, cch_context *context, cch_status *status);
/* Ends such a wait, whose results are given: ends the use of the face, and returns None, or NULL with an exception. */
PyObject *wait_done(const state *st, PyObject *face, int waited, cch_status status);

/* Call it at the end of the interpreter. */
void waits_end(const state *st);

/* Returns a Stream that takes over a reference, or None for NULL; NULL with an exception on failure. */
static inline PyObject *stream_face(const state *st, cch_stream *box) {
  return box != NULL ? handle_make(st, (PyTypeObject *)st->faces.stream, box) : Py_NewRef(Py_None);
}

/* ---- capture.c ---- */

/* The capture of a graph. A builder shares it with the builders that were split from it. */
typedef struct capture {
  PyObject_HEAD PyObject *graph;
  PyObject *mode;   /* a str */
  PyObject *thread; /* the identifier of the thread that must end the capture; None if any thread can */
  PyObject *unjoined, *failures, *waiting;
  char is_body;
} capture;

/* Makes a capture of a graph. All captures into a graph share two lists, so a body has those of the capture `outer`. */
PyObject *capture_make(PyTypeObject *type, PyObject *graph, const capture *outer);

int add_capture_type(PyObject *module, state *st);

/* ---- builder.c ---- */

/* A graph builder, which can be passed in place of its stream. */
typedef struct builder {
  PyObject_HEAD const state *st; /* NULL in an object that builder_make() has not made */
  PyObject *stream;              /* the stream that takes work; NULL if the builder takes no work, or must be asked */
  PyObject *own;                 /* the stream, until the builder is closed */
  PyObject *work;                /* another face of it, until building ends: a call that changes the state takes it */
  PyObject *capture;
  int kind;
  shared_word state;
} builder;

int add_builder_type(PyObject *module, state *st);

/*
 * Returns the stream that an argument represents, as a new reference: the stream of a builder that takes work now, or
 * else the argument itself.
 */
static inline PyObject *stream_or_builder(const state *st, PyObject *argument) {
  if ((PyObject *)Py_TYPE(argument) == st->faces.stream || !PyType_IsSubtype(Py_TYPE(argument), st->builder_type))
    return Py_NewRef(argument);
  PyObject *stream = field_get(argument, &((builder *)argument)->stream);
  if (stream != NULL && stream != Py_None && handle_is_open(stream))
    return stream;
  Py_XDECREF(stream);
  return Py_NewRef(argument);
}

#endif
