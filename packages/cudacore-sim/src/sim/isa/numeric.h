/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_NUMERIC_H
#define CUDACORE_SIM_ISA_NUMERIC_H

#include <cfenv>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "sim/isa/handlers.h"

/* Floating-point formats and correct rounding between them. */
namespace sim::exec {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  uint64_t nan;     /* the NaN that operations give */
  uint64_t largest; /* the largest finite number */

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int sign_shift() const { return exponent_bits + mantissa_bits; }
};
inline constexpr Format format_f16{5, 10, true, 0x7fff, 0x7bff};
inline constexpr Format format_bf16{8, 7, true, 0x7fff, 0x7f7f};
inline constexpr Format format_tf32{8, 10, true, 0x3ffff, 0x3fbff};
inline constexpr Format format_e4m3{4, 3, false, 0x7f, 0x7e};
inline constexpr Format format_e5m2{5, 2, true, 0x7f, 0x7b};
inline constexpr Format format_f32{8, 23, true, 0x7fffffff, 0x7f7fffff};
inline constexpr Format format_f64{11, 52, true, 0x7ff8000000000000, 0x7fefffffffffffff};

/* The format of a PTX type, or of an element of a matrix. Types without a format of their own are computed in f32. */
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
 * The bits of mantissa * 2^exponent, rounded. `sticky`: the exact value is a little larger in magnitude. Overflow gives
 * infinity or the largest number, depending on the rounding; `satfinite`: always the largest number.
 */
uint64_t round_to(const Format &format, bool negative, uint64_t mantissa, int exponent, bool sticky, Rounding rounding,
                  bool satfinite);
/* The bits of a double, rounded to a format. The double may be a NaN or infinite. */
uint64_t round_to(const Format &format, double value, Rounding rounding, bool satfinite = false);
/* The value of a number in a format. A double represents it exactly, because no format is wider than f64. */
double value_of(const Format &format, uint64_t bits);

/* a + b, rounded to odd if inexact. Rounding the result to at most 51 bits gives the exact sum, rounded. */
double add_to_odd(double a, double b);

template <class To, class From> inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline float canonical_nan(float value) { return value == value ? value : bit_cast<float>(0x7fffffffu); }
/* f64 operations keep the sign and payload of a NaN, and make it a quiet one. */
inline double quiet_nan(double value) { return bit_cast<double>(bit_cast<uint64_t>(value) | uint64_t{1} << 51); }
/*
 * The NaN that an operation gives: the first source that is a NaN. If no source is a NaN, it is the NaN of invalid
 * operations.
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
/* [0, 1], NaN to 0. */
template <class T> inline T saturate_unit(T value) { return value > T{0} ? (value < T{1} ? value : T{1}) : T{0}; }

/* Sets a rounding mode of the host for the lifetime of the object. */
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
