/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch() and PreparedLaunch.
 *
 * The faces keep the address of their box in `_address` (None once closed). An address is read and referenced
 * without running Python code in between, so that no other thread can close the object at that moment; the
 * reference then holds the box while the GIL is released. Objects of other classes than the faces themselves go the
 * slow way, through Python.
 */
#include "native.h"

#include <cudacore/cudacore.h>

#include <string.h>

/* What a launch needs besides its arguments: references of our own, and a copy. */
typedef struct target {
  cch_stream *stream;
  cch_kernel *kernel;
  cch_launch_config config;
} target;

/* The address in a face's `_address`, or NULL: with an exception, or without one when the object is closed. */
static void *address_of(const state *st, PyObject *face) {
  PyObject *number = PyObject_GetAttr(face, st->address_name);
  if (!number)
    return NULL;
  void *address = number == Py_None ? NULL : PyLong_AsVoidPtr(number);
  Py_DECREF(number);
  return address;
}

/* 1 when all is there, 0 when something is closed, -1 with an exception. The caller has checked the classes. */
static int target_take(const state *st, PyObject *stream, PyObject *config, PyObject *kernel, target *out) {
  void *s = address_of(st, stream), *c = s ? address_of(st, config) : NULL, *k = c ? address_of(st, kernel) : NULL;
  if (!k)
    return PyErr_Occurred() ? -1 : 0;
  out->stream = cch_stream_ref(s);
  out->kernel = cch_kernel_ref(k);
  memcpy(&out->config, c, sizeof out->config);
  return 1;
}

static void target_drop(target *t) {
  cch_kernel_unref(t->kernel);
  cch_stream_unref(t->stream);
}

/* An attribute of a kernel that is an int; -1 with an exception. */
static long number_of(PyObject *kernel, PyObject *name) {
  PyObject *object = PyObject_GetAttr(kernel, name);
  if (!object)
    return -1;
  long number = PyLong_AsLong(object);
  Py_DECREF(object);
  return number;
}

/* Ordinal of the device that a stream's work runs on, or -1 when nothing is current for a default stream. */
static int device_of(const cch_stream *stream) {
  const cch_context *context = cch_stream_context(stream);
  int device = -1;
  if (context)
    return cch_context_device(context);
  return cch_current_device(&device) == 0 ? device : -1;
}

/* The device that a launch's arrays must be reachable from, see device_to_check(). */
static int launch_device(const state *st, PyObject *stream) {
  void *box = address_of(st, stream);
  PyErr_Clear(); /* what is wrong with the stream is said later */
  return box ? device_to_check(box) : -1;
}

/* Gives back what arguments point into, with the exception kept that may be set. */
static void let_go(owners *keep) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  owners_release(keep);
  PyErr_Restore(type, value, traceback);
}

/*
 * Whether the shared memory that the configuration asks for was seen to, on the device of the last launch that
 * needed it (Kernel._allow_shared); -1 with an exception.
 */
static int shared_allowed(const state *st, const target *t, PyObject *kernel) {
  if (t->config.shared_bytes == 0)
    return 1;
  long allowed = number_of(kernel, st->shared_allowed_name);
  long device = allowed == -1 ? -1 : number_of(kernel, st->shared_device_name);
  if (PyErr_Occurred())
    return -1;
  return allowed >= (long)t->config.shared_bytes && device == device_of(t->stream);
}

static PyObject *explain(const state *st, int status, PyObject *config, PyObject *kernel) {
  PyObject *result = PyObject_CallFunction(st->faces.explain, "iOO", status, config, kernel);
  Py_XDECREF(result); /* it raises */
  return NULL;
}

static PyObject *launch_slowly(const state *st, PyObject *const *arguments, Py_ssize_t count) {
  PyObject *values = PyTuple_New(count - 3);
  if (!values)
    return NULL;
  for (Py_ssize_t i = 3; i < count; i++) {
    Py_INCREF(arguments[i]);
    PyTuple_SetItem(values, i - 3, arguments[i]);
  }
  PyObject *result =
      PyObject_CallFunctionObjArgs(st->faces.launch_checked, arguments[0], arguments[1], arguments[2], values, NULL);
  Py_DECREF(values);
  return result;
}

