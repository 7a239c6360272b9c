/* SPDX-License-Identifier: Apache-2.0 */
/* Makes views of buffers and of the arrays of other libraries, and orders their streams. */
#include "base/types.h"
#include "views/views.h"

enum { NO_ORDER = -1 };

/* ---- views of buffers ---- */

/*
 * Gets the element type for a dtype and an itemsize, each of which can be NULL or None: a tuple (DLPack's type,
 * itemsize, dtype). The dtype is Py_Ellipsis if it is derived from the type when it is first read.
 */
static PyObject *element_of(const state *st, PyObject *dtype, PyObject *itemsize) {
  if (dtype == NULL)
    dtype = Py_None;
  if (itemsize == NULL)
    itemsize = Py_None;
  PyObject *known = dtype != Py_None && itemsize == Py_None ? dict_get(st->faces.element_types, dtype) : NULL;
  return known != NULL ? known : PyObject_CallFunctionObjArgs(st->faces.element_type, dtype, itemsize, NULL);
}

/* Sets the type of a view's elements from a tuple of element_of(). Returns -1 with an exception on failure. */
static int set_element(view *self, PyObject *element) {
  unsigned long type = PyLong_AsUnsignedLong(PyTuple_GetItem(element, 0));
  self->itemsize = PyLong_AsLongLong(PyTuple_GetItem(element, 1));
  self->tensor.dtype = view_type(type);
  PyObject *dtype = PyTuple_GetItem(element, 2);
  if (dtype != Py_Ellipsis)
    self->dtype = Py_NewRef(dtype);
  return PyErr_Occurred() ? -1 : 0;
}

/* Makes a tuple of a shape or strides: a new reference. An int stands for a shape of one extent. */
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
                             PyObject *element, bool read_only) {
  dl_device device;
  if (buffer_device(face, &device) < 0)
    return NULL;
  view *self = view_new(st, type, (int32_t)PyTuple_Size(shape));
  if (self == NULL)
    return NULL;
  self->tensor.device = device;
  self->tensor.data = (void *)((const handle *)face)->raw;
  Py_INCREF(face);
  self->exporting = face;
  if (set_element(self, element) == 0 && view_set_keeper(self, face) == 0) {
    self->read_only = read_only || cch_deviceptr_is_read_only(self->box) != 0;
    if (view_set_dims(self, shape, strides, 1, (int64_t)cch_deviceptr_size(self->box)) == 0 &&
        view_check_alignment(self) == 0)
      return (PyObject *)self;
  }
  Py_DECREF(self);
  return NULL;
}

static PyObject *view_from_buffer(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *keywords) {
  static const char *const names[] = {"cls", "buffer", "shape", "strides", "itemsize", "dtype", "is_readonly"};
  const state *st = PyModule_GetState(module);
  PyObject *arguments[7] = {NULL};
  if (sort_arguments("from_buffer", names, 7, 4, given, count, keywords, arguments) < 0 ||
      view_check_class(st, "from_buffer", arguments[0]) < 0)
    return NULL;
  PyObject *face = arguments[1];
  if (face == NULL || arguments[2] == NULL)
    return PyErr_Format(PyExc_TypeError, "from_buffer() needs buffer, and shape");
  if (!is_buffer(st, face)) {
    raise_about(PyExc_TypeError, "buffer must be a Buffer, not %U: from_any_interface() makes views of arrays", face, 0,
                0);
    return NULL;
  }
  int read_only = arguments[6] != NULL ? PyObject_IsTrue(arguments[6]) : 0;
  PyObject *element = read_only >= 0 ? element_of(st, arguments[5], arguments[4]) : NULL;
  if (element == NULL)
    return NULL;
  PyObject *shape = tuple_of_dims(arguments[2], true);
  PyObject *strides = shape != NULL ? tuple_of_dims(arguments[3] != NULL ? arguments[3] : Py_None, false) : NULL;
  PyObject *self = NULL;
  if (strides != NULL)
    self = view_memory(st, (PyTypeObject *)arguments[0], face, shape, strides, element, read_only != 0);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  Py_DECREF(element);
  return self;
}

