/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot half of StridedMemoryView: what an array is (its address, shape, strides, type and device), and what keeps
 * its memory.
 *
 * That is a tensor which its producer lent, and which is given back with the view; or a box, where the memory is a
 * Buffer's, so that it outlives close(); or the exporting object alone. All else is made when it is asked for.
 */
#include "native.h"

enum { NO_ORDER = -1 };

/* ---- making views ---- */

static view *view_new(const state *st, PyTypeObject *type, int32_t ndim) {
  if (ndim < 0 || ndim > VIEW_MAX_DIMENSIONS) {
    PyErr_Format(PyExc_BufferError, "the array has %d dimensions; 0 to %d are known", (int)ndim, VIEW_MAX_DIMENSIONS);
    return NULL;
  }
  allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  view *self = (view *)make(type, 0);
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

/* Fills in the strides of C order; -1 with an exception. */
static int set_c_strides(view *self) {
  bool empty = false;
  for (int32_t i = 0; i < self->tensor.ndim; i++)
    empty |= self->tensor.shape[i] == 0;
  int64_t step = 1;
  for (int32_t i = self->tensor.ndim - 1; i >= 0; i--) {
    self->tensor.strides[i] = empty ? 0 : step;
    if (!empty && __builtin_mul_overflow(step, self->tensor.shape[i], &step)) {
      PyErr_SetString(PyExc_OverflowError, "shape: value too large: the array has more than 2**63 - 1 elements");
      return -1;
    }
  }
  return 0;
}

/*
 * Checks that no element lies beyond what 64 bits can say, nor, where `size` is not negative, before the address or
 * beyond so many bytes; -1 with an exception.
 */
static int check_extents(const view *self, int64_t size) {
  int64_t count = 1, low = 0, high = 0;
  bool empty = false, overflow = false;
  for (int32_t i = 0; i < self->tensor.ndim; i++) {
    int64_t extent = self->tensor.shape[i], reach;
    if (extent < 0) {
      PyErr_Format(PyExc_ValueError, "shape: Extents must be non-negative, and one is %lld", (long long)extent);
      return -1;
    }
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
  if (overflow) {
    PyErr_SetString(PyExc_OverflowError, "shape: value too large: the array has more than 2**63 - 1 bytes");
    return -1;
  }
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

/* Sets the size of elements from the type; -1 with an exception. */
static int set_itemsize(view *self, uint64_t flags) {
  dl_data_type type = self->tensor.dtype;
  unsigned bits = (unsigned)type.bits * type.lanes;
  if (bits == 0 || (bits % 8 != 0 && !(flags & DL_PADDED))) {
    PyErr_Format(PyExc_BufferError,
                 "the array has elements of %u bits (DLPack's type code %u, %u lanes), several of which share a byte: "
                 "such arrays are not supported; export it as bytes",
                 (unsigned)type.bits, (unsigned)type.code, (unsigned)type.lanes);
    return -1;
  }
  self->itemsize = (bits + 7) / 8;
  return 0;
}

static bool is_known_device(int32_t type) {
  return type == DL_CPU || type == DL_CUDA || type == DL_CUDA_HOST || type == DL_CUDA_MANAGED;
}

static int raise_device(int32_t type) {
  PyErr_Format(PyExc_BufferError,
               "device not supported: the array is on a device that is not CUDA's (DLPack type %d); copy it to the "
               "host or to a CUDA device first",
               (int)type);
  return -1;
}

/* Fills in a view, which has room for the dimensions, from a tensor; -1 with an exception. */
static int fill_in(view *self, const dl_tensor *tensor, uint64_t flags) {
  if (!is_known_device(tensor->device.type))
    return raise_device(tensor->device.type);
  self->tensor.data = (char *)tensor->data + tensor->byte_offset;
  self->tensor.device = tensor->device;
  self->tensor.dtype = tensor->dtype;
  self->read_only = (flags & DL_READ_ONLY) != 0;
  self->explicit = tensor->strides != NULL;
  if (set_itemsize(self, flags) < 0)
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
  view *self = tensor != NULL ? view_new(st, type, tensor->ndim) : NULL;
  if (self == NULL) {
    dlpack_delete(managed, versioned);
    return NULL;
  }
  self->managed = managed;
  self->versioned = versioned;
  Py_INCREF(exporting);
  self->exporting = exporting;
  if (fill_in(self, tensor, flags) < 0) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

/* Takes over what keeps the memory of a buffer or another view; -1 with an exception. */
static int set_keeper(view *self, PyObject *keeper) {
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

/* Reads a tuple of ints; -1 with an exception. */
static int read_dims(PyObject *tuple, int64_t *out, int64_t divisor) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (out[i] == -1 && PyErr_Occurred())
      return -1;
    if (out[i] % divisor != 0) {
      PyErr_Format(PyExc_ValueError,
                   "strides must be divisible by itemsize (%lld), and one is of %lld bytes: copy the array first",
                   (long long)divisor, (long long)out[i]);
      return -1;
    }
    out[i] /= divisor;
  }
  return 0;
}

static dl_data_type unpack_type(unsigned long packed) {
  return (dl_data_type){.code = (uint8_t)packed, .bits = (uint8_t)(packed >> 8), .lanes = (uint16_t)(packed >> 16)};
}

/* Fills in shape and strides from tuples; strides can be None, and are in units of so many bytes. For `size`, see
 * check_extents(). -1 with an exception. */
static int set_dims(view *self, PyObject *shape, PyObject *strides, int64_t unit, int64_t size) {
  self->explicit = strides != Py_None;
  if (read_dims(shape, self->tensor.shape, 1) < 0)
    return -1;
  if (self->explicit) {
    if (PyTuple_Size(strides) != self->tensor.ndim) {
      PyErr_Format(PyExc_ValueError,
                   "Strides, if provided, must have the same length as shape. Shape has %d dimensions, but strides has "
                   "%zd elements.",
                   (int)self->tensor.ndim, PyTuple_Size(strides));
      return -1;
    }
    if (read_dims(strides, self->tensor.strides, unit) < 0)
      return -1;
  } else if (set_c_strides(self) < 0) {
    return -1;
  }
  return check_extents(self, size);
}

/* What a device needs the address of an element to be a multiple of; 1 of raw data. */
static int64_t alignment_of(dl_data_type type) {
  enum { COMPLEX = 5 };
  int bits = type.code == COMPLEX ? type.bits / 2 : type.bits;
  return type.code == DL_NO_CODE || bits == 0 || bits % 8 != 0 ? 1 : bits / 8;
}

/* Refuses memory that no kernel could use as what it is said to be; -1 with an exception. */
static int check_alignment(const view *self) {
  uintptr_t address = (uintptr_t)self->tensor.data;
  int64_t alignment = alignment_of(self->tensor.dtype);
  if (self->tensor.device.type == DL_CPU || address % (uintptr_t)alignment == 0)
    return 0;
  PyErr_Format(PyExc_ValueError,
               "the address %p is not aligned to %lld bytes, which kernels need for elements of this dtype; begin "
               "elsewhere, or view the memory as bytes",
               self->tensor.data, (long long)alignment);
  return -1;
}

/* Refuses what is no class of views; -1 with an exception. */
static int check_class(const state *st, const char *function, PyObject *cls) {
  if (cls != NULL && PyType_Check(cls) && PyType_IsSubtype((PyTypeObject *)cls, st->view_type))
    return 0;
  PyErr_Format(PyExc_TypeError, "%s() is a method of StridedMemoryView", function);
  return -1;
}

const char view_make_doc[] =
    "view_make(cls, ptr, shape, strides, itemsize, type, dtype, device_type, device_id, "
    "readonly, exporting, keeper, aligned, /)\n"
    "--\n\n"
    "Return a view of memory that `keeper` keeps: a Buffer, another view, or nobody (None). `aligned`: refuse what\n"
    "kernels cannot use.";

PyObject *view_make(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
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
  self->tensor.dtype = unpack_type(type);
  self->itemsize = itemsize;
  self->read_only = read_only != 0;
  if (arguments[6] != Py_Ellipsis) { /* the one of the type, when somebody asks */
    Py_INCREF(arguments[6]);
    self->dtype = arguments[6];
  }
  Py_INCREF(arguments[10]);
  self->exporting = arguments[10];
  if (set_dims(self, shape, strides, 1, -1) < 0 || set_keeper(self, arguments[11]) < 0 ||
      (aligned && check_alignment(self) < 0)) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

/* ---- views of buffers ---- */

/* What a view has to know of its elements. */
typedef struct element {
  dl_data_type type;
  int64_t itemsize;
  PyObject *dtype; /* a new reference; Py_Ellipsis: the one of the type, when somebody asks */
} element;

/* Reads a tuple (DLPack's type, itemsize, dtype); -1 with an exception. */
static int read_element(PyObject *tuple, element *out) {
  unsigned long type = PyLong_AsUnsignedLong(PyTuple_GetItem(tuple, 0));
  out->itemsize = PyLong_AsLongLong(PyTuple_GetItem(tuple, 1));
  if (PyErr_Occurred())
    return -1;
  out->type = unpack_type(type);
  out->dtype = PyTuple_GetItem(tuple, 2);
  Py_INCREF(out->dtype);
  return 0;
}

/* The elements that a dtype and an itemsize mean, each of which can be NULL or None; -1 with an exception. */
static int element_of(const state *st, PyObject *dtype, PyObject *itemsize, element *out) {
  if (dtype == NULL)
    dtype = Py_None;
  if (itemsize == NULL)
    itemsize = Py_None;
  long long size = PyLong_CheckExact(itemsize) ? PyLong_AsLongLong(itemsize) : 0;
  if (size == -1)
    PyErr_Clear();
  if (dtype == Py_None && size > 0 && size <= INT32_MAX) {
    Py_INCREF(Py_None);
    *out = (element){.type = {.code = DL_NO_CODE, .bits = 8, .lanes = 1}, .itemsize = size, .dtype = Py_None};
    return 0;
  }
  PyObject *known = NULL; /* borrowed */
  if (dtype != Py_None && itemsize == Py_None) {
    known = PyDict_GetItemWithError(st->faces.element_types, dtype);
    PyErr_Clear(); /* what cannot be hashed */
  }
  if (known != NULL)
    return read_element(known, out);
  PyObject *found = PyObject_CallFunctionObjArgs(st->faces.element_type, dtype, itemsize, NULL);
  int status = found != NULL ? read_element(found, out) : -1;
  Py_XDECREF(found);
  return status;
}

/* A shape or strides as a tuple, a new reference; an int is a shape of one. */
static PyObject *tuple_of_dims(PyObject *given, bool is_shape) {
  if (PyTuple_Check(given) || (!is_shape && given == Py_None)) {
    Py_INCREF(given);
    return given;
  }
  if (is_shape && PyIndex_Check(given) && !PySequence_Check(given))
    return PyTuple_Pack(1, given);
  PyObject *tuple = PySequence_Tuple(given);
  if (tuple == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s must be %s, not %R", is_shape ? "shape" : "strides",
                 is_shape ? "a tuple of ints, or an int" : "a tuple of ints, or None", given);
  }
  return tuple;
}

static PyObject *view_memory(const state *st, PyTypeObject *type, PyObject *face, PyObject *shape, PyObject *strides,
                             element *of, bool read_only) {
  dl_device device;
  if (buffer_device(st, face, &device) < 0)
    return NULL;
  view *self = view_new(st, type, (int32_t)PyTuple_Size(shape));
  if (self == NULL)
    return NULL;
  self->tensor.device = device;
  self->tensor.dtype = of->type;
  self->itemsize = of->itemsize;
  self->read_only = read_only;
  if (of->dtype != Py_Ellipsis) {
    Py_INCREF(of->dtype);
    self->dtype = of->dtype;
  }
  Py_INCREF(face);
  self->exporting = face;
  int status = set_keeper(self, face);
  if (status == 0) {
    self->tensor.data = (void *)((const handle *)face)->raw;
    status = set_dims(self, shape, strides, 1, (int64_t)cch_deviceptr_size(self->box));
    if (status < 0 && (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_OverflowError))) {
      PyObject *kind, *value, *traceback;
      PyErr_Fetch(&kind, &value, &traceback);
      PyObject *layout = PyObject_CallFunction(st->faces.layout_of, "OOL", shape, strides, (long long)of->itemsize);
      if (layout != NULL) { /* which has nothing to say */
        Py_DECREF(layout);
        PyErr_Restore(kind, value, traceback);
      } else {
        Py_XDECREF(kind);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
      }
    }
  }
  if (status < 0 || check_alignment(self) < 0) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

const char view_from_buffer_doc[] =
    "from_buffer(cls, buffer, shape, strides=None, *, itemsize=None, dtype=None, is_readonly=False)\n--\n\n"
    "Make a view of a buffer's memory.\n"
    "\n"
    "The memory lives as long as the view, also when the buffer is closed. No stream waits for another.\n"
    "\n"
    "Parameters\n"
    "----------\n"
    "buffer : Buffer\n"
    "    The memory, from its beginning on.\n"
    "shape : tuple of int\n"
    "    Extents; an int is one extent.\n"
    "strides : tuple of int, optional\n"
    "    Strides in elements, not bytes. Default: those of C order.\n"
    "itemsize : int, optional\n"
    "    Bytes of an element. Default: those of `dtype`.\n"
    "dtype : numpy.dtype, optional\n"
    "    Type of the elements: a dtype, what ``np.dtype()`` takes, or a name such as \"float32\" or \"bfloat16\", "
    "which\n"
    "    needs no other library. Default: not known.\n"
    "is_readonly : bool, optional\n"
    "    Whether the memory must not be written. Default False.\n"
    "\n"
    "Raises\n"
    "------\n"
    "ValueError\n"
    "    When the elements do not all lie within the buffer, or are not aligned.";

PyObject *view_from_buffer(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *keywords) {
  static const char *const names[] = {"cls", "buffer", "shape", "strides", "itemsize", "dtype", "is_readonly"};
  const state *st = PyModule_GetState(module);
  PyObject *arguments[7] = {NULL};
  if (sort_arguments("from_buffer", names, 7, 4, given, count, keywords, arguments) < 0 ||
      check_class(st, "from_buffer", arguments[0]) < 0)
    return NULL;
  PyObject *face = arguments[1];
  if (face == NULL || arguments[2] == NULL)
    return PyErr_Format(PyExc_TypeError, "from_buffer() needs buffer, and shape");
  if (!PyType_IsSubtype(Py_TYPE(face), st->buffer_type)) {
    raise_about(PyExc_TypeError, "buffer must be a Buffer, not %U: from_any_interface() makes views of arrays", face, 0,
                0);
    return NULL;
  }
  int read_only = arguments[6] != NULL ? PyObject_IsTrue(arguments[6]) : 0;
  element of;
  if (read_only < 0 || element_of(st, arguments[5], arguments[4], &of) < 0)
    return NULL;
  PyObject *shape = tuple_of_dims(arguments[2], true);
  PyObject *strides = shape != NULL ? tuple_of_dims(arguments[3] != NULL ? arguments[3] : Py_None, false) : NULL;
  PyObject *self = NULL;
  if (strides != NULL)
    self = view_memory(st, (PyTypeObject *)arguments[0], face, shape, strides, &of, read_only != 0);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  Py_DECREF(of.dtype);
  return self;
}

/* ---- the order of streams ---- */

/* Reads the consumer's stream, an int or what has __cuda_stream__; None is -2. -1 is NO_ORDER. False with an exception.
 */
static bool read_stream(const state *st, PyObject *given, long long *out, PyObject **kept) {
  *kept = NULL;
  *out = -2;
  if (given == NULL || given == Py_None)
    return true;
  if (PyLong_Check(given) && !PyBool_Check(given)) {
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(given, &overflow);
    if (overflow || *out < NO_ORDER) {
      PyErr_Format(PyExc_ValueError, "stream_ptr is %R; it must be a stream's address, or -1 for no order", given);
      return false;
    }
    if (*out == 0)
      *out = 1; /* the legacy default stream has two names, and DLPack knows this one */
    return true;
  }
  PyObject *face = stream_accept(st, given);
  if (face == NULL) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      PyErr_Format(PyExc_TypeError,
                   "stream_ptr must be an int, a stream's address or -1 for no order, or a Stream, not %R",
                   (PyObject *)Py_TYPE(given));
    }
    return false;
  }
  if (((handle *)face)->box == NULL) {
    handle_hold(face); /* which raises */
    Py_DECREF(face);
    return false;
  }
  *out = (long long)((handle *)face)->raw;
  if (*out == 0)
    *out = 1;
  *kept = face;
  return true;
}

static PyObject *raise_ambiguous(void) {
  PyErr_SetString(PyExc_BufferError,
                  "stream=None is ambiguous with view(): give stream_ptr, the stream that will use the array, so that "
                  "it waits for the producer's; or -1 for no order");
  return NULL;
}

/* Makes the consumer's stream wait for the producer's; -1 with an exception. */
static int order(const state *st, long long consumer, unsigned long long producer, dl_device device) {
  if (producer == 0)
    producer = 1;
  if ((unsigned long long)consumer == producer)
    return 0;
  PyObject *result = PyObject_CallFunction(st->faces.order_streams, "LKi", consumer, producer,
                                           device.type == DL_CUDA ? (int)device.id : -1);
  Py_XDECREF(result);
  return result != NULL ? 0 : -1;
}

/* ---- where arrays come from ---- */

static PyObject *from_exchange(const state *st, PyTypeObject *type, PyObject *object, long long stream,
                               const dl_exchange_api *api) {
  dl_managed_tensor_versioned *managed = NULL;
  if (api->managed_tensor_from_object(object, &managed) != 0 || managed == NULL) {
    if (!PyErr_Occurred())
      raise_about(PyExc_BufferError, "%U cannot be exported by DLPack", object, 0, 0);
    return NULL;
  }
  PyObject *self = view_of_managed(st, type, managed, true, object);
  if (self == NULL)
    return NULL;
  dl_device device = ((view *)self)->tensor.device;
  if (device.type == DL_CPU || stream == NO_ORDER)
    return self;
  void *producer = NULL;
  int status = -1;
  if (stream < NO_ORDER)
    raise_ambiguous();
  else if (api->current_work_stream == NULL)
    status = 0;
  else if (api->current_work_stream(device.type, device.id, &producer) == 0)
    status = order(st, stream, (uintptr_t)producer, device);
  if (status < 0)
    Py_CLEAR(self);
  return self;
}

/* An array whose attributes are cheaper than any protocol; nothing is ordered. */
static PyObject *from_attributes(const state *st, PyTypeObject *type, PyObject *object) {
  PyObject *data = PyObject_GetAttr(object, st->data_name);
  PyObject *address = data != NULL ? PyObject_GetAttr(data, st->names.ptr) : NULL;
  PyObject *ordinal = address != NULL ? PyObject_GetAttr(data, st->names.device_id) : NULL;
  PyObject *shape = ordinal != NULL ? PyObject_GetAttr(object, st->names.shape) : NULL;
  PyObject *strides = shape != NULL ? PyObject_GetAttr(object, st->names.strides) : NULL;
  PyObject *dtype = strides != NULL ? PyObject_GetAttr(object, st->names.dtype) : NULL;
  view *self = NULL;
  if (dtype != NULL && st->dlpack_types != NULL && PyTuple_Check(shape) && PyTuple_Check(strides)) {
    PyObject *known = PyDict_GetItemWithError(st->dlpack_types, dtype), *fresh = NULL; /* known: borrowed */
    if (known == NULL && !PyErr_Occurred()) {
      known = fresh = PyObject_CallFunctionObjArgs(st->faces.dlpack_type_of, dtype, NULL);
      if (fresh != NULL && PyDict_SetItem(st->dlpack_types, dtype, fresh) < 0)
        known = NULL;
    }
    unsigned long packed = known != NULL ? PyLong_AsUnsignedLong(known) : 0;
    Py_XDECREF(fresh);
    void *pointer = PyErr_Occurred() ? NULL : PyLong_AsVoidPtr(address);
    long device = PyErr_Occurred() ? -1 : PyLong_AsLong(ordinal);
    if (!PyErr_Occurred())
      self = view_new(st, type, (int32_t)PyTuple_Size(shape));
    if (self != NULL) {
      self->tensor.data = pointer;
      self->tensor.device = (dl_device){.type = DL_CUDA, .id = (int32_t)device};
      self->tensor.dtype = unpack_type(packed & 0xFFFFFFFFul);
      Py_INCREF(object);
      self->exporting = object;
      self->dtype = dtype;
      dtype = NULL;
      if (set_itemsize(self, DL_PADDED) < 0 || set_dims(self, shape, strides, self->itemsize, -1) < 0)
        Py_CLEAR(self);
    }
  } else if (dtype != NULL) {
    raise_about(PyExc_TypeError, "the shape and the strides of %U are no tuples", object, 0, 0);
  }
  Py_XDECREF(dtype);
  Py_XDECREF(strides);
  Py_XDECREF(shape);
  Py_XDECREF(ordinal);
  Py_XDECREF(address);
  Py_XDECREF(data);
  return (PyObject *)self;
}

/* Calls __dlpack__, of this version of DLPack or of those before 1.0. */
static PyObject *call_dlpack(const state *st, PyObject *method, PyObject *stream) {
  PyObject *arguments = PyTuple_New(0), *keywords = PyDict_New(), *capsule = NULL;
  if (arguments == NULL || keywords == NULL)
    goto end;
  if (PyDict_SetItem(keywords, st->names.stream, stream) < 0 ||
      PyDict_SetItem(keywords, st->names.max_version, st->names.version) < 0)
    goto end;
  capsule = PyObject_Call(method, arguments, keywords);
  if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyDict_DelItem(keywords, st->names.max_version) == 0)
      capsule = PyObject_Call(method, arguments, keywords);
    if (capsule != NULL) {
      Py_XDECREF(type);
      Py_XDECREF(value);
      Py_XDECREF(traceback);
    } else { /* the first error was not about the version */
      PyErr_Clear();
      PyErr_Restore(type, value, traceback);
    }
  }
