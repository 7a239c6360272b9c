/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports allocations to other libraries as DLPack tensors, and reads the tensors of other libraries.
 *
 * A tensor can outlive the Python object that it was made from, and the interpreter. Its deleter may run on any
 * thread, with the GIL or without. So a tensor holds a reference to its cch_deviceptr and nothing of Python, and its
 * deleter is plain C.
 */
#include "base/dlpack.h"
#include "views/views.h"

#include <cudacore_internal/deviceptr.h>
#include <cudacore_internal/base.h>

#include <stdint.h>
#include <stdlib.h>

static const char unversioned_name[] = "dltensor";
static const char versioned_name[] = "dltensor_versioned";

/* ---- exported tensors ---- */

/*
 * A tensor and everything that it points to except the memory itself. The consumer gets a pointer to the union, which
 * is first.
 */
typedef struct lent {
  union {
    dl_managed_tensor unversioned;
    dl_managed_tensor_versioned versioned;
  } managed;
  cch_deviceptr *box; /* either `box` or `keeper` keeps the memory */
  owner *keeper;
  int64_t dims[]; /* the shape, followed by the strides */
} lent;

/*
 * A consumer deletes a tensor, often while it holds the GIL. Freeing memory that is not from a pool waits for the
 * device, and the device may be waiting for a Python host function, which waits for the GIL. So that memory is freed at
 * the next safe point. Freeing a pool's memory does not wait, and foreign memory is freed by its owner's own function.
 */
static void unref_lent(lent *self) {
  if (self->keeper != NULL)
    owner_release(self->keeper);
  if (self->box != NULL) {
    if (cch_deviceptr_pool(self->box) == NULL && !cch_deviceptr_is_wrapped(self->box))
      cch_unref_deferred(self->box);
    else
      cch_deviceptr_unref(self->box);
  }
  free(self);
}

static void delete_unversioned(dl_managed_tensor *self) { unref_lent(self->manager_ctx); }
static void delete_versioned(dl_managed_tensor_versioned *self) { unref_lent(self->manager_ctx); }

/* Returns the name of a capsule whose tensor was not consumed yet, or NULL. */
static const char *untaken_name(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, versioned_name))
    return versioned_name;
  return PyCapsule_IsValid(capsule, unversioned_name) ? unversioned_name : NULL;
}

/* Releases the references that dlpack_lend() took over. */
static void not_lent(cch_deviceptr *box, owner *keeper) {
  if (keeper != NULL)
    owner_discard(keeper);
  box_unref(box);
}

/* The destructor of a capsule. If the tensor was consumed, it belongs to the consumer and may already be deleted. */
static void destroy_capsule(PyObject *capsule) {
  const char *name = untaken_name(capsule);
  if (name == NULL)
    return;
  lent *self = PyCapsule_GetPointer(capsule, name);
  /* This can release a foreign owner, whose release function runs Python code. */
  KEEPING_EXCEPTION(not_lent(self->box, self->keeper));
  free(self);
}

void *dlpack_lend(const dl_tensor *tensor, cch_deviceptr *box, owner *keeper, bool versioned, uint64_t flags) {
  size_t ndim = (size_t)tensor->ndim;
  lent *self = calloc(1, sizeof *self + 2 * ndim * sizeof *self->dims);
  if (self == NULL) {
    not_lent(box, keeper);
    return PyErr_NoMemory();
  }
  self->box = box;
  self->keeper = keeper;
  dl_tensor copy = *tensor;
  copy.shape = self->dims;
  copy.strides = self->dims + ndim;
  for (size_t i = 0; i < ndim; i++) {
    copy.shape[i] = tensor->shape[i];
    copy.strides[i] = tensor->strides[i];
    if (tensor->shape[i] == 0)
      copy.data = NULL;
  }
  if (versioned) {
    dl_managed_tensor_versioned *managed = &self->managed.versioned;
    managed->version.major = DL_MAJOR;
    managed->version.minor = DL_MINOR;
    managed->manager_ctx = self;
    managed->deleter = delete_versioned;
    managed->flags = flags;
    managed->tensor = copy;
  } else {
    dl_managed_tensor *managed = &self->managed.unversioned;
    managed->manager_ctx = self;
    managed->deleter = delete_unversioned;
    managed->tensor = copy;
  }
  return self;
}

PyObject *dlpack_capsule(void *managed, bool versioned) {
  PyObject *capsule = PyCapsule_New(managed, versioned ? versioned_name : unversioned_name, destroy_capsule);
  if (capsule == NULL)
    unref_lent(managed);
  return capsule;
}

/* ---- tensors of other libraries ---- */

