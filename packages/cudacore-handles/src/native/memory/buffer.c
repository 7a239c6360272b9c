/* SPDX-License-Identifier: Apache-2.0 */
/* Implements Buffer's frequent operations: allocating from a pool, closing, copying and filling. */
#include "memory/buffer.h"

enum { MAX_TRACKERS = 16 };

/* Completes a new buffer; NULL stays NULL. */
static PyObject *complete(PyObject *face, PyObject *mr, PyObject *owner) {
  buffer *self = (buffer *)face;
  if (self == NULL)
    return NULL;
  self->size = (Py_ssize_t)cch_deviceptr_size(self->base.box);
  self->mr = mr != Py_None ? Py_NewRef(mr) : NULL;
  self->owner = owner != Py_None ? Py_NewRef(owner) : NULL;
  return face;
}

/* The stream and the other faces of one call, all in use. */
typedef struct operands {
  PyObject *ordered_on;
  cch_stream *stream;
  Py_ssize_t count;
  PyObject **faces, *few[2];
} operands;

/* Begins the use of a face, and returns its box; NULL with an exception on failure. */
static void *operands_use(operands *of, PyObject *face) {
  void *box = handle_use(face);
  if (box != NULL)
    of->faces[of->count++] = face;
  return box;
}

/*
 * Returns the box of a buffer, whose class is checked; NULL with an exception on failure. `what` has a %U for the
 * class.
 */
static cch_deviceptr *use_buffer(const state *st, operands *of, PyObject *face, const char *what) {
  if (!is_buffer(st, face)) {
    raise_about(PyExc_TypeError, what, face, 0, 0);
    return NULL;
  }
  return operands_use(of, face);
}

/*
 * Begins a call on a stream. Returns -1 with an exception on failure. `faces` has room for the faces of the call;
 * NULL if there are at most two. After a failure, the caller calls operands_failed().
 */
static int operands_begin(const state *st, operands *of, PyObject *stream, PyObject **faces) {
  of->count = 0;
  of->faces = faces != NULL ? faces : of->few;
  of->stream = NULL;
  of->ordered_on = stream_accept(st, stream);
  if (of->ordered_on != NULL)
    of->stream = handle_use(of->ordered_on);
  return of->stream != NULL ? 0 : -1;
}

static void operands_unref(operands *of) {
  for (Py_ssize_t i = 0; i < of->count; i++)
    handle_done(of->faces[i]);
  if (of->stream != NULL)
    handle_done(of->ordered_on);
  Py_XDECREF(of->ordered_on);
}

static PyObject *operands_failed(operands *of) {
  operands_unref(of);
  return NULL;
}

/* Ends a call with the status of the work; NULL with an exception on failure. */
static PyObject *operands_end(const state *st, operands *of, int status) {
  if (status != 0)
    raise_invalid(st, status);
  operands_unref(of);
  return status == 0 ? Py_NewRef(Py_None) : NULL;
}

/* Gets the boxes of a tuple of trackers, or of None. Returns their number; -1 with an exception on failure. */
static Py_ssize_t use_trackers(operands *of, PyObject *faces, cch_tracker **boxes) {
  Py_ssize_t count = faces == Py_None ? 0 : PyTuple_Size(faces);
  if (count > MAX_TRACKERS) {
    PyErr_SetString(PyExc_ValueError, "an allocation can have at most 16 trackers");
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++)
    if ((boxes[i] = operands_use(of, PyTuple_GetItem(faces, i))) == NULL)
      return -1;
  return count;
}

/*
 * Makes a buffer of memory from a pool. The memory is newly allocated; or, if `handle` is given, it is imported from
 * another process. If `face` is None then, it is memory of this process.
 */
