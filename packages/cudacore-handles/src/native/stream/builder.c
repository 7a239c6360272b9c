/* SPDX-License-Identifier: Apache-2.0 */
/* The base class of GraphBuilder, whose objects can be passed as streams. */
#include "base/failure.h"
#include "stream/stream.h"

#include <pythread.h>

/* In the order of BuilderKind and BuilderState in _capture.py of cudacore-graph, whose members are these numbers. */
enum { PRIMARY, FORKED, CONDITIONAL_BODY };
enum { CLOSED, NOT_STARTED, CAPTURING, ENDED };

/* Returns another face of the same box, which stays open if the first one is closed; NULL with an exception. */
static PyObject *face_again(const state *st, PyObject *face) {
  void *box = handle_hold(face);
  return box != NULL ? handle_make(st, Py_TYPE(face), box) : NULL;
}

/* ---- builders ---- */

static int builder_traverse(PyObject *object, visitproc visit, void *arg) {
  const builder *self = (const builder *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->stream);
  Py_VISIT(self->own);
  Py_VISIT(self->work);
  Py_VISIT(self->capture);
  return 0;
}

static int builder_clear(PyObject *object) {
  builder *self = (builder *)object;
  Py_CLEAR(self->stream);
  Py_CLEAR(self->own);
  Py_CLEAR(self->work);
  Py_CLEAR(self->capture);
  return 0;
}

static void builder_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  builder_clear(object);
  free_object(object);
}

static bool is_in(const builder *self, size_t state) { return shared_get(&self->state) == state; }

static bool is_per_thread(const PyObject *stream) { return ((const handle *)stream)->raw == CCH_STREAM_PER_THREAD; }

/* Begins to take work. With the per-thread default stream, each use asks _accept_work(), which checks the thread. */
static void take_work(builder *self) {
  PyObject *stream = is_per_thread(self->own) ? NULL : Py_NewRef(self->work);
  Py_XDECREF(field_swap(self, &self->stream, stream));
  shared_set(&self->state, CAPTURING);
}

static void take_no_work(builder *self) {
  PyObject *work = field_swap(self, &self->work, NULL);
  Py_XDECREF(field_swap(self, &self->stream, NULL));
  if (work != NULL)
    handle_close((handle *)work);
  Py_XDECREF(work);
}

/* Makes a builder of a stream. A fork gets the capture that it belongs to; a body gets a new capture. */
static PyObject *builder_make(const state *st, PyObject *stream, int kind, PyObject *capture) {
  builder *self = new_object((PyTypeObject *)st->faces.builder);
  if (self == NULL)
    return NULL;
  self->st = st;
  self->kind = kind;
  self->capture = capture != Py_None ? Py_NewRef(capture) : NULL;
  self->own = face_again(st, stream);
  self->work = self->own != NULL ? face_again(st, stream) : NULL;
  if (self->work == NULL) {
    Py_DECREF(self);
    return NULL;
  }
  shared_set(&self->state, NOT_STARTED);
  if (kind == FORKED)
    take_work(self);
  return (PyObject *)self;
}

static PyObject *make_builder(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (count != 1 && check_argument_count("make_builder(stream, kind, capture)", count, 3) < 0)
    return NULL;
  const long kind = count == 3 ? PyLong_AsLong(arguments[1]) : PRIMARY;
  if (PyErr_Occurred())
    return NULL;
  if (!is_stream(st, arguments[0]))
    return PyErr_Format(PyExc_TypeError, "make_builder() needs a Stream");
  if (st->faces.builder == NULL) { /* cudacore-graph connects the class when it is imported */
    PyObject *package = PyObject_CallNoArgs(st->faces.graph_package);
    if (package == NULL)
      return NULL;
    Py_DECREF(package);
  }
  return builder_make(st, arguments[0], (int)kind, count == 3 ? arguments[2] : Py_None);
}

/*
 * Takes the stream of a builder, which is closed for all others until give_alone(): a new reference. NULL without an
 * exception if that is not possible.
 */
static handle *take_alone(builder *self) {
  PyObject *work = field_get(self, &self->work);
  if (work != NULL && use_take(&((handle *)work)->uses))
    return (handle *)work;
  Py_XDECREF(work);
  return NULL;
}

static void give_alone(handle *work) {
  if (!use_give(&work->uses))
    handle_unref(work);
  Py_DECREF(work);
}

/* Raises the exception for a call while another one uses the builder, or that its state does not allow. */
static PyObject *refuse(const builder *self, const char *method, const char *what) {
  PyObject *error = PyObject_CallMethod((PyObject *)self, method, "s", what);
  if (error != NULL)
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_XDECREF(error);
  return NULL;
}