end:
  Py_XDECREF(arguments);
  Py_XDECREF(keywords);
  return capsule;
}

/* The type of the device that an array is on; 0 with an exception. */
static int32_t device_type_of(const state *st, PyObject *object) {
  PyObject *pair = PyObject_CallMethodObjArgs(object, st->names.dlpack_device, NULL);
  PyObject *first = pair != NULL ? PySequence_GetItem(pair, 0) : NULL;
  PyObject *number = first != NULL ? PyNumber_Index(first) : NULL; /* it can be an enum */
  long type = number != NULL ? PyLong_AsLong(number) : -1;
  Py_XDECREF(number);
  Py_XDECREF(first);
  Py_XDECREF(pair);
  if (PyErr_Occurred())
    return 0;
  if (!is_known_device((int32_t)type)) {
    raise_device((int32_t)type);
    return 0;
  }
  return (int32_t)type;
}

static PyObject *from_dlpack(const state *st, PyTypeObject *type, PyObject *object, PyObject *method, long long stream,
                             bool on_device) {
  int32_t device = on_device ? DL_CUDA : device_type_of(st, object);
  if (device == 0)
    return NULL;
  PyObject *consumer;
  if (device == DL_CPU) { /* which knows no streams */
    consumer = Py_None;
    Py_INCREF(consumer);
  } else if (stream < NO_ORDER) {
    return raise_ambiguous();
  } else {
    consumer = PyLong_FromLongLong(stream);
  }
  PyObject *capsule = consumer != NULL ? call_dlpack(st, method, consumer) : NULL;
  Py_XDECREF(consumer);
  if (capsule == NULL)
    return NULL;
  bool versioned;
  void *managed = dlpack_take(capsule, &versioned);
  Py_DECREF(capsule);
  return managed != NULL ? view_of_managed(st, type, managed, versioned, object) : NULL;
}