static PyObject *make_of_pool(const state *st, PyObject *cls, PyObject *face, size_t offset, size_t size,
                              PyObject *given, PyObject *mr, PyObject *tracker_faces, const cch_ipc_handle *handle) {
  operands of;
  PyObject *faces[1 + MAX_TRACKERS];
  cch_tracker *trackers[MAX_TRACKERS];
  cch_pool *pool = NULL;
  cch_deviceptr *box = NULL;
  if (operands_begin(st, &of, given, faces) < 0 || (face != Py_None && (pool = operands_use(&of, face)) == NULL))
    return operands_failed(&of);
  Py_ssize_t count = use_trackers(&of, tracker_faces, trackers);
  if (count < 0)
    return operands_failed(&of);
  int status;
  if (size == 0)
    status = cch_deviceptr_wrap(&box, 0, 0, NULL, NULL, NULL);
  else
    WITHOUT_GIL(status = handle != NULL ? cch_deviceptr_import_part(&box, pool, handle, offset, size, of.stream)
                         : count == 0
                             ? cch_deviceptr_alloc_async(&box, pool, size, of.stream)
                             : cch_deviceptr_alloc_tracked(&box, pool, size, of.stream, trackers, (size_t)count));
  operands_unref(&of);
  if (status != 0)
    return raise_status(st, status);
  owners_drain(st);
  return complete((PyObject *)handle_make(st, (PyTypeObject *)cls, box), mr, Py_None);
}

static PyObject *allocate(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (count != 6 && check_argument_count("allocate(cls, pool, size, stream, memory_resource)", count, 5) < 0)
    return NULL;
  size_t size = PyLong_AsSize_t(arguments[2]);
  if (size == (size_t)-1 && PyErr_Occurred())
    return NULL;
  return make_of_pool(PyModule_GetState(module), arguments[0], arguments[1], 0, size, arguments[3], arguments[4],
                      count == 6 ? arguments[5] : Py_None, NULL);
}

static PyObject *import_memory(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("import_memory(cls, pool, offset, size, stream, memory_resource, handle)", count, 7) < 0)
    return NULL;
  size_t offset = PyLong_AsSize_t(arguments[2]), size = PyLong_AsSize_t(arguments[3]);
  cch_ipc_handle handle;
  char *bytes;
  Py_ssize_t length;
  if (PyErr_Occurred() || PyBytes_AsStringAndSize(arguments[6], &bytes, &length) < 0)
    return NULL;
  if (length != sizeof handle)
    return PyErr_Format(PyExc_ValueError, "handle has %zd bytes; it must have %zu", length, sizeof handle);
  memcpy(&handle, bytes, sizeof handle);
  return make_of_pool(PyModule_GetState(module), arguments[0], arguments[1], offset, size, arguments[4], arguments[5],
                      Py_None, &handle);
}

/* Copies the part that `shape` describes, or everything if `shape` is NULL. */
static PyObject *copy_operands(const state *st, PyObject *dst_face, PyObject *src_face, const cch_copy_shape *shape,
                               PyObject *stream) {
  operands of;
  if (operands_begin(st, &of, stream, NULL) < 0)
    return operands_failed(&of);
  cch_deviceptr *dst = use_buffer(st, &of, dst_face, "dst must be a Buffer, not %U");
  cch_deviceptr *src = dst != NULL ? use_buffer(st, &of, src_face, "src must be a Buffer, not %U") : NULL;
  if (src == NULL)
    return operands_failed(&of);
  size_t size = cch_deviceptr_size(src), room = cch_deviceptr_size(dst);
  if (shape == NULL && size != room) {
    PyErr_Format(PyExc_ValueError, "buffer sizes mismatch between src and dst (sizes are: src=%zu, dst=%zu)", size,
                 room);
    return operands_failed(&of);
  }
  int status;
  WITHOUT_GIL(status = shape != NULL ? cch_copy_part(dst, src, shape, of.stream)
                                     : cch_deviceptr_copy(dst, src, size, of.stream));
  return operands_end(st, &of, status);
}

static PyObject *copy(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("copy(dst, src, stream)", count, 3) < 0)
    return NULL;
  return copy_operands(PyModule_GetState(module), arguments[0], arguments[1], NULL, arguments[2]);
}

/* Gets the boxes of a tuple of buffers. Returns -1 with an exception on failure. */
static int use_buffers(const state *st, operands *of, PyObject *tuple, cch_deviceptr **boxes) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
    boxes[i] = use_buffer(st, of, PyTuple_GetItem(tuple, i), "copy_batch: expected Buffer, got %U");
    if (boxes[i] == NULL)
      return -1;
  }
  return 0;
}

/* Reads the attributes of a batch: 0, or -1 with an exception. */
static int read_attributes(Py_ssize_t count, PyObject *attributes, const cch_copy_attributes **settings) {
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *given = attributes == Py_None ? Py_None : PyTuple_GetItem(attributes, i);
    settings[i] = NULL;
    if (given != Py_None && (settings[i] = (const void *)PyBytes_AsString(given)) == NULL)
      return -1;
  }
  return 0;
}

