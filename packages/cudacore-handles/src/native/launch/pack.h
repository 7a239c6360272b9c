/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_PACK_H
#define CUDACORE_NATIVE_PACK_H

/* What pack.c shares with numbers.c and arrays.c. */

#include "launch/launch.h"
#include "memory/buffer.h"
#include "views/views.h"

/* Where one value goes. */
typedef struct destination {
  const state *st;
  unsigned char *out;
  uint32_t size;
  uint32_t kind; /* param_kind */
  Py_ssize_t index;
  owners *keep;
  int device; /* of the launch; -1: not known */
} destination;

typedef struct param_rules {
  const char *name, *text;
  unsigned takes;
} param_rules;
extern const param_rules rules_of_kinds[]; /* by param_kind */

/* "a signed integer", ...: what a parameter is. */
static inline const char *kind_text(const destination *to) { return rules_of_kinds[to->kind].text; }
static inline bool kind_takes(const destination *to, unsigned what) { return rules_of_kinds[to->kind].takes & what; }

int raise_size_mismatch(const destination *to, PyObject *value, Py_ssize_t given);

/*
 * Packs what Python code made of a value: its bytes, a number in its place, or where its memory is, as a tuple
 * (address, device, object to keep). Takes the answer over; NULL is a failure. -1 with an exception.
 */
int pack_answer(const destination *to, PyObject *value, PyObject *answer);

/* ---- numbers.c: each packs one value; -1 with an exception ---- */

int pack_int(const destination *to, PyObject *value); /* an int, or a subclass of it */
int pack_double(const destination *to, double number);

/* Values of registered types. Run Python code. */
int pack_integer_like(const destination *to, PyObject *value, const type_entry *how);
int pack_float_like(const destination *to, PyObject *value, const type_entry *how);
int pack_complex_like(const destination *to, PyObject *value);
int pack_bool_like(const destination *to, PyObject *value, const type_entry *how);

/* Whether a scalar must have the parameter's size: its bytes are meant, or the parameter is a pointer. */
bool needs_same_size(const destination *to, const type_entry *how);

/* ---- arrays.c: addresses of memory. Run Python code ---- */

enum { DEVICE_ANY = -1, DEVICE_UNKNOWN = -2 };

/* Whether the parameter takes an address at all; -1 with an exception when it does not. */
int check_takes_address(const destination *to, PyObject *value);
int pack_null(const destination *to);
int pack_buffer(const destination *to, PyObject *value);
int pack_array(const destination *to, PyObject *value, const type_entry *how);
int pack_exchanged(const destination *to, PyObject *value, dl_tensor_from_object read);
/* A tensor map: its bytes, with the memory that they describe. */
int pack_tensor_map(const destination *to, PyObject *value);
/* A value that Python code has to look at: an array in host memory, a DLPack producer without the C interface. */
int pack_with_python(const destination *to, PyObject *value);
/* The tuple of pack_answer(). */
int pack_place(const destination *to, PyObject *value, PyObject *place);

#endif
