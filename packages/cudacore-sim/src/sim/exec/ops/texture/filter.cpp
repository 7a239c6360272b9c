/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/exec/ops/texture/filter.h"

#include "sim/isa/numeric.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace sim::exec {
namespace {

using Number = Texels::Type;

/* The linear value of each byte of an sRGB channel, in units of 1 / 2^14, with a precision of about 8 bits. */
constexpr std::array<uint16_t, 256> linear_of_srgb{
    0,     5,     10,    15,    20,    25,    30,    35,    40,    45,    50,    55,    60,    66,    72,    78,
    85,    92,    99,    107,   115,   123,   131,   140,   150,   159,   169,   180,   190,   201,   213,   224,
    236,   250,   262,   276,   290,   304,   318,   332,   348,   364,   380,   396,   412,   430,   448,   466,
    484,   504,   524,   544,   564,   584,   604,   624,   648,   672,   692,   716,   740,   764,   788,   816,
    840,   864,   896,   920,   944,   976,   1000,  1032,  1064,  1088,  1120,  1152,  1184,  1216,  1248,  1280,
    1312,  1352,  1384,  1416,  1456,  1488,  1528,  1560,  1600,  1640,  1672,  1712,  1752,  1792,  1832,  1872,
    1920,  1952,  2000,  2048,  2080,  2128,  2176,  2224,  2272,  2320,  2368,  2416,  2464,  2512,  2560,  2608,
    2656,  2704,  2752,  2816,  2864,  2912,  2976,  3024,  3072,  3136,  3184,  3248,  3296,  3360,  3424,  3472,
    3536,  3600,  3664,  3712,  3776,  3840,  3904,  3968,  4032,  4096,  4160,  4224,  4288,  4352,  4416,  4512,
    4576,  4640,  4704,  4768,  4864,  4928,  4992,  5056,  5152,  5216,  5280,  5376,  5440,  5536,  5600,  5696,
    5760,  5824,  5920,  6016,  6080,  6176,  6240,  6336,  6400,  6496,  6592,  6688,  6752,  6848,  6944,  7008,
    7104,  7200,  7296,  7392,  7488,  7584,  7680,  7744,  7872,  7936,  8064,  8128,  8256,  8320,  8448,  8512,
    8640,  8768,  8832,  8960,  9024,  9152,  9280,  9344,  9472,  9600,  9664,  9792,  9920,  9984,  10112, 10240,
    10304, 10432, 10560, 10688, 10816, 10880, 11008, 11136, 11264, 11392, 11456, 11584, 11712, 11840, 11968, 12096,
    12224, 12352, 12480, 12608, 12736, 12864, 12992, 13120, 13248, 13376, 13504, 13632, 13760, 13888, 14016, 14144,
    14272, 14400, 14528, 14656, 14848, 14976, 15104, 15232, 15360, 15488, 15616, 15744, 16000, 16128, 16256, 16384,
};

/* Returns whether a channel holds an sRGB value. The last of several channels holds the opacity, which is linear. */
bool is_srgb(const Sampler &sampler, size_t channel) {
  size_t colors = sampler.texels.channels == 4 ? 3 : 1;
  return sampler.srgb && channel < colors && sampler.texels.channel_bytes == 1 &&
         sampler.texels.type == Number::unsigned_integer;
}

/* Returns the sRGB value of a linear value, both as fractions of 1. */
float srgb_of(float linear) {
  constexpr float threshold = 0.0031308F, slope = 12.92F, scale = 1.055F, power = 1 / 2.4F;
  return linear > threshold ? scale * std::pow(linear, power) - (scale - 1) : slope * linear;
}

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/* Returns the largest number of a normalized format. */
double largest(const Texels &texels, size_t bytes) {
  return std::ldexp(1.0, static_cast<int>(8 * bytes) - (texels.type == Number::signed_integer ? 1 : 0)) - 1;
}

float from_half(uint32_t bits) {
  constexpr uint32_t infinity = 0x7c00, rest = 0x3ff;
  if ((bits & infinity) != infinity)
    return static_cast<float>(value_of(format_f16, bits));
  return float_of((bits & 0x8000U) << 16 | 0x7f800000U | (bits & rest) << 13); /* NaNs keep their bits */
}

int64_t shifted(int64_t value, int64_t right) { /* shifts to the right, rounding towards zero */
  if (right <= 0)
    return value * (int64_t{1} << std::min<int64_t>(-right, 62));
  int64_t magnitude = right > 62 ? 0 : std::abs(value) >> right;
  return value < 0 ? -magnitude : magnitude;
}

/* A number: value * 2^exponent. */
struct Scaled {
  int64_t value;
  int exponent;
};

/* The formats in which filters represent texels. */
enum class Kind : uint8_t { single, half, srgb };

/*
 * Splits a texel's channel into value and exponent. Denormal floats count as 0; denormal halves do not. A linear value
 * of sRGB is cut to 8 bits, counted from the highest bit of the largest of eight neighbouring values in the table.
 */
Scaled parts_of(Kind kind, uint32_t bits) {
  if (kind == Kind::srgb) {
    uint32_t byte = bits & 0xff, largest = linear_of_srgb[byte | 7];
    int drop = std::max(24 - __builtin_clz(largest), 0);
    return {linear_of_srgb[byte] >> drop, drop - 14};
  }
  bool is_half = kind == Kind::half;
  unsigned mantissa_bits = is_half ? 10 : 23, exponent_bits = is_half ? 5 : 8;
  auto field = static_cast<int>(bits >> mantissa_bits & ((1U << exponent_bits) - 1));
  auto mantissa = static_cast<int64_t>(bits & ((1U << mantissa_bits) - 1));
  if (field != 0)
    mantissa |= int64_t{1} << mantissa_bits;
  else if (is_half)
    field = 1;
  else
    mantissa = 0;
  bool is_negative = bits >> (mantissa_bits + exponent_bits) & 1;
  int bias = is_half ? 15 : 127;
  return {is_negative ? -mantissa : mantissa, field - bias - static_cast<int>(mantissa_bits)};
}

/*
 * Returns the sum of up to four products. The texels are aligned to the texel with the largest exponent. All others
 * keep only 4 bits below the last bit of that texel, or no such bits for sRGB.
 */
Scaled sum_of_plane(Kind kind, const uint32_t *bits, const int64_t *weights, size_t count) {
  const int guard = kind == Kind::srgb ? 0 : 4;
  std::array<Scaled, 4> parts{};
  bool any = false;
  int max_exponent = 0;
  for (size_t i = 0; i < count; i++) {
    parts[i] = parts_of(kind, bits[i]);
    if (parts[i].value == 0 || weights[i] == 0)
      continue;
    max_exponent = any ? std::max(max_exponent, parts[i].exponent) : parts[i].exponent;
    any = true;
  }
  Scaled sum{0, max_exponent - guard};
  for (size_t i = 0; any && i < count; i++)
    sum.value += shifted(parts[i].value, sum.exponent - parts[i].exponent) * weights[i];
  sum.exponent -= static_cast<int>(weight_bits);
  return sum;
}

/*
 * Returns the total of the sums of two planes. The sum with the smaller exponent keeps only 1 bit below the last bit of
 * the other sum, or 2 bits for sRGB.
 */
Scaled sum_of_planes(Kind kind, Scaled one, Scaled other) {
  const int guard = kind == Kind::srgb ? 2 : 1;
  if (one.value == 0 || other.value == 0)
    return one.value == 0 ? other : one;
  if (one.exponent < other.exponent)
    std::swap(one, other);
  int64_t drop = one.exponent - guard - other.exponent;
  int64_t aligned = drop <= 0 ? other.value * (int64_t{1} << -drop) : other.value >> std::min<int64_t>(drop, 62);
  return {one.value * (1 << guard) + aligned, one.exponent - guard};
}

/* Rounds a sum to a float. Ties are rounded away from zero. */
float rounded(bool is_half, Scaled sum) {
  if (sum.value == 0)
    return 0;
  int bits = is_half ? 11 : 24, least = is_half ? -24 : -149;
  auto magnitude = static_cast<uint64_t>(std::abs(sum.value));
  int length = 64 - __builtin_clzll(magnitude);
  int drop = std::max(length - bits, is_half ? least - sum.exponent : 0);
  if (drop > 0)
    magnitude = drop > 62 ? 0 : (magnitude + (uint64_t{1} << (drop - 1))) >> drop;
  double value = std::ldexp(static_cast<double>(magnitude), sum.exponent + std::max(drop, 0));
  if (!is_half && value < 0x1p-126)
    value = 0; /* denormals become zero */
  return static_cast<float>(sum.value < 0 ? -value : value);
}

/* Returns whether a term is infinite or a NaN. If so, sets `out` to the sum of all terms. */
bool has_special(bool is_half, const uint32_t *bits, const bool *takes_part, size_t count, float &out) {
  bool positive = false, negative = false, nan = false;
  for (size_t i = 0; i < count; i++) {
    float value = is_half ? from_half(bits[i]) : float_of(bits[i]);
    if (!takes_part[i] || std::isfinite(value))
      continue;
    nan |= std::isnan(value);
    (std::signbit(value) ? negative : positive) = true;
  }
  if (!nan && !positive && !negative)
    return false;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  uint32_t no_number = is_half ? 0x7fffe000 : 0x7fffffff;
  out = nan || (positive && negative) ? float_of(no_number) : positive ? infinity : -infinity;
  return true;
}

/* Returns whether all texels that take part are negative. Only then is a sum of zeros negative. */
bool all_negative(Kind kind, const uint32_t *bits, const Weights &weights) {
  uint32_t sign = kind == Kind::srgb ? 0 : kind == Kind::half ? 0x8000 : 0x80000000;
  bool all = sign != 0;
  for (size_t i = 0; i < weights.count; i++)
    all &= !weights.takes_part[i] || (bits[i] & sign) != 0;
  return all;
}

/*
 * Returns the weighted sum of texels in a normalized integer format. A sum of bytes is scaled to 16 bits: by 65535 /
 * 255, or by 32767 / 127 if the bytes are signed.
 */
float normalized_sum(const Texels &texels, const uint32_t *bits, const int64_t *weights, size_t count) {
  constexpr int64_t half = weight_one / 2;
  int64_t sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += static_cast<int32_t>(bits[i]) * weights[i];
  bool is_signed = texels.type == Number::signed_integer;
  int64_t number = 0;
  if (texels.channel_bytes == 2)
    number = (sum + half) >> weight_bits;
  else if (!is_signed)
    number = (sum * 257 + half) >> weight_bits;
  else
    number = sum + (((sum >> 4) * 257 + 1024) >> 11);
  auto max_value = static_cast<int64_t>(largest(texels, 2));
  return static_cast<float>(static_cast<double>(std::clamp(number, -max_value, max_value)) /
                            static_cast<double>(max_value));
}

} // namespace

