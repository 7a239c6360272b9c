/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f16, bf16 and pairs of them. Intermediate results have so many bits that rounding them once gives the correctly
 * rounded result.
 */
#include <algorithm>

#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"
#include "sim/isa/numeric.h"

namespace sim::exec {

namespace {

struct F16 {
  static constexpr const Format &format = format_f16;
};
struct Bf16 {
  static constexpr const Format &format = format_bf16;
};

template <class H> double decode(uint16_t bits, bool ftz) {
  double value = value_of(H::format, bits);
  if (ftz && value != 0 && std::abs(value) < std::ldexp(1.0, 1 - H::format.bias()))
    return std::copysign(0.0, value);
  return value;
}
template <class H> uint16_t encode(double value, bool ftz) {
  auto bits = static_cast<uint16_t>(round_to(H::format, value, Rounding::nearest));
  bool subnormal = (bits & 0x7fff) < (1u << H::format.mantissa_bits);
  return ftz && subnormal ? bits & 0x8000 : bits;
}

double extreme(double a, double b, bool max, bool keep_nan) {
  if (std::isnan(a) || std::isnan(b)) {
    if (keep_nan)
      return std::isnan(a) ? a : b;
    return std::isnan(a) ? b : a;
  }
  if (a == b)
    return std::signbit(a) == max ? b : a;
  return (a < b) == max ? b : a;
}

template <FloatOp Op> double compute(double a, double b, double c) {
  switch (Op) {
  case FloatOp::add:
    return add_to_odd(a, b);
  case FloatOp::sub:
    return add_to_odd(a, -b);
  case FloatOp::mul:
    return a * b; /* the product is exact, because it has at most 22 bits */
  case FloatOp::fma:
    return add_to_odd(a * b, c); /* the product is exact */
  case FloatOp::min:
    return extreme(a, b, false, false);
  case FloatOp::max:
    return extreme(a, b, true, false);
  case FloatOp::min_nan:
    return extreme(a, b, false, true);
  case FloatOp::max_nan:
    return extreme(a, b, true, true);
  case FloatOp::ex2:
    return std::exp2(a);
  case FloatOp::tanh:
    return std::tanh(a);
  default:
    return a;
  }
}

template <FloatOp Op, class H> struct Scalar {
  static uint16_t apply(uint16_t a, uint16_t b, uint16_t c, FloatMode mode) {
    /* On a GPU, neg and abs return the same NaN as arithmetic operations. */
    if constexpr (Op == FloatOp::neg || Op == FloatOp::abs) {
      uint16_t magnitude = a & 0x7fff;
      if (magnitude > H::format.largest + 1)
        return static_cast<uint16_t>(H::format.nan);
      return Op == FloatOp::abs ? magnitude : a ^ 0x8000;
    }
    const uint16_t kept = mode.xorsign ? 0x7fff : 0xffff;
    double result = compute<Op>(decode<H>(a & kept, mode.ftz), decode<H>(b & kept, mode.ftz), decode<H>(c, mode.ftz));
    if (mode.xorsign && !std::isnan(result))
      result = std::copysign(result, ((a ^ b) & 0x8000) ? -1.0 : 1.0);
    if (mode.sat)
      result = saturate_unit(result);
    /* Only negative numbers become zero; a NaN is kept. */
    if (mode.relu && result <= 0)
      result = 0;
    return encode<H>(result, mode.ftz);
  }
};

FloatMode mode_of(const Instruction &ins) {
  FloatMode mode;
  mode.ftz = ins.mode & 1;
  mode.sat = ins.mode & 2;
  mode.relu = ins.mode & 4;
  mode.xorsign = ins.mode & 8;
  return mode;
}

/* If an instruction has fewer than three sources, its first source is passed in place of the missing ones. */
template <FloatOp Op, class H, bool Pair> void run(Warp &w, const Instruction &ins, uint32_t lanes) {
  FloatMode mode = mode_of(ins);
  const uint64_t *a = w.in(ins.op[1]);
  const uint64_t *b = ins.op[2] == no_operand ? a : w.in(ins.op[2]);
  const uint64_t *c = ins.op[3] == no_operand ? a : w.in(ins.op[3]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) {
    using S = Scalar<Op, H>;
    auto x = get<uint32_t>(a, lane), y = get<uint32_t>(b, lane), z = get<uint32_t>(c, lane);
    uint16_t low = S::apply(static_cast<uint16_t>(x), static_cast<uint16_t>(y), static_cast<uint16_t>(z), mode);
    if (!Pair)
      return put<uint16_t>(d, lane, low);
    uint16_t high =
        S::apply(static_cast<uint16_t>(x >> 16), static_cast<uint16_t>(y >> 16), static_cast<uint16_t>(z >> 16), mode);
    put<uint32_t>(d, lane, low | uint32_t{high} << 16);
  });
}

template <FloatOp Op> Handler typed(Type type) {
  switch (type) {
  case Type::f16:
    return run<Op, F16, false>;
  case Type::f16x2:
    return run<Op, F16, true>;
  case Type::bf16:
    return run<Op, Bf16, false>;
  case Type::bf16x2:
    return run<Op, Bf16, true>;
  default:
    return nullptr;
  }
}

} // namespace

Handler half_handler(FloatOp op, Type type, FloatMode mode) {
  if (mode.of_three || (mode.rounding != Rounding::nearest && mode.rounding != Rounding::none))
    return nullptr;
  return for_constant<FloatOp::add, FloatOp::sub, FloatOp::mul, FloatOp::fma, FloatOp::min, FloatOp::max,
                      FloatOp::min_nan, FloatOp::max_nan, FloatOp::neg, FloatOp::abs, FloatOp::ex2, FloatOp::tanh>(
      op, [=](auto o) { return typed<o.value>(type); });
}

} // namespace sim::exec