/* Reads (cls, obj, stream_ptr=None); -1 with an exception. */
static int read_arguments(const state *st, const char *function, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *keywords, PyObject *out[3], long long *stream, PyObject **kept) {
  static const char *const names[] = {"cls", "obj", "stream_ptr"};
  if (sort_arguments(function, names, 3, 3, arguments, count, keywords, out) < 0)
    return -1;
  if (check_class(st, function, out[0]) < 0)
    return -1;
  if (out[1] == NULL) {
    PyErr_Format(PyExc_TypeError, "%s() needs obj, an array", function);
    return -1;
  }
  return read_stream(st, out[2], stream, kept) ? 0 : -1;
}

static PyObject *from_any(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *keywords, bool any) {
  const state *st = PyModule_GetState(module);
  PyObject *arguments[3] = {NULL}, *kept = NULL, *result = NULL;
  long long stream;
  const char *name = any ? "from_any_interface" : "from_dlpack";
  if (read_arguments(st, name, given, count, keywords, arguments, &stream, &kept) < 0)
    return NULL;
  PyTypeObject *type = (PyTypeObject *)arguments[0];
  PyObject *object = arguments[1];
  const type_entry *how = types_find(st, Py_TYPE(object));
  if (how->type == NULL && st->resolver != NULL) {
    PyObject *known = PyObject_CallFunctionObjArgs(st->resolver, (PyObject *)Py_TYPE(object), object, NULL);
    Py_XDECREF(known);
    if (known == NULL)
      goto end;
    how = types_find(st, Py_TYPE(object));
  }
  /* Our own views know more of their memory's streams than the exchange API can say. */
  if (how->type != NULL && how->kind == KIND_EXCHANGE && how->exchange->managed_tensor_from_object != NULL &&
      !PyType_IsSubtype(Py_TYPE(object), st->view_type)) {
    result = from_exchange(st, type, object, stream, how->exchange);
    goto end;
  }
  bool has_paths = how->type != NULL && how->kind == KIND_PATHS && PyTuple_GetItem(how->given, 1) != Py_None;
  if (has_paths && stream == NO_ORDER) {
    result = from_attributes(st, type, object);
    goto end;
  }
  PyObject *method = PyObject_GetAttr(object, st->names.dlpack);
  if (method != NULL) {
    result = from_dlpack(st, type, object, method, stream, has_paths);
    Py_DECREF(method);
  } else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    result = PyObject_CallFunction(st->faces.interface_of, "OOLs", arguments[0], object, stream, name);
  }
