/* SPDX-License-Identifier: Apache-2.0 */
/* The hot half of GraphBuilder; and what captured work keeps. */
#include "base/native.h"

#include <stdlib.h>

/* ---- what captured work keeps ---- */

/* A bundle of the objects that have no box, NULL for none; -1 with an exception. */
static int bundle_objects(const state *st, const owned *items, Py_ssize_t count, cch_bundle **out) {
  int status = cch_bundle_create(out, 0);
  for (Py_ssize_t i = 0; status == 0 && i < count; i++)
    if (items[i].box == NULL && items[i].object != NULL) {
      owner *kept = owner_make(st, items[i].object, false);
      if (kept == NULL)
        return -1;
      status = cch_bundle_add_object(*out, kept, owner_release);
      if (status != 0)
        owner_discard(kept);
    }
  if (status != 0)
    raise_status(st, status);
  return status != 0 ? -1 : 0;
}

int capture_keep(const state *st, cch_stream *stream, void *box, owners *used, PyThreadState **thread, bool *raised) {
  const owned *items = owners_items(used);
  void *few[OWNERS_INLINE + 2], **boxes = few;
  size_t count = 0;
  cch_bundle *objects = NULL;
  bool has_objects = false;
  if (used->count > OWNERS_INLINE && (boxes = malloc(((size_t)used->count + 2) * sizeof *boxes)) == NULL) {
    PyEval_RestoreThread(*thread);
    PyErr_NoMemory();
    *thread = PyEval_SaveThread();
    *raised = true;
    return -1;
  }
  boxes[count++] = box;
  for (Py_ssize_t i = 0; i < used->count; i++)
    if (items[i].box != NULL)
      boxes[count++] = items[i].box;
    else
      has_objects |= items[i].object != NULL; /* else nothing, in its place: see read_memory() */
  if (has_objects) {
    PyEval_RestoreThread(*thread);
    *raised = bundle_objects(st, items, used->count, &objects) < 0;
    *thread = PyEval_SaveThread();
    boxes[count++] = objects;
  }
  int status = *raised ? -1 : cch_capture_keep_all(stream, boxes, count);
  cch_unref(objects);
  if (boxes != few)
    free(boxes);
  return status;
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
    .name = "cudacore_graph.GraphBuilder",
    .basicsize = sizeof(builder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = builder_slots,
};

int add_builder_type(PyObject *module, state *st) {
  st->builder_type = add_type(module, "Builder", &builder_spec, NULL);
  return st->builder_type != NULL ? 0 : -1;
}