/* Returns the capture mode of an argument; -1 with an exception on failure. */
static int mode_of(PyObject *mode) {
  static const struct {
    const char *name;
    int number;
  } modes[] = {
      {"relaxed", CCH_CAPTURE_RELAXED}, {"thread_local", CCH_CAPTURE_THREAD_LOCAL}, {"global", CCH_CAPTURE_GLOBAL}};
  if (mode == NULL)
    return CCH_CAPTURE_RELAXED;
  for (size_t i = 0; PyUnicode_Check(mode) && i < sizeof modes / sizeof *modes; i++)
    if (PyUnicode_CompareWithASCIIString(mode, modes[i].name) == 0)
      return modes[i].number;
  return raise_error(PyExc_ValueError, "mode is %R; it must be 'global', 'thread_local' or 'relaxed'", mode);
}

/* Calls the library to begin a capture: a new one, whose graph is stored, or that of a body. */
static int begin_in_library(cch_graph **graph, const capture *body, cch_stream *stream, int mode) {
  int status;
  if (body == NULL) {
    WITHOUT_GIL(status = cch_capture_begin(graph, stream, mode));
    return status;
  }
  cch_graph *own = handle_use(body->graph);
  if (own == NULL)
    return -1;
  WITHOUT_GIL(status = cch_capture_begin_to(own, stream, mode));
  handle_done(body->graph);
  return status;
}

/* Makes the capture of a graph that was just made, to which it takes over a reference. */
static capture *capture_of(const state *st, cch_graph *graph) {
  PyObject *face = handle_make(st, (PyTypeObject *)st->faces.graph, graph);
  PyObject *made = face != NULL ? capture_make((PyTypeObject *)st->faces.capture, face, NULL) : NULL;
  Py_XDECREF(face);
  return (capture *)made;
}

/* Begins the capture of a builder whose stream is taken. Returns -1 with an exception on failure. */
static int begin(builder *self, PyObject *mode, int number) {
  const state *st = self->st;
  const bool is_bound = number != CCH_CAPTURE_RELAXED || is_per_thread(self->own);
  PyObject *thread = is_bound ? PyLong_FromUnsignedLong(PyThread_get_thread_ident()) : Py_NewRef(Py_None);
  cch_stream *stream = thread != NULL ? handle_use(self->own) : NULL;
  capture *begun = (capture *)self->capture;
  cch_graph *graph = NULL;
  int status = -1;
  if (stream != NULL) {
    status = begin_in_library(&graph, begun, stream, number);
    if (status != 0 && !PyErr_Occurred()) {
      PyObject *failed = failure_status(status);
      Py_XDECREF(failed != NULL ? PyObject_CallFunctionObjArgs(st->faces.not_begun, failed, NULL) : NULL);
      Py_XDECREF(failed);
    }
    handle_done(self->own);
  }
  if (graph != NULL) {
    begun = capture_of(st, graph);
    Py_XDECREF(field_swap(self, &self->capture, (PyObject *)begun)); /* other threads read it */
  }
  if (status != 0 || begun == NULL) {
    Py_XDECREF(thread);
    return -1;
  }
  Py_XDECREF(field_swap(begun, &begun->thread, thread));
  if (mode != NULL)
    Py_XDECREF(field_swap(begun, &begun->mode, Py_NewRef(mode)));
  take_work(self);
  return 0;
}

static PyObject *begin_building(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  static const char *const names[] = {"mode"};
  static const char what[] = "begin building";
  builder *self = (builder *)object;
  PyObject *mode = NULL;
  if (sort_arguments("begin_building", names, 1, 1, arguments, count, keywords, &mode) < 0)
    return NULL;
  const int number = mode_of(mode);
  handle *work = number >= 0 ? take_alone(self) : NULL;
  if (work == NULL)
    return number >= 0 ? refuse(self, "_refusal", what) : NULL;
  const bool is_allowed = is_in(self, NOT_STARTED);
  const bool begun = is_allowed && begin(self, mode, number) == 0;
  give_alone(work);
  if (!is_allowed)
    return refuse(self, "_illegal", what);
  return begun ? Py_NewRef(object) : NULL;
}

/* Whether nothing has to be checked or joined before a capture ends. */
static bool is_simple(const capture *self) {
  return self->thread == Py_None && PyDict_Size(self->unjoined) == 0 && PyList_Size(self->waiting) == 0;
}