static PyObject *copy_batch(PyObject *module, PyObject *const *arguments, Py_ssize_t given) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("copy_batch(dsts, srcs, attributes, stream)", given, 4) < 0)
    return NULL;
  PyObject *dsts = arguments[0], *srcs = arguments[1];
  if (!PyTuple_Check(dsts) || !PyTuple_Check(srcs) || PyTuple_Size(dsts) != PyTuple_Size(srcs))
    return PyErr_Format(PyExc_TypeError, "copy_batch() takes two tuples of the same length");
  Py_ssize_t count = PyTuple_Size(dsts);
  operands of;
  PyObject *result = NULL;
  enum { ARRAYS = 5 }; /* five arrays of pointers: boxes and faces of both sides, and attributes */
  void **room = PyMem_Malloc(((size_t)count + 1) * ARRAYS * sizeof *room);
  if (room == NULL)
    return PyErr_NoMemory();
  PyObject **faces = (PyObject **)room;
  cch_deviceptr **to = (cch_deviceptr **)(room + 2 * count), **from = to + count;
  const cch_copy_attributes **settings = (const cch_copy_attributes **)(void *)(from + count);
  if (operands_begin(st, &of, arguments[3], faces) == 0 && use_buffers(st, &of, dsts, to) == 0 &&
      use_buffers(st, &of, srcs, from) == 0 && read_attributes(count, arguments[2], settings) == 0) {
    int status;
    WITHOUT_GIL(status = cch_copy_batch(to, from, (size_t)count, settings, of.stream));
    result = operands_end(st, &of, status);
  } else {
    operands_unref(&of);
  }
  PyMem_Free(room);
  return result;
}

static PyObject *copy_part(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("copy_part(dst, src, shape, stream)", count, 4) < 0)
    return NULL;
  const cch_copy_shape *shape = (const void *)PyBytes_AsString(arguments[2]);
  if (shape == NULL)
    return NULL;
  return copy_operands(PyModule_GetState(module), arguments[0], arguments[1], shape, arguments[3]);
}

static PyObject *fill(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("fill(buffer, value, width, stream)", count, 4) < 0)
    return NULL;
  unsigned long value = PyLong_AsUnsignedLong(arguments[1]), width = PyLong_AsUnsignedLong(arguments[2]);
  if (PyErr_Occurred())
    return NULL;
  operands of;
  if (operands_begin(st, &of, arguments[3], NULL) < 0)
    return operands_failed(&of);
  cch_deviceptr *dst = use_buffer(st, &of, arguments[0], "a Buffer is needed, not %U");
  if (dst == NULL)
    return operands_failed(&of);
  int status;
  WITHOUT_GIL(status = cch_deviceptr_fill(dst, value, (unsigned)width, of.stream));
  return operands_end(st, &of, status);
}

/* ---- the type ---- */

int memory_with_stream(const state *st, cch_deviceptr *memory, PyObject *argument, memory_stream_fn function) {
  PyObject *ordered_on = stream_accept(st, argument);
  cch_stream *stream = ordered_on != NULL ? handle_use(ordered_on) : NULL;
  int status = -1;
  if (stream != NULL) {
    if (function == cch_deviceptr_set_stream && cch_deviceptr_has_stream(memory, stream))
      status = 0;
    else /* the last reference to the previous stream may be released */
      WITHOUT_GIL(status = function(memory, stream));
    handle_done(ordered_on);
    if (status != 0)
      raise_status(st, status);
  }
  Py_XDECREF(ordered_on);
  return status == 0 ? 0 : -1;
}

/* The same for the memory of a buffer. */
static int with_stream(PyObject *self, PyObject *argument, memory_stream_fn function) {
  cch_deviceptr *box = handle_use(self);
  int status = box != NULL ? memory_with_stream(((handle *)self)->st, box, argument, function) : -1;
  if (box != NULL)
    handle_done(self);
  return status;
}

