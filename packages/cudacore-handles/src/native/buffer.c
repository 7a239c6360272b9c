/* SPDX-License-Identifier: Apache-2.0 */
/* The hot half of Buffer: allocating from a pool, closing, copying, filling. */
#include "native.h"

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
static PyObject *make_of_pool(const state *st, PyObject *cls, PyObject *face, size_t size, PyObject *given,
                              PyObject *mr, const cch_ipc_handle *handle) {
  PyObject *ordered_on = stream_accept(st, given);
  if (ordered_on == NULL)
    return NULL;
  cch_deviceptr *box = NULL;
  int status = -1;
  cch_stream *stream = handle_use(ordered_on);
  cch_pool *pool = stream != NULL ? handle_use(face) : NULL;
  if (pool != NULL) {
    Py_BEGIN_ALLOW_THREADS;
    status = handle != NULL ? cch_deviceptr_import(&box, pool, handle, size, stream)
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
  return make_of_pool(PyModule_GetState(module), arguments[0], arguments[1], size, arguments[3], arguments[4], NULL);
}

const char import_memory_doc[] =
    "import_memory(cls, pool, size, stream, memory_resource, handle, /)\n--\n\n"
    "Return a new buffer of a class, of another process's memory (cuMemPoolImportPointer), by the bytes of the handle\n"
    "that that one exported.";

PyObject *import_memory(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("import_memory(cls, pool, size, stream, memory_resource, handle)", count, 6) < 0)
    return NULL;
  size_t size = PyLong_AsSize_t(arguments[2]);
  cch_ipc_handle handle;
  char *bytes;
  Py_ssize_t length;
  if ((size == (size_t)-1 && PyErr_Occurred()) || PyBytes_AsStringAndSize(arguments[5], &bytes, &length) < 0)
    return NULL;
  if (length != sizeof handle)
    return PyErr_Format(PyExc_ValueError, "handle has %zd bytes; it must have %zu", length, sizeof handle);
  memcpy(&handle, bytes, sizeof handle);
  return make_of_pool(PyModule_GetState(module), arguments[0], arguments[1], size, arguments[3], arguments[4], &handle);
}

/* Before work on buffers that are in use: the graph keeps them where it is captured. */
static int keep_captured(const state *st, cch_stream *stream, PyObject *first, PyObject *second) {
  if (cch_capture_count() == 0)
    return 0;
  owners used;
  owners_init(&used, true);
  uint64_t address;
  int status = owners_add_memory(&used, 0, first, &address);
  if (status == 0 && second != NULL)
    status = owners_add_memory(&used, 0, second, &address);
  if (status == 0)
    status = capture_keep(st, stream, &used, NULL);
  owners_release(&used);
  return status;
}

/* The box of a buffer, whose class is checked, for a call; NULL with an exception, `what` having %U for its class. */
static cch_deviceptr *use_buffer(const state *st, PyObject *face, const char *what) {
  if (PyType_IsSubtype(Py_TYPE(face), st->buffer_type))
    return handle_use(face);
  raise_about(PyExc_TypeError, what, face, 0, 0);
  return NULL;
}

const char copy_doc[] = "copy(dst, src, stream, /)\n--\n\n"
                        "Copy between buffers of one size (cuMemcpyAsync).";

PyObject *copy(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("copy(dst, src, stream)", count, 3) < 0)
    return NULL;
  PyObject *ordered_on = stream_accept(st, arguments[2]);
  if (ordered_on == NULL)
    return NULL;
  int status = -1;
  cch_stream *stream = handle_use(ordered_on);
  cch_deviceptr *dst = stream != NULL ? use_buffer(st, arguments[0], "dst must be a Buffer, not %U") : NULL;
  cch_deviceptr *src = dst != NULL ? use_buffer(st, arguments[1], "src must be a Buffer, not %U") : NULL;
  if (src != NULL) {
    size_t size = cch_deviceptr_size(src), room = cch_deviceptr_size(dst);
    if (size == room) {
      if (keep_captured(st, stream, arguments[0], arguments[1]) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        status = cch_deviceptr_copy(dst, src, size, stream);
        Py_END_ALLOW_THREADS;
        if (status != 0)
          raise_status(st, status);
      }
    } else {
      PyErr_Format(PyExc_ValueError, "buffer sizes mismatch between src and dst (sizes are: src=%zu, dst=%zu)", size,
                   room);
    }
    handle_done(arguments[1]);
  }
  if (dst != NULL)
    handle_done(arguments[0]);
  if (stream != NULL)
    handle_done(ordered_on);
  Py_DECREF(ordered_on);
  if (status != 0)
    return NULL;
  Py_RETURN_NONE;
}

const char copy_batch_doc[] =
    "copy_batch(dsts, srcs, attributes, stream, /)\n--\n\n"
    "Copy between the buffers of two tuples (cuMemcpyBatchAsync); attributes: None, or a tuple of cch_copy_attributes.";

