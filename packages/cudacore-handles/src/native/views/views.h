/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_VIEWS_H
#define CUDACORE_NATIVE_VIEWS_H

/* Views of memory as arrays, and DLPack's tensors. */

#include "memory/buffer.h"
#include "base/dlpack.h"

/* ---- dlpack.c ---- */
/* Adds DLPack's device codes to the module, as constants. */
int add_dlpack_constants(PyObject *module);

/*
 * Makes a tensor of memory that the box, or the owner, keeps alive: a dl_managed_tensor_versioned or a
 * dl_managed_tensor. Takes over references to the box and the owner, each of which may be NULL, even on failure, and
 * then returns NULL with an exception.
 */
void *dlpack_lend(const dl_tensor *tensor, cch_deviceptr *box, owner *keeper, bool versioned, uint64_t flags);
/* Makes a capsule for a tensor. Takes over the tensor even on failure, and then returns NULL with an exception. */
PyObject *dlpack_capsule(void *managed, bool versioned);
/* Takes the tensor out of a capsule; NULL with an exception on failure. */
void *dlpack_take(PyObject *capsule, bool *versioned);
/* Deletes a tensor by its deleter. Keeps the current exception. NULL does nothing. */
void dlpack_delete(void *managed, bool versioned);
/* Returns the tensor in a managed tensor, and its flags; NULL with an exception if its layout is not known. */
const dl_tensor *dlpack_tensor(void *managed, bool versioned, uint64_t *flags);
/* Returns whether a tensor has elements: none of its extents is 0. */
static inline bool dlpack_has_elements(const dl_tensor *tensor) {
  bool empty = false;
  for (int32_t i = 0; i < tensor->ndim; i++)
    empty |= tensor->shape[i] == 0;
  return !empty;
}
/* Raises an exception if the memory of a tensor from another library was freed or does not hold the tensor's values. */
int check_exchanged(const state *st, PyObject *object, const dl_tensor *tensor);

/* ---- view.c ---- */

enum { VIEW_MAX_DIMENSIONS = 64, VIEW_INLINE = 4 };

typedef struct view {
  PyObject_HEAD const state *st;
  dl_tensor tensor; /* byte_offset is 0; strides are never NULL */
  int64_t itemsize; /* bytes of an element */
  bool explicit;    /* the strides were given, instead of derived from the shape */
  bool read_only;
  bool versioned;     /* whether `managed` is versioned */
  void *managed;      /* the exporting object's tensor, which must be deleted; NULL if there is none */
  cch_deviceptr *box; /* a reference to the memory of a Buffer; NULL if there is none */
  PyObject *keeper;   /* another view whose tensor or box keeps the memory; NULL if there is none */
  PyObject *exporting;
  PyObject *dtype, *layout, *shape, *strides; /* created at first use; NULL before that */
  int64_t inside[2 * VIEW_INLINE];
} view;

/* Returns whether the elements are smaller than a byte, and padded to one byte each. */
static inline bool view_is_padded(const view *self) {
  return (unsigned)self->tensor.dtype.bits * self->tensor.dtype.lanes % 8 != 0;
}

int add_view_type(PyObject *module, state *st);
extern PyMethodDef view_from_functions[];
/* Makes an empty view with room for the given number of dimensions; NULL with an exception on failure. */
view *view_new(const state *st, PyTypeObject *type, int32_t ndim);
/* Unpacks a type that is packed as code | bits << 8 | lanes << 16. */
dl_data_type view_type(unsigned long packed);
/* Sets the size of elements from the type. Returns -1 with an exception on failure. */
int view_set_itemsize(view *self, uint64_t flags);
/*
 * Fills in shape and strides from tuples. Strides can be None, and are in units of `unit` bytes. If `size` is not
 * negative, all elements must lie within that many bytes from the address. Returns -1 with an exception on failure.
 */
int view_set_dims(view *self, PyObject *shape, PyObject *strides, int64_t unit, int64_t size);
/* Makes a view keep the memory of `keeper`, a buffer or another view. Returns -1 with an exception on failure. */
int view_set_keeper(view *self, PyObject *keeper);
/*
 * Check that kernels can use the memory of a view with its stated type, that a type of device is the host or CUDA's,
 * and that an object is a class of views. Return 0, or -1 with an exception.
 */
int view_check_alignment(const view *self);
int view_check_device(long long type);
int view_check_class(const state *st, const char *function, PyObject *cls);
/* Makes a view of a tensor. Takes over the tensor even on failure, and then returns NULL with an exception. */
PyObject *view_of_managed(const state *st, PyTypeObject *type, void *managed, bool versioned, PyObject *exporting);

/* ---- view_from.c ---- */

/*
 * Gets DLPack's type of a dtype of NumPy, or of the typestr of an interface, packed as code | bits << 8 | lanes << 16.
 * Returns -1 with an exception on failure.
 */
int type_of_dtype(const state *st, PyObject *dtype, unsigned long *out);

/* ---- tensor_map.c ---- */

typedef struct tensor_map {
  PyObject_HEAD const state *st; /* NULL in an object that this module did not make */
  cch_tensor_map map;
  cch_tensor_map_config config; /* the parameters of the map, with its current address */
  PyObject *tensor;             /* the view whose memory the map describes */
} tensor_map;

int add_tensor_map_type(PyObject *module, state *st);

/* ---- exchange.c ---- */

/* Implements __dlpack__() of buffers and views. */
PyObject *dlpack_export(const state *st, PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *keywords);

/* Implements the method of views that makes a consumer's stream wait for the stream of the memory. */
PyObject *view_order(PyObject *view, PyObject *stream);

/* The function of our exchange API that describes a Buffer or a view. */
int exchange_tensor(void *object, dl_tensor *out);

/* Adds the capsule of our exchange API to the module, and the method __dlpack__() to the type of buffers. */
int add_exchange_api(PyObject *module);

#endif