static PyObject *set_deallocation_stream(PyObject *self, PyObject *stream) {
  return with_stream(self, stream, cch_deviceptr_set_stream) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *record_stream(PyObject *self, PyObject *stream) {
  return with_stream(self, stream, cch_deviceptr_record_stream) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *close_method(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  static const char *const names[] = {"stream"};
  buffer *self = (buffer *)object;
  PyObject *stream = Py_None;
  if (sort_arguments("close", names, 1, 1, arguments, count, keywords, &stream) < 0)
    return NULL;
  if (!handle_is_open(self))
    Py_RETURN_NONE;
  if (stream != Py_None && with_stream(object, stream, cch_deviceptr_set_stream) < 0)
    return NULL;
  handle_close(&self->base);
  Py_XDECREF(field_swap(self, &self->owner, NULL));
  Py_XDECREF(field_swap(self, &self->mr, NULL));
  Py_RETURN_NONE;
}

static PyObject *adopt(PyObject *cls, PyObject *const *arguments, Py_ssize_t count) {
  if (count != 3 && check_argument_count("_adopt_memory(out, memory_resource, owner, stream)", count, 4) < 0)
    return NULL;
  void *box = box_take(arguments[0]);
  PyObject *face = NULL;
  if (box != NULL)
    face =
        complete(handle_make(state_of_type((PyTypeObject *)cls), (PyTypeObject *)cls, box), arguments[1], arguments[2]);
  if (face != NULL && count == 4 && arguments[3] != Py_None &&
      with_stream(face, arguments[3], cch_deviceptr_set_stream) < 0)
    Py_CLEAR(face);
  return face;
}

/* Returns whether a number needs no check: an int from 0 to 2**63 - 1. */
static bool is_plain_number(PyObject *given) {
  int overflow = 0;
  return PyLong_CheckExact(given) && PyLong_AsLongLongAndOverflow(given, &overflow) >= 0 && overflow == 0;
}

/* The same for the memory resource and the owner, which is kept as it is unless it can be closed. */
static bool is_plain_keeper(const state *st, PyObject *mr, PyObject *owner) {
  PyObject *resources = st->faces.memory_resource; /* None before their module is imported */
  if (mr != Py_None)
    return owner == Py_None && resources != Py_None && PyType_IsSubtype(Py_TYPE(mr), (PyTypeObject *)resources);
  return owner == Py_None || (!is_handle(st, owner) && !PyType_IsSubtype(Py_TYPE(owner), st->view_type));
}

/*
 * Makes the box of existing memory. A buffer, `lender`, or an object, `keeper`, keeps it alive; both can be None. If
 * `frees`, the keeper is a memory resource that frees it. NULL with an exception on failure.
 */
static cch_deviceptr *wrap(const state *st, PyObject *ptr, PyObject *size, PyObject *keeper, bool frees,
                           PyObject *lender) {
  const size_t address = PyLong_AsSize_t(ptr), bytes = PyLong_AsSize_t(size); /* checked: they fit */
  cch_deviceptr *box = NULL;
  int status;
  if (lender != Py_None) {
    cch_deviceptr *lent = handle_use(lender);
    if (lent == NULL)
      return NULL;
    status = cch_deviceptr_borrow(&box, address, bytes, lent);
    handle_done(lender);
  } else {
    owner *kept = keeper != Py_None ? owner_make(st, keeper, frees) : NULL;
    if (kept == NULL && keeper != Py_None)
      return NULL;
    status = cch_deviceptr_wrap(&box, address, bytes, NULL, kept, kept != NULL ? owner_free : NULL);
    if (status != 0 && kept != NULL)
      owner_discard(kept);
  }
  return check_status(st, status) < 0 ? NULL : box;
}

static PyObject *from_handle(PyObject *cls, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  static const char *const names[] = {"ptr", "size", "mr", "owner", "stream"};
  const state *st = state_of_type((PyTypeObject *)cls);
  PyObject *given[5] = {NULL, NULL, Py_None, Py_None, Py_None}, *checked = NULL, *ordered_on = NULL, *face = NULL;
  if (sort_arguments("from_handle", names, 5, 4, arguments, count, keywords, given) < 0)
    return NULL;
  PyObject *ptr = given[0], *size = given[1], *mr = given[2], *keeper = mr != Py_None ? mr : given[3];
  PyObject *lender = Py_None;
  if (ptr == NULL || size == NULL)
    return PyErr_Format(PyExc_TypeError, "from_handle() needs ptr, and size");
  if (!is_plain_number(ptr) || !is_plain_number(size) || !is_plain_keeper(st, mr, given[3])) {
    checked = PyObject_CallFunctionObjArgs(st->faces.check_memory, ptr, size, mr, given[3], NULL);
    if (checked == NULL || !PyArg_ParseTuple(checked, "OOOO", &ptr, &size, &keeper, &lender))
      goto done;
  }
  cch_stream *stream = NULL;
  if (given[4] != Py_None) {
    ordered_on = stream_accept(st, given[4]);
    stream = ordered_on != NULL ? handle_use(ordered_on) : NULL;
    if (stream == NULL)
      goto done;
  }
  cch_deviceptr *box = wrap(st, ptr, size, keeper, mr != Py_None, lender);
  if (box != NULL)
    face = complete(handle_make(st, (PyTypeObject *)cls, box), mr, given[3]);
  if (face != NULL && stream != NULL && check_status(st, cch_deviceptr_set_stream(box, stream)) < 0)
    Py_CLEAR(face);
  if (stream != NULL)
    handle_done(ordered_on);
done:
  KEEPING_EXCEPTION(Py_XDECREF(ordered_on); Py_XDECREF(checked));
  return face;
}

static PyObject *deallocation_stream(PyObject *module, PyObject *address) {
  const state *st = PyModule_GetState(module);
  cch_deviceptr *memory = PyLong_AsVoidPtr(address);
  if (memory == NULL && PyErr_Occurred())
    return NULL;
  return stream_face(st, cch_deviceptr_stream_ref(memory));
}

static PyObject *set_memory_resource(PyObject *object, PyObject *mr) {
  buffer *self = (buffer *)object;
  Py_XDECREF(field_swap(self, &self->mr, Py_NewRef(mr)));
  shared_set(&self->access, 0); /* what the driver reported; from now on, the resource is asked */
  Py_RETURN_NONE;
}

static PyObject *dlpack_device(PyObject *object, PyObject *nothing) {
  (void)nothing;
  dl_device device;
  return buffer_device(object, &device) < 0 ? NULL : Py_BuildValue("(ii)", (int)device.type, (int)device.id);
}

static PyObject *compare(PyObject *a, PyObject *b, int operation) {
  const buffer *self = (const buffer *)a, *other = (const buffer *)b;
  if ((operation != Py_EQ && operation != Py_NE) || self->base.st == NULL ||
      !PyType_IsSubtype(Py_TYPE(b), self->base.st->buffer_type))
    Py_RETURN_NOTIMPLEMENTED;
  int equal = a == b || (self->base.raw == other->base.raw && self->size == other->size && handle_is_open(self) &&
                         handle_is_open(other));
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_hash_t hash(PyObject *object) {
  const buffer *self = (const buffer *)object;
  Py_hash_t value = (Py_hash_t)(self->base.raw ^ (uintptr_t)self->size * (uintptr_t)0x9E3779B97F4A7C15u);
  return value == -1 ? -2 : value;
}

static PyObject *address(PyObject *object, void *closure) {
  (void)closure;
  const handle *self = (const handle *)object;
  return PyLong_FromSize_t(handle_is_open(self) ? self->raw : 0);
}

static PyObject *size(PyObject *object, void *closure) {
  (void)closure;
  const buffer *self = (const buffer *)object;
  return PyLong_FromSsize_t(handle_is_open(self) ? self->size : 0);
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  const buffer *self = (const buffer *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->mr);
  Py_VISIT(self->owner);
  return 0;
}

static int clear(PyObject *object) {
  buffer *self = (buffer *)object;
  Py_CLEAR(self->mr);
  Py_CLEAR(self->owner);
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  handle_dealloc(object);
}

static PyMethodDef methods[] = {
    {"close", FASTCALL(close_method), METH_FASTCALL | METH_KEYWORDS, DOC_BufferHandle_close},
    {"record_stream", record_stream, METH_O, DOC_BufferHandle_record_stream},
    {"set_deallocation_stream", set_deallocation_stream, METH_O, DOC_BufferHandle_set_deallocation_stream},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, DOC_BufferHandle___dlpack_device__},
    {"_set_access", access_set, METH_VARARGS, DOC_BufferHandle__set_access},
    {"_set_memory_resource", set_memory_resource, METH_O, DOC_BufferHandle__set_memory_resource},
    {"from_handle", FASTCALL(from_handle), METH_FASTCALL | METH_KEYWORDS | METH_CLASS, DOC_BufferHandle_from_handle},
    {"_adopt_memory", FASTCALL(adopt), METH_FASTCALL | METH_CLASS, DOC_BufferHandle__adopt_memory},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"memory_resource", T_OBJECT, offsetof(buffer, mr), READONLY, DOC_BufferHandle_memory_resource},
    {"owner", T_OBJECT, offsetof(buffer, owner), READONLY, DOC_BufferHandle_owner},
    {NULL, 0, 0, 0, NULL},
};

/* Asks the box of a buffer; false if the buffer is closed. */
static PyObject *ask(PyObject *object, bool (*function)(const cch_deviceptr *)) {
  const cch_deviceptr *box = handle_try_use(object);
  bool answer = box != NULL && function(box);
  if (box != NULL)
    handle_done(object);
  return PyBool_FromLong(answer);
}

static PyObject *is_mapped(PyObject *object, void *closure) {
  (void)closure;
  return ask(object, cch_deviceptr_is_imported);
}

static PyObject *is_read_only(PyObject *object, void *closure) {
  (void)closure;
  return ask(object, cch_deviceptr_is_read_only);
}

static PyGetSetDef properties[] = {
    {"is_mapped", is_mapped, NULL, DOC_BufferHandle_is_mapped, NULL},
    {"is_read_only", is_read_only, NULL, DOC_BufferHandle_is_read_only, NULL},
    {"size", size, NULL, DOC_BufferHandle_size, NULL},
    {"handle", address, NULL, DOC_BufferHandle_handle, NULL},
    {"device_id", access_property, NULL, DOC_BufferHandle_device_id, (void *)ACCESS_DEVICE_ID},
    {"is_device_accessible", access_property, NULL, DOC_BufferHandle_is_device_accessible, (void *)ACCESS_BY_DEVICE},
    {"is_host_accessible", access_property, NULL, DOC_BufferHandle_is_host_accessible, (void *)ACCESS_BY_HOST},
    {"is_managed", access_property, NULL, DOC_BufferHandle_is_managed, (void *)ACCESS_MANAGED},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Spec spec =
    GC_TYPE_SPEC("cudacore_handles.Buffer", buffer, SLOT(tp_doc, DOC_BufferHandle), SLOT(tp_dealloc, dealloc),
                 SLOT(tp_traverse, traverse), SLOT(tp_clear, clear), SLOT(tp_hash, hash), SLOT(tp_richcompare, compare),
                 SLOT(tp_methods, methods), SLOT(tp_members, members), SLOT(tp_getset, properties));

static PyObject *device_of_address(PyObject *module, PyObject *address) {
  const size_t given = PyLong_AsSize_t(address);
  dl_device device;
  if (PyErr_Occurred() || memory_device(PyModule_GetState(module), given, &device) < 0)
    return NULL;
  return Py_BuildValue("(ii)", (int)device.type, (int)device.id);
}

static PyObject *pool_attribute(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("pool_attribute(pool, number)", count, 2) < 0)
    return NULL;
  long number = PyLong_AsLong(arguments[1]);
  cch_pool *pool = PyErr_Occurred() || !is_handle(st, arguments[0]) ? NULL : handle_use(arguments[0]);
  if (pool == NULL)
    return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "pool_attribute() takes the owner of a pool");
  uint64_t value = 0;
  int status;
  WITHOUT_GIL(status = cch_pool_attribute(&value, pool, (int)number));
  handle_done(arguments[0]);
  return check_status(st, status) < 0 ? NULL : PyLong_FromUnsignedLongLong(value);
}

static PyMethodDef functions[] = {
    {"pool_attribute", FASTCALL(pool_attribute), METH_FASTCALL, DOC_pool_attribute},
    {"memory_device", device_of_address, METH_O, DOC_memory_device},
    {"allocate", FASTCALL(allocate), METH_FASTCALL, DOC_allocate},
    {"import_memory", FASTCALL(import_memory), METH_FASTCALL, DOC_import_memory},
    {"copy", FASTCALL(copy), METH_FASTCALL, DOC_copy},
    {"copy_batch", FASTCALL(copy_batch), METH_FASTCALL, DOC_copy_batch},
    {"copy_part", FASTCALL(copy_part), METH_FASTCALL, DOC_copy_part},
    {"fill", FASTCALL(fill), METH_FASTCALL, DOC_fill},
    {"deallocation_stream", deallocation_stream, METH_O, DOC_deallocation_stream},
    {NULL, NULL, 0, NULL},
};

int add_buffer_type(PyObject *module, state *st) {
  return add_type(module, functions, "BufferHandle", &spec, st->handle_type, &st->buffer_type);
}
