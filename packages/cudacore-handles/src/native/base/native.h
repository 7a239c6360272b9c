/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_H
#define CUDACORE_NATIVE_H

/*
 * The extension module cudacore_handles._native: what is called so often that the way through cffi would cost more than
 * the work, and what must talk to CPython directly.
 *
 *   handle.c    the base class of all faces: one reference to a box
 *   capsule.c   capsules with handles, for other extension modules
 *   runtime.c   Python objects that boxes own, and where they are released
 *   event.c, stream.c, buffer.c    the hot halves of those faces
 *   types.c, pack.c                Python values into a kernel's argument block
 *   numbers.c, arrays.c            the values of each sort
 *   owners.c    what the packed values point into
 *   launch.c, prepared.c           launches, with the hot half of Kernel and LaunchConfig
 *   dlpack.c    DLPack tensors
 *   view.c      the hot half of StridedMemoryView
 *   view_from.c where views come from: arrays of other libraries, and buffers
 *   exchange.c  DLPack's C exchange API, of our own objects
 *   graph.c     the hot halves of graph definitions, conditions and executable graphs; locks of graphs
 *   node.c      the hot half of graph nodes; the one face of each
 *   node_params.c, node_add.c, node_batch.c    parameters of nodes, from Python values; where they go
 *   callback.c  Python functions that graphs and streams call
 *   capture.c   the hot half of graph builders; what captured work keeps
 *   module.c    the module object
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

#include "memory/dlpack.h"

#include <cudacore/cudacore.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  BLOCK_MAX = 65536,  /* bytes of the largest argument block; CUDA's own limit is below */
  SCRATCH_SIZE = 4096 /* blocks up to this size are packed on the stack (kernels of CUDA 12 end there) */
};

#define FASTCALL(function) ((PyCFunction)(void (*)(void))(function))

/* ---- the module's state ---- */

/* How the values of a type are packed. The first ones are public, as module constants. */
typedef enum kind {
  KIND_SIGNED,
  KIND_UNSIGNED,
  KIND_FLOAT,
  KIND_COMPLEX,
  KIND_BOOL,
  KIND_POINTER,
  KIND_ARRAY, /* __cuda_array_interface__, or what the array functions make of it */
  KIND_PUBLIC_COUNT,
  KIND_CONVERTER = KIND_PUBLIC_COUNT,
  KIND_EXCHANGE, /* DLPack's C exchange API */
  KIND_PATHS,    /* attributes that have the address and the device */
  KIND_NONE,
  KIND_BYTES,
  KIND_BYTEARRAY,
  KIND_MEMORYVIEW,
} kind;

/* Flag of a code: a value's `value` is packed in its place. */
#define CODE_HAS_VALUE 0x10000

/*
 * One attribute that leads to an array's address. Where it is a property that a C type computes, which instances cannot
 * hide, the property is remembered with the type of the objects that have it: looking it up costs more than calling it.
 */
typedef struct attribute {
  PyObject *name;     /* borrowed from the entry's `given` */
  const void *type;   /* of objects whose property is known; only compared */
  PyObject *property; /* a getset_descriptor */
  descrgetfunc get;
} attribute;

/*
 * One registered type. The registry does not keep types alive: `weak` is a weak reference whose callback drops the
 * entry before the type's address can be reused. Built-in types are immortal and have none.
 */
typedef struct type_entry {
  const void *type; /* the key, borrowed; NULL: a free slot */
  PyObject *weak;
  PyObject *given;                 /* a converter, a capsule with an exchange API, or paths */
  const dl_exchange_api *exchange; /* of KIND_EXCHANGE */
  attribute to_address[2];         /* of KIND_PATHS; name NULL: no more */
  kind kind;
  uint32_t itemsize; /* what the parameter must have; 0: any size that suits the kind */
  bool has_value;
} type_entry;

