/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack's C exchange API for buffers and views: other libraries' C code calls it instead of __dlpack__. Its functions
 * are called with the GIL; the allocator need not be.
 */
#include "views/views.h"

/*
 * Returns the module's state in the calling interpreter; NULL with an exception on failure. The module outlives its
 * objects.
 */
static state *state_here(void) {
  PyObject *module = PyImport_ImportModule("cudacore_handles._native");
  state *st = module != NULL ? PyModule_GetState(module) : NULL;
  Py_XDECREF(module);
  return st;
}

/*
 * Fills in a tensor of the bytes of a buffer, and its flags. The tensor is valid only as long as the buffer. Returns -1
 * with an exception on failure.
 */
static int tensor_of_buffer(const state *st, PyObject *object, dl_tensor *out, uint64_t *flags) {
  static int64_t one = 1;
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "a buffer's size is a shape");
  dl_device device;
  if (buffer_device(object, &device) < 0)
    return -1;
  buffer *self = (buffer *)object;
  cch_deviceptr *box = handle_use(object);
  if (box == NULL)
    return -1;
  int status = memory_check(st, box);
  *flags = cch_deviceptr_is_read_only(box) ? DL_READ_ONLY : 0;
  *out = (dl_tensor){
      .data = self->size != 0 ? (void *)self->base.raw : NULL,
      .device = device,
      .ndim = 1,
      .dtype = {.code = DL_INT, .bits = 8, .lanes = 1},
      .shape = (int64_t *)&self->size,
      .strides = &one,
  };
  handle_done(object);
  return status;
}

static int raise_no_array(PyObject *object) {
  return raise_about(PyExc_TypeError, "%U is neither a Buffer nor a StridedMemoryView", object, 0, 0);
}

static int raise_read_only(const char *what) {
  return raise_error(PyExc_BufferError,
                     "the %s is read-only, which a DLTensor cannot say; ask for a managed tensor, which has flags "
                     "(managed_tensor_from_py_object_no_sync, or __dlpack__)",
                     what);
}

int exchange_tensor(void *object, dl_tensor *out) {
  const state *st = state_here();
  if (st == NULL)
    return -1;
  if (is_buffer(st, object)) {
    uint64_t flags;
    if (tensor_of_buffer(st, object, out, &flags) < 0)
      return -1;
    return flags != 0 ? raise_read_only("buffer") : 0;
  }
  if (!PyType_IsSubtype(Py_TYPE((PyObject *)object), st->view_type))
    return raise_no_array(object);
  if (((view *)object)->tensor.dtype.code == DL_NO_CODE || view_is_padded(object))
    return raise_error(PyExc_BufferError,
                       "the view has elements that a DLTensor cannot describe: view(dtype=...) them as "
                       "something else");
  if (((view *)object)->read_only)
    return raise_read_only("view");
  *out = ((view *)object)->tensor;
  return 0;
}

/* Checks that DLPack can describe the elements of a view, and sets the flags of its tensor. -1 with an exception. */
static int flags_of_view(const view *self, bool versioned, uint64_t *flags) {
  *flags = self->read_only ? DL_READ_ONLY : 0;
  if (self->tensor.dtype.code == DL_NO_CODE)
    return raise_error(PyExc_BufferError,
                       self->dtype != NULL && self->dtype != Py_None
                           ? "DLPack has no type like the view's dtype: export view(dtype=...) of it"
                           : "the view has no dtype, which DLPack needs: export view(dtype=...) of it");
  if (!view_is_padded(self))
    return 0;
  *flags |= DL_PADDED;
  return versioned ? 0
                   : raise_error(PyExc_BufferError,
                                 "the view has padded elements smaller than a byte, which DLPack before 1.0 cannot "
                                 "describe; request a versioned tensor (max_version=(1, 0))");
}

/* Exports the tensor of a buffer or a view; NULL with an exception on failure. */
static void *lend(const state *st, PyObject *object, bool versioned) {
  const view *self = PyType_IsSubtype(Py_TYPE(object), st->view_type) ? (const view *)object : NULL;
  dl_tensor tensor;
  uint64_t flags;
  if (self == NULL && !is_buffer(st, object)) {
    raise_no_array(object);
    return NULL;
  }
  if ((self != NULL ? flags_of_view(self, versioned, &flags) : tensor_of_buffer(st, object, &tensor, &flags)) < 0)
    return NULL;
  if ((flags & DL_READ_ONLY) != 0 && !versioned)
    return PyErr_Format(PyExc_BufferError,
                        "the %s is read-only, which DLPack before 1.0 cannot express; request a versioned tensor "
                        "(max_version=(1, 0))",
                        self != NULL ? "view" : "buffer");
  cch_deviceptr *box = NULL;
  owner *keeper = NULL;
  if (self == NULL)
    box = handle_hold(object);
  else if (self->box == NULL)
    keeper = owner_make(st, object, false);
  else if (memory_check(st, self->box) == 0)
    box = cch_deviceptr_ref(self->box);
  if (box == NULL && keeper == NULL)
    return NULL;
  return dlpack_lend(self != NULL ? &self->tensor : &tensor, box, keeper, versioned, flags);
}

