/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/nodes/operand.h"
#include "memory/buffer.h"

/* Reads an address that is given as an int. */
static int read_number(PyObject *value, const char *name, CUdeviceptr *out) {
  int overflow;
  const long long usual = PyLong_AsLongLongAndOverflow(value, &overflow); /* the fast path */
  if (!overflow && usual >= 0) {
    *out = (CUdeviceptr)usual;
    return 0;
  }
  PyErr_Clear();
  unsigned long long number = PyLong_AsUnsignedLongLong(value);
  if (number == (unsigned long long)-1 && PyErr_Occurred()) {
    PyErr_Clear();
    return raise_error(PyExc_ValueError, "%s is %R, which is not an address", name, value);
  }
  *out = number;
  return 0;
}

int read_address(const state *st, PyObject *value, const char *name, CUdeviceptr *out) {
  if (PyLong_CheckExact(value))
    return read_number(value, name, out);
  PyObject *address = PyObject_CallFunction(st->faces.node_memory, "Os", value, name);
  int status = address != NULL ? read_number(address, name, out) : -1;
  Py_XDECREF(address);
  return status;
}

static bool is_given(PyObject *argument) { return argument != NULL && argument != Py_None; }

/* Refuses an owner for an operand that needs none. */
static int raise_needless_owner(const char *name, const char *what) {
  return raise_error(PyExc_ValueError, "%s is %s, which is kept by itself: leave %s_owner out", name, what, name);
}

static int read_buffer(const state *st, PyObject *value, PyObject *owner, owners *keep, operand *out) {
  if (is_given(owner))
    return raise_needless_owner(out->name, "a Buffer");
  uint64_t address;
  if (owners_add_memory(keep, 0, value, &address) < 0)
    return -1;
  const void *box = ((handle *)value)->box;
  if (memory_check(st, box) < 0)
    return -1;
  out->address = address;
  out->size = ((buffer *)value)->size;
  out->read_only = cch_deviceptr_is_read_only(box) != 0;
  return 0;
}

/* Returns the number of bytes from an address to the end of its memory; -1 if the address is outside. */
static Py_ssize_t rest_of(const void *box, CUdeviceptr address) {
  if (cch_kind_of(box) != CCH_KIND_DEVICEPTR)
    return -1;
  CUdeviceptr start = cch_deviceptr_raw(box);
  size_t size = cch_deviceptr_size(box);
  return address >= start && address - start < size ? (Py_ssize_t)(size - (address - start)) : -1;
}

/*
 * Reads an address. The owner of its memory is the argument `owner` or, if that was not given, the value itself. An int
 * has no owner.
 */
static int read_owned_address(const state *st, PyObject *value, PyObject *owner, owners *keep, operand *out) {
  if (read_address(st, value, out->name, &out->address) < 0)
    return -1;
  PyObject *keeper = is_given(owner) ? owner : value; /* borrowed */
  if (keeper == value && PyLong_CheckExact(value))
    keeper = NULL;
  if (keeper == NULL || !is_handle(st, keeper)) {
    Py_XINCREF(keeper);
    return owners_add(keep, 0, NULL, keeper);
  }
  void *box = handle_hold(keeper); /* keeps the memory alive, but not the face */
  if (box == NULL)
    return -1;
  out->size = rest_of(box, out->address);
  return owners_add(keep, 0, box, NULL);
}

int read_memory(state *st, PyObject *value, PyObject *owner, const char *name, owners *keep, operand *out) {
  *out = (operand){.name = name, .size = -1};
  int status =
      is_buffer(st, value) ? read_buffer(st, value, owner, keep, out) : read_owned_address(st, value, owner, keep, out);
  if (status < 0 || out->address != 0)
    return status;
  return raise_error(PyExc_ValueError, "%s is NULL: there is no memory", name);
}

static bool is_array(const state *st, PyObject *value) {
  return is_handle(st, value) && ((const handle *)value)->kind == CCH_KIND_ARRAY;
}

/* Reads an operand that is an array, and adds the array to `keep`. */
static int read_array(const state *st, PyObject *value, PyObject *owner, owners *keep, operand *out) {
  if (is_given(owner))
    return raise_needless_owner(out->name, "an array");
  cch_array *box = handle_hold(value);
  if (box == NULL)
    return -1;
  cch_array_desc desc;
  size_t size = cch_array_size(box);
  int status = cch_array_describe(&desc, box);
  out->array = cch_array_raw(box);
  if (owners_add(keep, 0, box, NULL) < 0)
    return -1;
  if (check_status(st, status) < 0)
    return -1;
  if (size == 0)
    return raise_error(PyExc_ValueError, "%s is an array of a format that cannot be copied", out->name);
  out->height = desc.height != 0 ? desc.height : 1;
  out->depth = desc.depth != 0 ? desc.depth : 1;
  out->row = size / out->height / out->depth;
  out->texel = out->row / desc.width;
  return 0;
}

int read_memory_or_array(state *st, PyObject *value, PyObject *owner, const char *name, owners *keep, operand *out) {
  if (PyLong_CheckExact(value) || is_buffer(st, value) || !is_array(st, value))
    return read_memory(st, value, owner, name, keep, out);
  *out = (operand){.name = name, .size = -1};
  return read_array(st, value, owner, keep, out);
}

int check_writable(const operand *memory) {
  if (!memory->read_only)
    return 0;
  return raise_error(PyExc_ValueError, "%s is host memory that was registered read-only, and the node would write it",
                     memory->name);
}

int check_extent(const operand *memory, uint64_t bytes) {
  if (memory->size < 0 || bytes <= (uint64_t)memory->size)
    return 0;
  return raise_error(PyExc_ValueError, "%s has %zd bytes, and the node would use %llu", memory->name, memory->size,
                     (unsigned long long)bytes);
}

uint64_t extent_of(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
  __extension__ typedef unsigned __int128 wide;
  wide bytes = (wide)width + (wide)pitch * (height - 1) + (wide)pitch * slice * (depth - 1);
  return bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes;
}