bool gives_numbers(const Sampler &sampler) {
  bool is_real = sampler.texels.type == Number::real;
  return is_real || (!sampler.as_integer && sampler.texels.channel_bytes < 4);
}

uint32_t channel_bits(const Texels &texels, const std::byte *texel, size_t channel) {
  uint32_t word = 0;
  std::memcpy(&word, texel + channel * texels.channel_bytes, texels.channel_bytes);
  if (texels.type != Number::signed_integer || texels.channel_bytes == 4)
    return word;
  unsigned shift = 32 - 8U * texels.channel_bytes;
  return static_cast<uint32_t>(static_cast<int32_t>(word << shift) >> shift);
}

uint32_t border_bits(const Sampler &sampler, size_t channel) {
  const Texels &texels = sampler.texels;
  float color = sampler.border[channel];
  if (texels.type == Number::real)
    return texels.channel_bytes == 4 ? bits_of(color)
                                     : static_cast<uint32_t>(round_to(format_f16, color, Rounding::nearest));
  if (!gives_numbers(sampler)) { /* integers take the lowest bits of the color */
    uint32_t bits = bits_of(color);
    return channel_bits(texels, reinterpret_cast<const std::byte *>(&bits), 0);
  }
  if (is_srgb(sampler, channel))
    color = srgb_of(color);
  float least = texels.type == Number::signed_integer ? -1 : 0;
  auto max_value = static_cast<float>(largest(texels, texels.channel_bytes));
  float number = std::isnan(color) ? 0.0F : std::clamp(color, least, 1.0F) * max_value; /* rounded, as on a GPU */
  return static_cast<uint32_t>(static_cast<int32_t>(std::copysign(std::ceil(std::fabs(number) - 0.5F), number)));
}

