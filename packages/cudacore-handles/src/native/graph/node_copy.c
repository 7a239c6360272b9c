/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that copy and fill memory. */
#include "graph/node_kinds.h"
#include "launch/pack.h"

#include <stdio.h>

/* One operand of a copy or a fill. */
typedef struct operand {
  const char *name;
  CUdeviceptr address;
  Py_ssize_t size; /* the size of a buffer; -1 if unknown */
  bool read_only;
  CUarray array;                    /* used instead of the address; NULL for memory */
  size_t row, height, depth, texel; /* sizes of an array: bytes of a row, rows, planes, bytes of a texel */
} operand;

/* Reads an address given as a number. */
int read_address(PyObject *value, const char *name, CUdeviceptr *out) {
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
    PyErr_Format(PyExc_ValueError, "%s is %R, which is no address", name, value);
    return -1;
  }
  *out = number;
  return 0;
}

/* The number of bytes from an address to the end of its memory; -1 if the address is outside. */
static Py_ssize_t rest_of(const void *box, CUdeviceptr address) {
  if (cch_kind_of(box) != CCH_KIND_DEVICEPTR)
    return -1;
  CUdeviceptr start = cch_deviceptr_raw(box);
  size_t size = cch_deviceptr_size(box);
  return address >= start && address - start < size ? (Py_ssize_t)(size - (address - start)) : -1;
}

static bool is_array(const state *st, PyObject *value) {
  return is_handle(st, value) && ((const handle *)value)->kind == CCH_KIND_ARRAY;
}

/* Reads an operand that is an array, and adds the array to `keep`. */
static int read_array(const state *st, PyObject *value, PyObject *owner, const char *name, owners *keep, operand *out) {
  if (owner != NULL && owner != Py_None) {
    PyErr_Format(PyExc_ValueError, "%s is an array, which is kept by itself: leave %s_owner out", name, name);
    return -1;
  }
  cch_array *box = handle_hold(value);
  if (box == NULL)
    return -1;
  cch_array_desc desc = {.size = sizeof desc};
  size_t size = cch_array_size(box);
  int status = cch_array_describe(&desc, box);
  out->array = cch_array_raw(box);
  if (owners_add(keep, 0, box, NULL) < 0)
    return -1;
  if (status != 0) {
    raise_status(st, status);
    return -1;
  }
  if (size == 0) {
    PyErr_Format(PyExc_ValueError, "%s is an array of a format that cannot be copied", name);
    return -1;
  }
  out->height = desc.height != 0 ? desc.height : 1;
  out->depth = desc.depth != 0 ? desc.depth : 1;
  out->row = size / out->height / out->depth;
  out->texel = out->row / desc.width;
  return 0;
}

/*
 * Reads an operand. Adds exactly one item to `keep`: the owner of the memory, or an empty item. So an update of one
 * operand of a copy finds the owner of the other operand by its index.
 */
static int read_memory(state *st, PyObject *value, PyObject *owner, const char *name, owners *keep, operand *out) {
  *out = (operand){.name = name, .size = -1};
  if (is_buffer(st, value)) {
    if (owner != NULL && owner != Py_None) {
      PyErr_Format(PyExc_ValueError, "%s is a Buffer, which is kept by itself: leave %s_owner out", name, name);
      return -1;
    }
    uint64_t address;
    if (owners_add_memory(keep, 0, value, &address) < 0)
      return -1;
    if (memory_check(st, ((handle *)value)->box) < 0)
      return -1;
    out->address = address;
    out->size = ((buffer *)value)->size;
    out->read_only = cch_deviceptr_is_read_only(((handle *)value)->box) != 0;
  } else {
    PyObject *keeper = NULL; /* borrowed */
    if (PyLong_CheckExact(value)) {
      if (read_address(value, name, &out->address) < 0)
        return -1;
    } else {
      PyObject *address = PyObject_CallFunction(st->faces.node_memory, "Os", value, name);
      int status = address != NULL ? read_address(address, name, &out->address) : -1;
      Py_XDECREF(address);
      if (status < 0)
        return -1;
      keeper = value;
    }
    if (owner != NULL && owner != Py_None)
      keeper = owner;
    void *box = NULL;
    if (keeper != NULL && is_handle(st, keeper)) { /* keeps the memory, not the face */
      if ((box = handle_hold(keeper)) == NULL)
        return -1;
      keeper = NULL;
      out->size = rest_of(box, out->address);
    }
    Py_XINCREF(keeper);
    if (owners_add(keep, 0, box, keeper) < 0)
      return -1;
  }
  if (out->address != 0)
    return 0;
  PyErr_Format(PyExc_ValueError, "%s is NULL: there is no memory", name);
  return -1;
}

