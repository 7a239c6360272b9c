/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing Python values into the argument block of a kernel.
 *
 * Of other libraries' types this knows only what it is told: register() says how a type is packed, and an unknown
 * type is put to the resolver (see _argtypes.py) once.
 *
 * Everything here runs under the GIL, but any value can run arbitrary Python code while it is converted (__index__,
 * __float__, a property, a converter), and that code can call back into this module. So nothing is held across such
 * a call that the call could free: the arguments belong to their caller, an entry of the registry is copied out (its
 * converter with a reference of its own), and a block is used only when all values have been converted.
 */
#include "native.h"

#include <cudacore/kernel.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  LISTED_SIZES = 16, /* parameter sizes that the message about a wrong count lists */
  PRINTED_BITS = 128 /* integers above are described by their length, not printed */
};

static cch_param param_at(const layout *params, Py_ssize_t index) {
  cch_param p;
  memcpy(&p, params->data + (size_t)index * sizeof p, sizeof p);
  return p;
}

/* ---- messages ---- */

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

/* "numpy.int32", "cudacore_handles.Buffer", "list": the type's name, and of its module the part that users import. */
static PyObject *type_name(PyObject *value) {
  PyObject *type = (PyObject *)Py_TYPE(value), *result = NULL, *dot = NULL, *parts = NULL;
  PyObject *name = PyObject_GetAttrString(type, "__name__");
  PyObject *module = PyObject_GetAttrString(type, "__module__");
  if (!name || !module)
    goto done;
  if (!PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "builtins") == 0 ||
      PyUnicode_CompareWithASCIIString(module, "__main__") == 0) {
    result = PyObject_Str(name);
    goto done;
  }
  dot = PyUnicode_FromString(".");
  parts = dot ? PyUnicode_Partition(module, dot) : NULL;
  if (parts)
    result = PyUnicode_FromFormat("%S.%S", PyTuple_GetItem(parts, 0), name);
done:
  Py_XDECREF(parts);
  Py_XDECREF(dot);
  Py_XDECREF(module);
  Py_XDECREF(name);
  return result;
}

int raise_about(PyObject *exception, const char *format, PyObject *value, Py_ssize_t given, uint32_t size) {
  PyObject *name = type_name(value);
  if (name) {
    PyErr_Format(exception, format, name, given, size);
    Py_DECREF(name);
  }
  return -1;
}

static int raise_size_mismatch(PyObject *value, Py_ssize_t given, uint32_t size) {
  return raise_about(PyExc_TypeError,
                     given == 1 ? "%U has %zd byte, but the parameter has %u"
                                : "%U has %zd bytes, but the parameter has %u",
                     value, given, size);
}

static int raise_unsuitable_size(const char *what, uint32_t size) {
  PyErr_Format(PyExc_TypeError, "%s cannot fill a parameter of %u byte%s; pass bytes of exactly %u byte%s", what, size,
               plural(size), size, plural(size));
  return -1;
}

static int raise_int_overflow(PyObject *value, uint32_t size, long long low, unsigned long long high) {
  PyObject *length = PyObject_CallMethod(value, "bit_length", NULL);
  if (!length)
    return -1;
  int overflow = 0;
  long bits = PyLong_AsLongAndOverflow(length, &overflow);
  if (overflow || bits > PRINTED_BITS)
    PyErr_Format(PyExc_OverflowError, "an int of %S bits does not fit a parameter of %u byte%s (%lld to %llu)", length,
                 size, plural(size), low, high);
  else
    PyErr_Format(PyExc_OverflowError, "%R does not fit a parameter of %u byte%s (%lld to %llu)", value, size,
                 plural(size), low, high);
  Py_DECREF(length);
  return -1;
}

static int raise_float_overflow(double number, uint32_t size) {
  PyObject *value = PyFloat_FromDouble(number);
  if (value) {
    PyErr_Format(PyExc_OverflowError, "%R does not fit a parameter of %u bytes (binary%u)", value, size, size * 8);
    Py_DECREF(value);
  }
  return -1;
}

