/* SPDX-License-Identifier: Apache-2.0 */
/* The hot half of Buffer: allocating from a pool, closing, copying, filling. */
#include "base/native.h"

static PyObject *make(const state *st, PyTypeObject *type, cch_deviceptr *box, PyObject *mr, PyObject *owner) {
  buffer *self = (buffer *)handle_make(st, type, box);
  if (self == NULL)
    return NULL;
  self->size = (Py_ssize_t)cch_deviceptr_size(box);
  if (mr != Py_None) {
    Py_INCREF(mr);
    self->mr = mr;
  }
  if (owner != Py_None) {
    Py_INCREF(owner);
    self->owner = owner;
  }
  return (PyObject *)self;
}

/* A new buffer of a pool's memory: allocated, or another process's, by the handle that that one exported. */
static PyObject *make_of_pool(const state *st, PyObject *cls, PyObject *face, size_t offset, size_t size,
                              PyObject *given, PyObject *mr, const cch_ipc_handle *handle) {
  PyObject *ordered_on = stream_accept(st, given);
  if (ordered_on == NULL)
    return NULL;
  cch_deviceptr *box = NULL;
  int status = -1;
  cch_stream *stream = handle_use(ordered_on);
  cch_pool *pool = stream != NULL ? handle_use(face) : NULL;
  if (pool != NULL) {
    Py_BEGIN_ALLOW_THREADS;
    status = handle != NULL ? cch_deviceptr_import_part(&box, pool, handle, offset, size, stream)
                            : cch_deviceptr_alloc_async(&box, pool, size, stream);
    Py_END_ALLOW_THREADS;
    handle_done(face);
  }
  if (stream != NULL)
    handle_done(ordered_on);
  Py_DECREF(ordered_on);
  if (pool == NULL)
    return NULL;
  if (status != 0)
    return raise_status(st, status);
  owners_drain(st);
  return make(st, (PyTypeObject *)cls, box, mr, Py_None);
}

const char allocate_doc[] = "allocate(cls, pool, size, stream, memory_resource, /)\n--\n\n"
                            "Return a new buffer of a class, from the pool of a face (cuMemAllocFromPoolAsync).";

PyObject *allocate(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("allocate(cls, pool, size, stream, memory_resource)", count, 5) < 0)
    return NULL;
  size_t size = PyLong_AsSize_t(arguments[2]);
  if (size == (size_t)-1 && PyErr_Occurred())
    return NULL;
  return make_of_pool(PyModule_GetState(module), arguments[0], arguments[1], 0, size, arguments[3], arguments[4], NULL);
}

const char import_memory_doc[] =
    "import_memory(cls, pool, offset, size, stream, memory_resource, handle, /)\n--\n\n"
    "Return a new buffer of a class, of another process's memory (cuMemPoolImportPointer), by the bytes of the handle\n"
    "that that one exported.";

PyObject *import_memory(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
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
                      &handle);
}

/* The buffers and the stream of one call, all in use. */
typedef struct operands {
  PyObject *ordered_on;
  cch_stream *stream;
  owners used;
} operands;

/* A buffer, whose class is checked; NULL with an exception, `what` having %U for its class. */
static cch_deviceptr *use_buffer(const state *st, operands *of, Py_ssize_t index, PyObject *face, const char *what) {
  uint64_t address;
  if (!PyType_IsSubtype(Py_TYPE(face), st->buffer_type)) {
    raise_about(PyExc_TypeError, what, face, 0, 0);
    return NULL;
  }
  if (owners_add_memory(&of->used, index, face, &address) < 0)
    return NULL;
  return owned_box(&owners_items(&of->used)[of->used.count - 1]);
}

/* Begins a call on a stream; -1 with an exception. It ends with operands_done(), also after a failure. */
static int operands_begin(const state *st, operands *of, PyObject *stream) {
  owners_init(&of->used, true);
  of->stream = NULL;
  of->ordered_on = stream_accept(st, stream);
  if (of->ordered_on != NULL)
    of->stream = handle_use(of->ordered_on);
  return of->stream != NULL ? 0 : -1;
}

static void operands_done(operands *of) {
  owners_release(&of->used);
  if (of->stream != NULL)
    handle_done(of->ordered_on);
  Py_XDECREF(of->ordered_on);
}