static void has_ended(builder *self) {
  shared_set(&self->state, ENDED);
  take_no_work(self);
}

static PyObject *set_ended(PyObject *object, PyObject *nothing) {
  (void)nothing;
  has_ended((builder *)object);
  Py_RETURN_NONE;
}

static PyObject *end_building(PyObject *object, PyObject *nothing) {
  builder *self = (builder *)object;
  (void)nothing;
  PyObject *given = field_get(self, &self->capture);
  handle *work = NULL;
  PyObject *result = NULL;
  if (given != NULL && self->kind != FORKED)
    work = take_alone(self); /* before is_simple(), because another thread could split it meanwhile */
  if (work != NULL && is_in(self, CAPTURING) && is_simple((capture *)given)) {
    PyObject *face = ((capture *)given)->graph;
    cch_graph *graph = handle_use(face);
    cch_stream *stream = graph != NULL ? handle_use(self->own) : NULL;
    int status = -1;
    if (stream != NULL) {
      WITHOUT_GIL(status = cch_capture_end(graph, stream));
      result = failure_status(status);
      handle_done(self->own);
    }
    if (graph != NULL)
      handle_done(face);
    if (status == 0)
      has_ended(self);
    give_alone(work);
    PyObject *failed = result;
    if (failed != NULL)
      result = status == 0 ? Py_NewRef(object) : PyObject_CallMethod(object, "_end", "O", failed);
    Py_XDECREF(failed);
  } else {
    if (work != NULL)
      give_alone(work);
    result = PyObject_CallMethod(object, "_end", NULL); /* checks more, joins, and explains */
  }
  Py_XDECREF(given);
  return result;
}

/* Closes a builder whose stream is taken, or that another thread cannot use. Returns -1 with an exception. */
static int close_builder(builder *self) {
  const size_t before = shared_get(&self->state);
  shared_set(&self->state, CLOSED);
  if (before == CLOSED)
    return 0;
  take_no_work(self);
  PyObject *own = field_swap(self, &self->own, NULL), *given = field_swap(self, &self->capture, NULL);
  PyObject *closed = Py_None;
  if (before == CAPTURING && self->kind != FORKED && own != NULL && given != NULL) {
    closed = PyObject_CallMethod(given, "close", "O", own);
    Py_XDECREF(closed);
  }
  Py_XDECREF(own);
  Py_XDECREF(given);
  return closed != NULL ? 0 : -1;
}