static void raise_wrong_count(const layout *params, Py_ssize_t given) {
  char sizes[LISTED_SIZES * sizeof "4294967295, " + sizeof "..."];
  size_t length = 0;
  const char *were = given == 1 ? "was" : "were";
  if (params->count == 0) {
    PyErr_Format(PyExc_TypeError, "the kernel takes no arguments but %zd %s given", given, were);
    return;
  }
  for (Py_ssize_t i = 0; i < params->count && i < LISTED_SIZES; ++i) {
    cch_param p = param_at(params, i);
    length += (size_t)snprintf(sizes + length, sizeof sizes - length, i ? ", %u" : "%u", (unsigned)p.size);
  }
  if (params->count > LISTED_SIZES)
    snprintf(sizes + length, sizeof sizes - length, ", ...");
  PyErr_Format(PyExc_TypeError, "the kernel takes %zd argument%s (parameter size%s: %s bytes) but %zd %s given",
               params->count, plural((uint64_t)params->count), plural((uint64_t)params->count), sizes, given, were);
}

/* Puts the argument's number in front of the message of the exception that its conversion raised. */
void name_argument(const state *st, Py_ssize_t index) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  /* Other classes have constructors and messages of their own: they pass unchanged. */
  if (type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_OverflowError ||
      type == st->faces.closed_error) {
    PyObject *message = PyUnicode_FromFormat("argument %zd: %S", index, value);
    PyObject *args = message ? PyTuple_Pack(1, message) : NULL;
    if (!args || PyObject_SetAttrString(value, "args", args) < 0)
      PyErr_Clear();
    Py_XDECREF(args);
    Py_XDECREF(message);
  }
  PyErr_Restore(type, value, traceback);
}

/* ---- storing numbers ---- */

static void store_integer(unsigned char *out, uint32_t size, uint64_t bits) {
  uint16_t two = (uint16_t)bits;
  uint32_t four = (uint32_t)bits;
  if (size == 8)
    memcpy(out, &bits, sizeof bits);
  else if (size == 4)
    memcpy(out, &four, sizeof four);
  else if (size == 2)
    memcpy(out, &two, sizeof two);
  else
    *out = (unsigned char)bits;
}

/* Rounds to binary16, ties to even; false when a finite number is too large. */
static int half_from_double(double number, uint16_t *out) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
  int exponent = (int)(bits >> 52 & 0x7FF) - 1023;
  uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
  if (exponent == 1024) { /* infinity, or a NaN: quiet, with what fits of its payload */
    *out = (uint16_t)(sign | 0x7C00 | (fraction ? 0x200 | fraction >> 42 : 0));
    return 1;
  }
  if (exponent > 15)
    return 0;
  /* What remains after the shift: exponent and fraction of a normal number, or a subnormal's fraction alone. Rounding
     may carry into the exponent, which is right in both cases. */
  uint64_t value;
  int shift = 42;
  if (exponent >= -14) {
    value = (uint64_t)(exponent + 15) << 52 | fraction;
  } else {
    value = UINT64_C(1) << 52 | fraction;
    shift += -14 - exponent;
  }
  if (shift > 53) { /* below half of the smallest subnormal */
    *out = sign;
    return 1;
  }
  uint64_t result = value >> shift, rest = value & ((UINT64_C(1) << shift) - 1), tie = UINT64_C(1) << (shift - 1);
  if (rest > tie || (rest == tie && (result & 1)))
    ++result;
  *out = (uint16_t)(sign | result);
  return result < 0x7C00;
}

static int store_float(unsigned char *out, uint32_t size, double number) {
  switch (size) {
  case 8:
    memcpy(out, &number, sizeof number);
    return 0;
  case 4: {
    float narrow = (float)number;
    if (isinf(narrow) && !isinf(number))
      return raise_float_overflow(number, size);
    memcpy(out, &narrow, sizeof narrow);
    return 0;
  }
  case 2: {
    uint16_t half;
    if (!half_from_double(number, &half))
      return raise_float_overflow(number, size);
    memcpy(out, &half, sizeof half);
    return 0;
  }
  default:
    return raise_unsuitable_size("a float", size);
  }
}

/* ---- packing one value ---- */

