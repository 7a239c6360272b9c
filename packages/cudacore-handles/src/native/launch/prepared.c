/* SPDX-License-Identifier: Apache-2.0 */
/* PreparedLaunch: one kernel that is launched repeatedly. */
#include "launch/launch.h"
#include "memory/buffer.h"

#include <string.h>

/*
 * The owners of the values of a prepared launch. The PreparedLaunch shares this structure with its launches in
 * progress.
 */
typedef struct kept {
  shared_word references; /* one is added only with the lock of the PreparedLaunch */
  owners owners;
} kept;

typedef struct prepared {
  PyObject_HEAD const state *st;
  cch_stream *stream;
  cch_kernel *box; /* of the kernel */
  int device;
  layout params;
  PyObject *config, *kernel;
  PyObject *block; /* the argument block, a bytearray */
  PyObject *lock;  /* a private view of the block, because a bytearray that has a view cannot be resized */
  PyObject *gate;  /* the stream of a graph builder, which is closed when the builder takes no work; or NULL */
  kept *kept;
  PyObject *weak;
} prepared;

static kept *kept_new(void) {
  kept *self = PyMem_Malloc(sizeof *self);
  if (self == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  shared_set(&self->references, 1);
  owners_init(&self->owners, false);
  return self;
}

static void kept_unref(kept *self) {
  if (self == NULL || shared_add(&self->references, (size_t)-1) != 0)
    return;
  owners_unref(&self->owners);
  PyMem_Free(self);
}

/* Raises if an argument was closed since it was packed, or if its memory was lost. */
static int check_open(const state *st, kept *self) {
  const owned *items = self->owners.items;
  for (Py_ssize_t i = 0; i < self->owners.count; i++) {
    if (items[i].box == NULL)
      continue;
    bool closed = items[i].object != NULL && !handle_is_open(items[i].object);
    if (closed)
      handle_hold(items[i].object); /* raises the exception, because the face is closed */
    if (closed || memory_check(st, items[i].box) < 0) {
      name_argument(st, items[i].index);
      return -1;
    }
  }
  return 0;
}

static PyObject *prepared_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"stream", "config", "kernel", "kernel_args", "is_builder", NULL};
  const state *st = PyType_GetModuleState(type);
  PyObject *stream, *settings, *face, *args;
  int is_builder = false;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O!O!O!|p:PreparedLaunch", names, st->stream_type, &stream,
                                   st->config_type, &settings, st->kernel_type, &face, &PyTuple_Type, &args,
                                   &is_builder))
    return NULL;
  if (!kernel_has_layout((kernel *)face))
    return PyErr_Format(PyExc_ValueError, "the kernel's layout is not known yet; read its arguments_info first");
  prepared *self = new_object(type);
  if (!self)
    return NULL;
  self->st = st;
  self->stream = handle_hold(stream);
  self->box = self->stream != NULL ? handle_hold(face) : NULL;
  if (self->box == NULL) {
    Py_DECREF(self);
    return NULL;
  }
  if (is_builder)
    self->gate = Py_NewRef(stream);
  self->params = ((kernel *)face)->params;
  self->config = Py_NewRef(settings);
  self->kernel = Py_NewRef(face);
  self->block = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)self->params.total);
  self->lock = self->block ? PyMemoryView_FromObject(self->block) : NULL;
  self->kept = self->lock && find_device_for_memory_checks(st, self->stream, &self->device) == 0 ? kept_new() : NULL;
  /* The new block is private, so it can be written while Python code runs. */
  if (self->kept == NULL ||
      pack_values(st, &self->params, (values){.tuple = args, .count = PyTuple_Size(args)},
                  (unsigned char *)PyByteArray_AsString(self->block), &self->kept->owners, self->device) < 0) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

/* Packs the new values of a call into `block`. Returns their owners; NULL with an exception on failure. */
static kept *pack_call(prepared *self, PyObject *arguments, Py_ssize_t count, unsigned char *block) {
  kept *fresh = kept_new();
  if (fresh != NULL && pack_values(self->st, &self->params, (values){.tuple = arguments, .count = count}, block,
                                   &fresh->owners, self->device) < 0) {
    kept_unref(fresh);
    return NULL;
  }
  return fresh;
}

static PyObject *prepared_call(PyObject *object, PyObject *arguments, PyObject *keywords) {
  prepared *self = (prepared *)object;
  const state *st = self->st;
  if (keywords && PyDict_Size(keywords))
    return PyErr_Format(PyExc_TypeError, "a prepared launch takes no keyword arguments");
  /* The launch uses a copy, so that other threads can write the block while the GIL is released. */
  size_t size = (size_t)self->params.total;
  unsigned char stack[SCRATCH_SIZE], *block = scratch_for(&self->params, stack);
  if (!block)
    return NULL;
  PyObject *result = NULL;
  kept *held = NULL, *old = NULL;
  Py_ssize_t count = PyTuple_Size(arguments);
  if (count != 0 && (held = pack_call(self, arguments, count, block)) == NULL)
    goto done;
  /* Only now, because the conversion of the arguments can close the builder. */
  if (self->gate != NULL && handle_try_use(self->gate) == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "cannot launch: the GraphBuilder that this PreparedLaunch was made for is not "
                                        "building any more, or another thread is using it; prepare another one, for a "
                                        "Stream or a new builder");
    KEEPING_EXCEPTION(kept_unref(held));
    goto done;
  }
  LOCK_OBJECT(self);
  if (count == 0) {
    memcpy(block, PyByteArray_AsString(self->block), size);
    held = self->kept;
  } else {
    memcpy(PyByteArray_AsString(self->block), block, size);
    old = self->kept;
    self->kept = held;
  }
  shared_add(&held->references, 1); /* another thread can set other values while this launch is in progress */
  UNLOCK_OBJECT();
  if (count == 0 && check_open(st, held) < 0)
    goto end;
  const launch_arguments ready = {self->stream, self->box, self->config, self->kernel, block, size};
  result = launch_packed(st, &ready, &held->owners);
