/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of graph nodes, from the arguments of the methods that add them. Whatever Python code runs runs here: when
 * all is read, what the node uses is held, and nothing but the library's call is left.
 */
#include "graph/node_kinds.h"
#include "launch/pack.h"

#include <stdio.h>

/* ---- what several kinds use ---- */

int read_size(const state *st, PyObject *value, const char *name, size_t least, size_t *out) {
  if (value == NULL)
    return 0;
  if (PyLong_CheckExact(value)) {
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow && number >= 0 && (size_t)number >= least) {
      *out = (size_t)number;
      return 0;
    }
  }
  PyObject *number = integer_of(st, value);
  if (number != NULL) {
    size_t size = PyLong_AsSize_t(number);
    Py_DECREF(number);
    if (!(size == (size_t)-1 && PyErr_Occurred()) && size >= least && size <= PTRDIFF_MAX) {
      *out = size;
      return 0;
    }
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s is %R; it must be at least %zu, and less than 2**63", name, value, least);
    return -1;
  }
  if (PyErr_Occurred())
    return -1;
  char format[96];
  PyOS_snprintf(format, sizeof format, "%s must be an int, not '%%U'", name);
  return raise_about(PyExc_TypeError, format, value, 0, 0);
}

int take_bundle(const state *st, owners *keep, node_params *out, int status) {
  if (keep->heap == NULL && owners_own_nothing(keep))
    return status; /* as for addresses that are numbers */
  if (status == 0)
    status = owners_bundle(st, keep, &out->bundle);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  owners_release(keep);
  PyErr_Restore(type, value, traceback);
  return status;
}

/* ---- other objects ---- */

void *use_face(PyObject *face, const PyTypeObject *type, const char *message, node_params *out) {
  if (!PyType_IsSubtype(Py_TYPE(face), (PyTypeObject *)type)) {
    raise_about(PyExc_TypeError, message, face, 0, 0);
    return NULL;
  }
  void *box = handle_use(face);
  if (box != NULL) {
    Py_INCREF(face);
    out->used = face;
  }
  return box;
}

static int read_event(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  (void)kind;
  out->of.event.size = sizeof out->of.event;
  out->of.event.event = use_face(given[0], st->event_type, "event must be an Event, not '%U'", out);
  return out->of.event.event != NULL ? 0 : -1;
}

static int read_embed(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  (void)kind;
  out->of.child.size = sizeof out->of.child;
  out->of.child.graph = graph_use(st, given[0], "child must be a GraphDefinition, not '%U'");
  if (out->of.child.graph == NULL)
    return -1;
  Py_INCREF(given[0]);
  out->used = given[0];
  return 0;
}

static int read_nothing(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  (void)st, (void)kind, (void)given, (void)out;
  return 0;
}

/* ---- graphs of nodes ---- */

static const cch_graph *root_of(const cch_graph *graph) {
  for (const cch_graph *parent = cch_graph_parent(graph); parent != NULL; parent = cch_graph_parent(parent))
    graph = parent;
  return graph;
}

int node_params_check(const state *st, const node_params *params, const cch_graph *graph) {
  const cch_graph *child = node_params_child(params);
  if (child != NULL && root_of(child) == root_of(graph)) {
    PyErr_SetString(PyExc_ValueError, "child is in the same graph as the node that is to run it; clone() makes an "
                                      "independent graph of it");
    return -1;
  }
  if (params->condition == NULL)
    return 0;
  condition *given = (condition *)params->condition;
  bool same = root_of(((handle *)given->graph)->box) == root_of(graph);
  if (same && given->used) { /* by a node that can have been destroyed since */
    int used = 1;
    cch_graph_condition_is_used(&used, (cch_graph *)(uintptr_t)graph, given->handle);
    given->used = used != 0;
  }
  if (same && !given->used && !given->pending)
    return 0;
  PyObject *result = PyObject_CallFunction(st->faces.bad_condition, "Oi", params->condition, (int)same);
  Py_XDECREF(result); /* it raises */
  return -1;
}

