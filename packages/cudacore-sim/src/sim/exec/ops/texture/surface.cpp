/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions on surfaces: suld, sust, sured. */
#include "sim/exec/ops/texture/surface.h"

#include "sim/exec/ops/memory.h"
#include "sim/isa/numeric.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace sim::exec {
namespace {

using Clamp = TextureAccess::Clamp;
using Geometry = TextureAccess::Geometry;
using Shape = Texels::Shape;
using ptx::bytes_of;

/*
 * Returns the address of the bytes of an access. The x coordinate counts bytes, or texels if the access is formatted.
 * Returns null for an access outside of the surface that has to be ignored.
 */
std::byte *find(Warp &w, const Instruction &ins, const TextureAccess &access, uint32_t lane, const Texels &texels,
                uint32_t bytes, bool write) {
  auto shape = static_cast<Shape>(access.geometry);
  bool has_slices = texels.layered || texels.shape == Shape::cube;
  bool fits = access.layered ? has_slices : shape == texels.shape && !texels.layered;
  const Texels::Level &level = texels.levels.front();
  if (!fits)
    w.fault(FaultKind::illegal_instruction, ins, lane, "the surface has other dimensions than the instruction is for");
  size_t first = access.layered ? 1 : 0, axes = axes_of(access.geometry);
  std::array<int64_t, 3> at{};
  for (size_t axis = 0; axis < axes; axis++)
    at[axis] = get<int32_t>(w.in(access.coordinates[first + axis]), lane);
  int64_t slices = axes == 3 ? level.depth : texels.shape == Shape::cube ? 6 * int64_t{texels.layers} : texels.layers;
  if (access.layered)
    at[2] = get<uint16_t>(w.in(access.coordinates[0]), lane); /* the hardware uses only 16 bits of the layer */
  int64_t unit = access.formatted ? texels.texel_bytes() : 1;
  int64_t x = at[0] * unit, row = static_cast<int64_t>(level.width) * texels.texel_bytes();
  if (x % bytes != 0)
    w.access_fault(FaultKind::misaligned_address, ins, lane, static_cast<uint64_t>(x), bytes, write, "surface",
                   "the coordinate is not a multiple of " + std::to_string(bytes));
  bool is_inside = x >= 0 && x + bytes <= row && at[1] >= 0 && at[1] < level.height && at[2] >= 0 && at[2] < slices;
  if (!is_inside) {
    if (access.clamp == Clamp::trap)
      w.access_fault(FaultKind::illegal_address, ins, lane, static_cast<uint64_t>(x), bytes, write, "surface",
                     "the coordinates are outside of the surface");
    if (access.clamp == Clamp::zero)
      return nullptr;
    x = std::clamp<int64_t>(x, 0, row - bytes) / bytes * bytes;
    at[1] = std::clamp<int64_t>(at[1], 0, level.height - 1);
    at[2] = std::clamp<int64_t>(at[2], 0, slices - 1);
  }
  uint64_t address = level.address + static_cast<uint64_t>(at[2]) * level.slice +
                     static_cast<uint64_t>(at[1]) * level.pitch + static_cast<uint64_t>(x);
  return locate<StateSpace::global>(w, ins, lane, address, bytes, write);
}

const TextureAccess &access_of(const Warp &w, const Instruction &ins) {
  return w.grid->program.texture_accesses[ins.target];
}

void load(Warp &w, const Instruction &ins, uint32_t lanes) {
  const TextureAccess &access = access_of(w, ins);
  uint32_t size = bytes_of(access.type), bytes = size * static_cast<uint32_t>(access.registers.size());
  for_lanes(lanes, [&](uint32_t lane) {
    const Sampler &surface = sampler_of(w, ins, access, lane);
    const std::byte *at = find(w, ins, access, lane, surface.texels, bytes, false);
    for (OperandIndex into : access.registers) {
      uint64_t value = 0;
      if (at != nullptr) {
        std::memcpy(&value, at, size);
        at += size;
      }
      put<uint64_t>(w.out(into), lane, value);
    }
  });
}

/*
 * Returns the value that a formatted store writes for a register: integers saturate, and floating-point numbers are
 * rounded towards zero.
 */
uint32_t formatted(const Texels &texels, uint32_t bits) {
  unsigned width = 8U * texels.channel_bytes;
  if (width == 32)
    return bits;
  if (texels.type == Texels::Type::real) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    constexpr uint32_t sign = 0x8000, infinity = 0x7c00, rest = 0x3ff;
    if (!std::isfinite(value)) {
      uint32_t payload = bits >> 13 & rest;
      return (bits >> 16 & sign) | infinity | (std::isnan(value) ? std::max(payload, 1U) : 0);
    }
    return static_cast<uint32_t>(round_to(format_f16, value, Rounding::zero));
  }
  if (texels.type == Texels::Type::signed_integer) {
    int32_t max_value = (1 << (width - 1)) - 1;
    return static_cast<uint32_t>(std::clamp(static_cast<int32_t>(bits), -max_value - 1, max_value));
  }
  return std::min(bits, (1U << width) - 1);
}