/* Packs an int (or a subclass) that must fit as a signed number, as an unsigned one, or as either. */
static int pack_int(unsigned char *out, uint32_t size, PyObject *value, int may_be_signed, int may_be_unsigned) {
  if (size != 8 && size != 4 && size != 2 && size != 1)
    return raise_unsuitable_size("an int", size);
  unsigned long long half_range = 1ull << (8 * size - 1);
  long long low = may_be_signed ? -(long long)(half_range - 1) - 1 : 0;
  unsigned long long high = may_be_unsigned ? half_range - 1 + half_range : half_range - 1;
  int overflow;
  long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  unsigned long long bits = (unsigned long long)number;
  int fits = overflow == 0 && (number < 0 ? number >= low : bits <= high);
  if (overflow > 0 && high > LLONG_MAX) { /* 2**63 and above: only the unsigned conversion can tell */
    bits = PyLong_AsUnsignedLongLong(value);
    fits = !(bits == (unsigned long long)-1 && PyErr_Occurred());
    if (!fits)
      PyErr_Clear();
  }
  if (!fits)
    return raise_int_overflow(value, size, low, high);
  store_integer(out, size, bits);
  return 0;
}

static int copy_bytes(unsigned char *out, uint32_t size, PyObject *value, const char *data, Py_ssize_t length) {
  if ((uint64_t)length != size)
    return raise_size_mismatch(value, length, size);
  memcpy(out, data, size);
  return 0;
}

static int pack_integer_like(unsigned char *out, uint32_t size, PyObject *value, const type_entry *how) {
  PyObject *number = PyNumber_Index(value);
  if (!number)
    return -1;
  int any = how->itemsize == 0; /* as a Python int */
  int status = pack_int(out, size, number, any || how->kind == KIND_SIGNED, any || how->kind == KIND_UNSIGNED);
  Py_DECREF(number);
  return status;
}

static int pack_float_like(unsigned char *out, uint32_t size, PyObject *value) {
  double number = PyFloat_AsDouble(value);
  if (number == -1.0 && PyErr_Occurred())
    return -1;
  return store_float(out, size, number);
}

static int pack_complex_like(unsigned char *out, uint32_t size, PyObject *value) {
  if (size != 8 && size != 16)
    return raise_unsuitable_size("a complex number", size);
  PyObject *number = PyObject_CallFunctionObjArgs((PyObject *)&PyComplex_Type, value, NULL);
  if (!number)
    return -1;
  double real = PyComplex_RealAsDouble(number), imaginary = PyComplex_ImagAsDouble(number);
  Py_DECREF(number);
  uint32_t half = size / 2;
  return store_float(out, half, real) < 0 ? -1 : store_float(out + half, half, imaginary);
}

/* What a value is packed for: the argument's number, and where to put what it points into. */
typedef struct destination {
  Py_ssize_t index;
  owners *keep;
  int device; /* of the launch; -1: not known */
} destination;

/* A buffer: its address, and a reference to its box taken at the same moment. */
static int pack_buffer(unsigned char *out, PyObject *value, const destination *to) {
  void *box = handle_hold(value);
  if (box == NULL)
    return -1;
  store_integer(out, 8, ((handle *)value)->raw);
  Py_INCREF(value);
  return owners_add(to->keep, to->index, box, value);
}

static int pack_pointer(const state *st, unsigned char *out, uint32_t size, PyObject *value, const destination *to) {
  if (size != 8)
    return raise_size_mismatch(value, 8, size);
  if (PyType_IsSubtype(Py_TYPE(value), st->buffer_type))
    return pack_buffer(out, value, to);
  PyObject *address = PyObject_GetAttr(value, st->ptr_name);
  if (!address)
    return -1;
  int status;
  if (PyLong_Check(address))
    status = pack_int(out, size, address, 1, 1);
  else if (address == Py_None)
    status = raise_about(PyExc_ValueError, "%U is closed", value, 0, 0);
  else
    status = raise_about(PyExc_TypeError, "%U has no integer address in _ptr", value, 0, 0);
  Py_DECREF(address);
  return status;
}

static int pack_converted(unsigned char *out, uint32_t size, PyObject *value, PyObject *converter) {
  Py_INCREF(converter); /* it may be unregistered while it runs */
  PyObject *length = PyLong_FromUnsignedLong(size);
  PyObject *result = length ? PyObject_CallFunctionObjArgs(converter, value, length, NULL) : NULL;
  int status;
  if (!result)
    status = -1;
  else if (PyBytes_Check(result))
    status = copy_bytes(out, size, value, PyBytes_AsString(result), PyBytes_Size(result));
  else if (PyLong_Check(result))
    status = pack_int(out, size, result, 1, 1);
  else
    status = raise_about(PyExc_TypeError, "the converter of %U must return bytes or an int", value, 0, 0);
  Py_XDECREF(result);
  Py_XDECREF(length);
  Py_DECREF(converter);
  return status;
}

