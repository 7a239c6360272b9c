/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_BUFFER_H
#define CUDACORE_NATIVE_BUFFER_H

/* Buffers. */

#include "stream/stream.h"

typedef struct buffer {
  handle base;
  Py_ssize_t size;
  PyObject *mr, *owner; /* NULL if there is none */
  PyObject *known;      /* the attributes of the memory, once they were queried */
  int device;           /* the device of the memory: see arrays.c */
} buffer;

int add_buffer_type(PyObject *module, state *st);

#endif
