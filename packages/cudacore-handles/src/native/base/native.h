/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_H
#define CUDACORE_NATIVE_H

/*
 * The extension module cudacore_handles._native: what is called so often that the way through cffi would cost more than
 * the work, and what must talk to CPython directly.
 *
 * This header is the base's: the module's state, and what all faces stand on. Each room has one header of its own.
 *
 * The C library's calls release the GIL, so anybody may close anything meanwhile. The rule is: what is read from a face
 * is held before Python code runs or the GIL is released: by a reference (handle_hold), or, for one call, by the face
 * itself, which gives its reference back only when nobody uses it any more (handle_use, handle_done).
 *
 * Limited API of Python 3.10: one binary for every later version.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pythread.h>
#include <structmember.h>

#include <cudacore/cudacore.h>

#include "from_stubs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FASTCALL(function) ((PyCFunction)(void (*)(void))(function))

/* ---- the module's state: module.c, faces.c, call.c ---- */

/* What the Python half of the package gives to this one, by connect() of its rooms: classes, and functions for what is
 * not hot. */
#define FACES(X)                                                                                                       \
  X(base, closed)              /* (face) -> the exception for the use of a closed object */                            \
  X(base, closed_error)        /* its class */                                                                         \
  X(base, cuda_error)          /* the class CUDAError */                                                               \
  X(base, raise_status)        /* (status): raises for a failed call of the library */                                 \
  X(base, as_integer)          /* (object) -> the int that it is, or None: a bool of any library is not one */         \
  X(stream, raise_not_elapsed) /* (end, start, status): the same for a time that cannot be had */                      \
  X(stream, stream)            /* the class Stream */                                                                  \
  X(stream, accept_stream)     /* (object) -> the Stream that it stands for */                                         \
  X(stream, event)             /* the class Event */                                                                   \
  X(stream, new_event)         /* (stream, options) -> a new Event in a stream's context */                            \
  X(stream, host_function) /* (function, user data) -> (address, data, objects to keep); None: a Python function */    \
  X(memory, buffer)        /* the class Buffer */                                                                      \
  X(memory, free_memory)   /* (memory resource, address, size, address of the stream's box or 0) */                    \
  X(views, view)           /* the class StridedMemoryView */                                                           \
  X(views, layout_of)      /* (shape, strides, itemsize) -> a _StridedLayout */                                        \
  X(views, element_types) /* a dict: dtype -> a tuple (DLPack's type, itemsize, dtype or ...), of those seen before */ \
  X(views, element_type)  /* (dtype, itemsize) -> the same, of all others */                                           \
  X(views, dtype_of)      /* (code, bits, lanes) -> the dtype of DLPack's type */                                      \
  X(views, dlpack_type_of)    /* (dtype) -> DLPack's type: code | bits << 8 | lanes << 16 */                           \
  X(views, interface_of)      /* (class, object, stream, name) -> a view of what has no DLPack */                      \
  X(views, check_values)      /* (array, name): raises if its memory does not hold its values */                       \
  X(views, buffer_device)     /* (buffer) -> DLPack's device */                                                        \
  X(views, allocate_tensor)   /* (device type, ordinal, bytes) -> a Buffer */                                          \
  X(views, default_stream)    /* () -> the address of the default stream */                                            \
  X(launch, config)           /* the class LaunchConfig */                                                             \
  X(launch, kernel)           /* the class Kernel */                                                                   \
  X(launch, launch_checked)   /* launches what the fast path cannot, or says what is wrong with it */                  \
  X(launch, explain)          /* (status, config, kernel): raises for a launch that was refused */                     \
  X(launch, read_array)       /* (array, size) -> what arrays.c cannot read itself, see there */                       \
  X(launch, check_device)     /* (value, address, device): raises for memory that the device cannot reach */           \
  X(graph, graph)             /* the class GraphDefinition */                                                          \
  X(graph, adjacency)         /* the class AdjacencySetProxy */                                                        \
  X(graph, node_classes)      /* a tuple of its subclasses, by node_params.class */                                    \
  X(graph, gone)              /* (face) -> the exception for the use of what was destroyed */                          \
  X(graph, node_failed)       /* (status, kind, place): raises for a node that could not be added or set */            \
  X(graph, check_node_kernel) /* (config, kernel, args) -> the kernel, with its layout; or says what is wrong */       \
  X(graph, node_memory)       /* (value, name) -> the address of what is neither a Buffer nor an int */                \
  X(graph, fill_value)        /* (value) -> (pattern, bytes), of what is no int */                                     \
  X(graph, alloc_place)       /* (device, memory type, peers) -> what node_params.c reads */                           \
  X(graph, bad_condition)     /* (condition, graph or None): raises for a condition that cannot be used */

