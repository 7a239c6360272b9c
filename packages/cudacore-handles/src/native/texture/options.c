/* SPDX-License-Identifier: Apache-2.0 */
/* Options of arrays and textures, in the structures of the C library. Python code checks and converts them. */
#include "texture/texture.h"

int options_read(const state *st, options_kind kind, PyObject *options, int device, checked_options *out) {
  PyObject *const functions[] = {st->faces.check_array, st->faces.check_mipmapped_array, st->faces.check_texture};
  const size_t sizes[] = {sizeof(cch_array_desc), sizeof(cch_array_desc), sizeof(sampling)};
  PyObject *result = PyObject_CallFunction(functions[kind], "Oi", options, device);
  char *bytes;
  Py_ssize_t length;
  if (result == NULL || !PyArg_ParseTuple(result, "Oy#", &out->copy, &bytes, &length) ||
      (size_t)length != sizes[kind]) {
    Py_XDECREF(result);
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_SystemError, "checked options have another size than their structure");
    return -1;
  }
  memcpy(&out->as, bytes, sizes[kind]);
  Py_INCREF(out->copy);
  Py_DECREF(result);
  return 0;
}
