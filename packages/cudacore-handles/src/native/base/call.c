/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the arguments of calls, and raises exceptions for failed calls, for all functions of the module. */
#include "base/failure.h"
#include "base/native.h"

PyObject *integer_of(const state *st, PyObject *value) {
  PyObject *number = PyObject_CallFunctionObjArgs(st->faces.as_integer, value, NULL);
  if (number != Py_None)
    return number;
  Py_DECREF(number);
  return NULL;
}

int raise_error(PyObject *exception, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(exception, format, arguments);
  va_end(arguments);
  return -1;
}

PyObject *raise_status(const state *st, int status) {
  return PyObject_CallFunction(st->faces.raise_status, "N", failure_status(status)); /* NULL: it always raises */
}

PyObject *raise_invalid(const state *st, int status) {
  cch_error record = *cch_error_last();
  if (status != CCH_EINVAL || record.code != status)
    return raise_status(st, status);
  return PyErr_Format(PyExc_ValueError, "%s", record.message);
}

const state *state_of_type(PyTypeObject *type) {
  /* Usually a class that was defined in Python, whose base belongs to this module. Other classes cost an exception. */
  const state *st = PyType_GetModuleState(PyType_GetSlot(type, Py_tp_base));
  for (; st == NULL && type != NULL; type = PyType_GetSlot(type, Py_tp_base)) {
    PyErr_Clear();
    st = PyType_GetModuleState(type);
  }
  if (st == NULL)
    PyErr_Clear();
  return st;
}

int add_type(PyObject *module, PyMethodDef *functions, const char *name, PyType_Spec *spec, PyTypeObject *base,
             PyTypeObject **out) {
  if (functions != NULL && PyModule_AddFunctions(module, functions) < 0)
    return -1;
  PyObject *bases = base != NULL ? PyTuple_Pack(1, base) : NULL;
  if (base != NULL && bases == NULL)
    return -1;
  PyObject *type = PyType_FromModuleAndSpec(module, spec, bases);
  Py_XDECREF(bases);
  if (type == NULL || PyModule_AddObjectRef(module, name, type) < 0) {
    Py_XDECREF(type);
    return -1;
  }
  *out = (PyTypeObject *)type;
  return 0;
}

int check_argument_count(const char *signature, Py_ssize_t given, Py_ssize_t expected) {
  if (given == expected)
    return 0;
  return raise_error(PyExc_TypeError, "%s takes %zd arguments, but %zd %s given", signature, expected, given,
                     given == 1 ? "was" : "were");
}

/*
 * Raises the exception for a keyword that is not an argument of a function. `names` are the names of the function's
 * arguments.
 */
static void raise_no_argument(const char *function, const char *const *names, Py_ssize_t count, PyObject *name) {
  PyObject *known = PyUnicode_FromString("");
  for (Py_ssize_t i = 0; known != NULL && i < count; i++) {
    PyObject *longer = PyUnicode_FromFormat(i == 0 ? "%U; it has %s" : "%U, %s", known, names[i]);
    Py_DECREF(known);
    known = longer;
  }
  if (known != NULL)
    PyErr_Format(PyExc_TypeError, "%s() has no argument %R%U", function, name, known);
  Py_XDECREF(known);
}

int sort_named_arguments(const char *function, const char *const *names, Py_ssize_t wanted, Py_ssize_t positional,
                         PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, PyObject **out) {
  if (count > positional)
    return raise_error(PyExc_TypeError, "%s() takes at most %zd positional argument%s, but %zd were given", function,
                       positional, positional == 1 ? "" : "s", count);
  Py_ssize_t named = keywords != NULL ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t k = 0; k < named; k++) {
    PyObject *name = PyTuple_GetItem(keywords, k);
    Py_ssize_t i = 0;
    while (i < wanted && PyUnicode_CompareWithASCIIString(name, names[i]) != 0)
      i++;
    if (i == wanted) {
      raise_no_argument(function, names, wanted, name);
      return -1;
    }
    if (i < count)
      return raise_error(PyExc_TypeError, "%s() got %R by position and by name", function, name);
    out[i] = arguments[count + k];
  }
  return 0;
}

/*
 * Returns the name of a type, with the module that users import it from: "numpy.int32", "cudacore_handles.Buffer",
 * "list".
 */
PyObject *type_name(PyObject *value) {
  PyObject *type = (PyObject *)Py_TYPE(value), *result = NULL, *dot = NULL, *parts = NULL;
  PyObject *name = PyObject_GetAttrString(type, "__name__");
  PyObject *module = PyObject_GetAttrString(type, "__module__");
  if (!name || !module)
    goto done;
  if (!PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "builtins") == 0 ||
      PyUnicode_CompareWithASCIIString(module, "__main__") == 0) {
    result = PyObject_Str(name);
    goto done;
  }
  dot = PyUnicode_FromString(".");
  parts = dot ? PyUnicode_Partition(module, dot) : NULL;
  if (parts)
    result = PyUnicode_FromFormat("%S.%S", PyTuple_GetItem(parts, 0), name);
done:
  Py_XDECREF(parts);
  Py_XDECREF(dot);
  Py_XDECREF(module);
  Py_XDECREF(name);
  return result;
}

int raise_about(PyObject *exception, const char *format, PyObject *value, Py_ssize_t given, uint32_t size) {
  PyObject *name = type_name(value);
  if (name) {
    PyErr_Format(exception, format, name, given, size);
    Py_DECREF(name);
  }
  return -1;
}
