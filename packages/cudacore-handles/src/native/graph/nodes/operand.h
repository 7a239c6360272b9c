/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_OPERAND_H
#define CUDACORE_NATIVE_OPERAND_H

/* Memory and arrays that nodes copy, fill and free. */

#include "graph/node_methods.h"

/* One operand of a copy or a fill. */
typedef struct operand {
  const char *name;
  CUdeviceptr address;
  Py_ssize_t size; /* the size of the operand's memory; -1 if it is not known */
  bool read_only;
  CUarray array;                    /* the array, which is used instead of the address; NULL if the operand is memory */
  size_t row, height, depth, texel; /* sizes of an array: bytes of a row, rows, planes, bytes of a texel */
} operand;

/*
 * Reads an address: an int, or an object that Python code accepts as memory. Returns -1 with an exception on failure.
 */
int read_address(const state *st, PyObject *value, const char *name, CUdeviceptr *out);

/*
 * Reads an operand. Adds exactly one item to `keep`: the owner of the memory, or an empty item. So an update of one
 * operand of a copy finds the owner of the other operand by its index. Returns -1 with an exception on failure.
 */
int read_memory(state *st, PyObject *value, PyObject *owner, const char *name, owners *keep, operand *out);
/* Like read_memory(), for an operand that can also be an array. */
int read_memory_or_array(state *st, PyObject *value, PyObject *owner, const char *name, owners *keep, operand *out);

/* Checks whether the node may write an operand. Returns 0, or -1 with an exception. */
int check_writable(const operand *memory);
/* Checks whether an operand of known size has enough bytes. Returns 0, or -1 with an exception. */
int check_extent(const operand *memory, uint64_t bytes);

/*
 * Returns the number of bytes between the first and the last byte of rows and slices; UINT64_MAX if no memory is that
 * large.
 */
uint64_t extent_of(size_t width, size_t height, size_t depth, size_t pitch, size_t slice);

#endif