static int pack_memoryview(unsigned char *out, uint32_t size, PyObject *value) {
  PyObject *copy = PyBytes_FromObject(value);
  if (!copy)
    return -1;
  int status = copy_bytes(out, size, value, PyBytes_AsString(copy), PyBytes_Size(copy));
  Py_DECREF(copy);
  return status;
}

/* Copies to *how what the registry has for the value's type, asking the resolver where it has nothing. */
static int look_up(const state *st, PyObject *value, type_entry *how) {
  PyObject *type = (PyObject *)Py_TYPE(value);
  *how = *types_find(st, type);
  if (!how->type && st->resolver) {
    PyObject *resolver = st->resolver;
    Py_INCREF(resolver); /* it may be replaced while it runs */
    Py_INCREF(type);     /* and the value given another class */
    PyObject *known = PyObject_CallFunctionObjArgs(resolver, type, value, NULL);
    Py_DECREF(type);
    Py_DECREF(resolver);
    int found = known ? PyObject_IsTrue(known) : -1;
    Py_XDECREF(known);
    if (found < 0)
      return -1;
    if (found)
      *how = *types_find(st, Py_TYPE(value));
  }
  if (!how->type)
    return raise_about(PyExc_TypeError,
                       "cannot pass a '%U' to a kernel; pass an int, float, complex, bool or None, a NumPy or ctypes "
                       "scalar, a device array or buffer, or bytes for a struct",
                       value, 0, 0);
  return 0;
}

static int pack_value(const state *st, unsigned char *out, uint32_t size, PyObject *value, const destination *to) {
  if (PyLong_CheckExact(value))
    return pack_int(out, size, value, 1, 1);
  if (PyFloat_CheckExact(value))
    return store_float(out, size, PyFloat_AsDouble(value));
  type_entry how;
  if (look_up(st, value, &how) < 0)
    return -1;
  if (how.itemsize && how.itemsize != size)
    return raise_size_mismatch(value, how.itemsize, size);
  switch (how.kind) {
  case KIND_SIGNED:
  case KIND_UNSIGNED:
    return pack_integer_like(out, size, value, &how);
  case KIND_FLOAT:
    return pack_float_like(out, size, value);
  case KIND_COMPLEX:
    return pack_complex_like(out, size, value);
  case KIND_BOOL: {
    int truth = PyObject_IsTrue(value);
    return truth < 0 ? -1 : pack_int(out, size, truth ? Py_True : Py_False, 1, 1);
  }
  case KIND_POINTER:
    return pack_pointer(st, out, size, value, to);
  case KIND_CONVERTER:
    return pack_converted(out, size, value, how.converter);
  case KIND_NONE:
    if (size != 8) {
      PyErr_Format(PyExc_TypeError, "None is a null pointer of 8 bytes, but the parameter has %u", size);
      return -1;
    }
    store_integer(out, size, 0);
    return 0;
  case KIND_BYTES:
    return copy_bytes(out, size, value, PyBytes_AsString(value), PyBytes_Size(value));
  case KIND_BYTEARRAY:
    return copy_bytes(out, size, value, PyByteArray_AsString(value), PyByteArray_Size(value));
  case KIND_MEMORYVIEW:
    return pack_memoryview(out, size, value);
  }
  Py_UNREACHABLE();
}

/* ---- packing a block ---- */

static int raise_bad_layout(Py_ssize_t index) {
  PyErr_Format(PyExc_ValueError,
               "layout: parameter %zd overlaps the one before it, or ends beyond the block or beyond %d bytes", index,
               BLOCK_MAX);
  return -1;
}

