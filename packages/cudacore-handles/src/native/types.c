/* SPDX-License-Identifier: Apache-2.0 */
/* How the values of each type are packed: a table of the types that the module was told about. */
#include "native.h"

static size_t home_slot(const state *st, const void *type) {
  /* Fibonacci hashing: the multiplier spreads neighbouring addresses over the high half, which is folded down. */
  uint64_t hash = (uint64_t)(uintptr_t)type * UINT64_C(0x9E3779B97F4A7C15);
  return (size_t)(hash >> 32) & st->mask;
}

type_entry *types_find(const state *st, const void *type) {
  size_t i = home_slot(st, type);
  while (st->table[i].type && st->table[i].type != type)
    i = (i + 1) & st->mask;
  return &st->table[i];
}

int types_reserve(state *st, size_t slots) {
  type_entry *table = PyMem_Calloc(slots, sizeof *table);
  if (!table) {
    PyErr_NoMemory();
    return -1;
  }
  type_entry *old = st->table;
  size_t old_slots = old ? st->mask + 1 : 0;
  st->table = table;
  st->mask = slots - 1;
  for (size_t i = 0; i < old_slots; ++i)
    if (old[i].type)
      *types_find(st, old[i].type) = old[i];
  PyMem_Free(old);
  return 0;
}

int types_store(state *st, type_entry item) {
  if (2 * (st->used + 1) > st->mask + 1 && types_reserve(st, 2 * (st->mask + 1)) < 0) {
    Py_XDECREF(item.weak);
    Py_XDECREF(item.converter);
    return -1;
  }
  type_entry *slot = types_find(st, item.type);
  type_entry old = *slot;
  *slot = item;
  if (!old.type)
    ++st->used;
  Py_XDECREF(old.weak);
  Py_XDECREF(old.converter);
  return 0;
}

static void remove_slot(state *st, size_t hole) {
  type_entry old = st->table[hole];
  /* Close the gap: an entry further on moves into it unless its home lies between the gap and its place. */
  for (size_t i = (hole + 1) & st->mask; st->table[i].type; i = (i + 1) & st->mask) {
    size_t from_home = (i - home_slot(st, st->table[i].type)) & st->mask;
    if (from_home >= ((i - hole) & st->mask)) {
      st->table[hole] = st->table[i];
      hole = i;
    }
  }
  st->table[hole] = (type_entry){0};
  --st->used;
  Py_XDECREF(old.weak);
  Py_XDECREF(old.converter);
}

/* ---- telling the module about types ---- */

/* Reads a code (kind | itemsize << 8) into an entry. */
static int read_code(PyObject *code, type_entry *out) {
  int overflow;
  long number = PyLong_AsLongAndOverflow(code, &overflow);
  unsigned long itemsize = (unsigned long)number >> 8;
  int valid = 0;
  if (!overflow && number >= 0) {
    int integral = itemsize == 0 || itemsize == 1 || itemsize == 2 || itemsize == 4 || itemsize == 8;
    switch (number & 0xFF) {
    case KIND_SIGNED:
    case KIND_UNSIGNED:
    case KIND_BOOL:
      valid = integral;
      break;
    case KIND_FLOAT:
      valid = integral && itemsize != 1;
      break;
    case KIND_COMPLEX:
      valid = itemsize == 0 || itemsize == 8 || itemsize == 16;
      break;
    case KIND_POINTER:
      valid = itemsize == 0 || itemsize == 8;
      break;
    default:
      break;
    }
  }
  if (!valid) {
    PyErr_Format(PyExc_ValueError, "code must be kind | itemsize << 8, with a size that the kind can have, not %R",
                 code);
    return -1;
  }
  out->kind = (kind)(number & 0xFF);
  out->itemsize = (uint32_t)itemsize;
  return 0;
}

const char register_doc[] = "register(cls, code, /)\n--\n\n"
                            "Tell how values of exactly this type are packed: a code, or a converter(value, size).";

PyObject *types_register(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  if (check_argument_count("register(cls, code)", count, 2) < 0)
    return NULL;
  state *st = PyModule_GetState(module);
  PyObject *type = arguments[0], *code = arguments[1];
  if (!PyType_Check(type)) {
    raise_about(PyExc_TypeError, "cls must be a class, not a '%U'", type, 0, 0);
    return NULL;
  }
  const type_entry *known = types_find(st, type);
  if (known->type && !known->weak)
    return PyErr_Format(PyExc_ValueError, "%R is packed by the module itself and cannot be registered", type);
  type_entry item = {.type = type};
  if (PyLong_Check(code)) {
    if (read_code(code, &item) < 0)
      return NULL;
  } else if (PyCallable_Check(code)) {
    item.kind = KIND_CONVERTER;
  } else {
    raise_about(PyExc_TypeError, "code must be an int or a callable, not '%U'", code, 0, 0);
    return NULL;
  }
  item.weak = PyWeakref_NewRef(type, st->forget);
  if (!item.weak)
    return NULL;
  if (item.kind == KIND_CONVERTER) {
    Py_INCREF(code);
    item.converter = code;
  }
  if (types_store(st, item) < 0)
    return NULL;
  Py_RETURN_NONE;
}

const char registered_doc[] = "registered(cls, /)\n--\n\n"
                              "Return what register() was given for exactly this type, or None.";

PyObject *types_registered(PyObject *module, PyObject *type) {
  const type_entry *found = types_find(PyModule_GetState(module), type);
  if (!found->type || !found->weak)
    Py_RETURN_NONE;
  if (found->kind != KIND_CONVERTER)
    return PyLong_FromUnsignedLong((unsigned long)found->kind | (unsigned long)found->itemsize << 8);
  Py_INCREF(found->converter);
  return found->converter;
}

/* The callback of the weak references: their type is about to be freed. */
PyObject *types_forget(PyObject *module, PyObject *weak) {
  state *st = PyModule_GetState(module);
  for (size_t i = 0; i <= st->mask; ++i)
    if (st->table[i].type && st->table[i].weak == weak) {
      remove_slot(st, i);
      break;
    }
  Py_RETURN_NONE;
}

const char set_resolver_doc[] =
    "set_resolver(resolver, /)\n--\n\n"
    "Set who is asked, as resolver(type, value), about a type that is not registered: it registers the type\n"
    "and returns True, or returns False. None: nobody.";

PyObject *types_set_resolver(PyObject *module, PyObject *resolver) {
  state *st = PyModule_GetState(module);
  if (resolver != Py_None && !PyCallable_Check(resolver)) {
    raise_about(PyExc_TypeError, "resolver must be callable or None, not '%U'", resolver, 0, 0);
    return NULL;
  }
  PyObject *old = st->resolver;
  st->resolver = NULL;
  if (resolver != Py_None) {
    Py_INCREF(resolver);
    st->resolver = resolver;
  }
  Py_XDECREF(old);
  Py_RETURN_NONE;
}
