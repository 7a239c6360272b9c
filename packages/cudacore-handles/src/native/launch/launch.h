/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_LAUNCH_H
#define CUDACORE_NATIVE_LAUNCH_H

/* Launches, the packing of arguments, and the memory that arguments point into. */

#include "base/types.h"
#include "stream/stream.h"

enum {
  BLOCK_MAX = 65536,  /* bytes of the largest argument block; CUDA's own limit is smaller */
  SCRATCH_SIZE = 4096 /* bytes of an argument block on the stack; larger blocks are allocated */
};

/* ---- owners.c: what packed arguments point into ---- */

/* How an object is kept: by a reference; by the caller, for one call; or as a face that is in use. */
typedef enum hold { HELD, BORROWED, IN_USE } hold;

/* The owner of one argument: a box, a Python object, or both. */
typedef struct owned {
  void *box;        /* a reference to a box; the box of a face in use; or the box of a borrowed object's memory */
  PyObject *object; /* the Python object, if any; for a face that is in use, the face, to check whether it was closed */
  int index;        /* index of the argument */
  hold how;
} owned;

enum { OWNERS_INLINE = 32 };

/* The owners of packed arguments. The items move to the heap when the array `inside` is full. */
typedef struct owners {
  Py_ssize_t count, room;
  bool for_call; /* the owners are for one call, whose caller keeps the arguments themselves alive */
  bool releases; /* whether an item has something to release: not all of them are BORROWED */
  owned *items;
  owned inside[OWNERS_INLINE];
} owners;

static inline void owners_init(owners *self, bool for_call) {
  self->count = 0;
  self->room = OWNERS_INLINE;
  self->for_call = for_call;
  self->releases = false;
  self->items = self->inside;
}

/* Adds an item when there is no room left. */
int owners_grow(owners *self, owned item);
/* Takes over what an item refers to, even on failure: then returns -1 with an exception. */
static inline int owners_add(owners *self, owned item) {
  if (self->count == self->room)
    return owners_grow(self, item);
  self->items[self->count++] = item;
  self->releases |= item.how != BORROWED;
  return 0;
}
/* Adds a face that holds memory, and stores its current address. Returns -1 with an exception on failure. */
static inline int owners_add_memory(owners *self, int index, PyObject *face, uint64_t *address) {
  void *box = self->for_call ? handle_use(face) : handle_hold(face);
  if (box == NULL)
    return -1;
  *address = ((handle *)face)->raw;
  if (self->for_call)
    return owners_add(self, (owned){box, face, index, IN_USE});
  return owners_add(self, (owned){box, Py_NewRef(face), index, HELD});
}
/*
 * Adds an argument object and the box of its memory, or NULL. For one call, the caller keeps the object alive.
 * Otherwise, the memory is enough, if there is a box. Returns -1 with an exception on failure.
 */
static inline int owners_add_argument(owners *self, int index, void *box, PyObject *object) {
  if (self->for_call)
    return owners_add(self, (owned){box, object, index, BORROWED});
  return owners_add(self, (owned){cch_ref(box), box == NULL ? Py_NewRef(object) : NULL, index, HELD});
}
/* Releases everything. Nothing else may use the list. Runs Python code, and releases the GIL if there are boxes. */
void owners_unref(owners *self);
/* Makes a bundle of the owners; *out is NULL if there are none. Returns -1 with an exception on failure. */
int owners_bundle(const state *st, owners *self, cch_bundle **out);
/* Returns whether nothing is kept, so that releasing would free at most the array. */
bool owners_own_nothing(owners *self);

/* ---- pack.c ---- */

/* The values that a parameter of a kind accepts. */
enum {
  TAKES_BYTES = 1,  /* the bytes of a value that has the size of the parameter, unchanged */
  TAKES_MEMORY = 2, /* the address of a buffer or an array, if the parameter has 8 bytes */
  TAKES_NULL = 4,   /* None, if the parameter has 8 bytes */
  IS_POINTER = 8    /* is or may be a pointer: bools, floats and arrays on the host are refused as mistakes */
};

/*
 * The kinds of parameters: name in Python (ParamKind), name in messages, and accepted values. An ADDRESS is a pointer,
 * or an integer of 8 bytes; BITS are an integer whose sign is not known.
 */
