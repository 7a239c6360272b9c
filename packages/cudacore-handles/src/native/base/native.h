/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_H
#define CUDACORE_NATIVE_H

/*
 * The extension module cudacore_handles._native. It has functions that are called so often that cffi would take longer
 * than the work itself, and functions that use CPython's API.
 *
 * This header belongs to the room `base`: it has the state of the module and the base class of all faces. Each other
 * room has its own header.
 *
 * Calls of the C library release the GIL, so other threads can close any face meanwhile. So before Python code runs or
 * the GIL is released, hold what was read from a face. Either take a reference (handle_hold), or mark the face as in
 * use for one call (handle_use, handle_done). A face that is closed while in use drops its reference when the last use
 * ends.
 *
 * The module uses the limited API of Python 3.10: one binary works with every later version.
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

/* ---- the module's state: module.c, faces.c, call.c ---- */

/*
 * Classes, and functions that are not called often, which the Python code of the package passes to this module by
 * connect(), room by room.
 */
#define FACES(X)                                                                                                       \
  X(base, closed)              /* (face) -> the exception for the use of a closed object */                            \
  X(base, closed_error)        /* its class */                                                                         \
  X(base, cuda_error)          /* the class CUDAError */                                                               \
  X(base, raise_status)        /* (status): raises for a failed call of the library */                                 \
  X(base, as_integer)          /* (object) -> the int that it equals; None for any other object, and for bools */      \
  X(stream, raise_not_elapsed) /* (end, start, status): raises if the time between two events is not available */      \
  X(stream, stream)            /* the class Stream */                                                                  \
  X(stream, accept_stream)     /* (object) -> the Stream that the object is or represents */                           \
  X(stream, event)             /* the class Event */                                                                   \
  X(stream, new_event)         /* (stream, options) -> a new Event in a stream's context */                            \
  X(stream, host_function) /* (function, user data) -> (address, data, objects to keep); None: call it by Python */    \
  X(memory, buffer)        /* the class Buffer */                                                                      \
  X(memory, free_memory)   /* (memory resource, address, size, address of the stream's box or 0): frees memory */      \
  X(texture, array)                                                                                                    \
  X(texture, array_options)                                                                                            \
  X(texture, mipmapped_array)                                                                                          \
  X(texture, mipmapped_array_options)                                                                                  \
  X(texture, texture)                                                                                                  \
  X(texture, texture_options)                                                                                          \
  X(texture, surface)                                                                                                  \
  X(texture, resource)    /* these are the classes */                                                                  \
  X(texture, check_array) /* (options, device) -> (copy, bytes), see options_read() */                                 \
  X(texture, check_mipmapped_array)                                                                                    \
  X(texture, check_texture)                                                                                            \
  X(texture, check_memory)    /* (resource, device): raises for memory that the device cannot sample */                \
  X(texture, refuse_format)   /* (resource, options): raises for texels that cannot be sampled with the options */     \
  X(texture, refuse_surface)  /* (resource): raises if no surface can be made of it */                                 \
  X(views, view)              /* the class StridedMemoryView */                                                        \
  X(views, layout_of)         /* (shape, strides, itemsize) -> a _StridedLayout */                                     \
  X(views, element_types)     /* a dict, the cache of element_type(): dtype -> tuple */                                \
  X(views, element_type)      /* (dtype, itemsize) -> (type in DLPack, itemsize, dtype or ...) */                      \
  X(views, dtype_of)          /* (code, bits, lanes) -> the dtype of a type in DLPack */                               \
  X(views, dlpack_type_of)    /* (dtype) -> the type in DLPack: code | bits << 8 | lanes << 16 */                      \
  X(views, interface_of)      /* (class, object, stream, name) -> a view of an object without DLPack */                \
  X(views, check_values)      /* (array, name): raises if the array's memory does not hold its values */               \
  X(views, buffer_device)     /* (buffer) -> DLPack device */                                                          \
  X(views, allocate_tensor)   /* (device type, ordinal, bytes) -> a Buffer */                                          \
  X(views, default_stream)    /* () -> the address of the default stream */                                            \
  X(launch, config)           /* the class LaunchConfig */                                                             \
  X(launch, config_names)     /* a frozenset of the names of LaunchConfig's arguments */                               \
  X(launch, config_unknown)   /* (name): raises for an argument that LaunchConfig does not have */                     \
  X(launch, kernel)           /* the class Kernel */                                                                   \
  X(launch, launch_checked)   /* the slow path: launches, or raises an error that explains why that is not possible */ \
  X(launch, explain)          /* (status, config, kernel): raises for a launch that was refused */                     \
  X(launch, read_array)       /* (array, size) -> the address of an array that arrays.c cannot read itself */          \
  X(launch, check_device)     /* (value, address, device): raises if the device cannot access the memory */            \
  X(graph, graph)             /* the class GraphDefinition */                                                          \
  X(graph, adjacency)         /* the class AdjacencySetProxy */                                                        \
  X(graph, node_classes)      /* a tuple of the subclasses of GraphNode, by node_params.class */                       \
  X(graph, gone)              /* (face) -> the exception for the use of a destroyed node */                            \
  X(graph, node_failed)       /* (status, method, place): raises for a node that could not be added or updated */      \
  X(graph, check_node_kernel) /* (config, kernel, args) -> the kernel, with its layout; or raises */                   \
  X(graph, node_memory)       /* (value, name) -> the address of a value that is neither a Buffer nor an int */        \
  X(graph, fill_value)        /* (value) -> (pattern, bytes), for a value that is not an int */                        \
  X(graph, alloc_place)       /* (device, memory type, peers) -> the tuple that nodes/alloc.c reads */                 \
  X(graph, bad_condition)     /* (condition, graph or None): raises for a condition that cannot be used */