/* ---- the method __dlpack__ ---- */

/* The consumer's stream: its address, or one of these. */
#define STREAM_NOT_GIVEN ((uint64_t)0)
#define STREAM_NO_ORDER UINT64_MAX
enum { LEGACY = 1, PER_THREAD = 2 };

/* Makes a consumer's stream wait for the stream of the memory. `box` is that of the memory, or NULL. -1 on failure. */
static int order_consumer(const state *st, PyObject *object, cch_deviceptr *box, dl_device device, uint64_t stream) {
  if (stream == STREAM_NOT_GIVEN && device.type == DL_CUDA) /* for host memory, the consumer uses no stream */
    stream = LEGACY;
  if (stream == STREAM_NOT_GIVEN)
    return 0;
  cch_stream *producer = box != NULL ? cch_deviceptr_stream_ref(box) : NULL;
  if (producer != NULL) {
    int status = 0;
    if (stream != (uintptr_t)cch_stream_raw(producer) || stream <= PER_THREAD)
      WITHOUT_GIL(status = cch_stream_order((CUstream)(uintptr_t)stream, NULL, producer,
                                            device.type == DL_CUDA ? (int)device.id : -1));
    box_unref(producer);
    return check_status(st, status);
  }
  PyObject *exporter = is_buffer(st, object) ? NULL : ((view *)object)->exporting;
  if (device.type == DL_CPU || exporter == NULL || exporter == Py_None || is_buffer(st, exporter))
    return 0;
  /*
   * Only the exporting object can tell its stream. Exporting it again makes the consumer's stream wait for that stream.
   * The tensor of this second export is released.
   */
  PyObject *again =
      PyObject_CallMethod(st->faces.view, "from_any_interface", "OK", exporter, (unsigned long long)stream);
  Py_XDECREF(again);
  return again != NULL ? 0 : -1;
}

/* Reads the consumer's stream. Returns false without an exception if it is not valid. */
static bool read_stream(PyObject *given, uint64_t *out) {
  *out = STREAM_NOT_GIVEN;
  if (given == Py_None)
    return true;
  if (!PyLong_CheckExact(given))
    return false;
  int overflow;
  long long number = PyLong_AsLongLongAndOverflow(given, &overflow);
  *out = overflow > 0 ? (uint64_t)PyLong_AsSize_t(given) : (uint64_t)number;
  if (overflow > 0) {
    PyErr_Clear();
    return *out != STREAM_NO_ORDER; /* also the result for a number that is too large */
  }
  return overflow == 0 && number != 0 && number >= -1;
}

/* Reads the newest version that the consumer supports. Returns false without an exception if it is not a usual one. */
static bool read_version(PyObject *given, bool *versioned) {
  *versioned = false;
  if (given == Py_None)
    return true;
  if (!PyTuple_CheckExact(given) || PyTuple_Size(given) != 2 || !PyLong_CheckExact(PyTuple_GetItem(given, 1)))
    return false;
  PyObject *major = PyTuple_GetItem(given, 0);
  int overflow;
  *versioned = PyLong_CheckExact(major) && PyLong_AsLongLongAndOverflow(major, &overflow) >= DL_MAJOR;
  return *versioned;
}

static PyObject *export_tensor(const state *st, PyObject *object, uint64_t stream, bool versioned) {
  const bool is_view = !is_buffer(st, object);
  cch_deviceptr *box = is_view ? ((view *)object)->box : handle_use(object);
  if (box == NULL && !is_view)
    return NULL;
  void *managed = lend(st, object, versioned);
  PyObject *capsule = managed != NULL ? dlpack_capsule(managed, versioned) : NULL;
  uint64_t flags;
  if (capsule != NULL && stream != STREAM_NO_ORDER &&
      order_consumer(st, object, box, dlpack_tensor(managed, versioned, &flags)->device, stream) < 0)
    Py_CLEAR(capsule);
  if (!is_view)
    handle_done(object);
  return capsule;
}