#define PARAM_KINDS(X)                                                                                                 \
  X(UNKNOWN, "unknown", "of unknown kind", TAKES_BYTES | TAKES_MEMORY | TAKES_NULL)                                    \
  X(INT, "int", "a signed integer", TAKES_MEMORY)                                                                      \
  X(UINT, "uint", "an unsigned integer", TAKES_MEMORY)                                                                 \
  X(BITS, "bits", "an integer", TAKES_MEMORY)                                                                          \
  X(BOOL, "bool", "a bool", 0)                                                                                         \
  X(FLOAT, "float", "a floating-point number", 0)                                                                      \
  X(BFLOAT, "bfloat", "a bfloat16", 0)                                                                                 \
  X(POINTER, "pointer", "a pointer", TAKES_MEMORY | TAKES_NULL | IS_POINTER)                                           \
  X(ADDRESS, "address", "a pointer or an integer", TAKES_MEMORY | TAKES_NULL | IS_POINTER)                             \
  X(BYTES, "bytes", "a struct", TAKES_BYTES | TAKES_MEMORY | TAKES_NULL)

typedef enum param_kind {
#define PARAM_KIND(KIND, name, text, takes) PARAM_##KIND,
  PARAM_KINDS(PARAM_KIND)
#undef PARAM_KIND
      PARAM_KIND_COUNT
} param_kind;

/* One parameter of a kernel. */
typedef struct param {
  uint32_t offset, size;
  uint16_t kind;    /* a param_kind */
  uint16_t element; /* the type that a pointer points to, as in elements.c; 0: any type */
} param;

/* The parameters of a kernel: an array of param, in a bytes object. */
typedef struct layout {
  const char *data;
  Py_ssize_t count;
  uint64_t total;       /* the end of the last parameter */
  Py_ssize_t addresses; /* how many parameters, from the first one on, have 8 bytes and accept any address */
} layout;

static inline param param_at(const layout *params, Py_ssize_t index) {
  param p;
  memcpy(&p, params->data + (size_t)index * sizeof p, sizeof p);
  return p;
}

/* Prepends the number of an argument to the message of the current exception. */
void name_argument(const state *st, Py_ssize_t index);

/*
 * Reads a layout from a bytes object, which must outlive it, and checks the layout. This is too slow to be done for
 * each launch. Returns -1 with an exception on failure.
 */
int read_layout(PyObject *object, layout *out);

/*
 * The arguments of a call: a C array; or, if `array` is NULL, the items of a tuple from `first` on (the limited API
 * hides the array of a tuple).
 */
typedef struct values {
  PyObject *const *array;
  PyObject *tuple;
  Py_ssize_t count, first;
} values;

static inline PyObject *value_at(const values *given, Py_ssize_t index) {
  return given->array ? given->array[index] : PyTuple_GetItem(given->tuple, given->first + index);
}

/* Returns the arguments from the one with an index on. */
static inline values values_from(values given, Py_ssize_t index) {
  return (values){given.array != NULL ? given.array + index : NULL, given.tuple, given.count - index,
                  given.first + index};
}

/*
 * Packs all values into `out`, which has room for the whole block, and adds the owners of the memory that they point
 * into to `keep`. -1 with an exception; `keep` then has the owners that were added before. `device` is the ordinal of
 * the launch's device, for which memory is checked, or UNCHECKED_DEVICE. Runs Python code.
 */
int pack_values(const state *st, const layout *params, values given, unsigned char *out, owners *keep, int device);

/* Packs one value as pack_values() does, into the place of its parameter in the block `out`. */
int pack_parameter(const state *st, const layout *params, Py_ssize_t index, PyObject *value, unsigned char *out,
                   owners *keep, int device);

/* ---- arrays.c ---- */

/* Values that are used instead of the ordinal of a device. */
enum {
  CURRENT_DEVICE = -1,   /* of a default stream: the device of the current context */
  UNCHECKED_DEVICE = -2, /* of a launch: the devices of memory are not checked */
  ANY_DEVICE = -3,       /* of memory that all devices can access, such as host memory */
  UNKNOWN_DEVICE = -4,   /* of memory whose device is not known: the driver is queried whether access is possible */
};

