/* SPDX-License-Identifier: Apache-2.0 */
/* How the values of each type are packed: a table of the registered types. */
#include "base/types.h"

enum { TABLE_START = 64 }; /* slots of a new table of types; a power of two */

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

/* ---- tensors ---- */

static bool has_elements(const dl_tensor *tensor) {
  for (int32_t i = 0; i < tensor->ndim; i++)
    if (tensor->shape[i] == 0)
      return false;
  return true;
}

/* Whether a tensor can be the real or the imaginary part of a complex tensor: the strides of such a part are even. */
static bool can_be_part(const dl_tensor *tensor) {
  for (int32_t i = tensor->ndim - 1; i >= 0; i--)
    if (tensor->shape[i] != 1 && (tensor->strides == NULL || tensor->strides[i] % 2 != 0))
      return false;
  return true;
}

/*
 * PyTorch conjugates lazily: x.conj() shares the memory of x and sets a flag, and its imaginary part has another flag.
 * PyTorch's exchange API does not report these flags. The flags of a tensor are read only if it can have one of these
 * flags.
 */
int check_exchanged(const state *st, PyObject *object, const dl_tensor *tensor) {
  if (tensor->data == NULL && has_elements(tensor))
    return raise_about(PyExc_BufferError, "%U has elements, but no memory for them", object, 0, 0);
  PyObject *name = NULL; /* borrowed */
  if (tensor->dtype.code == DL_COMPLEX)
    name = st->names.is_conj;
  else if (tensor->dtype.code == DL_FLOAT && can_be_part(tensor))
    name = st->names.is_neg;
  if (name == NULL)
    return 0;
  PyObject *is_set = PyObject_CallMethodObjArgs(object, name, NULL);
  if (is_set == NULL) { /* the object is not PyTorch's */
    PyErr_Clear();
    return 0;
  }
  int set = PyObject_IsTrue(is_set);
  Py_DECREF(is_set);
  if (set <= 0)
    return set;
  PyObject *nothing = PyObject_CallFunction(st->faces.check_values, "Os", object, "the tensor");
  Py_XDECREF(nothing);
  return nothing != NULL ? 0 : -1;
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

void types_drop(type_entry *entry) {
  Py_XDECREF(entry->weak);
  Py_XDECREF(entry->to_address[0].property);
  Py_XDECREF(entry->to_address[1].property);
  Py_XDECREF(entry->given);
}

int types_store(state *st, type_entry item) {
  if (2 * (st->used + 1) > st->mask + 1 && types_reserve(st, 2 * (st->mask + 1)) < 0) {
    types_drop(&item);
    return -1;
  }
  type_entry *slot = types_find(st, item.type);
  type_entry old = *slot;
  *slot = item;
  if (!old.type)
    ++st->used;
  types_drop(&old);
  return 0;
}

static void remove_slot(state *st, size_t hole) {
  type_entry old = st->table[hole];
  /* Close the gap: move a later entry into it, unless the entry's home slot lies between the gap and the entry. */
  for (size_t i = (hole + 1) & st->mask; st->table[i].type; i = (i + 1) & st->mask) {
    size_t from_home = (i - home_slot(st, st->table[i].type)) & st->mask;
    if (from_home >= ((i - hole) & st->mask)) {
      st->table[hole] = st->table[i];
      hole = i;
    }
  }
  st->table[hole] = (type_entry){0};
  --st->used;
  types_drop(&old);
}

/* ---- registering types ---- */

/* Stores a code (packing | itemsize << 8 | flags) in an entry. */
static int read_code(PyObject *code, type_entry *out) {
  int overflow;
  long number = PyLong_AsLongAndOverflow(code, &overflow);
  unsigned long itemsize = (unsigned long)number >> 8 & 0xFF;
  bool has_value = (number & CODE_HAS_VALUE) != 0, valid = false;
  if (!overflow && number >= 0 && number < 2l * CODE_HAS_VALUE) {
    bool integral = itemsize == 0 || itemsize == 1 || itemsize == 2 || itemsize == 4 || itemsize == 8;
    switch (number & 0xFF) {
    case PACKING_SIGNED:
    case PACKING_UNSIGNED:
    case PACKING_BOOL:
      valid = integral;
      break;
    case PACKING_FLOAT:
      valid = integral && itemsize != 1;
      break;
    case PACKING_COMPLEX:
      valid = (itemsize == 0 || itemsize == 8 || itemsize == 16) && !has_value;
      break;
    case PACKING_POINTER:
      valid = (itemsize == 0 || itemsize == 8) && !has_value;
      break;
    case PACKING_ARRAY:
    case PACKING_TENSOR_MAP:
      valid = itemsize == 0 && !has_value;
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
  out->packing = (packing)(number & 0xFF);
  out->itemsize = (uint32_t)itemsize;
  out->has_value = has_value;
  return 0;
}

/* Finds the API of a version whose layout is known, in a chain of exchange APIs; false if there is none. */
static bool read_exchange_api(PyObject *capsule, type_entry *out) {
  const dl_exchange_api *api = PyCapsule_GetPointer(capsule, DL_EXCHANGE_API);
  while (api && api->version.major > DL_MAJOR)
    api = api->previous;
  if (!api || api->version.major != DL_MAJOR || !api->tensor_from_object)
    return false;
  out->packing = PACKING_EXCHANGE;
  out->exchange = api;
  return true;
}

static bool is_path(PyObject *names) {
  const Py_ssize_t most = sizeof((type_entry *)NULL)->to_address / sizeof(attribute);
  if (!PyTuple_Check(names) || PyTuple_Size(names) == 0 || PyTuple_Size(names) > most)
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++)
    if (!PyUnicode_Check(PyTuple_GetItem(names, i)))
      return false;
  return true;
}

/* Stores in an entry how a type is packed: by a converter, an exchange API, or paths. -1 with an exception. */
static int read_given(PyObject *given, type_entry *out) {
  if (PyCapsule_IsValid(given, DL_EXCHANGE_API)) {
    if (read_exchange_api(given, out))
      return 0;
    PyErr_SetString(PyExc_ValueError, "the exchange API is of another DLPack, or makes no tensors on the stack");
    return -1;
  }
  if (PyTuple_Check(given)) {
    out->packing = PACKING_PATHS;
    if (PyTuple_Size(given) == 2 && is_path(PyTuple_GetItem(given, 0)) &&
        (PyTuple_GetItem(given, 1) == Py_None || is_path(PyTuple_GetItem(given, 1)))) {
      PyObject *address = PyTuple_GetItem(given, 0);
      for (Py_ssize_t i = 0; i < PyTuple_Size(address); i++)
        out->to_address[i].name = PyTuple_GetItem(address, i);
      return 0;
    }
    PyErr_Format(
        PyExc_ValueError,
        "code must have the names of the attributes (two at most) that lead to the address, and to the device or None, "
        "not %R",
        given);
    return -1;
  }
  if (PyCallable_Check(given)) {
    out->packing = PACKING_CONVERTER;
    return 0;
  }
  return raise_about(PyExc_TypeError, "code must be an int, a callable, paths or an exchange API, not '%U'", given, 0,
                     0);
}

static PyObject *types_is_exchange_api(PyObject *module, PyObject *object) {
  (void)module;
  type_entry unused = {0};
  return PyBool_FromLong(PyCapsule_IsValid(object, DL_EXCHANGE_API) && read_exchange_api(object, &unused));
}

static PyObject *types_register(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
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
  if ((PyLong_Check(code) ? read_code(code, &item) : read_given(code, &item)) < 0)
    return NULL;
  item.weak = PyWeakref_NewRef(type, st->forget);
  if (!item.weak)
    return NULL;
  if (!PyLong_Check(code)) {
    Py_INCREF(code);
    item.given = code;
  }
  if (types_store(st, item) < 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *types_registered(PyObject *module, PyObject *type) {
  const type_entry *found = types_find(PyModule_GetState(module), type);
  if (!found->type || !found->weak)
    Py_RETURN_NONE;
  if (!found->given)
    return PyLong_FromUnsignedLong((unsigned long)found->packing | (unsigned long)found->itemsize << 8 |
                                   (found->has_value ? CODE_HAS_VALUE : 0));
  Py_INCREF(found->given);
  return found->given;
}

/* The callback of weak references: the type is about to be freed. */
static PyObject *types_forget(PyObject *module, PyObject *weak) {
  state *st = PyModule_GetState(module);
  for (size_t i = 0; i <= st->mask; ++i)
    if (st->table[i].type && st->table[i].weak == weak) {
      remove_slot(st, i);
      break;
    }
  Py_RETURN_NONE;
}

static PyObject *types_set_resolver(PyObject *module, PyObject *resolver) {
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

static PyMethodDef functions[] = {
    {"register", FASTCALL(types_register), METH_FASTCALL, DOC_register},
    {"registered", types_registered, METH_O, DOC_registered},
    {"is_exchange_api", types_is_exchange_api, METH_O, DOC_is_exchange_api},
    {"set_resolver", types_set_resolver, METH_O, DOC_set_resolver},
    {"_forget", types_forget, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int add_types(PyObject *module, state *st) {
  if (PyModule_AddFunctions(module, functions) < 0)
    return -1;
  if (types_reserve(st, TABLE_START) < 0)
    return -1;
  const struct {
    const void *type;
    packing packing;
  } builtins[] = {
      {&PyLong_Type, PACKING_SIGNED},         {&PyBool_Type, PACKING_BOOL},
      {&PyFloat_Type, PACKING_FLOAT},         {&PyComplex_Type, PACKING_COMPLEX},
      {Py_TYPE(Py_None), PACKING_NONE},       {&PyBytes_Type, PACKING_BYTES},
      {&PyByteArray_Type, PACKING_BYTEARRAY}, {&PyMemoryView_Type, PACKING_MEMORYVIEW},
  };
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; ++i)
    if (types_store(st, (type_entry){.type = builtins[i].type, .packing = builtins[i].packing}) < 0)
      return -1;
  const char *const names[PACKING_PUBLIC_COUNT] = {"SIGNED", "UNSIGNED", "FLOAT", "COMPLEX",
                                                   "BOOL",   "POINTER",  "ARRAY", "TENSOR_MAP"};
  for (int i = 0; i < PACKING_PUBLIC_COUNT; ++i)
    if (PyModule_AddIntConstant(module, names[i], i) < 0)
      return -1;
  if (PyModule_AddIntConstant(module, "HAS_VALUE", CODE_HAS_VALUE) < 0)
    return -1;
  st->forget = PyObject_GetAttrString(module, "_forget");
  return st->forget != NULL ? 0 : -1;
}
