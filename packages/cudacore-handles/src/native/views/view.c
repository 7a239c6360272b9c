/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frequent operations of StridedMemoryView. A view has the address, shape, strides, type and device of an array,
 * and keeps the memory alive by one of these: a tensor of its producer, which is deleted with the view; a box, if the
 * memory belongs to a Buffer, so that the memory outlives close(); or only the exporting object. Everything else is
 * created at the first use.
 */
#include "views/views.h"

/* ---- making views ---- */

view *view_new(const state *st, PyTypeObject *type, int32_t ndim) {
  if (ndim < 0 || ndim > VIEW_MAX_DIMENSIONS) {
    PyErr_Format(PyExc_BufferError, "the array has %d dimensions; 0 to %d are known", (int)ndim, VIEW_MAX_DIMENSIONS);
    return NULL;
  }
  view *self = new_object(type);
  if (self == NULL)
    return NULL;
  self->st = st;
  int64_t *dims = self->inside;
  if (ndim > VIEW_INLINE)
    dims = PyMem_Malloc(2 * (size_t)ndim * sizeof *dims);
  if (dims == NULL) {
    Py_DECREF(self);
    PyErr_NoMemory();
    return NULL;
  }
  self->tensor.ndim = ndim;
  self->tensor.shape = dims;
  self->tensor.strides = dims + ndim;
  return self;
}

/* Fills in the strides of C order. Returns -1 with an exception on failure. */
static int set_c_strides(view *self) {
  const bool empty = !dlpack_has_elements(&self->tensor);
  int64_t step = 1;
  for (int32_t i = self->tensor.ndim - 1; i >= 0; i--) {
    self->tensor.strides[i] = empty ? 0 : step;
    if (!empty && __builtin_mul_overflow(step, self->tensor.shape[i], &step))
      return raise_error(PyExc_OverflowError, "shape: value too large: the array has more than 2**63 - 1 elements");
  }
  return 0;
}

/*
 * Checks that all element offsets fit into 64 bits; and, if `size` is not negative, that all elements lie within that
 * many bytes from the address. Returns -1 with an exception on failure.
 */
static int check_extents(const view *self, int64_t size) {
  int64_t count = 1, low = 0, high = 0;
  bool empty = false, overflow = false;
  for (int32_t i = 0; i < self->tensor.ndim; i++) {
    int64_t extent = self->tensor.shape[i], reach;
    if (extent < 0)
      return raise_error(PyExc_ValueError, "shape: Extents must be non-negative, and one is %lld", (long long)extent);
    empty |= extent == 0;
    if (extent == 0)
      continue;
    overflow |= __builtin_mul_overflow(count, extent, &count);
    overflow |= __builtin_mul_overflow(extent - 1, self->tensor.strides[i], &reach);
    overflow |= __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
  }
  if (empty)
    return 0;
  const int64_t first = low;
  overflow |= __builtin_mul_overflow(count, self->itemsize, &count);
  overflow |= __builtin_mul_overflow(low, self->itemsize, &low);
  overflow |= __builtin_add_overflow(high, 1, &high);
  overflow |= __builtin_mul_overflow(high, self->itemsize, &high);
  if (overflow)
    return raise_error(PyExc_OverflowError, "shape: value too large: the array has more than 2**63 - 1 bytes");
  if (size < 0 || (first == 0 && high <= size))
    return 0;
  if (first < 0)
    PyErr_Format(PyExc_ValueError,
                 "Allocation size for a layout that maps elements to negative memory offsets is ambiguous. "
                 "The layout's min_offset is %lld.",
                 (long long)first);
  else
    PyErr_Format(PyExc_ValueError,
                 "Buffer size is too small for the layout. Expected at least %lld bytes, got %lld bytes.",
                 (long long)high, (long long)size);
  return -1;
}

int view_set_itemsize(view *self, uint64_t flags) {
  dl_data_type type = self->tensor.dtype;
  unsigned bits = (unsigned)type.bits * type.lanes;
  if (bits == 0 || (bits % 8 != 0 && !(flags & DL_PADDED)))
    return raise_error(
        PyExc_BufferError,
        "the array has elements of %u bits (DLPack's type code %u, %u lanes), several of which share a byte: "
        "such arrays are not supported; export it as bytes",
        (unsigned)type.bits, (unsigned)type.code, (unsigned)type.lanes);
  self->itemsize = (bits + 7) / 8;
  return 0;
}

