/* SPDX-License-Identifier: Apache-2.0 */
/* Python functions and classes that the package sets in the module, room by room: the list FACES in module.h. */
#include "base/native.h"

static const struct {
  const char *room, *name;
  size_t offset; /* offset in the structure `faces` */
} face_names[] = {
#define FACE(room, name) {#room, #name, offsetof(faces, name)},
    FACES(FACE)
#undef FACE
};

enum { FACE_COUNT = sizeof face_names / sizeof *face_names };

static PyObject **face_at(state *st, size_t i) { return (PyObject **)((char *)&st->faces + face_names[i].offset); }

static bool is_of_room(PyObject *room, size_t i) {
  return PyUnicode_CompareWithASCIIString(room, face_names[i].room) == 0;
}

/* Returns the index of an entry in a room, or -1 with an exception on failure. */
static Py_ssize_t find_face(PyObject *room, PyObject *name) {
  for (Py_ssize_t i = 0; i < FACE_COUNT; i++)
    if (is_of_room(room, (size_t)i) && PyUnicode_CompareWithASCIIString(name, face_names[i].name) == 0)
      return i;
  return raise_error(PyExc_TypeError, "connect(): the room %R has no %R", room, name);
}

/* Sets an attribute of a class, which takes over the new descriptor, if the class inherits it from `base`. */
static int replace_inherited(PyObject *cls, PyObject *base, const char *name, PyObject *descriptor) {
  PyObject *inherited = PyObject_GetAttrString(base, name), *found = PyObject_GetAttrString(cls, name);
  int status = descriptor != NULL && inherited != NULL && found != NULL ? 0 : -1;
  if (status == 0 && found == inherited)
    status = PyObject_SetAttrString(cls, name, descriptor);
  Py_XDECREF(found);
  Py_XDECREF(inherited);
  Py_XDECREF(descriptor);
  return status;
}

/*
 * Gives a class its own descriptors for the methods and properties that it inherits from types of this module. CPython
 * calls a method directly only if the descriptor is of the object's own class; otherwise each call searches the bases.
 */
static int own_descriptors(const state *st, PyObject *face) {
  PyTypeObject *cls = (PyTypeObject *)face, *base = cls;
  while ((base = PyType_GetSlot(base, Py_tp_base)) != NULL && PyType_GetModuleState(base) == st) {
    PyMethodDef *method = PyType_GetSlot(base, Py_tp_methods);
    for (; method != NULL && method->ml_name != NULL; method++)
      if ((method->ml_flags & (METH_CLASS | METH_STATIC)) == 0 &&
          replace_inherited(face, (PyObject *)base, method->ml_name, PyDescr_NewMethod(cls, method)) < 0)
        return -1;
    PyGetSetDef *property = PyType_GetSlot(base, Py_tp_getset);
    for (; property != NULL && property->name != NULL; property++)
      if (replace_inherited(face, (PyObject *)base, property->name, PyDescr_NewGetSet(cls, property)) < 0)
        return -1;
  }
  PyErr_Clear(); /* the last base is not a type of this module */
  return 0;
}

static PyObject *connect_room(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
  if (check_argument_count("connect(room, **faces)", count, 1) < 0)
    return NULL;
  if (!PyUnicode_Check(arguments[0]))
    return PyErr_Format(PyExc_TypeError, "connect(): room must be a str");
  state *st = PyModule_GetState(module);
  Py_ssize_t given = names != NULL ? PyTuple_Size(names) : 0;
  for (Py_ssize_t k = 0; k < given; k++) {
    Py_ssize_t i = find_face(arguments[0], PyTuple_GetItem(names, k));
    if (i < 0)
      return NULL;
    PyObject **slot = face_at(st, (size_t)i), *old = *slot;
    Py_INCREF(arguments[count + k]);
    *slot = arguments[count + k];
    Py_XDECREF(old);
    if (PyType_Check(*slot) && own_descriptors(st, *slot) < 0)
      return NULL;
  }
  for (size_t i = 0; i < FACE_COUNT; i++)
    if (is_of_room(arguments[0], i) && *face_at(st, i) == NULL)
      return PyErr_Format(PyExc_TypeError, "connect(): %s of the room %R is missing", face_names[i].name, arguments[0]);
  Py_RETURN_NONE;
}

PyMethodDef face_functions[] = {
    {"connect", FASTCALL(connect_room), METH_FASTCALL | METH_KEYWORDS, DOC_connect},
    {NULL, NULL, 0, NULL},
};

int faces_visit(state *st, visitproc visit, void *arg) {
  for (size_t i = 0; i < FACE_COUNT; i++)
    Py_VISIT(*face_at(st, i));
  return 0;
}

void faces_clear(state *st) {
  for (size_t i = 0; i < FACE_COUNT; i++)
    Py_CLEAR(*face_at(st, i));
}