/* ---- the order of streams ---- */

/*
 * Reads the consumer's stream, which is an int or an object with __cuda_stream__. The result for None is -2, and for -1
 * it is NO_ORDER. False with an exception on failure.
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
      *out = 1; /* the legacy default stream has two numbers; DLPack uses this one */
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
  if (!handle_is_open(face)) {
    handle_hold(face); /* raises the exception */
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
  return PyErr_Format(
      PyExc_BufferError,
      "stream=None is ambiguous with view(): give stream_ptr, the stream that will use the array, so that "
      "it waits for the producer's; or -1 for no order");
}

/* Makes the consumer's stream wait for the producer's. Returns -1 with an exception on failure. */
static int order(const state *st, long long consumer, unsigned long long producer, dl_device device) {
  if (producer == 0)
    producer = 1;
  if ((unsigned long long)consumer == producer)
    return 0;
  int ordinal = device.type == DL_CUDA ? (int)device.id : -1, status;
  WITHOUT_GIL(status = cch_stream_order((CUstream)(uintptr_t)consumer, (CUstream)(uintptr_t)producer, NULL, ordinal));
  return check_status(st, status);
}

/* ---- views of arrays ---- */

/* Gets the stream on which a library uses arrays from its exchange API. Returns -1 with an exception on failure. */
static int ask_work_stream(const dl_exchange_api *api, dl_device device, unsigned long long *out) {
  void *stream = NULL;
  const bool failed = api->current_work_stream(device.type, device.id, &stream) != 0;
  *out = (uintptr_t)stream;
  if (failed && !PyErr_Occurred())
    PyErr_SetString(PyExc_BufferError, "the library of the array did not name its current stream");
  return failed ? -1 : 0;
}

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
  unsigned long long producer;
  int status = -1;
  if (stream < NO_ORDER)
    raise_ambiguous();
  else if (api->current_work_stream == NULL)
    status = 0;
  else if (ask_work_stream(api, device, &producer) == 0)
    status = order(st, stream, producer, device);
  if (status < 0)
    Py_CLEAR(self);
  return self;
}

int type_of_dtype(const state *st, PyObject *dtype, unsigned long *out) {
  PyObject *known = dict_get(st->views.dlpack_types, dtype);
  if (known == NULL) {
    known = PyObject_CallFunctionObjArgs(st->faces.dlpack_type_of, dtype, NULL);
    if (known != NULL && PyDict_SetItem(st->views.dlpack_types, dtype, known) < 0)
      Py_CLEAR(known);
  }
  *out = known != NULL ? PyLong_AsUnsignedLong(known) : 0;
  Py_XDECREF(known);
  return PyErr_Occurred() ? -1 : 0;
}

