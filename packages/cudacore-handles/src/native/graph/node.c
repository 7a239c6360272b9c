/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the frequent operations of GraphNode. A node has at most one face, so all lists return the same Python
 * object. A table maps boxes to faces. It keeps nothing alive: a face removes itself when it is destroyed. The table
 * has a lock; functions whose names do not begin with node_ or exchange_ are called with it.
 */
#include "graph/graph.h"

enum { NODES_START = 64 }; /* slots of a new table; a power of two */

/* ---- the table ---- */

static size_t home_slot(const state *st, const void *box) {
  return (size_t)((uint64_t)(uintptr_t)box * UINT64_C(0x9E3779B97F4A7C15) >> 32) & st->graph.node_mask;
}

static node_slot *find(const state *st, const void *box) {
  size_t i = home_slot(st, box);
  while (st->graph.nodes[i].box != NULL && st->graph.nodes[i].box != box)
    i = (i + 1) & st->graph.node_mask;
  return &st->graph.nodes[i];
}

static int reserve(state *st, size_t slots) {
  node_slot *table = PyMem_Calloc(slots, sizeof *table), *old = st->graph.nodes;
  if (table == NULL)
    return -1;
  size_t old_slots = old != NULL ? st->graph.node_mask + 1 : 0;
  st->graph.nodes = table;
  st->graph.node_mask = slots - 1;
  for (size_t i = 0; i < old_slots; i++)
    if (old[i].box != NULL)
      *find(st, old[i].box) = old[i];
  PyMem_Free(old);
  return 0;
}

/* Makes room for one more entry. */
static int make_room(state *st) {
  size_t slots = st->graph.nodes != NULL ? st->graph.node_mask + 1 : 0;
  return 2 * (st->graph.node_count + 1) <= slots ? 0 : reserve(st, slots != 0 ? 2 * slots : NODES_START);
}

static void forget(state *st, node_slot *slot) {
  size_t hole = (size_t)(slot - st->graph.nodes);
  /* Closes the gap: moves a later entry into it, unless the entry's home slot lies between the gap and the entry. */
  for (size_t i = (hole + 1) & st->graph.node_mask; st->graph.nodes[i].box != NULL; i = (i + 1) & st->graph.node_mask) {
    size_t from_home = (i - home_slot(st, st->graph.nodes[i].box)) & st->graph.node_mask;
    if (from_home >= ((i - hole) & st->graph.node_mask)) {
      st->graph.nodes[hole] = st->graph.nodes[i];
      hole = i;
    }
  }
  st->graph.nodes[hole] = (node_slot){NULL, NULL};
  if (--st->graph.node_count == 0 && st->graph.node_mask >= 1024 * NODES_START) { /* frees a very large table */
    PyMem_Free(st->graph.nodes);
    st->graph.nodes = NULL;
  }
}

/* ---- faces ---- */

/* Returns the class of a node, determined from its box. */
static int class_of(cch_graph_node *box) {
  int type = cch_graph_node_type(box);
  if (type < 0 || type >= CLASS_IF)
    return CLASS_OTHER;
  if (type != CCH_NODE_CONDITIONAL)
    return type;
  cch_conditional_node params = {.size = sizeof params};
  int status;
  WITHOUT_GIL(status = cch_graph_node_get(&params, box));
  if (status != 0) /* an older driver does not report the kind; or another thread has just destroyed the node */
    return CCH_NODE_CONDITIONAL;
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

/*
 * Stores the face of a node in the table, unless the node has one. Returns the face that the node has now, as a new
 * reference. NULL if `face` is NULL and the node has none, and with an exception on failure.
 */
static PyObject *exchange_face(state *st, const void *box, PyObject *face) {
  LOCK_TABLE(&st->graph.lock);
  const bool has_room = make_room(st) == 0;
  node_slot *slot = has_room ? find(st, box) : NULL;
  PyObject *known = NULL;
  if (has_room && slot->box != NULL && try_ref(slot->face)) {
    known = slot->face;
  } else if (has_room && face != NULL) { /* replaces a face whose destruction has begun */
    if (slot->box == NULL)
      st->graph.node_count++;
    *slot = (node_slot){box, face};
    known = Py_NewRef(face);
  }
  UNLOCK_TABLE(&st->graph.lock);
  if (!has_room)
    PyErr_NoMemory();
  return known;
}

PyObject *node_face(state *st, cch_graph_node *box, int class) {
  PyObject *face = exchange_face(st, box, NULL);
  if (face == NULL && PyErr_Occurred()) {
    box_let_go(box);
    return NULL;
  }
  if (face != NULL) {
    cch_graph_node_unref(box); /* the face has a reference of its own */
    return face;
  }
  PyObject *cls = PyTuple_GetItem(st->faces.node_classes, class < 0 ? class_of(box) : class);
  face = cls != NULL ? handle_make(st, (PyTypeObject *)cls, box) : NULL;
  if (cls == NULL)
    box_let_go(box);
  if (face == NULL)
    return NULL;
  /* A face refers only to its class, so the garbage collector need not visit thousands of nodes. */
  if (PyType_GetFlags((PyTypeObject *)cls) & Py_TPFLAGS_HAVE_GC)
    PyObject_GC_UnTrack(face);
  enable_try_ref(face);
  /* Another face may exist by now: creating this one can run arbitrary code, such as a garbage collection. */
  PyObject *known = exchange_face(st, box, face);
  Py_DECREF(face);
  return known;
}

void raise_node_gone(const state *st, PyObject *face) {
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
    handle_hold(face); /* raises, because the node was never initialised */
    return NULL;
  }
  raise_node_gone(st, face);
  return NULL;
}