float number_of(const Sampler &sampler, uint32_t bits, size_t channel) {
  const Texels &texels = sampler.texels;
  if (texels.type == Number::real)
    return texels.channel_bytes == 2 ? from_half(bits) : float_of(bits);
  if (is_srgb(sampler, channel))
    return std::ldexp(static_cast<float>(linear_of_srgb[bits & 0xff]), -14);
  auto max_value = static_cast<float>(largest(texels, texels.channel_bytes));
  return std::max(static_cast<float>(static_cast<int32_t>(bits)) / max_value, -1.0F);
}

void Weights::add(const std::array<int64_t, 3> &second, size_t axes, int64_t all) {
  auto product = [](int64_t a, int64_t b) { return (a * b + weight_one / 2) >> weight_bits; };
  int64_t near = axes > 2 ? product(all, weight_one - second[2]) : all;
  for (size_t z = 0; z < (axes < 3 ? 1 : 2); z++) {
    int64_t *out = &values[count], part = z == 0 ? near : all - near;
    for (size_t corner = 0; corner < plane; corner++)
      takes_part[count + corner] =
          (!(corner & 1) || second[0] != 0) && (!(corner & 2) || second[1] != 0) && (z == 0 || second[2] != 0);
    count += plane;
    int64_t right = product(part, second[0]), left = part - right;
    int64_t right_below = product(right, second[1]), left_above = product(left, weight_one - second[1]);
    out[0] = left_above, out[1] = right - right_below;
    out[2] = left - left_above, out[3] = right_below;
  }
}