end:
  Py_XDECREF(kept);
  return result;
}

const char view_from_dlpack_doc[] =
    "from_dlpack(cls, obj, stream_ptr=None)\n--\n\n"
    "Make a view of an array by DLPack: by its C exchange API where the array's type has it, else by ``__dlpack__``.\n"
    "\n"
    "Parameters\n"
    "----------\n"
    "obj : object\n"
    "    The array.\n"
    "stream_ptr : int or Stream, optional\n"
    "    The stream that will use the array: it waits for the work that the producer has on the array's stream. -1: "
    "no\n"
    "    order. Needed for memory that a device can use; that of the host knows no streams.";

PyObject *view_from_dlpack(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return from_any(module, arguments, count, keywords, false);
}

const char view_from_any_doc[] =
    "from_any_interface(cls, obj, stream_ptr=None)\n--\n\n"
    "Make a view of an array by the best way that it has: DLPack, ``__cuda_array_interface__``, "
    "``__array_interface__``.\n"
    "\n"
    "Parameters\n"
    "----------\n"
    "obj : object\n"
    "    The array.\n"
    "stream_ptr : int or Stream, optional\n"
    "    See :meth:`from_dlpack`.";

PyObject *view_from_any(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return from_any(module, arguments, count, keywords, true);
}

/* ---- lending ---- */