int view_check_device(long long type) {
  if (type == DL_CPU || type == DL_CUDA || type == DL_CUDA_HOST || type == DL_CUDA_MANAGED)
    return 0;
  return raise_error(
      PyExc_BufferError,
      "device not supported: the array is on a device that is not CUDA's (DLPack type %lld); copy it to the "
      "host or to a CUDA device first",
      type);
}

/* Fills in a view from a tensor. The view has room for the dimensions. Returns -1 with an exception on failure. */
static int fill_in(view *self, const dl_tensor *tensor, uint64_t flags) {
  if (view_check_device(tensor->device.type) < 0)
    return -1;
  self->tensor.data = (void *)dlpack_address(tensor);
  self->tensor.device = tensor->device;
  self->tensor.dtype = tensor->dtype;
  self->read_only = (flags & DL_READ_ONLY) != 0;
  self->explicit = tensor->strides != NULL;
  if (view_set_itemsize(self, flags) < 0)
    return -1;
  size_t size = (size_t)tensor->ndim * sizeof(int64_t);
  if (size != 0) {
    memcpy(self->tensor.shape, tensor->shape, size);
    if (self->explicit)
      memcpy(self->tensor.strides, tensor->strides, size);
  }
  if (!self->explicit && set_c_strides(self) < 0)
    return -1;
  return check_extents(self, -1);
}

PyObject *view_of_managed(const state *st, PyTypeObject *type, void *managed, bool versioned, PyObject *exporting) {
  uint64_t flags;
  const dl_tensor *tensor = dlpack_tensor(managed, versioned, &flags);
  view *self = NULL;
  if (tensor != NULL && (exporting == Py_None || check_exchanged(st, exporting, tensor) == 0))
    self = view_new(st, type, tensor->ndim);
  if (self == NULL || fill_in(self, tensor, flags) < 0) {
    Py_XDECREF(self);
    dlpack_delete(managed, versioned);
    return NULL;
  }
  self->managed = managed;
  self->versioned = versioned;
  self->exporting = Py_NewRef(exporting);
  return (PyObject *)self;
}

int view_set_keeper(view *self, PyObject *keeper) {
  if (PyType_IsSubtype(Py_TYPE(keeper), self->st->buffer_type)) {
    self->box = handle_hold(keeper);
    return self->box != NULL ? 0 : -1;
  }
  if (!PyType_IsSubtype(Py_TYPE(keeper), self->st->view_type))
    return 0;
  const view *other = (const view *)keeper;
  if (other->box != NULL) {
    self->box = cch_deviceptr_ref(other->box);
  } else if (other->managed != NULL || other->keeper != NULL) {
    self->keeper = other->managed != NULL ? keeper : other->keeper;
    Py_INCREF(self->keeper);
  }
  return 0;
}

/* Replaces the exception for an item that is not an int, or not one of 64 bits. Returns -1. */
static int raise_bad_dims(const char *name, PyObject *tuple, PyObject *item) {
  if (PyErr_ExceptionMatches(PyExc_TypeError))
    return raise_error(PyExc_TypeError, "%s must be a tuple of ints, not %R", name, tuple);
  if (!PyErr_ExceptionMatches(PyExc_OverflowError))
    return -1;
  return raise_error(PyExc_OverflowError, "value too large: a number in %s is %S, which does not fit into 64 bits",
                     name, item);
}

/* Reads a tuple of ints. Returns -1 with an exception on failure. */
static int read_dims(const char *name, PyObject *tuple, int64_t *out, int64_t divisor) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
    PyObject *item = PyTuple_GetItem(tuple, i);
    out[i] = PyLong_AsLongLong(item);
    if (out[i] == -1 && PyErr_Occurred())
      return raise_bad_dims(name, tuple, item);
    if (out[i] % divisor != 0)
      return raise_error(PyExc_ValueError,
                         "strides must be divisible by itemsize (%lld), and one is of %lld bytes: copy the array first",
                         (long long)divisor, (long long)out[i]);
    out[i] /= divisor;
  }
  return 0;
}