/* ---- the kinds ---- */

static const node_kind kinds[] = {
    {"launch", CCH_NODE_KERNEL, CCH_NODE_KERNEL, 0, 0, NULL, {"config", "kernel"}},
    {"memcpy",
     CCH_NODE_MEMCPY,
     CCH_NODE_MEMCPY,
     3,
     3,
     read_memcpy,
     {"dst", "src", "size", "height", "depth", "dst_pitch", "src_pitch", "dst_height", "src_height", "dst_owner",
      "src_owner"}},
    {"memset",
     CCH_NODE_MEMSET,
     CCH_NODE_MEMSET,
     5,
     3,
     read_memset,
     {"dst", "value", "width", "height", "pitch", "dst_owner"}},
    {"callback", CCH_NODE_HOST, CCH_NODE_HOST, 1, 1, read_callback, {"fn", "user_data"}},
    {"embed", CCH_NODE_GRAPH, CCH_NODE_GRAPH, 1, 1, read_embed, {"child"}},
    {"empty", CCH_NODE_EMPTY, CCH_NODE_EMPTY, 0, 0, read_nothing, {NULL}},
    {"record", CCH_NODE_EVENT_RECORD, CCH_NODE_EVENT_RECORD, 1, 1, read_event, {"event"}},
    {"wait", CCH_NODE_EVENT_WAIT, CCH_NODE_EVENT_WAIT, 1, 1, read_event, {"event"}},
    {"allocate", CCH_NODE_ALLOC, CCH_NODE_ALLOC, 1, 1, read_alloc, {"size", "device", "memory_type", "peer_access"}},
    {"deallocate", CCH_NODE_FREE, CCH_NODE_FREE, 1, 1, read_free, {"dptr"}},
    {"if_then", CCH_NODE_CONDITIONAL, CLASS_IF, 1, 1, read_condition, {"condition"}},
    {"if_else", CCH_NODE_CONDITIONAL, CLASS_IF_ELSE, 1, 1, read_condition, {"condition"}},
    {"while_loop", CCH_NODE_CONDITIONAL, CLASS_WHILE, 1, 1, read_condition, {"condition"}},
    {"switch", CCH_NODE_CONDITIONAL, CLASS_SWITCH, 2, 2, read_condition, {"condition", "count"}},
};

const node_kind *node_kind_find(PyObject *name) {
  for (size_t i = 0; PyUnicode_Check(name) && i < sizeof kinds / sizeof *kinds; i++)
    if (PyUnicode_CompareWithASCIIString(name, kinds[i].name) == 0)
      return &kinds[i];
  char known[256] = "";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i > 0 ? ", " : "", kinds[i].name);
  PyErr_Format(PyExc_ValueError, "%R is no kind of node; it must be one of %s", name, known);
  return NULL;
}

const char *node_kind_name(const node_kind *kind) { return kind->name; }

static int read_sorted(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  out->type = kind->type;
  out->class = kind->class;
  for (int i = 0; i < kind->required; i++)
    if (given[i] == NULL) {
      PyErr_Format(PyExc_TypeError, "%s() needs %s", kind->name, kind->names[i]);
      return -1;
    }
  return kind->read(st, kind, given, out);
}

static Py_ssize_t names_of(const node_kind *kind) {
  Py_ssize_t count = 0;
  while (kind->names[count] != NULL)
    count++;
  return count;
}

static int check_count(const node_kind *kind, Py_ssize_t count) {
  if (count <= names_of(kind))
    return 0;
  PyErr_Format(PyExc_TypeError, "%s takes at most %zd arguments, but %zd were given", kind->name, names_of(kind),
               count);
  return -1;
}