/*
 * Finds the device for which pack_values() checks memory: that of the stream, or UNCHECKED_DEVICE if there is only one
 * device. For a default stream and for NULL, it is the current device. Returns -1 with an exception if that cannot be
 * determined.
 */
int find_device_for_memory_checks(const state *st, const cch_stream *stream, int *out);

/* ---- elements.c ---- */

extern PyMethodDef element_functions[];

/*
 * If a stream is being captured, makes the graph of the capture keep a box and the contents of `used`. Call it without
 * the GIL; it takes the GIL back to `*thread` while needed. Returns the library's status, or -1 with an exception and
 * `*raised` set.
 */
int capture_keep(const state *st, cch_stream *stream, void *box, owners *used, PyThreadState **thread, bool *raised);

/* Returns room for a block: on the caller's stack if it fits; NULL with an exception on failure. */
static inline unsigned char *scratch_for(const layout *params, unsigned char *stack) {
  unsigned char *block = params->total <= SCRATCH_SIZE ? stack : PyMem_Malloc((size_t)params->total);
  if (block == NULL)
    PyErr_NoMemory();
  return block;
}

/* ---- launch.c ---- */

enum { SHARED_DEVICES = 8 };

typedef struct kernel {
  handle base;
  PyObject *name;         /* the kernel's name; NULL if it is not known */
  PyObject *constants;    /* a dict of attributes that never change; NULL if none is known */
  PyObject *layout_bytes; /* the bytes that `params` reads; set once, with `laid_out` */
  layout params;
  shared_word laid_out; /* whether the layout is known; it is set last, and never cleared */
  /* Of some devices, the dynamic shared memory that is enabled, and 1 + the device in the upper half */
  shared_word shared[SHARED_DEVICES];
#ifdef Py_GIL_DISABLED
  shared_word swept; /* whether the launches that were in progress when the kernel was closed have ended */
  struct {
    char padding[CACHE_LINE - sizeof(shared_word)];
    shared_word launches; /* in progress, of the threads of one lane */
  } lanes[LANES];
#endif
} kernel;

static inline bool kernel_has_layout(const kernel *self) { return shared_get(&self->laid_out) != 0; }
/* Returns whether this much dynamic shared memory was enabled on a device. */
static inline bool kernel_allows(const kernel *self, unsigned bytes, int device) {
  const uint64_t known = shared_get(&self->shared[(unsigned)device % SHARED_DEVICES]);
  return (uint32_t)known >= bytes && known >> 32 == (uint64_t)device + 1;
}

extern PyMethodDef launch_functions[];
int add_kernel_types(PyObject *module, state *st);
#ifdef Py_GIL_DISABLED
PyObject *kernel_close(PyObject *face, PyObject *nothing);
#endif
/* Releases the types of dtypes that elements.c has remembered. */
void clear_known_dtypes(launch_state *st);
int add_pack_functions(PyObject *module);
typedef struct launch_arguments {
  cch_stream *stream;
  cch_kernel *kernel;
  PyObject *settings, *face; /* the faces of the configuration and the kernel */
  const void *block;
  size_t size;
} launch_arguments;
/*
 * Launches without the GIL. If the stream is being captured, the graph keeps the kernel and `used`. Call it after all
 * Python code of the arguments has run, because that code can begin a capture. Returns None; NULL with an exception on
 * failure.
 */
PyObject *launch_packed(const state *st, const launch_arguments *given, owners *used);
/* Ordinal of the device that runs a stream's work; CURRENT_DEVICE for a default stream and for NULL. */
int device_of_stream(const cch_stream *stream);

/* ---- config.c ---- */

typedef struct config {
  PyObject_HEAD cch_launch_config config;
  PyObject *weak; /* the list of weak references */
} config;

int add_config_type(PyObject *module, state *st);
/* Returns a LaunchConfig of a kernel node, as the library has read it; NULL with an exception on failure. */
PyObject *config_of_node(const state *st, const cch_launch_config *read);

/* ---- prepared.c ---- */

int add_prepared_type(PyObject *module, state *st);

#endif
