/* SPDX-License-Identifier: Apache-2.0 */
/* The module object: its state, its functions, its end. */
#include "base/failure.h"
#include "base/native.h"

#include <string.h>

enum { TABLE_START = 64 }; /* slots of a new table of types; a power of two */

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

const char set_face_doc[] = "set_face(name, object, /)\n--\n\n"
                            "Tell the module of a class or function of the package's Python half.";

PyObject *set_face(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
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

PyObject *integer_of(const state *st, PyObject *value) {
  PyObject *number = PyObject_CallFunctionObjArgs(st->faces.as_integer, value, NULL);
  if (number != Py_None)
    return number;
  Py_DECREF(number);
  return NULL;
}

PyObject *raise_status(const state *st, int status) {
  PyObject *result = PyObject_CallFunction(st->faces.raise_status, "N", failure_status(status));
  Py_XDECREF(result); /* it raises */
  return NULL;
}

PyTypeObject *add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject *base) {
  PyObject *bases = base != NULL ? PyTuple_Pack(1, base) : NULL;
  if (base != NULL && bases == NULL)
    return NULL;
  PyObject *type = PyType_FromModuleAndSpec(module, spec, bases);
  Py_XDECREF(bases);
  if (type == NULL || PyModule_AddObjectRef(module, name, type) < 0) {
    Py_XDECREF(type);
    return NULL;
  }
  return (PyTypeObject *)type;
}

int check_argument_count(const char *signature, Py_ssize_t given, Py_ssize_t expected) {
  if (given == expected)
    return 0;
  PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, but %zd %s given", signature, expected, given,
               given == 1 ? "was" : "were");
  return -1;
}

int sort_arguments(const char *function, const char *const *names, Py_ssize_t wanted, Py_ssize_t positional,
                   PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, PyObject **out) {
  if (count > positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %zd positional argument%s, but %zd were given", function,
                 positional, positional == 1 ? "" : "s", count);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++)
    out[i] = arguments[i];
  Py_ssize_t named = keywords != NULL ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t k = 0; k < named; k++) {
    PyObject *name = PyTuple_GetItem(keywords, k);
    Py_ssize_t i = 0;
    while (i < wanted && PyUnicode_CompareWithASCIIString(name, names[i]) != 0)
      i++;
    if (i == wanted) {
      PyErr_Format(PyExc_TypeError, "%s() has no argument %R", function, name);
      return -1;
    }
    if (i < count) {
      PyErr_Format(PyExc_TypeError, "%s() got %R by position and by name", function, name);
      return -1;
    }
    out[i] = arguments[count + k];
  }
  return 0;
}

/*
 * Keeps the module as long as its interpreter. Its objects have its state, and keep it by their types; but a garbage
 * collection that finds all of them, as the last one does, takes the module from the types before it comes to the
 * objects. The interpreter's dictionary goes after that.
 */
static int keep_to_the_end(PyObject *module) {
  static const char name[] = "cudacore_handles.modules";
  PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());   /* borrowed */
  PyObject *kept = dict != NULL ? PyDict_GetItemString(dict, name) : NULL; /* borrowed */
  if (kept != NULL)
    return PyList_Append(kept, module);
  kept = dict != NULL ? PyList_New(0) : NULL;
  int status = kept != NULL && PyList_Append(kept, module) == 0 ? PyDict_SetItemString(dict, name, kept) : -1;
  Py_XDECREF(kept);
  if (status < 0 && !PyErr_Occurred())
    PyErr_SetString(PyExc_RuntimeError, "the interpreter has no dictionary for extension modules");
  return status;
}

