/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python objects that boxes own. A box can be destroyed on any thread: of another interpreter, of the driver, or
 * without an interpreter, and even while or after the interpreter ends. So destroying a box only queues its owner,
 * without a lock and without allocating. The owner's interpreter releases it at its next call into this module, or in a
 * pending call.
 */
#include "base/native.h"

#include <cuda.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct owner {
  struct owner *next;
  runtime *runtime; /* a reference */
  PyObject *object; /* the object that is kept, or the memory resource that frees the memory described below */
  bool frees;
  CUdeviceptr ptr;
  size_t size;
  cch_stream *stream; /* a reference, or NULL */
};

struct runtime {
  atomic_size_t references;
  _Atomic(owner *) queue;
  atomic_bool ended;  /* the interpreter has ended: no Python object may be touched */
  atomic_bool woken;  /* a pending call was scheduled */
  bool is_main;       /* only the main interpreter has pending calls */
  pid_t process;      /* the process whose threads are counted: a forked child does not have them */
  atomic_int threads; /* the number of running threads of thread.c */
  PyInterpreterState *interpreter;
};

static const char runtime_name[] = "cudacore_handles.runtime";

static runtime *runtime_ref(runtime *rt) {
  atomic_fetch_add_explicit(&rt->references, 1, memory_order_relaxed);
  return rt;
}

void runtime_unref(runtime *rt) {
  if (rt != NULL && atomic_fetch_sub_explicit(&rt->references, 1, memory_order_acq_rel) == 1)
    free(rt);
}

/* The interpreter's dictionary is destroyed last, after everything that runs Python code. */
static void interpreter_ended(PyObject *capsule) {
  runtime *rt = PyCapsule_GetPointer(capsule, runtime_name);
  atomic_store(&rt->ended, true);
  runtime_unref(rt);
}

runtime *runtime_of_interpreter(void) {
  PyInterpreterState *interpreter = PyInterpreterState_Get();
  PyObject *dict = PyInterpreterState_GetDict(interpreter); /* borrowed */
  if (dict == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the interpreter has no dictionary for extension modules");
    return NULL;
  }
  PyObject *capsule = PyDict_GetItemString(dict, runtime_name); /* borrowed */
  if (capsule != NULL) {
    runtime *known = PyCapsule_GetPointer(capsule, runtime_name);
    return known != NULL ? runtime_ref(known) : NULL;
  }
  runtime *rt = calloc(1, sizeof *rt);
  if (rt == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  atomic_init(&rt->references, 1);
  rt->is_main = PyInterpreterState_GetID(interpreter) == 0;
  rt->interpreter = interpreter;
  rt->process = getpid();
  capsule = PyCapsule_New(rt, runtime_name, interpreter_ended);
  if (capsule == NULL) {
    runtime_unref(rt);
    return NULL;
  }
  runtime_ref(rt);
  int status = PyDict_SetItemString(dict, runtime_name, capsule);
  Py_DECREF(capsule);
  if (status < 0) {
    runtime_unref(rt);
    return NULL;
  }
  return rt;
}

owner *owner_make(const state *st, PyObject *object, bool frees) {
  owner *self = calloc(1, sizeof *self);
  if (self == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  self->runtime = runtime_ref(st->base.runtime);
  Py_INCREF(object);
  self->object = object;
  self->frees = frees;
  return self;
}

static void discard(owner *self) {
  cch_unref(self->stream);
  runtime_unref(self->runtime);
  free(self);
}

void owner_discard(owner *self) {
  Py_DECREF(self->object);
  discard(self);
}

/* A finalising interpreter clears even the module sys. */
bool is_finalizing(void) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *function = PySys_GetObject("is_finalizing"); /* borrowed */
  PyObject *answer = function != NULL ? PyObject_CallNoArgs(function) : NULL;
  bool finalizing = answer != Py_False;
  Py_XDECREF(answer);
  PyErr_Restore(type, value, traceback);
  return finalizing;
}

/*
 * Returns whether this thread may call the driver now, as memory resources do when they free memory. A thread that runs
 * a host function must not, and a garbage collection can happen there. In a forked child, the queue belongs to the
 * parent.
 */
static bool may_free(void) {
  cch_context *current = NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = cch_context_current(&current);
  cch_context_unref(current);
  Py_END_ALLOW_THREADS;
  return status != CUDA_ERROR_NOT_PERMITTED && status != CCH_EFORKED;
}

/* Releases all queued owners, oldest first. `free_memory` can be NULL while the interpreter ends. */
static void drain(runtime *rt, PyObject *free_memory) {
  /*
   * A garbage collection can run this between a failing call and the caller's query of the error record. So the record
   * is saved here, and set again at the end.
   */
  cch_error error = *cch_error_last();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback); /* before any Python call: these fail while an exception is set */
  if (is_finalizing() || !may_free()) {
    PyErr_Restore(type, value, traceback);
    cch_error_restore(&error);
    return; /* the owners remain in the queue */
  }
  owner *queued = atomic_exchange_explicit(&rt->queue, NULL, memory_order_acquire), *ordered = NULL;
  while (queued != NULL) {
    owner *next = queued->next;
    queued->next = ordered;
    ordered = queued;
    queued = next;
  }
  Py_XINCREF(free_memory);
  while (ordered != NULL) {
    owner *self = ordered;
    ordered = self->next;
    PyObject *object = self->object;
    if (self->frees && free_memory != NULL) {
      PyObject *result = PyObject_CallFunction(free_memory, "OKnK", object, (unsigned long long)self->ptr,
                                               (Py_ssize_t)self->size, (unsigned long long)(uintptr_t)self->stream);
      if (result == NULL)
        PyErr_WriteUnraisable(object);
      Py_XDECREF(result);
    }
    Py_DECREF(object);
    WITHOUT_GIL(discard(self));
  }
  Py_XDECREF(free_memory);
  PyErr_Restore(type, value, traceback);
  cch_error_restore(&error);
}