/* Makes a view of an array whose attributes are faster to read than any protocol. Does not order streams. */
static PyObject *from_attributes(const state *st, PyTypeObject *type, PyObject *object) {
  PyObject *data = PyObject_GetAttr(object, st->names.data);
  PyObject *address = data != NULL ? PyObject_GetAttr(data, st->names.ptr) : NULL;
  PyObject *ordinal = address != NULL ? PyObject_GetAttr(data, st->names.device_id) : NULL;
  PyObject *shape = ordinal != NULL ? PyObject_GetAttr(object, st->names.shape) : NULL;
  PyObject *strides = shape != NULL ? PyObject_GetAttr(object, st->names.strides) : NULL;
  PyObject *dtype = strides != NULL ? PyObject_GetAttr(object, st->names.dtype) : NULL;
  view *self = NULL;
  if (dtype != NULL && st->views.dlpack_types != NULL && PyTuple_Check(shape) && PyTuple_Check(strides)) {
    unsigned long packed;
    void *pointer = type_of_dtype(st, dtype, &packed) < 0 ? NULL : PyLong_AsVoidPtr(address);
    long device = PyErr_Occurred() ? -1 : PyLong_AsLong(ordinal);
    if (!PyErr_Occurred())
      self = view_new(st, type, (int32_t)PyTuple_Size(shape));
    if (self != NULL) {
      self->tensor.data = pointer;
      self->tensor.device = (dl_device){.type = DL_CUDA, .id = (int32_t)device};
      self->tensor.dtype = view_type(packed & 0xFFFFFFFFul);
      Py_INCREF(object);
      self->exporting = object;
      self->dtype = dtype;
      dtype = NULL;
      if (view_set_itemsize(self, DL_PADDED) < 0 || view_set_dims(self, shape, strides, self->itemsize, -1) < 0)
        Py_CLEAR(self);
    }
  } else if (dtype != NULL) {
    raise_about(PyExc_TypeError, "the shape and the strides of %U are not tuples", object, 0, 0);
  }
  Py_XDECREF(dtype);
  Py_XDECREF(strides);
  Py_XDECREF(shape);
  Py_XDECREF(ordinal);
  Py_XDECREF(address);
  Py_XDECREF(data);
  return (PyObject *)self;
}

/* Calls __dlpack__ with the arguments of this version of DLPack, or with those of versions before 1.0. */
static PyObject *call_dlpack(const state *st, PyObject *method, PyObject *stream) {
  /* The callee can keep the keywords, so each call has a copy of them. */
  PyObject *arguments = PyTuple_New(0), *keywords = PyDict_Copy(st->views.dlpack_arguments), *capsule = NULL;
  if (arguments == NULL || keywords == NULL)
    goto end;
  if (stream != Py_None && PyDict_SetItem(keywords, st->names.stream, stream) < 0)
    goto end;
  capsule = PyObject_Call(method, arguments, keywords);
  if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear(); /* if the reason is not the version, the second call fails, too */
    if (PyDict_DelItem(keywords, st->names.max_version) == 0)
      capsule = PyObject_Call(method, arguments, keywords);
  }
end:
  Py_XDECREF(arguments);
  Py_XDECREF(keywords);
  return capsule;
}

/* Returns the type of the device that an array is on; 0 with an exception on failure. */
static int32_t device_type_of(const state *st, PyObject *object) {
  PyObject *pair = PyObject_CallMethodObjArgs(object, st->names.dlpack_device, NULL);
  if (pair == NULL)
    return 0;
  PyObject *first = PySequence_GetItem(pair, 0);
  PyObject *number = first != NULL ? PyNumber_Index(first) : NULL; /* the device type can be an enum */
  int overflow = 0;
  long long type = number != NULL ? PyLong_AsLongLongAndOverflow(number, &overflow) : -1;
  Py_XDECREF(number);
  Py_XDECREF(first);
  if (number == NULL) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "__dlpack_device__() must return two ints, (type, ordinal), not %R", pair);
  }
  Py_DECREF(pair);
  return number != NULL && view_check_device(overflow != 0 ? -1 : type) == 0 ? (int32_t)type : 0;
}

static PyObject *from_dlpack(const state *st, PyTypeObject *type, PyObject *object, PyObject *method, long long stream,
                             bool on_device) {
  int32_t device = on_device ? DL_CUDA : device_type_of(st, object);
  if (device == 0)
    return NULL;
  PyObject *consumer;
  if (device == DL_CPU || (device == DL_CUDA_HOST && stream == NO_ORDER)) { /* the host has no streams */
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
  KEEPING_EXCEPTION(Py_DECREF(capsule)); /* its destructor can run any code */
  return managed != NULL ? view_of_managed(st, type, managed, versioned, object) : NULL;
}

static PyObject *work_stream(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("work_stream(obj, device_type, device_id)", count, 3) < 0)
    return NULL;
  long type = PyLong_AsLong(arguments[1]), id = PyLong_AsLong(arguments[2]);
  type_entry how;
  if (PyErr_Occurred() || types_find(st, arguments[0], &how) < 0)
    return NULL;
  const dl_exchange_api *api = how.exchange;
  types_unref(&how);
  if (api == NULL || api->current_work_stream == NULL)
    Py_RETURN_NONE;
  unsigned long long stream;
  if (ask_work_stream(api, (dl_device){.type = (int32_t)type, .id = (int32_t)id}, &stream) < 0)
    return NULL;
  return PyLong_FromUnsignedLongLong(stream);
}