typedef struct faces {
#define FACE(room, name) PyObject *name;
  FACES(FACE)
#undef FACE
} faces;

typedef struct runtime runtime;

/* Names of what arrays are asked for, interned, and the version of DLPack that it asks for. */
typedef struct view_names {
  PyObject *dlpack, *dlpack_device, *ptr, *device_id, *shape, *strides, *dtype, *stream, *max_version;
  PyObject *version, *is_conj, *is_neg;
} view_names;

/* Entries of the tables below: base/types.h, graph/graph.h. */
typedef struct type_entry type_entry;
typedef struct node_slot node_slot;

typedef struct state {
  type_entry *table; /* how types are packed: open addressing, linear probing, at most half full */
  size_t mask;       /* slots - 1 */
  size_t used;
  PyObject *resolver;
  PyObject *forget; /* the module's _forget, the callback of the weak references */
  faces faces;
  runtime *runtime;
  node_slot *nodes; /* open addressing, linear probing, at most half full; NULL before the first node */
  size_t node_mask, node_count;
  PyTypeObject *handle_type, *event_type, *stream_type, *buffer_type, *kernel_type, *config_type;
  PyTypeObject *graph_type, *node_type, *adjacency_type, *exec_type, *condition_type, *builder_type;
  PyTypeObject *view_type, *tensor_map_type;
  PyObject *ptr_name, *value_name, *interface_name, *data_name; /* of attributes, interned */
  view_names names;                                             /* likewise, of view_from.c */
  PyObject *dlpack_types;                                       /* what faces.dlpack_type_of said of dtypes */
} state;

int add_face_functions(PyObject *module);
int faces_visit(state *st, visitproc visit, void *arg);
void faces_clear(state *st);

/* Whether an object is of a class on one of the bases. Usually it is of the face's own class, which is one compare. */
static inline bool is_of(PyObject *object, const PyObject *usual, PyTypeObject *base) {
  return (const PyObject *)Py_TYPE(object) == usual || PyType_IsSubtype(Py_TYPE(object), base) != 0;
}
static inline bool is_stream(const state *st, PyObject *object) {
  return is_of(object, st->faces.stream, st->stream_type);
}
static inline bool is_event(const state *st, PyObject *object) {
  return is_of(object, st->faces.event, st->event_type);
}
static inline bool is_buffer(const state *st, PyObject *object) {
  return is_of(object, st->faces.buffer, st->buffer_type);
}

/* Raises for a failed call of the library on this thread just now; returns NULL. */
PyObject *raise_status(const state *st, int status);

/* The int that an object is, as faces.as_integer says: a new reference. NULL: it is not one, or with an exception. */
PyObject *integer_of(const state *st, PyObject *value);

/*
 * Makes a type of a specification and adds it to the module as `name`; NULL with an exception. The reference is the
 * caller's. The specification has the name of the public class that is made from the type, because CPython's messages
 * about wrong calls show it.
 */
PyTypeObject *add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject *base);

/* Checks the number of arguments of a function of the module; -1 with an exception. */
int check_argument_count(const char *signature, Py_ssize_t given, Py_ssize_t expected);

/*
 * Sorts the arguments of a METH_FASTCALL | METH_KEYWORDS function into `out`, by their names; those that are not given
 * stay as they are. The first `positional` names can be given by position. -1 with an exception.
 */
int sort_arguments(const char *function, const char *const *names, Py_ssize_t wanted, Py_ssize_t positional,
                   PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, PyObject **out);