static int read_memory_or_array(state *st, PyObject *value, PyObject *owner, const char *name, owners *keep,
                                operand *out) {
  if (PyLong_CheckExact(value) || is_buffer(st, value) || !is_array(st, value))
    return read_memory(st, value, owner, name, keep, out);
  *out = (operand){.name = name, .size = -1};
  return read_array(st, value, owner, name, keep, out);
}

/* Whether the node may write an operand. */
static int check_writable(const operand *memory) {
  if (!memory->read_only)
    return 0;
  PyErr_Format(PyExc_ValueError, "%s is host memory that was registered read-only, and the node would write it",
               memory->name);
  return -1;
}

/* Whether an operand of known size has enough bytes. */
static int check_extent(const operand *memory, uint64_t bytes) {
  if (memory->size < 0 || bytes <= (uint64_t)memory->size)
    return 0;
  PyErr_Format(PyExc_ValueError, "%s has %zd bytes, and the node would use %llu", memory->name, memory->size,
               (unsigned long long)bytes);
  return -1;
}

/* The number of bytes between the first and the last byte of rows and slices; UINT64_MAX if no memory is that large. */
static uint64_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
  __extension__ typedef unsigned __int128 wide;
  wide bytes = (wide)width + (wide)pitch * (height - 1) + (wide)pitch * slice * (depth - 1);
  return bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes;
}

/* Whether an argument is missing, or is the default that Python methods pass when their caller leaves it out. */
static bool is_left_out(PyObject *given, long usual) {
  return given == NULL || given == Py_None || (usual >= 0 && PyLong_CheckExact(given) && PyLong_AsLong(given) == usual);
}

/*
 * Reads the extents of a copy to or from an array, which copies all texels of the array. In the memory of the other
 * operand, there can be gaps between rows and between planes.
 */
static int read_extents_of_array(PyObject *const *given, const operand *dst, const operand *src,
                                 cch_memcpy_node *copy) {
  static const char *const names[] = {"size", "height", "depth"};
  const operand *array = dst->array != NULL ? dst : src;
  for (int i = 0; i < 3; i++)
    if (!is_left_out(given[2 + i], i > 0 ? 1 : -1)) {
      PyErr_Format(PyExc_ValueError, "%s is an array, all of which is copied: leave %s out", array->name, names[i]);
      return -1;
    }
  for (int i = 0; i < 4; i++) {
    const operand *side = i % 2 == 0 ? dst : src;
    if (side->array != NULL && !is_left_out(given[5 + i], 0)) {
      PyErr_Format(PyExc_ValueError, "%s is an array, whose layout is the device's: leave %s_%s out", side->name,
                   side->name, i < 2 ? "pitch" : "height");
      return -1;
    }
  }
  if (dst->array != NULL && src->array != NULL &&
      (dst->row != src->row || dst->texel != src->texel || dst->height != src->height || dst->depth != src->depth)) {
    PyErr_Format(PyExc_ValueError,
                 "dst has %zu x %zu x %zu texels of %zu bytes, and src %zu x %zu x %zu of %zu: they must have the same",
                 dst->row / dst->texel, dst->height, dst->depth, dst->texel, src->row / src->texel, src->height,
                 src->depth, src->texel);
    return -1;
  }
  copy->dst_array = dst->array;
  copy->src_array = src->array;
  copy->width = array->row;
  copy->height = array->height;
  copy->depth = array->depth;
  return 0;
}

static int read_extents(const state *st, PyObject *const *given, cch_memcpy_node *copy) {
  if (given[2] == NULL || given[2] == Py_None) {
    PyErr_SetString(PyExc_TypeError, "memcpy() needs size, unless dst or src is an OpaqueArray");
    return -1;
  }
  copy->height = copy->depth = 1;
  if (read_size(st, given[2], "size", 1, &copy->width) < 0 || read_size(st, given[3], "height", 1, &copy->height) < 0 ||
      read_size(st, given[4], "depth", 1, &copy->depth) < 0)
    return -1;
  return 0;
}

