/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of products, as tensor cores compute them. For floating-point types, a block of products and the previous sum
 * are added in one step. First, the exact value of each of these terms is cut off, below a bit that is a fixed distance
 * below the largest exponent of all terms. Then the remaining values are added exactly, and the sum is rounded once.
 */
#include <algorithm>

#include "sim/isa/matrix.h"
#include "sim/isa/numeric.h"

namespace sim::exec {

namespace {

/* Returns the format of the numbers of floating point of a type. */
const Format &number_format(Element element) {
  switch (element) {
  case Element::e2m3:
    return format_e2m3;
  case Element::e3m2:
    return format_e3m2;
  case Element::e2m1:
  case Element::e2m1_packed:
    return format_e2m1;
  default:
    return format_of(element);
  }
}
/* Returns the position of a number in its element. */
int number_shift(Element element) { return element == Element::tf32 ? 13 : element == Element::e2m1 ? 2 : 0; }

/* A number is significand * 2^exponent if it is finite. `absent`: an element that a sparse matrix does not store. */
enum class Kind : uint8_t { absent, finite, infinite, nan };
struct Number {
  int32_t significand;
  int32_t exponent; /* exponent of the significand's leading bit, as if the number were normal */
  Kind kind;
};

constexpr int no_exponent = -100000; /* stands for the exponent of zero, which is ignored when exponents are compared */
constexpr int min_exponent = -133;   /* lower limit of a sum's largest exponent, relative to which bits are cut off */

Number number_of(const Format &format, uint64_t bits) {
  uint64_t magnitude = bits & ((uint64_t{1} << format.sign_shift()) - 1);
  auto biased = static_cast<int>(magnitude >> format.mantissa_bits);
  auto fraction = static_cast<int32_t>(magnitude & ((uint64_t{1} << format.mantissa_bits) - 1));
  bool negative = (bits >> format.sign_shift()) & 1;
  if (magnitude > format.largest)
    return {negative ? -1 : 1, 0, format.has_infinity && fraction == 0 ? Kind::infinite : Kind::nan};
  int32_t significand = biased ? fraction | 1 << format.mantissa_bits : fraction;
  int exponent = (biased ? biased : 1) - format.bias();
  return {negative ? -significand : significand, significand ? exponent : no_exponent, Kind::finite};
}

/* How an instruction computes sums. Several instructions can have the same model. */
struct Model {
  uint32_t block;    /* number of products that are added to the previous sum at once */
  int fraction_bits; /* number of bits kept below the largest exponent; in f32, also the limit of the sum's bits */
  /*
   * Whether numbers are converted to f16 before they are multiplied, so that subnormal numbers of e4m3 become normal.
   * If so, C is added at the end, rounded to nearest, instead of being the first term of the sum.
   */
  bool by_f16 = false;
  uint32_t together = 0; /* if not 0, groups of this many columns are assigned to two blocks alternately */
};

/*
 * Returns the model of an instruction on sm_90. The tensor cores of sm_90 multiply 16 columns at once, for tf32 only 8,
 * or 4 with wmma. In a sparse A, only the stored columns count. For floating-point numbers of 8 bits, mma has no
 * machine instruction: the numbers are converted to f16 and multiplied in two steps, and C is added without tensor
 * cores. wgmma has such an instruction. It adds all 32 products and C in one sum, and keeps 13 bits below the largest
 * exponent, even for C and for a result in f32. A result in f16 is this sum, rounded once. For all other types, wgmma
 * computes sums like mma. Of later devices only this is documented: f32 has at least its own precision.
 */
Model model_of(const MatrixProduct &product) {
  constexpr int fraction_bits = 25;
  uint32_t k = product.a.shape.k;
  if (product.at_once)
    return {k, fraction_bits};
  if (format_of(product.a.element).mantissa_bits < 7) {
    if (product.a.spread == Spread::wgmma)
      return {k, 13};
    return {k / 2, fraction_bits, true, product.a.sparse ? 4u : 2u};
  }
  uint32_t block = product.a.element != Element::tf32 ? 16 : product.a.spread == Spread::wmma ? 4 : 8;
  if (product.a.sparse)
    block *= 2;
  return {block, fraction_bits};
}

struct Matrix {
  std::array<int32_t, max_elements> significand, exponent;
  std::array<Kind, max_elements> kind;
};

/* Decodes lines of k numbers: rows of A, or columns of B. */
void decode(Element element, const MatrixBits &bits, uint32_t lines, uint32_t k, const Model &model, Matrix &matrix) {
  const Format &from = number_format(element), &format = model.by_f16 ? format_f16 : from;
  const uint32_t together = model.together;
  int shift = number_shift(element);
  uint64_t mask = ~uint64_t{0} >> (63 - from.sign_shift());
  for (uint32_t line = 0; line < lines; ++line)
    for (uint32_t t = 0; t < k; ++t) {
      uint64_t value = bits[line * k + t] >> shift & mask;
      bool absent = bits[line * k + t] == absent_element;
      if (&from != &format)
        value = round_to(format, value_of(from, value), Rounding::nearest); /* exact, because f16 is the wider format */
      Number number = number_of(format, value);
      uint32_t at = line * k + t;
      if (together)
        at = line * k + t / (2 * together) * together + t % together + (t / together % 2 ? k / 2 : 0);
      matrix.significand[at] = number.significand;
      matrix.exponent[at] = number.exponent;
      matrix.kind[at] = absent ? Kind::absent : number.kind;
    }
}

/* Multiplies lines of k numbers by their scales: the numbers of a line are divided into `count` parts. */
void scale(Matrix &matrix, uint32_t lines, uint32_t k, uint32_t count, bool is_power,
           const std::array<uint8_t, 64> &scales) {
  for (uint32_t line = 0; line < lines; ++line)
    for (uint32_t t = 0; t < k; ++t) {
      uint64_t bits = scales[line * count + t * count / k];
      Number factor;
      if (is_power)
        factor = {1, static_cast<int32_t>(bits) - format_ue8m0.bias(),
                  bits == format_ue8m0.nan ? Kind::nan : Kind::finite};
      else
        factor = number_of(format_e4m3, bits & 0x7f);
      uint32_t at = line * k + t;
      matrix.significand[at] *= factor.significand;
      matrix.exponent[at] = matrix.significand[at] ? matrix.exponent[at] + factor.exponent : no_exponent;
      matrix.kind[at] = std::max(matrix.kind[at], factor.kind);
    }
}

/* Returns the kind and the sign of a sum with a term that is not finite. */
Number special_sum(const Number &c, const Matrix &a, const Matrix &b, uint32_t i, uint32_t j, uint32_t count) {
  bool nan = c.kind == Kind::nan, positive = c.kind == Kind::infinite && c.significand > 0,
       negative = c.kind == Kind::infinite && c.significand < 0;
  for (uint32_t t = 0; t < count; ++t) {
    Kind x = a.kind[i + t], y = b.kind[j + t];
    if (x == Kind::absent || (x == Kind::finite && y == Kind::finite))
      continue;
    int64_t sign = int64_t{a.significand[i + t]} * b.significand[j + t];
    nan |= x == Kind::nan || y == Kind::nan || sign == 0; /* a product of zero and infinity is a NaN */
    positive |= sign > 0;
    negative |= sign < 0;
  }
  if (nan || (positive && negative))
    return {1, 0, Kind::nan};
  return {positive ? 1 : -1, 0, positive || negative ? Kind::infinite : Kind::finite};
}

uint64_t special_bits(const Format &format, const Number &number) {
  if (number.kind == Kind::nan)
    return format.nan;
  return (uint64_t{number.significand < 0} << format.sign_shift()) | (format.largest + 1);
}

/* Returns the bits of significand * 2^exponent. f32 is truncated, except on overflow. Zero is always positive. */
uint64_t rounded(const Format &format, int64_t significand, int exponent) {
  bool negative = significand < 0, is_f32 = format.mantissa_bits == format_f32.mantissa_bits;
  auto magnitude = static_cast<uint64_t>(negative ? -significand : significand);
  if (is_f32 && magnitude && exponent + 64 - __builtin_clzll(magnitude) > format.bias() + 1)
    return special_bits(format, {negative ? -1 : 1, 0, Kind::infinite});
  uint64_t bits =
      round_to(format, negative, magnitude, exponent, false, is_f32 ? Rounding::zero : Rounding::nearest, false);
  return bits == uint64_t{1} << format.sign_shift() ? 0 : bits;
}

/* The decoded matrices A (by rows) and B (by columns). */
struct Operands {
  Model model;
  int product_bits; /* number of bits in the fraction of a product */
  bool may_be_special;
  Matrix a, b;
};

/* Returns the sum of one block: c plus `count` products, starting at element i of A and element j of B. */
uint64_t block_sum(const Operands &o, const Format &format, uint64_t c_bits, uint32_t i, uint32_t j, uint32_t count) {
  Number c = number_of(format, c_bits);
  if (o.may_be_special || c.kind != Kind::finite) {
    Number special = special_sum(c, o.a, o.b, i, j, count);
    if (special.kind != Kind::finite)
      return special_bits(format, special);
  }
  const int32_t *a_exponent = o.a.exponent.data() + i, *b_exponent = o.b.exponent.data() + j;
  const int32_t *a_significand = o.a.significand.data() + i, *b_significand = o.b.significand.data() + j;
  int largest = std::max(c.exponent, min_exponent);
  for (uint32_t t = 0; t < count; ++t)
    largest = std::max(largest, a_exponent[t] + b_exponent[t]);
  auto aligned = [&](int64_t significand, int fraction_bits, int exponent) {
    int64_t magnitude = (significand < 0 ? -significand : significand) << o.model.fraction_bits;
    magnitude >>= std::min(fraction_bits + largest - exponent, 63);
    return significand < 0 ? -magnitude : magnitude;
  };
  int64_t sum = aligned(c.significand, format.mantissa_bits, c.exponent);
  for (uint32_t t = 0; t < count; ++t)
    sum += aligned(int64_t{a_significand[t]} * b_significand[t], o.product_bits, a_exponent[t] + b_exponent[t]);
  uint64_t bits = rounded(format, sum, largest - o.model.fraction_bits);
  if (o.model.fraction_bits >= format.mantissa_bits)
    return bits;
  bits &= ~uint64_t{0} << (format.mantissa_bits - o.model.fraction_bits);
  return bits == uint64_t{1} << format.sign_shift() ? 0 : bits;
}

/* Returns a + b, rounded to nearest. Both operands are f32, or both are f16. */
uint64_t plain_sum(const Format &format, uint64_t a, uint64_t b) {
  return round_to(format, add_to_odd(value_of(format, a), value_of(format, b)), Rounding::nearest);
}

/*
 * Returns c plus k products. The sum is computed in f32 if C or D is in f32. First, C is converted to the type of the
 * sum; at the end, the sum is converted to the type of D.
 */
uint64_t sum_of_products(const Operands &o, const Format &c_format, const Format &d_format, uint64_t c, uint32_t i,
                         uint32_t j, uint32_t k) {
  bool all_f16 = &c_format == &format_f16 && &d_format == &format_f16;
  const Format &format = all_f16 ? format_f16 : format_f32;
  if (&c_format != &format)
    c = round_to(format, value_of(c_format, c), Rounding::nearest);
  uint64_t sum = o.model.by_f16 ? 0 : c;
  for (uint32_t t = 0; t < k; t += o.model.block)
    sum = block_sum(o, format, sum, i + t, j + t, std::min(o.model.block, k - t));
  if (o.model.by_f16)
    sum = plain_sum(format, sum, c);
  return &d_format == &format ? sum : round_to(d_format, value_of(format, sum), Rounding::nearest);
}

/*
 * Calls f(index of an element of C, index of its row's start in A, index of its column's start in B) for all elements.
 */
template <class F> void for_elements(const MatrixShape &shape, F &&f) {
  for (uint32_t i = 0; i < shape.m; ++i)
    for (uint32_t j = 0; j < shape.n; ++j)
      f(i * shape.n + j, i * shape.k, j * shape.k);
}

void multiply_floats(const MatrixProduct &product, const MatrixBits &a, const MatrixBits &b, const MatrixBits &c,
                     MatrixBits &d, const ScaleBits &scales) {
  const MatrixShape &shape = product.a.shape;
  Operands o;
  o.model = model_of(product);
  auto fraction_bits = [&](Element element) {
    return (o.model.by_f16 ? format_f16 : number_format(element)).mantissa_bits;
  };
  o.product_bits = fraction_bits(product.a.element) + fraction_bits(product.b.element);
  uint32_t m = shape.m, n = shape.n, k = shape.k;
  decode(product.a.element, a, m, k, o.model, o.a);
  decode(product.b.element, b, n, k, o.model, o.b);
  if (product.scales) {
    scale(o.a, m, k, product.scales, product.scales_are_powers, scales.a);
    scale(o.b, n, k, product.scales, product.scales_are_powers, scales.b);
    o.product_bits += product.scales_are_powers ? 0 : 2 * format_e4m3.mantissa_bits;
  }
  auto all_finite = [](const Matrix &matrix, uint32_t count) {
    return std::all_of(matrix.kind.begin(), matrix.kind.begin() + count, [](Kind one) { return one <= Kind::finite; });
  };
  o.may_be_special = !all_finite(o.a, m * k) || !all_finite(o.b, n * k);
  const Format &c_format = format_of(product.c.element), &d_format = format_of(product.d.element);
  for_elements(shape, [&](uint32_t at, uint32_t row, uint32_t column) {
    d[at] = sum_of_products(o, c_format, d_format, c[at], row, column, k);
  });
}

/*
 * Returns an element of mma.m8n8k4, which does not use tensor cores. If D is f32, the products are added one by one,
 * and C at the end. If D is f16, the products are added in two halves, and C is added between the halves.
 */
float sum_of_four(const float *x, const float *y, float c, bool in_halves) {
  if (in_halves)
    return std::fma(x[1], y[1], x[0] * y[0]) + c + std::fma(x[3], y[3], x[2] * y[2]);
  float sum = 0;
  for (uint32_t t = 0; t < 4; ++t)
    sum = std::fma(x[t], y[t], sum);
  return sum + c;
}

void multiply_quad_pairs(const MatrixProduct &product, const MatrixBits &a, const MatrixBits &b, const MatrixBits &c,
                         MatrixBits &d) {
  constexpr uint32_t size = 8, k = 4;
  const Format &c_format = format_of(product.c.element), &d_format = format_of(product.d.element);
  for (uint32_t i = 0; i < size * product.a.products(); ++i)
    for (uint32_t j = 0; j < size; ++j) {
      uint32_t column = i / size * size + j;
      float x[k], y[k];
      for (uint32_t t = 0; t < k; ++t) {
        x[t] = static_cast<float>(value_of(format_f16, a[i * k + t]));
        y[t] = static_cast<float>(value_of(format_f16, b[column * k + t]));
      }
      float sum =
          sum_of_four(x, y, static_cast<float>(value_of(c_format, c[i * size + j])), product.d.element == Element::f16);
      d[i * size + j] = round_to(d_format, double{sum}, Rounding::nearest);
    }
}

void multiply_doubles(const MatrixProduct &product, const MatrixBits &a, const MatrixBits &b, const MatrixBits &c,
                      MatrixBits &d) {
  for_elements(product.a.shape, [&](uint32_t at, uint32_t row, uint32_t column) {
    auto sum = bit_cast<double>(c[at]);
    for (uint32_t t = 0; t < product.a.shape.k; ++t) {
      auto x = bit_cast<double>(a[row + t]), y = bit_cast<double>(b[column + t]);
      double next = std::fma(x, y, sum);
      sum = std::isnan(next) ? first_nan({y, sum, x}) : next;
    }
    d[at] = bit_cast<uint64_t>(sum);
  });
}

int64_t integer_of(Element element, uint64_t bits) {
  switch (element) {
  case Element::s4:
    return static_cast<int64_t>(bits << 60) >> 60;
  case Element::s8:
    return static_cast<int8_t>(bits);
  case Element::s32:
    return static_cast<int32_t>(bits);
  default:
    return static_cast<uint8_t>(bits);
  }
}

void multiply_integers(const MatrixProduct &product, const MatrixBits &a, const MatrixBits &b, const MatrixBits &c,
                       MatrixBits &d) {
  const MatrixShape &shape = product.a.shape;
  std::array<int32_t, max_elements> left, right;
  for (uint32_t i = 0; i < shape.m * shape.k; ++i)
    left[i] = static_cast<int32_t>(integer_of(product.a.element, a[i]));
  for (uint32_t i = 0; i < shape.n * shape.k; ++i)
    right[i] = static_cast<int32_t>(integer_of(product.b.element, b[i]));
  for_elements(shape, [&](uint32_t at, uint32_t row, uint32_t column) {
    int32_t products = 0; /* large enough for at most 128 products with at most 16 bits each */
    for (uint32_t t = 0; t < shape.k; ++t)
      products += left[row + t] * right[column + t];
    int64_t sum = integer_of(Element::s32, c[at]) + products;
    if (product.saturate)
      sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
    d[at] = static_cast<uint32_t>(sum);
  });
}

void multiply_bits(const MatrixProduct &product, const MatrixBits &a, const MatrixBits &b, const MatrixBits &c,
                   MatrixBits &d) {
  for_elements(product.a.shape, [&](uint32_t at, uint32_t row, uint32_t column) {
    auto sum = static_cast<uint32_t>(c[at]);
    for (uint32_t t = 0; t < product.a.shape.k; ++t) {
      uint64_t x = a[row + t], y = b[column + t];
      sum += static_cast<uint32_t>(__builtin_popcountll(product.bits == BitProduct::and_ ? x & y : x ^ y));
    }
    d[at] = sum;
  });
}

} // namespace

void multiply(const MatrixProduct &product, const MatrixBits &a, const MatrixBits &b, const MatrixBits &c,
              MatrixBits &d, const ScaleBits &scales) {
  switch (product.a.element) {
  case Element::f64:
    return multiply_doubles(product, a, b, c, d);
  case Element::b1:
    return multiply_bits(product, a, b, c, d);
  case Element::s4:
  case Element::u4:
  case Element::s8:
  case Element::u8:
    return multiply_integers(product, a, b, c, d);
  default:
    return product.a.spread == Spread::quad_pairs ? multiply_quad_pairs(product, a, b, c, d)
                                                  : multiply_floats(product, a, b, c, d, scales);
  }
}

} // namespace sim::exec
