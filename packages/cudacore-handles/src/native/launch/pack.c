/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs Python values into the argument block of a kernel: by the sizes of the parameters and, if they are known, by
 * their kinds. numbers.c packs numbers, arrays.c packs addresses of arrays.
 *
 * Types of other libraries are not built in. register() stores how a type is packed, and resolve() of
 * _launch/argtypes.py is called once for each type that is not registered.
 *
 * A conversion can run arbitrary Python code (__index__, __float__, a property, a converter), and that code can call
 * this module again. So no borrowed data is used across a conversion: the caller keeps the arguments alive, a registry
 * entry is copied (with references), and a block is only used after all values have been converted.
 */
#include "launch/pack.h"

#include <stdio.h>

enum { LISTED_SIZES = 16 /* number of parameter sizes listed in the message about a wrong number of arguments */ };

const param_rules rules_of_kinds[] = {
#define RULES(KIND, name, text, takes) {name, text, takes},
    PARAM_KINDS(RULES)
#undef RULES
};

/* ---- messages ---- */

static void raise_wrong_count(const layout *params, const values *values_given) {
  const Py_ssize_t given = values_given->count;
  char sizes[LISTED_SIZES * sizeof "4294967295, " + sizeof "..."];
  size_t length = 0;
  const char *were = given == 1 ? "was" : "were";
  if (params->count == 0) {
    PyErr_Format(PyExc_TypeError, "the kernel takes no arguments but %zd %s given", given, were);
    return;
  }
  for (Py_ssize_t i = 0; i < params->count && i < LISTED_SIZES; ++i) {
    param p = param_at(params, i);
    length += (size_t)snprintf(sizes + length, sizeof sizes - length, i ? ", %u" : "%u", (unsigned)p.size);
  }
  if (params->count > LISTED_SIZES)
    snprintf(sizes + length, sizeof sizes - length, ", ...");
  PyObject *only = given == 1 ? value_at(values_given, 0) : NULL;
  const bool packed = only != NULL && (PyTuple_Check(only) || PyList_Check(only));
  PyErr_Format(PyExc_TypeError, "the kernel takes %zd argument%s (parameter size%s: %s bytes) but %zd %s given%s",
               params->count, plural((uint64_t)params->count), plural((uint64_t)params->count), sizes, given, were,
               packed ? "; write *arguments to pass the items of a tuple" : "");
}

/* Prepends the number of the argument to the message of the exception that its conversion raised. */
void name_argument(const state *st, Py_ssize_t index) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  /* Exceptions of other classes may have their own constructors and messages, so they are not changed. */
  if (type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_OverflowError ||
      type == st->faces.closed_error) {
    PyObject *message = PyUnicode_FromFormat("argument %zd: %S", index, value);
    PyObject *args = message ? PyTuple_Pack(1, message) : NULL;
    if (!args || PyObject_SetAttrString(value, "args", args) < 0)
      PyErr_Clear();
    Py_XDECREF(args);
    Py_XDECREF(message);
  } else if (type == st->faces.cuda_error) { /* the driver's text stays, and the hint names the argument */
    PyObject *hint = PyObject_GetAttrString(value, "hint");
    PyObject *named = hint ? PyUnicode_FromFormat("Argument %zd: %S", index, hint) : NULL;
    if (!named || PyObject_SetAttrString(value, "hint", named) < 0)
      PyErr_Clear();
    Py_XDECREF(named);
    Py_XDECREF(hint);
  }
  PyErr_Restore(type, value, traceback);
}

/* ---- packing one value ---- */

static int copy_bytes(const destination *to, PyObject *value, const char *data, Py_ssize_t length) {
  if (kind_takes(to, IS_POINTER))
    return raise_about(
        PyExc_TypeError,
        "%U has %zd bytes in host memory, and the parameter is a pointer of %u; pass an array, a buffer, "
        "or the address as an int",
        value, length, to->size);
  if ((uint64_t)length != to->size)
    return raise_size_mismatch(to, value, length);
  if (to->kind == PARAM_BOOL && length == 1 && (unsigned char)*data > 1)
    return raise_about(PyExc_ValueError, "%U has the byte %zd, which is neither true nor false; pass True or False",
                       value, (unsigned char)*data, 0);
  memcpy(to->out, data, to->size);
  return 0;
}

