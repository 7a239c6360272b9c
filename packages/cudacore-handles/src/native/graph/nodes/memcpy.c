/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that copy memory. */
#include "graph/nodes/operand.h"

/* The arguments of memcpy(), in the order of its stub. */
enum { DST, SRC, SIZE, HEIGHT, DEPTH, DST_PITCH, SRC_PITCH, DST_HEIGHT, SRC_HEIGHT, DST_OWNER, SRC_OWNER };

/*
 * Returns whether an argument is missing, or is the default that Python methods pass when their caller leaves it out.
 */
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
    if (!is_left_out(given[SIZE + i], i > 0 ? 1 : -1))
      return raise_error(PyExc_ValueError, "%s is an array, all of which is copied: leave %s out", array->name,
                         names[i]);
  for (int i = 0; i < 4; i++) {
    const operand *side = i % 2 == 0 ? dst : src;
    if (side->array != NULL && !is_left_out(given[DST_PITCH + i], 0))
      return raise_error(PyExc_ValueError, "%s is an array, whose layout is the device's: leave %s_%s out", side->name,
                         side->name, i < 2 ? "pitch" : "height");
  }
  if (dst->array != NULL && src->array != NULL &&
      (dst->row != src->row || dst->texel != src->texel || dst->height != src->height || dst->depth != src->depth))
    return raise_error(
        PyExc_ValueError,
        "dst has %zu x %zu x %zu texels of %zu bytes, and src %zu x %zu x %zu of %zu: they must have the same",
        dst->row / dst->texel, dst->height, dst->depth, dst->texel, src->row / src->texel, src->height, src->depth,
        src->texel);
  copy->dst_array = dst->array;
  copy->src_array = src->array;
  copy->width = array->row;
  copy->height = array->height;
  copy->depth = array->depth;
  return 0;
}

static int read_extents(const state *st, PyObject *const *given, cch_memcpy_node *copy) {
  if (given[SIZE] == NULL || given[SIZE] == Py_None)
    return raise_error(PyExc_TypeError, "memcpy() needs size, unless dst or src is an OpaqueArray");
  copy->height = copy->depth = 1;
  if (read_size(st, given[SIZE], "size", 1, &copy->width) < 0 ||
      read_size(st, given[HEIGHT], "height", 1, &copy->height) < 0 ||
      read_size(st, given[DEPTH], "depth", 1, &copy->depth) < 0)
    return -1;
  return 0;
}

/*
 * Fills in the pitch and the height of an operand if the caller left them out, and checks them. The pitch and the
 * height of an array are not used.
 */
static int complete_layout(const cch_memcpy_node *copy, const operand *memory, size_t *pitch, size_t *height) {
  if (memory->array != NULL)
    return 0;
  if (*pitch == 0)
    *pitch = copy->width;
  if (*height == 0)
    *height = copy->height;
  if (*pitch < copy->width)
    return raise_error(PyExc_ValueError, "%s_pitch is %zu bytes from row to row, less than the row's %zu", memory->name,
                       *pitch, copy->width);
  if (*height < copy->height)
    return raise_error(PyExc_ValueError, "%s_height is %zu rows from slice to slice, less than the slice's %zu",
                       memory->name, *height, copy->height);
  return check_extent(memory, extent_of(copy->width, copy->height, copy->depth, *pitch, *height));
}

static int read_copy(state *st, PyObject *const *given, owners *keep, cch_memcpy_node *copy) {
  operand dst, src;
  if (read_memory_or_array(st, given[DST], given[DST_OWNER], "dst", keep, &dst) < 0 || check_writable(&dst) < 0 ||
      read_memory_or_array(st, given[SRC], given[SRC_OWNER], "src", keep, &src) < 0)
    return -1;
  copy->dst = dst.address;
  copy->src = src.address;
  bool has_array = dst.array != NULL || src.array != NULL;
  if ((has_array ? read_extents_of_array(given, &dst, &src, copy) : read_extents(st, given, copy)) < 0 ||
      read_size(st, given[DST_PITCH], "dst_pitch", 0, &copy->dst_pitch) < 0 ||
      read_size(st, given[SRC_PITCH], "src_pitch", 0, &copy->src_pitch) < 0 ||
      read_size(st, given[DST_HEIGHT], "dst_height", 0, &copy->dst_height) < 0 ||
      read_size(st, given[SRC_HEIGHT], "src_height", 0, &copy->src_height) < 0 ||
      complete_layout(copy, &dst, &copy->dst_pitch, &copy->dst_height) < 0)
    return -1;
  return complete_layout(copy, &src, &copy->src_pitch, &copy->src_height);
}

const int type_of_memcpy = CCH_NODE_MEMCPY;
int read_memcpy(state *st, const node_arguments *arguments, node_params *out) {
  owners keep;
  owners_init(&keep, false);
  out->of.memcpy.size = sizeof out->of.memcpy;
  return take_bundle(st, &keep, out, read_copy(st, arguments->named, &keep, &out->of.memcpy));
}
