/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast functions of TensorMapDescriptor: the 128 bytes for kernels, their configuration, and the view of the
 * memory. The C library checks the rules.
 */
#include "views/views.h"

enum { WHOLE = -1, ALL = -2 }; /* used instead of a place: the argument is a number; or it should be a sequence */

static int raise_not_int(const char *name, Py_ssize_t place, PyObject *given) {
  PyObject *type = type_name(given);
  if (type != NULL && place < 0)
    PyErr_Format(PyExc_TypeError, "%s must be %s, not %U", name, place == ALL ? "a tuple of ints" : "an int", type);
  else if (type != NULL)
    PyErr_Format(PyExc_TypeError, "%s[%zd] must be an int, not %U", name, place, type);
  Py_XDECREF(type);
  return -1;
}

/* Reads an int, whose bounds the library checks. An int of more than 64 bits is beyond all bounds. */
static int read_int(const state *st, const char *name, Py_ssize_t place, PyObject *given, int64_t *out) {
  PyObject *number = integer_of(st, given);
  if (number == NULL)
    return PyErr_Occurred() ? -1 : raise_not_int(name, place, given);
  int overflow;
  *out = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0)
    *out = overflow > 0 ? INT64_MAX : INT64_MIN;
  Py_DECREF(number);
  return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Reads a sequence with an int for each of `count` axes. Returns -1 with an exception on failure. */
static int read_axes(const state *st, const char *name, PyObject *given, int32_t count, int64_t *out) {
  if (!PySequence_Check(given) || PyUnicode_Check(given) || PyBytes_Check(given))
    return raise_not_int(name, ALL, given);
  PyObject *axes = PySequence_Tuple(given);
  if (axes == NULL) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError))
      return -1;
    PyErr_Clear(); /* an array without dimensions */
    return raise_not_int(name, ALL, given);
  }
  int status = 0;
  if (PyTuple_Size(axes) != count)
    status = raise_error(PyExc_ValueError, "%s has %zd elements; it must have %d: one for each of its axes", name,
                         PyTuple_Size(axes), (int)count);
  for (int32_t i = 0; i < count && status == 0; i++)
    status = read_int(st, name, i, PyTuple_GetItem(axes, i), &out[i]);
  Py_DECREF(axes);
  return status;
}

/* Reads a member of an enumeration, or None for the one of number 0. `which` is its place in `map_choices`. */
static int read_choice(const state *st, Py_ssize_t which, PyObject *given, int32_t *out) {
  *out = 0;
  if (given == Py_None)
    return 0;
  PyObject *choice = PyTuple_GetItem(st->faces.map_choices, which);
  PyObject *name = PyTuple_GetItem(choice, 0), *cls = PyTuple_GetItem(choice, 1);
  if ((PyObject *)Py_TYPE(given) != cls) {
    Py_XDECREF(PyObject_CallFunctionObjArgs(st->faces.check_choice, name, cls, given, NULL));
    return -1;
  }
  *out = (int32_t)PyLong_AsLong(given);
  return 0;
}

/* Fills in the fields that the view determines. Returns -1 with an exception on failure. */
static int read_view(const state *st, const view *tensor, cch_tensor_map_config *config) {
  const dl_device device = tensor->tensor.device;
  if (device.type == DL_CPU)
    return raise_error(PyExc_ValueError, "the tensor must be device-accessible, and is in host memory: copy it to the "
                                         "device");
  config->device = device.id;
  if (device.type != DL_CUDA && check_status(st, cch_current_device(&config->device)) < 0)
    return -1;
  config->address = (uintptr_t)tensor->tensor.data;
  config->rank = tensor->tensor.ndim;
  for (int32_t i = 0; i < tensor->tensor.ndim && i < CCH_TENSOR_MAP_MAX_RANK; i++) {
    config->shape[i] = tensor->tensor.shape[i];
    config->strides[i] = tensor->tensor.strides[i] * tensor->itemsize;
  }
  return 0;
}

/*
 * Returns whether the number of axes is one that CUDA supports. If it is not, the sequences are not read, and the
 * library reports the error.
 */
static bool has_known_rank(const cch_tensor_map_config *config) {
  int32_t min_rank = config->kind == CCH_TENSOR_MAP_TILED ? 1 : 3;
  return config->rank >= min_rank && config->rank <= CCH_TENSOR_MAP_MAX_RANK;
}

