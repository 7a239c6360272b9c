/* SPDX-License-Identifier: Apache-2.0 */
/* The level of detail for given derivatives of the coordinates, computed with as few bits as on an H200. */
#include "sim/exec/ops/texture/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace sim::exec {
namespace {

/* For each i, the logarithm to base 2 of 1 + i / 256 as an H200 approximates it, in units of 1 / 256. */
constexpr std::array<uint8_t, 256> logarithms{
    0,   2,   4,   5,   6,   8,   9,   11,  12,  13,  15,  16,  18,  19,  20,  22,  23,  24,  26,  27,  28,  30,
    31,  32,  34,  35,  36,  38,  39,  40,  42,  43,  44,  45,  47,  48,  49,  50,  52,  53,  54,  55,  57,  58,
    59,  60,  62,  63,  64,  65,  66,  68,  69,  70,  71,  72,  74,  75,  76,  77,  78,  79,  81,  82,  83,  84,
    85,  86,  88,  89,  90,  91,  92,  93,  94,  95,  97,  98,  99,  100, 101, 102, 103, 104, 105, 106, 107, 109,
    110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131,
    132, 133, 135, 136, 137, 137, 138, 139, 140, 141, 142, 143, 144, 145, 146, 147, 148, 149, 150, 151, 152, 153,
    154, 155, 156, 157, 158, 159, 160, 161, 162, 162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 173,
    174, 175, 176, 177, 178, 179, 180, 181, 181, 182, 183, 184, 185, 186, 187, 188, 188, 189, 190, 191, 192, 193,
    194, 195, 195, 196, 197, 198, 199, 200, 200, 201, 202, 203, 204, 205, 205, 206, 207, 208, 209, 210, 210, 211,
    212, 213, 214, 214, 215, 216, 217, 218, 218, 219, 220, 221, 222, 222, 223, 224, 225, 226, 226, 227, 228, 229,
    229, 230, 231, 232, 233, 233, 234, 235, 236, 236, 237, 238, 239, 239, 240, 241, 242, 242, 243, 244, 245, 245,
    246, 247, 248, 248, 249, 250, 251, 251, 252, 253, 253, 254, 255, 255,
};

constexpr unsigned length_bits = 10;
constexpr int64_t length_one = 1 << (length_bits - 1);

/* A length: value * 2^exponent. The value has length_bits bits, or is 0. */
struct Length {
  int64_t value = 0;
  int exponent = 0;
};

/* Cuts a value to its length_bits highest bits. */
Length cut(int64_t value, int exponent) {
  if (value == 0)
    return {};
  int drop = 64 - __builtin_clzll(static_cast<uint64_t>(value)) - static_cast<int>(length_bits);
  return {drop >= 0 ? value >> drop : value << -drop, exponent + drop};
}

bool is_less(Length a, Length b) {
  if (a.value == 0 || b.value == 0)
    return a.value < b.value;
  return a.exponent != b.exponent ? a.exponent < b.exponent : a.value < b.value;
}
Length larger(Length a, Length b) { return is_less(a, b) ? b : a; }
Length smaller(Length a, Length b) { return is_less(a, b) ? a : b; }

/*
 * Returns the sum or the difference of two lengths. The smaller operand keeps only 1 bit below the last bit of the
 * larger one.
 */
Length sum(Length a, Length b, bool is_difference = false) {
  if (is_less(a, b))
    std::swap(a, b);
  int64_t other = b.value == 0 ? 0 : b.value * 2 >> std::min(a.exponent - b.exponent, 62);
  return cut(a.value * 2 + (is_difference ? -other : other), a.exponent - 1);
}

/* The products of a length with 11/32, 11/16 and 121/512, rounded as on an H200. */
Length times_11_32(Length a) { return cut(a.value == 0 ? 0 : (11 * a.value + 4) >> 5, a.exponent); }
Length times_11_16(Length a) { return cut(a.value == 0 ? 0 : (11 * a.value + 4) >> 3, a.exponent - 1); }
Length times_121_512(Length a) { return cut(a.value == 0 ? 0 : (121 * a.value + 32) >> 8, a.exponent - 1); }

/* Returns the approximate length of a vector: the larger coordinate, plus 11/32 of the smaller coordinate. */
Length length_of(Length x, Length y) { return sum(larger(x, y), times_11_32(smaller(x, y))); }
/*
 * Returns the approximate length of a sum of two vectors, divided by the square root of 2: length_of() times about
 * 11/16.
 */
Length length_of_sum(Length x, Length y) { return sum(times_11_16(larger(x, y)), times_121_512(smaller(x, y))); }

Length steps_of(double texels) {
  if (std::isnan(texels) || texels == 0)
    return {};
  if (std::isinf(texels))
    return {length_one, 128};
  int exponent = 0;
  double fraction = std::frexp(std::fabs(texels), &exponent);
  return cut(static_cast<int64_t>(std::ldexp(fraction, 53)), exponent - 53);
}

} // namespace

float level_of_steps(const std::array<std::array<double, 3>, 2> &steps) {
  std::array<std::array<Length, 3>, 2> one{};
  std::array<bool, 3> differ{};
  for (size_t axis = 0; axis < 3; axis++) {
    one[0][axis] = steps_of(steps[0][axis]), one[1][axis] = steps_of(steps[1][axis]);
    differ[axis] = std::signbit(steps[0][axis]) != std::signbit(steps[1][axis]);
  }
  auto together = [&](size_t axis, bool minus) { return sum(one[0][axis], one[1][axis], differ[axis] != minus); };
  auto third = [](Length plane, Length z) { return z.value == 0 ? plane : length_of(plane, z); };
  Length longest =
      larger(third(length_of(one[0][0], one[0][1]), one[0][2]), third(length_of(one[1][0], one[1][1]), one[1][2]));
  for (bool minus : {false, true})
    longest = larger(longest, length_of_sum(together(0, minus), together(1, minus)));
  if (longest.value == 0)
    return -std::numeric_limits<float>::infinity();
  int64_t units = (longest.exponent + static_cast<int>(length_bits) - 1) * weight_one;
  return static_cast<float>(units + logarithms[static_cast<size_t>(longest.value - length_one) / 2]) / weight_one;
}

} // namespace sim::exec
