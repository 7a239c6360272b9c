/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_LAUNCH_H
#define CUDACORE_NATIVE_LAUNCH_H

/* Launches, the packing of their arguments, and what these point into. */

#include "base/types.h"
#include "stream/stream.h"

enum {
  BLOCK_MAX = 65536,  /* bytes of the largest argument block; CUDA's own limit is below */
  SCRATCH_SIZE = 4096 /* blocks up to this size are packed on the stack (kernels of CUDA 12 end there) */
};

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

/* What a parameter of a kind takes. */
enum {
  TAKES_BYTES = 1,   /* the bytes of a value of its size, as they are */
  TAKES_INTEGER = 2, /* an integer, by its value */
  TAKES_MEMORY = 4,  /* the address of a buffer or an array, where it has 8 bytes */
  TAKES_NULL = 8,    /* None, likewise */
  IS_POINTER = 16    /* is or may be a pointer: a bool, a float or an array on the host is a mistake */
};

/* The kinds of parameters, as far as they are known: name in Python (ParamKind), in messages, and what they take. An
 * ADDRESS is a pointer, or an integer of 8 bytes; BITS are an integer whose sign is not known. */
#define PARAM_KINDS(X)                                                                                                 \
  X(UNKNOWN, "unknown", "of unknown kind", TAKES_BYTES | TAKES_MEMORY | TAKES_NULL)                                    \
  X(INT, "int", "a signed integer", TAKES_INTEGER | TAKES_MEMORY)                                                      \
  X(UINT, "uint", "an unsigned integer", TAKES_INTEGER | TAKES_MEMORY)                                                 \
  X(BITS, "bits", "an integer", TAKES_INTEGER | TAKES_MEMORY)                                                          \
  X(BOOL, "bool", "a bool", 0)                                                                                         \
  X(FLOAT, "float", "a floating-point number", 0)                                                                      \
  X(BFLOAT, "bfloat", "a bfloat16", 0)                                                                                 \
  X(POINTER, "pointer", "a pointer", TAKES_MEMORY | TAKES_NULL | IS_POINTER)                                           \
  X(ADDRESS, "address", "a pointer or an integer", TAKES_INTEGER | TAKES_MEMORY | TAKES_NULL | IS_POINTER)             \
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

/* Puts an argument's number in front of the message of the exception that is set. */
void name_argument(const state *st, Py_ssize_t index);

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

/* ---- capture.c ---- */

/*
 * Has the graph that a stream is being captured into keep a box, and what is in `used`: called without the GIL, which
 * is taken back to `*thread` for as long as it is needed. Returns the status of the library, or -1 with an exception,
 * whose
 * `*raised` is set.
 */
int capture_keep(const state *st, cch_stream *stream, void *box, owners *used, PyThreadState **thread, bool *raised);

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
int add_pack_functions(PyObject *module);
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

/* ---- prepared.c ---- */

int add_prepared_type(PyObject *module, state *st);

#endif