end:
  if (self->gate != NULL)
    handle_done(self->gate);
  KEEPING_EXCEPTION(kept_unref(held); kept_unref(old));
  owners_drain(st);
done:
  if (block != stack)
    PyMem_Free(block);
  return result;
}

/* Adds the owners of all arguments but one to a list, with references of their own. -1 with an exception on failure. */
static int add_others(owners *to, owners *from, Py_ssize_t except) {
  const owned *items = from->items;
  int status = 0;
  for (Py_ssize_t i = 0; i < from->count && status == 0; i++)
    if (items[i].index != except)
      status = owners_add(to, (owned){cch_ref(items[i].box), Py_XNewRef(items[i].object), items[i].index, HELD});
  return status;
}

static int prepared_set_item(PyObject *object, PyObject *key, PyObject *value) {
  prepared *self = (prepared *)object;
  if (!value)
    return raise_error(PyExc_TypeError, "an argument can be replaced, but not deleted");
  Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred())
    return -1;
  unsigned char stack[SCRATCH_SIZE], *block = scratch_for(&self->params, stack);
  if (!block)
    return -1;
  /* The old owners are released after the block was changed. */
  kept *fresh = kept_new(), *replaced = fresh;
  int status =
      fresh != NULL ? pack_parameter(self->st, &self->params, index, value, block, &fresh->owners, self->device) : -1;
  if (status == 0) {
    param p = param_at(&self->params, index);
    LOCK_OBJECT(self);
    status = add_others(&fresh->owners, &self->kept->owners, index);
    if (status == 0) {
      memcpy(PyByteArray_AsString(self->block) + p.offset, block + p.offset, p.size);
      replaced = self->kept;
      self->kept = fresh;
    }
    UNLOCK_OBJECT();
  }
  KEEPING_EXCEPTION(kept_unref(replaced));
  owners_drain(self->st);
  if (block != stack)
    PyMem_Free(block);
  return status;
}

static Py_ssize_t prepared_length(PyObject *self) { return ((prepared *)self)->params.count; }

static PyObject *prepared_repr(PyObject *object) {
  const prepared *self = (prepared *)object;
  return PyUnicode_FromFormat("<PreparedLaunch of %R with %R>", self->kernel, self->config);
}

static PyObject *prepared_block(PyObject *self, void *closure) {
  (void)closure;
  return PyMemoryView_FromObject(((prepared *)self)->block);
}

/* tp_clear is not needed: in a cycle, an argument refers to this object, and its tp_clear breaks the cycle. */
static int prepared_traverse(PyObject *object, visitproc visit, void *arg) {
  const prepared *self = (prepared *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->config);
  Py_VISIT(self->kernel);
  /* Objects that launches in progress share are not visited, so that they are not collected as garbage. */
  if (self->kept != NULL && shared_get(&self->kept->references) == 1) {
    const owners *owned = &self->kept->owners;
    for (Py_ssize_t i = 0; i < owned->count; i++)
      Py_VISIT(owned->items[i].object);
  }
  return 0;
}

static void prepared_dealloc(PyObject *object) {
  prepared *self = (prepared *)object;
  PyObject_GC_UnTrack(object);
  if (self->weak != NULL)
    PyObject_ClearWeakRefs(object);
  /* A destructor can run anywhere, even while an exception is set. */
  cch_stream *stream = self->stream;
  cch_kernel *box = self->box;
  KEEPING_EXCEPTION(WITHOUT_GIL(cch_kernel_unref(box); cch_stream_unref(stream)); kept_unref(self->kept);
                    owners_drain(self->st));
  Py_XDECREF(self->gate);
  Py_XDECREF(self->lock);
  Py_XDECREF(self->block);
  Py_XDECREF(self->kernel);
  Py_XDECREF(self->config);
  free_object(object);
}

static PyMemberDef prepared_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(prepared, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef prepared_properties[] = {{"block", prepared_block, NULL, DOC_PreparedLaunch_block, NULL},
                                            {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot prepared_slots[] = {
    {Py_tp_doc, DOC_PreparedLaunch},
    {Py_tp_new, (void *)prepared_new},
    {Py_tp_call, (void *)prepared_call},
    {Py_tp_repr, (void *)prepared_repr},
    {Py_tp_traverse, (void *)prepared_traverse},
    {Py_tp_dealloc, (void *)prepared_dealloc},
    {Py_tp_members, prepared_members},
    {Py_tp_getset, prepared_properties},
    {Py_mp_length, (void *)prepared_length},
    {Py_mp_ass_subscript, (void *)prepared_set_item},
    {0, NULL},
};

static PyType_Spec prepared_spec = {
    .name = "cudacore_handles.PreparedLaunch",
    .basicsize = sizeof(prepared),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = prepared_slots,
};

int add_prepared_type(PyObject *module, state *st) {
  (void)st;
  PyTypeObject *type = NULL;
  if (add_type(module, NULL, "PreparedLaunch", &prepared_spec, NULL, &type) < 0)
    return -1;
  Py_DECREF(type);
  return 0;
}
