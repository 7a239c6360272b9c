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

#include <stddef.h>
#include <stdint.h>

enum {
  BLOCK_MAX = 65536,  /* bytes of the largest argument block; CUDA's own limit is below */
  SCRATCH_SIZE = 4096 /* blocks up to this size are packed on the stack (kernels of CUDA 12 end there) */
};

/* The parameters of a kernel: the bytes of an array of cch_param, from a bytes object. */
typedef struct layout {
  const char *data;
  Py_ssize_t count;
  uint64_t total; /* end of the last parameter */
} layout;

/* How the values of a type are packed. The first six are public, as module constants. */
typedef enum kind {
  KIND_SIGNED,
  KIND_UNSIGNED,
  KIND_FLOAT,
  KIND_COMPLEX,
  KIND_BOOL,
  KIND_POINTER,
  KIND_PUBLIC_COUNT,
  KIND_CONVERTER = KIND_PUBLIC_COUNT,
  KIND_NONE,
  KIND_BYTES,
  KIND_BYTEARRAY,
  KIND_MEMORYVIEW,
} kind;

/*
 * One registered type. The registry does not keep types alive: `weak` is a weak reference whose callback drops the
 * entry before the type's address can be reused. Built-in types are immortal and have none.
 */
typedef struct type_entry {
  const void *type; /* the key, borrowed; NULL: a free slot */
  PyObject *weak;
  PyObject *converter; /* of KIND_CONVERTER */
  kind kind;
  uint32_t itemsize; /* what the parameter must have; 0: any size that suits the kind */
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
  faces faces;
  /* Names of attributes, interned. */
  PyObject *ptr_name, *address_name, *layout_name, *shared_allowed_name, *shared_device_name;
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
PyObject *types_forget(PyObject *module, PyObject *weak);
PyObject *types_set_resolver(PyObject *module, PyObject *resolver);

extern const char register_doc[], registered_doc[], set_resolver_doc[];

/* ---- pack.c ---- */

/* Raises an exception whose format has %U for the name of the value's type, and then two sizes; returns -1. */
int raise_about(PyObject *exception, const char *format, PyObject *value, Py_ssize_t given, uint32_t size);

/* Checks the number of arguments of a function of the module; -1 with an exception. */
int check_argument_count(const char *signature, Py_ssize_t given, Py_ssize_t expected);

/* pack(layout, args), a function of the module. */
PyObject *pack(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

extern const char pack_doc[];

/* Reads a bytes object; it must outlive the layout. -1 with an exception. */
int read_layout(PyObject *object, layout *out);

/* The arguments of a call: a C array, or, where `array` is NULL, a tuple (the limited API hides a tuple's array). */
typedef struct values {
  PyObject *const *array;
  PyObject *tuple;
  Py_ssize_t count;
} values;

/* Packs all values into `out`, which has room for the whole block; -1 with an exception. Runs Python code. */
int pack_values(const state *st, const layout *params, values given, unsigned char *out);

/* Packs one value over its parameter in `out`; -1 with an exception. Runs Python code. */
int pack_parameter(const state *st, const layout *params, Py_ssize_t index, PyObject *value, unsigned char *out);

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
