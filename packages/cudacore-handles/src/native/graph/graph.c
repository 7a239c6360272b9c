/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the frequent operations of GraphDefinition, GraphCondition and Graph, and the locks of graphs. */
#include "base/failure.h"
#include "graph/graph.h"

#include <cuda.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- locks: a few for all hierarchies, chosen by the root ---- */

enum { STRIPES = 16 /* at most 32, because a graph_lock has a bit for each */ };

/*
 * Locks of the process, because interpreters can share a box. They are recursive: an allocation under a lock can start
 * a garbage collection, which can end a capture.
 */
static struct stripe {
  pthread_mutex_t lock;
  atomic_ulong owner; /* the thread that holds the lock; 0 if none does */
  unsigned depth;     /* how many times that thread holds it */
} stripes[STRIPES];
static atomic_bool
    forked; /* after a fork, locks held by other threads stay locked; but the child makes no CUDA calls */

static void in_forked_child(void) { atomic_store(&forked, true); }

/*
 * Returns whether the library refuses all work on graphs: in a forked child, and on a thread that runs a host function.
 * Then locks must not be taken: the thread that holds one may no longer exist, or may wait for the host function.
 */
static bool needs_no_lock(void) { return atomic_load_explicit(&forked, memory_order_relaxed) || cch_callback_active(); }

static void make_stripes(void) {
  for (int i = 0; i < STRIPES; i++)
    pthread_mutex_init(&stripes[i].lock, NULL);
  pthread_atfork(NULL, NULL, in_forked_child);
}

static int stripe_of(const cch_graph *graph) {
  for (const cch_graph *parent = cch_graph_parent(graph); parent != NULL; parent = cch_graph_parent(parent))
    graph = parent;
  return (int)(((uintptr_t)graph * UINT64_C(0x9E3779B97F4A7C15) >> 32) % STRIPES);
}

static void take(pthread_mutex_t *lock) {
  if (pthread_mutex_trylock(lock) == 0)
    return;
  WITHOUT_GIL(pthread_mutex_lock(lock));
}

static void take_stripe(int number) {
  struct stripe *self = &stripes[number];
  const unsigned long thread = PyThread_get_thread_ident();
  if (atomic_load_explicit(&self->owner, memory_order_relaxed) != thread) {
    take(&self->lock);
    atomic_store_explicit(&self->owner, thread, memory_order_relaxed);
  }
  self->depth++;
}

static void give_stripe(int number) {
  struct stripe *self = &stripes[number];
  if (--self->depth != 0)
    return;
  atomic_store_explicit(&self->owner, 0, memory_order_relaxed);
  pthread_mutex_unlock(&self->lock);
}

void graph_lock_add(graph_lock *lock, const cch_graph *graph) { lock->stripes |= UINT32_C(1) << stripe_of(graph); }

void graph_lock_take_added(graph_lock *lock) {
  if (needs_no_lock())
    lock->stripes = 0;
  for (uint32_t left = lock->stripes; left != 0; left &= left - 1) /* locks are always taken in the same order */
    take_stripe(__builtin_ctz(left));
}

graph_lock graph_lock_take(const cch_graph *graph, const cch_graph *other) {
  graph_lock lock = {0};
  graph_lock_add(&lock, graph);
  if (other != NULL)
    graph_lock_add(&lock, other);
  graph_lock_take_added(&lock);
  return lock;
}

void graph_lock_give(graph_lock lock) {
  for (uint32_t left = lock.stripes; left != 0; left &= left - 1)
    give_stripe(__builtin_ctz(left));
}

/* Returns the graph of a definition or a node, as a new reference; NULL with an exception on failure. */
static cch_graph *hold_graph(const state *st, PyObject *face) {
  if (!PyType_IsSubtype(Py_TYPE(face), st->graph_type) && !PyType_IsSubtype(Py_TYPE(face), st->node_type)) {
    raise_about(PyExc_TypeError, "a GraphDefinition or a GraphNode is needed, not '%U'", face, 0, 0);
    return NULL;
  }
  void *box = handle_hold(face);
  if (box == NULL || cch_kind_of(box) == CCH_KIND_GRAPH)
    return box;
  cch_graph *graph = cch_graph_ref(cch_graph_node_graph(box));
  box_let_go(box);
  return graph;
}