/* The buffers of a tuple; -1 with an exception. */
static int use_buffers(const state *st, owners *used, PyObject *tuple) {
  uint64_t address;
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
    PyObject *face = PyTuple_GetItem(tuple, i);
    if (!PyType_IsSubtype(Py_TYPE(face), st->buffer_type))
      return raise_about(PyExc_TypeError, "copy_batch: expected Buffer, got %U", face, 0, 0);
    if (owners_add_memory(used, i, face, &address) < 0)
      return -1;
  }
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
  PyObject *ordered_on = stream_accept(st, arguments[3]);
  if (ordered_on == NULL)
    return NULL;
  int status = -1;
  owners used;
  owners_init(&used, true);
  cch_deviceptr **boxes = PyMem_Malloc(((size_t)count + 1) * (2 * sizeof *boxes + sizeof(void *)));
  const cch_copy_attributes **settings = (const cch_copy_attributes **)(void *)(boxes + 2 * count);
  cch_stream *stream = boxes != NULL ? handle_use(ordered_on) : PyErr_NoMemory();
  if (stream != NULL) {
    if (use_buffers(st, &used, dsts) == 0 && use_buffers(st, &used, srcs) == 0 &&
        read_batch(&used, count, arguments[2], boxes, settings) == 0 &&
        (cch_capture_count() == 0 || capture_keep(st, stream, &used, NULL) == 0)) {
      Py_BEGIN_ALLOW_THREADS;
      status = cch_copy_batch(boxes, boxes + count, (size_t)count, settings, stream);
      Py_END_ALLOW_THREADS;
      if (status != 0)
        raise_status(st, status);
    }
    handle_done(ordered_on);
  }
  owners_release(&used);
  PyMem_Free(boxes);
  Py_DECREF(ordered_on);
  if (status != 0)
    return NULL;
  Py_RETURN_NONE;
}

const char copy_part_doc[] = "copy_part(dst, src, shape, stream, /)\n--\n\n"
                             "Copy a part of a buffer as a cch_copy_shape says (cuMemcpy3DAsync).";

PyObject *copy_part(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("copy_part(dst, src, shape, stream)", count, 4) < 0)
    return NULL;
  const cch_copy_shape *shape = (const void *)PyBytes_AsString(arguments[2]);
  PyObject *ordered_on = shape != NULL ? stream_accept(st, arguments[3]) : NULL;
  if (ordered_on == NULL)
    return NULL;
  int status = -1;
  cch_stream *stream = handle_use(ordered_on);
  cch_deviceptr *dst = stream != NULL ? use_buffer(st, arguments[0], "dst must be a Buffer, not %U") : NULL;
  cch_deviceptr *src = dst != NULL ? use_buffer(st, arguments[1], "src must be a Buffer, not %U") : NULL;
  if (src != NULL) {
    if (keep_captured(st, stream, arguments[0], arguments[1]) == 0) {
      Py_BEGIN_ALLOW_THREADS;
      status = cch_copy_part(dst, src, shape, stream);
      Py_END_ALLOW_THREADS;
      if (status != 0)
        raise_status(st, status);
    }
    handle_done(arguments[1]);
  }
  if (dst != NULL)
    handle_done(arguments[0]);
  if (stream != NULL)
    handle_done(ordered_on);
  Py_DECREF(ordered_on);
  if (status != 0)
    return NULL;
  Py_RETURN_NONE;
}

const char fill_doc[] = "fill(buffer, value, width, stream, /)\n--\n\n"
                        "Fill a buffer with a value of 1, 2 or 4 bytes (cuMemsetD8Async and its kin).";

PyObject *fill(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("fill(buffer, value, width, stream)", count, 4) < 0)
    return NULL;
  unsigned long value = PyLong_AsUnsignedLong(arguments[1]), width = PyLong_AsUnsignedLong(arguments[2]);
  if (PyErr_Occurred())
    return NULL;
  PyObject *ordered_on = stream_accept(st, arguments[3]);
  if (ordered_on == NULL)
    return NULL;
  int status = -1;
  cch_stream *stream = handle_use(ordered_on);
  cch_deviceptr *dst = stream != NULL ? use_buffer(st, arguments[0], "a Buffer is needed, not %U") : NULL;
  if (dst != NULL) {
    if (keep_captured(st, stream, arguments[0], NULL) == 0) {
      Py_BEGIN_ALLOW_THREADS;
      status = cch_deviceptr_fill(dst, (uint32_t)value, (unsigned)width, stream);
      Py_END_ALLOW_THREADS;
      if (status != 0)
        raise_status(st, status);
    }
    handle_done(arguments[0]);
  }
  if (stream != NULL)
    handle_done(ordered_on);
  Py_DECREF(ordered_on);
  if (status != 0)
    return NULL;
  Py_RETURN_NONE;
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
