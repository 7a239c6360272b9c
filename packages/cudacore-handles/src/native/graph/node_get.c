/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of nodes. Each one asks the driver, because other code can change the parameters of a node. The types here
 * are the bases of the classes of nodes that have such properties.
 */
#include "base/failure.h"
#include "graph/graph.h"

#include <cuda.h>

/* The parameters of a node of any type. */
typedef union any_node {
  size_t size;
#define MEMBER(name) cch_##name##_node name;
  CCH_NODE_STRUCTS(MEMBER)
#undef MEMBER
} any_node;

/* Returns the box of a node that exists; NULL with an exception on failure. */
static cch_graph_node *box_of(PyObject *face) {
  const state *st = ((handle *)face)->st;
  return st != NULL ? node_box(st, face, "node") : handle_hold(face); /* raises for a node that was never initialised */
}

static int query(any_node *out, cch_graph_node *node) {
  memset(out, 0, sizeof *out);
  out->size = sizeof *out;
  int status;
  WITHOUT_GIL(status = cch_graph_node_get(out, node));
  return status;
}

/* Gets the parameters of a node. Returns -1 with an exception on failure. */
static int get(any_node *out, PyObject *face) {
  cch_graph_node *node = box_of(face);
  return node == NULL ? -1 : check_status(((handle *)face)->st, query(out, node));
}

/* ---- numbers ---- */

/* The places of a number in the parameters. */
typedef struct field {
  size_t offset, size;
  size_t array; /* the offset of a handle that replaces the number, unless it is NULL; 0: there is none */
  uint64_t least;
} field;