static PyObject *locked_call(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (count < 3)
    return PyErr_Format(PyExc_TypeError, "locked_call(graph, other, function, ...) takes 3 arguments, not %zd", count);
  cch_graph *graph = hold_graph(st, arguments[0]), *other = NULL;
  if (graph != NULL && arguments[1] != Py_None && (other = hold_graph(st, arguments[1])) == NULL) {
    box_let_go(graph);
    return NULL;
  }
  PyObject *given = graph != NULL ? PyTuple_New(count - 3) : NULL, *result = NULL;
  for (Py_ssize_t i = 3; given != NULL && i < count; i++)
    PyTuple_SetItem(given, i - 3, Py_NewRef(arguments[i]));
  if (given != NULL) {
    graph_lock lock = graph_lock_take(graph, other);
    result = PyObject_CallObject(arguments[2], given);
    graph_lock_give(lock);
  }
  KEEPING_EXCEPTION(Py_XDECREF(given); box_let_go(other); box_let_go(graph));
  return result;
}

/*
 * Finds the nodes of a copy that correspond to those of a graph. After a failure, the caller releases the boxes made so
 * far.
 */
static int find_clones(cch_graph_node **out, const cch_node_list *list, cch_graph *copy) {
  int status = 0;
  for (size_t i = 0; status == 0 && i < list->count; i++)
    status = cch_graph_find_in_clone(&out[i], list->nodes[i], copy);
  return status;
}

