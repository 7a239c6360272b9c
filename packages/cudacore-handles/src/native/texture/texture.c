/* SPDX-License-Identifier: Apache-2.0 */
/* Creates arrays, textures and surfaces from structures of the C library, which Python code has checked. */
#include "texture/texture.h"

/* Copies a structure from its bytes. Returns -1 with an exception if they have another size. */
static int read_struct(void *out, size_t size, PyObject *argument) {
  char *bytes;
  Py_ssize_t length;
  if (PyBytes_AsStringAndSize(argument, &bytes, &length) < 0)
    return -1;
  if ((size_t)length != size)
    return raise_error(PyExc_ValueError, "a structure of %zu bytes is needed, not of %zd", size, length);
  memcpy(out, bytes, size);
  return 0;
}

/* Returns a new face for a box or, if `status` is a failure, NULL with an exception. */
static PyObject *make(const state *st, PyObject *cls, void *box, int status) {
  return status == 0 ? handle_make(st, (PyTypeObject *)cls, box) : raise_status(st, status);
}

static PyObject *create_array(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  cch_array_desc desc;
  if (check_argument_count("create_array(cls, context, desc)", count, 3) < 0 ||
      read_struct(&desc, sizeof desc, arguments[2]) < 0)
    return NULL;
  cch_context *context = context_use(st, arguments[1]);
  if (context == NULL)
    return NULL;
  cch_array *array = NULL;
  cch_mipmapped_array *mipmapped = NULL;
  int status;
  WITHOUT_GIL(status = desc.levels != 0 ? cch_mipmapped_array_create(&mipmapped, context, &desc)
                                        : cch_array_create(&array, context, &desc));
  handle_done(arguments[1]);
  return make(st, arguments[0], desc.levels != 0 ? (void *)mipmapped : array, status);
}

/* Creates a texture or, if `desc` is None, a surface. */
static PyObject *create_texture(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("create_texture(cls, context, source, resource, desc)", count, 5) < 0)
    return NULL;
  cch_texture_resource reads;
  cch_texture_desc desc;
  bool samples = arguments[4] != Py_None;
  if (samples &&
      (read_struct(&reads, sizeof reads, arguments[3]) < 0 || read_struct(&desc, sizeof desc, arguments[4]) < 0))
    return NULL;
  cch_context *context = context_use(st, arguments[1]);
  if (context == NULL)
    return NULL;
  PyObject *made = NULL;
  void *source = handle_use(arguments[2]);
  if (source != NULL) {
    cch_texture *texture = NULL;
    cch_surface *surface = NULL;
    int status;
    reads.source = source;
    WITHOUT_GIL(status = samples ? cch_texture_create(&texture, context, &reads, &desc)
                                 : cch_surface_create(&surface, context, source));
    handle_done(arguments[2]);
    made = make(st, arguments[0], samples ? (void *)texture : surface, status);
  }
  handle_done(arguments[1]);
  return made;
}

PyMethodDef texture_functions[] = {
    {"create_array", FASTCALL(create_array), METH_FASTCALL, DOC_create_array},
    {"create_texture", FASTCALL(create_texture), METH_FASTCALL, DOC_create_texture},
    {NULL, NULL, 0, NULL},
};