static int read_copy(state *st, PyObject *const *given, owners *keep, cch_memcpy_node *copy) {
  operand dst, src;
  if (read_memory_or_array(st, given[0], given[9], "dst", keep, &dst) < 0 || check_writable(&dst) < 0 ||
      read_memory_or_array(st, given[1], given[10], "src", keep, &src) < 0)
    return -1;
  copy->dst = dst.address;
  copy->src = src.address;
  bool has_array = dst.array != NULL || src.array != NULL;
  if ((has_array ? read_extents_of_array(given, &dst, &src, copy) : read_extents(st, given, copy)) < 0 ||
      read_size(st, given[5], "dst_pitch", 0, &copy->dst_pitch) < 0 ||
      read_size(st, given[6], "src_pitch", 0, &copy->src_pitch) < 0 ||
      read_size(st, given[7], "dst_height", 0, &copy->dst_height) < 0 ||
      read_size(st, given[8], "src_height", 0, &copy->src_height) < 0)
    return -1;
  const struct {
    const operand *memory;
    size_t *pitch, *height;
  } sides[] = {{&dst, &copy->dst_pitch, &copy->dst_height}, {&src, &copy->src_pitch, &copy->src_height}};
  for (int i = 0; i < 2; i++) {
    const char *name = sides[i].memory->name;
    if (sides[i].memory->array != NULL)
      continue;
    if (*sides[i].pitch == 0)
      *sides[i].pitch = copy->width;
    if (*sides[i].height == 0)
      *sides[i].height = copy->height;
    if (*sides[i].pitch < copy->width) {
      PyErr_Format(PyExc_ValueError, "%s_pitch is %zu bytes from row to row, less than the row's %zu", name,
                   *sides[i].pitch, copy->width);
      return -1;
    }
    if (*sides[i].height < copy->height) {
      PyErr_Format(PyExc_ValueError, "%s_height is %zu rows from slice to slice, less than the slice's %zu", name,
                   *sides[i].height, copy->height);
      return -1;
    }
    if (check_extent(sides[i].memory,
                     extent(copy->width, copy->height, copy->depth, *sides[i].pitch, *sides[i].height)) < 0)
      return -1;
  }
  return 0;
}

int read_memcpy(state *st, const node_arguments *arguments, node_params *out) {
  PyObject *const *given = arguments->named;
  owners keep;
  owners_init(&keep, false);
  out->type = out->class = CCH_NODE_MEMCPY;
  out->of.memcpy.size = sizeof out->of.memcpy;
  return take_bundle(st, &keep, out, read_copy(st, given, &keep, &out->of.memcpy));
}

/* Reads the value of a fill: an int is one byte. */
static int read_fill(state *st, PyObject *value, cch_memset_node *fill) {
  if (PyLong_CheckExact(value)) {
    int overflow;
    long number = PyLong_AsLongAndOverflow(value, &overflow);
    fill->element_size = 1;
    fill->value = (uint32_t)number;
    if (!overflow && number >= 0 && number < 256)
      return 0;
  }
  unsigned long pattern;
  unsigned bytes;
  PyObject *read = PyObject_CallFunctionObjArgs(st->faces.fill_value, value, NULL);
  int status = read != NULL && PyArg_ParseTuple(read, "kI:fill_value", &pattern, &bytes) ? 0 : -1;
  Py_XDECREF(read);
  if (status == 0) {
    fill->value = (uint32_t)pattern;
    fill->element_size = bytes;
  }
  return status;
}

static int read_set(state *st, PyObject *const *given, owners *keep, cch_memset_node *fill) {
  operand dst;
  fill->height = 1;
  if (read_memory(st, given[0], given[5], "dst", keep, &dst) < 0 || check_writable(&dst) < 0 ||
      read_fill(st, given[1], fill) < 0 || read_size(st, given[2], "width", 1, &fill->width) < 0 ||
      read_size(st, given[3], "height", 1, &fill->height) < 0 || read_size(st, given[4], "pitch", 0, &fill->pitch) < 0)
    return -1;
  fill->dst = dst.address;
  size_t row = fill->width <= PTRDIFF_MAX / fill->element_size ? fill->width * fill->element_size : PTRDIFF_MAX;
  if (fill->height > 1 && fill->pitch < row) {
    PyErr_Format(PyExc_ValueError, "pitch is %zu bytes from row to row, less than the row's %zu (%zu of %u)",
                 fill->pitch, row, fill->width, fill->element_size);
    return -1;
  }
  if (dst.address % fill->element_size != 0 || (fill->height > 1 && fill->pitch % fill->element_size != 0)) {
    PyErr_Format(PyExc_ValueError, "dst and pitch must be multiples of the value's %u bytes", fill->element_size);
    return -1;
  }
  return check_extent(&dst, extent(row, fill->height, 1, fill->pitch, 1));
}

int read_memset(state *st, const node_arguments *arguments, node_params *out) {
  PyObject *const *given = arguments->named;
  owners keep;
  owners_init(&keep, false);
  out->type = out->class = CCH_NODE_MEMSET;
  out->of.memset.size = sizeof out->of.memset;
  return take_bundle(st, &keep, out, read_set(st, given, &keep, &out->of.memset));
}