static int execute(PyObject *module) {
  state *st = PyModule_GetState(module);
  if (types_reserve(st, TABLE_START) < 0)
    return -1;
  const struct {
    const void *type;
    kind kind;
  } builtins[] = {
      {&PyLong_Type, KIND_SIGNED},         {&PyBool_Type, KIND_BOOL},
      {&PyFloat_Type, KIND_FLOAT},         {&PyComplex_Type, KIND_COMPLEX},
      {Py_TYPE(Py_None), KIND_NONE},       {&PyBytes_Type, KIND_BYTES},
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
  st->forget = PyObject_GetAttrString(module, "_forget");
  st->runtime = runtime_of_interpreter();
  if (!st->ptr_name || !st->value_name || !st->interface_name || !st->data_name || !st->forget || !st->runtime)
    return -1;
  if (add_handle_type(module, st) < 0 || add_event_type(module, st) < 0 || add_stream_type(module, st) < 0 ||
      add_buffer_type(module, st) < 0 || add_launch_types(module, st) < 0 || add_prepared_type(module, st) < 0 ||
      add_graph_types(module, st) < 0 || add_node_type(module, st) < 0 || add_builder_type(module, st) < 0 ||
      add_view_type(module, st) < 0 || add_exchange_api(module) < 0)
    return -1;
  if (add_api_capsule(module) < 0 || add_owner_functions(module) < 0 || keep_to_the_end(module) < 0)
    return -1;
  return add_dlpack_constants(module);
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
  state *st = PyModule_GetState(module);
  for (size_t i = 0; st->table && i <= st->mask; ++i) {
    Py_VISIT(st->table[i].weak);
    Py_VISIT(st->table[i].given);
    Py_VISIT(st->table[i].to_address[0].property);
    Py_VISIT(st->table[i].to_address[1].property);
  }
  Py_VISIT(st->resolver);
  Py_VISIT(st->forget);
  Py_VISIT(st->dlpack_types);
  for (size_t i = 0; i < FACE_COUNT; i++)
    Py_VISIT(*face_at(st, i));
  PyTypeObject *const types[] = {st->handle_type, st->event_type,  st->stream_type,  st->buffer_type,
                                 st->kernel_type, st->config_type, st->graph_type,   st->adjacency_type,
                                 st->node_type,   st->exec_type,   st->builder_type, st->condition_type,
                                 st->view_type};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    Py_VISIT(types[i]);
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
    types_drop(&old);
  }
  Py_CLEAR(st->resolver);
  Py_CLEAR(st->forget);
  Py_CLEAR(st->dlpack_types);
  for (size_t i = 0; i < FACE_COUNT; i++)
    Py_CLEAR(*face_at(st, i));
  return 0;
}

static void release(void *module) {
  clear(module);
  state *st = PyModule_GetState(module);
  /* What is needed as long as there are objects of the types: they keep the module. */
  Py_CLEAR(st->ptr_name);
  Py_CLEAR(st->value_name);
  Py_CLEAR(st->interface_name);
  Py_CLEAR(st->data_name);
  drop_view_names(st);
  Py_CLEAR(st->view_type);
  Py_CLEAR(st->builder_type);
  Py_CLEAR(st->adjacency_type);
  Py_CLEAR(st->node_type);
  Py_CLEAR(st->exec_type);
  Py_CLEAR(st->condition_type);
  Py_CLEAR(st->graph_type);
  Py_CLEAR(st->config_type);
  Py_CLEAR(st->kernel_type);
  Py_CLEAR(st->buffer_type);
  Py_CLEAR(st->stream_type);
  Py_CLEAR(st->event_type);
  Py_CLEAR(st->handle_type);
  runtime_unref(st->runtime);
  st->runtime = NULL;
  PyMem_Free(st->nodes);
  st->nodes = NULL;
  PyMem_Free(st->table);
  st->table = NULL;
}