PyObject *dlpack_export(const state *st, PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *keywords) {
  static const char *const names[] = {"stream", "max_version", "dl_device", "copy"};
  PyObject *given[4] = {Py_None, Py_None, Py_None, Py_None}, *capsule = NULL;
  uint64_t stream;
  bool versioned;
  if (sort_arguments("__dlpack__", names, 4, 0, arguments, count, keywords, given) < 0)
    return NULL;
  if (given[2] == Py_None && (given[3] == Py_None || given[3] == Py_False) && read_stream(given[0], &stream) &&
      read_version(given[1], &versioned))
    return export_tensor(st, object, stream, versioned);
  PyObject *checked =
      PyObject_CallFunctionObjArgs(st->faces.check_export, object, given[0], given[1], given[2], given[3], NULL);
  int is_versioned;
  PyObject *exported, *consumer;
  if (checked != NULL && PyArg_ParseTuple(checked, "OOp", &exported, &consumer, &is_versioned) &&
      read_stream(consumer, &stream))
    capsule = export_tensor(st, exported, stream, is_versioned != 0);
  Py_XDECREF(checked);
  return capsule;
}

static PyObject *dlpack_of_buffer(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  const state *st = ((handle *)object)->st;
  return st != NULL ? dlpack_export(st, object, arguments, count, keywords) : handle_hold(object); /* raises */
}

static PyMethodDef dlpack_method = {"__dlpack__", FASTCALL(dlpack_of_buffer), METH_FASTCALL | METH_KEYWORDS,
                                    DOC_BufferHandle___dlpack__};

PyObject *view_order(PyObject *object, PyObject *stream) {
  const view *self = (view *)object;
  uint64_t number;
  if (!read_stream(stream, &number))
    return PyErr_Format(PyExc_TypeError, "_order() takes the address of a stream, not %R", stream);
  return order_consumer(self->st, object, self->box, self->tensor.device, number) < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- the exchange API ---- */

static int managed_from_object(void *object, dl_managed_tensor_versioned **out) {
  const state *st = state_here();
  *out = st != NULL ? lend(st, object, true) : NULL;
  return *out != NULL ? 0 : -1;
}

static int managed_to_object(dl_managed_tensor_versioned *tensor, void **out) {
  const state *st = state_here();
  if (st == NULL) {
    dlpack_delete(tensor, true);
    return -1;
  }
  *out = view_of_managed(st, (PyTypeObject *)st->faces.view, tensor, true, Py_None);
  return *out != NULL ? 0 : -1;
}

/* Our objects have no current stream, so the default stream is used unless another one is given. */
static int current_work_stream(int32_t device_type, int32_t device_id, void **out) {
  (void)device_id;
  *out = NULL;
  if (device_type == DL_CPU)
    return 0;
  const state *st = state_here();
  PyObject *number = st != NULL ? PyObject_CallNoArgs(st->faces.default_stream) : NULL;
  if (number == NULL)
    return -1;
  *out = PyLong_AsVoidPtr(number);
  Py_DECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

/* As the memory resource of a tensor is not known, the caller must allocate it. */
static int managed_allocator(dl_tensor *prototype, dl_managed_tensor_versioned **out, void *error_context,
                             void (*set_error)(void *context, const char *kind, const char *message)) {
  (void)prototype;
  *out = NULL;
  set_error(error_context, "NotImplementedError", "cudacore allocates no tensors for other libraries");
  return -1;
}

static dl_exchange_api exchange_api = {
    .version = {.major = DL_MAJOR, .minor = DL_EXCHANGE_MINOR},
    .managed_tensor_allocator = managed_allocator,
    .managed_tensor_from_object = managed_from_object,
    .managed_tensor_to_object = managed_to_object,
    .tensor_from_object = exchange_tensor,
    .current_work_stream = current_work_stream,
};

int add_exchange_api(PyObject *module) {
  /* Buffers are of a lower room, which has no tensors. */
  PyTypeObject *buffers = ((state *)PyModule_GetState(module))->buffer_type;
  PyObject *method = PyDescr_NewMethod(buffers, &dlpack_method);
  int added = method != NULL ? PyObject_SetAttrString((PyObject *)buffers, dlpack_method.ml_name, method) : -1;
  Py_XDECREF(method);
  if (added < 0)
    return -1;
  PyObject *capsule = PyCapsule_New(&exchange_api, DL_EXCHANGE_API, NULL);
  int status = capsule != NULL ? PyModule_AddObjectRef(module, "exchange_api", capsule) : -1;
  Py_XDECREF(capsule);
  return status;
}
