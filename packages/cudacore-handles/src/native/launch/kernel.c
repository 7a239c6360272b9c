/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of Kernel that are called often, the objects for its attributes and its occupancy, and the functions
 * that make kernels.
 */
#include "base/failure.h"
#include "launch/launch.h"

/* The attributes or the occupancy of a kernel. A new object is made each time, because the kernel must not refer to it.
 */
typedef struct kernel_part {
  PyObject_HEAD PyObject *kernel;
  PyObject *device; /* an int; NULL: the current device */
} kernel_part;

static PyObject *get_layout(PyObject *object, void *closure) {
  (void)closure;
  return Py_NewRef(kernel_has_layout((kernel *)object) ? ((kernel *)object)->layout_bytes : Py_None);
}

static int set_layout(PyObject *object, PyObject *value, void *closure) {
  (void)closure;
  kernel *self = (kernel *)object;
  layout params;
  if (value == NULL || value == Py_None)
    return raise_error(PyExc_TypeError, "a layout is bytes, and stays");
  if (read_layout(value, &params) < 0)
    return -1;
  /* Launches read the layout without a lock. So the first one stays, if two threads have queried it. */
  LOCK_OBJECT(self);
  if (!kernel_has_layout(self)) {
    self->layout_bytes = Py_NewRef(value);
    self->params = params;
    shared_set(&self->laid_out, true);
  }
  UNLOCK_OBJECT();
  return 0;
}

static PyObject *set_shared_allowed(PyObject *self, PyObject *arguments) {
  unsigned bytes, device;
  if (!PyArg_ParseTuple(arguments, "II:_set_shared_allowed", &bytes, &device))
    return NULL;
  /* One word, because launches on other threads read both. */
  shared_set(&((kernel *)self)->shared[device % SHARED_DEVICES], ((uint64_t)device + 1) << 32 | bytes);
  Py_RETURN_NONE;
}

static PyObject *get_constants(PyObject *object, void *closure) {
  (void)closure;
  kernel *self = (kernel *)object;
  if (!handle_is_open(self))
    return handle_hold(object); /* raises the exception */
  PyObject *constants;
  LOCK_OBJECT(self);
  if (self->constants == NULL)
    self->constants = PyDict_New();
  constants = Py_XNewRef(self->constants);
  UNLOCK_OBJECT();
  return constants;
}

/* Makes an object of a class that is connected when the module of these classes is imported: few programs need it. */
static PyObject *make_part(PyObject *object, void *is_occupancy) {
  const state *st = ((handle *)object)->st;
  if (st == NULL)
    return handle_hold(object); /* raises the exception */
  if (st->faces.kernel_occupancy == NULL) {
    PyObject *imported = PyImport_ImportModule("cudacore_handles._code.kernel_attributes");
    if (imported == NULL)
      return NULL;
    Py_DECREF(imported);
  }
  kernel_part *part =
      new_object((PyTypeObject *)(is_occupancy != NULL ? st->faces.kernel_occupancy : st->faces.kernel_attributes));
  if (part != NULL)
    part->kernel = Py_NewRef(object);
  return (PyObject *)part;
}

static void kernel_dealloc(PyObject *object) {
  kernel *self = (kernel *)object;
  Py_CLEAR(self->name);
  Py_CLEAR(self->layout_bytes);
  Py_CLEAR(self->constants);
  handle_dealloc(object);
}

static PyMethodDef kernel_methods[] = {
#ifdef Py_GIL_DISABLED
    {"close", kernel_close, METH_NOARGS, DOC_Handle_close},
#endif
    {"_set_shared_allowed", set_shared_allowed, METH_VARARGS, DOC_KernelHandle__set_shared_allowed},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef kernel_members[] = {
    {"_name", T_OBJECT, offsetof(kernel, name), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef kernel_properties[] = {
    {"_layout", get_layout, set_layout, DOC_KernelHandle__layout, NULL},
    {"_constants", get_constants, NULL, DOC_KernelHandle__constants, NULL},
    {"attributes", make_part, NULL, DOC_KernelHandle_attributes, NULL},
    {"occupancy", make_part, NULL, DOC_KernelHandle_occupancy, (void *)"occupancy"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Spec kernel_spec =
    TYPE_SPEC("cudacore_handles.Kernel", kernel, SLOT(tp_doc, DOC_KernelHandle), SLOT(tp_dealloc, kernel_dealloc),
              SLOT(tp_methods, kernel_methods), SLOT(tp_members, kernel_members), SLOT(tp_getset, kernel_properties));

static void part_dealloc(PyObject *object) {
  kernel_part *self = (kernel_part *)object;
  Py_CLEAR(self->kernel);
  Py_CLEAR(self->device);
  free_object(object);
}

static PyMemberDef part_members[] = {
    {"_kernel", T_OBJECT_EX, offsetof(kernel_part, kernel), 0, NULL},
    {"_device", T_OBJECT, offsetof(kernel_part, device), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Spec part_spec = TYPE_SPEC("cudacore_handles.KernelPart", kernel_part, SLOT(tp_doc, DOC_KernelPart),
                                         SLOT(tp_dealloc, part_dealloc), SLOT(tp_members, part_members));

static PyObject *make_kernel(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("make_kernel(library, kernel)", count, 2) < 0)
    return NULL;
  PyObject *face = arguments[0], *given = arguments[1];
  const char *symbol = PyUnicode_Check(given) ? PyUnicode_AsUTF8AndSize(given, NULL) : NULL;
  CUkernel raw = symbol == NULL && !PyErr_Occurred() ? PyLong_AsVoidPtr(given) : NULL;
  cch_library *library = PyErr_Occurred() || face == Py_None ? NULL : handle_use(face);
  if (PyErr_Occurred())
    return NULL;
  cch_kernel *box = NULL;
  cch_status status;
  WITHOUT_GIL(status = symbol != NULL ? cch_kernel_get(&box, library, symbol)
                                      : cch_kernel_wrap(&box, raw, library, NULL, NULL));
  PyObject *made = status == 0 ? handle_make(st, (PyTypeObject *)st->faces.kernel, box) : failure_status(status);
  if (library != NULL)
    handle_done(face);
  return made;
}

static PyObject *occupancy_clusters(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("occupancy_clusters(kernel, config, stream, largest)", count, 4) < 0)
    return NULL;
  cch_launch_config given = ((config *)arguments[1])->config;
  given.flags &= CCH_LAUNCH_COOPERATIVE;
  cch_kernel *box = handle_use(arguments[0]);
  cch_stream *stream = box != NULL ? handle_use(arguments[2]) : NULL;
  PyObject *result = NULL;
  if (stream != NULL) {
    int found = 0;
    cch_status status;
    WITHOUT_GIL(status = cch_occupancy_clusters(&found, arguments[3] == Py_True, stream, &given, box));
    result = status == 0 ? PyLong_FromLong(found) : raise_status(st, status);
    handle_done(arguments[2]);
  }
  if (box != NULL)
    handle_done(arguments[0]);
  return result;
}

static PyMethodDef functions[] = {
    {"make_kernel", FASTCALL(make_kernel), METH_FASTCALL, DOC_make_kernel},
    {"occupancy_clusters", FASTCALL(occupancy_clusters), METH_FASTCALL, DOC_occupancy_clusters},
    {NULL, NULL, 0, NULL},
};

int add_kernel_types(PyObject *module, state *st) {
  if (add_type(module, functions, "KernelHandle", &kernel_spec, st->handle_type, &st->kernel_type) < 0)
    return -1;
  return add_type(module, NULL, "KernelPart", &part_spec, NULL, &st->kernel_part_type);
}
