/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LaunchConfig. Its fields are in the library's structure, which launches pass on. The constructor takes ints, tuples
 * and lists of ints, bools and None, if they are in range. All other arguments go to the constructor in Python. It
 * raises the errors, or calls this one with what the arguments mean.
 */
#include "launch/launch.h"

enum {
#define ARGUMENT(name, text) ARGUMENT_##name,
  CONFIG_ARGUMENTS(ARGUMENT)
#undef ARGUMENT
      ARGUMENT_COUNT
};

static const uint32_t grid_limits[] = {INT32_MAX, 65535, 65535}, block_limits[] = {INT32_MAX, INT32_MAX, INT32_MAX};

/* The functions that read arguments return false, without an exception, for what Python code must look at. */

static bool read_number(PyObject *value, int64_t least, int64_t most, uint32_t *out) {
  if (!PyLong_CheckExact(value))
    return false;
  int overflow;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  *out = (uint32_t)number;
  return overflow == 0 && number >= least && number <= most;
}

static bool read_extents(PyObject *value, const uint32_t *limits, uint32_t *out) {
  out[0] = out[1] = out[2] = 1;
  if (PyList_CheckExact(value)) {
    PyObject *items = PyList_AsTuple(value);
    const bool taken = items != NULL && read_extents(items, limits, out);
    PyErr_Clear();
    Py_XDECREF(items);
    return taken;
  }
  if (!PyTuple_CheckExact(value))
    return read_number(value, 1, limits[0], out);
  const Py_ssize_t count = PyTuple_Size(value);
  for (Py_ssize_t i = 0; i < count && count <= 3; i++)
    if (!read_number(PyTuple_GetItem(value, i), 1, limits[i], &out[i]))
      return false;
  return count >= 1 && count <= 3;
}

static bool read_flag(PyObject *value, uint32_t flag, uint32_t *flags) {
  if (value == Py_True)
    *flags |= flag;
  return value == Py_True || value == Py_False || value == Py_None;
}

static bool read_config(PyObject *const *given, cch_launch_config *out) {
  cch_launch_config c = {.size = sizeof c};
  PyObject *shared = given[ARGUMENT_shmem_size], *priority = given[ARGUMENT_priority];
  if (!read_extents(given[ARGUMENT_grid], grid_limits, c.grid) ||
      !read_extents(given[ARGUMENT_block], block_limits, c.block) ||
      !read_flag(given[ARGUMENT_is_cooperative], CCH_LAUNCH_COOPERATIVE, &c.flags) ||
      !read_flag(given[ARGUMENT_programmatic], CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION, &c.flags) ||
      (shared != Py_None && !read_number(shared, 0, INT32_MAX, &c.shared_bytes)))
    return false;
  if (given[ARGUMENT_cluster] != Py_None) {
    if (!read_extents(given[ARGUMENT_cluster], grid_limits, c.cluster))
      return false;
    for (int i = 0; i < 3; i++) { /* the library counts blocks */
      const uint64_t blocks = (uint64_t)c.grid[i] * c.cluster[i];
      if (blocks > grid_limits[i])
        return false;
      c.grid[i] = (uint32_t)blocks;
    }
  }
  if (priority != Py_None) {
    uint32_t number;
    if (!read_number(priority, INT32_MIN, INT32_MAX, &number))
      return false;
    c.flags |= CCH_LAUNCH_PRIORITY;
    c.priority = (int32_t)number;
  }
  *out = c;
  return true;
}

/* Sorts the arguments by their names. Those that are not given are None. */
static bool sort(const state *st, PyObject *arguments, PyObject *keywords, PyObject **out) {
#define NAME(name, text) st->names.name,
  PyObject *const names[] = {CONFIG_ARGUMENTS(NAME)};
#undef NAME
  const Py_ssize_t count = PyTuple_Size(arguments);
  if (count > ARGUMENT_COUNT)
    return false;
  for (Py_ssize_t i = 0; i < ARGUMENT_COUNT; i++)
    out[i] = i < count ? PyTuple_GetItem(arguments, i) : Py_None;
  PyObject *name, *value;
  Py_ssize_t place = 0;
  while (keywords != NULL && PyDict_Next(keywords, &place, &name, &value)) { /* the dict belongs to this call */
    Py_ssize_t i = count;
    while (i < ARGUMENT_COUNT && names[i] != name)
      i++;
    if (i == ARGUMENT_COUNT)
      return false;
    out[i] = value;
  }
  return true;
}

