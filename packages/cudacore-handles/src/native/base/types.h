/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_TYPES_H
#define CUDACORE_NATIVE_TYPES_H

/* The registered types of arguments, and how their values are packed. */

#include "base/native.h" /* must come first, as CPython requires */

#include "base/dlpack.h"

/* How the values of a type are packed. The first constants are also constants of the module. */
typedef enum packing {
  PACKING_SIGNED,
  PACKING_UNSIGNED,
  PACKING_FLOAT,
  PACKING_COMPLEX,
  PACKING_BOOL,
  PACKING_POINTER,
  PACKING_ARRAY, /* __cuda_array_interface__, or a description made from it */
  PACKING_TENSOR_MAP,
  PACKING_PUBLIC_COUNT,
  PACKING_CONVERTER = PACKING_PUBLIC_COUNT,
  PACKING_EXCHANGE, /* DLPack's C exchange API */
  PACKING_PATHS,    /* attributes that give the address and the device */
  PACKING_NONE,
  PACKING_BYTES,
  PACKING_BYTEARRAY,
  PACKING_MEMORYVIEW,
} packing;

/* Flag of a code: the attribute `value` of the object is packed, instead of the object itself. */
#define CODE_HAS_VALUE 0x10000

/*
 * One attribute on the path to an array's address. If the attribute is a property of a C type, which instances cannot
 * hide, its function is stored together with the type of the objects that have it, because looking it up costs more
 * than calling it.
 */
enum { PATH_STEPS = 2, DTYPE_STEP = PATH_STEPS, ATTRIBUTES };
typedef struct attribute {
  PyObject *name;     /* borrowed from `given` of the entry */
  const void *type;   /* the type of the objects that have the property; only compared, never dereferenced */
  PyObject *property; /* a getset_descriptor, which keeps the type with the function */
  getter get;
  void *closure;
} attribute;

/*
 * One registered type. The registry does not keep types alive: `weak` is a weak reference whose callback drops the
 * entry before the type's address can be reused. Built-in types are immortal and have no weak reference. Other code
 * has copies of entries, with references of their own.
 */
typedef struct type_entry {
  const void *type; /* the key, borrowed; NULL marks a free slot */
  PyObject *weak;   /* a weak reference to the type; in a copy, a reference, so that no other type gets the address */
  PyObject *given;  /* a converter, a capsule with an exchange API, or a tuple: the paths, and the name of the dtype */
  const dl_exchange_api *exchange;  /* used by PACKING_EXCHANGE */
  attribute attributes[ATTRIBUTES]; /* of PACKING_PATHS: the path, which ends at a name that is NULL; then the dtype */
  packing packing;
  uint32_t itemsize; /* the size that the parameter must have; 0: any size that suits its kind */
  bool has_value;
} type_entry;

int add_types(PyObject *module, state *st);

/* Visit and drop the references of the table. */
int types_visit(state *st, visitproc visit, void *arg);
void types_clear(state *st);

/*
 * Copies the entry of a type that was registered with a code. That takes no lock and no reference, so types_unref() is
 * not called. Returns false for all other types, and if the entry was not read before.
 */
bool types_read_code(const state *st, const void *type, type_entry *out);
/*
 * Copies the entry of a type, with references that types_unref() releases. Returns false if the type is not registered;
 * types_unref() then does nothing.
 */
bool types_read(const state *st, const void *type, type_entry *out);
void types_unref(type_entry *entry);
/*
 * Like types_read(), for the type of a value. If it is not registered, calls resolve(), which registers it if it can.
 * Returns -1 with an exception on failure.
 */
int types_find(const state *st, PyObject *value, type_entry *out);
/* Stores the property that an attribute of a type's entry is. Takes over the reference to it, which can be NULL. */
void types_learn(const state *st, const void *type, int step, const attribute *known);

#endif