/* Reads (cls, obj, stream_ptr=None). Returns -1 with an exception on failure. */
static int read_arguments(const state *st, const char *function, Py_ssize_t wanted, PyObject *const *arguments,
                          Py_ssize_t count, PyObject *keywords, PyObject *out[3], long long *stream, PyObject **kept) {
  static const char *const names[] = {"cls", "obj", "stream_ptr"};
  if (sort_arguments(function, names, wanted, wanted, arguments, count, keywords, out) < 0)
    return -1;
  if (view_check_class(st, function, out[0]) < 0)
    return -1;
  if (out[1] == NULL)
    return raise_error(PyExc_TypeError, "%s() needs obj, an array", function);
  return read_stream(st, out[2], stream, kept) ? 0 : -1;
}

/* ---- array interfaces ---- */

/* The fields of an interface, as new references; NULL for those that are missing. */
typedef struct interface {
  PyObject *shape, *strides, *typestr, *data, *mask, *version, *stream;
} interface;

static interface interface_fields(const state *st, PyObject *given) {
  const interned_names *names = &st->names;
  return (interface){
      .shape = dict_get(given, names->shape),
      .strides = dict_get(given, names->strides),
      .typestr = dict_get(given, names->typestr),
      .data = dict_get(given, names->data),
      .mask = dict_get(given, names->mask),
      .version = dict_get(given, names->version),
      .stream = dict_get(given, names->stream),
  };
}

static void interface_unref(interface *self) {
  Py_XDECREF(self->shape);
  Py_XDECREF(self->strides);
  Py_XDECREF(self->typestr);
  Py_XDECREF(self->data);
  Py_XDECREF(self->mask);
  Py_XDECREF(self->version);
  Py_XDECREF(self->stream);
}

static bool is_missing(const PyObject *field) { return field == NULL || field == Py_None; }

/* Returns a number of an interface, which must be a positive int; 0, perhaps with an exception, for anything else. */
static size_t positive(PyObject *number) {
  size_t value = number != NULL && PyLong_CheckExact(number) ? PyLong_AsSize_t(number) : 0;
  return value == (size_t)-1 ? 0 : value;
}

/* Makes a view of an interface whose fields are of the usual types. NULL, perhaps with an exception, for others. */
static view *view_of_fields(const state *st, PyTypeObject *type, PyObject *object, const interface *from,
                            bool on_host) {
  unsigned long packed;
  if (from->shape == NULL || !PyTuple_CheckExact(from->shape) || from->typestr == NULL ||
      !PyUnicode_CheckExact(from->typestr) || from->data == NULL || !PyTuple_CheckExact(from->data) ||
      PyTuple_Size(from->data) != 2 || !PyBool_Check(PyTuple_GetItem(from->data, 1)) || !is_missing(from->mask) ||
      !(is_missing(from->strides) || PyTuple_CheckExact(from->strides)) ||
      type_of_dtype(st, from->typestr, &packed) < 0 || (packed & 0xFF) == DL_NO_CODE)
    return NULL;
  const size_t address = positive(PyTuple_GetItem(from->data, 0));
  dl_device device = {.type = DL_CPU};
  if (address == 0 || (!on_host && (memory_device(st, address, &device) < 0 || device.type == DL_CPU)))
    return NULL;
  view *self = view_new(st, type, (int32_t)PyTuple_Size(from->shape));
  if (self == NULL)
    return NULL;
  self->tensor.data = (void *)address;
  self->tensor.device = device;
  self->tensor.dtype = view_type(packed);
  self->read_only = PyTuple_GetItem(from->data, 1) == Py_True;
  self->exporting = Py_NewRef(object);
  if (view_set_itemsize(self, 0) == 0 &&
      view_set_dims(self, from->shape, from->strides == NULL ? Py_None : from->strides, self->itemsize, -1) == 0 &&
      check_exchanged(st, object, &self->tensor) == 0 && view_set_keeper(self, object) == 0)
    return self;
  Py_DECREF(self);
  return NULL;
}

