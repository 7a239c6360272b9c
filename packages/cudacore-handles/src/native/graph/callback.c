/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python functions that graphs and streams call on a thread of the driver. Once the interpreter has begun to end, a
 * thread that acquires the GIL is stopped forever, in the middle of the driver's work. So from then on no function is
 * called, and the interpreter waits for calls in progress before it ends.
 */
#include "graph/graph.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>

enum {
  LONGEST_WAIT = 10 /* seconds to wait for calls in progress, so that a call that hangs does not block the exit */
};

static atomic_int under_way;

/*
 * Returns whether the runtime is ending. Python 3.13 has a function for this; older versions have an undocumented one.
 */
static bool is_ending(void) {
  static _Atomic(void *) known;
  void *function = atomic_load(&known);
  if (function == NULL) {
    function = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    if (function == NULL)
      function = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
    atomic_store(&known, function);
  }
  if (function == NULL)
    return !Py_IsInitialized();
  int (*ask)(void);
  memcpy(&ask, &function, sizeof ask);
  return ask() != 0 || !Py_IsInitialized();
}

void call_python(void *data) {
  const owner *kept = data;
  atomic_fetch_add(&under_way, 1);
  if (!owner_ended(kept) && !is_ending()) {
    void *attached = owner_attach(kept);
    PyObject *function = owner_object(kept); /* the graph or stream that calls the function keeps it alive */
    PyObject *result = PyObject_CallNoArgs(function);
    if (result == NULL)
      PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
    owner_detach(kept, attached);
  }
  atomic_fetch_sub(&under_way, 1);
}

static PyObject *end_callbacks(PyObject *module, PyObject *nothing) {
  (void)nothing;
  waits_end(PyModule_GetState(module));
  const struct timespec pause = {0, 1000000};
  Py_BEGIN_ALLOW_THREADS;
  for (int i = 0; i < 1000 * LONGEST_WAIT && atomic_load(&under_way) != 0; i++)
    nanosleep(&pause, NULL);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyMethodDef callback_functions[] = {
    {"end_callbacks", end_callbacks, METH_NOARGS, DOC_end_callbacks},
    {NULL, NULL, 0, NULL},
};