/* Gives the work to the stream, and ends the call; NULL with an exception. */
static PyObject *operands_work(const state *st, operands *of, work_fn work, void *arguments) {
  int status;
  bool done = give_work(st, of->stream, &of->used, NULL, work, arguments, &status) == 0;
  if (done && status != 0)
    raise_status(st, status);
  operands_done(of);
  if (!done || status != 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *operands_failed(operands *of) {
  operands_done(of);
  return NULL;
}

const char copy_doc[] = "copy(dst, src, stream, /)\n--\n\n"
                        "Copy between buffers of one size (cuMemcpyAsync).";

typedef struct copy_arguments {
  cch_deviceptr *dst, *src;
  const cch_copy_shape *shape; /* of a part; NULL for the whole */
  cch_stream *stream;
} copy_arguments;

static int copy_work(void *arguments) {
  const copy_arguments *given = arguments;
  if (given->shape != NULL)
    return cch_copy_part(given->dst, given->src, given->shape, given->stream);
  return cch_deviceptr_copy(given->dst, given->src, cch_deviceptr_size(given->src), given->stream);
}

static PyObject *copy_operands(const state *st, PyObject *dst, PyObject *src, const cch_copy_shape *shape,
                               PyObject *stream) {
  operands of;
  if (operands_begin(st, &of, stream) < 0)
    return operands_failed(&of);
  copy_arguments ready = {.shape = shape, .stream = of.stream};
  ready.dst = use_buffer(st, &of, 0, dst, "dst must be a Buffer, not %U");
  ready.src = ready.dst != NULL ? use_buffer(st, &of, 1, src, "src must be a Buffer, not %U") : NULL;
  if (ready.src == NULL)
    return operands_failed(&of);
  size_t size = cch_deviceptr_size(ready.src), room = cch_deviceptr_size(ready.dst);
  if (shape == NULL && size != room) {
    PyErr_Format(PyExc_ValueError, "buffer sizes mismatch between src and dst (sizes are: src=%zu, dst=%zu)", size,
                 room);
    return operands_failed(&of);
  }
  return operands_work(st, &of, copy_work, &ready);
}

PyObject *copy(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("copy(dst, src, stream)", count, 3) < 0)
    return NULL;
  return copy_operands(PyModule_GetState(module), arguments[0], arguments[1], NULL, arguments[2]);
}

const char copy_batch_doc[] =
    "copy_batch(dsts, srcs, attributes, stream, /)\n--\n\n"
    "Copy between the buffers of two tuples (cuMemcpyBatchAsync); attributes: None, or a tuple of cch_copy_attributes.";

/* The buffers of a tuple; -1 with an exception. */
static int use_buffers(const state *st, operands *of, PyObject *tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++)
    if (use_buffer(st, of, i, PyTuple_GetItem(tuple, i), "copy_batch: expected Buffer, got %U") == NULL)
      return -1;
  return 0;
}

/* What a batch is made of: 0, or -1 with an exception. */
static int read_batch(const owners *used, Py_ssize_t count, PyObject *attributes, cch_deviceptr **boxes,
                      const cch_copy_attributes **settings) {
  const owned *items = owners_items((owners *)used);
  for (Py_ssize_t i = 0; i < count; i++) {
    boxes[i] = owned_box(&items[i]);
    boxes[count + i] = owned_box(&items[count + i]);
    size_t size = cch_deviceptr_size(boxes[count + i]), room = cch_deviceptr_size(boxes[i]);
    if (size != room) {
      PyErr_Format(PyExc_ValueError, "copy_batch: buffer size mismatch at index %zd (src=%zu, dst=%zu)", i, size, room);
      return -1;
    }
    PyObject *given = attributes == Py_None ? Py_None : PyTuple_GetItem(attributes, i);
    settings[i] = NULL;
    if (given != Py_None && (settings[i] = (const void *)PyBytes_AsString(given)) == NULL)
      return -1;
  }
  return 0;
}

typedef struct batch_arguments {
  cch_deviceptr **boxes; /* destinations, then sources */
  const cch_copy_attributes **settings;
  size_t count;
  cch_stream *stream;
} batch_arguments;

static int batch_work(void *arguments) {
  const batch_arguments *given = arguments;
  return cch_copy_batch(given->boxes, given->boxes + given->count, given->count, given->settings, given->stream);
}