static void call_deleter(void *managed, bool versioned) {
  dl_managed_tensor_versioned *new = managed;
  dl_managed_tensor *old = managed;
  if (versioned && new->deleter != NULL)
    new->deleter(new);
  if (!versioned && old->deleter != NULL)
    old->deleter(old);
}

void dlpack_delete(void *managed, bool versioned) {
  if (managed != NULL) /* the deleter of another library can run any code */
    KEEPING_EXCEPTION(call_deleter(managed, versioned));
}

const dl_tensor *dlpack_tensor(void *managed, bool versioned, uint64_t *flags) {
  *flags = 0;
  if (!versioned)
    return &((dl_managed_tensor *)managed)->tensor;
  const dl_managed_tensor_versioned *self = managed;
  if (self->version.major != DL_MAJOR) {
    PyErr_Format(PyExc_ValueError,
                 "the capsule holds a tensor of DLPack %u.%u, whose layout is not known here; "
                 "ask for max_version=(%d, %d)",
                 (unsigned)self->version.major, (unsigned)self->version.minor, DL_MAJOR, DL_MINOR);
    return NULL;
  }
  *flags = self->flags;
  return &self->tensor;
}

/* Returns the name of a capsule whose tensor can be taken; NULL with an exception on failure. */
static const char *name_to_take(PyObject *capsule) {
  if (!PyCapsule_CheckExact(capsule)) {
    PyErr_Format(PyExc_TypeError, "a DLPack capsule is needed, not %R; call __dlpack__() of the object first",
                 (PyObject *)Py_TYPE(capsule));
    return NULL;
  }
  const char *name = untaken_name(capsule);
  if (name == NULL) {
    const char *other = PyCapsule_GetName(capsule);
    PyErr_Format(PyExc_ValueError,
                 "the capsule's name is \"%s\"; one of a DLPack tensor that can still be taken is "
                 "\"%s\" or \"%s\"",
                 other ? other : "", unversioned_name, versioned_name);
  }
  return name;
}

void *dlpack_take(PyObject *capsule, bool *versioned) {
  void *managed = NULL;
  if (name_to_take(capsule) == NULL)
    return NULL;
  LOCK_OBJECT(capsule);
  const char *name = untaken_name(capsule);
  if (name != NULL) {
    *versioned = name == versioned_name;
    managed = PyCapsule_GetPointer(capsule, name);
    /* From here on, the destructor of the capsule does nothing, and this code must delete the tensor. */
    PyCapsule_SetName(capsule, *versioned ? "used_dltensor_versioned" : "used_dltensor");
  }
  UNLOCK_OBJECT();
  if (managed == NULL)
    name_to_take(capsule); /* raises: another thread has just taken the tensor */
  return managed;
}

/*
 * Returns whether a tensor can be the real or the imaginary part of a complex tensor: the strides of such a part are
 * even.
 */
static bool can_be_part(const dl_tensor *tensor) {
  for (int32_t i = tensor->ndim - 1; i >= 0; i--)
    if (tensor->shape[i] != 1 && (tensor->strides == NULL || tensor->strides[i] % 2 != 0))
      return false;
  return true;
}

/*
 * PyTorch conjugates lazily: x.conj() shares the memory of x and sets a flag, and its imaginary part has another flag.
 * PyTorch's exchange API does not report these flags. The flags of a tensor are read only if it can have one of these
 * flags.
 */
int check_exchanged(const state *st, PyObject *object, const dl_tensor *tensor) {
  if (tensor->data == NULL && dlpack_has_elements(tensor))
    return raise_about(PyExc_BufferError, "%U has elements, but no memory for them", object, 0, 0);
  PyObject *name = NULL; /* borrowed */
  if (tensor->dtype.code == DL_COMPLEX)
    name = st->names.is_conj;
  else if (tensor->dtype.code == DL_FLOAT && can_be_part(tensor))
    name = st->names.is_neg;
  if (name == NULL)
    return 0;
  PyObject *is_set = PyObject_CallMethodObjArgs(object, name, NULL);
  if (is_set == NULL) { /* the object is not PyTorch's */
    PyErr_Clear();
    return 0;
  }
  int set = PyObject_IsTrue(is_set);
  Py_DECREF(is_set);
  if (set <= 0)
    return set;
  PyObject *nothing = PyObject_CallFunction(st->faces.check_values, "Os", object, "the tensor");
  Py_XDECREF(nothing);
  return nothing != NULL ? 0 : -1;
}

int add_dlpack_constants(PyObject *module) {
  if (PyModule_AddIntMacro(module, DL_CPU) < 0 || PyModule_AddIntMacro(module, DL_CUDA) < 0 ||
      PyModule_AddIntMacro(module, DL_CUDA_HOST) < 0)
    return -1;
  return PyModule_AddIntMacro(module, DL_CUDA_MANAGED);
}
