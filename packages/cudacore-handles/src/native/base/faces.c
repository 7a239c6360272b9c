/* SPDX-License-Identifier: Apache-2.0 */
/* What the Python half of the package tells the module: the table of FACES in native.h. */
#include "base/native.h"

static const struct {
  const char *name;
  size_t offset; /* in faces */
} face_names[] = {
#define FACE(name) {#name, offsetof(faces, name)},
    FACES(FACE)
#undef FACE
};

enum { FACE_COUNT = sizeof face_names / sizeof *face_names };

static PyObject **face_at(state *st, size_t i) { return (PyObject **)((char *)&st->faces + face_names[i].offset); }

static const char set_face_doc[] = "set_face(name, object, /)\n--\n\n"
                                   "Tell the module of a class or function of the package's Python half.";

static PyObject *set_face(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("set_face(name, object)", count, 2) < 0)
    return NULL;
  for (size_t i = 0; i < FACE_COUNT; i++)
    if (PyUnicode_Check(arguments[0]) && PyUnicode_CompareWithASCIIString(arguments[0], face_names[i].name) == 0) {
      PyObject **slot = face_at(PyModule_GetState(module), i), *old = *slot;
      Py_INCREF(arguments[1]);
      *slot = arguments[1];
      Py_XDECREF(old);
      Py_RETURN_NONE;
    }
  return PyErr_Format(PyExc_ValueError, "%R is no face that this module knows", arguments[0]);
}

static PyMethodDef functions[] = {
    {"set_face", FASTCALL(set_face), METH_FASTCALL, set_face_doc},
    {NULL, NULL, 0, NULL},
};

int add_face_functions(PyObject *module) { return PyModule_AddFunctions(module, functions); }

int faces_visit(state *st, visitproc visit, void *arg) {
  for (size_t i = 0; i < FACE_COUNT; i++)
    Py_VISIT(*face_at(st, i));
  return 0;
}

void faces_clear(state *st) {
  for (size_t i = 0; i < FACE_COUNT; i++)
    Py_CLEAR(*face_at(st, i));
}
