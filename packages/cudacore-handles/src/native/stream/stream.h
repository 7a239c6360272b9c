/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_STREAM_H
#define CUDACORE_NATIVE_STREAM_H

/* Streams and events, the order between streams, and what stands for a stream. */

#include "base/native.h"

/* ---- event.c, stream.c, order.c ---- */

int add_event_type(PyObject *module, state *st);

int add_stream_type(PyObject *module, state *st);
int add_order_functions(PyObject *module);

/* Makes a stream wait for another, as order_streams() does. Without the GIL. */
int order_raw_streams(uintptr_t consumer, uintptr_t producer, int device);

/* A new reference to the Stream that an argument is or stands for; NULL with an exception. Runs Python code. */
PyObject *stream_accept(const state *st, PyObject *argument);

/* ---- builder.c ---- */

/* A graph builder: what stands for its stream. */
typedef struct builder {
  PyObject_HEAD PyObject *stream; /* NULL or None: none, or no more */
} builder;

int add_builder_type(PyObject *module, state *st);

/* The stream that an argument stands for, borrowed: the builder's, where it is an open one; else itself. */
static inline PyObject *stream_or_builder(const state *st, PyObject *argument) {
  if ((PyObject *)Py_TYPE(argument) == st->faces.stream || !PyType_IsSubtype(Py_TYPE(argument), st->builder_type))
    return argument;
  PyObject *stream = ((builder *)argument)->stream;
  return stream != NULL && stream != Py_None ? stream : argument;
}

#endif
