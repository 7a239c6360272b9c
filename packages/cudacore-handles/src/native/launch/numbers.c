/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs numbers. A value is converted if the parameter's type can represent it exactly; otherwise it is an error. An
 * int becomes a float if the float equals it. Python's own floats are rounded, as C++ rounds a literal.
 */
#include "launch/pack.h"

#include <limits.h>
#include <math.h>

enum { PRINTED_BITS = 128 /* larger integers are described by their length, and not printed */ };

/* ---- messages ---- */

#define HAS_BYTE "%U has %zd byte, but the parameter has %u"
#define HAS_BYTES "%U has %zd bytes, but the parameter has %u"
#define PASS_A_NUMBER "pass a Python number, such as value.item(), which is converted, or a scalar of that size"

int raise_size_mismatch(const destination *to, PyObject *value, Py_ssize_t given) {
  return raise_about(PyExc_TypeError, given == 1 ? HAS_BYTE : HAS_BYTES, value, given, to->size);
}

static int raise_other_size(const destination *to, PyObject *value, Py_ssize_t given) {
  switch (to->kind) {
  case PARAM_POINTER:
    return raise_about(PyExc_TypeError,
                       "%U has %zd bytes, but the parameter is a pointer of %u; pass an array, a buffer, or the "
                       "address as an int",
                       value, given, to->size);
  case PARAM_UNKNOWN:
    return raise_about(PyExc_TypeError, given == 1 ? HAS_BYTE "; " PASS_A_NUMBER : HAS_BYTES "; " PASS_A_NUMBER, value,
                       given, to->size);
  default:
    return raise_size_mismatch(to, value, given);
  }
}

static int raise_unsuitable_size(const char *what, uint32_t size) {
  return raise_error(PyExc_TypeError, "%s cannot fill a parameter of %u byte%s; pass bytes of exactly %u byte%s", what,
                     size, plural(size), size, plural(size));
}

static int raise_unsuitable(const destination *to, const char *what, const char *remedy) {
  return raise_error(PyExc_TypeError, "%s cannot fill a parameter of %u byte%s that is %s; %s", what, to->size,
                     plural(to->size), kind_text(to), remedy);
}

static int raise_struct(const destination *to, const char *what) {
  return raise_unsuitable(to, what, "pass bytes, a ctypes.Structure or a structured NumPy scalar");
}

/* Raises the error for a float where the parameter can be a __half or an __nv_bfloat16. */
static int raise_unknown_format(const destination *to) {
  return raise_unsuitable(to, "a float",
                          "it can be a __half or an __nv_bfloat16: pass np.float16(x) or ml_dtypes.bfloat16(x), or "
                          "compile the kernel without extern \"C\", so that its name has its types");
}

/*
 * Raises the error for a number where an array is needed. It most likely means that there is one argument too few or
 * too many; no kernel could use the number.
 */
static int raise_no_pointer(const destination *to, const char *what) {
  return raise_unsuitable(to, what,
                          to->kind == PARAM_POINTER ? "pass an array, a buffer, or an address as an int"
                                                    : "pass an array, a buffer or an int");
}

/* Describes an int in an error message: the int itself, or its length. A new reference. */
static PyObject *describe_int(PyObject *value) {
  PyObject *length = PyObject_CallMethod(value, "bit_length", NULL);
  if (!length)
    return NULL;
  int overflow = 0;
  long bits = PyLong_AsLongAndOverflow(length, &overflow);
  PyObject *text =
      overflow || bits > PRINTED_BITS ? PyUnicode_FromFormat("an int of %S bits", length) : PyObject_Repr(value);
  Py_DECREF(length);
  return text;
}

static int raise_int_overflow(const destination *to, PyObject *value, long long low, unsigned long long high) {
  PyObject *text = describe_int(value);
  if (text) {
    PyErr_Format(PyExc_OverflowError, "%U does not fit a parameter of %u byte%s (%lld to %llu)", text, to->size,
                 plural(to->size), low, high);
    Py_DECREF(text);
  }
  return -1;
}

static int raise_inexact_int(const destination *to, PyObject *value) {
  PyObject *text = describe_int(value);
  if (text) {
    PyErr_Format(PyExc_TypeError, "%U is not exact as %s of %u bytes; pass it as a Python float if it may be rounded",
                 text, kind_text(to), to->size);
    Py_DECREF(text);
  }
  return -1;
}

static int raise_about_double(PyObject *exception, const char *format, double number, uint32_t size, const char *what) {
  PyObject *value = PyFloat_FromDouble(number);
  if (value) {
    PyErr_Format(exception, format, value, size, what);
    Py_DECREF(value);
  }
  return -1;
}

/* ---- storing numbers in the argument block ---- */

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

/* A 16-bit binary format, described by the bits of its exponent and of its fraction. */
typedef struct narrow_format {
  int exponent_bits, fraction_bits;
  const char *name;
} narrow_format;

static const narrow_format binary16 = {5, 10, "binary16"}, bfloat16 = {8, 7, "bfloat16"};

