/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that copy, fill, allocate and free memory. */
#include "graph/node_methods.h"
#include "memory/buffer.h"

/* ---- operands ---- */

/* One operand of a copy or a fill. */
typedef struct operand {
  const char *name;
  CUdeviceptr address;
  Py_ssize_t size; /* the size of the operand's memory; -1 if it is not known */
  bool read_only;
  CUarray array;                    /* the array, which is used instead of the address; NULL if the operand is memory */
  size_t row, height, depth, texel; /* sizes of an array: bytes of a row, rows, planes, bytes of a texel */
} operand;

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

/* Reads an address: an int, or an object that Python code accepts as memory. */
static int read_address(const state *st, PyObject *value, const char *name, CUdeviceptr *out) {
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
    return owners_add(keep, (owned){NULL, keeper, 0, HELD});
  }
  void *box = handle_hold(keeper); /* keeps the memory alive, but not the face */
  if (box == NULL)
    return -1;
  out->size = rest_of(box, out->address);
  return owners_add(keep, (owned){box, NULL, 0, HELD});
}

/*
 * Reads an operand. Adds exactly one item to `keep`: the owner of the memory, or an empty item. So an update of one
 * operand of a copy finds the owner of the other operand by its index.
 */
static int read_memory(state *st, PyObject *value, PyObject *owner, const char *name, owners *keep, operand *out) {
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
  if (owners_add(keep, (owned){box, NULL, 0, HELD}) < 0)
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

/* Like read_memory(), for an operand that can also be an array. */
static int read_memory_or_array(state *st, PyObject *value, PyObject *owner, const char *name, owners *keep,
                                operand *out) {
  if (PyLong_CheckExact(value) || is_buffer(st, value) || !is_array(st, value))
    return read_memory(st, value, owner, name, keep, out);
  *out = (operand){.name = name, .size = -1};
  return read_array(st, value, owner, keep, out);
}

static int check_writable(const operand *memory) {
  if (!memory->read_only)
    return 0;
  return raise_error(PyExc_ValueError, "%s is host memory that was registered read-only, and the node would write it",
                     memory->name);
}

static int check_extent(const operand *memory, uint64_t bytes) {
  if (memory->size < 0 || bytes <= (uint64_t)memory->size)
    return 0;
  return raise_error(PyExc_ValueError, "%s has %zd bytes, and the node would use %llu", memory->name, memory->size,
                     (unsigned long long)bytes);
}

/*
 * Returns the number of bytes between the first and the last byte of rows and slices; UINT64_MAX if no memory is that
 * large.
 */
static uint64_t extent_of(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
  __extension__ typedef unsigned __int128 wide;
  wide bytes = (wide)width + (wide)pitch * (height - 1) + (wide)pitch * slice * (depth - 1);
  return bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes;
}

/* ---- copies ---- */

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

/* ---- fills ---- */

/* The arguments of memset(), in the order of its stub. */
enum { FILL_DST, FILL_VALUE, FILL_WIDTH, FILL_HEIGHT, FILL_PITCH, FILL_OWNER };

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
  if (read_memory(st, given[FILL_DST], given[FILL_OWNER], "dst", keep, &dst) < 0 || check_writable(&dst) < 0 ||
      read_fill(st, given[FILL_VALUE], fill) < 0 || read_size(st, given[FILL_WIDTH], "width", 1, &fill->width) < 0 ||
      read_size(st, given[FILL_HEIGHT], "height", 1, &fill->height) < 0 ||
      read_size(st, given[FILL_PITCH], "pitch", 0, &fill->pitch) < 0)
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

/* ---- allocations and frees ---- */

/* Reads the tuple (location type, location, allocation type, peers) that the Python code made from the arguments. */
static int read_place(PyObject *place, node_params *out) {
  cch_alloc_node *alloc = &out->of.alloc;
  int location_type, location, alloc_type;
  PyObject *peers;
  if (!PyArg_ParseTuple(place, "iiiO!:alloc_place", &location_type, &location, &alloc_type, &PyTuple_Type, &peers))
    return -1;
  alloc->location_type = location_type;
  alloc->location_id = location;
  alloc->alloc_type = alloc_type;
  alloc->peer_count = (size_t)PyTuple_Size(peers);
  if (alloc->peer_count == 0)
    return 0;
  int32_t *ordinals = out->heap = PyMem_Malloc(alloc->peer_count * sizeof *ordinals);
  if (ordinals == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < alloc->peer_count; i++)
    ordinals[i] = (int32_t)PyLong_AsLong(PyTuple_GetItem(peers, (Py_ssize_t)i));
  alloc->peers = ordinals;
  return PyErr_Occurred() ? -1 : 0;
}

const int type_of_allocate = CCH_NODE_ALLOC;
int read_allocate(state *st, const node_arguments *arguments, node_params *out) {
  PyObject *const *given = arguments->named;
  cch_alloc_node *alloc = &out->of.alloc;
  alloc->size = sizeof *alloc;
  if (read_size(st, given[0], "size", 1, &alloc->bytes) < 0)
    return -1;
  bool plain = true;
  for (int i = 1; i <= 3; i++)
    plain &= given[i] == NULL || given[i] == Py_None;
  if (plain) {
    int device = 0;
    if (check_status(st, cch_current_device(&device)) < 0)
      return -1;
    alloc->location_type = CCH_LOCATION_DEVICE;
    alloc->location_id = device;
    return 0;
  }
  PyObject *place =
      PyObject_CallFunctionObjArgs(st->faces.alloc_place, given[1] != NULL ? given[1] : Py_None,
                                   given[2] != NULL ? given[2] : Py_None, given[3] != NULL ? given[3] : Py_None, NULL);
  int status = place != NULL ? read_place(place, out) : -1;
  Py_XDECREF(place);
  return status;
}

const int type_of_deallocate = CCH_NODE_FREE;
int read_deallocate(state *st, const node_arguments *arguments, node_params *out) {
  CUdeviceptr address = 0;
  if (read_address(st, arguments->named[0], "dptr", &address) < 0)
    return -1;
  if (address == 0)
    return raise_error(PyExc_ValueError, "dptr is NULL: there is nothing to free");
  out->of.free = (cch_free_node){.size = sizeof out->of.free, .address = address};
  return 0;
}
