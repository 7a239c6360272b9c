/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the frequent operations of GraphNode. A node has at most one face, so all lists return the same Python
 * object. The box has a pointer to the face, which keeps nothing alive: a face clears it when it is destroyed.
 */
#include "graph/graph.h"

#include <stdatomic.h>

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
 * Stores the face of a node in its box, unless the node has one. Returns the face that the node has now, as a new
 * reference; NULL if `face` is NULL and the node has none. If the face belongs to another interpreter, `face` is not
 * stored.
 */
static PyObject *exchange_face(state *st, cch_graph_node *box, PyObject *face) {
  cch_node_face *slot = cch_graph_node_face(box);
  PyObject *known = face;
  LOCK_TABLE(&st->graph.lock);
  const bool is_ours = slot->face == NULL || slot->owner == st->graph.serial;
  if (is_ours && slot->face != NULL && try_ref(slot->face)) {
    known = slot->face;
  } else {
    if (is_ours && face != NULL) /* replaces a face whose destruction has begun */
      *slot = (cch_node_face){face, st->graph.serial};
    Py_XINCREF(face);
  }
  UNLOCK_TABLE(&st->graph.lock);
  return known;
}

PyObject *node_face(state *st, cch_graph_node *box, int class) {
  PyObject *face = exchange_face(st, box, NULL);
  if (face != NULL) {
    cch_graph_node_unref(box); /* the face has a reference of its own */
    return face;
  }
  PyObject *cls = PyTuple_GetItem(st->faces.node_classes, class < 0 ? class_of(box) : class);
  face = cls != NULL ? handle_make(st, (PyTypeObject *)cls, box) : NULL;
  if (cls == NULL)
    box_unref(box);
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

cch_graph_node *node_in(const state *st, PyObject *face, const char *name, const cch_graph *graph) {
  cch_graph_node *node = node_box(st, face, name);
  if (node == NULL || graph == NULL || cch_graph_node_graph(node) == graph)
    return node;
  PyErr_Format(PyExc_ValueError, "%s: %R is a node of another graph", name, face);
  return NULL;
}

int read_nodes(const state *st, values faces, const char *name, const cch_graph *graph, cch_graph_node **out) {
  for (Py_ssize_t i = 0; i < faces.count; i++)
    if ((out[i] = node_in(st, value_at(&faces, i), name, graph)) == NULL)
      return -1;
  return 0;
}

static void node_dealloc(PyObject *object) {
  handle *self = (handle *)object;
  state *st = (state *)self->st;
  if (st != NULL && self->box != NULL) {
    cch_node_face *slot = cch_graph_node_face(self->box);
    LOCK_TABLE(&st->graph.lock);
    if (slot->face == object)
      slot->face = NULL;
    UNLOCK_TABLE(&st->graph.lock);
  }
  PyObject_ClearWeakRefs(object);
  handle_dealloc(object);
}

static Py_hash_t node_hash(PyObject *object) {
  const handle *self = (const handle *)object;
  return (Py_hash_t)((uintptr_t)(self->box != NULL ? self->box : object) >> 4);
}

static PyObject *node_compare(PyObject *a, PyObject *b, int operation) {
  const state *st = ((handle *)a)->st; /* NULL if the node was never initialised */
  if ((operation != Py_EQ && operation != Py_NE) ||
      (a != b && (st == NULL || !PyType_IsSubtype(Py_TYPE(b), st->node_type))))
    Py_RETURN_NOTIMPLEMENTED;
  const void *box = ((handle *)a)->box;
  const bool is_same = a == b || (box != NULL && box == ((handle *)b)->box);
  return PyBool_FromLong(is_same == (operation == Py_EQ));
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
  int status;
  WITHOUT_GIL(status = cch_graph_node_destroy(node));
  if (status != 0 && status != CCH_EGONE)
    return raise_failed(st, status, "destroy", NO_PLACE);
  owners_drain(st);
  Py_RETURN_NONE;
}

static PyObject *type_number(PyObject *object, void *closure) {
  (void)closure;
  const handle *self = (const handle *)object;
  return self->box != NULL ? PyLong_FromLong(cch_graph_node_type(self->box)) : handle_hold(object);
}

static PyMethodDef own_methods[] = {
    {"destroy", destroy, METH_NOARGS, DOC_NodeHandle_destroy},
    {"_graph_in", node_graph_in, METH_O, DOC_NodeHandle__graph_in},
};
enum { OWN_METHODS = sizeof own_methods / sizeof *own_methods, MAX_METHODS = 24 };

static PyMemberDef node_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, sizeof(handle), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef node_properties[] = {
    {"is_valid", is_valid, NULL, DOC_NodeHandle_is_valid, NULL},
    {"graph", graph_of, NULL, DOC_NodeHandle_graph, NULL},
    {"_type", type_number, NULL, DOC_NodeHandle__type, NULL},
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
  static atomic_uint_least64_t serials;
  st->graph.serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
  /* The methods that definitions and nodes share, and those of nodes alone. */
  static PyMethodDef methods[MAX_METHODS];
  int count = 0;
  while (node_adders[count].ml_name != NULL && count + OWN_METHODS + 1 < MAX_METHODS) {
    methods[count] = node_adders[count];
    count++;
  }
  memcpy(methods + count, own_methods, sizeof own_methods);
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
  if (add_type(module, functions, "NodeHandle", &spec, st->handle_type, &st->node_type) < 0)
    return -1;
  return add_node_property_types(module, st);
}