PyObject *copy_batch(PyObject *module, PyObject *const *arguments, Py_ssize_t given) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("copy_batch(dsts, srcs, attributes, stream)", given, 4) < 0)
    return NULL;
  PyObject *dsts = arguments[0], *srcs = arguments[1];
  if (!PyTuple_Check(dsts) || !PyTuple_Check(srcs) || PyTuple_Size(dsts) != PyTuple_Size(srcs)) {
    PyErr_SetString(PyExc_TypeError, "copy_batch() takes two tuples of the same length");
    return NULL;
  }
  Py_ssize_t count = PyTuple_Size(dsts);
  operands of;
  PyObject *result = NULL;
  batch_arguments ready = {.count = (size_t)count};
  ready.boxes = PyMem_Malloc(((size_t)count + 1) * (2 * sizeof *ready.boxes + sizeof(void *)));
  if (ready.boxes == NULL)
    return PyErr_NoMemory();
  ready.settings = (const cch_copy_attributes **)(void *)(ready.boxes + 2 * count);
  if (operands_begin(st, &of, arguments[3]) == 0 && use_buffers(st, &of, dsts) == 0 &&
      use_buffers(st, &of, srcs) == 0 && read_batch(&of.used, count, arguments[2], ready.boxes, ready.settings) == 0) {
    ready.stream = of.stream;
    result = operands_work(st, &of, batch_work, &ready);
  } else {
    operands_failed(&of);
  }
  PyMem_Free(ready.boxes);
  return result;
}

const char copy_part_doc[] = "copy_part(dst, src, shape, stream, /)\n--\n\n"
                             "Copy a part of a buffer as a cch_copy_shape says (cuMemcpy3DAsync).";

PyObject *copy_part(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("copy_part(dst, src, shape, stream)", count, 4) < 0)
    return NULL;
  const cch_copy_shape *shape = (const void *)PyBytes_AsString(arguments[2]);
  if (shape == NULL)
    return NULL;
  return copy_operands(PyModule_GetState(module), arguments[0], arguments[1], shape, arguments[3]);
}

const char fill_doc[] = "fill(buffer, value, width, stream, /)\n--\n\n"
                        "Fill a buffer with a value of 1, 2 or 4 bytes (cuMemsetD8Async and its kin).";

typedef struct fill_arguments {
  cch_deviceptr *dst;
  uint32_t value;
  unsigned width;
  cch_stream *stream;
} fill_arguments;

static int fill_work(void *arguments) {
  const fill_arguments *given = arguments;
  return cch_deviceptr_fill(given->dst, given->value, given->width, given->stream);
}

PyObject *fill(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("fill(buffer, value, width, stream)", count, 4) < 0)
    return NULL;
  unsigned long value = PyLong_AsUnsignedLong(arguments[1]), width = PyLong_AsUnsignedLong(arguments[2]);
  if (PyErr_Occurred())
    return NULL;
  operands of;
  if (operands_begin(st, &of, arguments[3]) < 0)
    return operands_failed(&of);
  fill_arguments ready = {.value = (uint32_t)value, .width = (unsigned)width, .stream = of.stream};
  ready.dst = use_buffer(st, &of, 0, arguments[0], "a Buffer is needed, not %U");
  return ready.dst != NULL ? operands_work(st, &of, fill_work, &ready) : operands_failed(&of);
}

/* ---- the type ---- */

/* Orders the free on a stream; -1 with an exception. */
static int set_stream(buffer *self, PyObject *argument) {
  cch_deviceptr *box = handle_use((PyObject *)self);
  if (box == NULL)
    return -1;
  const state *st = self->base.st;
  PyObject *ordered_on = stream_accept(st, argument);
  cch_stream *stream = ordered_on != NULL ? handle_use(ordered_on) : NULL;
  int status = -1;
  if (stream != NULL) {
    Py_BEGIN_ALLOW_THREADS; /* the last reference to the stream that it had can go */
    status = cch_deviceptr_set_stream(box, stream);
    Py_END_ALLOW_THREADS;
    handle_done(ordered_on);
  }
  handle_done((PyObject *)self);
  Py_XDECREF(ordered_on);
  if (stream != NULL && status != 0)
    raise_status(st, status);
  return status == 0 ? 0 : -1;
}

