/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of arrays and textures, in the structures of the C library. Python code checks and converts them, and has all
 * error messages. The results for the last few options are cached, because programs create many textures with the same
 * options, and comparing values takes a hundredth of the time of checking them.
 *
 * Programs can change option objects, so the cache compares their values. Only ints, floats, strings, members of
 * enumerations and tuples of these are compared, because they cannot change. Options that have any other value are
 * checked each time.
 */
#include "texture/texture.h"

enum { KEPT = 8, DEPTH = 3, MAX_FIELDS = 16 };

/* The names and values are borrowed from `options.fields`. Comparing these arrays is faster than looking up fields. */
typedef struct entry {
  checked_options options;
  Py_ssize_t count;
  PyObject *names[MAX_FIELDS], *values[MAX_FIELDS];
} entry;

struct kept_options {
  entry entries[KEPT];
  unsigned next; /* index of the entry to replace next */
};

/* Returns whether a value is immutable. */
static bool is_plain(PyObject *value, int depth) {
  if (value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
      PyUnicode_Check(value))
    return true;
  if (!PyTuple_CheckExact(value) || depth == 0)
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(value); i++)
    if (!is_plain(PyTuple_GetItem(value, i), depth - 1))
      return false;
  return true;
}

/* Returns whether a value has the same type as a cached plain value, and is equal to it. Runs no Python code. */
static bool is_same(PyObject *value, PyObject *plain) {
  if (value == plain)
    return true;
  if (Py_TYPE(value) != Py_TYPE(plain))
    return false;
  if (PyLong_CheckExact(value) || PyUnicode_CheckExact(value))
    return PyObject_RichCompareBool(value, plain, Py_EQ) == 1;
  if (PyFloat_CheckExact(value)) {
    double one = PyFloat_AsDouble(value), other = PyFloat_AsDouble(plain);
    return memcmp(&one, &other, sizeof one) == 0; /* -0.0 is not 0.0 */
  }
  if (!PyTuple_CheckExact(value) || PyTuple_Size(value) != PyTuple_Size(plain))
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(value); i++)
    if (!is_same(PyTuple_GetItem(value, i), PyTuple_GetItem(plain, i)))
      return false;
  return true;
}

/* Fills in the names and values of an entry. Returns false if one of the values can change, or there are too many. */
static bool read_fields(entry *out, PyObject *fields) {
  Py_ssize_t place = 0;
  PyObject *name, *value;
  out->count = 0;
  while (fields != NULL && PyDict_Next(fields, &place, &name, &value)) {
    if (out->count == MAX_FIELDS || !is_plain(value, DEPTH))
      return false;
    out->names[out->count] = name;
    out->values[out->count++] = value;
  }
  return true;
}

/*
 * Returns whether a dictionary has the same names and values as an entry, in the same order. Names of attributes are
 * interned, so their pointers are compared.
 */
static bool are_same(PyObject *given, const entry *kept) {
  Py_ssize_t place = 0, i = 0;
  PyObject *name, *value;
  if (PyDict_Size(given) != kept->count)
    return false;
  for (; i < kept->count && PyDict_Next(given, &place, &name, &value); i++)
    if (name != kept->names[i] || !is_same(value, kept->values[i]))
      return false;
  return i == kept->count;
}

/* Finds an entry for find(). Called with the locks of the cache and of the dictionary. */
static bool find_locked(const state *st, options_kind kind, PyObject *fields, int device, checked_options *out) {
  for (int i = 0; i < KEPT; i++) {
    const entry *kept = &st->texture.options->entries[i];
    const checked_options *options = &kept->options;
    if (options->copy == NULL || options->kind != kind || options->device != device)
      continue;
    if (fields == NULL ? options->fields != NULL : options->fields == NULL || !are_same(fields, kept))
      continue;
    *out = *options;
    Py_INCREF(out->copy);
    Py_XINCREF(out->fields);
    return true;
  }
  return false;
}

