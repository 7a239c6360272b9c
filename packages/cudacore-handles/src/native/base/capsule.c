/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes handles to other extension modules. A capsule holds a reference to a box and is named for the kind of the box;
 * docs/c/python.rst describes the protocol.
 */
#include "base/native.h"

#include "lib/base/kind_list.h"

#include <string.h>

static const char api_name[] = "cudacore_handles.api";

#define NAME(KIND, type, name, ...) [CCH_KIND_##KIND] = "cudacore_handles." name,
static const char *const names[CCH_KIND_COUNT] = {CCH__KINDS(NAME)};
#undef NAME

static void destroy(PyObject *capsule) {
  KEEPING_EXCEPTION(box_unref(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))));
}

PyObject *handle_capsule(PyObject *face, PyObject *nothing) {
  (void)nothing;
  void *box = handle_hold(face);
  if (box == NULL)
    return NULL;
  PyObject *capsule = PyCapsule_New(box, names[((handle *)face)->kind], destroy);
  if (capsule == NULL)
    box_unref(box);
  return capsule;
}

static PyObject *open_handle_capsule(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  (void)module;
  if (check_argument_count("open_handle_capsule(out, capsule)", count, 2) < 0)
    return NULL;
  PyObject *capsule = arguments[1];
  void **out = PyLong_AsVoidPtr(arguments[0]);
  if (out == NULL)
    return NULL;
  const char *name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : NULL;
  for (int kind = 0; name != NULL && kind < CCH_KIND_COUNT; kind++) {
    if (strcmp(name, names[kind]) != 0)
      continue;
    void *box = PyCapsule_GetPointer(capsule, name);
    if (box == NULL)
      return NULL;
    if (cch_kind_of(box) != kind)
      return PyErr_Format(PyExc_ValueError, "the capsule is named \"%s\", but does not hold such a handle", name);
    *out = cch_ref(box);
    return PyUnicode_FromString(strrchr(name, '.') + 1);
  }
  PyErr_Clear();
  return PyErr_Format(PyExc_TypeError,
                      "capsule must be a capsule of a handle, as __cudacore_handle__() gives it, not %R", capsule);
}

static PyMethodDef functions[] = {
    {"open_handle_capsule", FASTCALL(open_handle_capsule), METH_FASTCALL, DOC_open_handle_capsule},
    {NULL, NULL, 0, NULL},
};

int add_api_capsule(PyObject *module) {
  if (PyModule_AddFunctions(module, functions) < 0)
    return -1;
  const cch_api *api = cch_get_api(CCH_ABI_VERSION, sizeof(cch_api));
  if (api == NULL)
    return raise_error(PyExc_ImportError,
                       "libcudacore_handles is older than cudacore_handles: reinstall cudacore-handles");
  PyObject *capsule = PyCapsule_New((void *)(uintptr_t)api, api_name, NULL);
  int status = capsule != NULL ? PyModule_AddObjectRef(module, "api", capsule) : -1;
  Py_XDECREF(capsule);
  return status;
}