int pack_converted(const destination *to, PyObject *value, PyObject *converter) {
  return pack_answer(to, value, PyObject_CallFunction(converter, "OII", value, (unsigned)to->size, (unsigned)to->kind));
}

/*
 * Finds whether the items of a memoryview are bytes rather than the elements of an array. Returns -1 with an exception
 * on failure.
 */
static int is_view_of_bytes(PyObject *view) {
  PyObject *format = PyObject_GetAttrString(view, "format");
  if (!format)
    return -1;
  const char *text = PyUnicode_AsUTF8AndSize(format, NULL);
  int bytes = text ? strlen(text) == 1 && strchr("Bbc", *text) != NULL : -1;
  Py_DECREF(format);
  return bytes;
}

static int pack_memoryview(const destination *to, PyObject *value) {
  int bytes = is_view_of_bytes(value);
  if (bytes <= 0)
    return bytes == 0 ? pack_converted(to, value, to->st->faces.read_array) : -1;
  return pack_answer(to, value, PyBytes_FromObject(value));
}

/*
 * Copies the registry's entry for the type of a value to *how. If there is none, calls the resolver. Returns -1 with an
 * exception on failure; otherwise, the caller calls types_unref().
 */
static int look_up(const state *st, PyObject *value, type_entry *how) {
  const int found = types_find(st, value, how);
  if (found == 0)
    return raise_about(PyExc_TypeError,
                       "cannot pass a '%U' to a kernel; pass an int, float, complex, bool or None, a NumPy or ctypes "
                       "scalar, a device array or buffer, or bytes for a struct",
                       value, 0, 0);
  return found < 0 ? -1 : 0;
}

int pack_answer(const destination *to, PyObject *value, PyObject *answer) {
  if (!answer)
    return -1;
  int status;
  type_entry how;
  if (PyBytes_CheckExact(answer)) {
    status = copy_bytes(to, value, PyBytes_AsString(answer), PyBytes_Size(answer));
  } else if (PyTuple_Check(answer)) {
    status = pack_place(to, value, answer);
  } else if (PyLong_CheckExact(answer)) {
    status = pack_int(to, answer);
  } else if (PyFloat_CheckExact(answer)) {
    status = pack_double(to, PyFloat_AsDouble(answer));
  } else if (look_up(to->st, answer, &how) < 0) {
    status = -1;
  } else {
    status = how.packing <= PACKING_BOOL
                 ? pack_number(to, answer, &how)
                 : raise_about(PyExc_TypeError, "the converter of %U must return bytes, a number, or a place in memory",
                               value, 0, 0);
    types_unref(&how);
  }
  KEEPING_EXCEPTION(Py_DECREF(answer)); /* releasing the result can run any code */
  return status;
}

static int pack_by_entry(const destination *to, PyObject *value, const type_entry *how) {
  if (how->packing <= PACKING_BOOL)
    return pack_number(to, value, how);
  switch (how->packing) {
  case PACKING_POINTER:
    return check_takes_address(to, value) < 0 ? -1 : pack_buffer(to, value);
  case PACKING_EXCHANGE:
    return pack_exchanged(to, value, how->exchange->tensor_from_object);
  case PACKING_ARRAY:
  case PACKING_PATHS:
    return pack_array(to, value, how);
  case PACKING_TENSOR_MAP:
    return pack_tensor_map(to, value);
  case PACKING_CONVERTER:
    return pack_converted(to, value, how->given);
  case PACKING_NONE:
    return pack_null(to);
  case PACKING_BYTES:
    return copy_bytes(to, value, PyBytes_AsString(value), PyBytes_Size(value));
  case PACKING_BYTEARRAY: /* copied, because another thread can resize it */
    return pack_answer(to, value, PyBytes_FromObject(value));
  case PACKING_MEMORYVIEW:
    return pack_memoryview(to, value);
  default:
    Py_UNREACHABLE();
  }
}

/* The entry of the type that was looked up last, or only a type that is NULL: many arguments are of one type. */
static inline void forget(type_entry *last) {
  if (last->type != NULL)
    types_unref(last);
}

