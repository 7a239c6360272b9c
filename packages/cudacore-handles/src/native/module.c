/* SPDX-License-Identifier: Apache-2.0 */
/* The module object: its state, its functions, and its destruction. */
#include "base/types.h"
#include "driver/context.h"
#include "graph/graph.h"
#include "launch/launch.h"
#include "memory/buffer.h"
#include "stream/stream.h"
#include "texture/texture.h"
#include "views/views.h"

#include <string.h>

/*
 * Keeps the module alive as long as its interpreter. The module's objects use its state, and keep the module alive
 * through their types. But the last garbage collection finds all of them, and clears the types' references to the
 * module before it destroys the objects. The interpreter's dictionary is destroyed after that.
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

/* Functions that add the types of each file to the module. A type comes after its base types. */
static int (*const parts[])(PyObject *, state *) = {
    add_types,        add_handle_type,  add_context_type,  add_event_type,      add_stream_type, add_buffer_type,
    add_kernel_types, add_config_type,  add_prepared_type, add_graph_types,     add_node_type,   add_adjacency_type,
    add_builder_type, add_capture_type, add_view_type,     add_tensor_map_type,
};
static int (*const others[])(PyObject *) = {
    add_api_capsule,  add_make_functions, add_owner_functions,  add_dlpack_constants,
    add_exchange_api, add_pack_functions, add_thread_functions,
};
static PyMethodDef *const functions[] = {
    face_functions,       driver_call_functions, file_functions,      callback_functions,
    node_batch_functions, node_column_functions, node_set_functions,  capture_functions,
    element_functions,    launch_functions,      view_from_functions, texture_functions,
};

static int execute(PyObject *module) {
  state *st = PyModule_GetState(module);
#ifdef Py_GIL_DISABLED
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
    return raise_error(PyExc_ImportError,
                       "cudacore_handles cannot be imported in a subinterpreter of free-threaded CPython, because cffi "
                       "cannot: use threads of the main interpreter, or CPython with a GIL");
#endif
  st->base.runtime = runtime_of_interpreter();
  if (st->base.runtime == NULL)
    return -1;
#define INTERN(name, text)                                                                                             \
  if ((st->names.name = PyUnicode_InternFromString(text)) == NULL)                                                     \
    return -1;
  NAMES(INTERN)
#undef INTERN
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (PyModule_AddFunctions(module, functions[i]) < 0)
      return -1;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i](module, st) < 0)
      return -1;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i](module) < 0)
      return -1;
  return keep_to_the_end(module);
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
  state *st = PyModule_GetState(module);
  Py_VISIT(st->views.dlpack_types);
#define VISIT(name) Py_VISIT(st->name##_type);
  TYPES(VISIT)
#undef VISIT
  const int stopped = types_visit(st, visit, arg);
  return stopped != 0 ? stopped : faces_visit(st, visit, arg);
}

static int clear(PyObject *module) {
  state *st = PyModule_GetState(module);
  types_clear(st);
  Py_CLEAR(st->views.dlpack_types);
  faces_clear(st);
  return 0;
}

static void release(void *module) {
  clear(module);
  state *st = PyModule_GetState(module);
  /*
   * Objects of the module's types need the data that is freed below. They keep the module alive, so there are no such
   * objects now.
   */
  clear_known_dtypes(&st->launch);
  Py_CLEAR(st->views.dlpack_arguments);
#define CLEAR(name, ...) Py_CLEAR(st->names.name);
  NAMES(CLEAR)
#undef CLEAR
#define CLEAR(name) Py_CLEAR(st->name##_type);
  TYPES(CLEAR)
#undef CLEAR
  runtime_unref(st->base.runtime);
  st->base.runtime = NULL;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED}, /* so that execute() refuses them */
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "cudacore_handles._native",
    .m_doc = "Functions that are called often, and functions that use CPython's API.",
    .m_size = sizeof(state),
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