void *view_lend(const state *st, PyObject *object, bool versioned) {
  view *self = (view *)object;
  if (self->tensor.dtype.code == DL_NO_CODE) {
    PyErr_SetString(PyExc_BufferError, self->dtype != NULL && self->dtype != Py_None
                                           ? "DLPack has no type like the view's dtype: export view(dtype=...) of it"
                                           : "the view has no dtype, which DLPack wants: export view(dtype=...) of it");
    return NULL;
  }
  uint64_t flags = self->read_only ? DL_READ_ONLY : 0;
  if (view_is_padded(self)) {
    if (!versioned) {
      PyErr_SetString(PyExc_BufferError,
                      "the view has elements smaller than a byte, which DLPack before 1.0 cannot say "
                      "to be padded; ask for a versioned tensor (max_version=(1, 0))");
      return NULL;
    }
    flags |= DL_PADDED;
  }
  owner *keeper = NULL;
  if (self->box == NULL) {
    keeper = owner_make(st, object, false);
    if (keeper == NULL)
      return NULL;
  }
  return dlpack_lend(&self->tensor, self->box != NULL ? cch_deviceptr_ref(self->box) : NULL, keeper, versioned, flags);
}

const char view_capsule_doc[] = "view_capsule(view, versioned, /)\n--\n\nReturn a DLPack capsule of a view.";