bool owners_waiting(const state *st) {
  return st != NULL && st->base.runtime != NULL &&
         atomic_load_explicit(&st->base.runtime->queue, memory_order_relaxed) != NULL;
}

void owners_drain_now(const state *st) { drain(st->base.runtime, st->faces.free_memory); }

static int drain_pending(void *argument) {
  runtime *rt = argument;
  atomic_store(&rt->woken, false);
  if (atomic_load_explicit(&rt->queue, memory_order_relaxed) != NULL && !atomic_load(&rt->ended)) {
    /* The module's state may no longer exist, so the function that frees memory is looked up in its Python module. */
    PyObject *module = PyImport_ImportModule("cudacore_handles._memory.buffer");
    PyObject *free_memory = module != NULL ? PyObject_GetAttrString(module, "_free_memory") : NULL;
    if (free_memory == NULL)
      PyErr_Clear();
    drain(rt, free_memory);
    Py_XDECREF(free_memory);
    Py_XDECREF(module);
  }
  runtime_unref(rt);
  return 0;
}

static void queue(owner *self) {
  runtime *rt = runtime_ref(self->runtime);
  owner *head = atomic_load_explicit(&rt->queue, memory_order_relaxed);
  do
    self->next = head;
  while (!atomic_compare_exchange_weak_explicit(&rt->queue, &head, self, memory_order_release, memory_order_relaxed));
  /*
   * A thread that drops the last reference through this module empties the queue at once. The pending call is for all
   * other threads. One call suffices for any number of owners.
   */
  if (rt->is_main && !atomic_load(&rt->ended) && !atomic_exchange(&rt->woken, true)) {
    if (Py_AddPendingCall(drain_pending, rt) == 0)
      return; /* the pending call has taken over our reference */
    atomic_store(&rt->woken, false);
  }
  runtime_unref(rt);
}

void owner_release(void *self) { queue(self); }

PyObject *owner_object(const owner *self) { return self->object; }

bool owner_ended(const owner *self) { return atomic_load(&self->runtime->ended); }

bool runtime_is_main(const runtime *rt) { return rt->is_main; }

runtime *runtime_thread_begins(runtime *rt) {
  if (rt->process != getpid()) {
    rt->process = getpid();
    atomic_store(&rt->threads, 0);
  }
  atomic_fetch_add(&rt->threads, 1);
  return runtime_ref(rt);
}