const char launch_doc[] =
    "launch(stream, config, kernel, /, *kernel_args)\n--\n\n"
    "Launch a kernel (cuLaunchKernelEx).\n"
    "\n"
    "Arguments are packed by the kernel's own signature: a Python ``int``, ``float``, ``bool`` or ``complex`` takes\n"
    "the size of its parameter; NumPy and ctypes scalars must have it; a :class:`Buffer`, or an object with\n"
    "``__cuda_array_interface__`` or DLPack on the current device, is passed as its address, and None as a null\n"
    "pointer; bytes-like objects are structs, passed by value. Arrays are not synchronized with: what they hold must\n"
    "be ordered before the launch by the caller.\n"
    "\n"
    "Parameters\n"
    "----------\n"
    "stream : Stream\n"
    "    Where to launch: a stream, or an object with ``__cuda_stream__``.\n"
    "config : LaunchConfig\n"
    "    With how many threads, and how.\n"
    "kernel : Kernel\n"
    "    What to launch.\n"
    "*kernel_args\n"
    "    Its arguments.\n"
    "\n"
    "Raises\n"
    "------\n"
    "TypeError\n"
    "    When the arguments are too many, too few, or of types or sizes that do not fit the parameters.\n"
    "OverflowError\n"
    "    When a number does not fit its parameter.\n"
    "ValueError\n"
    "    When an object is closed.\n"
    "CUDAError\n"
    "    When the driver refuses the launch, or work that ran earlier has failed.\n";

PyObject *launch(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (count < 3)
    return PyErr_Format(PyExc_TypeError,
                        "launch() takes a stream, a config, a kernel and its arguments, but %zd %s given", count,
                        count == 1 ? "was" : "were");
  PyObject *stream = arguments[0], *config = arguments[1], *kernel = arguments[2];
  if ((PyObject *)Py_TYPE(stream) != st->faces.stream || (PyObject *)Py_TYPE(config) != st->faces.config ||
      (PyObject *)Py_TYPE(kernel) != st->faces.kernel)
    return launch_slowly(st, arguments, count);

  PyObject *params_bytes = PyObject_GetAttr(kernel, st->layout_name);
  if (!params_bytes)
    return NULL;
  if (params_bytes == Py_None) { /* the first launch: the driver has not been asked yet */
    Py_DECREF(params_bytes);
    return launch_slowly(st, arguments, count);
  }

  PyObject *result = NULL;
  unsigned char stack[SCRATCH_SIZE], *block = stack;
  layout params;
  target t;
  owners keep;
  owners_init(&keep);
  if (read_layout(params_bytes, &params) < 0)
    goto done;
  if (params.total > sizeof stack) {
    block = PyMem_Malloc((size_t)params.total);
    if (!block) {
      PyErr_NoMemory();
      goto done;
    }
  }
  int device = launch_device(st, stream);
  if (pack_values(st, &params, (values){arguments + 3, NULL, count - 3}, block, &keep, device) < 0)
    goto done;
  int ready = target_take(st, stream, config, kernel, &t);
  if (ready < 0)
    goto done;
  int allowed = ready ? shared_allowed(st, &t, kernel) : 1;
  if (ready && allowed < 0) {
    target_drop(&t);
    goto done;
  }
  if (!ready || !allowed) {
    if (ready)
      target_drop(&t);
    result = launch_slowly(st, arguments, count);
    goto done;
  }
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = cch_launch(t.stream, &t.config, t.kernel, block, (size_t)params.total);
  target_drop(&t);
  Py_END_ALLOW_THREADS;
  if (status == 0) {
    Py_INCREF(Py_None);
    result = Py_None;
  } else {
    result = explain(st, status, config, kernel);
  }
done:
  if (block != stack)
    PyMem_Free(block);
  Py_DECREF(params_bytes);
  let_go(&keep);
  return result;
}

const char set_faces_doc[] =
    "set_faces(stream, config, kernel, launch_checked, explain, /)\n--\n\n"
    "Tell the module the classes of the faces, and what to call for the launches that it does not do itself.";