void store(Warp &w, const Instruction &ins, uint32_t lanes) {
  const TextureAccess &access = access_of(w, ins);
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    const Sampler &surface = sampler_of(w, ins, access, lane);
    const Texels &texels = surface.texels;
    size_t count = access.formatted ? texels.channels : access.registers.size();
    uint32_t size = access.formatted ? texels.channel_bytes : bytes_of(access.type);
    uint32_t bytes = access.formatted ? texels.texel_bytes() : size * static_cast<uint32_t>(count);
    std::byte *at = find(w, ins, access, lane, texels, bytes, true);
    if (at == nullptr)
      return;
    for (size_t i = 0; i < count; i++, at += size) {
      bool is_given = i < access.registers.size(); /* a formatted store writes 0 to the other channels */
      uint64_t value = is_given ? get<uint64_t>(w.in(access.registers[i]), lane) : 0;
      if (access.formatted)
        value = formatted(texels, static_cast<uint32_t>(value));
      std::memcpy(at, &value, size);
    }
  });
}

template <class T> T reduced(TextureAccess::Reduction reduction, T old, T value) {
  switch (reduction) {
  case TextureAccess::Reduction::add:
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(value));
  case TextureAccess::Reduction::min:
    return std::min(old, value);
  case TextureAccess::Reduction::max:
    return std::max(old, value);
  case TextureAccess::Reduction::and_:
    return old & value;
  default:
    return old | value;
  }
}

template <class T> void reduce_at(TextureAccess::Reduction reduction, std::byte *at, T value) {
  auto *word = reinterpret_cast<T *>(at);
  T old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, reduced(reduction, old, value), true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
}

void reduce(Warp &w, const Instruction &ins, uint32_t lanes) {
  const TextureAccess &access = access_of(w, ins);
  uint32_t bytes = bytes_of(access.type);
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    const Sampler &surface = sampler_of(w, ins, access, lane);
    std::byte *at = find(w, ins, access, lane, surface.texels, bytes, true);
    if (at == nullptr)
      return;
    /* The type of the numbers is that of the surface for sured.p, otherwise that of the instruction. */
    bool has_sign =
        ptx::is_signed(access.type) || (access.formatted && surface.texels.type == Texels::Type::signed_integer);
    const uint64_t *values = w.in(access.registers[0]);
    if (bytes == 8)
      has_sign ? reduce_at(access.reduction, at, get<int64_t>(values, lane))
               : reduce_at(access.reduction, at, get<uint64_t>(values, lane));
    else
      has_sign ? reduce_at(access.reduction, at, get<int32_t>(values, lane))
               : reduce_at(access.reduction, at, get<uint32_t>(values, lane));
  });
}

} // namespace

Handler surface_handler(const TextureAccess &access) {
  return access.op == TextureAccess::Op::load ? load : access.op == TextureAccess::Op::store ? store : reduce;
}

} // namespace sim::exec
