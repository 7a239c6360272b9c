/* SPDX-License-Identifier: Apache-2.0 */
/* The module object: its state, its functions, its end. */
#include "native.h"

enum { TABLE_START = 64 }; /* slots of a new table of types; a power of two */

/* ---- the module ---- */

static int execute(PyObject *module) {
  state *st = PyModule_GetState(module);
  if (types_reserve(st, TABLE_START) < 0)
    return -1;
  const struct {
    const void *type;
    kind kind;
  } builtins[] = {
      {&PyLong_Type, KIND_SIGNED},         {&PyBool_Type, KIND_SIGNED},           {&PyFloat_Type, KIND_FLOAT},
      {&PyComplex_Type, KIND_COMPLEX},     {Py_TYPE(Py_None), KIND_NONE},         {&PyBytes_Type, KIND_BYTES},
      {&PyByteArray_Type, KIND_BYTEARRAY}, {&PyMemoryView_Type, KIND_MEMORYVIEW},
  };
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; ++i)
    if (types_store(st, (type_entry){.type = builtins[i].type, .kind = builtins[i].kind}) < 0)
      return -1;
  const char *const names[KIND_PUBLIC_COUNT] = {"SIGNED", "UNSIGNED", "FLOAT", "COMPLEX", "BOOL", "POINTER", "ARRAY"};
  for (int i = 0; i < KIND_PUBLIC_COUNT; ++i)
    if (PyModule_AddIntConstant(module, names[i], i) < 0)
      return -1;
  if (PyModule_AddIntConstant(module, "HAS_VALUE", CODE_HAS_VALUE) < 0)
    return -1;
  st->ptr_name = PyUnicode_InternFromString("_ptr");
  st->value_name = PyUnicode_InternFromString("value");
  st->interface_name = PyUnicode_InternFromString("__cuda_array_interface__");
  st->data_name = PyUnicode_InternFromString("data");
  st->address_name = PyUnicode_InternFromString("_address");
  st->layout_name = PyUnicode_InternFromString("_layout");
  st->shared_allowed_name = PyUnicode_InternFromString("_shared_allowed");
  st->shared_device_name = PyUnicode_InternFromString("_shared_device");
  st->forget = PyObject_GetAttrString(module, "_forget");
  if (!st->ptr_name || !st->value_name || !st->interface_name || !st->data_name || !st->address_name ||
      !st->layout_name || !st->shared_allowed_name || !st->shared_device_name || !st->forget)
    return -1;
  return add_prepared_type(module);
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
  const state *st = PyModule_GetState(module);
  for (size_t i = 0; st->table && i <= st->mask; ++i) {
    Py_VISIT(st->table[i].weak);
    Py_VISIT(st->table[i].given);
  }
  Py_VISIT(st->resolver);
  Py_VISIT(st->forget);
  Py_VISIT(st->read_array);
  Py_VISIT(st->check_device);
  Py_VISIT(st->faces.stream);
  Py_VISIT(st->faces.config);
  Py_VISIT(st->faces.kernel);
  Py_VISIT(st->faces.launch_checked);
  Py_VISIT(st->faces.explain);
  return 0;
}

static int clear(PyObject *module) {
  state *st = PyModule_GetState(module);
  for (size_t i = 0; st->table && i <= st->mask; ++i) {
    /* The slot is empty before anything is released: that can run code which packs or registers. */
    type_entry old = st->table[i];
    st->table[i] = (type_entry){0};
    if (old.type)
      --st->used;
    Py_XDECREF(old.weak);
    Py_XDECREF(old.given);
  }
  Py_CLEAR(st->resolver);
  Py_CLEAR(st->forget);
  Py_CLEAR(st->read_array);
  Py_CLEAR(st->check_device);
  Py_CLEAR(st->faces.stream);
  Py_CLEAR(st->faces.config);
  Py_CLEAR(st->faces.kernel);
  Py_CLEAR(st->faces.launch_checked);
  Py_CLEAR(st->faces.explain);
  return 0;
}

static void release(void *module) {
  clear(module);
  state *st = PyModule_GetState(module);
  /* Names are part of no cycle, and needed as long as anything can be packed. */
  Py_CLEAR(st->ptr_name);
  Py_CLEAR(st->value_name);
  Py_CLEAR(st->interface_name);
  Py_CLEAR(st->data_name);
  Py_CLEAR(st->address_name);
  Py_CLEAR(st->layout_name);
  Py_CLEAR(st->shared_allowed_name);
  Py_CLEAR(st->shared_device_name);
  PyMem_Free(st->table);
  st->table = NULL;
}

#define FASTCALL(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"pack", FASTCALL(pack), METH_FASTCALL, pack_doc},
    {"launch", FASTCALL(launch), METH_FASTCALL, launch_doc},
    {"set_faces", FASTCALL(set_faces), METH_FASTCALL, set_faces_doc},
    {"register", FASTCALL(types_register), METH_FASTCALL, register_doc},
    {"registered", types_registered, METH_O, registered_doc},
    {"is_exchange_api", types_is_exchange_api, METH_O, is_exchange_api_doc},
    {"set_array_functions", FASTCALL(set_array_functions), METH_FASTCALL, set_array_functions_doc},
    {"set_resolver", types_set_resolver, METH_O, set_resolver_doc},
    {"make_capsule", FASTCALL(make_capsule), METH_VARARGS | METH_KEYWORDS, make_capsule_doc},
    {"read_capsule", read_capsule, METH_O, read_capsule_doc},
    {"_forget", types_forget, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "cudacore_handles._native",
    .m_doc = "What is called most, and what talks to CPython directly.",
    .m_size = sizeof(state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