/* What the Python half of the package tells this one, by set_face(): classes, and functions for what is not hot. */
#define FACES(X)                                                                                                       \
  X(closed)            /* (face) -> the exception for the use of a closed object */                                    \
  X(closed_error)      /* its class */                                                                                 \
  X(cuda_error)        /* the class CUDAError */                                                                       \
  X(raise_status)      /* (status): raises for a failed call of the library */                                         \
  X(raise_not_elapsed) /* (end, start, status): the same for a time that cannot be had */                              \
  X(stream)            /* the class Stream */                                                                          \
  X(accept_stream)     /* (object) -> the Stream that it stands for */                                                 \
  X(event)             /* the class Event */                                                                           \
  X(new_event)         /* (stream, options) -> a new Event in a stream's context */                                    \
  X(buffer)            /* the class Buffer */                                                                          \
  X(free_memory)       /* (memory resource, address, size, address of the stream's box or 0) */                        \
  X(config)            /* the class LaunchConfig */                                                                    \
  X(kernel)            /* the class Kernel */                                                                          \
  X(launch_checked)    /* launches what the fast path cannot, or says what is wrong with it */                         \
  X(explain)           /* (status, config, kernel): raises for a launch that was refused */                            \
  X(read_array)        /* (array, size) -> what arrays.c cannot read itself, see there */                              \
  X(as_integer)        /* (object) -> the int that it is, or None: a bool of any library is not one */                 \
  X(check_device)      /* (value, address, device): raises for memory that the device cannot reach */                  \
  X(graph)             /* the class GraphDefinition */                                                                 \
  X(adjacency)         /* the class AdjacencySetProxy */                                                               \
  X(node_classes)      /* a tuple of its subclasses, by node_params.class */                                           \
  X(gone)              /* (face) -> the exception for the use of what was destroyed */                                 \
  X(node_failed)       /* (status, kind, place): raises for a node that could not be added or set */                   \
  X(check_node_kernel) /* (config, kernel, args) -> the kernel, with its layout; or says what is wrong */              \
  X(node_memory)       /* (value, name) -> the address of what is neither a Buffer nor an int */                       \
  X(fill_value)        /* (value) -> (pattern, bytes), of what is no int */                                            \
  X(alloc_place)       /* (device, memory type, peers) -> what node_params.c reads */                                  \
  X(host_function)     /* (function, user data) -> (address, data, objects to keep); None: a Python function */        \
  X(bad_condition)     /* (condition, graph or None): raises for a condition that cannot be used */                    \
  X(view)              /* the class StridedMemoryView */                                                               \
  X(layout_of)         /* (shape, strides, itemsize) -> a _StridedLayout */                                            \
  X(element_types)     /* a dict: dtype -> a tuple (DLPack's type, itemsize, dtype or ...), of those seen before */    \
  X(element_type)      /* (dtype, itemsize) -> the same, of all others */                                              \
  X(dtype_of)          /* (code, bits, lanes) -> the dtype of DLPack's type */                                         \
  X(dlpack_type_of)    /* (dtype) -> DLPack's type: code | bits << 8 | lanes << 16 */                                  \
  X(interface_of)      /* (class, object, stream, name) -> a view of what has no DLPack */                             \
  X(buffer_device)     /* (buffer) -> DLPack's device */                                                               \
  X(allocate_tensor)   /* (device type, ordinal, bytes) -> a Buffer */                                                 \
  X(default_stream)    /* () -> the address of the default stream */

typedef struct faces {
#define FACE(name) PyObject *name;
  FACES(FACE)
#undef FACE
} faces;

typedef struct runtime runtime;

/* Names of what view_from.c asks arrays for, interned, and the version of DLPack that it asks for. */
typedef struct view_names {
  PyObject *dlpack, *dlpack_device, *ptr, *device_id, *shape, *strides, *dtype, *stream, *max_version;
  PyObject *version;
} view_names;

/* One graph node that has a face: the face is not kept alive, it leaves the table when it dies. */
typedef struct node_slot {
  const void *box; /* the key; NULL: a free slot */
  PyObject *face;
} node_slot;

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
  PyTypeObject *view_type;
  PyObject *ptr_name, *value_name, *interface_name, *data_name; /* of attributes, interned */
  view_names names;                                             /* likewise, of view_from.c */
  PyObject *dlpack_types;                                       /* what faces.dlpack_type_of said of dtypes */
} state;