PyObject *view_capsule(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("view_capsule(view, versioned)", count, 2) < 0)
    return NULL;
  if (!PyType_IsSubtype(Py_TYPE(arguments[0]), st->view_type))
    return PyErr_Format(PyExc_TypeError, "a StridedMemoryView is needed");
  bool versioned = arguments[1] == Py_True;
  void *managed = view_lend(st, arguments[0], versioned);
  return managed != NULL ? dlpack_capsule(managed, versioned) : NULL;
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

static PyObject *get_ptr(PyObject *object, void *closure) {
  (void)closure;
  return PyLong_FromSize_t((uintptr_t)((view *)object)->tensor.data);
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

static PyObject *get_readonly(PyObject *object, void *closure) {
  (void)closure;
  return PyBool_FromLong(((view *)object)->read_only);
}

static PyObject *get_shape(PyObject *object, void *closure) {
  (void)closure;
  const view *self = (view *)object;
  return tuple_of(self->tensor.shape, self->tensor.ndim);
}

static PyObject *get_strides(PyObject *object, void *closure) {
  (void)closure;
  const view *self = (view *)object;
  if (!self->explicit)
    Py_RETURN_NONE;
  return tuple_of(self->tensor.strides, self->tensor.ndim);
}

static PyObject *get_size(PyObject *object, void *closure) {
  (void)closure;
  const view *self = (view *)object;
  int64_t size = 1;
  bool empty = false;
  for (int32_t i = 0; i < self->tensor.ndim; i++)
    empty |= self->tensor.shape[i] == 0;
  for (int32_t i = 0; i < self->tensor.ndim && !empty; i++)
    size *= self->tensor.shape[i];
  return PyLong_FromLongLong(empty ? 0 : size);
}

/* Keeps what a function has made for an attribute; another thread may have been faster. */
static PyObject *keep_made(PyObject **place, PyObject *made) {
  if (made == NULL)
    return NULL;
  if (*place == NULL) {
    *place = made;
  } else {
    Py_DECREF(made);
  }
  Py_INCREF(*place);
  return *place;
}

static PyObject *get_dtype(PyObject *object, void *closure) {
  (void)closure;
  view *self = (view *)object;
  if (self->dtype != NULL) {
    Py_INCREF(self->dtype);
    return self->dtype;
  }
  dl_data_type type = self->tensor.dtype;
  return keep_made(&self->dtype, PyObject_CallFunction(self->st->faces.dtype_of, "iii", (int)type.code, (int)type.bits,
                                                       (int)type.lanes));
}

static PyObject *get_dtype_as_it_is(PyObject *object, void *closure) {
  (void)closure;
  const view *self = (view *)object;
  PyObject *dtype = self->dtype != NULL ? self->dtype : Py_Ellipsis;
  Py_INCREF(dtype);
  return dtype;
}

static PyObject *get_layout(PyObject *object, void *closure) {
  view *self = (view *)object;
  if (self->layout != NULL) {
    Py_INCREF(self->layout);
    return self->layout;
  }
  PyObject *shape = get_shape(object, closure), *strides = get_strides(object, closure), *made = NULL;
  if (shape != NULL && strides != NULL)
    made = PyObject_CallFunction(self->st->faces.layout_of, "OOL", shape, strides, (long long)self->itemsize);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return keep_made(&self->layout, made);
}

static PyObject *get_type(PyObject *object, void *closure) {
  (void)closure;
  dl_data_type type = ((view *)object)->tensor.dtype;
  return PyLong_FromUnsignedLong((unsigned long)type.code | (unsigned long)type.bits << 8 |
                                 (unsigned long)type.lanes << 16);
}

static PyObject *get_device(PyObject *object, void *closure) {
  (void)closure;
  dl_device device = ((view *)object)->tensor.device;
  return Py_BuildValue("(ii)", (int)device.type, (int)device.id);
}

static PyObject *get_stream(PyObject *object, void *closure) {
  (void)closure;
  const view *self = (view *)object;
  cch_stream *stream = self->box != NULL ? cch_deviceptr_stream_ref(self->box) : NULL;
  if (stream == NULL)
    return PyLong_FromLong(0);
  return PyLong_FromVoidPtr(stream); /* a reference, that the caller adopts */
}

static int view_traverse(PyObject *object, visitproc visit, void *arg) {
  const view *self = (view *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->keeper);
  Py_VISIT(self->exporting);
  Py_VISIT(self->dtype);
  Py_VISIT(self->layout);
  return 0;
}

/* What keeps the memory stays: others in the same cycle may still read it. It goes with the view. */
static int view_clear(PyObject *object) {
  view *self = (view *)object;
  Py_CLEAR(self->exporting);
  Py_CLEAR(self->dtype);
  Py_CLEAR(self->layout);
  return 0;
}

static void view_dealloc(PyObject *object) {
  view *self = (view *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  PyObject *kind, *value, *traceback;
  PyErr_Fetch(&kind, &value, &traceback);
  dlpack_delete(self->managed, self->versioned);
  box_let_go(self->box);
  view_clear(object);
  Py_CLEAR(self->keeper);
  if (self->st != NULL)
    owners_drain(self->st);
  PyErr_Restore(kind, value, traceback);
  if (self->tensor.shape != self->inside)
    PyMem_Free(self->tensor.shape);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static PyGetSetDef properties[] = {
    {"ptr", get_ptr, NULL, "int: Address of the element of index (0, ..., 0).", NULL},
    {"device_id", get_device_id, NULL, "int: Ordinal of the device that the memory is on; -1 for the host's.", NULL},
    {"is_device_accessible", get_is_device_accessible, NULL, "bool: Whether kernels can use the memory.", NULL},
    {"readonly", get_readonly, NULL, "bool: Whether the memory must not be written.", NULL},
    {"shape", get_shape, NULL, "tuple of int: Extents.", NULL},
    {"strides", get_strides, NULL,
     "tuple of int or None: Strides in elements, not bytes; None: those of C order, which were not given.", NULL},
    {"size", get_size, NULL, "int: Number of elements.", NULL},
    {"dtype", get_dtype, NULL,
     "numpy.dtype or None: Type of the elements, of ml_dtypes where NumPy has none; None where it is not known.", NULL},
    {"_layout", get_layout, NULL, "_StridedLayout: Shape, strides and size of elements.", NULL},
    {"_type", get_type, NULL, NULL, NULL},
    {"_dtype_as_it_is", get_dtype_as_it_is, NULL, NULL, NULL},
    {"_device", get_device, NULL, NULL, NULL},
    {"_stream_reference", get_stream, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"exporting_obj", T_OBJECT, offsetof(view, exporting), READONLY, "object: The array, or the Buffer."},
    {"_itemsize", T_LONGLONG, offsetof(view, itemsize), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "The hot half of StridedMemoryView."},
    {Py_tp_dealloc, (void *)view_dealloc},
    {Py_tp_traverse, (void *)view_traverse},
    {Py_tp_clear, (void *)view_clear},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "cudacore_handles._native.ViewHandle",
    .basicsize = sizeof(view),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

static PyObject **name_at(state *st, size_t i, const char **text) {
  PyObject **places[] = {&st->names.dlpack, &st->names.dlpack_device, &st->names.device_id,
                         &st->names.shape,  &st->names.strides,       &st->names.dtype,
                         &st->names.stream, &st->names.max_version,   &st->names.ptr};
  static const char *const texts[] = {"__dlpack__", "__dlpack_device__", "device_id", "shape", "strides", "dtype",
                                      "stream",     "max_version",       "ptr"};
  if (i == sizeof places / sizeof *places)
    return NULL;
  *text = texts[i];
  return places[i];
}

int add_view_type(PyObject *module, state *st) {
  PyObject **place;
  const char *text;
  for (size_t i = 0; (place = name_at(st, i, &text)) != NULL; i++) {
    *place = PyUnicode_InternFromString(text);
    if (*place == NULL)
      return -1;
  }
  st->names.version = Py_BuildValue("(ii)", DL_MAJOR, DL_MINOR);
  st->dlpack_types = PyDict_New();
  if (st->names.version == NULL || st->dlpack_types == NULL)
    return -1;
  st->view_type = add_type(module, &spec, NULL);
  return st->view_type != NULL ? 0 : -1;
}

void drop_view_names(state *st) {
  PyObject **place;
  const char *text;
  for (size_t i = 0; (place = name_at(st, i, &text)) != NULL; i++)
    Py_CLEAR(*place);
  Py_CLEAR(st->names.version);
}
