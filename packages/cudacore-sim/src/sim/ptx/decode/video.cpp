/* SPDX-License-Identifier: Apache-2.0 */
/* The video instructions: vadd, vset and so on for words, vadd2 and vadd4 and so on for parts of words. */
#include "sim/isa/simd_video.h"
#include "sim/ptx/coder.h"

namespace sim::ptx {

namespace {

using exec::SimdOp;
using exec::VideoMode;
using exec::VideoOp;
using exec::VideoPart;
using exec::VideoSecond;

/* Removes the name of a part from an operand (%r1.b2 becomes %r1), and returns the part. */
VideoPart take_part(Coder &c, ast::Operand &operand) {
  static constexpr std::string_view names[] = {"", "b0", "b1", "b2", "b3", "h0", "h1"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (operand.component == names[i]) {
      operand.component = {};
      return static_cast<VideoPart>(i);
    }
  c.fail("'" + std::string(operand.name) + "' has no part '." + std::string(operand.component) + "'");
}

bool take_minus(ast::Operand &operand) {
  bool minus = operand.minus;
  operand.minus = false;
  return minus;
}

bool take_sign(Coder &c) {
  Type type = c.need_type();
  if (type != Type::u32 && type != Type::s32)
    c.unsupported();
  return type == Type::s32;
}

void set_operand(Coder &c, size_t i, const ast::Operand &operand) {
  c.out.op[i] = i == 0 ? c.destination(operand, Type::b32) : c.source(operand, Type::b32);
}

/* vmad.d.a.b{.po}{.sat}{.scale} d, {-}a{.part}, {-}b{.part}, {-}c */
void multiply_add(Coder &c, VideoMode &mode) {
  mode.plus_one = c.take("po");
  mode.shift = c.take("shr7") ? 7 : c.take("shr15") ? 15 : 0;
  c.need(4);
  ast::Operand operands[] = {c.operand(0), c.operand(1), c.operand(2), c.operand(3)};
  bool minus_a = take_minus(operands[1]), minus_b = take_minus(operands[2]);
  mode.minus_product = minus_a != minus_b;
  mode.minus_c = take_minus(operands[3]);
  if ((mode.minus_product || minus_a || mode.minus_c) && mode.plus_one)
    c.fail("an operand cannot have a minus sign with .po");
  if (mode.minus_product && mode.minus_c)
    c.fail("the product and what is added cannot both be negative");
  mode.a = take_part(c, operands[1]);
  mode.b = take_part(c, operands[2]);
  for (size_t i = 0; i < 4; ++i)
    set_operand(c, i, operands[i]);
}

uint8_t take_comparison(Coder &c) {
  using exec::Comparison;
  static constexpr Coder::Choice<Comparison> all[] = {{"eq", Comparison::eq}, {"ne", Comparison::ne},
                                                      {"lt", Comparison::lt}, {"le", Comparison::le},
                                                      {"gt", Comparison::gt}, {"ge", Comparison::ge}};
  Comparison comparison;
  if (!c.take_choice(all, comparison))
    c.unsupported();
  return static_cast<uint8_t>(comparison);
}

/* v<op>.d.a.b{.sat} d, a{.part}, b{.part}. With .add, .min or .max, or if d has a part, there is also an operand c. */
template <VideoOp Op> void video(Coder &c) {
  VideoMode mode;
  if (Op != VideoOp::set) /* vset has no type for d, because its result is 0 or 1 */
    mode.d_signed = take_sign(c);
  mode.a_signed = take_sign(c);
  mode.b_signed = take_sign(c);
  mode.saturate = Op != VideoOp::set && c.take("sat");
  if (Op == VideoOp::mad) {
    multiply_add(c, mode);
    c.out.immediate = exec::video_mode(mode);
    return c.emit(exec::video_handler(Op));
  }
  if (Op == VideoOp::shl || Op == VideoOp::shr) {
    mode.wrap = c.take("wrap");
    if (mode.b_signed || (!mode.wrap && !c.take("clamp")))
      c.unsupported();
  }
  if (Op == VideoOp::set)
    mode.comparison = take_comparison(c);
  mode.second = c.take("add")   ? VideoSecond::add
                : c.take("min") ? VideoSecond::min
                : c.take("max") ? VideoSecond::max
                                : VideoSecond::none;
  c.need(3, 4);
  ast::Operand to = c.operand(0);
  mode.d = take_part(c, to);
  mode.merge = mode.d != VideoPart::word;
  if (mode.merge && mode.second != VideoSecond::none)
    c.fail("a part of the destination leaves no second operation");
  bool has_c = mode.merge || mode.second != VideoSecond::none;
  c.need(has_c ? 4 : 3, 4); /* c may be given even if it is not used */
  ast::Operand a = c.operand(1), b = c.operand(2);
  mode.a = take_part(c, a);
  mode.b = take_part(c, b);
  set_operand(c, 0, to);
  set_operand(c, 1, a);
  set_operand(c, 2, b);
  if (has_c)
    set_operand(c, 3, c.operand(3));
  c.out.immediate = exec::video_mode(mode);
  c.emit(exec::video_handler(Op));
}

/* --- two half-words or four bytes --------------------------------------------------------------------------------- */

/*
 * Takes the selector of an operand: %r1.h13 becomes %r1. Stores the sources of the parts, the lowest part first, or for
 * the destination (`mask`) sets the bits of the parts.
 */
void take_selector(Coder &c, ast::Operand &operand, uint32_t parts, std::array<uint8_t, 4> *from, uint8_t *mask) {
  std::string_view text = operand.component;
  operand.component = {};
  if (text.empty())
    return;
  bool valid = text[0] == (parts == 2 ? 'h' : 'b') && (mask ? text.size() <= parts + 1 : text.size() == parts + 1);
  if (mask)
    *mask = 0;
  for (size_t i = 1; valid && i < text.size(); ++i) {
    auto digit = static_cast<uint32_t>(text[i] - '0');
    valid = digit < (mask ? parts : 2 * parts) && !(mask && i > 1 && text[i] >= text[i - 1]);
    if (mask)
      *mask = static_cast<uint8_t>(*mask | 1u << (digit & 3));
    else
      (*from)[text.size() - 1 - i] = static_cast<uint8_t>(digit);
  }
  if (!valid || (mask && *mask == 0))
    c.fail("'" + std::string(operand.name) + "' has no parts '." + std::string(text) + "'");
}

/* v<op>2.d.a.b{.sat}{.add} d{.mask}, a{.selector}, b{.selector}, c; and the same with 4 */
template <SimdOp Op, uint8_t Parts> void simd(Coder &c) {
  exec::SimdMode mode;
  mode.parts = Parts;
  if (Op != SimdOp::set)
    mode.d_signed = take_sign(c);
  mode.a_signed = take_sign(c);
  mode.b_signed = take_sign(c);
  mode.saturate = Op != SimdOp::set && c.take("sat");
  if (Op == SimdOp::set)
    mode.comparison = take_comparison(c);
  mode.adds = c.take("add");
  if (mode.adds && mode.saturate)
    c.unsupported();
  mode.mask = (1u << Parts) - 1;
  for (uint8_t i = 0; i < 4; ++i) {
    mode.a_from[i] = i;
    mode.b_from[i] = static_cast<uint8_t>(Parts + i);
  }
  c.need(4);
  ast::Operand operands[] = {c.operand(0), c.operand(1), c.operand(2), c.operand(3)};
  take_selector(c, operands[0], Parts, nullptr, &mode.mask);
  take_selector(c, operands[1], Parts, &mode.a_from, nullptr);
  take_selector(c, operands[2], Parts, &mode.b_from, nullptr);
  for (size_t i = 0; i < 4; ++i)
    set_operand(c, i, operands[i]);
  c.out.immediate = exec::simd_mode(mode);
  c.emit(exec::simd_handler(Op));
}

} // namespace

const Decoder video_decoders[] = {{"vadd", video<VideoOp::add>},           {"vsub", video<VideoOp::sub>},
                                  {"vabsdiff", video<VideoOp::absdiff>},   {"vmin", video<VideoOp::min>},
                                  {"vmax", video<VideoOp::max>},           {"vshl", video<VideoOp::shl>},
                                  {"vshr", video<VideoOp::shr>},           {"vmad", video<VideoOp::mad>},
                                  {"vset", video<VideoOp::set>},           {"vadd2", simd<SimdOp::add, 2>},
                                  {"vadd4", simd<SimdOp::add, 4>},         {"vsub2", simd<SimdOp::sub, 2>},
                                  {"vsub4", simd<SimdOp::sub, 4>},         {"vavrg2", simd<SimdOp::average, 2>},
                                  {"vavrg4", simd<SimdOp::average, 4>},    {"vabsdiff2", simd<SimdOp::absdiff, 2>},
                                  {"vabsdiff4", simd<SimdOp::absdiff, 4>}, {"vmin2", simd<SimdOp::min, 2>},
                                  {"vmin4", simd<SimdOp::min, 4>},         {"vmax2", simd<SimdOp::max, 2>},
                                  {"vmax4", simd<SimdOp::max, 4>},         {"vset2", simd<SimdOp::set, 2>},
                                  {"vset4", simd<SimdOp::set, 4>},         {nullptr, nullptr}};

} // namespace sim::ptx