static PyObject *close_now(PyObject *object, PyObject *nothing) {
  (void)nothing;
  return close_builder((builder *)object) == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *close_method(PyObject *object, PyObject *nothing) {
  builder *self = (builder *)object;
  if (!is_in(self, NOT_STARTED) && !is_in(self, CAPTURING))
    return close_now(object, nothing);
  handle *work = take_alone(self);
  if (work == NULL)
    return refuse(self, "_refusal", "close");
  PyObject *result = close_now(object, nothing);
  give_alone(work);
  return result;
}

/* Nothing but a prepared launch can be using the builder. */
static void builder_finalize(PyObject *object) {
  if (!is_in((builder *)object, CAPTURING))
    return;
  KEEPING_EXCEPTION({
    PyObject *closed = PyObject_CallMethod(object, "_dropped", NULL);
    if (closed == NULL)
      PyErr_WriteUnraisable(object);
    Py_XDECREF(closed);
  });
}

/* ---- properties ---- */

/* Whether the graph was lost because the capture of another builder of this graph failed. */
static bool is_lost(builder *self) {
  PyObject *given = is_in(self, CAPTURING) ? field_get(self, &self->capture) : NULL;
  if (given == NULL)
    return false;
  PyObject *graph = ((capture *)given)->graph;
  const void *box = handle_try_use(graph);
  const bool valid = box != NULL && cch_is_valid(box);
  if (box != NULL)
    handle_done(graph);
  Py_DECREF(given);
  return !valid;
}

static PyObject *get_is_lost(PyObject *object, void *closure) {
  (void)closure;
  return PyBool_FromLong(is_lost((builder *)object));
}

static PyObject *is_building(PyObject *object, void *closure) {
  builder *self = (builder *)object;
  (void)closure;
  return PyBool_FromLong(is_in(self, CAPTURING) && !is_lost(self));
}

static PyObject *get_state(PyObject *object, void *closure) {
  (void)closure;
  return PyLong_FromSize_t(shared_get(&((builder *)object)->state));
}

static PyObject *is_closed(PyObject *object, void *closure) {
  (void)closure;
  return PyBool_FromLong(is_in((builder *)object, CLOSED));
}

static PyObject *is_join_required(PyObject *object, void *closure) {
  (void)closure;
  return PyBool_FromLong(((builder *)object)->kind == FORKED);
}

static PyObject *get_stream(PyObject *object, void *closure) {
  builder *self = (builder *)object;
  (void)closure;
  PyObject *own = field_get(self, &self->own);
  if (own == NULL)
    return refuse(self, "_closed", "");
  PyObject *again = face_again(self->st, own);
  Py_DECREF(own);
  return again;
}

static PyObject *graph_definition(PyObject *object, void *closure) {
  builder *self = (builder *)object;
  (void)closure;
  PyObject *given = field_get(self, &self->capture);
  const bool ready = is_in(self, ENDED) || (is_in(self, NOT_STARTED) && self->kind == CONDITIONAL_BODY);
  PyObject *graph = NULL;
  if (ready && self->kind != FORKED && given != NULL)
    graph = face_again(self->st, ((capture *)given)->graph);
  else
    refuse(self, "_illegal", "give the graph's definition");
  Py_XDECREF(given);
  return graph;
}

static PyGetSetDef builder_properties[] = {
    {"stream", get_stream, NULL, DOC_Builder_stream, NULL},
    {"is_closed", is_closed, NULL, DOC_Builder_is_closed, NULL},
    {"is_building", is_building, NULL, DOC_Builder_is_building, NULL},
    {"is_join_required", is_join_required, NULL, DOC_Builder_is_join_required, NULL},
    {"graph_definition", graph_definition, NULL, DOC_Builder_graph_definition, NULL},
    {"_is_lost", get_is_lost, NULL, DOC_Builder__is_lost, NULL},
    {"_state", get_state, NULL, DOC_Builder__state, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef builder_members[] = {
    {"_stream", T_OBJECT, offsetof(builder, stream), READONLY, NULL},
    {"_own", T_OBJECT, offsetof(builder, own), READONLY, NULL},
    {"_work", T_OBJECT, offsetof(builder, work), READONLY, NULL},
    {"_capture", T_OBJECT, offsetof(builder, capture), READONLY, NULL},
    {"_kind", T_INT, offsetof(builder, kind), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef builder_methods[] = {
    {"begin_building", FASTCALL(begin_building), METH_FASTCALL | METH_KEYWORDS, DOC_Builder_begin_building},
    {"end_building", end_building, METH_NOARGS, DOC_Builder_end_building},
    {"close", close_method, METH_NOARGS, DOC_Builder_close},
    {"_close", close_now, METH_NOARGS, DOC_Builder__close},
    {"_ended", set_ended, METH_NOARGS, DOC_Builder__ended},
    {NULL, NULL, 0, NULL},
};

static PyType_Spec builder_spec = GC_TYPE_SPEC(
    "cudacore_graph.GraphBuilder", builder, SLOT(tp_doc, DOC_Builder), SLOT(tp_dealloc, builder_dealloc),
    SLOT(tp_traverse, builder_traverse), SLOT(tp_clear, builder_clear), SLOT(tp_finalize, builder_finalize),
    SLOT(tp_members, builder_members), SLOT(tp_methods, builder_methods), SLOT(tp_getset, builder_properties));

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

static PyObject *take(PyObject *module, PyObject *builders) {
  const state *st = PyModule_GetState(module);
  const Py_ssize_t count = PyTuple_Size(builders);
  taken *self = new_object(st->taken_type);
  if (self == NULL || (self->streams = PyTuple_New(count)) == NULL) {
    Py_XDECREF(self);
    return NULL;
  }
  for (; self->count < count; self->count++) {
    PyObject *one = PyTuple_GetItem(builders, self->count);
    handle *work = PyType_IsSubtype(Py_TYPE(one), st->builder_type) ? take_alone((builder *)one) : NULL;
    if (work == NULL) {
      Py_DECREF(self);
      Py_RETURN_NONE;
    }
    PyTuple_SetItem(self->streams, self->count, (PyObject *)work);
  }
  return (PyObject *)self;
}

static PyMethodDef functions[] = {
    {"make_builder", FASTCALL(make_builder), METH_FASTCALL, DOC_make_builder},
    {"take", take, METH_O, DOC_take},
    {NULL, NULL, 0, NULL},
};

int add_builder_type(PyObject *module, state *st) {
  if (add_type(module, functions, "Taken", &taken_spec, NULL, &st->taken_type) < 0)
    return -1;
  return add_type(module, NULL, "Builder", &builder_spec, NULL, &st->builder_type);
}