enum { TILED_ARGUMENTS = 10, ALL_ARGUMENTS = 15 };

static int read_arguments(const state *st, PyObject *const *arguments, cch_tensor_map_config *config) {
  int32_t *const choices[] = {&config->interleave, &config->swizzle, &config->l2_promotion, &config->oob_fill};
  config->kind = (int32_t)PyLong_AsLong(arguments[2]);
  config->data_type = (int32_t)PyLong_AsLong(arguments[3]);
  if (PyErr_Occurred())
    return -1;
  for (int i = 0; i < 4; i++)
    if (read_choice(st, i, arguments[4 + i], choices[i]) < 0)
      return -1;
  if (read_view(st, (const view *)arguments[1], config) < 0)
    return -1;
  if (!has_known_rank(config))
    return 0;
  for (int32_t i = 0; i < config->rank; i++)
    config->element_strides[i] = 1;
  if (arguments[8] != Py_None &&
      read_axes(st, "element_strides", arguments[8], config->rank, config->element_strides) < 0)
    return -1;
  if (config->kind == CCH_TENSOR_MAP_TILED)
    return read_axes(st, "box_dim", arguments[9], config->rank, config->box_dim);
  int32_t corners = config->kind == CCH_TENSOR_MAP_IM2COL ? config->rank - 2 : 1;
  if (read_axes(st, "pixel_box_lower_corner", arguments[10], corners, config->lower_corner) < 0 ||
      read_axes(st, "pixel_box_upper_corner", arguments[11], corners, config->upper_corner) < 0 ||
      read_int(st, "channels_per_pixel", WHOLE, arguments[12], &config->channels_per_pixel) < 0 ||
      read_int(st, "pixels_per_column", WHOLE, arguments[13], &config->pixels_per_column) < 0)
    return -1;
  return read_choice(st, 4, arguments[14], &config->wide_mode);
}

/* Calls the driver without the GIL. Returns -1 with an exception on failure. */
static int encode(const state *st, cch_tensor_map *map, const cch_tensor_map_config *config) {
  int status;
  WITHOUT_GIL(status = cch_tensor_map_encode(map, config));
  if (status == 0)
    return 0;
  raise_invalid(st, status);
  return -1;
}

static PyObject *tensor_map_make(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (count != TILED_ARGUMENTS && check_argument_count("tensor_map_make(cls, view, ...)", count, ALL_ARGUMENTS) < 0)
    return NULL;
  PyTypeObject *cls = (PyTypeObject *)arguments[0];
  if (!PyType_Check(arguments[0]) || !PyType_IsSubtype(cls, st->tensor_map_type))
    return PyErr_Format(PyExc_TypeError, "a class of tensor maps is needed");
  if (!PyType_IsSubtype(Py_TYPE(arguments[1]), st->view_type)) {
    raise_about(PyExc_TypeError, "a StridedMemoryView is needed, not %U", arguments[1], 0, 0);
    return NULL;
  }
  cch_tensor_map_config config = {0};
  cch_tensor_map map;
  if (read_arguments(st, arguments, &config) < 0)
    return NULL;
  if (encode(st, &map, &config) < 0)
    return NULL;
  tensor_map *self = new_object(cls);
  if (self == NULL)
    return NULL;
  self->st = st;
  self->map = map;
  self->config = config;
  Py_INCREF(arguments[1]);
  self->tensor = arguments[1];
  return (PyObject *)self;
}

/* ---- replacing the memory that a map describes ---- */

/* Returns the bytes from the address of a tensor to the end of its last element; strides are in bytes. */
static int64_t reach(int32_t rank, const int64_t *shape, const int64_t *strides, int64_t unit, int64_t itemsize) {
  int64_t bytes = itemsize;
  for (int32_t i = 0; i < rank; i++) {
    if (shape[i] == 0)
      return 0;
    if (strides[i] > 0)
      bytes += (shape[i] - 1) * strides[i] * unit;
  }
  return bytes;
}

