/* SPDX-License-Identifier: Apache-2.0 */
/* Makes objects of classes of the package without their constructors, and reads options. */
#include "base/native.h"

static PyObject *make(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
  (void)module;
  if (check_argument_count("make(cls, **attributes)", count, 1) < 0)
    return NULL;
  if (!PyType_Check(arguments[0]))
    return PyErr_Format(PyExc_TypeError, "make(): cls must be a class");
  newfunc make_bare = (newfunc)PyType_GetSlot(&PyBaseObject_Type, Py_tp_new);
  PyObject *nothing = PyTuple_New(0);
  PyObject *made = nothing != NULL ? make_bare((PyTypeObject *)arguments[0], nothing, NULL) : NULL;
  Py_XDECREF(nothing);
  Py_ssize_t given = names != NULL ? PyTuple_Size(names) : 0;
  for (Py_ssize_t k = 0; made != NULL && k < given; k++)
    if (PyObject_GenericSetAttr(made, PyTuple_GetItem(names, k), arguments[1 + k]) < 0)
      Py_CLEAR(made);
  return made;
}

/* ---- options ---- */

bool is_options(const state *st, PyObject *object) {
  PyObject *classes = st->faces.option_classes; /* NULL at the end of the interpreter */
  PyObject *found = classes != NULL ? dict_get(classes, (PyObject *)Py_TYPE(object)) : NULL;
  Py_XDECREF(found);
  return found != NULL;
}

int option_flag(PyObject *options, PyObject *name) {
  PyObject *value = PyObject_GetAttr(options, name);
  if (value == NULL)
    PyErr_Clear();
  int flag = value == Py_True ? 1 : value == Py_False || value == Py_None ? 0 : -1;
  Py_XDECREF(value);
  return flag;
}

static PyMethodDef functions[] = {
    {"make", FASTCALL(make), METH_FASTCALL | METH_KEYWORDS, DOC_make},
    {NULL, NULL, 0, NULL},
};

int add_make_functions(PyObject *module) { return PyModule_AddFunctions(module, functions); }