PyObject *set_faces(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  PyObject **const slots[] = {&st->faces.stream, &st->faces.config, &st->faces.kernel, &st->faces.launch_checked,
                              &st->faces.explain};
  const Py_ssize_t wanted = sizeof slots / sizeof *slots;
  if (count != wanted)
    return PyErr_Format(PyExc_TypeError, "set_faces() takes %zd arguments, but %zd were given", wanted, count);
  for (Py_ssize_t i = 0; i < wanted; i++) {
    PyObject *old = *slots[i];
    Py_INCREF(arguments[i]);
    *slots[i] = arguments[i];
    Py_XDECREF(old);
  }
  Py_RETURN_NONE;
}

/* ---- PreparedLaunch ---- */

typedef struct prepared {
  PyObject_HEAD target target;
  layout params;
  PyObject *params_bytes; /* what params reads */
  PyObject *config, *kernel;
  PyObject *block; /* bytearray */
  PyObject *lock;  /* a view of it, which nobody else has: a bytearray with a view keeps its size */
  PyObject *args;  /* the arguments that the block points into: a tuple, or a list once one was replaced */
} prepared;

static PyObject *prepared_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"stream", "config", "kernel", "kernel_args", NULL};
  PyObject *stream, *config, *kernel, *args;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOO!:PreparedLaunch", names, &stream, &config, &kernel,
                                   &PyTuple_Type, &args))
    return NULL;
  const state *st = PyType_GetModuleState(type);
  PyObject *const given[] = {stream, config, kernel}, *const wanted[] = {st->faces.stream, st->faces.config,
                                                                         st->faces.kernel};
  for (int i = 0; i < 3; i++) {
    int is = PyObject_IsInstance(given[i], wanted[i]);
    if (is <= 0) {
      if (is == 0)
        PyErr_Format(PyExc_TypeError, "%s must be a %R, not %R", names[i], wanted[i], Py_TYPE(given[i]));
      return NULL;
    }
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  prepared *self = (prepared *)allocate(type, 0);
  if (!self)
    return NULL;
  self->params_bytes = PyObject_GetAttr(kernel, st->layout_name);
  if (!self->params_bytes || read_layout(self->params_bytes, &self->params) < 0)
    goto failed;
  int ready = target_take(st, stream, config, kernel, &self->target);
  if (ready <= 0) {
    if (ready == 0)
      PyErr_SetString(PyExc_ValueError, "the stream is closed; make a new one");
    goto failed;
  }
  Py_INCREF(config);
  self->config = config;
  Py_INCREF(kernel);
  self->kernel = kernel;
  self->block = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)self->params.total);
  self->lock = self->block ? PyMemoryView_FromObject(self->block) : NULL;
  if (!self->lock)
    goto failed;
  /* Nobody else has the new block: it may be written while Python code runs. */
  owners keep;
  owners_init(&keep);
  int status = pack_values(st, &self->params, (values){NULL, args, PyTuple_Size(args)},
                           (unsigned char *)PyByteArray_AsString(self->block), &keep, launch_device(st, stream));
  let_go(&keep);
  if (status < 0)
    goto failed;
  Py_INCREF(args);
  self->args = args;
  return (PyObject *)self;
failed:
  Py_DECREF(self);
  return NULL;
}

/* Room for a block: on the caller's stack where it fits. */
static unsigned char *scratch_for(const layout *params, unsigned char *stack) {
  if (params->total <= SCRATCH_SIZE)
    return stack;
  unsigned char *heap = PyMem_Malloc((size_t)params->total);
  if (!heap)
    PyErr_NoMemory();
  return heap;
}

static PyObject *prepared_call(PyObject *object, PyObject *arguments, PyObject *keywords) {
  prepared *self = (prepared *)object;
  const state *st = PyType_GetModuleState(Py_TYPE(object));
  if (keywords && PyDict_Size(keywords)) {
    PyErr_SetString(PyExc_TypeError, "a prepared launch takes no keyword arguments");
    return NULL;
  }
  /* A copy is launched, so that the block can be written while the GIL is released. */
  size_t size = (size_t)self->params.total;
  unsigned char stack[SCRATCH_SIZE], *block = scratch_for(&self->params, stack);
  if (!block)
    return NULL;
  int status = 0;
  Py_ssize_t count = PyTuple_Size(arguments);
  if (count == 0) {
    memcpy(block, PyByteArray_AsString(self->block), size);
  } else {
    owners keep;
    owners_init(&keep);
    status = pack_values(st, &self->params, (values){NULL, arguments, count}, block, &keep, -1);
    let_go(&keep);
    if (status == 0) {
      memcpy(PyByteArray_AsString(self->block), block, size);
      PyObject *old = self->args;
      Py_INCREF(arguments);
      self->args = arguments;
      Py_DECREF(old);
    }
  }
  if (status == 0) {
    Py_BEGIN_ALLOW_THREADS;
    status = cch_launch(self->target.stream, &self->target.config, self->target.kernel, block, size);
    Py_END_ALLOW_THREADS;
    if (status != 0)
      explain(st, status, self->config, self->kernel);
  }
  if (block != stack)
    PyMem_Free(block);
  if (status != 0)
    return NULL;
  Py_RETURN_NONE;
}