static PyObject *clone_graph(PyObject *module, PyObject *face) {
  state *st = PyModule_GetState(module);
  cch_graph *graph = graph_use(st, face, "a GraphDefinition is needed, not '%U'"), *copy = NULL;
  if (graph == NULL)
    return NULL;
  cch_node_list list = {0};
  cch_graph_node **found = NULL;
  const char *what = "clone";
  bool no_memory = false;
  int status;
  /* Both lists are made under one lock, so that they match, whatever other threads do. */
  graph_lock lock = graph_lock_take(graph, NULL);
  Py_BEGIN_ALLOW_THREADS;
  status = cch_graph_clone(&copy, graph);
  if (status == 0) {
    what = "find in a clone";
    status = cch_graph_nodes(&list, graph);
  }
  if (status == 0) {
    found = calloc(list.count + 1, sizeof *found);
    no_memory = found == NULL;
    if (!no_memory)
      status = find_clones(found, &list, copy);
  }
  Py_END_ALLOW_THREADS;
  graph_lock_give(lock);
  handle_done(face);
  PyObject *pairs = NULL;
  if (status != 0)
    raise_failed(st, status, what, NO_PLACE);
  else if (no_memory)
    PyErr_NoMemory();
  else
    pairs = PyDict_New();
  for (size_t i = 0; i < list.count; i++) {
    cch_graph_node *node = list.nodes[i], *twin = found != NULL ? found[i] : NULL;
    list.nodes[i] = NULL;
    if (pairs == NULL) {
      box_let_go(node);
      box_let_go(twin);
      continue;
    }
    PyObject *key = node_face(st, node, -1), *value = node_face(st, twin, -1);
    if (key == NULL || value == NULL || PyDict_SetItem(pairs, key, value) < 0)
      Py_CLEAR(pairs);
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  free(found);
  cch_node_list_free(&list);
  if (pairs == NULL) {
    KEEPING_EXCEPTION(box_let_go(copy));
    return NULL;
  }
  PyObject *twin = handle_make(st, Py_TYPE(face), copy);
  return twin != NULL ? Py_BuildValue("NN", twin, pairs) : (Py_DECREF(pairs), NULL);
}

/* ---- frequent operations of GraphDefinition ---- */

/* When CUDA destroys a graph, another one can get its handle. So graphs are compared by their boxes. */
static PyObject *graph_compare(PyObject *a, PyObject *b, int operation) {
  const handle *self = (const handle *)a, *other = (const handle *)b;
  if ((operation != Py_EQ && operation != Py_NE) || self->st == NULL ||
      !PyType_IsSubtype(Py_TYPE(b), self->st->graph_type))
    Py_RETURN_NOTIMPLEMENTED;
  int equal = a == b || (self->box != NULL && self->box == other->box);
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_hash_t graph_hash(PyObject *object) {
  const handle *self = (const handle *)object;
  return (Py_hash_t)(self->raw >> 4);
}

static PyObject *is_valid(PyObject *object, void *closure) {
  (void)closure;
  const handle *self = (const handle *)object;
  return PyBool_FromLong(self->box != NULL && cch_is_valid(self->box));
}

static PyGetSetDef graph_properties[] = {
    {"is_valid", is_valid, NULL, DOC_GraphHandle_is_valid, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Spec graph_spec =
    TYPE_SPEC("cudacore_graph.GraphDefinition", handle, SLOT(tp_doc, DOC_GraphHandle), SLOT(tp_dealloc, handle_dealloc),
              SLOT(tp_richcompare, graph_compare), SLOT(tp_hash, graph_hash), SLOT(tp_methods, graph_adders),
              SLOT(tp_getset, graph_properties));

/* ---- frequent operations of GraphCondition ---- */

static PyObject *condition_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"graph", "handle", NULL};
  const state *st = state_of_type(type);
  PyObject *graph;
  unsigned long long number;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!K:GraphCondition", names, st->graph_type, &graph, &number))
    return NULL;
  void *box = handle_hold(graph); /* the condition has its own face of the graph, which only the condition can close */
  PyObject *own = box != NULL ? handle_make(st, (PyTypeObject *)st->faces.graph, box) : NULL;
  if (own == NULL)
    return NULL;
  condition *self = new_object(type);
  if (self == NULL) {
    Py_DECREF(own);
    return NULL;
  }
  self->graph = own;
  self->handle = number;
  return (PyObject *)self;
}

static void condition_dealloc(PyObject *object) {
  condition *self = (condition *)object;
  Py_XDECREF(self->graph);
  free_object(object);
}

static PyMemberDef condition_members[] = {
    {"value", T_ULONGLONG, offsetof(condition, handle), READONLY, DOC_Condition_value},
    {"_graph", T_OBJECT, offsetof(condition, graph), READONLY, NULL},
    {"_used", T_BOOL, offsetof(condition, used), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Spec condition_spec =
    TYPE_SPEC("cudacore_graph.GraphCondition", condition, SLOT(tp_doc, DOC_Condition), SLOT(tp_new, condition_new),
              SLOT(tp_dealloc, condition_dealloc), SLOT(tp_members, condition_members));

/* ---- methods of Graph that programs call often ---- */

int exec_use(PyObject *face, cch_graph_exec **out) {
  exec *self = (exec *)face;
  cch_graph_exec *box = handle_use(face);
  if (box == NULL)
    return -1;
  if (!self->has_lock) {
    pthread_mutex_init(&self->lock, NULL);
    self->has_lock = true;
  }
  if (!needs_no_lock())
    take(&self->lock);
  *out = box;
  return 0;
}

void exec_done(PyObject *face) {
  if (!needs_no_lock())
    pthread_mutex_unlock(&((exec *)face)->lock);
  handle_done(face);
}

/*
 * Reads the stream from a method's arguments, and calls a function of the library with an executable graph and that
 * stream. `method` is the name in messages.
 */
static PyObject *run(PyObject *self, const char *method, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *keywords, int (*call)(cch_graph_exec *, cch_stream *)) {
  static const char *const names[] = {"stream"};
  const state *st = ((handle *)self)->st;
  PyObject *argument = NULL;
  if (count == 1 && keywords == NULL) {
    argument = arguments[0];
  } else if (sort_arguments(method, names, 1, 1, arguments, count, keywords, &argument) < 0) {
    return NULL;
  } else if (argument == NULL) {
    return PyErr_Format(PyExc_TypeError, "%s() needs a stream", method);
  }
  PyObject *face = st != NULL ? stream_accept(st, argument) : handle_hold(self);
  cch_stream *stream = face != NULL ? handle_use(face) : NULL;
  cch_graph_exec *box;
  int status = -1;
  if (stream != NULL && exec_use(self, &box) == 0) {
    WITHOUT_GIL(status = call(box, stream));
    exec_done(self);
    if (status == CUDA_ERROR_INVALID_VALUE)
      raise_failed(st, status, method, PLACE_IN_EXEC); /* the message lists the possible reasons */
    else if (status != 0)
      raise_status(st, status);
  }
  if (stream != NULL)
    handle_done(face);
  Py_XDECREF(face);
  if (status != 0)
    return NULL;
  owners_drain(st);
  Py_RETURN_NONE;
}

static PyObject *launch_graph(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return run(self, "Graph.launch", arguments, count, keywords, cch_graph_launch);
}

static PyObject *upload_graph(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  return run(self, "Graph.upload", arguments, count, keywords, cch_graph_upload);
}

static PyObject *update_exec(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("update_exec(graph, definition)", count, 2) < 0)
    return NULL;
  if (!PyType_IsSubtype(Py_TYPE(arguments[0]), st->exec_type))
    return PyErr_Format(PyExc_TypeError, "a Graph is needed");
  cch_graph *graph = graph_use(st, arguments[1], "a GraphDefinition is needed, not '%U'");
  cch_graph_exec *box;
  if (graph == NULL)
    return NULL;
  PyObject *result = NULL;
  if (exec_use(arguments[0], &box) == 0) {
    cch_update_result found = {.size = sizeof found};
    int status;
    WITH_GRAPH_LOCKED(graph, NULL, status = cch_graph_exec_update(box, graph, &found));
    exec_done(arguments[0]);
    result = Py_BuildValue("NiKK", failure_status(status), (int)found.result, (unsigned long long)(uintptr_t)found.node,
                           (unsigned long long)(uintptr_t)found.from);
  }
  handle_done(arguments[1]);
  return result;
}

static void exec_dealloc(PyObject *object) {
  exec *self = (exec *)object;
  if (self->has_lock)
    pthread_mutex_destroy(&self->lock);
  handle_dealloc(object);
}

static PyMethodDef exec_methods[] = {
    {"launch", FASTCALL(launch_graph), METH_FASTCALL | METH_KEYWORDS, DOC_ExecHandle_launch},
    {"upload", FASTCALL(upload_graph), METH_FASTCALL | METH_KEYWORDS, DOC_ExecHandle_upload},
    {NULL, NULL, 0, NULL},
};

static PyType_Spec exec_spec = TYPE_SPEC("cudacore_graph.Graph", exec, SLOT(tp_doc, DOC_ExecHandle),
                                         SLOT(tp_dealloc, exec_dealloc), SLOT(tp_methods, exec_methods));

static PyMethodDef functions[] = {
    {"locked_call", FASTCALL(locked_call), METH_FASTCALL, DOC_locked_call},
    {"clone_graph", clone_graph, METH_O, DOC_clone_graph},
    {"update_exec", FASTCALL(update_exec), METH_FASTCALL, DOC_update_exec},
    {NULL, NULL, 0, NULL},
};

int add_graph_types(PyObject *module, state *st) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_stripes);
  if (add_type(module, functions, "GraphHandle", &graph_spec, st->handle_type, &st->graph_type) < 0 ||
      add_type(module, NULL, "Condition", &condition_spec, NULL, &st->condition_type) < 0 ||
      PyModule_AddIntConstant(module, "PLACE_IN_EXEC", PLACE_IN_EXEC) < 0)
    return -1;
  return add_type(module, NULL, "ExecHandle", &exec_spec, st->handle_type, &st->exec_type);
}