int read_layout(PyObject *object, layout *out) {
  if (!PyBytes_Check(object))
    return raise_about(PyExc_TypeError, "layout must be bytes, not '%U'", object, 0, 0);
  Py_ssize_t length = PyBytes_Size(object);
  if (length % (Py_ssize_t)sizeof(cch_param)) {
    PyErr_Format(PyExc_ValueError, "layout must be an array of (offset, size) pairs of 4 bytes each, not %zd bytes",
                 length);
    return -1;
  }
  *out = (layout){PyBytes_AsString(object), length / (Py_ssize_t)sizeof(cch_param), 0};
  if (out->count) {
    cch_param last = param_at(out, out->count - 1);
    out->total = (uint64_t)last.offset + last.size;
    if (out->total > BLOCK_MAX)
      return raise_bad_layout(out->count - 1);
  }
  return 0;
}

static PyObject *value_at(const values *given, Py_ssize_t index) {
  return given->array ? given->array[index] : PyTuple_GetItem(given->tuple, index);
}

/* Whether the parameters are so many of 8 bytes, one behind the other. */
static int all_of_8_bytes(const layout *params) {
  uint32_t other = 0;
  for (Py_ssize_t i = 0; i < params->count; ++i) {
    cch_param p = param_at(params, i);
    other |= (p.size ^ 8) | (p.offset ^ (uint32_t)(8 * i));
  }
  return other == 0;
}

/* Packs ints for as long as there are only such, and they fit; returns how many that were. Runs no Python code. */
static Py_ssize_t pack_pointers(const values *given, unsigned char *out) {
  Py_ssize_t i = 0;
  for (; i < given->count; ++i) {
    PyObject *value = value_at(given, i);
    if (!PyLong_CheckExact(value))
      break;
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
      break;
    memcpy(out + 8 * i, &number, sizeof number);
  }
  return i;
}

int pack_values(const state *st, const layout *params, values given, unsigned char *out, owners *keep, int device) {
  if (given.count != params->count) {
    raise_wrong_count(params, given.count);
    return -1;
  }
  /* Pointers as integers, which are most arguments of most launches, need none of what follows. */
  Py_ssize_t first = all_of_8_bytes(params) ? pack_pointers(&given, out) : 0;
  uint64_t end = 8 * (uint64_t)first;
  for (Py_ssize_t i = first; i < given.count; ++i) {
    cch_param p = param_at(params, i);
    if (p.offset < end || (uint64_t)p.offset + p.size > params->total)
      return raise_bad_layout(i);
    if (p.offset != end)
      memset(out + end, 0, p.offset - end);
    end = (uint64_t)p.offset + p.size;
    PyObject *value = value_at(&given, i);
    if (pack_value(st, out + p.offset, p.size, value, &(destination){i, keep, device}) < 0) {
      name_argument(st, i);
      return -1;
    }
  }
  return 0;
}

int pack_parameter(const state *st, const layout *params, Py_ssize_t index, PyObject *value, unsigned char *out,
                   owners *keep, int device) {
  if (index < 0 || index >= params->count) {
    PyErr_Format(PyExc_IndexError, "argument %zd is out of range: the kernel takes %zd argument%s", index,
                 params->count, plural((uint64_t)params->count));
    return -1;
  }
  cch_param p = param_at(params, index);
  if ((uint64_t)p.offset + p.size > params->total)
    return raise_bad_layout(index);
  if (pack_value(st, out + p.offset, p.size, value, &(destination){index, keep, device}) == 0)
    return 0;
  name_argument(st, index);
  return -1;
}

const char pack_doc[] = "pack(layout, args, /)\n--\n\n"
                        "Return the argument block of a launch: each value of the tuple at its parameter's place, "
                        "padding zero.";

PyObject *pack(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  layout params;
  if (check_argument_count("pack(layout, args)", count, 2) < 0 || read_layout(arguments[0], &params) < 0)
    return NULL;
  if (!PyTuple_Check(arguments[1])) {
    raise_about(PyExc_TypeError, "args must be a tuple, not '%U'", arguments[1], 0, 0);
    return NULL;
  }
  /* Nothing else can see the new object, so its bytes may be written. Empty bytes are shared: nothing to write. */
  PyObject *block = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)params.total);
  if (!block)
    return NULL;
  unsigned char *out = (unsigned char *)PyBytes_AsString(block);
  owners keep;
  owners_init(&keep);
  int status = pack_values(PyModule_GetState(module), &params, (values){NULL, arguments[1], PyTuple_Size(arguments[1])},
                           out, &keep, -1);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  owners_release(&keep);
  PyErr_Restore(type, value, traceback);
  if (status < 0)
    Py_CLEAR(block);
  return block;
}