static PyObject *set_deallocation_stream(PyObject *self, PyObject *stream) {
  if (set_stream((buffer *)self, stream) < 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *close_method(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  static const char *const names[] = {"stream"};
  buffer *self = (buffer *)object;
  PyObject *stream = Py_None;
  if (sort_arguments("close", names, 1, 1, arguments, count, keywords, &stream) < 0)
    return NULL;
  if (self->base.box == NULL)
    Py_RETURN_NONE;
  if (stream != Py_None && set_stream(self, stream) < 0)
    return NULL;
  handle_close(&self->base);
  Py_CLEAR(self->owner);
  Py_CLEAR(self->mr);
  Py_RETURN_NONE;
}

static PyObject *adopt(PyObject *cls, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("_adopt_memory(address, memory_resource, owner)", count, 3) < 0)
    return NULL;
  PyObject *face = PyObject_CallMethod(cls, "_adopt", "(O)", arguments[0]);
  if (face == NULL)
    return NULL;
  buffer *self = (buffer *)face;
  self->size = (Py_ssize_t)cch_deviceptr_size(self->base.box);
  PyObject **const slots[] = {&self->mr, &self->owner};
  for (int i = 0; i < 2; i++)
    if (arguments[i + 1] != Py_None) {
      Py_INCREF(arguments[i + 1]);
      *slots[i] = arguments[i + 1];
    }
  return face;
}

static PyObject *compare(PyObject *a, PyObject *b, int operation) {
  const buffer *self = (const buffer *)a, *other = (const buffer *)b;
  if ((operation != Py_EQ && operation != Py_NE) || self->base.st == NULL ||
      !PyType_IsSubtype(Py_TYPE(b), self->base.st->buffer_type))
    Py_RETURN_NOTIMPLEMENTED;
  int equal = a == b || (self->base.raw == other->base.raw && self->size == other->size && self->base.box != NULL &&
                         other->base.box != NULL);
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
  return PyLong_FromSize_t(self->box != NULL ? self->raw : 0);
}

static PyObject *size(PyObject *object, void *closure) {
  (void)closure;
  const buffer *self = (const buffer *)object;
  return PyLong_FromSsize_t(self->base.box != NULL ? self->size : 0);
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  const buffer *self = (const buffer *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->mr);
  Py_VISIT(self->owner);
  Py_VISIT(self->known);
  return 0;
}

static int clear(PyObject *object) {
  buffer *self = (buffer *)object;
  Py_CLEAR(self->mr);
  Py_CLEAR(self->owner);
  Py_CLEAR(self->known);
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  handle_dealloc(object);
}

static PyMethodDef methods[] = {
    {"close", FASTCALL(close_method), METH_FASTCALL | METH_KEYWORDS,
     "close($self, /, stream=None)\n--\n\n"
     "Free the memory, or give up this object's hold on it. Calling it again does nothing.\n"
     "\n"
     "Parameters\n"
     "----------\n"
     "stream : Stream, optional\n"
     "    The stream to order the free on (cuMemFreeAsync). Default: that of :meth:`set_deallocation_stream`, or else "
     "of\n"
     "    the allocation."},
    {"set_deallocation_stream", set_deallocation_stream, METH_O,
     "set_deallocation_stream($self, stream, /)\n--\n\n"
     "Choose the stream that the free will be ordered on.\n"
     "\n"
     "The caller sees to it that this stream comes after the work that uses the memory."},
    {"_adopt_memory", FASTCALL(adopt), METH_FASTCALL | METH_CLASS,
     "_adopt_memory($type, address, memory_resource, owner, /)\n--\n\n"
     "Return a new buffer that takes over one reference to the cch_deviceptr at the address."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"_mr", T_OBJECT, offsetof(buffer, mr), READONLY, NULL},
    {"_owner", T_OBJECT, offsetof(buffer, owner), READONLY, NULL},
    {"_known", T_OBJECT, offsetof(buffer, known), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *is_mapped(PyObject *object, void *closure) {
  (void)closure;
  const cch_deviceptr *box = ((const handle *)object)->box;
  return PyBool_FromLong(box != NULL && cch_deviceptr_is_imported(box));
}

static PyGetSetDef properties[] = {
    {"is_mapped", is_mapped, NULL, "bool: Whether it is memory of another process, mapped into this one.", NULL},
    {"size", size, NULL, "int: Bytes; 0 when closed.", NULL},
    {"handle", address, NULL, "int: The memory's address; 0 when closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "The hot half of Buffer."},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_traverse, (void *)traverse},
    {Py_tp_clear, (void *)clear},
    {Py_tp_hash, (void *)hash},
    {Py_tp_richcompare, (void *)compare},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "cudacore_handles._native.BufferHandle",
    .basicsize = sizeof(buffer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int add_buffer_type(PyObject *module, state *st) {
  st->buffer_type = add_type(module, &spec, st->handle_type);
  return st->buffer_type != NULL ? 0 : -1;
}