typedef struct faces {
#define FACE(room, name) PyObject *name;
  FACES(FACE)
#undef FACE
} faces;

typedef struct runtime runtime;

/* Interned names of the attributes that are read from arrays, and the version of DLPack that is requested. */
typedef struct view_names {
  PyObject *dlpack, *dlpack_device, *ptr, *device_id, *shape, *strides, *dtype, *stream, *max_version;
  PyObject *version, *is_conj, *is_neg;
} view_names;

/* Entries of the tables below: base/types.h, graph/graph.h. */
typedef struct type_entry type_entry;
typedef struct node_slot node_slot;
typedef struct kept_options kept_options; /* texture/options.c */

/* The types that the module's functions need: st->handle_type and so on. Derived types come after their bases. */
#define TYPES(X)                                                                                                       \
  X(handle)                                                                                                            \
  X(event)                                                                                                             \
  X(stream)                                                                                                            \
  X(buffer)                                                                                                            \
  X(kernel)                                                                                                            \
  X(config)                                                                                                            \
  X(graph)                                                                                                             \
  X(node)                                                                                                              \
  X(adjacency)                                                                                                         \
  X(exec)                                                                                                              \
  X(condition)                                                                                                         \
  X(builder)                                                                                                           \
  X(view)                                                                                                              \
  X(tensor_map)                                                                                                        \
  X(resource)                                                                                                          \
  X(texture)

typedef struct state {
  type_entry *table; /* registered types, with their packing: open addressing, linear probing, at most half full */
  size_t mask;       /* slots - 1 */
  size_t used;
  PyObject *resolver;
  PyObject *forget; /* the function _forget of the module: the callback of the weak references */
  faces faces;
  runtime *runtime;
  node_slot *nodes; /* faces of nodes: open addressing, linear probing, at most half full; NULL before the first node */
  size_t node_mask, node_count;
#define TYPE(name) PyTypeObject *name##_type;
  TYPES(TYPE)
#undef TYPE
  kept_options *options;                                        /* cached options of textures and arrays */
  PyObject *ptr_name, *value_name, *interface_name, *data_name; /* interned names of attributes */
  view_names names;                                             /* interned names for view_from.c */
  PyObject *dlpack_types;                                       /* results of faces.dlpack_type_of, by dtype */
} state;

int add_face_functions(PyObject *module);
int faces_visit(state *st, visitproc visit, void *arg);
void faces_clear(state *st);

/*
 * Whether an object is an instance of a class that is derived from one of the bases. Usually its type is the face's own
 * class, so that one comparison suffices.
 */
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

/* Raises the exception for the library call that has just failed on this thread; returns NULL. */
PyObject *raise_status(const state *st, int status);

/*
 * A new reference to the int that faces.as_integer returns for an object. NULL without an exception: the object is not
 * an integer. NULL with an exception: the conversion failed.
 */
PyObject *integer_of(const state *st, PyObject *value);

/*
 * The specification of a type: the name of the public class that is derived from it, because CPython's messages about
 * wrong calls show that name, the C struct of its objects, and its slots. The garbage collector visits the objects of a
 * GC_TYPE_SPEC, whose slots have a tp_traverse.
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
 * Makes a type from a specification, adds it to the module as `name`, and stores a reference in `out`. Also adds the
 * functions of the same file; NULL if it has none. -1 with an exception.
 */
int add_type(PyObject *module, PyMethodDef *functions, const char *name, PyType_Spec *spec, PyTypeObject *base,
             PyTypeObject **out);

/*
 * The state of the module that a type or one of its base classes belongs to; NULL without an exception if there is
 * none.
 */
const state *state_of_type(PyTypeObject *type);

/* A new object of a type of this module, filled with zeros; NULL with an exception. */
static inline void *new_object(PyTypeObject *type) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  return allocate(type, 0);
}
/* The last step of a deallocator: frees the object's memory, and releases its type. */
void free_object(PyObject *object);

