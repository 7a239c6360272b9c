/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of graph nodes, from the arguments of the methods that add them. Whatever Python code runs runs here: when
 * all is read, what the node uses is held, and nothing but the library's call is left.
 */
#include "graph/graph.h"
#include "launch/pack.h"

#include <stdio.h>

enum { MOST_ARGUMENTS = 12 };

struct node_kind {
  const char *name; /* of the method */
  int type;         /* cch_node_type */
  int class;        /* of the node that it makes */
  int positional, required;
  int (*read)(state *st, const node_kind *kind, PyObject *const *given, node_params *out); /* NULL: a kernel's */
  const char *names[MOST_ARGUMENTS + 1];
};

/* ---- numbers ---- */

/* Reads a number from `least` on; one that is not given stays as it is. -1 with an exception. */
static int read_size(const state *st, PyObject *value, const char *name, size_t least, size_t *out) {
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

/* ---- memory ---- */

/* One operand of a copy or a fill. */
typedef struct operand {
  const char *name;
  CUdeviceptr address;
  Py_ssize_t size; /* of a buffer, -1: not known */
} operand;

/* An address that is a number. */
static int read_number(PyObject *value, const char *name, CUdeviceptr *out) {
  int overflow;
  const long long usual = PyLong_AsLongLongAndOverflow(value, &overflow); /* which is faster */
  if (!overflow && usual >= 0) {
    *out = (CUdeviceptr)usual;
    return 0;
  }
  PyErr_Clear();
  unsigned long long number = PyLong_AsUnsignedLongLong(value);
  if (number == (unsigned long long)-1 && PyErr_Occurred()) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s is %R, which is no address", name, value);
    return -1;
  }
  *out = number;
  return 0;
}

/* The bytes from an address to the end of the memory that it is in; -1 where it is not in it. */
static Py_ssize_t rest_of(const void *box, CUdeviceptr address) {
  if (cch_kind_of(box) != CCH_KIND_DEVICEPTR)
    return -1;
  CUdeviceptr start = cch_deviceptr_raw(box);
  size_t size = cch_deviceptr_size(box);
  return address >= start && address - start < size ? (Py_ssize_t)(size - (address - start)) : -1;
}

/*
 * Reads an operand, and adds to `keep` exactly one item: what keeps it alive, or an item without anything. So whoever
 * replaces one of a copy's operands finds what keeps the other.
 */
static int read_memory(state *st, PyObject *value, PyObject *owner, const char *name, owners *keep, operand *out) {
  out->name = name;
  out->size = -1;
  if (is_buffer(st, value)) {
    if (owner != NULL && owner != Py_None) {
      PyErr_Format(PyExc_ValueError, "%s is a Buffer, which is kept by itself: leave %s_owner out", name, name);
      return -1;
    }
    uint64_t address;
    if (owners_add_memory(keep, 0, value, &address) < 0)
      return -1;
    out->address = address;
    out->size = ((buffer *)value)->size;
  } else {
    PyObject *keeper = NULL; /* borrowed */
    if (PyLong_CheckExact(value)) {
      if (read_number(value, name, &out->address) < 0)
        return -1;
    } else {
      PyObject *address = PyObject_CallFunction(st->faces.node_memory, "Os", value, name);
      int status = address != NULL ? read_number(address, name, &out->address) : -1;
      Py_XDECREF(address);
      if (status < 0)
        return -1;
      keeper = value;
    }
    if (owner != NULL && owner != Py_None)
      keeper = owner;
    void *box = NULL;
    if (keeper != NULL && is_handle(st, keeper)) { /* the memory, not the face of it */
      if ((box = handle_hold(keeper)) == NULL)
        return -1;
      keeper = NULL;
      out->size = rest_of(box, out->address);
    }
    Py_XINCREF(keeper);
    if (owners_add(keep, 0, box, keeper) < 0)
      return -1;
  }
  if (out->address != 0)
    return 0;
  PyErr_Format(PyExc_ValueError, "%s is NULL: there is no memory", name);
  return -1;
}

