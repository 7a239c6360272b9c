/* SPDX-License-Identifier: Apache-2.0 */
/* The base class of the captures that builders share, and the forks of captures. */
#include "base/failure.h"
#include "stream/stream.h"

static int capture_traverse(PyObject *object, visitproc visit, void *arg) {
  const capture *self = (const capture *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->graph);
  Py_VISIT(self->mode);
  Py_VISIT(self->unjoined);
  Py_VISIT(self->failures);
  Py_VISIT(self->waiting);
  return 0;
}

static int capture_clear(PyObject *object) {
  capture *self = (capture *)object;
  Py_CLEAR(self->graph);
  Py_CLEAR(self->mode);
  Py_CLEAR(self->thread);
  Py_CLEAR(self->unjoined);
  Py_CLEAR(self->failures);
  Py_CLEAR(self->waiting);
  return 0;
}

static void capture_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  capture_clear(object);
  free_object(object);
}

PyObject *capture_make(PyTypeObject *type, PyObject *graph, const capture *outer) {
  capture *self = new_object(type);
  if (self == NULL)
    return NULL;
  self->graph = Py_NewRef(graph);
  self->mode = PyUnicode_InternFromString("relaxed");
  self->thread = Py_NewRef(Py_None);
  self->unjoined = PyDict_New();
  self->failures = outer != NULL ? Py_NewRef(outer->failures) : PyList_New(0);
  self->waiting = outer != NULL ? Py_NewRef(outer->waiting) : PyList_New(0);
  self->is_body = outer != NULL;
  if (self->mode == NULL || self->unjoined == NULL || self->failures == NULL || self->waiting == NULL)
    Py_CLEAR(self);
  return (PyObject *)self;
}

static PyObject *capture_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  const state *st = state_of_type(type);
  PyObject *graph, *outer = NULL;
  (void)keywords;
  if (!PyArg_ParseTuple(arguments, "O!|O!", st->graph_type, &graph, st->capture_type, &outer))
    return NULL;
  return capture_make(type, graph, (const capture *)outer);
}

static PyMemberDef capture_members[] = {
    {"graph", T_OBJECT, offsetof(capture, graph), READONLY, NULL},
    {"mode", T_OBJECT, offsetof(capture, mode), READONLY, NULL},
    {"thread", T_OBJECT, offsetof(capture, thread), READONLY, NULL},
    {"unjoined", T_OBJECT, offsetof(capture, unjoined), READONLY, NULL},
    {"failures", T_OBJECT, offsetof(capture, failures), READONLY, NULL},
    {"waiting", T_OBJECT, offsetof(capture, waiting), READONLY, NULL},
    {"is_body", T_BOOL, offsetof(capture, is_body), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Spec capture_spec =
    GC_TYPE_SPEC("cudacore_graph.Capture", capture, SLOT(tp_doc, DOC_CaptureBase), SLOT(tp_new, capture_new),
                 SLOT(tp_dealloc, capture_dealloc), SLOT(tp_traverse, capture_traverse), SLOT(tp_clear, capture_clear),
                 SLOT(tp_members, capture_members));

/* ---- forks ---- */

static PyObject *gather_capture(PyObject *module, PyObject *face) {
  cch_stream *stream = handle_use(face);
  if (stream == NULL)
    return NULL;
  int status;
  WITHOUT_GIL(status = cch_capture_gather(stream));
  handle_done(face);
  return status == 0 ? Py_NewRef(Py_None) : raise_status(PyModule_GetState(module), status);
}

static PyObject *join_capture(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  enum { FACES = 3 };
  (void)module;
  if (check_argument_count("join_capture(graph, stream, into)", count, FACES) < 0)
    return NULL;
  void *boxes[FACES];
  Py_ssize_t used = 0;
  while (used < FACES && (boxes[used] = handle_use(arguments[used])) != NULL)
    used++;
  PyObject *result = NULL;
  if (used == FACES) {
    int status;
    WITHOUT_GIL(status = cch_capture_join(boxes[0], boxes[1], boxes[2]));
    result = failure_status(status);
  }
  while (used-- > 0)
    handle_done(arguments[used]);
  return result;
}

static PyMethodDef functions[] = {
    {"gather_capture", gather_capture, METH_O, DOC_gather_capture},
    {"join_capture", FASTCALL(join_capture), METH_FASTCALL, DOC_join_capture},
    {NULL, NULL, 0, NULL},
};

int add_capture_type(PyObject *module, state *st) {
  return add_type(module, functions, "CaptureBase", &capture_spec, NULL, &st->capture_type);
}
