/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/exec/ops/texture/sampling.h"

#include <algorithm>
#include <cmath>

namespace sim::exec {
namespace {

using Address = Sampler::Address;

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

/* Returns a value with denormals replaced by zero. */
float flushed(float value) { return std::fabs(value) < 0x1p-126F ? std::copysign(0.0F, value) : value; }

/* Returns a coordinate in units of 1 / 256 texel. */
int64_t fixed(double texels) {
  constexpr double max_position = 1ll << 40; /* a position far outside of any texture */
  return static_cast<int64_t>(std::floor(std::clamp(texels, -max_position, max_position) * weight_one + 0.5));
}

/* Cuts a normalized coordinate to the fraction bits that the hardware uses when it multiplies the coordinate. */
double cut(double coordinate, uint32_t extent) {
  double unit = extent > 8192 ? 0x1p22 : 0x1p21;
  return std::fabs(coordinate) < 0x1p24 ? std::floor(coordinate * unit) / unit : coordinate;
}

constexpr float max_level = 16; /* maximum of a bias or a limit of the mipmap level */
constexpr int64_t max_bias = 15 * weight_one;

/* Returns a bias or a limit of the level in units of 1 / 256 level. */
int64_t level_units(float level, float least) {
  return static_cast<int64_t>(std::clamp(level, least, max_level) * weight_one);
}

} // namespace

Taps taps_of(const Sampler &sampler, size_t axis, double coordinate, uint32_t extent, bool linear) {
  Address mode = sampler.modes[axis];
  bool is_number = std::fabs(coordinate) >= 0x1p-126; /* denormals count as zero */
  double texels = is_number ? coordinate : 0;
  if (sampler.normalized) {
    /* The whole periods of the texture are subtracted first, so that the rest of the computation is exact. */
    constexpr double only_integers = 0x1p24;
    if (mode == Address::wrap)
      texels = std::isfinite(texels) ? texels - std::floor(texels) : 0;
    else if (mode == Address::mirror && std::fabs(texels) >= only_integers)
      texels = std::isfinite(texels) ? texels - 2 * std::floor(texels / 2) : 0;
    texels = cut(texels, extent) * extent;
  }
  Taps taps{};
  if (!linear) {
    double whole = std::floor(std::clamp(texels, -1e12, 1e12));
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

/*
 * Returns the face that a direction points to: the axis with the largest magnitude. Numbers are preferred to NaNs, and
 * of equal magnitudes the last one is chosen.
 */
template <class T> uint32_t face_index(T x, T y, T z) {
  auto size = [](T value) { return value == value ? std::abs(value) : -1; };
  if (size(z) >= size(x) && size(z) >= size(y))
    return z < 0 ? 5 : 4;
  if (size(y) >= size(x))
    return y < 0 ? 3 : 2;
  return x < 0 ? 1 : 0;
}

/* Returns the coordinates on a face of the point that a direction points to: to the right, and downwards. */
template <class T> std::pair<T, T> on_face(uint32_t face, T x, T y, T z) {
  switch (face) {
  case 0:
    return {-z, -y};
  case 1:
    return {z, -y};
  case 2:
    return {x, z};
  case 3:
    return {x, -z};
  case 4:
    return {x, -y};
  default:
    return {-x, -y};
  }
}

FacePoint face_of(float x, float y, float z) {
  /*
   * As in compiled code, the direction is scaled by an approximate reciprocal of the largest coordinate. fmax ignores
   * NaNs.
   */
  float scale = flushed(1 / flushed(std::fmax(std::fmax(std::fabs(x), std::fabs(y)), std::fabs(z))));
  x = flushed(x * scale), y = flushed(y * scale), z = flushed(z * scale);
  FacePoint point{};
  point.face = face_index(x, y, z);
  auto [s, t] = on_face(point.face, x, y, z);
  auto placed = [](double value) { /* rounds down before adding 1, so that even the smallest negative number counts */
                                   constexpr double unit = 1ll << 40;
                                   return std::isnan(value)
                                              ? 0.5
                                              : (std::floor(std::clamp(value, -1.0, 1.0) * unit) / unit + 1) / 2;
  };
  point.x = placed(s), point.y = placed(t);
  return point;
}

Taps face_taps_of(double coordinate, uint32_t extent) {
  int64_t at = fixed(cut(coordinate, extent) * extent - 0.5);
  return {{at >> weight_bits, (at >> weight_bits) + 1}, at & (weight_one - 1)};
}

FaceTexel across_edge(const FaceTexel &texel, int64_t extent) {
  auto is_inside = [&](int64_t index) { return index >= 0 && index < extent; };
  if (is_inside(texel.x) && is_inside(texel.y))
    return texel;
  /*
   * The direction of the texel's centre, in units of half a texel. The coordinate that leaves the face is cut to the
   * edge, where it is larger than the coordinate of the face itself: so the neighbouring face is selected.
   */
  int64_t s = std::clamp(2 * texel.x + 1 - extent, -extent, extent), m = extent - 1;
  int64_t t = std::clamp(2 * texel.y + 1 - extent, -extent, extent);
  std::array<std::array<int64_t, 3>, 6> directions{
      {{m, -t, -s}, {-m, -t, s}, {s, m, t}, {s, -m, -t}, {s, -t, m}, {-s, -t, -m}}};
  auto [x, y, z] = directions[static_cast<size_t>(texel.face)];
  uint32_t face = face_index(x, y, z);
  auto [right, down] = on_face(face, x, y, z);
  return {face, (right + extent) / 2, (down + extent) / 2};
}

LevelTaps levels_of(const Sampler &sampler, float level) {
  auto last = static_cast<int64_t>(sampler.texels.levels.size()) - 1;
  int64_t low = level_units(sampler.min_level, 0), high = level_units(sampler.max_level, 0);
  int64_t bias = std::min(level_units(sampler.bias, -max_level), max_bias);
  level = std::isnan(level) ? 0 : std::clamp(level, -2 * max_level, 2 * max_level);
  int64_t at = static_cast<int64_t>(level * weight_one) + bias;
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