/* Keeps the new argument and lets go of the old: in a list, so that replacing many does not copy all each time. */
static int keep_argument(prepared *self, Py_ssize_t index, PyObject *value) {
  if (!PyList_Check(self->args)) {
    PyObject *list = PySequence_List(self->args);
    if (!list)
      return -1;
    Py_DECREF(self->args);
    self->args = list;
  }
  Py_INCREF(value);
  return PyList_SetItem(self->args, index, value);
}

static int prepared_set_item(PyObject *object, PyObject *key, PyObject *value) {
  prepared *self = (prepared *)object;
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "an argument can be replaced, but not deleted");
    return -1;
  }
  Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred())
    return -1;
  unsigned char stack[SCRATCH_SIZE], *block = scratch_for(&self->params, stack);
  if (!block)
    return -1;
  owners keep;
  owners_init(&keep);
  int status = pack_parameter(PyType_GetModuleState(Py_TYPE(object)), &self->params, index, value, block, &keep, -1);
  let_go(&keep);
  if (status == 0) {
    param p = param_at(&self->params, index);
    memcpy(PyByteArray_AsString(self->block) + p.offset, block + p.offset, p.size);
    status = keep_argument(self, index, value);
  }
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

static int prepared_traverse(PyObject *object, visitproc visit, void *arg) {
  const prepared *self = (prepared *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->config);
  Py_VISIT(self->kernel);
  Py_VISIT(self->args);
  return 0;
}

/* No tp_clear: a cycle always runs through `args`, a tuple or list, or through an object in it, which the collector
   can clear; so this one's own fields stay whole as long as it can be called. */

static void prepared_dealloc(PyObject *object) {
  prepared *self = (prepared *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  target target = self->target;
  Py_BEGIN_ALLOW_THREADS;
  target_drop(&target);
  Py_END_ALLOW_THREADS;
  Py_XDECREF(self->args);
  Py_XDECREF(self->lock);
  Py_XDECREF(self->block);
  Py_XDECREF(self->kernel);
  Py_XDECREF(self->config);
  Py_XDECREF(self->params_bytes);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

PyDoc_STRVAR(prepared_doc,
             "PreparedLaunch(stream, config, kernel, kernel_args)\n--\n\n"
             "Launch one kernel again and again, for hot loops; made by :meth:`Kernel.prepare`.\n"
             "\n"
             "A call with arguments launches with new values; a call without launches with the values that it has.\n"
             "``prepared[i] = value`` replaces one argument, and :attr:`block` is the packed argument block itself,\n"
             "for those who write many at once.");

PyDoc_STRVAR(prepared_block_doc,
             "memoryview: The packed arguments, writable; :attr:`Kernel.arguments_info` says where each one lies.\n"
             "\n"
             "Objects whose addresses are written here must be kept alive by the caller.");

static PyGetSetDef prepared_properties[] = {{"block", prepared_block, NULL, prepared_block_doc, NULL},
                                            {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot prepared_slots[] = {
    {Py_tp_doc, (void *)prepared_doc},
    {Py_tp_new, (void *)prepared_new},
    {Py_tp_call, (void *)prepared_call},
    {Py_tp_repr, (void *)prepared_repr},
    {Py_tp_traverse, (void *)prepared_traverse},
    {Py_tp_dealloc, (void *)prepared_dealloc},
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

int add_prepared_type(PyObject *module) {
  PyObject *type = PyType_FromModuleAndSpec(module, &prepared_spec, NULL);
  if (!type)
    return -1;
  int status = PyModule_AddObjectRef(module, "PreparedLaunch", type);
  Py_DECREF(type);
  return status;
}
