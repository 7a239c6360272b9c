/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base class of all faces. A face owns one reference to a box until it is closed or destroyed. The derived classes
 * define all other operations.
 */
#include "base/native.h"

#include "lib/base/kind_list.h"

/* Boxes without a CUDA object are identified by their own addresses. */
#define cch_bundle_raw(box) (box)
#define cch_tracker_raw(box) (box)
#define cch_allocator_raw(box) (box)
/* Programs of compilers have no faces. */
#define cch_nvrtc_program_raw(box) (box)
#define cch_nvvm_program_raw(box) (box)
#define cch_nvjitlink_linker_raw(box) (box)

static uintptr_t raw_of(const void *box, int kind) {
  switch ((cch_kind)kind) {
#define RAW(KIND, type, ...)                                                                                           \
  case CCH_KIND_##KIND:                                                                                                \
    return (uintptr_t)type##_raw(box);
    CCH__KINDS(RAW)
#undef RAW
  case CCH_KIND_COUNT:
    break;
  }
  return 0;
}

#ifdef Py_GIL_DISABLED
unsigned lane_of_thread(void) {
  static atomic_uint threads;
  static _Thread_local unsigned own; /* 1 + the lane */
  if (own == 0)
    own = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % LANES;
  return own - 1;
}
#endif

void box_unref(void *box) {
  void *left = cch_unref_lightly(box);
  if (left == NULL)
    return;
  WITHOUT_GIL(cch_unref(left));
}

PyObject *handle_make(const state *st, PyTypeObject *type, void *box) {
  handle *self = new_object(type);
  if (self == NULL) {
    box_unref(box);
    return NULL;
  }
  self->st = st;
  self->box = box;
  self->kind = cch_kind_of(box);
  self->raw = raw_of(box, self->kind);
  shared_set(&self->uses, USE_OPEN);
  return (PyObject *)self;
}

void *handle_hold(PyObject *face) {
  const handle *self = (const handle *)face;
  void *box = handle_try_use(face);
  if (box != NULL) {
    cch_ref(box);
    handle_done(face);
    return box;
  }
  if (self->st == NULL || self->st->faces.closed == NULL)
    return PyErr_Format(PyExc_ValueError,
                        "%R was never opened; objects of CUDA are made by methods, not by their classes",
                        Py_TYPE(face));
  if ((shared_get(&self->uses) & (USE_OPEN | USE_TAKEN)) != 0) { /* it was only taken, and can be open again by now */
    PyErr_SetString(PyExc_RuntimeError,
                    "another call is using the GraphBuilder of this stream; a builder belongs to one thread at a time");
    return NULL;
  }
  PyObject *error = PyObject_CallFunctionObjArgs(self->st->faces.closed, face, NULL);
  if (error != NULL) {
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
  }
  return NULL;
}

void handle_close(handle *self) {
  if (!use_close(&self->uses)) /* it was closed already, or the last use will give the reference back */
    return;
  box_unref(self->box);
  owners_drain(self->st);
}

void handle_unref(handle *self) { KEEPING_EXCEPTION(box_unref(self->box); owners_drain(self->st)); }