/* Raises an exception whose format has %U for the name of the value's type, and then two sizes; returns -1. */
int raise_about(PyObject *exception, const char *format, PyObject *value, Py_ssize_t given, uint32_t size);

/* ---- handle.c: the base class of all faces ---- */

typedef struct handle {
  PyObject_HEAD const state *st; /* NULL in an object that nothing here has made */
  void *box;                     /* one reference; NULL once closed */
  uintptr_t raw;                 /* the CUDA handle or address, which outlives closing: objects keep their hash */
  int kind;                      /* cch_kind of the box */
  unsigned users;                /* calls that use the box; guarded by the GIL, as all of this */
  void *closing; /* the reference of a face that was closed meanwhile, for the last of them to give back */
} handle;

int add_handle_type(PyObject *module, state *st);

/* A new face that takes over one reference to a box, also on failure: NULL with an exception. */
PyObject *handle_make(const state *st, PyTypeObject *type, void *box);

/* A new reference to the box of a face, which the caller knows to be a handle; NULL with an exception when closed. */
void *handle_hold(PyObject *face);

/* Gives back a box's reference where it may be the last: the driver may be entered, and wait. NULL does nothing. */
void box_let_go(void *box);

/* For a call that uses the box of a face which the caller keeps alive: cheaper than a reference. NULL with an
 * exception. */
static inline void *handle_use(PyObject *face) {
  handle *self = (handle *)face;
  if (self->box == NULL)
    return handle_hold(face); /* which raises */
  self->users++;
  return self->box;
}

/* The end of that call, with the GIL. Runs Python code where the face was closed meanwhile; keeps the exception. */
void handle_give_back(handle *self);
static inline void handle_done(PyObject *face) {
  handle *self = (handle *)face;
  if (--self->users == 0 && self->closing != NULL)
    handle_give_back(self);
}

/* Closes a face: nothing when it is closed. Runs Python code: owners are released. */
void handle_close(handle *self);

/* What every deallocator of a face ends with. */
void handle_dealloc(PyObject *object);

/* Whether an object is a face, of any kind. */
bool is_handle(const state *st, PyObject *object);

/* handle_use() of what may be no face, where a Context is needed: of another kind the library says so. */
void *context_use(const state *st, PyObject *face);

/* ---- capsule.c: handles for other extension modules ---- */

/* __cudacore_handle__() of a face. */
PyObject *handle_capsule(PyObject *face, PyObject *nothing);

/* Adds the capsule of the library's function table. */
int add_api_capsule(PyObject *module);

/* ---- runtime.c: Python objects that boxes own ---- */

/*
 * An owner: a Python object that a box keeps alive, or a memory resource that frees a box's memory. It is released by
 * the interpreter that it is of, never by the thread on which its box happens to die: that one queues it and goes on,
 * so nothing ever waits for the GIL in a destructor, and what is of an interpreter that has ended is left alone.
 */
runtime *runtime_of_interpreter(void); /* a new reference; NULL with an exception */
void runtime_unref(runtime *rt);
int add_owner_functions(PyObject *module);

typedef struct owner owner;
/* A new owner of an object, for owner_release; NULL with an exception. */
owner *owner_make(const state *st, PyObject *object, bool frees);
/* A cch_release_fn for owners. */
void owner_release(void *self);
/* Ends an owner that nobody has taken over. */
void owner_discard(owner *self);
/* What it keeps: borrowed. */
PyObject *owner_object(const owner *self);
/* Whether its interpreter has ended, so that the object must not be touched. Without the GIL, too. */
bool owner_ended(const owner *self);
/* Takes the GIL for its interpreter, on a thread of anybody's; what it returns goes to owner_detach(). */
void *owner_attach(const owner *self);
void owner_detach(const owner *self, void *attached);

/* Whether the interpreter ends, so that Python code must not be run any more. Keeps the exception that is set. */
bool is_finalizing(void);

/* Releases what is queued for this interpreter. Runs Python code; keeps the exception that is set. */
void owners_drain_now(const state *st);
bool owners_waiting(const state *st);
static inline void owners_drain(const state *st) {
  if (owners_waiting(st))
    owners_drain_now(st);
}

#endif
