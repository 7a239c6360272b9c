/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_BUFFER_H
#define CUDACORE_NATIVE_BUFFER_H

/* Buffers. */

#include "stream/stream.h"

typedef struct buffer {
  handle base;
  Py_ssize_t size;
  PyObject *mr, *owner; /* NULL if the buffer has none */
  PyObject *known;      /* the attributes of the memory, once they were queried */
  shared_word place;    /* where the memory is: see find_place() in pack.h */
} buffer;

static inline bool is_buffer(const state *st, PyObject *object) {
  return is_of(object, st->faces.buffer, st->buffer_type);
}

int add_buffer_type(PyObject *module, state *st);

/*
 * Calls a function with memory and a stream that a caller gave: cch_deviceptr_set_stream() or
 * cch_deviceptr_record_stream(). Returns -1 with an exception on failure.
 */
typedef int (*memory_stream_fn)(cch_deviceptr *, cch_stream *);
int memory_with_stream(const state *st, cch_deviceptr *memory, PyObject *argument, memory_stream_fn function);

/*
 * Raises if the memory of a box was lost in a reset of its context. This queries the driver, except for memory that a
 * reset does not free, such as that of pools. Boxes of other kinds are not checked.
 */
static inline int memory_check(const state *st, const void *box) {
  return cch_kind_of(box) == CCH_KIND_DEVICEPTR ? check_status(st, cch_deviceptr_check(box)) : 0;
}

#endif