static int config_init(PyObject *self, PyObject *arguments, PyObject *keywords) {
  const state *st = state_of_type(Py_TYPE(self));
  PyObject *given[ARGUMENT_COUNT];
  if (sort(st, arguments, keywords, given) && read_config(given, &((config *)self)->config))
    return 0;
  PyObject *first = PyTuple_Pack(1, self), *all = first != NULL ? PySequence_Concat(first, arguments) : NULL;
  PyObject *none = all != NULL ? PyObject_Call(st->faces.init_config, all, keywords) : NULL;
  Py_XDECREF(none);
  Py_XDECREF(all);
  Py_XDECREF(first);
  return none != NULL ? 0 : -1;
}

PyObject *config_of_node(const state *st, const cch_launch_config *read) {
  config *self = new_object((PyTypeObject *)st->faces.config);
  if (self == NULL)
    return NULL;
  self->config = *read;
  if (self->config.priority == 0) /* the driver reports a priority for every node: 0 if none was set */
    self->config.flags &= ~CCH_LAUNCH_PRIORITY;
  return (PyObject *)self;
}

static void config_dealloc(PyObject *self) {
  PyObject_ClearWeakRefs(self);
  free_object(self);
}

static PyObject *config_compare(PyObject *a, PyObject *b, int operation) {
  if ((operation != Py_EQ && operation != Py_NE) ||
      !PyType_IsSubtype(Py_TYPE(b), state_of_type(Py_TYPE(a))->config_type))
    Py_RETURN_NOTIMPLEMENTED;
  const bool is_same = memcmp(&((config *)a)->config, &((config *)b)->config, sizeof(cch_launch_config)) == 0;
  return PyBool_FromLong(is_same == (operation == Py_EQ));
}

static Py_hash_t config_hash(PyObject *self) {
  const uint32_t *word = (const uint32_t *)&((config *)self)->config;
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof(cch_launch_config) / sizeof *word; i++)
    hash = (hash ^ word[i]) * 0x9e3779b97f4a7c15u;
  return (Py_hash_t)(hash >> 1); /* never -1 */
}

static PyObject *get_extents(PyObject *self, void *offset) {
  static const uint32_t one[] = {1, 1, 1};
  const cch_launch_config *c = &((config *)self)->config;
  const uint32_t *each = (const uint32_t *)((const char *)c + (uintptr_t)offset);
  const uint32_t *unit = each == c->grid && c->cluster[0] != 0 ? c->cluster : one; /* the library counts blocks */
  if (each[0] == 0)                                                                /* there are no clusters */
    return Py_NewRef(Py_None);
  PyObject *result = PyTuple_New(3);
  for (int i = 0; i < 3 && result != NULL; i++) {
    PyObject *number = PyLong_FromUnsignedLong(each[i] / unit[i]);
    if (number == NULL)
      Py_CLEAR(result);
    else
      PyTuple_SetItem(result, i, number);
  }
  return result;
}

static PyObject *get_flag(PyObject *self, void *flag) {
  return PyBool_FromLong((((config *)self)->config.flags & (uintptr_t)flag) != 0);
}

static PyObject *get_priority(PyObject *self, void *closure) {
  (void)closure;
  const cch_launch_config *c = &((config *)self)->config;
  return (c->flags & CCH_LAUNCH_PRIORITY) != 0 ? PyLong_FromLong(c->priority) : Py_NewRef(Py_None);
}

static PyObject *get_address(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromVoidPtr(&((config *)self)->config);
}

static PyMemberDef config_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(config, weak), READONLY, NULL},
    {"shmem_size", T_UINT, offsetof(config, config.shared_bytes), READONLY, DOC_Config_shmem_size},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef config_properties[] = {
    {"grid", get_extents, NULL, DOC_Config_grid, (void *)offsetof(cch_launch_config, grid)},
    {"cluster", get_extents, NULL, DOC_Config_cluster, (void *)offsetof(cch_launch_config, cluster)},
    {"block", get_extents, NULL, DOC_Config_block, (void *)offsetof(cch_launch_config, block)},
    {"is_cooperative", get_flag, NULL, DOC_Config_is_cooperative, (void *)CCH_LAUNCH_COOPERATIVE},
    {"programmatic_stream_serialization", get_flag, NULL, DOC_Config_programmatic_stream_serialization,
     (void *)CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION},
    {"priority", get_priority, NULL, DOC_Config_priority, NULL},
    {"_address", get_address, NULL, DOC_Config__address, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Spec config_spec =
    TYPE_SPEC("cudacore_handles.LaunchConfig", config, SLOT(tp_doc, DOC_Config), SLOT(tp_init, config_init),
              SLOT(tp_dealloc, config_dealloc), SLOT(tp_richcompare, config_compare), SLOT(tp_hash, config_hash),
              SLOT(tp_members, config_members), SLOT(tp_getset, config_properties));

int add_config_type(PyObject *module, state *st) {
  return add_type(module, NULL, "Config", &config_spec, NULL, &st->config_type);
}
