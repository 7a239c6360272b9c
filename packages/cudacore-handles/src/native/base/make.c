/* SPDX-License-Identifier: Apache-2.0 */
/* Makes objects of classes of the package without their constructors in Python. */
#include "base/native.h"

/* Returns object.__new__(cls); NULL with an exception on failure. */
static PyObject *make_bare(PyObject *cls) {
  newfunc make = (newfunc)PyType_GetSlot(&PyBaseObject_Type, Py_tp_new);
  PyObject *nothing = PyTuple_New(0);
  PyObject *made = nothing != NULL ? make((PyTypeObject *)cls, nothing, NULL) : NULL;
  Py_XDECREF(nothing);
  return made;
}

static PyObject *make(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
  (void)module;
  if (check_argument_count("make(cls, **attributes)", count, 1) < 0)
    return NULL;
  if (!PyType_Check(arguments[0]))
    return PyErr_Format(PyExc_TypeError, "make(): cls must be a class");
  PyObject *made = make_bare(arguments[0]);
  Py_ssize_t given = names != NULL ? PyTuple_Size(names) : 0;
  for (Py_ssize_t k = 0; made != NULL && k < given; k++)
    if (PyObject_GenericSetAttr(made, PyTuple_GetItem(names, k), arguments[1 + k]) < 0)
      Py_CLEAR(made);
  return made;
}

/* ---- options ---- */

/* Returns the fields of a class whose objects are made here; NULL without an exception for any other class. */
static PyObject *plain_fields(const state *st, PyObject *cls) {
  PyObject *known = st->faces.plain_options; /* NULL at the end of the interpreter */
  return known != NULL ? dict_get(known, cls) : NULL;
}

bool has_plain_option(const state *st, PyObject *options, PyObject *name) {
  PyObject *fields = plain_fields(st, (PyObject *)Py_TYPE(options));
  PyObject *is_flag = fields != NULL ? dict_get(fields, name) : NULL;
  Py_XDECREF(fields);
  Py_XDECREF(is_flag);
  return is_flag != NULL;
}

int option_flag(PyObject *options, PyObject *name) {
  PyObject *value = PyObject_GetAttr(options, name);
  if (value == NULL)
    PyErr_Clear();
  int flag = value == Py_True ? 1 : value == Py_False || value == Py_None ? 0 : -1;
  Py_XDECREF(value);
  return flag;
}

/*
 * Makes options of named values that need no check, in a class whose constructor only stores and checks its fields. A
 * field that is not given is not stored, because its default is an attribute of the class. Returns NULL without an
 * exception if the constructor must be called. A class with checks of its own has them in the table, for None.
 */
static PyObject *make_options(const state *st, PyObject *cls, PyObject *args, PyObject *named) {
  PyObject *fields = plain_fields(st, cls);
  PyObject *made = fields != NULL && PyTuple_Size(args) == 0 ? make_bare(cls) : NULL;
  PyObject *name, *value;
  for (Py_ssize_t at = 0; made != NULL && named != NULL && PyDict_Next(named, &at, &name, &value);) {
    PyObject *is_flag = dict_get(fields, name);
    bool fits = is_flag == Py_False || (is_flag == Py_True && (PyBool_Check(value) || value == Py_None));
    Py_XDECREF(is_flag);
    if (!fits || PyObject_GenericSetAttr(made, name, value) < 0)
      Py_CLEAR(made);
  }
  PyObject *finish = made != NULL ? dict_get(fields, Py_None) : NULL;
  PyObject *finished = finish != NULL ? PyObject_CallFunctionObjArgs(finish, made, NULL) : NULL;
  if (finish != NULL && finished == NULL)
    Py_CLEAR(made);
  Py_XDECREF(finished);
  Py_XDECREF(finish);
  Py_XDECREF(fields);
  return made;
}

static PyObject *call_class(PyObject *cls, PyObject *args, PyObject *named) {
  const state *st = PyType_GetModuleState(Py_TYPE(cls));
  PyObject *made = st != NULL ? make_options(st, cls, args, named) : NULL;
  if (made != NULL || (st != NULL && PyErr_Occurred()))
    return made;
  PyErr_Clear(); /* the class of the class is derived from this module's */
  ternaryfunc call = (ternaryfunc)PyType_GetSlot(&PyType_Type, Py_tp_call);
  return call(cls, args, named);
}

/* The functions of `type` do not visit the class of a class, because they are for classes of `type` itself. */
static int visit_class(PyObject *cls, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(cls));
  traverseproc traverse = (traverseproc)PyType_GetSlot(&PyType_Type, Py_tp_traverse);
  return traverse(cls, visit, arg);
}

static int clear_class(PyObject *cls) {
  inquiry clear = (inquiry)PyType_GetSlot(&PyType_Type, Py_tp_clear);
  return clear(cls);
}

static PyType_Spec options_class_spec = {
    .name = "cudacore_handles.OptionsClass",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = (PyType_Slot[]){SLOT(tp_doc, DOC_OptionsClass),
                             SLOT(tp_call, call_class),
                             SLOT(tp_traverse, visit_class),
                             SLOT(tp_clear, clear_class),
                             {0, NULL}},
};

static PyMethodDef functions[] = {
    {"make", FASTCALL(make), METH_FASTCALL | METH_KEYWORDS, DOC_make},
    {NULL, NULL, 0, NULL},
};

int add_make_functions(PyObject *module, state *st) {
  return add_type(module, functions, "OptionsClass", &options_class_spec, &PyType_Type, &st->options_class_type);
}