/* Rounds to a 16-bit format, ties to even; false if a finite number is too large. */
static bool narrow(double number, const narrow_format *format, uint16_t *out) {
  const int bias = (1 << (format->exponent_bits - 1)) - 1, kept = format->fraction_bits;
  const uint64_t infinity = (((UINT64_C(1) << format->exponent_bits) - 1) << kept);
  const uint16_t sign = signbit(number) ? 0x8000 : 0;
  uint64_t result = infinity;
  if (isnan(number)) { /* it becomes quiet, and keeps the part of its payload that fits */
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    result |= UINT64_C(1) << (kept - 1) | (bits & ((UINT64_C(1) << 52) - 1)) >> (52 - kept);
  } else if (isfinite(number)) {
    int exponent;
    frexp(number, &exponent);
    if (number == 0 || exponent < 2 - bias) /* subnormal in this format */
      exponent = 2 - bias;
    /*
     * The number in units of its last place has the leading bit where the exponent ends. It is not there in a subnormal
     * number. So the sum is right in both cases, also if rounding carries.
     */
    const double units = rint(ldexp(fabs(number), kept + 1 - exponent));
    result = (uint64_t)units + ((uint64_t)(exponent - 2 + bias) << kept);
    if (result >= infinity)
      return false;
  }
  *out = (uint16_t)(sign | result);
  return true;
}

static int store_narrow(unsigned char *out, double number, const narrow_format *format) {
  uint16_t result;
  if (!narrow(number, format, &result))
    return raise_about_double(PyExc_OverflowError, "%R does not fit a parameter of %u bytes (%s)", number, 2,
                              format->name);
  memcpy(out, &result, sizeof result);
  return 0;
}

static int store_float(unsigned char *out, uint32_t size, uint32_t kind, double number) {
  switch (size) {
  case 8:
    memcpy(out, &number, sizeof number);
    return 0;
  case 4: {
    float single = (float)number;
    if (isinf(single) && !isinf(number))
      return raise_about_double(PyExc_OverflowError, "%R does not fit a parameter of %u bytes (%s)", number, size,
                                "binary32");
    memcpy(out, &single, sizeof single);
    return 0;
  }
  case 2:
    return store_narrow(out, number, kind == PARAM_BFLOAT ? &bfloat16 : &binary16);
  default:
    return raise_unsuitable_size("a float", size);
  }
}

/* ---- integers ---- */

/* Returns the number of bits of precision of a floating-point parameter, including the leading bit. */
static int precision(const destination *to) {
  switch (to->size) {
  case 8:
    return 53;
  case 4:
    return 24;
  default:
    return to->kind == PARAM_BFLOAT ? bfloat16.fraction_bits + 1 : binary16.fraction_bits + 1;
  }
}

static int pack_int_as_float(const destination *to, PyObject *value) {
  int overflow;
  long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  double nearest = (double)number;
  const long long exact = 1ll << 53;
  if (overflow || number < -exact || number > exact) {
    nearest = PyLong_AsDouble(value);
    PyObject *back = nearest == -1.0 && PyErr_Occurred() ? NULL : PyFloat_FromDouble(nearest);
    int equal = back ? PyObject_RichCompareBool(back, value, Py_EQ) : -1;
    Py_XDECREF(back);
    if (equal < 0) {
      if (!PyErr_ExceptionMatches(PyExc_OverflowError))
        return -1;
      PyErr_Clear();
    }
    if (equal != 1)
      return raise_inexact_int(to, value);
  }
  uint64_t bits, dropped = (UINT64_C(1) << (53 - precision(to))) - 1;
  memcpy(&bits, &nearest, sizeof bits);
  if (bits & dropped)
    return raise_inexact_int(to, value);
  return store_float(to->out, to->size, to->kind, nearest);
}

/*
 * Packs an int. `is_unsigned`: it must not be negative. `is_signed`: it must not exceed the maximum of a signed int of
 * its size.
 */
static int pack_in_range(const destination *to, PyObject *value, bool is_unsigned, bool is_signed) {
  uint32_t size = to->size;
  switch (to->kind) {
  case PARAM_FLOAT:
  case PARAM_BFLOAT:
    return pack_int_as_float(to, value);
  case PARAM_BYTES:
    return raise_struct(to, "an int");
  case PARAM_INT:
    is_signed = true;
    break;
  case PARAM_UINT:
  case PARAM_BOOL:
    is_unsigned = true;
    break;
  default:
    break;
  }
  if (size != 8 && size != 4 && size != 2 && size != 1)
    return raise_unsuitable_size("an int", size);
  unsigned long long half_range = 1ull << (8 * size - 1);
  long long low = is_unsigned ? 0 : -(long long)(half_range - 1) - 1;
  unsigned long long high = is_signed ? half_range - 1 : half_range - 1 + half_range;
  if (to->kind == PARAM_BOOL)
    high = 1;
  int overflow;
  long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  unsigned long long bits = (unsigned long long)number;
  bool fits = overflow == 0 && (number < 0 ? number >= low : bits <= high);
  if (overflow > 0 && high > LLONG_MAX) { /* 2**63 and above: only the unsigned conversion determines whether it fits */
    bits = PyLong_AsUnsignedLongLong(value);
    fits = !(bits == (unsigned long long)-1 && PyErr_Occurred());
    if (!fits)
      PyErr_Clear();
  }
  if (!fits)
    return raise_int_overflow(to, value, low, high);
  store_integer(to->out, size, bits);
  return 0;
}