/* Clears the exception of what Python code does again, and then raises the error. Errors of CUDA need no repetition. */
static void leave_to_python(const state *st) {
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(st->faces.cuda_error))
    PyErr_Clear();
}

/* Whether the values of a type are arrays whose interface needs no checks. Others can have masks, for example. */
static bool is_plain_array(const type_entry *how) {
  return how->type != NULL && (how->packing == PACKING_ARRAY || how->packing == PACKING_PATHS);
}

/*
 * Makes a view of an array by the interface of that name. NULL without an exception: it has none, or Python code must
 * read it, which also raises the errors. The stream is from read_stream().
 */
static PyObject *view_of_interface(const state *st, PyTypeObject *type, PyObject *object, PyObject *name,
                                   long long stream) {
  const bool on_host = name == st->names.host_interface;
  PyObject *given = on_host || stream >= NO_ORDER ? PyObject_GetAttr(object, name) : NULL;
  view *self = NULL;
  unsigned long long producer = 0;
  if (given != NULL && PyDict_CheckExact(given)) {
    interface from = interface_fields(st, given);
    producer = on_host || is_missing(from.stream) ? 0 : positive(from.stream);
    /* Version 2 names no stream. */
    if (on_host || (positive(from.version) >= 3 && (is_missing(from.stream) || producer != 0)))
      self = view_of_fields(st, type, object, &from, on_host);
    interface_unref(&from);
  }
  Py_XDECREF(given);
  if (self == NULL)
    leave_to_python(st);
  else if (!on_host && stream != NO_ORDER && producer != 0 && order(st, stream, producer, self->tensor.device) < 0)
    Py_CLEAR(self);
  return (PyObject *)self;
}

/* The same; Python code makes the view if this function cannot. `function` is the method that was called. */
static PyObject *from_interface(const state *st, PyObject *cls, PyObject *object, long long stream,
                                const type_entry *how, PyObject *name, const char *function) {
  PyObject *result = NULL;
  if (name != NULL && is_plain_array(how))
    result = view_of_interface(st, (PyTypeObject *)cls, object, name, stream);
  if (result == NULL && !PyErr_Occurred())
    result = PyObject_CallFunction(st->faces.interface_of, "OOLs", cls, object, stream, function);
  return result;
}

static PyObject *from_one_interface(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *keywords,
                                    bool on_host) {
  const state *st = PyModule_GetState(module);
  PyObject *arguments[3] = {NULL}, *kept = NULL, *result = NULL;
  long long stream = NO_ORDER;
  type_entry how = {0};
  const char *function = on_host ? "from_array_interface" : "from_cuda_array_interface";
  if (read_arguments(st, function, on_host ? 2 : 3, given, count, keywords, arguments, &stream, &kept) < 0)
    return NULL;
  if (types_find(st, arguments[1], &how) >= 0)
    result = from_interface(st, arguments[0], arguments[1], stream, &how,
                            on_host ? st->names.host_interface : st->names.interface, function);
  KEEPING_EXCEPTION(types_unref(&how); Py_XDECREF(kept));
  return result;
}

/*
 * Like from_interface(), for an object whose DLPack methods have failed. If this fails, too, the exception of DLPack is
 * raised. Errors of CUDA, and exceptions that are not about the array, are raised without a second attempt.
 */