static int pack_registered(const destination *to, PyObject *value, type_entry *last) {
  type_entry known;
  const type_entry *how = last;
  if ((PyObject *)Py_TYPE(value) == to->st->faces.buffer)
    return check_takes_address(to, value) < 0 ? -1 : pack_buffer(to, value);
  if (last->type != Py_TYPE(value)) {
    if (types_read_code(to->st, Py_TYPE(value), &known)) {
      how = &known;
    } else {
      forget(last);
      if (look_up(to->st, value, last) < 0)
        return -1;
    }
  }
  return pack_by_entry(to, value, how);
}

/* The caller calls forget(). */
static int pack_value(const destination *to, PyObject *value, type_entry *last) {
  if (PyLong_CheckExact(value))
    return pack_int(to, value);
  if (PyFloat_CheckExact(value))
    return pack_double(to, PyFloat_AsDouble(value));
  return pack_registered(to, value, last);
}

/* ---- packing a block ---- */

static int raise_bad_layout(Py_ssize_t index) {
  return raise_error(PyExc_ValueError, "layout: parameter %zd overlaps the one before it, or ends beyond %d bytes",
                     index, BLOCK_MAX);
}

int read_layout(PyObject *object, layout *out) {
  if (!PyBytes_Check(object))
    return raise_about(PyExc_TypeError, "layout must be bytes, not '%U'", object, 0, 0);
  Py_ssize_t length = PyBytes_Size(object);
  if (length % (Py_ssize_t)sizeof(param))
    return raise_error(PyExc_ValueError,
                       "layout must be an array of (offset, size, kind) of 4 bytes each, not %zd bytes", length);
  layout params = {PyBytes_AsString(object), length / (Py_ssize_t)sizeof(param), 0, 0};
  uint64_t end = 0;
  for (Py_ssize_t i = 0; i < params.count; i++) {
    param p = param_at(&params, i);
    if (p.offset < end || (uint64_t)p.offset + p.size > BLOCK_MAX)
      return raise_bad_layout(i);
    if (p.kind >= PARAM_KIND_COUNT)
      return raise_error(PyExc_ValueError, "layout: parameter %zd has the kind %u; it must be less than %d", i, p.kind,
                         PARAM_KIND_COUNT);
    bool address = p.kind == PARAM_UNKNOWN || rules_of_kinds[p.kind].takes & IS_POINTER;
    if (params.addresses == i && address && p.size == 8 && p.offset == end)
      params.addresses++;
    end = (uint64_t)p.offset + p.size;
  }
  params.total = end;
  *out = params;
  return 0;
}

/*
 * Most arguments of most launches are ints and Buffers for parameters that accept any address. They need none of the
 * code above. Each of these functions packs arguments from the one with an index on, and returns the index of the first
 * one that it does not pack.
 */

/*
 * Packs ints that fit into 64 bits without a sign. Runs no Python code. On CPython 3.12, PyLong_AsLongLongAndOverflow()
 * takes 1.6 times as long. This is not inlined, so that the loop has the registers for itself.
 */
__attribute__((noinline)) static Py_ssize_t pack_ints(const values *values_given, Py_ssize_t i, Py_ssize_t count,
                                                      unsigned char *out) {
  const values given = *values_given;
  for (; i < count; ++i) {
    PyObject *value = value_at(&given, i);
    if (!PyLong_CheckExact(value))
      break;
    size_t number = PyLong_AsSize_t(value);
    if (number == (size_t)-1 && PyErr_Occurred()) { /* negative or too large: pack_value() decides what to do */
      PyErr_Clear();
      break;
    }
    memcpy(out + 8 * i, &number, sizeof number);
  }
  return i;
}

/* Packs Buffers. Returns -1 with an exception on failure. */
static Py_ssize_t pack_buffers(const state *st, const layout *params, const values *given, Py_ssize_t i,
                               unsigned char *out, owners *keep, int device) {
  for (; i < params->addresses; ++i) {
    PyObject *value = value_at(given, i);
    if ((PyObject *)Py_TYPE(value) != st->faces.buffer)
      break;
    if (pack_memory(st, device, keep, (int)i, value, out + 8 * i) < 0) {
      name_argument(st, i);
      return -1;
    }
  }
  return i;
}