static PyMethodDef methods[] = {
    {"pack", FASTCALL(pack), METH_FASTCALL, pack_doc},
    {"launch", FASTCALL(launch), METH_FASTCALL | METH_KEYWORDS, launch_doc},
    {"launch_now", FASTCALL(launch_now), METH_FASTCALL, launch_now_doc},
    {"set_face", FASTCALL(set_face), METH_FASTCALL, set_face_doc},
    {"own", FASTCALL(own), METH_FASTCALL, own_doc},
    {"disown", disown, METH_O, disown_doc},
    {"create_event", FASTCALL(create_event), METH_FASTCALL, create_event_doc},
    {"create_stream", FASTCALL(create_stream), METH_FASTCALL, create_stream_doc},
    {"set_current", set_current, METH_O, set_current_doc},
    {"order_streams", FASTCALL(order_streams), METH_FASTCALL, order_streams_doc},
    {"current_device", current_device, METH_NOARGS, current_device_doc},
    {"allocate", FASTCALL(allocate), METH_FASTCALL, allocate_doc},
    {"import_memory", FASTCALL(import_memory), METH_FASTCALL, import_memory_doc},
    {"copy", FASTCALL(copy), METH_FASTCALL, copy_doc},
    {"copy_batch", FASTCALL(copy_batch), METH_FASTCALL, copy_batch_doc},
    {"copy_part", FASTCALL(copy_part), METH_FASTCALL, copy_part_doc},
    {"fill", FASTCALL(fill), METH_FASTCALL, fill_doc},
    {"register", FASTCALL(types_register), METH_FASTCALL, register_doc},
    {"registered", types_registered, METH_O, registered_doc},
    {"is_exchange_api", types_is_exchange_api, METH_O, is_exchange_api_doc},
    {"set_resolver", types_set_resolver, METH_O, set_resolver_doc},
    {"make_capsule", FASTCALL(make_capsule), METH_VARARGS | METH_KEYWORDS, make_capsule_doc},
    {"read_capsule", read_capsule, METH_O, read_capsule_doc},
    {"from_buffer", FASTCALL(view_from_buffer), METH_FASTCALL | METH_KEYWORDS, view_from_buffer_doc},
    {"view_make", FASTCALL(view_make), METH_FASTCALL, view_make_doc},
    {"view_capsule", FASTCALL(view_capsule), METH_FASTCALL, view_capsule_doc},
    {"from_dlpack", FASTCALL(view_from_dlpack), METH_FASTCALL | METH_KEYWORDS, view_from_dlpack_doc},
    {"from_any_interface", FASTCALL(view_from_any), METH_FASTCALL | METH_KEYWORDS, view_from_any_doc},
    {"work_stream", FASTCALL(work_stream), METH_FASTCALL, work_stream_doc},
    {"open_handle_capsule", open_handle_capsule, METH_O, open_handle_capsule_doc},
    {"graph_nodes", FASTCALL(graph_nodes), METH_FASTCALL, graph_nodes_doc},
    {"graph_edges", FASTCALL(graph_edges), METH_FASTCALL, graph_edges_doc},
    {"neighbours", FASTCALL(neighbours), METH_FASTCALL, neighbours_doc},
    {"change_edges", FASTCALL(change_edges), METH_FASTCALL, change_edges_doc},
    {"adopt_node", adopt_node, METH_O, adopt_node_doc},
    {"add_nodes", FASTCALL(add_nodes), METH_FASTCALL, add_nodes_doc},
    {"capture_add", FASTCALL(capture_add), METH_FASTCALL, capture_add_doc},
    {"set_node", FASTCALL(set_node), METH_FASTCALL, set_node_doc},
    {"set_kernel_node", FASTCALL(set_kernel_node), METH_FASTCALL, set_kernel_node_doc},
    {"set_exec_node", FASTCALL(set_exec_node), METH_FASTCALL, set_exec_node_doc},
    {"alloc_address", alloc_address, METH_O, alloc_address_doc},
    {"exec_enabled", FASTCALL(exec_enabled), METH_FASTCALL, exec_enabled_doc},
    {"locked_call", FASTCALL(locked_call), METH_FASTCALL, locked_call_doc},
    {"clone_graph", clone_graph, METH_O, clone_graph_doc},
    {"update_exec", FASTCALL(update_exec), METH_FASTCALL, update_exec_doc},
    {"read_node", FASTCALL(read_node), METH_FASTCALL, read_node_doc},
    {"host_function_of", host_function_of, METH_O, host_function_of_doc},
    {"end_callbacks", end_callbacks, METH_NOARGS, end_callbacks_doc},
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
