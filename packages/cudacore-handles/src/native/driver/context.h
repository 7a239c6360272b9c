/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_CONTEXT_H
#define CUDACORE_NATIVE_CONTEXT_H

/* Contexts, and their devices. */

#include "base/native.h"

int add_context_type(PyObject *module, state *st);

/* Returns a new Context that takes over a reference, even on failure. NULL with an exception on failure. */
static inline PyObject *context_face(const state *st, cch_context *context) {
  return handle_make(st, (PyTypeObject *)st->faces.context, context);
}

/* Returns the Device of a context; NULL with an exception on failure. Runs Python code. */
PyObject *device_of(const state *st, const cch_context *context);

#endif