static PyObject *from_interface_instead(const state *st, PyObject *cls, PyObject *object, long long stream,
                                        const type_entry *how, const char *name) {
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError) ||
      PyErr_ExceptionMatches(st->faces.cuda_error))
    return NULL;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *result = from_interface(st, cls, object, stream, how, st->names.interface, name);
  if (result == NULL) {
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return NULL;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return result;
}

static PyObject *from_any(PyObject *module, PyObject *const *given, Py_ssize_t count, PyObject *keywords, bool any) {
  const state *st = PyModule_GetState(module);
  PyObject *arguments[3] = {NULL}, *kept = NULL, *result = NULL;
  long long stream = NO_ORDER;
  type_entry how = {0};
  const char *name = any ? "from_any_interface" : "from_dlpack";
  if (read_arguments(st, name, 3, given, count, keywords, arguments, &stream, &kept) < 0)
    return NULL;
  PyTypeObject *type = (PyTypeObject *)arguments[0];
  PyObject *object = arguments[1];
  if (PyType_Check(object)) { /* attributes of a class, such as __dlpack__, are meant for its instances */
    result = from_interface(st, arguments[0], object, stream, &how, NULL, name);
    goto end;
  }
  if (types_find(st, object, &how) < 0)
    goto end;
  /* A few types have a converter that checks the values first. Masked arrays are one of these types. */
  if (how.type != NULL && how.packing == PACKING_CONVERTER) {
    PyObject *checked = PyObject_CallFunction(st->faces.check_values, "Os", object, "obj");
    if (checked == NULL)
      goto end;
    Py_DECREF(checked);
  }
  /* Our own views have more information about the streams of their memory than the exchange API can express. */
  if (how.exchange != NULL && how.exchange->managed_tensor_from_object != NULL &&
      !PyType_IsSubtype(Py_TYPE(object), st->view_type)) {
    result = from_exchange(st, type, object, stream, how.exchange);
    goto tried;
  }
  bool has_paths = how.type != NULL && how.packing == PACKING_PATHS && PyTuple_GetItem(how.given, 1) != Py_None;
  if (has_paths && stream == NO_ORDER) {
    result = from_attributes(st, type, object);
    goto tried;
  }
  PyObject *method = PyObject_GetAttr(object, st->names.dlpack);
  if (method != NULL) {
    result = from_dlpack(st, type, object, method, stream, has_paths);
    Py_DECREF(method);
  } else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    result = from_interface(st, arguments[0], object, stream, &how, any ? st->names.interface : NULL, name);
    goto end;
  }
tried:
  if (result == NULL && any)
    result = from_interface_instead(st, arguments[0], object, stream, &how, name);
end:
  KEEPING_EXCEPTION(types_unref(&how); Py_XDECREF(kept));
  return result;
}

static PyObject *view_from_dlpack(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return from_any(module, arguments, count, keywords, false);
}

static PyObject *view_from_any(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return from_any(module, arguments, count, keywords, true);
}

static PyObject *view_from_host(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return from_one_interface(module, arguments, count, keywords, true);
}

static PyObject *view_from_cuda(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return from_one_interface(module, arguments, count, keywords, false);
}

PyMethodDef view_from_functions[] = {
    {"from_array_interface", FASTCALL(view_from_host), METH_FASTCALL | METH_KEYWORDS, DOC_from_array_interface},
    {"from_cuda_array_interface", FASTCALL(view_from_cuda), METH_FASTCALL | METH_KEYWORDS,
     DOC_from_cuda_array_interface},
    {"from_buffer", FASTCALL(view_from_buffer), METH_FASTCALL | METH_KEYWORDS, DOC_from_buffer},
    {"from_dlpack", FASTCALL(view_from_dlpack), METH_FASTCALL | METH_KEYWORDS, DOC_from_dlpack},
    {"from_any_interface", FASTCALL(view_from_any), METH_FASTCALL | METH_KEYWORDS, DOC_from_any_interface},
    {"work_stream", FASTCALL(work_stream), METH_FASTCALL, DOC_work_stream},
    {NULL, NULL, 0, NULL},
};