/* Finds cached options of a kind whose values equal those of `fields`, which is NULL if the options are None. */
static bool find(state *st, options_kind kind, PyObject *fields, int device, checked_options *out) {
  bool found;
  LOCK_OBJECT(fields != NULL ? fields : Py_None); /* other threads can change the options */
  LOCK_TABLE(&st->texture.lock);
  found = find_locked(st, kind, fields, device, out);
  UNLOCK_TABLE(&st->texture.lock);
  UNLOCK_OBJECT();
  return found;
}

void options_done(checked_options *options) {
  PyObject *copy = options->copy, *fields = options->fields;
  options->copy = options->fields = NULL;
  Py_XDECREF(fields);
  Py_XDECREF(copy);
}

static void keep(state *st, const checked_options *made) {
  entry kept = {.options = *made};
  if (!read_fields(&kept, made->fields))
    return;
  Py_INCREF(made->copy);
  Py_XINCREF(made->fields);
  LOCK_TABLE(&st->texture.lock);
  entry *place = &st->texture.options->entries[st->texture.options->next++ % KEPT];
  checked_options old = place->options;
  *place = kept;
  UNLOCK_TABLE(&st->texture.lock);
  options_done(&old); /* comes last, because it can run Python code that uses the cache */
}

/* Calls the Python function that checks options. Returns -1 with an exception set if it fails. */
static int check(PyObject *function, PyObject *options, size_t size, checked_options *out) {
  PyObject *result = PyObject_CallFunction(function, "Oi", options, out->device), *copy;
  char *bytes;
  Py_ssize_t length;
  if (result == NULL || !PyArg_ParseTuple(result, "Oy#", &copy, &bytes, &length) || (size_t)length != size) {
    Py_XDECREF(result);
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_SystemError, "checked options have another size than their structure");
    return -1;
  }
  memcpy(&out->as, bytes, size);
  Py_INCREF(copy);
  out->copy = copy;
  Py_DECREF(result);
  return 0;
}

int options_read(state *st, options_kind kind, PyObject *options, int device, checked_options *out) {
  PyObject *const functions[] = {st->faces.check_array, st->faces.check_mipmapped_array, st->faces.check_texture};
  PyObject *const classes[] = {st->faces.array_options, st->faces.mipmapped_array_options, st->faces.texture_options};
  const size_t sizes[] = {sizeof(cch_array_desc), sizeof(cch_array_desc), sizeof(sampling)};
  bool is_none = options == Py_None, can_be_kept = is_none || (PyObject *)Py_TYPE(options) == classes[kind];
  if (can_be_kept) {
    PyObject *fields = is_none ? NULL : PyObject_GenericGetDict(options, NULL);
    if (fields == NULL && !is_none)
      return -1;
    bool found = find(st, kind, fields, device, out);
    Py_XDECREF(fields);
    if (found)
      return 0;
  }
  *out = (checked_options){.kind = kind, .device = device};
  if (check(functions[kind], options, sizes[kind], out) < 0)
    return -1;
  if (can_be_kept && !is_none) {
    out->fields = PyObject_GenericGetDict(out->copy, NULL);
    if (out->fields == NULL) {
      options_done(out);
      return -1;
    }
  }
  if (can_be_kept)
    keep(st, out);
  return 0;
}

int options_visit(state *st, visitproc visit, void *arg) {
  for (int i = 0; st->texture.options != NULL && i < KEPT; i++) {
    Py_VISIT(st->texture.options->entries[i].options.copy);
    Py_VISIT(st->texture.options->entries[i].options.fields);
  }
  return 0;
}

void options_clear(state *st) {
  for (int i = 0; st->texture.options != NULL && i < KEPT; i++)
    options_done(&st->texture.options->entries[i].options);
}

int options_begin(state *st) {
  st->texture.options = PyMem_Calloc(1, sizeof *st->texture.options);
  if (st->texture.options != NULL)
    return 0;
  PyErr_NoMemory();
  return -1;
}

void options_end(state *st) {
  PyMem_Free(st->texture.options);
  st->texture.options = NULL;
}