int pack_int(const destination *to, PyObject *value) { return pack_in_range(to, value, false, false); }

static int pack_integer_like(const destination *to, PyObject *value, const type_entry *how) {
  PyObject *number = PyNumber_Index(value);
  if (!number)
    return -1;
  const bool same_size = how->itemsize == to->size;
  const int status = pack_in_range(to, number, same_size && how->packing == PACKING_UNSIGNED,
                                   same_size && how->packing == PACKING_SIGNED);
  Py_DECREF(number);
  return status;
}

static int pack_bool_like(const destination *to, PyObject *value) {
  if (kind_takes(to, IS_POINTER))
    return raise_no_pointer(to, "a bool");
  const int truth = PyObject_IsTrue(value);
  return truth < 0 ? -1 : pack_int(to, truth ? Py_True : Py_False);
}

/* ---- floating point ---- */

static int pack_double_as_integer(const destination *to, double number) {
  if (!isfinite(number) || floor(number) != number)
    return raise_about_double(PyExc_TypeError,
                              "%R is not an integer, and the parameter of %u bytes is %s; round it first", number,
                              to->size, kind_text(to));
  PyObject *integer = PyLong_FromDouble(number);
  if (!integer)
    return -1;
  int status = pack_int(to, integer);
  Py_DECREF(integer);
  return status;
}

int pack_double(const destination *to, double number) {
  switch (to->kind) {
  case PARAM_UNKNOWN:
    if (to->size == sizeof(uint16_t))
      return raise_unknown_format(to);
    break;
  case PARAM_FLOAT:
  case PARAM_BFLOAT:
    break;
  case PARAM_POINTER:
  case PARAM_ADDRESS:
    return raise_no_pointer(to, "a float");
  case PARAM_BYTES:
    return to->size == sizeof(uint16_t) ? raise_unknown_format(to) : raise_struct(to, "a float");
  default:
    return pack_double_as_integer(to, number);
  }
  return store_float(to->out, to->size, to->kind, number);
}

static int pack_float_like(const destination *to, PyObject *value) {
  const double number = PyFloat_AsDouble(value);
  return number == -1.0 && PyErr_Occurred() ? -1 : pack_double(to, number);
}

static int pack_complex_like(const destination *to, PyObject *value) {
  if (to->kind != PARAM_UNKNOWN && to->kind != PARAM_BYTES)
    return raise_unsuitable(to, "a complex number", "pass its real part");
  if (to->size != 8 && to->size != 16)
    return raise_unsuitable_size("a complex number", to->size);
  PyObject *number = PyObject_CallFunctionObjArgs((PyObject *)&PyComplex_Type, value, NULL);
  if (!number)
    return -1;
  double real = PyComplex_RealAsDouble(number), imaginary = PyComplex_ImagAsDouble(number);
  Py_DECREF(number);
  uint32_t half = to->size / 2;
  if (store_float(to->out, half, PARAM_FLOAT, real) < 0)
    return -1;
  return store_float(to->out + half, half, PARAM_FLOAT, imaginary);
}

/* ---- values of registered types ---- */

/*
 * Returns whether the size of a scalar must equal that of the parameter, because its bytes are copied or the parameter
 * is a pointer.
 */
static bool needs_same_size(const destination *to, const type_entry *how) {
  if (to->kind == PARAM_POINTER)
    return how->packing == PACKING_SIGNED || how->packing == PACKING_UNSIGNED;
  return kind_takes(to, TAKES_BYTES);
}

static inline int pack_by_sort(const destination *to, PyObject *value, const type_entry *how) {
  switch (how->packing) {
  case PACKING_FLOAT:
    return pack_float_like(to, value);
  case PACKING_COMPLEX:
    return pack_complex_like(to, value);
  case PACKING_BOOL:
    return pack_bool_like(to, value);
  default:
    return pack_integer_like(to, value, how);
  }
}

int pack_number(const destination *to, PyObject *value, const type_entry *how) {
  if (how->itemsize && how->itemsize != to->size && needs_same_size(to, how))
    return raise_other_size(to, value, how->itemsize);
  destination raw;
  if (how->itemsize && kind_takes(to, TAKES_BYTES)) { /* it has the size of the parameter: its bytes are copied */
    raw = *to;
    raw.kind = how->packing == PACKING_FLOAT ? PARAM_FLOAT : PARAM_UNKNOWN;
    to = &raw;
  }
  if (!how->has_value)
    return pack_by_sort(to, value, how);
  PyObject *content = PyObject_GetAttr(value, to->st->names.value); /* of a ctypes scalar, for example */
  int status = content ? pack_by_sort(to, content, how) : -1;
  Py_XDECREF(content);
  return status;
}
