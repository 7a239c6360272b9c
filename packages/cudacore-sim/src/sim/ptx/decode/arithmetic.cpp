/* SPDX-License-Identifier: Apache-2.0 */
/* Integer and floating-point arithmetic. */
#include "sim/ptx/coder.h"

namespace sim::ptx {

namespace {

using exec::FloatMode;
using exec::FloatOp;
using exec::IntegerOp;

bool is_float(Type type) {
  return class_of(type) == TypeClass::floating ||
         (class_of(type) == TypeClass::packed && type != Type::u16x2 && type != Type::s16x2);
}

void floating(Coder &c, FloatOp op, Type type, size_t sources, FloatMode mode = {}) {
  mode.rounding = c.take_rounding();
  mode.ftz = c.take("ftz");
  mode.sat = c.take("sat");
  mode.relu = c.take("relu");
  c.take("noftz");
  c.operands(type, sources);
  if (type != Type::f32 && type != Type::f64 && type != Type::f32x2)
    c.out.mode =
        static_cast<uint8_t>((mode.ftz ? 1 : 0) | (mode.sat ? 2 : 0) | (mode.relu ? 4 : 0) | (mode.xorsign ? 8 : 0));
  c.emit(exec::float_handler(op, type, mode));
}

void integer(Coder &c, IntegerOp op, Type type, size_t sources) {
  c.operands(type, sources);
  c.emit(exec::integer_handler(op, type));
}

/* Returns the type in which carries are computed: for b32 and b64, the unsigned integers. */
Type as_unsigned(Type type) { return type == Type::b32 ? Type::u32 : type == Type::b64 ? Type::u64 : type; }

void add_or_sub(Coder &c, bool sub) {
  Type type = c.need_type();
  if (is_float(type))
    return floating(c, sub ? FloatOp::sub : FloatOp::add, type, 2);
  if (c.take("cc"))
    return integer(c, sub ? IntegerOp::sub_cc : IntegerOp::add_cc, as_unsigned(type), 2);
  if (c.take("sat"))
    return integer(c, sub ? IntegerOp::sub_sat : IntegerOp::add_sat, type, 2);
  integer(c, sub ? IntegerOp::sub : IntegerOp::add, type, 2);
}
void add(Coder &c) { add_or_sub(c, false); }
void sub(Coder &c) { add_or_sub(c, true); }
void addc(Coder &c) {
  bool cc = c.take("cc");
  integer(c, cc ? IntegerOp::addc_cc : IntegerOp::addc, as_unsigned(c.need_type()), 2);
}
void subc(Coder &c) {
  bool cc = c.take("cc");
  integer(c, cc ? IntegerOp::subc_cc : IntegerOp::subc, as_unsigned(c.need_type()), 2);
}

Type doubled(Type type) {
  switch (type) {
  case Type::u16:
    return Type::u32;
  case Type::s16:
    return Type::s32;
  case Type::u32:
    return Type::u64;
  case Type::s32:
    return Type::s64;
  default:
    return Type::none;
  }
}

void mul(Coder &c) {
  Type type = c.need_type();
  if (is_float(type))
    return floating(c, FloatOp::mul, type, 2);
  if (c.take("lo"))
    return integer(c, IntegerOp::mul_lo, type, 2);
  if (c.take("hi"))
    return integer(c, IntegerOp::mul_hi, type, 2);
  if (!c.take("wide") || doubled(type) == Type::none)
    c.unsupported();
  c.operands({doubled(type), type, type});
  c.emit(exec::integer_handler(IntegerOp::mul_wide, type));
}

void mad(Coder &c) {
  Type type = c.need_type();
  if (is_float(type))
    return floating(c, FloatOp::fma, type, 3);
  bool cc = c.take("cc"), sat = c.take("sat");
  if (c.take("lo") && !sat)
    return integer(c, cc ? IntegerOp::mad_lo_cc : IntegerOp::mad_lo, type, 3);
  if (c.take("hi"))
    return integer(c, cc ? IntegerOp::mad_hi_cc : sat ? IntegerOp::mad_hi_sat : IntegerOp::mad_hi, type, 3);
  if (!c.take("wide") || cc || sat || doubled(type) == Type::none)
    c.unsupported();
  c.operands({doubled(type), type, type, doubled(type)});
  c.emit(exec::integer_handler(IntegerOp::mad_wide, type));
}
void madc(Coder &c) {
  Type type = c.need_type();
  bool cc = c.take("cc");
  if (c.take("lo"))
    return integer(c, cc ? IntegerOp::madc_lo_cc : IntegerOp::madc_lo, type, 3);
  if (!c.take("hi"))
    c.unsupported();
  integer(c, cc ? IntegerOp::madc_hi_cc : IntegerOp::madc_hi, type, 3);
}
void mul24(Coder &c) {
  bool hi = c.take("hi");
  if (!hi && !c.take("lo"))
    c.unsupported();
  integer(c, hi ? IntegerOp::mul24_hi : IntegerOp::mul24_lo, c.need_type(), 2);
}
void mad24(Coder &c) {
  bool hi = c.take("hi"), sat = c.take("sat");
  if (!hi && (!c.take("lo") || sat))
    c.unsupported();
  integer(c, sat ? IntegerOp::mad24_hi_sat : hi ? IntegerOp::mad24_hi : IntegerOp::mad24_lo, c.need_type(), 3);
}
void sad(Coder &c) { integer(c, IntegerOp::sad, c.need_type(), 3); }
void fma(Coder &c) { floating(c, FloatOp::fma, c.need_type(), 3); }

void div(Coder &c) {
  Type type = c.need_type();
  if (!is_float(type))
    return integer(c, IntegerOp::div, type, 2);
  FloatOp op = c.take("approx") ? FloatOp::div_approx : c.take("full") ? FloatOp::div_full : FloatOp::div;
  floating(c, op, type, 2);
}
void rem(Coder &c) { integer(c, IntegerOp::rem, c.need_type(), 2); }

void abs(Coder &c) {
  Type type = c.need_type();
  is_float(type) ? floating(c, FloatOp::abs, type, 1) : integer(c, IntegerOp::abs, type, 1);
}
void neg(Coder &c) {
  Type type = c.need_type();
  is_float(type) ? floating(c, FloatOp::neg, type, 1) : integer(c, IntegerOp::neg, type, 1);
}

void min_or_max(Coder &c, bool max) {
  Type type = c.need_type();
  if (!is_float(type)) {
    if (c.take("relu"))
      return integer(c, max ? IntegerOp::max_relu : IntegerOp::min_relu, type, 2);
    return integer(c, max ? IntegerOp::max : IntegerOp::min, type, 2);
  }
  FloatMode mode;
  mode.of_three = c.count() == 4;
  mode.xorsign = c.take("xorsign");
  if (mode.xorsign || mode.of_three)
    mode.magnitudes = c.take("abs");
  if (mode.xorsign && (mode.of_three || !mode.magnitudes))
    c.unsupported();
  bool keeps_nan = c.take("NaN");
  FloatOp op = keeps_nan ? (max ? FloatOp::max_nan : FloatOp::min_nan) : max ? FloatOp::max : FloatOp::min;
  floating(c, op, type, mode.of_three ? 3 : 2, mode);
}
void min(Coder &c) { min_or_max(c, false); }
void max(Coder &c) { min_or_max(c, true); }

void rcp(Coder &c) {
  bool approximate = c.take("approx");
  floating(c, approximate ? FloatOp::rcp_approx : FloatOp::rcp, c.need_type(), 1);
}
void sqrt(Coder &c) {
  bool approximate = c.take("approx");
  floating(c, approximate ? FloatOp::sqrt_approx : FloatOp::sqrt, c.need_type(), 1);
}
template <FloatOp Op> void approximation(Coder &c) {
  c.take("approx"); /* .approx is optional for the f16 forms of ex2 and tanh */
  floating(c, Op, c.need_type(), 1);
}
/* copysign.f32 d, a, b: d has the sign of a and the magnitude of b. */
void copysign(Coder &c) {
  Type type = c.need_type();
  if (type != Type::f32 && type != Type::f64)
    c.unsupported();
  floating(c, FloatOp::copysign, type, 2);
}

void testp(Coder &c) {
  using exec::FloatTest;
  static constexpr Coder::Choice<FloatTest> tests[] = {
      {"finite", FloatTest::finite},         {"infinite", FloatTest::infinite}, {"number", FloatTest::number},
      {"notanumber", FloatTest::notanumber}, {"normal", FloatTest::normal},     {"subnormal", FloatTest::subnormal}};
  Type type = c.need_type();
  c.need(2);
  FloatTest test;
  if (!c.take_choice(tests, test))
    c.unsupported();
  c.out.op[0] = c.destination_predicate(c.operand(0).name);
  c.out.op[1] = c.source(1, type);
  c.emit(exec::testp_handler(test, type));
}

void dot(Coder &c, exec::DotOp op) {
  Type a = c.need_type(), b = c.need_type();
  c.operands(Type::b32, 3);
  c.emit(exec::dot_handler(op, a, b));
}
void dp4a(Coder &c) { dot(c, exec::DotOp::dp4a); }
void dp2a(Coder &c) {
  bool hi = c.take("hi");
  if (!hi && !c.take("lo"))
    c.unsupported();
  dot(c, hi ? exec::DotOp::dp2a_hi : exec::DotOp::dp2a_lo);
}
} // namespace

const Decoder arithmetic_decoders[] = {{"add", add},
                                       {"sub", sub},
                                       {"addc", addc},
                                       {"subc", subc},
                                       {"mul", mul},
                                       {"mad", mad},
                                       {"madc", madc},
                                       {"mul24", mul24},
                                       {"mad24", mad24},
                                       {"sad", sad},
                                       {"fma", fma},
                                       {"div", div},
                                       {"rem", rem},
                                       {"abs", abs},
                                       {"neg", neg},
                                       {"min", min},
                                       {"max", max},
                                       {"rcp", rcp},
                                       {"sqrt", sqrt},
                                       {"rsqrt", approximation<FloatOp::rsqrt_approx>},
                                       {"sin", approximation<FloatOp::sin>},
                                       {"cos", approximation<FloatOp::cos>},
                                       {"lg2", approximation<FloatOp::lg2>},
                                       {"ex2", approximation<FloatOp::ex2>},
                                       {"tanh", approximation<FloatOp::tanh>},
                                       {"copysign", copysign},
                                       {"testp", testp},
                                       {"dp4a", dp4a},
                                       {"dp2a", dp2a},
                                       {nullptr, nullptr}};

} // namespace sim::ptx
