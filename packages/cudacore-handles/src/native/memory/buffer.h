/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_BUFFER_H
#define CUDACORE_NATIVE_BUFFER_H

/* Buffers. */

#include "stream/stream.h"

typedef struct buffer {
  handle base;
  Py_ssize_t size;
  PyObject *mr, *owner; /* NULL: none */
  PyObject *known;      /* what is known of the memory, once it was asked for */
  int device;           /* of the memory: arrays.c */
} buffer;

int add_buffer_type(PyObject *module, state *st);

#endif