PyObject *set_face(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char set_face_doc[];

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
PyObject *open_handle_capsule(PyObject *module, PyObject *capsule);
extern const char open_handle_capsule_doc[];

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

PyObject *own(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *disown(PyObject *module, PyObject *address);
int add_owner_functions(PyObject *module);
extern const char own_doc[], disown_doc[];

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

/* ---- event.c, stream.c, order.c, buffer.c ---- */

int add_event_type(PyObject *module, state *st);
PyObject *create_event(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char create_event_doc[];

int add_stream_type(PyObject *module, state *st);
PyObject *create_stream(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *set_current(PyObject *module, PyObject *context);
PyObject *current_device(PyObject *module, PyObject *nothing);
extern const char create_stream_doc[], set_current_doc[], current_device_doc[];

/* Makes a stream wait for another, as order_streams_doc says. Without the GIL. */
int order_raw_streams(uintptr_t consumer, uintptr_t producer, int device);
PyObject *order_streams(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char order_streams_doc[];

/* A new reference to the Stream that an argument is or stands for; NULL with an exception. Runs Python code. */
PyObject *stream_accept(const state *st, PyObject *argument);

typedef struct buffer {
  handle base;
  Py_ssize_t size;
  PyObject *mr, *owner; /* NULL: none */
  PyObject *known;      /* what is known of the memory, once it was asked for */
  int device;           /* of the memory: arrays.c */
} buffer;

int add_buffer_type(PyObject *module, state *st);
PyObject *allocate(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *import_memory(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *copy(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *copy_batch(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *copy_part(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *fill(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char allocate_doc[], import_memory_doc[], copy_doc[], copy_batch_doc[], copy_part_doc[], fill_doc[];

/* ---- types.c ---- */

/* Makes room for so many types, a power of two; -1 with an exception. */
int types_reserve(state *st, size_t slots);
/* Stores a new entry or replaces a type's old one. Takes over the references of `item`, also on failure. */
int types_store(state *st, type_entry item);
/* Gives back the references of an entry that is in no table any more. Runs Python code. */
void types_drop(type_entry *entry);
/* The slot of a type, or the free slot where it belongs. */
type_entry *types_find(const state *st, const void *type);

PyObject *types_register(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *types_registered(PyObject *module, PyObject *type);
PyObject *types_is_exchange_api(PyObject *module, PyObject *object);
PyObject *types_forget(PyObject *module, PyObject *weak);
PyObject *types_set_resolver(PyObject *module, PyObject *resolver);
extern const char register_doc[], registered_doc[], is_exchange_api_doc[], set_resolver_doc[];

/* ---- owners.c: what packed arguments point into ---- */

/* How an object is kept: by a reference, or, for one call, by the caller; a face is then in use. */
typedef enum hold { HELD, BORROWED, IN_USE } hold;

/* One argument's: a box, a Python object, or both. */
typedef struct owned {
  Py_ssize_t index; /* of the argument */
  void *box;        /* a reference; of a face that is in use, the face's */
  PyObject *object; /* of a face, the face: it tells whether it was closed */
  hold how;
} owned;

enum { OWNERS_INLINE = 16 };

/* Zero-initialise, or owners_init(); grows on the heap beyond the room inside. Movable as long as `items` is not read.
 */
typedef struct owners {
  Py_ssize_t count, room; /* room: of the heap's array; 0 while the one inside is used */
  bool for_call;          /* for one call, whose caller keeps the arguments themselves alive */
  owned *heap;
  owned inside[OWNERS_INLINE];
} owners;

static inline void owners_init(owners *self, bool for_call) {
  self->count = self->room = 0;
  self->for_call = for_call;
  self->heap = NULL;
}
static inline owned *owners_items(owners *self) { return self->heap ? self->heap : self->inside; }

/* Adds a face that holds memory, and stores the address at this moment; -1 with an exception. */
int owners_add_memory(owners *self, Py_ssize_t index, PyObject *face, uint64_t *address);
/* Takes over both references, also on failure: -1 with an exception. */
int owners_add(owners *self, Py_ssize_t index, void *box, PyObject *object);
/* Adds an argument itself: for one call the caller keeps it alive; -1 with an exception. */
int owners_add_argument(owners *self, Py_ssize_t index, PyObject *object);
/* Gives all back, and is empty then. Runs Python code, and lets go of the GIL where there are boxes. */
void owners_release(owners *self);
/* Makes a bundle that keeps what is kept here, NULL where that is nothing; -1 with an exception. */
int owners_bundle(const state *st, owners *self, cch_bundle **out);
/* Whether there is nothing to keep, and nothing to release but memory for more items. */
bool owners_own_nothing(owners *self);

/* ---- pack.c ---- */

/* What a parameter takes, as far as that is known. Numbers are those of _code/param_kinds.py. */
typedef enum param_kind {
  PARAM_UNKNOWN,
  PARAM_INT,
  PARAM_UINT,
  PARAM_BITS, /* an integer whose sign is not known */
  PARAM_BOOL,
  PARAM_FLOAT,
  PARAM_BFLOAT,
  PARAM_POINTER,
  PARAM_ADDRESS, /* a pointer, or an integer of 8 bytes */
  PARAM_BYTES,
  PARAM_KIND_COUNT
} param_kind;

/* One parameter of a kernel. */
typedef struct param {
  uint32_t offset, size;
  uint32_t kind; /* param_kind */
} param;

/* The parameters of a kernel: an array of param, in a bytes object. */
typedef struct layout {
  const char *data;
  Py_ssize_t count;
  uint64_t total; /* end of the last parameter */
  bool addresses; /* all are of 8 bytes, one behind the other, and take any address */
} layout;

static inline param param_at(const layout *params, Py_ssize_t index) {
  param p;
  memcpy(&p, params->data + (size_t)index * sizeof p, sizeof p);
  return p;
}

/* Raises an exception whose format has %U for the name of the value's type, and then two sizes; returns -1. */
int raise_about(PyObject *exception, const char *format, PyObject *value, Py_ssize_t given, uint32_t size);

/* Puts an argument's number in front of the message of the exception that is set. */
void name_argument(const state *st, Py_ssize_t index);

/* pack(layout, args), a function of the module. */
PyObject *pack(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char pack_doc[];

/* Checks a bytes object, which must outlive the layout. Not for every launch. -1 with an exception. */
int read_layout(PyObject *object, layout *out);

/* The arguments of a call: a C array, or, where `array` is NULL, a tuple (the limited API hides a tuple's array) from
 * `first` on. */
typedef struct values {
  PyObject *const *array;
  PyObject *tuple;
  Py_ssize_t count, first;
} values;

static inline PyObject *value_at(const values *given, Py_ssize_t index) {
  return given->array ? given->array[index] : PyTuple_GetItem(given->tuple, given->first + index);
}

/*
 * Packs all values into `out`, which has room for the whole block, and adds to `keep` what they point into; -1 with an
 * exception, `keep` having what was added so far. `device` is the ordinal of the launch's device, that
 * memory is checked for; -1: it is not. Runs Python code.
 */
int pack_values(const state *st, const layout *params, values given, unsigned char *out, owners *keep, int device);

/* Packs one value over its parameter in `out`, as pack_values() does. */
int pack_parameter(const state *st, const layout *params, Py_ssize_t index, PyObject *value, unsigned char *out,
                   owners *keep, int device);

/* ---- arrays.c ---- */

/* Makes of the device of a launch, or -1 for a default stream's, what pack_values() takes: -1 where there is only one
   device, and nothing to check. -1 with an exception when a default stream's cannot be had. */
int device_to_check(const state *st, int *device);

/* ---- launch.c ---- */

typedef struct kernel {
  handle base;
  PyObject *name;         /* NULL: not known */
  PyObject *layout_bytes; /* what params reads; NULL until the driver was asked */
  layout params;
  /* The dynamic shared memory in bytes that was seen to, on which device (Kernel._allow_shared). */
  unsigned shared_allowed;
  int shared_device;
} kernel;

typedef struct config {
  PyObject_HEAD cch_launch_config config;
} config;

/* What a launch needs besides its arguments: references of our own, and a copy. */
typedef struct target {
  cch_stream *stream;
  cch_kernel *kernel;
  cch_launch_config config;
} target;

int add_launch_types(PyObject *module, state *st);
/* Takes a stream, a configuration and a kernel that has its layout, in this order; -1 with an exception. */
int target_take(const state *st, PyObject *const *given, target *out);
/* NULL with an exception: explains why a launch was refused. */
PyObject *explain_launch(const state *st, int status, PyObject *config, PyObject *kernel);
typedef struct launch_arguments {
  cch_stream *stream;
  const cch_launch_config *config;
  cch_kernel *kernel;
  const void *block;
  size_t size;
} launch_arguments;
/* Launches without the GIL, and stores the status. Where the stream is captured, by whomever, the graph keeps the
 * kernel and `used`. All Python code of the arguments has run when this is called: it can have begun a capture. -1 with
 * an exception. */
int launch_keeping(const state *st, const launch_arguments *given, owners *used, int *status);
/* Ordinal of the device that a stream's work runs on; -1 for a default stream, which is the current device's. */
int device_of_stream(cch_stream *stream);
void target_drop(target *t);

PyObject *launch(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *launch_now(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char launch_doc[], launch_now_doc[];

/* ---- prepared.c ---- */

int add_prepared_type(PyObject *module, state *st);

/* ---- graph.c ---- */

/*
 * CUDA lets one thread at a time work on a hierarchy of graphs, and calls let go of the GIL: who changes a graph, or
 * lists what is in it, has its lock. The lock is taken last, and given back before any Python code runs.
 */
typedef struct graph_lock {
  uint32_t stripes; /* a bit for each */
} graph_lock;

/* `other`: a second graph, or NULL. Lets go of the GIL where it must wait. */
graph_lock graph_lock_take(const cch_graph *graph, const cch_graph *other);
/* Likewise of any number of graphs, which are added to a lock that is all zero, and then taken together. */
void graph_lock_add(graph_lock *lock, const cch_graph *graph);
void graph_lock_take_added(graph_lock *lock);
void graph_lock_give(graph_lock lock);

typedef struct condition {
  PyObject_HEAD unsigned long long handle; /* CUgraphConditionalHandle */
  PyObject *graph;                         /* a face of its own, of the graph that it is of */
  bool used;                               /* a conditional node had it, and can have it still */
  bool pending;                            /* a node that is being added has it */
} condition;

typedef struct exec {
  handle base;
  pthread_mutex_t lock; /* launches and updates come one after the other */
  bool has_lock;        /* from the first one on */
} exec;

/* The box of a Graph, for a call that nobody else makes at the same time; -1 with an exception. No Python code runs
 * before exec_done(). */
int exec_use(PyObject *face, cch_graph_exec **out);
void exec_done(PyObject *face);

PyObject *locked_call(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *update_exec(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *clone_graph(PyObject *module, PyObject *graph);
extern const char locked_call_doc[], update_exec_doc[], clone_graph_doc[];

int add_graph_types(PyObject *module, state *st);

/* ---- node.c ---- */

/* Places in faces.node_classes, after those that are CUDA's types. */
enum { CLASS_IF = 14, CLASS_IF_ELSE, CLASS_WHILE, CLASS_SWITCH, CLASS_OTHER, CLASS_COUNT };

int add_node_type(PyObject *module, state *st);

/* The face of a node: the one that it has, or a new one. Takes over a reference to the box, also on failure: NULL with
 * an exception. `class` is a place in faces.node_classes; -1: as the box says. */
PyObject *node_face(state *st, cch_graph_node *box, int class);

/* The box of a node that exists, for as long as the caller keeps the face; NULL with an exception. */
cch_graph_node *node_box(const state *st, PyObject *face, const char *name);

/* The box of a definition whose graph exists, in use until handle_done(); NULL with an exception. `message` is for
 * what is no definition. */
cch_graph *graph_use(const state *st, PyObject *face, const char *message);

PyObject *graph_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *graph_edges(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *neighbours(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *change_edges(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *adopt_node(PyObject *module, PyObject *address);
extern const char adopt_node_doc[], change_edges_doc[], graph_nodes_doc[], graph_edges_doc[], neighbours_doc[];

/* ---- node_params.c ---- */

/* The parameters of one node as the library takes them, with what they use. Zero-initialise; stays where it is. */
typedef struct node_params {
  int type;  /* cch_node_type */
  int class; /* of the node that they make: a place in faces.node_classes */
  union {
    cch_kernel_node kernel;
    cch_memcpy_node memcpy;
    cch_memset_node memset;
    cch_host_node host;
    cch_child_node child;
    cch_event_node event;
    cch_alloc_node alloc;
    cch_free_node free;
    cch_conditional_node conditional;
  } of;
  cch_bundle *bundle;       /* what they point into; NULL: nothing */
  cch_launch_config config; /* of a kernel */
  PyObject *used;           /* a face in use: of the kernel, the event or the child graph */
  PyObject *condition;
  bool took_condition;
  void *heap; /* the argument block, or the peers */
} node_params;

/* A kind of node: the method that adds it. */
typedef struct node_kind node_kind;

/* The kind of a name; NULL with an exception. */
const node_kind *node_kind_find(PyObject *name);
const char *node_kind_name(const node_kind *kind);

/*
 * Reads the arguments of a method; -1 with an exception. `scratch` is room for an argument block of SCRATCH_SIZE, or
 * NULL. Runs Python code. Whatever becomes of it, node_params_drop() follows.
 */
int node_params_read(state *st, const node_kind *kind, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords,
                     void *scratch, node_params *out);
/* The same, without keywords, for arguments in a tuple, from `first` on. */
int node_params_read_tuple(state *st, const node_kind *kind, PyObject *tuple, Py_ssize_t first, void *scratch,
                           node_params *out);
/* The same for an array; a kernel's own arguments are a tuple in it, the last of three. */
int node_params_read_given(state *st, const node_kind *kind, PyObject *const *arguments, Py_ssize_t count,
                           void *scratch, node_params *out);
/* Packs a kernel's arguments into parameters that have all else; -1 with an exception. */
int node_params_read_kernel(state *st, PyObject *config, PyObject *kernel, values given, void *scratch,
                            node_params *out);
/* Whether a node with these parameters may be in a graph; -1 with an exception. */
int node_params_check(const state *st, const node_params *params, const cch_graph *graph);
/* What goes to the library as `params`. */
const void *node_params_of(const node_params *params);
/* The graph that is copied into the node; NULL: none. */
const cch_graph *node_params_child(const node_params *params);
/* A node with the parameters is being added: its condition is no other's now. */
void node_params_done(node_params *params);
/* It was not, after all. */
void node_params_undone(node_params *params);
void node_params_drop(node_params *params);

/* ---- node_add.c: methods of graphs and nodes, and where else parameters go ---- */

extern PyMethodDef graph_adders[], node_adders[];
PyObject *capture_add(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *set_node(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *set_kernel_node(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *alloc_address(PyObject *module, PyObject *node);
PyObject *exec_enabled(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *read_node(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *set_exec_node(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char capture_add_doc[], set_node_doc[], set_kernel_node_doc[], set_exec_node_doc[];
extern const char alloc_address_doc[], exec_enabled_doc[], read_node_doc[];

/* Raises for a node that the library refused just now; returns NULL. `place`: in a batch, or one of those below. */
enum { NO_PLACE = -1, PLACE_IN_EXEC = -2 };
PyObject *raise_node_failed(const state *st, int status, const node_kind *kind, Py_ssize_t place);
/* Likewise for something else that was to be done with a node. */
PyObject *raise_failed(const state *st, int status, const char *what, Py_ssize_t place);

/* Puts each item of a list there once: nodes to wait for, which the driver takes no node twice of, in any order.
 * Returns how many are left. */
size_t drop_doubles(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));
int compare_boxes(const void *a, const void *b);

/* ---- node_batch.c ---- */

PyObject *add_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char add_nodes_doc[];

/* ---- callback.c ---- */

/* A cch_host_fn whose data is an owner of a Python function. */
void call_python(void *data);
PyObject *host_function_of(PyObject *module, PyObject *node);
PyObject *end_callbacks(PyObject *module, PyObject *nothing);
extern const char host_function_of_doc[], end_callbacks_doc[];

/* ---- capture.c ---- */

/* A graph builder: what stands for its stream. */
typedef struct builder {
  PyObject_HEAD PyObject *stream; /* NULL or None: none, or no more */
} builder;

int add_builder_type(PyObject *module, state *st);

/* The stream that an argument stands for, borrowed: the builder's, where it is an open one; else itself. */
static inline PyObject *stream_or_builder(const state *st, PyObject *argument) {
  if (!PyType_IsSubtype(Py_TYPE(argument), st->builder_type))
    return argument;
  PyObject *stream = ((builder *)argument)->stream;
  return stream != NULL && stream != Py_None ? stream : argument;
}

/*
 * Has the graph that a stream is being captured into keep a box, and what is in `used`: called without the GIL, which
 * is taken back to `*thread` for as long as it is needed. Returns the status of the library, or -1 with an exception,
 * whose
 * `*raised` is set.
 */
int capture_keep(const state *st, cch_stream *stream, void *box, owners *used, PyThreadState **thread, bool *raised);

/* ---- dlpack.c ---- */

PyObject *make_capsule(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *read_capsule(PyObject *module, PyObject *capsule);
/* DLPack's codes of devices, as constants of the module. */
int add_dlpack_constants(PyObject *module);
extern const char make_capsule_doc[], read_capsule_doc[];

/*
 * A new tensor of memory that the box, or the owner, keeps: a dl_managed_tensor_versioned or a dl_managed_tensor. Takes
 * over a reference to the box (may be NULL) and the owner (likewise), also on failure: NULL with an exception.
 */
void *dlpack_lend(const dl_tensor *tensor, cch_deviceptr *box, owner *keeper, bool versioned, uint64_t flags);
/* A capsule for it, which is taken over, also on failure: NULL with an exception. */
PyObject *dlpack_capsule(void *managed, bool versioned);
/* Takes the tensor out of a capsule; NULL with an exception. */
void *dlpack_take(PyObject *capsule, bool *versioned);
/* Gives a tensor back: calls its deleter. Keeps the exception that is set. NULL does nothing. */
void dlpack_delete(void *managed, bool versioned);
/* The tensor in it, and its flags; NULL with an exception for a layout that is not known. */
const dl_tensor *dlpack_tensor(void *managed, bool versioned, uint64_t *flags);

/* ---- view.c ---- */

enum { VIEW_MAX_DIMENSIONS = 64, VIEW_INLINE = 4 };

typedef struct view {
  PyObject_HEAD const state *st;
  dl_tensor tensor; /* byte_offset is 0; strides are never NULL */
  int64_t itemsize; /* bytes of an element */
  bool explicit;    /* the strides were given */
  bool read_only;
  bool versioned;     /* of the next */
  void *managed;      /* a tensor of the exporting object, to give back; NULL: none */
  cch_deviceptr *box; /* a reference to memory of a Buffer; NULL: none */
  PyObject *keeper;   /* the view that has either; NULL: none */
  PyObject *exporting;
  PyObject *dtype, *layout; /* made when they are asked for; NULL: not yet */
  int64_t inside[2 * VIEW_INLINE];
} view;

/* Whether the elements are smaller than a byte, and have one each. */
static inline bool view_is_padded(const view *self) {
  return (unsigned)self->tensor.dtype.bits * self->tensor.dtype.lanes % 8 != 0;
}

int add_view_type(PyObject *module, state *st);
void drop_view_names(state *st);
/* A view with room for so many dimensions, and nothing in it; NULL with an exception. */
view *view_new(const state *st, PyTypeObject *type, int32_t ndim);
/* The type that is packed as code | bits << 8 | lanes << 16. */
dl_data_type view_type(unsigned long packed);
/* Sets the size of elements from the type; -1 with an exception. */
int view_set_itemsize(view *self, uint64_t flags);
/* Fills in shape and strides from tuples; strides can be None, and are in units of so many bytes. Where `size` is not
 * negative, no element must lie before the address, or beyond so many bytes. -1 with an exception. */
int view_set_dims(view *self, PyObject *shape, PyObject *strides, int64_t unit, int64_t size);
/* Takes over what keeps the memory of a buffer or another view; -1 with an exception. */
int view_set_keeper(view *self, PyObject *keeper);
/* Refuse memory that no kernel could use as what it is said to be; a device that is not CUDA's; what is no class of
 * views. -1 with an exception. */
int view_check_alignment(const view *self);
int view_check_device(long long type);
int view_check_class(const state *st, const char *function, PyObject *cls);
/* A view of a tensor, which is taken over, also on failure: NULL with an exception. */
PyObject *view_of_managed(const state *st, PyTypeObject *type, void *managed, bool versioned, PyObject *exporting);
/* The tensor of a view or a buffer, lent; NULL with an exception. */
void *view_lend(const state *st, PyObject *object, bool versioned);
PyObject *view_make(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *view_capsule(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char view_make_doc[], view_capsule_doc[];

/* ---- view_from.c ---- */

PyObject *view_from_buffer(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *view_from_dlpack(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *view_from_any(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *work_stream(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char view_from_buffer_doc[], view_from_dlpack_doc[], view_from_any_doc[], work_stream_doc[];

/* ---- exchange.c ---- */

/* DLPack's device of the memory of a Buffer; -1 with an exception. */
int buffer_device(const state *st, PyObject *buffer, dl_device *out);

/* The capsule of our exchange API, as a constant of the module. */
int add_exchange_api(PyObject *module);

#endif