void runtime_thread_ended(runtime *rt) { atomic_fetch_sub(&rt->threads, 1); }

bool runtime_has_threads(const runtime *rt) { return rt->process == getpid() && atomic_load(&rt->threads) != 0; }

PyThreadState *runtime_attach(const runtime *rt) {
  PyThreadState *thread = PyThreadState_New(rt->interpreter);
  PyEval_RestoreThread(thread);
  return thread;
}

void runtime_detach(PyThreadState *thread) {
  PyThreadState_Clear(thread);
  PyEval_SaveThread();
  PyThreadState_Delete(thread);
}

/* PyGILState_Ensure() supports only the main interpreter. For other interpreters, a thread state is created. */
void *owner_attach(const owner *self) {
  if (self->runtime->is_main)
    return (void *)(uintptr_t)PyGILState_Ensure();
  return runtime_attach(self->runtime);
}

void owner_detach(const owner *self, void *attached) {
  if (self->runtime->is_main) {
    PyGILState_Release((PyGILState_STATE)(uintptr_t)attached);
    return;
  }
  runtime_detach(attached);
}

void owner_free(void *opaque, CUdeviceptr ptr, size_t size, cch_stream *stream) {
  owner *self = opaque;
  self->ptr = ptr;
  self->size = size;
  if (self->frees)
    self->stream = cch_stream_ref(stream);
  queue(self);
}

/* ---- the driver of a package ---- */

/* Runs on the thread that makes the first call that needs a driver, which may hold the GIL or not. */
static void find_driver(void) {
  PyGILState_STATE attached = PyGILState_Ensure();
  KEEPING_EXCEPTION(PyObject *module = PyImport_ImportModule("cudacore_handles._base.drivers");
                    PyObject *found = module != NULL ? PyObject_CallMethod(module, "selected_driver", NULL) : NULL;
                    if (found == NULL) PyErr_WriteUnraisable(module); Py_XDECREF(found); Py_XDECREF(module));
  PyGILState_Release(attached);
}

/* ---- functions that Python code passes to the C library ---- */

/*
 * The owner is made, passed on, and discarded after a failure in one call, because a KeyboardInterrupt can arrive
 * between any two steps of Python code.
 */
static PyObject *call_owning(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (count < 2)
    return PyErr_Format(PyExc_TypeError, "call_owning(owner, function, ...) takes 2 arguments, not %zd", count);
  owner *self = arguments[0] != Py_None ? owner_make(st, arguments[0], false) : NULL;
  if (self == NULL && arguments[0] != Py_None)
    return NULL;
  uintptr_t release = self == NULL ? 0 : (uintptr_t)owner_release;
  PyObject *given = PyTuple_New(count), *result = NULL;
  PyObject *kept = pointer_to(st, self), *function = pointer_to(st, (const void *)release);
  for (Py_ssize_t i = 2; given != NULL && i < count; i++)
    PyTuple_SetItem(given, i - 2, Py_NewRef(arguments[i]));
  if (given != NULL && kept != NULL && function != NULL) {
    PyTuple_SetItem(given, count - 2, Py_NewRef(kept));
    PyTuple_SetItem(given, count - 1, Py_NewRef(function));
    result = PyObject_CallObject(arguments[1], given);
  }
  if (self != NULL && (result == NULL || PyObject_IsTrue(result) != 0)) /* the library has taken nothing over */
    KEEPING_EXCEPTION(owner_discard(self));
  KEEPING_EXCEPTION(Py_XDECREF(given); Py_XDECREF(kept); Py_XDECREF(function));
  return result;
}

static PyMethodDef functions[] = {
    {"call_owning", FASTCALL(call_owning), METH_FASTCALL, DOC_call_owning},
    {NULL, NULL, 0, NULL},
};

int add_owner_functions(PyObject *module) {
  if (runtime_is_main(((state *)PyModule_GetState(module))->base.runtime)) /* PyGILState_Ensure() is for the main one */
    cch_driver_set_search(find_driver);
  return PyModule_AddFunctions(module, functions);
}
