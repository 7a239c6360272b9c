/* SPDX-License-Identifier: Apache-2.0 */
/* The hot half of GraphBuilder, and what captured work keeps alive. */
#include "native.h"

/* Keeps a box, or an object where there is none, as long as a graph. Returns a status of the library. */
static int keep(const state *st, cch_graph *graph, void *box, PyObject *object) {
  if (box != NULL)
    return cch_capture_keep(graph, box, NULL);
  if (object == NULL)
    return 0;
  owner *kept = owner_make(st, object, false);
  if (kept == NULL) {
    PyErr_Clear();
    return CCH_ENOMEM;
  }
  int status = cch_capture_keep(graph, kept, owner_release);
  if (status != 0)
    owner_discard(kept);
  return status;
}

int capture_keep(const state *st, cch_stream *stream, owners *used, void *more) {
  cch_graph *graph;
  int status = cch_capture_graph(&graph, stream);
  if (status != 0) {
    raise_status(st, status);
    return -1;
  }
  if (graph == NULL)
    return 0;
  status = more != NULL ? keep(st, graph, more, NULL) : 0;
  for (Py_ssize_t i = 0; status == 0 && used != NULL && i < used->count; i++) {
    const owned *item = &owners_items(used)[i];
    status = keep(st, graph, owned_box(item), item->object);
  }
  if (status != 0)
    raise_status(st, status);
  box_let_go(graph);
  return status == 0 ? 0 : -1;
}

/* ---- the type ---- */

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
    {Py_tp_doc, "Stand for a stream, wherever one is taken."},
    {Py_tp_dealloc, (void *)builder_dealloc},
    {Py_tp_traverse, (void *)builder_traverse},
    {Py_tp_clear, (void *)builder_clear},
    {Py_tp_members, builder_members},
    {0, NULL},
};

static PyType_Spec builder_spec = {
    .name = "cudacore_handles._native.Builder",
    .basicsize = sizeof(builder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = builder_slots,
};

int add_builder_type(PyObject *module, state *st) {
  st->builder_type = add_type(module, &builder_spec, NULL);
  return st->builder_type != NULL ? 0 : -1;
}
