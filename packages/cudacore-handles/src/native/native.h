/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_H
#define CUDACORE_NATIVE_H

/*
 * The extension module cudacore_handles._native: pack.c turns Python values into a kernel's argument block, types.c
 * knows how the values of a type are packed, launch.c gives blocks to the handle library, module.c is the module.
 *
 * Launching is the hottest code of the package and packs every argument, so it is the one place that talks to
 * CPython directly. Limited API of Python 3.10: one binary for every later version.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack.h"

#include <cudacore/cudacore.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  BLOCK_MAX = 65536,  /* bytes of the largest argument block; CUDA's own limit is below */
  SCRATCH_SIZE = 4096 /* blocks up to this size are packed on the stack (kernels of CUDA 12 end there) */
};

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
 * One registered type. The registry does not keep types alive: `weak` is a weak reference whose callback drops the
 * entry before the type's address can be reused. Built-in types are immortal and have none.
 */
typedef struct type_entry {
  const void *type; /* the key, borrowed; NULL: a free slot */
  PyObject *weak;
  PyObject *given;                          /* a converter, a capsule with an exchange API, or paths */
  dl_tensor_from_object tensor_from_object; /* of KIND_EXCHANGE */
  kind kind;
  uint32_t itemsize; /* what the parameter must have; 0: any size that suits the kind */
  bool has_value;
} type_entry;

/* What launch.c is told about the Python faces, by set_faces(). */
typedef struct faces {
  PyObject *stream, *config, *kernel; /* the classes */
  PyObject *launch_checked;           /* launches what the fast path cannot, or says what is wrong with it */
  PyObject *explain;                  /* raises for a launch that was refused */
} faces;

typedef struct state {
  type_entry *table; /* how types are packed: open addressing, linear probing, at most half full */
  size_t mask;       /* slots - 1 */
  size_t used;
  PyObject *resolver;
  PyObject *forget; /* the module's _forget, the callback of the weak references */
  /* What arrays.c leaves to Python, see set_array_functions(). */
  PyObject *read_array, *check_device;
  faces faces;
  /* Names of attributes, interned. */
  PyObject *ptr_name, *value_name, *interface_name, *data_name;
  PyObject *address_name, *layout_name, *shared_allowed_name, *shared_device_name;
} state;

/* ---- types.c ---- */

/* Makes room for so many types, a power of two; -1 with an exception. */
int types_reserve(state *st, size_t slots);
/* Stores a new entry or replaces a type's old one. Takes over the references of `item`, also on failure. */
int types_store(state *st, type_entry item);
/* The slot of a type, or the free slot where it belongs. */
type_entry *types_find(const state *st, const void *type);

/* Functions of the module. */
PyObject *types_register(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *types_registered(PyObject *module, PyObject *type);
PyObject *types_is_exchange_api(PyObject *module, PyObject *object);
PyObject *types_forget(PyObject *module, PyObject *weak);
PyObject *types_set_resolver(PyObject *module, PyObject *resolver);

extern const char register_doc[], registered_doc[], is_exchange_api_doc[], set_resolver_doc[];

/* ---- owners.c: what packed arguments point into ---- */

/* One argument's: a reference to a box, to a Python object, or to both. */
typedef struct owned {
  Py_ssize_t index; /* of the argument */
  void *box;
  PyObject *object; /* of a face, the face: it tells whether it was closed */
} owned;

enum { OWNERS_INLINE = 16 };

/* Zero-initialise, or owners_init(); grows on the heap beyond the room inside. Movable as long as `items` is not read.
 */
typedef struct owners {
  Py_ssize_t count, room; /* room: of the heap's array; 0 while the one inside is used */
  owned *heap;
  owned inside[OWNERS_INLINE];
} owners;

static inline void owners_init(owners *self) {
  self->count = self->room = 0;
  self->heap = NULL;
}
static inline owned *owners_items(owners *self) { return self->heap ? self->heap : self->inside; }

/* Takes over both references, also on failure: -1 with an exception. */
int owners_add(owners *self, Py_ssize_t index, void *box, PyObject *object);
/* Gives all back, and is empty then. Runs Python code, and lets go of the GIL where there are boxes. */
void owners_release(owners *self);

/* ---- pack.c ---- */

/* What a parameter takes, as far as that is known. Numbers are those of _kernel.py. */
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
void name_argument(Py_ssize_t index);

/* Checks the number of arguments of a function of the module; -1 with an exception. */
int check_argument_count(const char *signature, Py_ssize_t given, Py_ssize_t expected);

/* pack(layout, args), a function of the module. */
PyObject *pack(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

extern const char pack_doc[];

/* Checks a bytes object, which must outlive the layout. Not for every launch. -1 with an exception. */
int read_layout(PyObject *object, layout *out);

/* The arguments of a call: a C array, or, where `array` is NULL, a tuple (the limited API hides a tuple's array). */
typedef struct values {
  PyObject *const *array;
  PyObject *tuple;
  Py_ssize_t count;
} values;

/*
 * Packs all values into `out`, which has room for the whole block, and adds to `keep` what they point into; -1 with an
 * exception, `keep` having what was added so far. `device` is the ordinal of the launch's device, -1 when it is not
 * known or not to be checked. Runs Python code.
 */
int pack_values(const state *st, const layout *params, values given, unsigned char *out, owners *keep, int device);

/* Packs one value over its parameter in `out`, as pack_values() does. */
int pack_parameter(const state *st, const layout *params, Py_ssize_t index, PyObject *value, unsigned char *out,
                   owners *keep, int device);

/* ---- arrays.c ---- */

/*
 * Ordinal of the device that memory is compared with when it is given to launches on a stream; -1 when there is only
 * one device, or none current for a default stream.
 */
int device_to_check(const cch_stream *stream);

PyObject *set_array_functions(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
extern const char set_array_functions_doc[];

/* ---- launch.c ---- */

PyObject *launch(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *set_faces(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
int add_prepared_type(PyObject *module);

extern const char launch_doc[], set_faces_doc[];

/* ---- dlpack.c ---- */

PyObject *make_capsule(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *read_capsule(PyObject *module, PyObject *capsule);

extern const char make_capsule_doc[], read_capsule_doc[];

#endif