#define PLACE(node, member)                                                                                            \
  .offset = offsetof(cch_##node##_node, member), .size = sizeof((cch_##node##_node *)0)->member
#define FIELD(...) ((void *)&(const field){__VA_ARGS__})

static PyObject *get_number(PyObject *face, void *closure) {
  const field *wanted = closure;
  any_node params;
  if (get(&params, face) < 0)
    return NULL;
  uint64_t number = 0; /* little-endian */
  if (wanted->array != 0)
    memcpy(&number, (const char *)&params + wanted->array, sizeof(void *));
  if (number == 0)
    memcpy(&number, (const char *)&params + wanted->offset, wanted->size);
  return PyLong_FromUnsignedLongLong(number < wanted->least ? wanted->least : number);
}

static PyGetSetDef memcpy_properties[] = {
    {"dst", get_number, NULL, DOC_MemcpyHandle_dst,
     FIELD(PLACE(memcpy, dst), .array = offsetof(cch_memcpy_node, dst_array))},
    {"src", get_number, NULL, DOC_MemcpyHandle_src,
     FIELD(PLACE(memcpy, src), .array = offsetof(cch_memcpy_node, src_array))},
    {"size", get_number, NULL, DOC_MemcpyHandle_size, FIELD(PLACE(memcpy, width))},
    {"height", get_number, NULL, DOC_MemcpyHandle_height, FIELD(PLACE(memcpy, height), .least = 1)},
    {"depth", get_number, NULL, DOC_MemcpyHandle_depth, FIELD(PLACE(memcpy, depth), .least = 1)},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyGetSetDef memset_properties[] = {
    {"dptr", get_number, NULL, DOC_MemsetHandle_dptr, FIELD(PLACE(memset, dst))},
    {"value", get_number, NULL, DOC_MemsetHandle_value, FIELD(PLACE(memset, value))},
    {"element_size", get_number, NULL, DOC_MemsetHandle_element_size, FIELD(PLACE(memset, element_size))},
    {"width", get_number, NULL, DOC_MemsetHandle_width, FIELD(PLACE(memset, width))},
    {"height", get_number, NULL, DOC_MemsetHandle_height, FIELD(PLACE(memset, height))},
    {"pitch", get_number, NULL, DOC_MemsetHandle_pitch, FIELD(PLACE(memset, pitch))},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyGetSetDef free_properties[] = {
    {"dptr", get_number, NULL, DOC_FreeHandle_dptr, FIELD(PLACE(free, address))},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- allocations ---- */

static PyObject *get_place(PyObject *face, void *closure) {
  enum { MAX_PEERS = 256 };
  (void)closure;
  cch_graph_node *node = box_of(face);
  if (node == NULL)
    return NULL;
  int32_t peers[MAX_PEERS];
  cch_alloc_node params = {.size = sizeof params, .peers = peers, .peer_count = MAX_PEERS};
  int status;
  WITHOUT_GIL(status = cch_graph_node_get(&params, node));
  if (status != 0)
    return raise_status(((handle *)face)->st, status);
  const size_t count = params.peer_count < MAX_PEERS ? params.peer_count : MAX_PEERS;
  PyObject *ordinals = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; ordinals != NULL && i < count; i++) {
    PyObject *ordinal = PyLong_FromLong(peers[i]);
    if (ordinal == NULL || PyTuple_SetItem(ordinals, (Py_ssize_t)i, ordinal) < 0)
      Py_CLEAR(ordinals);
  }
  if (ordinals == NULL)
    return NULL;
  return Py_BuildValue("iiiN", (int)params.alloc_type, (int)params.location_type, (int)params.location_id, ordinals);
}

static PyGetSetDef alloc_properties[] = {
    {"dptr", get_number, NULL, DOC_AllocHandle_dptr, FIELD(PLACE(alloc, address))},
    {"bytesize", get_number, NULL, DOC_AllocHandle_bytesize, FIELD(PLACE(alloc, bytes))},
    {"_place", get_place, NULL, DOC_AllocHandle__place, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- events ---- */

static PyObject *get_event(PyObject *face, void *closure) {
  (void)closure;
  any_node params;
  if (get(&params, face) < 0)
    return NULL;
  const state *st = ((handle *)face)->st;
  return handle_make(st, (PyTypeObject *)st->faces.event, params.event.event);
}

static PyGetSetDef event_properties[] = {
    {"event", get_event, NULL, DOC_EventNodeHandle_event, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- child graphs and bodies ---- */

static PyObject *graph_in(const state *st, cch_graph_node *node, unsigned index) {
  cch_graph *graph = NULL;
  int status;
  WITHOUT_GIL(status = cch_graph_node_child(&graph, node, index));
  return status == 0 ? handle_make(st, (PyTypeObject *)st->faces.graph, graph) : raise_status(st, status);
}

PyObject *node_graph_in(PyObject *face, PyObject *index) {
  cch_graph_node *node = box_of(face);
  const size_t number = node != NULL ? PyLong_AsSize_t(index) : 0;
  return node == NULL || PyErr_Occurred() ? NULL : graph_in(((handle *)face)->st, node, (unsigned)number);
}

/* Gets the parameters of a conditional node; *known is false if the driver cannot report them. */
static int get_conditional(any_node *out, bool *known, PyObject *face) {
  cch_graph_node *node = box_of(face);
  if (node == NULL)
    return -1;
  const int status = query(out, node);
  *known = status == 0;
  if (status == CCH_ENOSYMBOL || status == CUDA_ERROR_NOT_SUPPORTED || status == CUDA_ERROR_INVALID_VALUE)
    return 0;
  return check_status(((handle *)face)->st, status);
}

static PyObject *get_condition(PyObject *face, void *closure) {
  (void)closure;
  const state *st = ((handle *)face)->st;
  any_node params;
  bool known;
  if (get_conditional(&params, &known, face) < 0)
    return NULL;
  if (!known)
    Py_RETURN_NONE;
  return condition_make(st, cch_graph_node_graph(((handle *)face)->box), params.conditional.condition);
}

static PyObject *get_kind(PyObject *face, void *closure) {
  (void)closure;
  any_node params;
  bool known;
  if (get_conditional(&params, &known, face) < 0)
    return NULL;
  return PyLong_FromLong(known ? params.conditional.type : -1);
}

static PyObject *get_branches(PyObject *face, void *closure) {
  (void)closure;
  const handle *self = (handle *)face;
  any_node params;
  bool known;
  if (get_conditional(&params, &known, face) < 0)
    return NULL;
  const unsigned count = known ? params.conditional.count : 0;
  PyObject *bodies = PyTuple_New((Py_ssize_t)count);
  for (unsigned i = 0; bodies != NULL && i < count; i++) {
    PyObject *body = graph_in(self->st, self->box, i);
    if (body == NULL || PyTuple_SetItem(bodies, (Py_ssize_t)i, body) < 0)
      Py_CLEAR(bodies);
  }
  return bodies;
}

static PyGetSetDef conditional_properties[] = {
    {"condition", get_condition, NULL, DOC_ConditionalHandle_condition, NULL},
    {"branches", get_branches, NULL, DOC_ConditionalHandle_branches, NULL},
    {"_kind", get_kind, NULL, DOC_ConditionalHandle__kind, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- types ---- */

int add_node_property_types(PyObject *module, const state *st) {
  static const struct {
    const char *name, *public_name, *doc;
    PyGetSetDef *properties;
  } bases[] = {
      {"AllocHandle", "cudacore_graph.AllocNode", DOC_AllocHandle, alloc_properties},
      {"ConditionalHandle", "cudacore_graph.ConditionalNode", DOC_ConditionalHandle, conditional_properties},
      {"EventNodeHandle", "cudacore_graph.EventNode", DOC_EventNodeHandle, event_properties},
      {"FreeHandle", "cudacore_graph.FreeNode", DOC_FreeHandle, free_properties},
      {"MemcpyHandle", "cudacore_graph.MemcpyNode", DOC_MemcpyHandle, memcpy_properties},
      {"MemsetHandle", "cudacore_graph.MemsetNode", DOC_MemsetHandle, memset_properties},
  };
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
    PyType_Slot slots[] = {
        {Py_tp_doc, (void *)(uintptr_t)bases[i].doc}, {Py_tp_getset, bases[i].properties}, {0, NULL}};
    PyType_Spec spec = {
        .name = bases[i].public_name, .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};
    PyTypeObject *type;
    if (add_type(module, NULL, bases[i].name, &spec, st->node_type, &type) < 0)
      return -1;
    Py_DECREF(type);
  }
  return 0;
}
