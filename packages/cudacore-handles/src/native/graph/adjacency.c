/* SPDX-License-Identifier: Apache-2.0 */
/* Lists nodes and edges, and implements AdjacencySetProxy's frequent operations. */
#include "graph/graph.h"

#include <cuda.h>
#include <stdlib.h>

/* ---- lists ---- */

cch_graph *graph_use(const state *st, PyObject *face, const char *message) {
  if (!PyType_IsSubtype(Py_TYPE(face), st->graph_type)) {
    raise_about(PyExc_TypeError, message != NULL ? message : "a GraphDefinition is needed, not '%U'", face, 0, 0);
    return NULL;
  }
  cch_graph *graph = handle_use(face);
  if (graph == NULL || cch_is_valid(graph))
    return graph;
  raise_node_gone(st, face);
  handle_done(face);
  return NULL;
}

static int add_to(PyObject *place, PyObject *item) {
  return PyList_CheckExact(place) ? PyList_Append(place, item) : PySet_Add(place, item);
}

/*
 * Adds the faces of nodes to a list or a set. The faces take over the references to the nodes, which are removed from
 * the array `nodes`.
 */
static int add_faces(state *st, cch_graph_node **nodes, size_t count, PyObject *place) {
  for (size_t i = 0; i < count; i++) {
    cch_graph_node *box = nodes[i];
    nodes[i] = NULL;
    PyObject *face = node_face(st, box, -1);
    int status = face != NULL ? add_to(place, face) : -1;
    Py_XDECREF(face);
    if (status < 0)
      return -1;
  }
  return 0;
}

static int add_nodes(state *st, cch_graph *graph, PyObject *place) {
  cch_node_list list = {0};
  int status;
  WITHOUT_GIL(status = cch_graph_nodes(&list, graph));
  if (status == 0)
    status = add_faces(st, list.nodes, list.count, place);
  else
    raise_status(st, status);
  cch_node_list_free(&list);
  return status;
}

static int add_edges(state *st, cch_graph *graph, PyObject *place) {
  cch_edge_list list = {0};
  int status;
  WITHOUT_GIL(status = cch_graph_edges(&list, graph));
  if (status != 0)
    raise_status(st, status);
  for (size_t i = 0; status == 0 && i < list.count; i++) {
    cch_edge edge = list.edges[i];
    list.edges[i] = (cch_edge){0};
    PyObject *from = node_face(st, edge.from, -1), *to = node_face(st, edge.to, -1);
    PyObject *pair = from != NULL && to != NULL ? PyTuple_Pack(2, from, to) : NULL;
    if (pair != NULL && PyDict_CheckExact(place)) {
      PyObject *type = PyLong_FromLong(edge.type);
      status = type != NULL ? PyDict_SetItem(place, pair, type) : -1;
      Py_XDECREF(type);
    } else {
      status = pair != NULL ? add_to(place, pair) : -1;
    }
    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(pair);
  }
  cch_edge_list_free(&list);
  return status;
}

/*
 * Adds all nodes or edges of a graph to a list or set, and returns that collection. The arguments are the graph and the
 * collection.
 */
static PyObject *list_graph(PyObject *module, const char *function, PyObject *const *arguments, Py_ssize_t count,
                            int (*add)(state *, cch_graph *, PyObject *)) {
  state *st = PyModule_GetState(module);
  if (check_argument_count(function, count, 2) < 0)
    return NULL;
  cch_graph *graph = graph_use(st, arguments[0], NULL);
  if (graph == NULL)
    return NULL;
  int status = add(st, graph, arguments[1]);
  handle_done(arguments[0]);
  return status == 0 ? Py_NewRef(arguments[1]) : NULL;
}

static PyObject *graph_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  return list_graph(module, "graph_nodes(graph, place)", arguments, count, add_nodes);
}

static PyObject *graph_edges(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  return list_graph(module, "graph_edges(graph, place)", arguments, count, add_edges);
}

/* ---- neighbours ---- */

enum { FEW = 4 }; /* this many nodes are stored on the stack */

typedef struct adjacency {
  PyObject_HEAD PyObject *node;
  bool forward;
} adjacency;

/* Returns the dependents or dependencies of a node as a list; or, if `only_count`, their number. */
static PyObject *list_neighbours(const adjacency *self, bool only_count) {
  state *st = (state *)((handle *)self->node)->st;
  cch_graph_node *node = node_box(st, self->node, "node");
  if (node == NULL)
    return NULL;
  cch_node_list list = {0};
  int status;
  WITHOUT_GIL(status = cch_graph_node_neighbours(&list, node, self->forward));
  if (status != 0)
    return raise_status(st, status);
  PyObject *result = only_count ? PyLong_FromSize_t(list.count) : PyList_New(0);
  if (result != NULL && !only_count && add_faces(st, list.nodes, list.count, result) < 0)
    Py_CLEAR(result);
  cch_node_list_free(&list);
  return result;
}

/*
 * Reads the nodes of a tuple, which keeps them alive, into `few` or, if they are more, into an array that the caller
 * frees. Returns NULL with an exception on failure.
 */