/* Checks the number of arguments of a function of the module; -1 with an exception. */
int check_argument_count(const char *signature, Py_ssize_t given, Py_ssize_t expected);

/*
 * Sorts the arguments of a METH_FASTCALL | METH_KEYWORDS function into `out`, by their names. Elements for arguments
 * that are not given stay unchanged. The first `positional` arguments can be given by position. -1 with an exception.
 */
int sort_arguments(const char *function, const char *const *names, Py_ssize_t wanted, Py_ssize_t positional,
                   PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, PyObject **out);

/* Raises an exception. The format has %U for the name of the value's type, followed by two sizes. Returns -1. */
int raise_about(PyObject *exception, const char *format, PyObject *value, Py_ssize_t given, uint32_t size);

/* ---- handle.c: the base class of all faces ---- */

typedef struct handle {
  PyObject_HEAD const state *st; /* NULL in an object that was not made by handle_make() */
  void *box;                     /* one reference; NULL once closed */
  uintptr_t raw;  /* the CUDA handle or address; it remains after closing, so that the object keeps its hash */
  int kind;       /* cch_kind of the box */
  unsigned users; /* number of calls that are using the box; guarded by the GIL, as are all fields */
  void *closing;  /* the reference of a face that was closed while in use; the last use drops it */
} handle;

int add_handle_type(PyObject *module, state *st);

/* A new face that takes over one reference to a box, even on failure. NULL with an exception. */
PyObject *handle_make(const state *st, PyTypeObject *type, void *box);

/*
 * A new reference to the box of a face. The caller has checked the type. NULL with an exception if the face is closed.
 */
void *handle_hold(PyObject *face);

/* Drops a reference that may be the last one, so it may call the driver and wait. NULL does nothing. */
void box_let_go(void *box);

/*
 * Marks the box of a face as in use for one call, which is cheaper than a reference. The caller keeps the face alive.
 * NULL with an exception.
 */
static inline void *handle_use(PyObject *face) {
  handle *self = (handle *)face;
  if (self->box == NULL)
    return handle_hold(face); /* raises the error */
  self->users++;
  return self->box;
}

/*
 * Ends a use. Call it with the GIL held. If the face was closed meanwhile, this can run Python code. It keeps the
 * current exception.
 */
void handle_give_back(handle *self);
static inline void handle_done(PyObject *face) {
  handle *self = (handle *)face;
  if (--self->users == 0 && self->closing != NULL)
    handle_give_back(self);
}

/* Closes a face. Does nothing if it is closed already. Releases owners, so it runs Python code. */
void handle_close(handle *self);

/* The last part of the deallocator of every face. */
void handle_dealloc(PyObject *object);

/* Whether an object is a face of any kind. */
bool is_handle(const state *st, PyObject *object);

/*
 * Like handle_use(), for an argument that should be a Context but can be any object. The library rejects faces of other
 * kinds.
 */
void *context_use(const state *st, PyObject *face);

/* ---- capsule.c: handles for other extension modules ---- */

/* The method __cudacore_handle__() of faces. */
PyObject *handle_capsule(PyObject *face, PyObject *nothing);

/* Adds the capsule of the library's function table. */
int add_api_capsule(PyObject *module);

/* ---- runtime.c: Python objects that boxes own ---- */

/*
 * An owner: a Python object that a box keeps alive, or a memory resource that frees the memory of a box. The last
 * reference to the box can be dropped on any thread. That thread only queues the owner, so no destructor waits for the
 * GIL. The owner's interpreter releases it later. If the interpreter has ended, the owner is leaked.
 */
runtime *runtime_of_interpreter(void); /* a new reference; NULL with an exception */
void runtime_unref(runtime *rt);
int add_owner_functions(PyObject *module);

typedef struct owner owner;
/* A new owner of an object, for owner_release; NULL with an exception. */
owner *owner_make(const state *st, PyObject *object, bool frees);
/* A cch_release_fn for owners. */
void owner_release(void *self);
/* Destroys an owner that no box has taken over. */
void owner_discard(owner *self);
/* The object that an owner keeps: borrowed. */
PyObject *owner_object(const owner *self);
/* Whether the owner's interpreter has ended, so that the object must not be touched. The GIL is not needed. */
bool owner_ended(const owner *self);
/* Takes the GIL of the owner's interpreter on any thread. The result must be passed to owner_detach(). */
void *owner_attach(const owner *self);
void owner_detach(const owner *self, void *attached);

/* Whether the interpreter is ending, so that Python code must no longer run. Keeps the current exception. */
bool is_finalizing(void);

/* Releases the queued owners of this interpreter. Runs Python code; keeps the current exception. */
void owners_drain_now(const state *st);
bool owners_waiting(const state *st);
static inline void owners_drain(const state *st) {
  if (owners_waiting(st))
    owners_drain_now(st);
}

#endif
