/* SPDX-License-Identifier: Apache-2.0 */
/* How the values of each type are packed: a table of the registered types. */
#include "base/types.h"

/* ---- the lock ---- */

#ifdef Py_GIL_DISABLED
static PyMutex *lock_of_thread(const state *st) {
  return &((state *)(uintptr_t)st)->base.type_locks[lane_of_thread()].lock;
}
static void read_begin(const state *st) { PyMutex_Lock(lock_of_thread(st)); }
static void read_end(const state *st) { PyMutex_Unlock(lock_of_thread(st)); }
static void write_begin(state *st) {
  for (int i = 0; i < LANES; i++)
    PyMutex_Lock(&st->base.type_locks[i].lock);
}
static void write_end(state *st) {
  for (int i = LANES; i-- > 0;)
    PyMutex_Unlock(&st->base.type_locks[i].lock);
}
#else
static void read_begin(const state *st) { (void)st; }
static void read_end(const state *st) { (void)st; }
static void write_begin(state *st) { (void)st; }
static void write_end(state *st) { (void)st; }
#endif

/* ---- the table ---- */

/* Returns the entry of a type; NULL if it is not registered. Called with the lock. */
static type_entry *find(const state *st, const void *type) {
  return cch__table_find(&st->base.types, sizeof(type_entry), type);
}

static type_entry *next_entry(const state *st, const type_entry *entry) {
  return cch__table_next(&st->base.types, sizeof *entry, entry);
}

/*
 * The entry of a type that was registered with a code consists of the type and the code. So one word has all of it: the
 * code is in the bits that no address has. Each type has one of two places in the array. A place is filled with the
 * lock when the entry is read, and emptied when the entry changes.
 */
enum { CODE_SHIFT = 48, CODE_VALUE = 0x80, CODE_SIZE_SHIFT = 8 };

static shared_word *place_of_code(const state *st, const void *type, size_t which) {
  return (shared_word *)(uintptr_t)&st->base.codes[cch__hash(type) % TYPE_CODES ^ which];
}

bool types_read_code(const state *st, const void *type, type_entry *out) {
  for (size_t which = 0; which < 2; which++) {
    const size_t code = shared_get(place_of_code(st, type, which)) ^ (uintptr_t)type;
    if (code << (64 - CODE_SHIFT) != 0)
      continue;
    out->packing = (packing)(code >> CODE_SHIFT & (CODE_VALUE - 1));
    out->has_value = (code >> CODE_SHIFT & CODE_VALUE) != 0;
    out->itemsize = (uint32_t)(code >> (CODE_SHIFT + CODE_SIZE_SHIFT));
    return true;
  }
  return false;
}

static void fill_code(const state *st, const type_entry *entry) {
  if (entry->packing >= PACKING_PUBLIC_COUNT || (uintptr_t)entry->type >> CODE_SHIFT != 0)
    return;
  const size_t code = (size_t)entry->packing | (entry->has_value ? CODE_VALUE : 0) | entry->itemsize << CODE_SIZE_SHIFT;
  const bool is_free = shared_get(place_of_code(st, entry->type, 0)) == 0;
  shared_set(place_of_code(st, entry->type, is_free ? 0 : 1), (uintptr_t)entry->type | code << CODE_SHIFT);
}

static void empty_code(state *st, const void *type) {
  for (size_t which = 0; which < 2; which++)
    shared_set(place_of_code(st, type, which), 0);
}

/* Runs Python code. */
void types_unref(type_entry *entry) {
  Py_XDECREF(entry->weak);
  for (size_t i = 0; i < ATTRIBUTES; ++i)
    Py_XDECREF(entry->attributes[i].property);
  Py_XDECREF(entry->given);
}

bool types_read(const state *st, const void *type, type_entry *out) {
  read_begin(st);
  const type_entry *known = find(st, type);
  *out = known != NULL ? *known : (type_entry){0};
  if (known != NULL)
    fill_code(st, known);
  for (size_t i = 0; i < ATTRIBUTES; ++i)
    Py_XINCREF(out->attributes[i].property);
  Py_XINCREF(out->given);
  out->weak = Py_XNewRef((PyObject *)(uintptr_t)out->type);
  read_end(st);
  return out->type != NULL;
}

void types_learn(const state *st, const void *type, int step, const attribute *known) {
  PyObject *unused = known->property;
  write_begin((state *)(uintptr_t)st);
  type_entry *entry = find(st, type);
  attribute *kept = entry != NULL ? &entry->attributes[step] : NULL;
  if (kept != NULL && kept->name == known->name) { /* else the type was registered again meanwhile */
    unused = kept->property;
    *kept = *known;
  }
  write_end((state *)(uintptr_t)st);
  Py_XDECREF(unused);
}

int types_find(const state *st, PyObject *value, type_entry *out) {
  if (types_read(st, Py_TYPE(value), out))
    return true;
  if (st->faces.resolve == NULL)
    return false;
  PyObject *type = Py_NewRef(Py_TYPE(value)); /* the call can change the class of the value */
  PyObject *known = PyObject_CallFunctionObjArgs(st->faces.resolve, type, value, NULL);
  Py_DECREF(type);
  int found = known != NULL ? PyObject_IsTrue(known) : -1;
  Py_XDECREF(known);
  return found > 0 ? types_read(st, Py_TYPE(value), out) : found;
}

