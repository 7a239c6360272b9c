/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the types of arrays with the types that a kernel's pointers point to.
 *
 * A type is DLPack's code | bits << 8. The fast path compares two of these numbers (check_element() in pack.h).
 */
#include "launch/pack.h"

/* Returns a type as real numbers or integers with a sign: complex numbers are two real ones. */
static unsigned plain(unsigned type) {
  unsigned code = type & 0xFF, bits = type >> 8 & 0xFF;
  switch (code) {
  case DL_UINT:
  case DL_BOOL:
    return DL_INT | bits << 8;
  case DL_COMPLEX:
    return DL_FLOAT | bits / 2 << 8;
  default:
    return type & 0xFFFF;
  }
}

/* Returns whether elements of a type can be anything: DLPack has no code for them, or they are parts of a byte. */
static bool is_raw(unsigned type) {
  unsigned code = type & 0xFF;
  return code == DL_NO_CODE || code == DL_OPAQUE || type >> 8 < 8;
}

/* Formats that NumPy does not have. Their elements are often kept in arrays of integers. */
static bool is_small_format(unsigned type) { return (type & 0xFF) == DL_BFLOAT || (type & 0xFF) > DL_BOOL; }

int check_other_element(const destination *to, PyObject *value, unsigned given) {
  unsigned found = plain(given), wanted = plain(to->element);
  if (found == wanted || is_raw(given) || atomic_load_explicit(&to->st->launch.any_element, memory_order_relaxed))
    return 0;
  bool integer = (found & 0xFF) == DL_INT;
  if (integer && found >> 8 == wanted >> 8 && is_small_format(wanted))
    return 0;
  /* Buffers of other libraries export their bytes as integers, but have no dtype. */
  if (integer && found >> 8 == 8 && (given & 0xFF) != DL_BOOL && !PyObject_HasAttrString(value, "dtype"))
    return 0;
  PyObject *result =
      PyObject_CallFunction(to->st->faces.refuse_element, "OII", value, (unsigned)to->element, given & 0xFFFF);
  Py_XDECREF(result);
  return result ? 0 : -1;
}

int check_element_of_interface(const destination *to, PyObject *value, PyObject *interface) {
  unsigned long packed = DL_NO_CODE;
  PyObject *typestr = PyObject_GetItem(interface, to->st->names.typestr);
  if (typestr == NULL)
    PyErr_Clear(); /* without a typestr, the type is not known */
  const int status = typestr != NULL && PyUnicode_Check(typestr) ? type_of_dtype(to->st, typestr, &packed) : 0;
  Py_XDECREF(typestr);
  return status < 0 ? -1 : check_element(to, value, packed & 0xFFFF);
}

/* Finds the type of a dtype that was used before. */
static bool find_dtype(const launch_state *st, const PyObject *dtype, unsigned *out) {
  for (size_t i = 0; i < KNOWN_DTYPES; i++)
    if (atomic_load_explicit(&st->dtypes[i].dtype, memory_order_acquire) == dtype) {
      *out = st->dtypes[i].element;
      return true;
    }
  return false;
}

/* Remembers the type of a dtype. The first few dtypes are kept for ever: nearly all arrays have one of them. */
static void remember_dtype(launch_state *st, PyObject *dtype, unsigned element) {
  if (atomic_load_explicit(&st->dtypes_used, memory_order_relaxed) >= KNOWN_DTYPES)
    return;
  unsigned place = atomic_fetch_add(&st->dtypes_used, 1);
  if (place >= KNOWN_DTYPES)
    return;
  st->dtypes[place].element = element;
  Py_INCREF(dtype);
  atomic_store_explicit(&st->dtypes[place].dtype, dtype, memory_order_release);
}

/* Checks a dtype that is not yet known. It is a function of its own, so that the usual path has no frame. */
static int check_new_dtype(const destination *to, PyObject *value, PyObject *dtype) {
  unsigned long packed;
  if (type_of_dtype(to->st, dtype, &packed) < 0)
    return -1;
  remember_dtype((launch_state *)&to->st->launch, dtype, packed & 0xFFFF);
  return check_element(to, value, packed & 0xFFFF);
}

void clear_known_dtypes(launch_state *st) {
  for (size_t i = 0; i < KNOWN_DTYPES; i++)
    Py_XDECREF(atomic_exchange(&st->dtypes[i].dtype, NULL));
}

int check_element_by_dtype(const destination *to, PyObject *value, PyObject *dtype) {
  unsigned element;
  return find_dtype(&to->st->launch, dtype, &element) ? check_element(to, value, element)
                                                      : check_new_dtype(to, value, dtype);
}

static PyObject *set_array_type_checks(PyObject *module, PyObject *enabled) {
  if (!PyBool_Check(enabled)) {
    raise_about(PyExc_TypeError, "enabled must be a bool, not a '%U'", enabled, 0, 0);
    return NULL;
  }
  state *st = PyModule_GetState(module);
  return PyBool_FromLong(!atomic_exchange(&st->launch.any_element, enabled == Py_False));
}

PyMethodDef element_functions[] = {
    {"set_array_type_checks", set_array_type_checks, METH_O, DOC_set_array_type_checks},
    {NULL, NULL, 0, NULL},
};
