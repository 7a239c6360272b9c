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
  PyObject_GC_UnTrack(object);
  builder_clear(object);
  free_object(object);
}

static PyMemberDef builder_members[] = {
    {"_stream", T_OBJECT, offsetof(builder, stream), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Spec builder_spec =
    GC_TYPE_SPEC("cudacore_graph.GraphBuilder", builder, SLOT(tp_doc, DOC_Builder), SLOT(tp_dealloc, builder_dealloc),
                 SLOT(tp_traverse, builder_traverse), SLOT(tp_clear, builder_clear), SLOT(tp_members, builder_members));

int add_builder_type(PyObject *module, state *st) {
  return add_type(module, NULL, "Builder", &builder_spec, NULL, &st->builder_type);
}