int pack_values(const state *st, const layout *params, values given, unsigned char *out, owners *keep, int device) {
  if (given.count != params->count) {
    raise_wrong_count(params, &given);
    return -1;
  }
  Py_ssize_t first = 0, before = -1;
  while (first > before && first < params->addresses) {
    before = first;
    first = pack_ints(&given, first, params->addresses, out);
    first = pack_buffers(st, params, &given, first, out, keep, device);
  }
  if (first < 0)
    return -1;
  uint64_t end = 8 * (uint64_t)first;
  type_entry last;
  int status = 0;
  last.type = NULL;
  for (Py_ssize_t i = first; i < given.count && status == 0; ++i) {
    param p = param_at(params, i);
    if (p.offset != end)
      memset(out + end, 0, p.offset - end);
    end = (uint64_t)p.offset + p.size;
    const destination to = {st, out + p.offset, p.size, p.kind, p.element, (int)i, keep, device};
    status = pack_value(&to, value_at(&given, i), &last);
    if (status < 0)
      name_argument(st, i);
  }
  forget(&last);
  return status;
}

int pack_parameter(const state *st, const layout *params, Py_ssize_t index, PyObject *value, unsigned char *out,
                   owners *keep, int device) {
  if (index < 0 || index >= params->count)
    return raise_error(PyExc_IndexError, "argument %zd is out of range: the kernel takes %zd argument%s", index,
                       params->count, plural((uint64_t)params->count));
  param p = param_at(params, index);
  const destination to = {st, out + p.offset, p.size, p.kind, p.element, (int)index, keep, device};
  type_entry last;
  last.type = NULL;
  int status = pack_value(&to, value, &last);
  if (status < 0)
    name_argument(st, index);
  forget(&last);
  return status;
}

static PyObject *pack(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  layout params;
  if (count != 3 && check_argument_count("pack(layout, args)", count, 2) < 0)
    return NULL;
  bool checked = count == 3 && arguments[2] != Py_None;
  long device = checked ? PyLong_AsLong(arguments[2]) : UNCHECKED_DEVICE;
  if (PyErr_Occurred() || read_layout(arguments[0], &params) < 0)
    return NULL;
  if (checked && device < 0)
    return PyErr_Format(PyExc_ValueError, "device is %ld; it must be the ordinal of a device, or None", device);
  /*
   * No other code can see the new object yet, so its bytes may be written. The empty bytes object is shared, but
   * nothing is written to it.
   */
  PyObject *block = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)params.total);
  if (!block)
    return NULL;
  unsigned char *out = (unsigned char *)PyBytes_AsString(block);
  owners keep;
  owners_init(&keep, false);
  int status =
      pack_values(PyModule_GetState(module), &params,
                  (values){.tuple = arguments[1], .count = PyTuple_Size(arguments[1])}, out, &keep, (int)device);
  KEEPING_EXCEPTION(owners_unref(&keep));
  if (status < 0) {
    Py_DECREF(block);
    return NULL;
  }
  return block;
}

static PyMethodDef functions[] = {
    {"pack", FASTCALL(pack), METH_FASTCALL, DOC_pack},
    {NULL, NULL, 0, NULL},
};

int add_pack_functions(PyObject *module) {
  PyObject *kinds = PyTuple_New(PARAM_KIND_COUNT);
  for (Py_ssize_t i = 0; kinds != NULL && i < PARAM_KIND_COUNT; i++) {
    PyObject *kind = Py_BuildValue("sI", rules_of_kinds[i].name, rules_of_kinds[i].takes);
    if (kind == NULL || PyTuple_SetItem(kinds, i, kind) < 0)
      Py_CLEAR(kinds);
  }
  int status = kinds != NULL ? PyModule_AddObjectRef(module, "PARAM_KINDS", kinds) : -1;
  Py_XDECREF(kinds);
  if (status < 0 || PyModule_AddIntConstant(module, "TAKES_BYTES", TAKES_BYTES) < 0 ||
      PyModule_AddIntConstant(module, "IS_POINTER", IS_POINTER) < 0 ||
      PyModule_AddIntConstant(module, "ANY_DEVICE", ANY_DEVICE) < 0)
    return -1;
  return PyModule_AddFunctions(module, functions);
}
