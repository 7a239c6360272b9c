/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_NUMERIC_H
#define CUDACORE_SIM_ISA_NUMERIC_H

#include <cfenv>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "sim/isa/handlers.h"

/* Floating-point formats, and conversions between them with correct rounding. */
namespace sim::exec {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  uint64_t nan;     /* the NaN that operations return */
  uint64_t largest; /* the largest finite number */
  bool has_sign = true;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int sign_shift() const { return exponent_bits + mantissa_bits; }
};
inline constexpr Format format_f16{5, 10, true, 0x7fff, 0x7bff};
inline constexpr Format format_bf16{8, 7, true, 0x7fff, 0x7f7f};
inline constexpr Format format_tf32{8, 10, true, 0x3ffff, 0x3fbff};
inline constexpr Format format_e4m3{4, 3, false, 0x7f, 0x7e};
inline constexpr Format format_e5m2{5, 2, true, 0x7f, 0x7b};
/* Formats without NaN: conversions of a NaN give the largest number. */
inline constexpr Format format_e2m1{2, 1, false, 0x7, 0x7};
inline constexpr Format format_e2m3{2, 3, false, 0x1f, 0x1f};
inline constexpr Format format_e3m2{3, 2, false, 0x1f, 0x1f};
/* Powers of two from 2^-127 to 2^127. Conversions to it ignore the sign. */
inline constexpr Format format_ue8m0{8, 0, false, 0xff, 0xfe, false};
inline constexpr Format format_f32{8, 23, true, 0x7fffffff, 0x7f7fffff};
inline constexpr Format format_f64{11, 52, true, 0x7ff8000000000000, 0x7fefffffffffffff};

/*
 * Returns the format of a PTX type, or of an element of a matrix. Types without a format of their own are computed in
 * f32.
 */
template <class T> constexpr const Format &format_of(T type) {
  switch (type) {
  case T::f16:
    return format_f16;
  case T::bf16:
    return format_bf16;
  case T::tf32:
    return format_tf32;
  case T::e4m3:
    return format_e4m3;
  case T::e5m2:
    return format_e5m2;
  case T::f64:
    return format_f64;
  default:
    return format_f32;
  }
}

/*
 * Returns the bits of mantissa * 2^exponent, rounded. `sticky`: the magnitude of the exact value is slightly larger. An
 * overflow gives infinity or the largest number, depending on the rounding mode; with `satfinite`, it always gives the
 * largest number.
 */
uint64_t round_to(const Format &format, bool negative, uint64_t mantissa, int exponent, bool sticky, Rounding rounding,
                  bool satfinite);
/* Returns the bits of a double that is rounded to a format. The double may be a NaN or infinite. */
uint64_t round_to(const Format &format, double value, Rounding rounding, bool satfinite = false);
/* Returns the value of a number in a format. It is always exact, because no format is wider than f64. */
double value_of(const Format &format, uint64_t bits);

/*
 * Returns a + b, rounded to odd if the sum is inexact. If the result is then rounded to 51 bits or fewer, this gives
 * the correctly rounded sum.
 */
double add_to_odd(double a, double b);

template <class To, class From> inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline float canonical_nan(float value) { return value == value ? value : bit_cast<float>(0x7fffffffu); }
/* Makes a NaN quiet, and keeps its sign and its payload, as operations on f64 do. */
inline double quiet_nan(double value) { return bit_cast<double>(bit_cast<uint64_t>(value) | uint64_t{1} << 51); }
/*
 * Returns the NaN that an operation returns: the first source that is a NaN. If no source is a NaN, this is the NaN of
 * invalid operations.
 */
inline double first_nan(std::initializer_list<double> sources) {
  for (double one : sources)
    if (one != one)
      return quiet_nan(one);
  return bit_cast<double>(uint64_t{0xfff8000000000000});
}
inline float flush(float value) {
  return (bit_cast<uint32_t>(value) & 0x7f800000u) == 0 ? bit_cast<float>(bit_cast<uint32_t>(value) & 0x80000000u)
                                                        : value;
}
inline double flush(double value) { return value; }
/* Limits a value to the range [0, 1]; a NaN becomes 0. */
template <class T> inline T saturate_unit(T value) { return value > T{0} ? (value < T{1} ? value : T{1}) : T{0}; }

/* Sets a rounding mode of the host's floating-point unit for the lifetime of the object. */
template <Rounding R> class RoundingScope {
public:
  RoundingScope() {
    std::fesetround(R == Rounding::zero ? FE_TOWARDZERO : R == Rounding::down ? FE_DOWNWARD : FE_UPWARD);
  }
  ~RoundingScope() { std::fesetround(FE_TONEAREST); }
};
template <> class RoundingScope<Rounding::nearest> {
public:
  RoundingScope() {}
};

double round_to_integral(double value, Rounding rounding);

} // namespace sim::exec

#endif
