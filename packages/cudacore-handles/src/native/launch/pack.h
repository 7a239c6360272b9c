/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_PACK_H
#define CUDACORE_NATIVE_PACK_H

/* Shared by pack.c, numbers.c and arrays.c. */

#include "launch/launch.h"
#include "memory/buffer.h"
#include "views/views.h"

/* The place of one value in the block, and its parameter. */
typedef struct destination {
  const state *st;
  unsigned char *out;
  uint32_t size;
  uint16_t kind;    /* param_kind */
  uint16_t element; /* the type that the parameter points to; 0: any type */
  Py_ssize_t index;
  owners *keep;
  int device; /* the ordinal of the launch's device, or UNCHECKED_DEVICE */
} destination;

typedef struct param_rules {
  const char *name, *text;
  unsigned takes;
} param_rules;
extern const param_rules rules_of_kinds[]; /* indexed by param_kind */

/* Returns the kind of a parameter as messages describe it, such as "a signed integer". */
static inline const char *kind_text(const destination *to) { return rules_of_kinds[to->kind].text; }
static inline bool kind_takes(const destination *to, unsigned what) { return rules_of_kinds[to->kind].takes & what; }

static inline const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }
int raise_size_mismatch(const destination *to, PyObject *value, Py_ssize_t given);

/*
 * Packs the result of a Python conversion: bytes, a number, or a tuple (address, device, object to keep). Takes over
 * the reference to the result. If it is NULL, the conversion failed. Returns -1 with an exception on failure.
 */
int pack_answer(const destination *to, PyObject *value, PyObject *answer);
/* Packs a value by a Python function, such as read_array() for arrays that C code does not read. */
int pack_converted(const destination *to, PyObject *value, PyObject *converter);

/* ---- numbers.c: each packs one value; -1 with an exception ---- */

int pack_int(const destination *to, PyObject *value); /* an int, or a subclass of it */
int pack_double(const destination *to, double number);

/* Pack values of registered types. They run Python code. */
int pack_integer_like(const destination *to, PyObject *value, const type_entry *how);
int pack_float_like(const destination *to, PyObject *value);
int pack_complex_like(const destination *to, PyObject *value);
int pack_bool_like(const destination *to, PyObject *value);

/*
 * Returns whether the size of a scalar must equal that of the parameter, because its bytes are copied or the parameter
 * is a pointer.
 */
bool needs_same_size(const destination *to, const type_entry *how);

/* ---- arrays.c: addresses of memory. Run Python code ---- */

/* Checks that the parameter accepts an address. Returns -1 with an exception on failure. */
int check_takes_address(const destination *to, PyObject *value);
int pack_null(const destination *to);
int pack_buffer(const destination *to, PyObject *value);
int pack_array(const destination *to, PyObject *value, const type_entry *how);
int pack_exchanged(const destination *to, PyObject *value, dl_tensor_from_object read);
/* Packs the bytes of a tensor map, and keeps the memory that it describes. */
int pack_tensor_map(const destination *to, PyObject *value);
/* Packs a tuple (address, device, object to keep, type of the elements), for pack_answer(). */
int pack_place(const destination *to, PyObject *value, PyObject *place);

/* ---- elements.c: the types of arrays. Each check returns 0, or -1 with an exception. ---- */

/* A type of elements is DLPack's code | bits << 8. */
static inline unsigned element_of(dl_data_type type) { return type.code | (unsigned)type.bits << 8; }

/* Checks a type that is not exactly the one that the parameter points to. */
int check_other_element(const destination *to, PyObject *value, unsigned given);
static inline int check_element(const destination *to, PyObject *value, unsigned given) {
  return to->element == 0 || to->element == given ? 0 : check_other_element(to, value, given);
}
/* Checks the type that a __cuda_array_interface__ has. */
int check_element_of_interface(const destination *to, PyObject *value, PyObject *interface);
/* Checks the type by the attribute `dtype`, whose name is the third part of the type's paths. */
int check_element_by_dtype(const destination *to, PyObject *value, PyObject *dtype);

#endif
