/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/isa/numeric.h"

#include <algorithm>

namespace sim::exec {

namespace {
/*
 * Returns whether a value between two neighbouring numbers is rounded to the one with the larger magnitude. `half`: the
 * value is in the middle or above it. `rest`: the value is neither in the middle nor equal to a neighbour.
 */
bool rounds_away(Rounding rounding, bool negative, bool odd, bool half, bool rest) {
  switch (rounding) {
  case Rounding::zero:
    return false;
  case Rounding::down:
    return negative && (half || rest);
  case Rounding::up:
    return !negative && (half || rest);
  case Rounding::nearest_away:
    return half;
  default:
    return half && (rest || odd);
  }
}
} // namespace

uint64_t round_to(const Format &format, bool negative, uint64_t mantissa, int exponent, bool sticky, Rounding rounding,
                  bool satfinite) {
  uint64_t sign = uint64_t{negative} << format.sign_shift();
  if (mantissa == 0)
    return sign;
  int shift_up = __builtin_clzll(mantissa);
  mantissa <<= shift_up;
  exponent += 63 - shift_up; /* now the value is 1.xxx * 2^exponent, with the 1 in bit 63 */
  int lowest = 1 - format.bias();
  int drop = 63 - format.mantissa_bits + (exponent < lowest ? lowest - exponent : 0);
  uint64_t kept = drop < 64 ? mantissa >> drop : 0;
  bool half = drop <= 64 && ((mantissa >> (drop - 1)) & 1);
  bool rest = sticky || drop > 64 || (drop > 1 && (mantissa << (65 - drop)) != 0);
  if (rounds_away(rounding, negative, kept & 1, half, rest))
    ++kept;
  /* The leading one of the mantissa will add one to the exponent; so will a carry out of the mantissa. */
  uint64_t biased = exponent < lowest ? 0 : static_cast<uint64_t>(exponent + format.bias() - 1);
  bool overflow = exponent > format.bias() + 1;
  uint64_t bits = overflow ? 0 : (biased << format.mantissa_bits) + kept;
  if (overflow || bits > format.largest) {
    bool to_largest = rounding == Rounding::zero || (rounding == Rounding::down && !negative) ||
                      (rounding == Rounding::up && negative);
    if (satfinite || to_largest)
      bits = format.largest;
    else
      bits = format.has_infinity ? format.largest + 1 : format.nan;
  }
  return sign | bits;
}

/* Returns the bits of a power of two: the magnitude of `value`, rounded. */
static uint64_t round_to_power(const Format &format, double value, Rounding rounding, bool satfinite) {
  if (std::isnan(value))
    return format.nan;
  uint64_t above = satfinite ? format.largest : format.nan;
  if (std::isinf(value))
    return above;
  int exponent = 0;
  bool is_exact = std::frexp(std::abs(value), &exponent) == 0.5; /* the magnitude is below 2^exponent */
  if (value == 0)
    return 0;
  int biased = exponent - 1 + format.bias() + (rounding == Rounding::up && !is_exact ? 1 : 0);
  return biased < 0 ? 0 : std::min(static_cast<uint64_t>(biased), above);
}

uint64_t round_to(const Format &format, double value, Rounding rounding, bool satfinite) {
  if (!format.has_sign)
    return round_to_power(format, value, rounding, satfinite);
  if (std::isnan(value))
    return format.nan;
  bool negative = std::signbit(value);
  uint64_t sign = uint64_t{negative} << format.sign_shift();
  if (std::isinf(value))
    return sign | (satfinite ? format.largest : format.has_infinity ? format.largest + 1 : format.nan);
  auto bits = bit_cast<uint64_t>(value);
  auto biased = static_cast<int>((bits >> 52) & 0x7ff);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (biased)
    mantissa |= uint64_t{1} << 52;
  return round_to(format, negative, mantissa, (biased ? biased : 1) - 1075, false, rounding, satfinite);
}

double value_of(const Format &format, uint64_t bits) {
  if (!format.has_sign)
    return bits == format.nan ? bit_cast<double>(uint64_t{0x7ff8000000000000})
                              : std::ldexp(1.0, static_cast<int>(bits) - format.bias());
  uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  auto biased = static_cast<int>((bits >> format.mantissa_bits) & ((1u << format.exponent_bits) - 1));
  bool negative = (bits >> format.sign_shift()) & 1;
  uint64_t magnitude = bits & ((uint64_t{1} << format.sign_shift()) - 1);
  double value;
  if (magnitude > format.largest)
    value = format.has_infinity && mantissa == 0 ? HUGE_VAL : bit_cast<double>(uint64_t{0x7ff8000000000000});
  else if (biased == 0)
    value = std::ldexp(static_cast<double>(mantissa), 1 - format.bias() - format.mantissa_bits);
  else
    value = std::ldexp(static_cast<double>(mantissa | (uint64_t{1} << format.mantissa_bits)),
                       biased - format.bias() - format.mantissa_bits);
  return negative ? -value : value;
}

double add_to_odd(double a, double b) {
  double sum = a + b;
  if (!std::isfinite(sum))
    return sum;
  double part = sum - a;
  double error = (a - (sum - part)) + (b - part);
  auto bits = bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1))
    return sum;
  /* The exact sum is between `sum`, which is even, and one of its odd neighbours. The result is this odd neighbour. */
  bool away = (error > 0) == (sum > 0);
  return bit_cast<double>(away ? bits + 1 : bits - 1);
}

double round_to_integral(double value, Rounding rounding) {
  if (std::isnan(value))
    return quiet_nan(value);
  switch (rounding) {
  case Rounding::zero:
    return std::trunc(value);
  case Rounding::down:
    return std::floor(value);
  case Rounding::up:
    return std::ceil(value);
  case Rounding::nearest_away:
    return std::round(value);
  default:
    return std::nearbyint(value);
  }
}

} // namespace sim::exec