/* Whether so many bytes are in an operand that knows its size. */
static int check_extent(const operand *memory, uint64_t bytes) {
  if (memory->size < 0 || bytes <= (uint64_t)memory->size)
    return 0;
  PyErr_Format(PyExc_ValueError, "%s has %zd bytes, and the node would use %llu", memory->name, memory->size,
               (unsigned long long)bytes);
  return -1;
}

/* The bytes from the first to the last of rows and slices; UINT64_MAX for what no memory has. */
static uint64_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
  __extension__ typedef unsigned __int128 wide;
  wide bytes = (wide)width + (wide)pitch * (height - 1) + (wide)pitch * slice * (depth - 1);
  return bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes;
}

/* Makes the bundle of a node of the list of what is kept, and releases the list. */
static int take_bundle(const state *st, owners *keep, node_params *out, int status) {
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

static int read_copy(state *st, PyObject *const *given, owners *keep, cch_memcpy_node *copy) {
  operand dst, src;
  copy->height = copy->depth = 1;
  if (read_memory(st, given[0], given[9], "dst", keep, &dst) < 0 ||
      read_memory(st, given[1], given[10], "src", keep, &src) < 0)
    return -1;
  copy->dst = dst.address;
  copy->src = src.address;
  if (read_size(st, given[2], "size", 1, &copy->width) < 0 || read_size(st, given[3], "height", 1, &copy->height) < 0 ||
      read_size(st, given[4], "depth", 1, &copy->depth) < 0 ||
      read_size(st, given[5], "dst_pitch", 0, &copy->dst_pitch) < 0 ||
      read_size(st, given[6], "src_pitch", 0, &copy->src_pitch) < 0 ||
      read_size(st, given[7], "dst_height", 0, &copy->dst_height) < 0 ||
      read_size(st, given[8], "src_height", 0, &copy->src_height) < 0)
    return -1;
  const struct {
    const operand *memory;
    size_t *pitch, *height;
  } sides[] = {{&dst, &copy->dst_pitch, &copy->dst_height}, {&src, &copy->src_pitch, &copy->src_height}};
  for (int i = 0; i < 2; i++) {
    const char *name = sides[i].memory->name;
    if (*sides[i].pitch == 0)
      *sides[i].pitch = copy->width;
    if (*sides[i].height == 0)
      *sides[i].height = copy->height;
    if (*sides[i].pitch < copy->width) {
      PyErr_Format(PyExc_ValueError, "%s_pitch is %zu bytes from row to row, less than the row's %zu", name,
                   *sides[i].pitch, copy->width);
      return -1;
    }
    if (*sides[i].height < copy->height) {
      PyErr_Format(PyExc_ValueError, "%s_height is %zu rows from slice to slice, less than the slice's %zu", name,
                   *sides[i].height, copy->height);
      return -1;
    }
    if (check_extent(sides[i].memory,
                     extent(copy->width, copy->height, copy->depth, *sides[i].pitch, *sides[i].height)) < 0)
      return -1;
  }
  return 0;
}

static int read_memcpy(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  (void)kind;
  owners keep;
  owners_init(&keep, false);
  out->of.memcpy.size = sizeof out->of.memcpy;
  return take_bundle(st, &keep, out, read_copy(st, given, &keep, &out->of.memcpy));
}

/* The value of a fill: an int is one byte. */
static int read_fill(state *st, PyObject *value, cch_memset_node *fill) {
  if (PyLong_CheckExact(value)) {
    int overflow;
    long number = PyLong_AsLongAndOverflow(value, &overflow);
    fill->element_size = 1;
    fill->value = (uint32_t)number;
    if (!overflow && number >= 0 && number < 256)
      return 0;
  }
  unsigned long pattern;
  unsigned bytes;
  PyObject *read = PyObject_CallFunctionObjArgs(st->faces.fill_value, value, NULL);
  int status = read != NULL && PyArg_ParseTuple(read, "kI:fill_value", &pattern, &bytes) ? 0 : -1;
  Py_XDECREF(read);
  if (status == 0) {
    fill->value = (uint32_t)pattern;
    fill->element_size = bytes;
  }
  return status;
}

static int read_set(state *st, PyObject *const *given, owners *keep, cch_memset_node *fill) {
  operand dst;
  fill->height = 1;
  if (read_memory(st, given[0], given[5], "dst", keep, &dst) < 0 || read_fill(st, given[1], fill) < 0 ||
      read_size(st, given[2], "width", 1, &fill->width) < 0 ||
      read_size(st, given[3], "height", 1, &fill->height) < 0 || read_size(st, given[4], "pitch", 0, &fill->pitch) < 0)
    return -1;
  fill->dst = dst.address;
  size_t row = fill->width <= PTRDIFF_MAX / fill->element_size ? fill->width * fill->element_size : PTRDIFF_MAX;
  if (fill->height > 1 && fill->pitch < row) {
    PyErr_Format(PyExc_ValueError, "pitch is %zu bytes from row to row, less than the row's %zu (%zu of %u)",
                 fill->pitch, row, fill->width, fill->element_size);
    return -1;
  }
  if (dst.address % fill->element_size != 0 || (fill->height > 1 && fill->pitch % fill->element_size != 0)) {
    PyErr_Format(PyExc_ValueError, "dst and pitch must be multiples of the value's %u bytes", fill->element_size);
    return -1;
  }
  return check_extent(&dst, extent(row, fill->height, 1, fill->pitch, 1));
}

static int read_memset(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  (void)kind;
  owners keep;
  owners_init(&keep, false);
  out->of.memset.size = sizeof out->of.memset;
  return take_bundle(st, &keep, out, read_set(st, given, &keep, &out->of.memset));
}

/* ---- functions of the host ---- */

/* Whether an object is a function of Python's own, for certain: foreign functions have classes of a class of their own.
 */
static bool is_python_function(PyObject *function) {
  return Py_TYPE(Py_TYPE(function)) == &PyType_Type && PyCallable_Check(function);
}

/* A Python function: the owner that keeps it is the data of the call. */
static int read_function(const state *st, PyObject *function, node_params *out) {
  owner *kept = owner_make(st, function, false);
  if (kept == NULL)
    return -1;
  int status = cch_bundle_create(&out->bundle, 1);
  if (status == 0)
    status = cch_bundle_add_object(out->bundle, kept, owner_release);
  if (status != 0) {
    owner_discard(kept);
    raise_status(st, status);
    return -1;
  }
  out->of.host.function = call_python;
  out->of.host.data = kept;
  return 0;
}

static int read_callback(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  (void)kind;
  out->of.host.size = sizeof out->of.host;
  PyObject *function = given[0], *data = given[1] != NULL ? given[1] : Py_None;
  if (data == Py_None && is_python_function(function))
    return read_function(st, function, out);
  PyObject *found = PyObject_CallFunctionObjArgs(st->faces.host_function, function, data, NULL);
  if (found == Py_None) {
    Py_DECREF(found);
    return read_function(st, function, out);
  }
  unsigned long long address, argument;
  PyObject *keepers;
  int status =
      found != NULL && PyArg_ParseTuple(found, "KKO!:host_function", &address, &argument, &PyTuple_Type, &keepers) ? 0
                                                                                                                   : -1;
  if (status == 0) {
    out->of.host.function = (cch_host_fn)(uintptr_t)address;
    out->of.host.data = (void *)(uintptr_t)argument;
    owners keep;
    owners_init(&keep, false);
    for (Py_ssize_t i = 0; i < PyTuple_Size(keepers) && status == 0; i++) {
      PyObject *keeper = PyTuple_GetItem(keepers, i);
      Py_INCREF(keeper);
      status = owners_add(&keep, 0, NULL, keeper);
    }
    status = take_bundle(st, &keep, out, status);
  }
  Py_XDECREF(found);
  return status;
}

/* ---- other objects ---- */

/* The box of a face of a type, in use until node_params_drop(); NULL with an exception. */
static void *use(PyObject *face, const PyTypeObject *type, const char *message, node_params *out) {
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
  out->of.event.event = use(given[0], st->event_type, "event must be an Event, not '%U'", out);
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

/* ---- memory of graphs ---- */

/* (location type, location, allocation type, tuple of peers), as Python made them of what was given. */
static int read_place(PyObject *place, node_params *out) {
  cch_alloc_node *alloc = &out->of.alloc;
  int location_type, location, alloc_type;
  PyObject *peers;
  if (!PyArg_ParseTuple(place, "iiiO!:alloc_place", &location_type, &location, &alloc_type, &PyTuple_Type, &peers))
    return -1;
  alloc->location_type = location_type;
  alloc->location_id = location;
  alloc->alloc_type = alloc_type;
  alloc->peer_count = (size_t)PyTuple_Size(peers);
  if (alloc->peer_count == 0)
    return 0;
  int32_t *ordinals = out->heap = PyMem_Malloc(alloc->peer_count * sizeof *ordinals);
  if (ordinals == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < alloc->peer_count; i++)
    ordinals[i] = (int32_t)PyLong_AsLong(PyTuple_GetItem(peers, (Py_ssize_t)i));
  alloc->peers = ordinals;
  return PyErr_Occurred() ? -1 : 0;
}

static int read_alloc(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  (void)kind;
  cch_alloc_node *alloc = &out->of.alloc;
  alloc->size = sizeof *alloc;
  if (read_size(st, given[0], "size", 1, &alloc->bytes) < 0)
    return -1;
  bool plain = true;
  for (int i = 1; i <= 3; i++)
    plain &= given[i] == NULL || given[i] == Py_None;
  if (plain) {
    int device = 0, status = cch_current_device(&device);
    if (status != 0) {
      raise_status(st, status);
      return -1;
    }
    alloc->location_type = CCH_LOCATION_DEVICE;
    alloc->location_id = device;
    return 0;
  }
  PyObject *place =
      PyObject_CallFunctionObjArgs(st->faces.alloc_place, given[1] != NULL ? given[1] : Py_None,
                                   given[2] != NULL ? given[2] : Py_None, given[3] != NULL ? given[3] : Py_None, NULL);
  int status = place != NULL ? read_place(place, out) : -1;
  Py_XDECREF(place);
  return status;
}

static int read_free(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  (void)kind;
  out->of.free.size = sizeof out->of.free;
  CUdeviceptr address = 0;
  if (PyLong_CheckExact(given[0])) {
    if (read_number(given[0], "dptr", &address) < 0)
      return -1;
  } else {
    PyObject *number = PyObject_CallFunction(st->faces.node_memory, "Os", given[0], "dptr");
    int status = number != NULL ? read_number(number, "dptr", &address) : -1;
    Py_XDECREF(number);
    if (status < 0)
      return -1;
  }
  if (address == 0) {
    PyErr_SetString(PyExc_ValueError, "dptr is NULL: there is nothing to free");
    return -1;
  }
  out->of.free.address = address;
  return 0;
}

/* ---- conditions ---- */

static int read_condition(state *st, const node_kind *kind, PyObject *const *given, node_params *out) {
  size_t count = kind->class == CLASS_IF_ELSE ? 2 : 1;
  if (!PyType_IsSubtype(Py_TYPE(given[0]), st->condition_type))
    return raise_about(PyExc_TypeError, "condition must be a GraphCondition, not '%U'; create_condition() makes one",
                       given[0], 0, 0);
  if (kind->class == CLASS_SWITCH && read_size(st, given[1], "count", 1, &count) < 0)
    return -1;
  if (count > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "count is %zu; a switch has at most 2**31 - 1 branches", count);
    return -1;
  }
  Py_INCREF(given[0]);
  out->condition = given[0];
  out->of.conditional = (cch_conditional_node){
      .size = sizeof out->of.conditional,
      .condition = ((condition *)given[0])->handle,
      .type = kind->class == CLASS_WHILE    ? CCH_CONDITIONAL_WHILE
              : kind->class == CLASS_SWITCH ? CCH_CONDITIONAL_SWITCH
                                            : CCH_CONDITIONAL_IF,
      .count = (uint32_t)count,
  };
  return 0;
}

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

/* ---- kernels ---- */

static bool is_ready(const state *st, PyObject *settings, PyObject *face) {
  if ((PyObject *)Py_TYPE(settings) != st->faces.config || (PyObject *)Py_TYPE(face) != st->faces.kernel ||
      ((kernel *)face)->layout_bytes == NULL)
    return false;
  unsigned shared = ((config *)settings)->config.shared_bytes;
  int device;
  return shared == 0 || (((kernel *)face)->shared_allowed >= shared && cch_current_device(&device) == 0 &&
                         ((kernel *)face)->shared_device == device);
}

/* The kernel with its layout, or one that stands in for it: a new reference, NULL with an exception. */
static PyObject *make_ready(const state *st, PyObject *settings, PyObject *face, const values *given) {
  PyObject *arguments = PyTuple_New(given->count);
  if (arguments == NULL)
    return NULL;
  for (Py_ssize_t i = 0; i < given->count; i++)
    PyTuple_SetItem(arguments, i, Py_NewRef(value_at(given, i)));
  PyObject *result = PyObject_CallFunctionObjArgs(st->faces.check_node_kernel, settings, face, arguments, NULL);
  Py_DECREF(arguments);
  return result;
}

int node_params_read_kernel(state *st, PyObject *settings, PyObject *face, values given, void *scratch,
                            node_params *out) {
  out->type = out->class = CCH_NODE_KERNEL;
  PyObject *made_ready = NULL;
  if (!is_ready(st, settings, face)) {
    made_ready = make_ready(st, settings, face, &given);
    if (made_ready == NULL)
      return -1;
    face = made_ready;
  }
  cch_kernel_node *params = &out->of.kernel;
  params->size = sizeof *params;
  params->kernel = use(face, st->kernel_type, "kernel must be a Kernel, not '%U'", out);
  Py_XDECREF(made_ready); /* in use, if it is a kernel */
  if (params->kernel == NULL)
    return -1;
  out->config = ((config *)settings)->config;
  params->config = &out->config;
  PyObject *layout_bytes = ((kernel *)face)->layout_bytes;
  layout layout = ((kernel *)face)->params;
  Py_INCREF(layout_bytes);
  void *block = scratch;
  if (block == NULL || layout.total > SCRATCH_SIZE)
    block = out->heap = PyMem_Malloc(layout.total != 0 ? (size_t)layout.total : 1);
  owners keep;
  owners_init(&keep, false);
  int status = -1, device = -1;
  if (block == NULL)
    PyErr_NoMemory();
  else if (device_to_check(st, &device) == 0)
    status = pack_values(st, &layout, given, block, &keep, device);
  Py_DECREF(layout_bytes);
  params->args = block;
  params->args_size = (size_t)layout.total;
  return take_bundle(st, &keep, out, status);
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
  PyErr_Format(PyExc_ValueError,
               "%R is no kind of node; it must be one of launch, memcpy, memset, callback, embed, empty, record, wait, "
               "allocate, deallocate, if_then, if_else, while_loop, switch",
               name);
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
    PyObject *given[MOST_ARGUMENTS] = {NULL};
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
  PyObject *given[MOST_ARGUMENTS] = {NULL};
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
  PyObject *given[MOST_ARGUMENTS] = {NULL};
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
