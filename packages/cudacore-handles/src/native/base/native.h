/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_H
#define CUDACORE_NATIVE_H

/*
 * The extension module cudacore_handles._native. It has functions that are called so often that cffi would take longer
 * than the work itself, and functions that use CPython's API.
 *
 * This header belongs to the room `base`: it has the base class of all faces. Each other room has its own header.
 *
 * Calls of the C library release the GIL, so other threads can close any face meanwhile. So before Python code runs or
 * the GIL is released, hold what was read from a face. Either take a reference (handle_hold), or mark the face as in
 * use for one call (handle_use, handle_done). A face that is closed while in use drops its reference when the last use
 * ends.
 *
 * The module uses the limited API of Python 3.10: one binary works with every later version. For CPython without a GIL,
 * it is built once for each version; shared.h has the operations that differ.
 */

#include "module.h" /* must come first, as CPython requires */

#include "base/shared.h"

#include <pythread.h>
#include <structmember.h>

#include <cudacore_internal/all.h>

#include "from_stubs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FASTCALL(function) ((PyCFunction)(void (*)(void))(function))

/* One call of the library, without the GIL: WITHOUT_GIL(status = cch_stream_synchronize(stream)). */
#define WITHOUT_GIL(call)                                                                                              \
  do {                                                                                                                 \
    Py_BEGIN_ALLOW_THREADS;                                                                                            \
    call;                                                                                                              \
    Py_END_ALLOW_THREADS;                                                                                              \
  } while (0)

/* Runs statements that release something, and keeps the current exception: KEEPING_EXCEPTION(Py_XDECREF(object)). */
#define KEEPING_EXCEPTION(...)                                                                                         \
  do {                                                                                                                 \
    PyObject *raised_type, *raised_value, *raised_traceback;                                                           \
    PyErr_Fetch(&raised_type, &raised_value, &raised_traceback);                                                       \
    __VA_ARGS__;                                                                                                       \
    PyErr_Restore(raised_type, raised_value, raised_traceback);                                                        \
  } while (0)

/* ---- faces.c, call.c ---- */

extern PyMethodDef face_functions[];
int faces_visit(state *st, visitproc visit, void *arg);
void faces_clear(state *st);

/*
 * Returns whether an object is an instance of a class that is derived from one of the bases. Usually its type is the
 * face's own class, so that one comparison suffices.
 */
static inline bool is_of(PyObject *object, const PyObject *usual, PyTypeObject *base) {
  return (const PyObject *)Py_TYPE(object) == usual || PyType_IsSubtype(Py_TYPE(object), base) != 0;
}

/* Raises an exception like PyErr_Format(), which returns NULL; returns -1. */
int raise_error(PyObject *exception, const char *format, ...) __attribute__((cold));

/* Raises the exception for the library call that has just failed on this thread; returns NULL. */
PyObject *raise_status(const state *st, int status);

/*
 * The same, for a call whose arguments the library checks: a value that it refused is a ValueError, with a message that
 * names the value and the rule.
 */
PyObject *raise_invalid(const state *st, int status);

/* Raises if a call of the library failed. Returns -1 with an exception then. */
static inline int check_status(const state *st, int status) {
  if (status == 0)
    return 0;
  raise_status(st, status);
  return -1;
}

/*
 * Returns a new reference to the int that faces.as_integer returns for an object. NULL without an exception: the object
 * is not an integer. NULL with an exception: the conversion failed.
 */
PyObject *integer_of(const state *st, PyObject *value);

/*
 * The specification of a type. `public_name` is the name of the public class that is derived from the type, because
 * CPython shows this name in its messages about wrong calls. `object` is the C struct of the objects, and the slots
 * follow. GC_TYPE_SPEC is for types whose objects the garbage collector visits; their slots have a tp_traverse.
 */
#define TYPE_SPEC(public_name, object, ...) TYPE_SPEC_WITH(0, public_name, object, __VA_ARGS__)
#define GC_TYPE_SPEC(public_name, object, ...) TYPE_SPEC_WITH(Py_TPFLAGS_HAVE_GC, public_name, object, __VA_ARGS__)
#define TYPE_SPEC_WITH(flag, public_name, object, ...)                                                                 \
  {                                                                                                                    \
    .name = public_name, .basicsize = sizeof(object), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | (flag),      \
    .slots = (PyType_Slot[]) {                                                                                         \
      __VA_ARGS__, { 0, NULL }                                                                                         \
    }                                                                                                                  \
  }