void free_object(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

void handle_dealloc(PyObject *object) {
  handle *self = (handle *)object;
  const state *st = self->st;
  void *box = handle_is_open(self) ? self->box : NULL;
  /* When the interpreter ends, contexts are left to the driver, which destroys them faster when the process ends. */
  if (box != NULL && self->kind == CCH_KIND_CONTEXT && is_finalizing())
    box = NULL;
  void *left = cch_unref_lightly(box);
  /* A destructor can run while an exception is set. Keep that exception. */
  if (left != NULL) {
    KEEPING_EXCEPTION(box_unref(left); owners_drain(st));
  }
  free_object(object);
}

bool is_handle(const state *st, PyObject *object) { return PyType_IsSubtype(Py_TYPE(object), st->handle_type) != 0; }

void *context_use(const state *st, PyObject *face) {
  if (is_handle(st, face))
    return handle_use(face);
  raise_about(PyExc_TypeError, "a Context is needed, not '%U'", face, 0, 0);
  return NULL;
}

static PyObject *close_method(PyObject *self, PyObject *nothing) {
  (void)nothing;
  handle_close((handle *)self);
  Py_RETURN_NONE;
}

static void *read_address(PyObject *number) {
  void *address = PyLong_AsVoidPtr(number);
  if (address == NULL && !PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError, "an address is 0");
  return address;
}

PyObject *pointer_to(const state *st, const void *address) {
  PyObject *number = PyLong_FromVoidPtr((void *)(uintptr_t)address);
  PyObject *pointer =
      number != NULL ? PyObject_CallFunctionObjArgs(st->faces.cast, st->faces.void_pointer, number, NULL) : NULL;
  Py_XDECREF(number);
  return pointer;
}

void *box_take(PyObject *address_of_out) {
  void **out = read_address(address_of_out);
  if (out == NULL)
    return NULL;
  void *box = *out;
  *out = NULL;
  if (box == NULL)
    PyErr_SetString(PyExc_ValueError, "no function has stored a box there");
  return box;
}

/* Makes a face of a class that takes over a reference, even on failure. */
static PyObject *make_of_class(PyObject *cls, void *box) {
  const state *st = box != NULL ? state_of_type((PyTypeObject *)cls) : NULL;
  if (st != NULL)
    return handle_make(st, (PyTypeObject *)cls, box);
  box_unref(box);
  return box != NULL ? PyErr_Format(PyExc_TypeError, "%R is no class of handles", cls) : NULL;
}

static PyObject *adopt(PyObject *cls, PyObject *address_of_out) { return make_of_class(cls, box_take(address_of_out)); }

static PyObject *share(PyObject *cls, PyObject *address) {
  void *box = read_address(address);
  return make_of_class(cls, box != NULL ? cch_ref(box) : NULL);
}

/*
 * The pointer owns its reference as soon as Python code can see it. Otherwise, a KeyboardInterrupt between two steps
 * would leak the reference.
 */
static PyObject *hold(PyObject *module, PyObject *given) {
  const state *st = PyModule_GetState(module);
  void *box;
  if (is_handle(st, given))
    box = handle_hold(given);
  else if ((box = read_address(given)) != NULL)
    box = cch_ref(box);
  if (box == NULL)
    return NULL;
  PyObject *pointer = pointer_to(st, box);
  PyObject *held = pointer != NULL ? PyObject_CallFunctionObjArgs(st->faces.gc, pointer, st->faces.unref, NULL) : NULL;
  if (held == NULL)
    KEEPING_EXCEPTION(box_unref(box));
  Py_XDECREF(pointer);
  return held;
}

static PyObject *is_closed(PyObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong(!handle_is_open(self));
}

static PyObject *raw_property(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromSize_t(((handle *)self)->raw);
}

static Py_hash_t hash(PyObject *object) {
  const handle *self = (const handle *)object;
  /* Handles are aligned addresses, so their lowest bits are always 0. */
  Py_hash_t value = (Py_hash_t)((self->raw >> 4 | self->raw << (8 * sizeof self->raw - 4)) + (uintptr_t)self->kind);
  return value == -1 ? -2 : value;
}

static PyObject *compare(PyObject *a, PyObject *b, int operation) {
  const handle *self = (const handle *)a, *other = (const handle *)b;
  if ((operation != Py_EQ && operation != Py_NE) || self->st == NULL || !is_handle(self->st, b) ||
      self->kind != other->kind)
    Py_RETURN_NOTIMPLEMENTED;
  int equal = a == b || (self->raw == other->raw && handle_is_open(self) && handle_is_open(other));
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

static PyMethodDef methods[] = {
    {"close", close_method, METH_NOARGS, DOC_Handle_close},
    {"_adopt", adopt, METH_O | METH_CLASS, DOC_Handle__adopt},
    {"_share", share, METH_O | METH_CLASS, DOC_Handle__share},
    {"__cudacore_handle__", handle_capsule, METH_NOARGS, DOC_Handle___cudacore_handle__},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"is_closed", is_closed, NULL, DOC_Handle_is_closed, NULL},
    {"_raw", raw_property, NULL, DOC_Handle__raw, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Spec spec = TYPE_SPEC(
    "cudacore_handles.Handle", handle, SLOT(tp_doc, DOC_Handle), SLOT(tp_dealloc, handle_dealloc), SLOT(tp_hash, hash),
    SLOT(tp_richcompare, compare), SLOT(tp_methods, methods), SLOT(tp_getset, properties));

static PyMethodDef functions[] = {
    {"hold", hold, METH_O, DOC_hold},
    {NULL, NULL, 0, NULL},
};

int add_handle_type(PyObject *module, state *st) {
  return add_type(module, functions, "Handle", &spec, NULL, &st->handle_type);
}