static cch_graph_node **read_others(const state *st, const cch_graph *graph, PyObject *others, cch_graph_node **few) {
  const Py_ssize_t count = PyTuple_Size(others);
  cch_graph_node **out = count <= FEW ? few : PyMem_Malloc((size_t)count * sizeof *out);
  if (out == NULL)
    PyErr_NoMemory();
  else if (read_nodes(st, (values){.tuple = others, .count = count}, "value", graph, out) == 0)
    return out;
  if (out != few)
    PyMem_Free(out);
  return NULL;
}

static PyObject *change_edges(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("change_edges(node, forward, lost, gained, edge_type)", count, 5) < 0)
    return NULL;
  const long type = PyLong_AsLong(arguments[4]);
  if (PyErr_Occurred())
    return NULL;
  cch_graph_node *node = node_box(st, arguments[0], "node");
  if (node == NULL)
    return NULL;
  const cch_graph *graph = cch_graph_node_graph(node);
  cch_graph_node *few_lost[FEW], *few_gained[FEW];
  cch_graph_node **lost = read_others(st, graph, arguments[2], few_lost);
  cch_graph_node **gained = lost != NULL ? read_others(st, graph, arguments[3], few_gained) : NULL;
  int status = -1;
  if (gained != NULL) {
    const size_t lost_count = (size_t)PyTuple_Size(arguments[2]), gained_count = (size_t)PyTuple_Size(arguments[3]);
    WITHOUT_GIL(status =
                    cch_graph_rewire(node, arguments[1] == Py_True, lost, lost_count, gained, gained_count, (int)type));
    if (status == CUDA_ERROR_NOT_SUPPORTED)
      raise_failed(st, status, "rewire", NO_PLACE);
    else if (status != 0)
      raise_invalid(st, status);
  }
  if (lost != few_lost)
    PyMem_Free(lost);
  if (gained != few_gained)
    PyMem_Free(gained);
  return status == 0 ? Py_NewRef(Py_None) : NULL;
}

/* ---- frequent operations of AdjacencySetProxy ---- */

static PyObject *adjacency_make(PyTypeObject *type, PyObject *node, bool forward) {
  adjacency *self = new_object(type);
  if (self != NULL) {
    self->node = Py_NewRef(node);
    self->forward = forward;
  }
  return (PyObject *)self;
}

static PyObject *adjacency_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"node", "is_fwd", NULL};
  PyObject *node;
  int forward;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Op:AdjacencySetProxy", names, &node, &forward))
    return NULL;
  const state *st = state_of_type(type);
  if (st == NULL || !PyType_IsSubtype(Py_TYPE(node), st->node_type)) {
    raise_about(PyExc_TypeError, "node must be a GraphNode, not '%U'", node, 0, 0);
    return NULL;
  }
  if (!handle_is_open(node))
    return handle_hold(node); /* raises, because the node was never initialised */
  return adjacency_make(type, node, forward != 0);
}

static PyObject *adjacency_iter(PyObject *object) {
  PyObject *list = list_neighbours((const adjacency *)object, false);
  PyObject *iterator = list != NULL ? PyObject_GetIter(list) : NULL;
  Py_XDECREF(list);
  return iterator;
}

static Py_ssize_t adjacency_length(PyObject *object) {
  PyObject *number = list_neighbours((const adjacency *)object, true);
  Py_ssize_t length = number != NULL ? PyLong_AsSsize_t(number) : -1;
  Py_XDECREF(number);
  return length;
}

static void adjacency_dealloc(PyObject *object) {
  Py_XDECREF(((adjacency *)object)->node);
  free_object(object);
}

static PyMemberDef adjacency_members[] = {
    {"_node", T_OBJECT, offsetof(adjacency, node), READONLY, NULL},
    {"_forward", T_BOOL, offsetof(adjacency, forward), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Spec adjacency_spec =
    TYPE_SPEC("cudacore_graph.AdjacencySetProxy", adjacency, SLOT(tp_doc, DOC_Adjacency), SLOT(tp_new, adjacency_new),
              SLOT(tp_dealloc, adjacency_dealloc), SLOT(tp_iter, adjacency_iter), SLOT(sq_length, adjacency_length),
              SLOT(tp_members, adjacency_members));

PyObject *get_adjacency(PyObject *node, void *forward) {
  const state *st = ((handle *)node)->st;
  return st != NULL ? adjacency_make((PyTypeObject *)st->faces.adjacency, node, forward != NULL) : handle_hold(node);
}

int set_adjacency(PyObject *node, PyObject *nodes, void *forward) {
  if (nodes == NULL)
    return raise_error(PyExc_AttributeError, "a node's neighbours can be cleared, but not deleted");
  PyObject *set = get_adjacency(node, forward);
  /* "(O)", because "O" alone would unpack a tuple. */
  PyObject *result = set != NULL ? PyObject_CallMethod(set, "replace", "(O)", nodes) : NULL;
  Py_XDECREF(result);
  Py_XDECREF(set);
  return result != NULL ? 0 : -1;
}

static PyMethodDef functions[] = {
    {"graph_nodes", FASTCALL(graph_nodes), METH_FASTCALL, DOC_graph_nodes},
    {"graph_edges", FASTCALL(graph_edges), METH_FASTCALL, DOC_graph_edges},
    {"change_edges", FASTCALL(change_edges), METH_FASTCALL, DOC_change_edges},
    {NULL, NULL, 0, NULL},
};

int add_adjacency_type(PyObject *module, state *st) {
  return add_type(module, functions, "Adjacency", &adjacency_spec, NULL, &st->adjacency_type);
}
