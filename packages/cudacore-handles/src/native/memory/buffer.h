/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_BUFFER_H
#define CUDACORE_NATIVE_BUFFER_H

/* Buffers. */

#include "base/dlpack.h"
#include "stream/stream.h"

typedef struct buffer {
  handle base;
  Py_ssize_t size;
  PyObject *mr, *owner; /* NULL if the buffer has none */
  shared_word access;   /* who can use the memory, once it is known: see access.c */
  shared_word place;    /* where the memory is: see find_place() in pack.h */
} buffer;

static inline bool is_buffer(const state *st, PyObject *object) {
  return is_of(object, st->faces.buffer, st->buffer_type);
}

int add_buffer_type(PyObject *module, state *st);

/* ---- access.c: where memory is, and who can use it ---- */

/*
 * The getter of a buffer's properties with the same names as those of memory resources: is_managed and so on. The
 * closure is one of the flags.
 */
enum { ACCESS_DEVICE_ID = 0, ACCESS_BY_DEVICE = 2, ACCESS_BY_HOST = 4, ACCESS_MANAGED = 8 };
PyObject *access_property(PyObject *buffer, void *flag);
/* The method of a buffer that sets these properties: _set_access(device_id, by_device, by_host, managed). */
PyObject *access_set(PyObject *buffer, PyObject *arguments);

/* Gets the DLPack device of a buffer's memory. Returns -1 with an exception on failure. */
int buffer_device(PyObject *buffer, dl_device *out);
/* The same for an address, about which the driver is asked. */
int memory_device(const state *st, uintptr_t address, dl_device *out);

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