#define SLOT(name, value) {Py_##name, (void *)(value)}

/*
 * Makes a type from a specification, adds it to the module as `name`, and stores a reference in `out`. Also adds
 * `functions` to the module; they are NULL if there are none. Returns -1 with an exception on failure.
 */
int add_type(PyObject *module, PyMethodDef *functions, const char *name, PyType_Spec *spec, PyTypeObject *base,
             PyTypeObject **out);

/*
 * Returns the state of the module that a type or one of its base classes belongs to; NULL without an exception if there
 * is none.
 */
const state *state_of_type(PyTypeObject *type);

/* Returns a new object of a type of this module, filled with zeros; NULL with an exception on failure. */
static inline void *new_object(PyTypeObject *type) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  return allocate(type, 0);
}
/* The last step of a deallocator: frees the object's memory, and releases its type. */
void free_object(PyObject *object);

/* Checks the number of arguments of a function of the module. Returns -1 with an exception on failure. */
int check_argument_count(const char *signature, Py_ssize_t given, Py_ssize_t expected);

int sort_named_arguments(const char *function, const char *const *names, Py_ssize_t wanted, Py_ssize_t positional,
                         PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, PyObject **out);
/*
 * Sorts the arguments of a METH_FASTCALL | METH_KEYWORDS function into `out`, by their names. Elements for arguments
 * that are not given stay unchanged. The first `positional` arguments can be given by position. Returns -1 with an
 * exception on failure.
 */
static inline int sort_arguments(const char *function, const char *const *names, Py_ssize_t wanted,
                                 Py_ssize_t positional, PyObject *const *arguments, Py_ssize_t count,
                                 PyObject *keywords, PyObject **out) {
  for (Py_ssize_t i = 0; i < count && i < positional; i++)
    out[i] = arguments[i];
  return count <= positional && keywords == NULL
             ? 0
             : sort_named_arguments(function, names, wanted, positional, arguments, count, keywords, out);
}

/* Returns the name of a value's type as messages have it: a new reference; NULL with an exception on failure. */
PyObject *type_name(PyObject *value);
/* Raises an exception. The format has %U for the name of the value's type, followed by two sizes. Returns -1. */
int raise_about(PyObject *exception, const char *format, PyObject *value, Py_ssize_t given, uint32_t size);

/* ---- handle.c: the base class of all faces ---- */

typedef struct handle {
  PyObject_HEAD const state *st; /* NULL in an object that was not made by handle_make() */
  void *box;        /* one reference, until the face is closed and the last use has ended; the pointer never changes */
  uintptr_t raw;    /* the CUDA handle or address; it remains after closing, so that the object keeps its hash */
  int kind;         /* cch_kind of the box */
  shared_word uses; /* the calls that are using the box, and whether the face is open */
} handle;

int add_handle_type(PyObject *module, state *st);

/* Returns a new face that takes over one reference to a box, even on failure. NULL with an exception on failure. */
PyObject *handle_make(const state *st, PyTypeObject *type, void *box);

/*
 * Returns a new reference to the box of a face. The caller has checked the type. NULL with an exception if the face is
 * closed.
 */
void *handle_hold(PyObject *face);

/* Returns an address as a void * of cffi; NULL with an exception on failure. */
PyObject *pointer_to(const state *st, const void *address);

/*
 * Takes the reference to a box out of an out-parameter of the library, whose address is given as an int. NULL with an
 * exception on failure.
 */
void *box_take(PyObject *address_of_out);

/* Drops a reference that may be the last one, so it may call the driver and wait. NULL does nothing. */
void box_unref(void *box);

/* Whether a face is open. Another thread can close it at any time, so do not use its box because of this. */
static inline bool handle_is_open(const void *face) { return use_is_open(&((const handle *)face)->uses); }

/*
 * Marks the box of a face as in use for one call, which is cheaper than a reference. The caller keeps the face alive.
 * NULL with an exception on failure; handle_try_use() returns NULL without an exception.
 */
static inline void *handle_try_use(PyObject *face) {
  handle *self = (handle *)face;
  return use_begin(&self->uses) ? self->box : NULL;
}
static inline void *handle_use(PyObject *face) {
  void *box = handle_try_use(face);
  return box != NULL ? box : handle_hold(face); /* raises the error, because the face is closed */
}