/*
 * Stores the entry of a type, in place of the type's old entry if there is one. Takes over the references of `item`,
 * even on failure.
 */
static int store(state *st, type_entry item) {
  type_entry old = item;
  write_begin(st);
  const bool has_room = cch__table_reserve(&st->base.types, sizeof item, 1);
  if (has_room) {
    type_entry *slot = cch__table_enter(&st->base.types, sizeof item, item.type);
    old = *slot;
    *slot = item;
    empty_code(st, item.type);
  }
  write_end(st);
  types_unref(&old);
  if (!has_room)
    PyErr_NoMemory();
  return has_room ? 0 : -1;
}

/* ---- registering types ---- */

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

/* Stores in an entry how a type is packed: see register() in _native.pyi. Returns -1 with an exception on failure. */
static int read_code(PyObject *code, type_entry *out) {
  if (PyLong_Check(code)) {
    const unsigned long number = PyLong_AsUnsignedLong(code);
    out->packing = (packing)(number & 0xFF);
    out->itemsize = (uint32_t)number >> 8 & 0xFF;
    out->has_value = (number & CODE_HAS_VALUE) != 0;
  } else if (PyTuple_Check(code)) {
    out->packing = PACKING_PATHS;
    PyObject *address = PyTuple_GetItem(code, 0);
    for (Py_ssize_t i = 0; i < PyTuple_Size(address); i++)
      out->attributes[i].name = PyTuple_GetItem(address, i);
    out->attributes[DTYPE_STEP].name = PyTuple_GetItem(code, 2);
  } else if (!PyCapsule_CheckExact(code)) {
    out->packing = PACKING_CONVERTER;
  } else if (!read_exchange_api(code, out)) {
    return raise_error(PyExc_ValueError, "the exchange API is of another DLPack, or makes no tensors on the stack");
  }
  return PyErr_Occurred() ? -1 : 0;
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
  type_entry item = {.type = type};
  if (read_code(code, &item) < 0 || (item.weak = PyWeakref_NewRef(type, st->base.forget)) == NULL)
    return NULL;
  if (!PyLong_Check(code))
    item.given = Py_NewRef(code);
  return store(st, item) == 0 ? Py_NewRef(Py_None) : NULL;
}

/* The callback of the weak references: removes the entry of a type that is about to be freed. */
static PyObject *types_forget(PyObject *module, PyObject *weak) {
  state *st = PyModule_GetState(module);
  type_entry old = {0};
  write_begin(st);
  for (type_entry *entry = NULL; (entry = next_entry(st, entry)) != NULL;)
    if (entry->weak == weak) {
      old = *entry;
      empty_code(st, old.type);
      cch__table_remove(&st->base.types, sizeof *entry, entry);
      break;
    }
  write_end(st);
  types_unref(&old);
  Py_RETURN_NONE;
}

int types_visit(state *st, visitproc visit, void *arg) {
  for (const type_entry *entry = NULL; (entry = next_entry(st, entry)) != NULL;) {
    Py_VISIT(entry->weak);
    Py_VISIT(entry->given);
    for (size_t step = 0; step < ATTRIBUTES; ++step)
      Py_VISIT(entry->attributes[step].property);
  }
  Py_VISIT(st->base.forget);
  return 0;
}

void types_clear(state *st) {
  /* The table is emptied before anything is released, because releasing can run code that uses it. */
  cch__table old = st->base.types;
  st->base.types = (cch__table){0};
  for (size_t i = 0; i < TYPE_CODES; i++)
    shared_set(&st->base.codes[i], 0);
  for (type_entry *entry = NULL; (entry = cch__table_next(&old, sizeof *entry, entry)) != NULL;)
    types_unref(entry);
  cch__table_free(&old);
  Py_CLEAR(st->base.forget);
}

static PyMethodDef functions[] = {
    {"register", FASTCALL(types_register), METH_FASTCALL, DOC_register},
    {"is_exchange_api", types_is_exchange_api, METH_O, DOC_is_exchange_api},
    {"_forget", types_forget, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int add_types(PyObject *module, state *st) {
  if (PyModule_AddFunctions(module, functions) < 0)
    return -1;
  if (!cch__table_reserve(&st->base.types, sizeof(type_entry), 48)) { /* many, so that a launch finds them quickly */
    PyErr_NoMemory();
    return -1;
  }
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
    if (store(st, (type_entry){.type = builtins[i].type, .packing = builtins[i].packing}) < 0)
      return -1;
  const char *const names[PACKING_PUBLIC_COUNT] = {"SIGNED", "UNSIGNED", "FLOAT", "COMPLEX",
                                                   "BOOL",   "POINTER",  "ARRAY", "TENSOR_MAP"};
  for (int i = 0; i < PACKING_PUBLIC_COUNT; ++i)
    if (PyModule_AddIntConstant(module, names[i], i) < 0)
      return -1;
  if (PyModule_AddIntConstant(module, "HAS_VALUE", CODE_HAS_VALUE) < 0)
    return -1;
  st->base.forget = PyObject_GetAttrString(module, "_forget");
  return st->base.forget != NULL ? 0 : -1;
}
