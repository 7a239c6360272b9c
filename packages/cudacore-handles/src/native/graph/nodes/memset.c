/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that fill memory. */
#include "graph/nodes/operand.h"

/* The arguments of memset(), in the order of its stub. */
enum { DST, VALUE, WIDTH, HEIGHT, PITCH, DST_OWNER };

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
  if (read_memory(st, given[DST], given[DST_OWNER], "dst", keep, &dst) < 0 || check_writable(&dst) < 0 ||
      read_fill(st, given[VALUE], fill) < 0 || read_size(st, given[WIDTH], "width", 1, &fill->width) < 0 ||
      read_size(st, given[HEIGHT], "height", 1, &fill->height) < 0 ||
      read_size(st, given[PITCH], "pitch", 0, &fill->pitch) < 0)
    return -1;
  fill->dst = dst.address;
  size_t row = fill->width <= PTRDIFF_MAX / fill->element_size ? fill->width * fill->element_size : PTRDIFF_MAX;
  if (fill->height > 1 && fill->pitch < row)
    return raise_error(PyExc_ValueError, "pitch is %zu bytes from row to row, less than the row's %zu (%zu of %u)",
                       fill->pitch, row, fill->width, fill->element_size);
  if (dst.address % fill->element_size != 0 || (fill->height > 1 && fill->pitch % fill->element_size != 0))
    return raise_error(PyExc_ValueError, "dst and pitch must be multiples of the value's %u bytes", fill->element_size);
  return check_extent(&dst, extent_of(row, fill->height, 1, fill->pitch, 1));
}

const int type_of_memset = CCH_NODE_MEMSET;
int read_memset(state *st, const node_arguments *arguments, node_params *out) {
  owners keep;
  owners_init(&keep, false);
  out->of.memset.size = sizeof out->of.memset;
  return take_bundle(st, &keep, out, read_set(st, arguments->named, &keep, &out->of.memset));
}