/*
 * Ends a use that handle_use() began. Call it with the GIL held. If the face was closed meanwhile, the call can run
 * Python code. Keeps the current exception.
 */
void handle_unref(handle *self);
static inline void handle_done(PyObject *face) {
  handle *self = (handle *)face;
  if (use_end(&self->uses))
    handle_unref(self);
}

/* Closes a face. Does nothing if it is closed already. Releases owners, so it runs Python code. */
void handle_close(handle *self);

/* The last part of the deallocator of every face. */
void handle_dealloc(PyObject *object);

/* Returns whether an object is a face of any kind. */
bool is_handle(const state *st, PyObject *object);

/*
 * Like handle_use(), for an argument that should be a Context but can be any object. The library rejects faces of other
 * kinds.
 */
void *context_use(const state *st, PyObject *face);

/* ---- make.c: objects of classes of the package ---- */

int add_make_functions(PyObject *module);

/* Returns whether an object is of one of our classes of options, and not of a derived class. */
bool is_options(const state *st, PyObject *object);
/* Returns 1 for an attribute that is True, and 0 for False and None. -1 without an exception: it is none of these. */
int option_flag(PyObject *options, PyObject *name);

/* ---- capsule.c: handles for other extension modules ---- */

/* Implements the method __cudacore_handle__() of faces. */
PyObject *handle_capsule(PyObject *face, PyObject *nothing);

/* Adds a capsule with the library's function table to the module. */
int add_api_capsule(PyObject *module);

/* ---- driver_call.c: calls of functions of the driver by their names ---- */

extern PyMethodDef driver_call_functions[];

/* ---- files.c: states of files ---- */

extern PyMethodDef file_functions[];

/* ---- runtime.c: Python objects that boxes own ---- */

/*
 * An owner: a Python object that a box keeps alive, or a memory resource that frees the memory of a box. The last
 * reference to the box can be dropped on any thread. That thread only queues the owner, so no destructor waits for the
 * GIL. The owner's interpreter releases it later. If the interpreter has ended, the owner is leaked.
 */
runtime *runtime_of_interpreter(void); /* a new reference; NULL with an exception */
void runtime_unref(runtime *rt);
bool runtime_is_main(const runtime *rt); /* whether it is that of the main interpreter */

/* A new thread enters the interpreter, and leaves it. */
PyThreadState *runtime_attach(const runtime *rt);
void runtime_detach(PyThreadState *thread);

/* Count the threads of thread.c. runtime_thread_begins() returns a new reference. */
runtime *runtime_thread_begins(runtime *rt);
void runtime_thread_ended(runtime *rt);
bool runtime_has_threads(const runtime *rt);

int add_owner_functions(PyObject *module);

typedef struct owner owner;
/* Returns a new owner of an object, for owner_release; NULL with an exception on failure. */
owner *owner_make(const state *st, PyObject *object, bool frees);
/* A cch_release_fn and a cch_free_fn for owners. */
void owner_release(void *self);
void owner_free(void *self, CUdeviceptr ptr, size_t size, cch_stream *stream);
/* Destroys an owner that no box has taken over. */
void owner_discard(owner *self);
/* Returns the object that an owner keeps: borrowed. */
PyObject *owner_object(const owner *self);
/* Returns whether the owner's interpreter has ended, so that the object must not be touched. The GIL is not needed. */
bool owner_ended(const owner *self);
/* Takes the GIL of the owner's interpreter on any thread. The result must be passed to owner_detach(). */
void *owner_attach(const owner *self);
void owner_detach(const owner *self, void *attached);

/* ---- thread.c: calls on threads of their own ---- */

int add_thread_functions(PyObject *module);

/* Returns whether Python calls signal handlers on this thread: on the main thread of the main interpreter. */
bool handles_signals(const state *st);

/* Returns whether the interpreter is ending, so that Python code must no longer run. Keeps the current exception. */
bool is_finalizing(void);

/* Releases the queued owners of this interpreter. Runs Python code; keeps the current exception. */
void owners_drain_now(const state *st);
bool owners_waiting(const state *st);
static inline void owners_drain(const state *st) {
  if (owners_waiting(st))
    owners_drain_now(st);
}

#endif
