/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot half of GraphNode. A node has one face while anybody holds it: the same Python object comes back from every
 * list. A table leads from boxes to faces; it keeps nothing alive, and a face takes itself out when it dies.
 */
#include "base/native.h"

enum { NODES_START = 64 }; /* slots of a new table; a power of two */
enum { CUDA_NOT_SUPPORTED = 801 };

/* ---- the table ---- */

static size_t home_slot(const state *st, const void *box) {
  return (size_t)((uint64_t)(uintptr_t)box * UINT64_C(0x9E3779B97F4A7C15) >> 32) & st->node_mask;
}

static node_slot *find(const state *st, const void *box) {
  size_t i = home_slot(st, box);
  while (st->nodes[i].box != NULL && st->nodes[i].box != box)
    i = (i + 1) & st->node_mask;
  return &st->nodes[i];
}

static int reserve(state *st, size_t slots) {
  node_slot *table = PyMem_Calloc(slots, sizeof *table), *old = st->nodes;
  if (table == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  size_t old_slots = old != NULL ? st->node_mask + 1 : 0;
  st->nodes = table;
  st->node_mask = slots - 1;
  for (size_t i = 0; i < old_slots; i++)
    if (old[i].box != NULL)
      *find(st, old[i].box) = old[i];
  PyMem_Free(old);
  return 0;
}

/* Makes room for one more. */
static int make_room(state *st) {
  size_t slots = st->nodes != NULL ? st->node_mask + 1 : 0;
  return 2 * (st->node_count + 1) <= slots ? 0 : reserve(st, slots != 0 ? 2 * slots : NODES_START);
}

static void forget(state *st, node_slot *slot) {
  size_t hole = (size_t)(slot - st->nodes);
  /* Close the gap: an entry further on moves into it unless its home lies between the gap and its place. */
  for (size_t i = (hole + 1) & st->node_mask; st->nodes[i].box != NULL; i = (i + 1) & st->node_mask) {
    size_t from_home = (i - home_slot(st, st->nodes[i].box)) & st->node_mask;
    if (from_home >= ((i - hole) & st->node_mask)) {
      st->nodes[hole] = st->nodes[i];
      hole = i;
    }
  }
  st->nodes[hole] = (node_slot){NULL, NULL};
  if (--st->node_count == 0 && st->node_mask >= 1024 * NODES_START) { /* after a very large graph */
    PyMem_Free(st->nodes);
    st->nodes = NULL;
  }
}

/* ---- faces ---- */

/* Which class a node is of, by its box. */
static int class_of(cch_graph_node *box) {
  int type = cch_graph_node_type(box);
  if (type < 0 || type >= CLASS_IF)
    return CLASS_OTHER;
  if (type != CCH_NODE_CONDITIONAL)
    return type;
  cch_conditional_node params = {.size = sizeof params};
  if (cch_graph_node_get(&params, box) != 0)
    return CCH_NODE_CONDITIONAL; /* an older driver does not tell more */
  switch (params.type) {
  case CCH_CONDITIONAL_IF:
    return params.count > 1 ? CLASS_IF_ELSE : CLASS_IF;
  case CCH_CONDITIONAL_WHILE:
    return CLASS_WHILE;
  case CCH_CONDITIONAL_SWITCH:
    return CLASS_SWITCH;
  default:
    return CCH_NODE_CONDITIONAL;
  }
}

/* The face that there is, a new reference; or NULL. One whose destruction has begun is no more to be given to anybody.
 */
static PyObject *known_face(const state *st, const void *box) {
  const node_slot *slot = find(st, box);
  return slot->box != NULL && Py_REFCNT(slot->face) > 0 ? Py_NewRef(slot->face) : NULL;
}

PyObject *node_face(state *st, cch_graph_node *box, int class) {
  if (make_room(st) < 0) {
    box_let_go(box);
    return NULL;
  }
  PyObject *face = known_face(st, box), *known = NULL;
  if (face != NULL) {
    cch_graph_node_unref(box); /* the face has another */
    return face;
  }
  PyObject *cls = PyTuple_GetItem(st->faces.node_classes, class < 0 ? class_of(box) : class);
  face = cls != NULL ? handle_make(st, (PyTypeObject *)cls, box) : NULL;
  if (cls == NULL)
    box_let_go(box);
  if (face == NULL)
    return NULL;
  if (PyType_GetFlags((PyTypeObject *)cls) & Py_TPFLAGS_HAVE_GC)
    PyObject_GC_UnTrack(face); /* it has nothing but its class: no collection needs to look at thousands of them */
  /* Making it can have run anything, a garbage collection: the table went with the last of very many nodes, or another
   * face was made of this one. */
  if (make_room(st) < 0 || (known = known_face(st, box)) != NULL) {
    Py_DECREF(face);
    return known;
  }
  node_slot *slot = find(st, box);
  if (slot->box == NULL)
    st->node_count++;
  *slot = (node_slot){box, face};
  return face;
}

static void raise_gone(const state *st, PyObject *face) {
  PyObject *error = PyObject_CallFunctionObjArgs(st->faces.gone, face, NULL);
  if (error != NULL) {
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
  }
}

cch_graph_node *node_box(const state *st, PyObject *face, const char *name) {
  if (!PyType_IsSubtype(Py_TYPE(face), st->node_type)) {
    char format[96];
    PyOS_snprintf(format, sizeof format, "%s must be a GraphNode, not '%%U'", name);
    raise_about(PyExc_TypeError, format, face, 0, 0);
    return NULL;
  }
  void *box = ((handle *)face)->box;
  if (box != NULL && cch_is_valid(box))
    return box;
  if (box == NULL) {
    handle_hold(face); /* which raises: it was never made */
    return NULL;
  }
  raise_gone(st, face);
  return NULL;
}

static void node_dealloc(PyObject *object) {
  handle *self = (handle *)object;
  state *st = (state *)self->st;
  if (st != NULL && self->box != NULL && st->nodes != NULL) {
    node_slot *slot = find(st, self->box);
    if (slot->face == object)
      forget(st, slot);
  }
  PyObject_ClearWeakRefs(object);
  handle_dealloc(object);
}

static Py_hash_t node_hash(PyObject *object) { return (Py_hash_t)((uintptr_t)object >> 4); }

/* There is one face of a node: equal is what is the same. */
static PyObject *node_compare(PyObject *a, PyObject *b, int operation) {
  const state *st = ((handle *)a)->st; /* NULL: it was never made */
  if ((operation != Py_EQ && operation != Py_NE) ||
      (a != b && (st == NULL || !PyType_IsSubtype(Py_TYPE(b), st->node_type))))
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((a == b) == (operation == Py_EQ));
}

static PyObject *is_valid(PyObject *object, void *closure) {
  (void)closure;
  const handle *self = (const handle *)object;
  return PyBool_FromLong(self->box != NULL && cch_is_valid(self->box));
}

static PyObject *graph_of(PyObject *object, void *closure) {
  (void)closure;
  const handle *self = (const handle *)object;
  if (self->box == NULL)
    return handle_hold(object);
  cch_graph *graph = cch_graph_ref(cch_graph_node_graph(self->box));
  return handle_make(self->st, (PyTypeObject *)self->st->faces.graph, graph);
}

/* All of a node's users have the same object: nobody closes it for the others. */
static PyObject *not_there(PyObject *object, void *closure) {
  return PyErr_Format(PyExc_AttributeError, "%R has no '%s': a node is not closed; destroy() takes it out of its graph",
                      Py_TYPE(object), (const char *)closure);
}

static PyObject *destroy(PyObject *object, PyObject *nothing) {
  (void)nothing;
  handle *self = (handle *)object;
  const state *st = self->st;
  cch_graph_node *node = self->box;
  if (node == NULL)
    return handle_hold(object);
  graph_lock lock = graph_lock_take(cch_graph_node_graph(node), NULL);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = cch_is_valid(node) ? cch_graph_node_destroy(node) : 0;
  Py_END_ALLOW_THREADS;
  graph_lock_give(lock);
  if (status != 0)
    return raise_failed(st, status, "destroy", NO_PLACE);
  owners_drain(st);
  Py_RETURN_NONE;
}

/* ---- the hot half of AdjacencySetProxy ---- */

typedef struct adjacency {
  PyObject_HEAD PyObject *node;
  bool forward;
} adjacency;

static PyObject *list_neighbours(state *st, PyObject *face, bool forward, bool only_count);

static PyObject *adjacency_make(PyTypeObject *type, PyObject *node, bool forward) {
  allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  adjacency *self = (adjacency *)make(type, 0);
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
  /* The class is one of Python's: a base of it is ours, and knows its module. */
  const state *st = NULL;
  for (PyTypeObject *base = type; base != NULL && st == NULL; base = PyType_GetSlot(base, Py_tp_base)) {
    st = PyType_GetModuleState(base);
    PyErr_Clear();
  }
  if (st == NULL || !PyType_IsSubtype(Py_TYPE(node), st->node_type)) {
    raise_about(PyExc_TypeError, "node must be a GraphNode, not '%U'", node, 0, 0);
    return NULL;
  }
  if (((handle *)node)->box == NULL)
    return handle_hold(node); /* which raises: it was never made */
  return adjacency_make(type, node, forward != 0);
}

static state *state_of_node(PyObject *node) { return (state *)((handle *)node)->st; }

static PyObject *adjacency_iter(PyObject *object) {
  const adjacency *self = (const adjacency *)object;
  PyObject *list = list_neighbours(state_of_node(self->node), self->node, self->forward, false);
  PyObject *iterator = list != NULL ? PyObject_GetIter(list) : NULL;
  Py_XDECREF(list);
  return iterator;
}

static Py_ssize_t adjacency_length(PyObject *object) {
  const adjacency *self = (const adjacency *)object;
  PyObject *number = list_neighbours(state_of_node(self->node), self->node, self->forward, true);
  Py_ssize_t length = number != NULL ? PyLong_AsSsize_t(number) : -1;
  Py_XDECREF(number);
  return length;
}

static void adjacency_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  Py_XDECREF(((adjacency *)object)->node);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static PyMemberDef adjacency_members[] = {
    {"_node", T_OBJECT, offsetof(adjacency, node), READONLY, NULL},
    {"_forward", T_BOOL, offsetof(adjacency, forward), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot adjacency_slots[] = {
    {Py_tp_doc, "The hot half of AdjacencySetProxy."},
    {Py_tp_new, (void *)adjacency_new},
    {Py_tp_dealloc, (void *)adjacency_dealloc},
    {Py_tp_iter, (void *)adjacency_iter},
    {Py_sq_length, (void *)adjacency_length},
    {Py_tp_members, adjacency_members},
    {0, NULL},
};

static PyType_Spec adjacency_spec = {
    .name = "cudacore_graph.AdjacencySetProxy",
    .basicsize = sizeof(adjacency),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = adjacency_slots,
};

static PyObject *get_adjacency(PyObject *node, void *forward) {
  const state *st = ((handle *)node)->st;
  return st != NULL ? adjacency_make((PyTypeObject *)st->faces.adjacency, node, forward != NULL) : handle_hold(node);
}

static int set_adjacency(PyObject *node, PyObject *nodes, void *forward) {
  if (nodes == NULL) {
    PyErr_SetString(PyExc_AttributeError, "a node's neighbours can be cleared, but not deleted");
    return -1;
  }
  PyObject *set = get_adjacency(node, forward);
  /* "(O)", because "O" alone would unpack a tuple. */
  PyObject *result = set != NULL ? PyObject_CallMethod(set, "replace", "(O)", nodes) : NULL;
  Py_XDECREF(result);
  Py_XDECREF(set);
  return result != NULL ? 0 : -1;
}

static PyMethodDef destroy_method = {
    "destroy", destroy, METH_NOARGS,
    "destroy($self, /)\n--\n\n"
    "Take the node, and all edges at it, out of its graph (cuGraphDestroyNode).\n"
    "\n"
    "What was made from the graph before keeps what the node uses. Destroying it again does nothing."};

static PyMemberDef node_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, sizeof(handle), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef node_properties[] = {
    {"is_valid", is_valid, NULL, "bool: Whether the node is in its graph still, and the graph exists.", NULL},
    {"graph", graph_of, NULL, "GraphDefinition: The graph that the node is in.", NULL},
    {"pred", get_adjacency, set_adjacency,
     "AdjacencySetProxy: The nodes that this one waits for; a set that can be changed, or assigned.", NULL},
    {"succ", get_adjacency, set_adjacency,
     "AdjacencySetProxy: The nodes that wait for this one; a set that can be changed, or assigned.", "forward"},
    {"close", not_there, NULL, NULL, "close"},
    {"is_closed", not_there, NULL, NULL, "is_closed"},
    {NULL, NULL, NULL, NULL, NULL},
};

int add_node_type(PyObject *module, state *st) {
  /* The methods: those that both definitions and nodes have, and one more. */
  static PyMethodDef methods[24];
  int count = 0;
  while (node_adders[count].ml_name != NULL && count < 22) {
    methods[count] = node_adders[count];
    count++;
  }
  methods[count] = destroy_method;
  PyType_Slot slots[] = {
      {Py_tp_doc, "The hot half of GraphNode."},
      {Py_tp_dealloc, (void *)node_dealloc},
      {Py_tp_richcompare, (void *)node_compare},
      {Py_tp_hash, (void *)node_hash},
      {Py_tp_methods, methods},
      {Py_tp_members, node_members},
      {Py_tp_getset, node_properties},
      {0, NULL},
  };
  PyType_Spec spec = {
      .name = "cudacore_graph.GraphNode",
      .basicsize = sizeof(handle) + sizeof(PyObject *), /* and the list of weak references */
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
      .slots = slots,
  };
  st->node_type = add_type(module, "NodeHandle", &spec, st->handle_type);
  st->adjacency_type = st->node_type != NULL ? add_type(module, "Adjacency", &adjacency_spec, NULL) : NULL;
  return st->adjacency_type != NULL ? 0 : -1;
}

/* ---- lists ---- */

static const char not_a_graph[] = "a GraphDefinition is needed, not '%U'";

cch_graph *graph_use(const state *st, PyObject *face, const char *message) {
  if (!PyType_IsSubtype(Py_TYPE(face), st->graph_type)) {
    raise_about(PyExc_TypeError, message, face, 0, 0);
    return NULL;
  }
  cch_graph *graph = handle_use(face);
  if (graph == NULL || cch_is_valid(graph))
    return graph;
  raise_gone(st, face);
  handle_done(face);
  return NULL;
}

static int add_to(PyObject *place, PyObject *item) {
  return PyList_CheckExact(place) ? PyList_Append(place, item) : PySet_Add(place, item);
}

/* Adds the faces of nodes to a list or a set. Takes the references out of the list of boxes. */
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

const char graph_nodes_doc[] = "graph_nodes(graph, place, /)\n--\n\n"
                               "Add the nodes of a graph to a list or a set, which is returned (cuGraphGetNodes).";

PyObject *graph_nodes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("graph_nodes(graph, place)", count, 2) < 0)
    return NULL;
  PyObject *face = arguments[0], *place = arguments[1];
  cch_graph *graph = graph_use(st, face, not_a_graph);
  if (graph == NULL)
    return NULL;
  cch_node_list list = {0};
  graph_lock lock = graph_lock_take(graph, NULL);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = cch_graph_nodes(&list, graph);
  Py_END_ALLOW_THREADS;
  graph_lock_give(lock);
  if (status != 0)
    raise_status(st, status);
  else if (add_faces(st, list.nodes, list.count, place) < 0)
    status = -1;
  cch_node_list_free(&list);
  handle_done(face);
  return status == 0 ? Py_NewRef(place) : NULL;
}

const char graph_edges_doc[] = "graph_edges(graph, place, /)\n--\n\n"
                               "Add the edges of a graph, pairs of nodes, to a list or a set, which is returned "
                               "(cuGraphGetEdges).";

PyObject *graph_edges(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("graph_edges(graph, place)", count, 2) < 0)
    return NULL;
  PyObject *face = arguments[0], *place = arguments[1];
  cch_graph *graph = graph_use(st, face, not_a_graph);
  if (graph == NULL)
    return NULL;
  cch_edge_list list = {0};
  graph_lock lock = graph_lock_take(graph, NULL);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = cch_graph_edges(&list, graph);
  Py_END_ALLOW_THREADS;
  graph_lock_give(lock);
  if (status != 0)
    raise_status(st, status);
  for (size_t i = 0; status == 0 && i < list.count; i++) {
    cch_edge edge = list.edges[i];
    list.edges[i] = (cch_edge){NULL, NULL};
    PyObject *from = node_face(st, edge.from, -1), *to = node_face(st, edge.to, -1);
    PyObject *pair = from != NULL && to != NULL ? PyTuple_Pack(2, from, to) : NULL;
    status = pair != NULL ? add_to(place, pair) : -1;
    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(pair);
  }
  cch_edge_list_free(&list);
  handle_done(face);
  return status == 0 ? Py_NewRef(place) : NULL;
}