int node_params_read(state *st, const node_kind *kind, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords,
                     void *scratch, node_params *out) {
  if (kind->type != CCH_NODE_KERNEL) {
    PyObject *given[MAX_ARGUMENTS] = {NULL};
    if (sort_arguments(kind->name, kind->names, names_of(kind), kind->positional, arguments, count, keywords, given) <
        0)
      return -1;
    return read_sorted(st, kind, given, out);
  }
  PyObject *given[2] = {NULL, NULL};
  if (keywords != NULL && PyTuple_Size(keywords) != 0) { /* the kernel's own arguments have no names */
    if (sort_arguments(kind->name, kind->names, 2, 2, arguments, count, keywords, given) < 0)
      return -1;
    arguments = given;
    count = (given[0] != NULL) + (given[1] != NULL);
  }
  if (count < 2) {
    PyErr_Format(PyExc_TypeError,
                 "launch() takes a config, a kernel and its arguments, but %zd %s given; it adds a kernel node. "
                 "instantiate() makes the executable graph, whose launch(stream) runs it",
                 count, count == 1 ? "was" : "were");
    return -1;
  }
  return node_params_read_kernel(st, arguments[0], arguments[1], (values){.array = arguments + 2, .count = count - 2},
                                 scratch, out);
}

int node_params_read_tuple(state *st, const node_kind *kind, PyObject *tuple, Py_ssize_t first, void *scratch,
                           node_params *out) {
  Py_ssize_t count = PyTuple_Size(tuple) - first;
  if (kind->type == CCH_NODE_KERNEL) {
    if (count < 2) {
      PyErr_SetString(PyExc_TypeError, "launch takes a config, a kernel and its arguments");
      return -1;
    }
    return node_params_read_kernel(st, PyTuple_GetItem(tuple, first), PyTuple_GetItem(tuple, first + 1),
                                   (values){.tuple = tuple, .first = first + 2, .count = count - 2}, scratch, out);
  }
  PyObject *given[MAX_ARGUMENTS] = {NULL};
  if (check_count(kind, count) < 0)
    return -1;
  for (Py_ssize_t i = 0; i < count; i++)
    given[i] = PyTuple_GetItem(tuple, first + i);
  return read_sorted(st, kind, given, out);
}

int node_params_read_given(state *st, const node_kind *kind, PyObject *const *arguments, Py_ssize_t count,
                           void *scratch, node_params *out) {
  if (kind->type == CCH_NODE_KERNEL) {
    if (count != 3 || !PyTuple_Check(arguments[2])) {
      PyErr_SetString(PyExc_TypeError, "launch takes a config, a kernel and a tuple of its arguments");
      return -1;
    }
    const values given = {.tuple = arguments[2], .count = PyTuple_Size(arguments[2])};
    return node_params_read_kernel(st, arguments[0], arguments[1], given, scratch, out);
  }
  PyObject *given[MAX_ARGUMENTS] = {NULL};
  if (check_count(kind, count) < 0)
    return -1;
  for (Py_ssize_t i = 0; i < count; i++)
    given[i] = arguments[i];
  return read_sorted(st, kind, given, out);
}

const void *node_params_of(const node_params *params) { return params->type == CCH_NODE_EMPTY ? NULL : &params->of; }

const cch_graph *node_params_child(const node_params *params) {
  return params->type == CCH_NODE_GRAPH ? params->of.child.graph : NULL;
}

void node_params_done(node_params *params) {
  if (params->condition != NULL)
    ((condition *)params->condition)->pending = params->took_condition = true;
}

void node_params_undone(node_params *params) {
  if (params->took_condition)
    ((condition *)params->condition)->pending = params->took_condition = false;
}

void node_params_drop(node_params *params) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (params->bundle != NULL) {
    /* The graph has another reference, as a rule: then nothing is entered. */
    box_let_go(params->bundle);
    params->bundle = NULL;
  }
  if (params->used != NULL) {
    handle_done(params->used);
    Py_CLEAR(params->used);
  }
  if (params->took_condition) {
    ((condition *)params->condition)->used = true;
    node_params_undone(params);
  }
  Py_CLEAR(params->condition);
  PyMem_Free(params->heap);
  params->heap = NULL;
  PyErr_Restore(type, value, traceback);
}
