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

/* Reads the DLPack device of memory from its pool; false if it has no pool, or the device of the pool is unknown. */
static bool device_of_pool(const cch_deviceptr *box, dl_device *out) {
  const cch_pool *pool = cch_deviceptr_pool(box);
  int place = 0, id = 0;
  if (pool != NULL)
    cch_pool_location(&place, &id, pool);
  if (pool != NULL && cch_pool_alloc_type(pool) == CCH_ALLOCATION_MANAGED)
    *out = (dl_device){.type = DL_CUDA_MANAGED, .id = 0};
  else if (place == CCH_LOCATION_DEVICE)
    *out = (dl_device){.type = DL_CUDA, .id = id};
  else if (place == CCH_LOCATION_HOST || place == CCH_LOCATION_HOST_NUMA)
    *out = (dl_device){.type = DL_CUDA_HOST, .id = 0};
  else
    return false;
  return true;
}

int buffer_device(const state *st, PyObject *object, dl_device *out) {
  cch_deviceptr *box = handle_use(object);
  if (box == NULL)
    return -1;
  bool known = device_of_pool(box, out);
  handle_done(object);
  if (known)
    return 0;
  PyObject *pair = PyObject_CallFunctionObjArgs(st->faces.buffer_device, object, NULL);
  int type, id;
  int status = pair != NULL && PyArg_ParseTuple(pair, "ii:__dlpack_device__", &type, &id) ? 0 : -1;
  Py_XDECREF(pair);
  if (status == 0)
    *out = (dl_device){.type = type, .id = id};
  return status;
}

/*
 * Fills in a tensor of the bytes of a buffer, and its flags. The tensor is valid only as long as the buffer. Returns -1
 * with an exception on failure.
 */
static int tensor_of_buffer(const state *st, PyObject *object, dl_tensor *out, uint64_t *flags) {
  static int64_t one = 1;
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "a buffer's size is a shape");
  dl_device device;
  if (buffer_device(st, object, &device) < 0)
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

static PyObject *export_capsule(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("export_capsule(object, versioned)", count, 2) < 0)
    return NULL;
  const bool versioned = arguments[1] == Py_True;
  void *managed = lend(PyModule_GetState(module), arguments[0], versioned);
  return managed != NULL ? dlpack_capsule(managed, versioned) : NULL;
}

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

static PyMethodDef functions[] = {
    {"export_capsule", FASTCALL(export_capsule), METH_FASTCALL, DOC_export_capsule},
    {NULL, NULL, 0, NULL},
};

int add_exchange_api(PyObject *module) {
  if (PyModule_AddFunctions(module, functions) < 0)
    return -1;
  PyObject *capsule = PyCapsule_New(&exchange_api, DL_EXCHANGE_API, NULL);
  int status = capsule != NULL ? PyModule_AddObjectRef(module, "exchange_api", capsule) : -1;
  Py_XDECREF(capsule);
  return status;
}
