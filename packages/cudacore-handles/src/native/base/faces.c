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
  PyErr_Format(PyExc_TypeError, "connect(): the room %R has no %R", room, name);
  return -1;
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