/* The nodes that wait for a node, or that it waits for: a list, or, where `only_count`, their number. */
static PyObject *list_neighbours(state *st, PyObject *face, bool forward, bool only_count) {
  cch_graph_node *node = node_box(st, face, "node");
  if (node == NULL)
    return NULL;
  cch_node_list list = {0};
  graph_lock lock = graph_lock_take(cch_graph_node_graph(node), NULL);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = forward ? cch_graph_node_dependents(&list, node) : cch_graph_node_dependencies(&list, node);
  Py_END_ALLOW_THREADS;
  graph_lock_give(lock);
  if (status != 0)
    return raise_status(st, status);
  PyObject *result = only_count ? PyLong_FromSize_t(list.count) : PyList_New(0);
  if (result != NULL && !only_count && add_faces(st, list.nodes, list.count, result) < 0)
    Py_CLEAR(result);
  cch_node_list_free(&list);
  return result;
}

const char neighbours_doc[] = "neighbours(node, forward, /)\n--\n\n"
                              "Return the nodes that wait for a node (cuGraphNodeGetDependentNodes), or that it waits "
                              "for, in a list.";

PyObject *neighbours(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("neighbours(node, forward)", count, 2) < 0)
    return NULL;
  return list_neighbours(PyModule_GetState(module), arguments[0], arguments[1] == Py_True, false);
}