static int check_replacement(const cch_tensor_map_config *config, const view *tensor,
                             const cch_tensor_map_config *now) {
  int32_t last = config->rank - 1;
  int64_t needed = reach(config->rank, config->shape, config->strides, 1, config->strides[last]);
  int64_t given =
      reach(tensor->tensor.ndim, tensor->tensor.shape, tensor->tensor.strides, tensor->itemsize, tensor->itemsize);
  if (given < needed)
    return raise_error(
        PyExc_ValueError,
        "the new tensor has %lld bytes, and the tensor map describes %lld: its shape and strides stay as they "
        "were",
        (long long)given, (long long)needed);
  if (tensor->tensor.device.type == DL_CUDA && now->device != config->device)
    return raise_error(PyExc_ValueError, "the new tensor is on device %d, and the tensor map is for device %d",
                       (int)now->device, (int)config->device);
  return 0;
}

static PyObject *tensor_map_replace(PyObject *object, PyObject *tensor) {
  tensor_map *self = (tensor_map *)object;
  const state *st = self->st;
  if (st == NULL)
    return PyErr_Format(PyExc_TypeError, "the tensor map was never made: use StridedMemoryView.as_tensor_map()");
  if (!PyType_IsSubtype(Py_TYPE(tensor), st->view_type)) {
    raise_about(PyExc_TypeError, "a StridedMemoryView is needed, not %U", tensor, 0, 0);
    return NULL;
  }
  cch_tensor_map_config now = {0}, config;
  LOCK_OBJECT(self);
  config = self->config;
  UNLOCK_OBJECT();
  if (read_view(st, (const view *)tensor, &now) < 0 || check_replacement(&config, (const view *)tensor, &now) < 0)
    return NULL;
  config.address = now.address;
  cch_tensor_map map;
  if (encode(st, &map, &config) < 0)
    return NULL;
  /* The map and the tensor are replaced together: a launch that packs the map keeps the right tensor. */
  PyObject *old;
  LOCK_OBJECT(self);
  self->map = map;
  self->config.address = config.address;
  old = self->tensor;
  self->tensor = Py_NewRef(tensor);
  UNLOCK_OBJECT();
  Py_DECREF(old);
  Py_RETURN_NONE;
}

/* ---- the class ---- */

static PyObject *tensor_map_bytes(PyObject *object, PyObject *nothing) {
  (void)nothing;
  cch_tensor_map map;
  LOCK_OBJECT(object);
  map = ((tensor_map *)object)->map;
  UNLOCK_OBJECT();
  return PyBytes_FromStringAndSize((const char *)&map, sizeof map);
}

static PyObject *get_tensor(PyObject *object, void *closure) {
  (void)closure;
  PyObject *tensor = field_get(object, &((tensor_map *)object)->tensor);
  return tensor != NULL ? tensor : Py_NewRef(Py_None); /* NULL: this module did not initialise the object */
}

/* tp_clear is not needed: if the view is in a reference cycle, the tp_clear of the view breaks the cycle. */
static int tensor_map_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(((tensor_map *)object)->tensor);
  return 0;
}

static void tensor_map_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  KEEPING_EXCEPTION(Py_CLEAR(((tensor_map *)object)->tensor));
  free_object(object);
}

/* Replacing the address does not change these. */
#define NUMBER(name, field) {name, T_INT, offsetof(tensor_map, config.field), READONLY, NULL}

static PyMemberDef members[] = {
    NUMBER("_kind", kind), NUMBER("_device", device),   NUMBER("_data_type", data_type),
    NUMBER("_rank", rank), NUMBER("_swizzle", swizzle), {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"_tensor", get_tensor, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"_replace", tensor_map_replace, METH_O, NULL},
    {"__bytes__", tensor_map_bytes, METH_NOARGS, DOC_TensorMapHandle___bytes__},
    {NULL, NULL, 0, NULL},
};

static PyType_Spec spec =
    GC_TYPE_SPEC("cudacore_handles.TensorMapDescriptor", tensor_map, SLOT(tp_doc, DOC_TensorMapHandle),
                 SLOT(tp_dealloc, tensor_map_dealloc), SLOT(tp_traverse, tensor_map_traverse),
                 SLOT(tp_methods, methods), SLOT(tp_members, members), SLOT(tp_getset, properties));

static PyMethodDef functions[] = {
    {"tensor_map_make", FASTCALL(tensor_map_make), METH_FASTCALL, DOC_tensor_map_make},
    {NULL, NULL, 0, NULL},
};

int add_tensor_map_type(PyObject *module, state *st) {
  return add_type(module, functions, "TensorMapHandle", &spec, NULL, &st->tensor_map_type);
}
