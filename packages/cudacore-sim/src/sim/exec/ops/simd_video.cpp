/* SPDX-License-Identifier: Apache-2.0 */
/* The video instructions on the parts of a register. */
#include "sim/isa/simd_video.h"

#include <algorithm>
#include <cstdlib>

#include "sim/exec/ops/functions.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"

namespace sim::exec {

namespace {

/* The mode in the immediate of an instruction: the fields from the lowest bits on. */
struct Fields {
  uint64_t bits = 0;
  uint32_t at = 0;
  template <class T> void add(T value, uint32_t count) {
    bits |= static_cast<uint64_t>(value) << at;
    at += count;
  }
  template <class T> void take(T &value, uint32_t count) {
    value = static_cast<T>(bits >> at & ((uint64_t{1} << count) - 1));
    at += count;
  }
};
template <class Mode, class F> void for_fields(Mode &mode, F &&field) {
  field(mode.parts, 3);
  field(mode.d_signed, 1);
  field(mode.a_signed, 1);
  field(mode.b_signed, 1);
  field(mode.saturate, 1);
  field(mode.adds, 1);
  field(mode.comparison, 4);
  field(mode.mask, 4);
  for (size_t i = 0; i < 4; ++i) {
    field(mode.a_from[i], 3);
    field(mode.b_from[i], 3);
  }
}
SimdMode mode_of(const Instruction &ins) {
  SimdMode mode;
  Fields fields{static_cast<uint64_t>(ins.immediate)};
  for_fields(mode, [&](auto &value, uint32_t count) { fields.take(value, count); });
  return mode;
}

/* Returns a part of a or b, extended by its sign or by zeros. */
int32_t part_of(uint32_t a, uint32_t b, uint32_t from, uint32_t parts, bool is_signed) {
  uint32_t bits = 32 / parts, word = from < parts ? a : b;
  uint32_t value = word << (32 - bits - from % parts * bits);
  return is_signed ? static_cast<int32_t>(value) >> (32 - bits) : static_cast<int32_t>(value >> (32 - bits));
}

template <SimdOp Op> int32_t compute(int32_t a, int32_t b, Comparison comparison) {
  switch (Op) {
  case SimdOp::add:
    return a + b;
  case SimdOp::sub:
    return a - b;
  case SimdOp::average:
    return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
  case SimdOp::absdiff:
    return std::abs(a - b);
  case SimdOp::min:
    return std::min(a, b);
  case SimdOp::max:
    return std::max(a, b);
  default:
    return holds(comparison, a, b);
  }
}

template <SimdOp Op> void simd(Warp &w, const Instruction &ins, uint32_t lanes) {
  const SimdMode mode = mode_of(ins);
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]), *c = w.in(ins.op[3]);
  uint64_t *d = w.out(ins.op[0]);
  const uint32_t bits = 32 / mode.parts, ones = (1u << bits) - 1;
  const int32_t top = static_cast<int32_t>(mode.d_signed ? ones >> 1 : ones), bottom = mode.d_signed ? -top - 1 : 0;
  for_lanes(lanes, [&](uint32_t lane) {
    auto x = get<uint32_t>(a, lane), y = get<uint32_t>(b, lane), result = get<uint32_t>(c, lane);
    for (uint32_t i = 0; i < mode.parts; ++i) {
      if (!(mode.mask >> i & 1))
        continue;
      int32_t value = compute<Op>(part_of(x, y, mode.a_from[i], mode.parts, mode.a_signed),
                                  part_of(x, y, mode.b_from[i], mode.parts, mode.b_signed),
                                  static_cast<Comparison>(mode.comparison));
      if (mode.saturate)
        value = std::clamp(value, bottom, top);
      if (mode.adds)
        result += static_cast<uint32_t>(value);
      else
        result = (result & ~(ones << i * bits)) | (static_cast<uint32_t>(value) & ones) << i * bits;
    }
    put<uint32_t>(d, lane, result);
  });
}

} // namespace

int64_t simd_mode(const SimdMode &mode) {
  Fields fields;
  for_fields(mode, [&](auto value, uint32_t count) { fields.add(value, count); });
  return static_cast<int64_t>(fields.bits);
}

Handler simd_handler(SimdOp op) {
  return for_constant<SimdOp::add, SimdOp::sub, SimdOp::average, SimdOp::absdiff, SimdOp::min, SimdOp::max,
                      SimdOp::set>(op, [](auto o) { return simd<o.value>; });
}

} // namespace sim::exec
