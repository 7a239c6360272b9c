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
  int index;
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

/* Packs a value of a registered type of numbers. Runs Python code. */
int pack_number(const destination *to, PyObject *value, const type_entry *how);

/* ---- arrays.c: addresses of memory. Run Python code ---- */

/* Has Python code check that the device of a launch can access memory of another device. -1 with an exception. */
int check_other_device(const state *st, int device, PyObject *value, uint64_t address);

/* Checks that a launch on `device` can access memory that is already kept: that of `value`, which is on `place`. */
static inline int check_access(const state *st, int device, PyObject *value, uint64_t address, int place) {
  /* An empty array has no address, so no device is compared. */
  return device == UNCHECKED_DEVICE || place == device || place == ANY_DEVICE || address == 0
             ? 0
             : check_other_device(st, device, value, address);
}

/*
 * A buffer remembers where its memory is: the device, as FIRST_PLACE + its number, and whether the memory can be lost.
 * This function returns that for an open buffer.
 */
enum { FIRST_PLACE = 1 - UNKNOWN_DEVICE, CAN_BE_LOST = 1 << 16, PLACES = CAN_BE_LOST - 1 };
size_t find_place(buffer *self);

/* Keeps the memory of a buffer, and stores its address in `out`. Returns -1 with an exception on failure. */
static inline int pack_memory(const state *st, int device, owners *keep, int index, PyObject *value,
                              unsigned char *out) {
  buffer *self = (buffer *)value;
  uint64_t address;
  if (owners_add_memory(keep, index, value, &address) < 0)
    return -1;
  size_t place = shared_get(&self->place);
  if (place == 0)
    place = find_place(self);
  if (place & CAN_BE_LOST && check_status(st, cch_deviceptr_check(self->base.box)) < 0)
    return -1;
  memcpy(out, &address, sizeof address);
  return check_access(st, device, value, address, (int)(place & PLACES) - FIRST_PLACE);
}

/* Checks that the parameter accepts an address. Returns -1 with an exception on failure. */
int raise_takes_no_address(const destination *to, PyObject *value);
static inline int check_takes_address(const destination *to, PyObject *value) {
  return to->size == 8 && kind_takes(to, TAKES_MEMORY) ? 0 : raise_takes_no_address(to, value);
}
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
