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

/* ---- streams that one thread has for itself ---- */

/*
 * The streams of builders, which are closed for all others. They are opened again, unless they were closed meanwhile,
 * at the end of a block or, if a KeyboardInterrupt comes before that, when this object is destroyed.
 */
typedef struct taken {
  PyObject_HEAD PyObject *streams; /* a tuple; NULL at the end */
  Py_ssize_t count;                /* how many of them are taken */
} taken;

static void give(taken *self) {
  PyObject *streams = self->streams;
  self->streams = NULL;
  for (Py_ssize_t i = 0; i < self->count; i++) {
    handle *stream = (handle *)PyTuple_GetItem(streams, i);
    if (!use_give(&stream->uses))
      handle_unref(stream);
  }
  Py_XDECREF(streams);
}

static PyObject *taken_enter(PyObject *self, PyObject *nothing) {
  (void)self;
  (void)nothing;
  Py_RETURN_NONE;
}

static PyObject *taken_exit(PyObject *self, PyObject *exception) {
  (void)exception;
  give((taken *)self);
  ((taken *)self)->count = 0;
  Py_RETURN_NONE;
}

static void taken_dealloc(PyObject *self) {
  give((taken *)self);
  free_object(self);
}

static PyMethodDef taken_methods[] = {
    {"__enter__", taken_enter, METH_NOARGS, NULL},
    {"__exit__", taken_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Spec taken_spec = TYPE_SPEC("cudacore_handles.Taken", taken, SLOT(tp_doc, DOC_Taken),
                                          SLOT(tp_dealloc, taken_dealloc), SLOT(tp_methods, taken_methods));

static PyObject *take(PyObject *module, PyObject *streams) {
  const state *st = PyModule_GetState(module);
  taken *self = new_object(st->taken_type);
  if (self == NULL)
    return NULL;
  self->streams = Py_NewRef(streams);
  for (Py_ssize_t count = PyTuple_Size(streams); self->count < count; self->count++) {
    PyObject *stream = PyTuple_GetItem(streams, self->count);
    if (!is_stream(st, stream) || !use_take(&((handle *)stream)->uses)) {
      Py_DECREF(self);
      Py_RETURN_NONE;
    }
  }
  return (PyObject *)self;
}

static PyMethodDef functions[] = {
    {"take", take, METH_O, DOC_take},
    {NULL, NULL, 0, NULL},
};

int add_builder_type(PyObject *module, state *st) {
  if (add_type(module, functions, "Taken", &taken_spec, NULL, &st->taken_type) < 0)
    return -1;
  return add_type(module, NULL, "Builder", &builder_spec, NULL, &st->builder_type);
}