static void node_dealloc(PyObject *object) {
  handle *self = (handle *)object;
  state *st = (state *)self->st;
  if (st != NULL && self->box != NULL) {
    LOCK_TABLE(&st->graph.lock);
    node_slot *slot = st->graph.nodes != NULL ? find(st, self->box) : NULL;
    if (slot != NULL && slot->face == object)
      forget(st, slot);
    UNLOCK_TABLE(&st->graph.lock);
  }
  PyObject_ClearWeakRefs(object);
  handle_dealloc(object);
}

static Py_hash_t node_hash(PyObject *object) { return (Py_hash_t)((uintptr_t)object >> 4); }

/* A node has only one face, so equality is identity. */
static PyObject *node_compare(PyObject *a, PyObject *b, int operation) {
  const state *st = ((handle *)a)->st; /* NULL if the node was never initialised */
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

/* All users of a node share one object, so it must not be closed. */
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
  int status = 0;
  if (cch_is_valid(node))
    WITHOUT_GIL(status = cch_graph_node_destroy(node));
  if (status != 0 && cch_is_valid(node)) /* otherwise another thread has just destroyed it */
    return raise_failed(st, status, "destroy", NO_PLACE);
  owners_drain(st);
  Py_RETURN_NONE;
}

static PyMethodDef destroy_method = {"destroy", destroy, METH_NOARGS, DOC_NodeHandle_destroy};

static PyMemberDef node_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, sizeof(handle), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef node_properties[] = {
    {"is_valid", is_valid, NULL, DOC_NodeHandle_is_valid, NULL},
    {"graph", graph_of, NULL, DOC_NodeHandle_graph, NULL},
    {"pred", get_adjacency, set_adjacency, DOC_NodeHandle_pred, NULL},
    {"succ", get_adjacency, set_adjacency, DOC_NodeHandle_succ, "forward"},
    {"close", not_there, NULL, NULL, "close"},
    {"is_closed", not_there, NULL, NULL, "is_closed"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyObject *adopt_node(PyObject *module, PyObject *address_of_out) {
  void *box = box_take(address_of_out);
  return box != NULL ? node_face(PyModule_GetState(module), box, -1) : NULL;
}

static PyMethodDef functions[] = {
    {"adopt_node", adopt_node, METH_O, DOC_adopt_node},
    {NULL, NULL, 0, NULL},
};

int add_node_type(PyObject *module, state *st) {
  /* The methods that definitions and nodes share, and the method of nodes alone. */
  static PyMethodDef methods[24];
  int count = 0;
  while (node_adders[count].ml_name != NULL && count < 22) {
    methods[count] = node_adders[count];
    count++;
  }
  methods[count] = destroy_method;
  PyType_Slot slots[] = {
      {Py_tp_doc, DOC_NodeHandle},
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
      .basicsize = sizeof(handle) + sizeof(PyObject *), /* the list of weak references follows the handle */
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
      .slots = slots,
  };
  return add_type(module, functions, "NodeHandle", &spec, st->handle_type, &st->node_type);
}