dl_data_type view_type(unsigned long packed) {
  return (dl_data_type){.code = (uint8_t)packed, .bits = (uint8_t)(packed >> 8), .lanes = (uint16_t)(packed >> 16)};
}

int view_set_dims(view *self, PyObject *shape, PyObject *strides, int64_t unit, int64_t size) {
  self->explicit = strides != Py_None;
  if (read_dims("shape", shape, self->tensor.shape, 1) < 0)
    return -1;
  if (self->explicit) {
    if (PyTuple_Size(strides) != self->tensor.ndim)
      return raise_error(
          PyExc_ValueError,
          "Strides, if provided, must have the same length as shape. Shape has %d dimensions, but strides has "
          "%zd elements.",
          (int)self->tensor.ndim, PyTuple_Size(strides));
    if (read_dims("strides", strides, self->tensor.strides, unit) < 0)
      return -1;
  } else if (set_c_strides(self) < 0) {
    return -1;
  }
  return check_extents(self, size);
}

/* Returns the alignment that devices require of an element; 1 for raw data. */
static int64_t alignment_of(dl_data_type type) {
  enum { COMPLEX = 5 };
  int bits = type.code == COMPLEX ? type.bits / 2 : type.bits;
  return type.code == DL_NO_CODE || bits == 0 || bits % 8 != 0 ? 1 : bits / 8;
}

int view_check_alignment(const view *self) {
  uintptr_t address = (uintptr_t)self->tensor.data;
  int64_t alignment = alignment_of(self->tensor.dtype);
  if (self->tensor.device.type == DL_CPU || address % (uintptr_t)alignment == 0)
    return 0;
  return raise_error(
      PyExc_ValueError,
      "the address %p is not aligned to %lld bytes, which kernels need for elements of this dtype; begin "
      "elsewhere, or view the memory as bytes",
      self->tensor.data, (long long)alignment);
}

int view_check_class(const state *st, const char *function, PyObject *cls) {
  if (cls != NULL && PyType_Check(cls) && PyType_IsSubtype((PyTypeObject *)cls, st->view_type))
    return 0;
  return raise_error(PyExc_TypeError, "%s() is a method of StridedMemoryView", function);
}

static PyObject *view_make(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("view_make(cls, ptr, ...)", count, 13) < 0)
    return NULL;
  PyObject *shape = arguments[2], *strides = arguments[3];
  if (!PyTuple_Check(shape) || (strides != Py_None && !PyTuple_Check(strides)))
    return PyErr_Format(PyExc_TypeError, "shape and strides must be tuples of ints");
  void *data = PyLong_AsVoidPtr(arguments[1]);
  long long itemsize = PyLong_AsLongLong(arguments[4]);
  unsigned long type = PyLong_AsUnsignedLong(arguments[5]);
  long device_type = PyLong_AsLong(arguments[7]), device = PyLong_AsLong(arguments[8]);
  int read_only = PyObject_IsTrue(arguments[9]);
  int aligned = PyObject_IsTrue(arguments[12]);
  if (PyErr_Occurred())
    return NULL;
  view *self = view_new(st, (PyTypeObject *)arguments[0], (int32_t)PyTuple_Size(shape));
  if (self == NULL)
    return NULL;
  self->tensor.data = data;
  self->tensor.device = (dl_device){.type = (int32_t)device_type, .id = (int32_t)device};
  self->tensor.dtype = view_type(type);
  self->itemsize = itemsize;
  self->read_only = read_only != 0;
  if (arguments[6] != Py_Ellipsis) { /* otherwise the dtype is derived from the type when it is first read */
    Py_INCREF(arguments[6]);
    self->dtype = arguments[6];
  }
  Py_INCREF(arguments[10]);
  self->exporting = arguments[10];
  if (view_set_dims(self, shape, strides, 1, -1) < 0 || view_set_keeper(self, arguments[11]) < 0 ||
      (aligned && view_check_alignment(self) < 0)) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

/* ---- the class ---- */

