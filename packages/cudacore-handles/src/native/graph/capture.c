/* SPDX-License-Identifier: Apache-2.0 */
/* The hot half of GraphBuilder; and how work is given to a stream, whose graph keeps what captured work uses. */
#include "base/native.h"

/* ---- giving work to a stream ---- */

/* The boxes that a graph is to keep: those of faces, and a bundle of the objects that have none. */
typedef struct kept_boxes {
  void **boxes;
  size_t count;
  cch_bundle *objects; /* a reference; NULL for none */
} kept_boxes;

static int add_object(const state *st, cch_bundle *bundle, PyObject *object) {
  owner *kept = owner_make(st, object, false);
  if (kept == NULL)
    return -1;
  int status = cch_bundle_add_object(bundle, kept, owner_release);
  if (status != 0) {
    owner_discard(kept);
    raise_status(st, status);
  }
  return status == 0 ? 0 : -1;
}

static int find_boxes(const state *st, owners *used, void *box, kept_boxes *out) {
  if (box != NULL)
    out->boxes[out->count++] = box;
  for (Py_ssize_t i = 0; i < used->count; i++) {
    const owned *item = &owners_items(used)[i];
    void *of_item = owned_box(item);
    if (of_item != NULL) {
      out->boxes[out->count++] = of_item;
      continue;
    }
    if (item->object == NULL) /* nothing, in its place: see read_memory() */
      continue;
    if (out->objects == NULL) {
      int status = cch_bundle_create(&out->objects, 0);
      if (status != 0) {
        raise_status(st, status);
        return -1;
      }
      out->boxes[out->count++] = out->objects;
    }
    if (add_object(st, out->objects, item->object) < 0)
      return -1;
  }
  return 0;
}

/* Has the graph that the stream is being captured into keep what the work uses; -1 with an exception. */
static int keep_captured(const state *st, cch_stream *stream, owners *used, void *box) {
  kept_boxes kept = {.boxes = PyMem_Malloc(((size_t)used->count + 2) * sizeof *kept.boxes)};
  if (kept.boxes == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  int found = find_boxes(st, used, box, &kept), status = 0;
  if (found == 0) {
    Py_BEGIN_ALLOW_THREADS;
    status = cch_capture_keep_all(stream, kept.boxes, kept.count);
    Py_END_ALLOW_THREADS;
    if (status != 0)
      raise_status(st, status);
  }
  PyMem_Free(kept.boxes);
  box_let_go(kept.objects);
  return found == 0 && status == 0 ? 0 : -1;
}

int give_work(const state *st, cch_stream *stream, owners *used, void *box, work_fn work, void *arguments,
              int *status) {
  int captured = 0;
  Py_BEGIN_ALLOW_THREADS;
  *status = cch_capture_is_active(&captured, stream);
  if (*status == 0 && !captured)
    *status = work(arguments);
  Py_END_ALLOW_THREADS;
  if (*status != 0 || !captured)
    return 0;
  if (keep_captured(st, stream, used, box) < 0)
    return -1;
  Py_BEGIN_ALLOW_THREADS;
  *status = work(arguments);
  Py_END_ALLOW_THREADS;
  return 0;
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
