/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/exec/ops/sampling.h"

#include <algorithm>
#include <cmath>

namespace sim::exec {
namespace {

using Address = Sampler::Address;

/* Without normalized coordinates a texture is not repeated. */
Address mode_of(const Sampler &sampler, size_t axis) {
  Address mode = sampler.modes[axis];
  bool repeats = mode == Address::wrap || mode == Address::mirror;
  return repeats && !sampler.normalized ? Address::clamp : mode;
}

int64_t wrapped(int64_t index, int64_t extent) {
  int64_t rest = index % extent;
  return rest < 0 ? rest + extent : rest;
}

int64_t placed(Address mode, int64_t index, int64_t extent) {
  switch (mode) {
  case Address::wrap:
    return wrapped(index, extent);
  case Address::mirror: {
    int64_t twice = wrapped(index, 2 * extent);
    return twice < extent ? twice : 2 * extent - 1 - twice;
  }
  case Address::clamp:
    return std::clamp<int64_t>(index, 0, extent - 1);
  default:
    return index >= 0 && index < extent ? index : -1;
  }
}

/* There are no denormals. */
float flushed(float value) { return std::fabs(value) < 0x1p-126F ? std::copysign(0.0F, value) : value; }

/* A coordinate in units of 1 / 256 texel. */
int64_t fixed(double texels) {
  constexpr double most = 1ll << 40; /* far outside of any texture */
  if (std::isnan(texels))
    return 0;
  return static_cast<int64_t>(std::floor(std::clamp(texels, -most, most) * weight_one + 0.5));
}

constexpr float most_level = 16; /* of biases and limits */

/* A bias or a limit in units of 1 / 256 level. */
int64_t level_units(float level, float least) {
  return static_cast<int64_t>(std::clamp(level, least, most_level) * weight_one);
}

} // namespace

Taps taps_of(const Sampler &sampler, size_t axis, double coordinate, uint32_t extent, bool linear) {
  Address mode = mode_of(sampler, axis);
  double texels = std::fabs(coordinate) < 0x1p-126 ? 0 : coordinate; /* there are no denormals */
  if (sampler.normalized) {
    /* The part that repeats is removed first, so that the rest is exact. */
    if (mode == Address::wrap)
      texels = std::isfinite(texels) ? texels - std::floor(texels) : 0;
    /* The number of bits of the fraction that are multiplied. */
    double unit = extent > 8192 ? 0x1p22 : 0x1p21;
    if (std::fabs(texels) < 0x1p24)
      texels = std::floor(texels * unit) / unit;
    texels *= extent;
  }
  Taps taps{};
  if (!linear) {
    double whole = std::isnan(texels) ? 0 : std::floor(std::clamp(texels, -1e12, 1e12));
    taps.index[0] = taps.index[1] = placed(mode, static_cast<int64_t>(whole), extent);
    return taps;
  }
  int64_t at = fixed(texels - 0.5);
  int64_t first = at >> weight_bits;
  taps.index[0] = placed(mode, first, extent);
  taps.index[1] = placed(mode, first + 1, extent);
  bool is_same = mode == Address::clamp && taps.index[0] == taps.index[1];
  taps.weight = is_same ? 0 : at & (weight_one - 1);
  return taps;
}

int64_t layer_of(uint32_t layer, uint32_t layers) { return std::min<int64_t>(layer, layers - 1); }

FacePoint face_of(float x, float y, float z) {
  /* The compiler scales the direction by an approximate reciprocal of the largest coordinate; fmax ignores NaN. */
  float largest = std::fmax(std::fmax(std::fabs(x), std::fabs(y)), std::fabs(z));
  float scale = 1 / flushed(largest);
  scale = flushed(scale);
  x *= scale, y *= scale, z *= scale;
  /* Numbers win over NaN, and the last of the largest wins. */
  auto size = [](float value) { return std::isnan(value) ? -1 : std::fabs(value); };
  FacePoint point{};
  float s = 0, t = 0;
  if (size(z) >= size(x) && size(z) >= size(y)) {
    point.face = z < 0 ? 5 : 4;
    s = z < 0 ? -x : x, t = -y;
  } else if (size(y) >= size(x)) {
    point.face = y < 0 ? 3 : 2;
    s = x, t = y < 0 ? -z : z;
  } else {
    point.face = x < 0 ? 1 : 0;
    s = x < 0 ? z : -z, t = -y;
  }
  auto placed = [](double value) { return std::isnan(value) ? 0.5 : (value + 1) / 2; };
  point.x = placed(s), point.y = placed(t);
  return point;
}

LevelTaps levels_of(const Sampler &sampler, float level, bool is_biased) {
  auto last = static_cast<int64_t>(sampler.texels.levels.size()) - 1;
  int64_t low = level_units(sampler.min_level, 0), high = level_units(sampler.max_level, 0);
  level = std::isnan(level) ? 0 : std::clamp(level, -2 * most_level, 2 * most_level);
  auto at = static_cast<int64_t>(std::floor(level * weight_one));
  if (is_biased)
    at += level_units(sampler.bias, -most_level);
  at = std::clamp<int64_t>(std::clamp(at, low, std::max(low, high)), 0, last * weight_one);
  LevelTaps taps{};
  if (!sampler.linear_levels) {
    taps.index[0] = taps.index[1] = static_cast<uint32_t>(std::min((at + weight_one / 2) >> weight_bits, last));
    return taps;
  }
  taps.index[0] = static_cast<uint32_t>(at >> weight_bits);
  taps.index[1] = static_cast<uint32_t>(std::min<int64_t>(taps.index[0] + 1, last));
  taps.weight = at & (weight_one - 1);
  return taps;
}

} // namespace sim::exec