static PyObject *tuple_of(const int64_t *numbers, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple != NULL && i < count; i++) {
    PyObject *number = PyLong_FromLongLong(numbers[i]);
    if (number == NULL || PyTuple_SetItem(tuple, i, number) < 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *get_device_id(PyObject *object, void *closure) {
  (void)closure;
  dl_device device = ((view *)object)->tensor.device;
  return PyLong_FromLong(device.type == DL_CPU ? -1 : device.id);
}

static PyObject *get_is_device_accessible(PyObject *object, void *closure) {
  (void)closure;
  return PyBool_FromLong(((view *)object)->tensor.device.type != DL_CPU);
}

static PyObject *get_shape(PyObject *object, void *closure) {
  (void)closure;
  view *self = (view *)object;
  PyObject *known = field_get(self, &self->shape);
  return known != NULL ? known : field_keep(self, &self->shape, tuple_of(self->tensor.shape, self->tensor.ndim));
}

static PyObject *get_strides(PyObject *object, void *closure) {
  (void)closure;
  view *self = (view *)object;
  if (!self->explicit)
    Py_RETURN_NONE;
  PyObject *known = field_get(self, &self->strides);
  return known != NULL ? known : field_keep(self, &self->strides, tuple_of(self->tensor.strides, self->tensor.ndim));
}

static PyObject *get_size(PyObject *object, void *closure) {
  (void)closure;
  const view *self = (view *)object;
  int64_t size = dlpack_has_elements(&self->tensor); /* the product of the other extents can be too large */
  for (int32_t i = 0; i < self->tensor.ndim && size != 0; i++)
    size *= self->tensor.shape[i];
  return PyLong_FromLongLong(size);
}

static PyObject *get_dtype(PyObject *object, void *closure) {
  (void)closure;
  view *self = (view *)object;
  PyObject *known = field_get(self, &self->dtype);
  if (known != NULL)
    return known;
  dl_data_type type = self->tensor.dtype;
  return field_keep(
      self, &self->dtype,
      PyObject_CallFunction(self->st->faces.dtype_of, "iii", (int)type.code, (int)type.bits, (int)type.lanes));
}

static PyObject *get_dtype_as_it_is(PyObject *object, void *closure) {
  (void)closure;
  PyObject *dtype = field_get(object, &((view *)object)->dtype);
  return dtype != NULL ? dtype : Py_NewRef(Py_Ellipsis);
}

static PyObject *get_layout(PyObject *object, void *closure) {
  view *self = (view *)object;
  PyObject *known = field_get(self, &self->layout);
  if (known != NULL)
    return known;
  PyObject *shape = get_shape(object, closure), *strides = get_strides(object, closure), *made = NULL;
  if (shape != NULL && strides != NULL)
    made = PyObject_CallFunction(self->st->faces.layout_of, "OOL", shape, strides, (long long)self->itemsize);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return field_keep(self, &self->layout, made);
}

static PyObject *get_device(PyObject *object, void *closure) {
  (void)closure;
  dl_device device = ((view *)object)->tensor.device;
  return Py_BuildValue("(ii)", (int)device.type, (int)device.id);
}

static PyObject *dlpack_device(PyObject *object, PyObject *nothing) {
  (void)nothing;
  return get_device(object, NULL);
}

static PyObject *check_memory(PyObject *object, PyObject *nothing) {
  (void)nothing;
  const view *self = (view *)object;
  return self->box != NULL && memory_check(self->st, self->box) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *get_stream(PyObject *object, void *closure) {
  (void)closure;
  const view *self = (view *)object;
  return stream_face(self->st, self->box != NULL ? cch_deviceptr_stream_ref(self->box) : NULL);
}

static PyObject *record_stream(PyObject *object, PyObject *argument) {
  const view *self = (view *)object;
  if (self->box == NULL)
    return PyErr_Format(PyExc_TypeError,
                        "the memory of the view is not a Buffer's: its own library must order the free "
                        "after the work of the stream");
  int status = memory_with_stream(self->st, self->box, argument, cch_deviceptr_record_stream);
  return status == 0 ? Py_NewRef(Py_None) : NULL;
}

static int view_traverse(PyObject *object, visitproc visit, void *arg) {
  const view *self = (view *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->keeper);
  Py_VISIT(self->exporting);
  Py_VISIT(self->dtype);
  Py_VISIT(self->layout);
  Py_VISIT(self->shape);
  Py_VISIT(self->strides);
  return 0;
}

/*
 * The owner of the memory is released only with the view, because other objects in the same cycle may still read the
 * memory.
 */
static int view_clear(PyObject *object) {
  view *self = (view *)object;
  Py_CLEAR(self->exporting);
  Py_CLEAR(self->dtype);
  Py_CLEAR(self->layout);
  Py_CLEAR(self->shape);
  Py_CLEAR(self->strides);
  return 0;
}

static void view_dealloc(PyObject *object) {
  view *self = (view *)object;
  PyObject_GC_UnTrack(object);
  KEEPING_EXCEPTION({
    dlpack_delete(self->managed, self->versioned);
    box_unref(self->box);
    view_clear(object);
    Py_CLEAR(self->keeper);
    if (self->st != NULL)
      owners_drain(self->st);
  });
  if (self->tensor.shape != self->inside)
    PyMem_Free(self->tensor.shape);
  free_object(object);
}

static PyGetSetDef properties[] = {
    {"device_id", get_device_id, NULL, DOC_ViewHandle_device_id, NULL},
    {"is_device_accessible", get_is_device_accessible, NULL, DOC_ViewHandle_is_device_accessible, NULL},
    {"shape", get_shape, NULL, DOC_ViewHandle_shape, NULL},
    {"strides", get_strides, NULL, DOC_ViewHandle_strides, NULL},
    {"size", get_size, NULL, DOC_ViewHandle_size, NULL},
    {"dtype", get_dtype, NULL, DOC_ViewHandle_dtype, NULL},
    {"_layout", get_layout, NULL, DOC_ViewHandle__layout, NULL},
    {"_dtype_as_it_is", get_dtype_as_it_is, NULL, NULL, NULL},
    {"_device", get_device, NULL, NULL, NULL},
    {"_stream", get_stream, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyObject *dlpack(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return dlpack_export(((view *)object)->st, object, arguments, count, keywords);
}

static PyMethodDef methods[] = {
    {"__dlpack__", FASTCALL(dlpack), METH_FASTCALL | METH_KEYWORDS, DOC_ViewHandle___dlpack__},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, DOC_ViewHandle___dlpack_device__},
    {"_order", view_order, METH_O, NULL},
    {"_check_memory", check_memory, METH_NOARGS, NULL},
    {"record_stream", record_stream, METH_O, DOC_ViewHandle_record_stream},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"exporting_obj", T_OBJECT, offsetof(view, exporting), READONLY, DOC_ViewHandle_exporting_obj},
    {"ptr", T_ULONGLONG, offsetof(view, tensor.data), READONLY, DOC_ViewHandle_ptr},
    {"readonly", T_BOOL, offsetof(view, read_only), READONLY, DOC_ViewHandle_readonly},
    {"_itemsize", T_LONGLONG, offsetof(view, itemsize), READONLY, NULL},
    {"_type", T_UINT, offsetof(view, tensor.dtype), READONLY, NULL}, /* code | bits << 8 | lanes << 16 */
    {NULL, 0, 0, 0, NULL},
};

static PyType_Spec spec =
    GC_TYPE_SPEC("cudacore_handles.StridedMemoryView", view, SLOT(tp_doc, DOC_ViewHandle),
                 SLOT(tp_dealloc, view_dealloc), SLOT(tp_traverse, view_traverse), SLOT(tp_clear, view_clear),
                 SLOT(tp_methods, methods), SLOT(tp_members, members), SLOT(tp_getset, properties));

static PyMethodDef functions[] = {
    {"view_make", FASTCALL(view_make), METH_FASTCALL, DOC_view_make},
    {NULL, NULL, 0, NULL},
};

int add_view_type(PyObject *module, state *st) {
  st->views.dlpack_arguments =
      Py_BuildValue("{OOO(ii)}", st->names.stream, Py_None, st->names.max_version, DL_MAJOR, DL_MINOR);
  st->views.dlpack_types = PyDict_New();
  if (st->views.dlpack_arguments == NULL || st->views.dlpack_types == NULL)
    return -1;
  return add_type(module, functions, "ViewHandle", &spec, NULL, &st->view_type);
}