const char change_edges_doc[] =
    "change_edges(node, forward, lost, gained, /)\n--\n\n"
    "Remove edges between a node and those of a tuple, and add others, all or none (cuGraphRemoveDependencies,\n"
    "cuGraphAddDependencies). Edges to remove must be there, and edges to add must not.";

/* The edges between a node and others. */
typedef struct edges {
  size_t count;
  cch_graph_node **own, **far, *few[2 * 4];
} edges;

/* The other end of an edge; NULL with an exception. */
static cch_graph_node *read_end(const state *st, cch_graph_node *node, PyObject *face) {
  cch_graph_node *other = node_box(st, face, "value");
  if (other == NULL)
    return NULL;
  if (cch_graph_node_graph(other) != cch_graph_node_graph(node))
    PyErr_Format(PyExc_ValueError, "%R is a node of another graph; edges are between nodes of one graph", face);
  else if (other == node)
    PyErr_Format(PyExc_ValueError, "%R cannot wait for itself", face);
  else
    return other;
  return NULL;
}

/* Reads the nodes of a tuple, which keeps them. -1 with an exception. */
static int read_edges(const state *st, cch_graph_node *node, PyObject *others, edges *out) {
  const Py_ssize_t count = PyTuple_Size(others);
  if (count < 0)
    return -1;
  *out = (edges){.count = (size_t)count};
  out->own = 2 * (size_t)count <= sizeof out->few / sizeof *out->few ? out->few
                                                                     : PyMem_Malloc(2 * (size_t)count * sizeof(void *));
  if (out->own == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  out->far = out->own + count;
  for (Py_ssize_t i = 0; i < count; i++) {
    out->own[i] = node;
    if ((out->far[i] = read_end(st, node, PyTuple_GetItem(others, i))) == NULL)
      return -1;
  }
  return 0;
}

static void drop_edges(edges *self) {
  if (self->own != self->few)
    PyMem_Free(self->own);
}

PyObject *change_edges(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("change_edges(node, forward, lost, gained)", count, 4) < 0)
    return NULL;
  cch_graph_node *node = node_box(st, arguments[0], "node");
  if (node == NULL)
    return NULL;
  const bool forward = arguments[1] == Py_True;
  edges lost = {.own = lost.few}, gained = {.own = gained.few};
  int status = -1;
  if (read_edges(st, node, arguments[2], &lost) == 0 && read_edges(st, node, arguments[3], &gained) == 0) {
    graph_lock lock = graph_lock_take(cch_graph_node_graph(node), NULL);
    Py_BEGIN_ALLOW_THREADS;
    status = forward ? cch_graph_rewire(lost.own, lost.far, lost.count, gained.own, gained.far, gained.count)
                     : cch_graph_rewire(lost.far, lost.own, lost.count, gained.far, gained.own, gained.count);
    Py_END_ALLOW_THREADS;
    graph_lock_give(lock);
    if (status == CUDA_NOT_SUPPORTED)
      raise_failed(st, status, "rewire", NO_PLACE);
    else if (status != 0)
      raise_status(st, status);
  }
  drop_edges(&lost);
  drop_edges(&gained);
  return status == 0 ? Py_NewRef(Py_None) : NULL;
}

const char adopt_node_doc[] = "adopt_node(address, /)\n--\n\n"
                              "Return the node of a box, taking over one reference to it.";

PyObject *adopt_node(PyObject *module, PyObject *address) {
  void *box = PyLong_AsVoidPtr(address);
  if (box == NULL)
    return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "address is 0; it must be a box's");
  return node_face(PyModule_GetState(module), box, -1);
}
