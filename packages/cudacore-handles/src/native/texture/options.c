/* SPDX-License-Identifier: Apache-2.0 */
/* Options of arrays and textures, in the structures of the C library. Python code checks and converts them. */
#include "texture/texture.h"

/* Returns whether options have the same names and values as those of an entry of `last_options`: the same objects. */
static bool are_same(PyObject *options, PyObject *last) {
  PyObject *cls, *names, *values, *result, *name, *value;
  if (!PyArg_ParseTuple(last, "OO!O!O", &cls, &PyTuple_Type, &names, &PyTuple_Type, &values, &result))
    return false;
  PyObject *fields = (PyObject *)Py_TYPE(options) == cls ? PyObject_GenericGetDict(options, NULL) : NULL;
  if (fields == NULL)
    return false;
  Py_ssize_t count = PyTuple_Size(values), i = 0, place = 0;
  LOCK_OBJECT(fields); /* other threads can change the options */
  if (PyDict_Size(fields) == count)
    for (; i < count && PyDict_Next(fields, &place, &name, &value); i++)
      if (name != PyTuple_GetItem(names, i) || value != PyTuple_GetItem(values, i))
        break;
  UNLOCK_OBJECT();
  Py_DECREF(fields);
  return count > 0 && i == count;
}

/* Returns what the last check of the same options returned; NULL without an exception if others were checked last. */
static PyObject *last_result(const state *st, options_kind kind, PyObject *options, int device) {
  PyObject *key = PyLong_FromLong((long)kind << 16 | device), *result = NULL;
  PyObject *last = key != NULL ? dict_get(st->faces.last_options, key) : NULL;
  if (last != NULL && are_same(options, last))
    result = Py_NewRef(PyTuple_GetItem(last, 3));
  Py_XDECREF(last);
  Py_XDECREF(key);
  PyErr_Clear();
  return result;
}

int options_read(const state *st, options_kind kind, PyObject *options, int device, checked_options *out) {
  PyObject *const functions[] = {st->faces.check_array, st->faces.check_mipmapped_array, st->faces.check_texture};
  const size_t sizes[] = {sizeof(cch_array_desc), sizeof(cch_array_desc), sizeof(sampling)};
  PyObject *result = last_result(st, kind, options, device);
  if (result == NULL)
    result = PyObject_CallFunction(functions[kind], "Oi", options, device);
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
