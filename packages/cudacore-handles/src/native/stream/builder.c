/* SPDX-License-Identifier: Apache-2.0 */
/* The base class of GraphBuilder, whose objects can be passed as streams. */
#include "stream/stream.h"

static int builder_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(((builder *)object)->stream);
  return 0;
}

static int builder_clear(PyObject *object) {
  Py_CLEAR(((builder *)object)->stream);
  return 0;
}

static void builder_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  builder_clear(object);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static PyMemberDef builder_members[] = {
    {"_stream", T_OBJECT, offsetof(builder, stream), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot builder_slots[] = {
    {Py_tp_doc, DOC_Builder},
    {Py_tp_dealloc, (void *)builder_dealloc},
    {Py_tp_traverse, (void *)builder_traverse},
    {Py_tp_clear, (void *)builder_clear},
    {Py_tp_members, builder_members},
    {0, NULL},
};

static PyType_Spec builder_spec = {
    .name = "cudacore_graph.GraphBuilder",
    .basicsize = sizeof(builder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = builder_slots,
};

int add_builder_type(PyObject *module, state *st) {
  st->builder_type = add_type(module, "Builder", &builder_spec, NULL);
  return st->builder_type != NULL ? 0 : -1;
}
