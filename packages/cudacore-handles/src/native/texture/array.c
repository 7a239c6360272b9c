/* SPDX-License-Identifier: Apache-2.0 */
/* Creates arrays and mipmapped arrays. */
#include "texture/texture.h"

static PyObject *array_make(PyObject *module, PyObject *const *arguments, Py_ssize_t count, options_kind kind) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("array_make(context, options)", count, 2) < 0 || need_texture_faces(st) < 0)
    return NULL;
  cch_context *context = context_use(st, arguments[0]);
  if (context == NULL)
    return NULL;
  checked_options options;
  if (options_read(st, kind, arguments[1], cch_context_device(context), &options) < 0) {
    handle_done(arguments[0]);
    return NULL;
  }
  bool is_mipmapped = kind == OPTIONS_MIPMAPPED_ARRAY;
  cch_array *array = NULL;
  cch_mipmapped_array *mipmapped = NULL;
  int status;
  WITHOUT_GIL(status = is_mipmapped ? cch_mipmapped_array_create(&mipmapped, context, &options.as.array)
                                    : cch_array_create(&array, context, &options.as.array));
  PyObject *made = NULL;
  if (status != 0)
    raise_status(st, status);
  else if (is_mipmapped)
    made = handle_make(st, (PyTypeObject *)st->faces.mipmapped_array, mipmapped);
  else
    made = handle_make(st, (PyTypeObject *)st->faces.array, array);
  Py_DECREF(options.copy);
  handle_done(arguments[0]);
  return made;
}

static PyObject *create_array(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  return array_make(module, arguments, count, OPTIONS_ARRAY);
}

static PyObject *create_mipmapped_array(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  return array_make(module, arguments, count, OPTIONS_MIPMAPPED_ARRAY);
}

PyMethodDef array_functions[] = {
    {"create_array", FASTCALL(create_array), METH_FASTCALL, DOC_create_array},
    {"create_mipmapped_array", FASTCALL(create_mipmapped_array), METH_FASTCALL, DOC_create_mipmapped_array},
    {NULL, NULL, 0, NULL},
};