void Weights::spread(size_t corner) {
  int64_t *out = &values[count - plane];
  takes_part[count - plane + corner] = false;
  int64_t missing = std::exchange(out[corner], 0), third = (2 * missing + 3) / 6;
  out[corner ^ 1] += third, out[corner ^ 2] += third;
  out[corner ^ 3] += missing - 2 * third;
}

float weighted(const Sampler &sampler, const std::array<uint32_t, Weights::max> &bits, const Weights &weights,
               size_t channel) {
  const Texels &texels = sampler.texels;
  const int64_t *values = weights.values.data();
  bool is_half = texels.channel_bytes == 2;
  Kind kind = is_srgb(sampler, channel) ? Kind::srgb : is_half ? Kind::half : Kind::single;
  if (kind != Kind::srgb && texels.type != Number::real)
    return normalized_sum(texels, bits.data(), values, weights.count);
  float special = 0;
  if (kind != Kind::srgb && has_special(is_half, bits.data(), weights.takes_part.data(), weights.count, special))
    return special;
  Scaled sum = sum_of_plane(kind, bits.data(), values, Weights::plane);
  for (size_t i = Weights::plane; i < weights.count; i += Weights::plane)
    sum = sum_of_planes(kind, sum, sum_of_plane(kind, &bits[i], &values[i], Weights::plane));
  float result = rounded(kind != Kind::single, sum);
  return result == 0 && all_negative(kind, bits.data(), weights) ? -0.0F : result;
}

} // namespace sim::exec
