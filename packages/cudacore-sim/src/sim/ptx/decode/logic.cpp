/* SPDX-License-Identifier: Apache-2.0 */
/* Logic, shifts, bit fields, comparison and selection. */
#include "sim/ptx/coder.h"

namespace sim::ptx {

namespace {

using exec::BitOp;
using exec::BooleanOp;
using exec::Comparison;

bool is_bits(Type type) { return class_of(type) == TypeClass::bits && bits_of(type) >= 16 && bits_of(type) <= 64; }

void predicate_logic(Coder &c, BitOp op, size_t sources) {
  c.need(sources + 1);
  c.out.op[0] = c.destination_predicate(c.operand(0).name);
  for (size_t i = 1; i <= sources; ++i)
    c.out.op[i] = c.source_predicate(c.operand(i));
  c.emit(exec::bit_handler(op, Type::pred));
}

void logic(Coder &c, BitOp op, BitOp of_predicates, size_t sources) {
  Type type = c.need_type();
  if (type == Type::pred && op != BitOp::cnot)
    return predicate_logic(c, of_predicates, sources);
  if (!is_bits(type))
    c.unsupported();
  c.operands(type, sources);
  c.emit(exec::bit_handler(op, type));
}
void and_(Coder &c) { logic(c, BitOp::and_, BitOp::and_pred, 2); }
void or_(Coder &c) { logic(c, BitOp::or_, BitOp::or_pred, 2); }
void xor_(Coder &c) { logic(c, BitOp::xor_, BitOp::xor_pred, 2); }
void not_(Coder &c) { logic(c, BitOp::not_, BitOp::not_pred, 1); }
void cnot(Coder &c) { logic(c, BitOp::cnot, BitOp::not_pred, 1); }

void shift(Coder &c, BitOp op) {
  Type type = c.need_type();
  c.operands({type, type, Type::u32});
  c.emit(exec::bit_handler(op, type));
}
void shl(Coder &c) { shift(c, BitOp::shl); }
void shr(Coder &c) { shift(c, BitOp::shr); }

void words(Coder &c, BitOp op, size_t sources) {
  c.operands(Type::b32, sources);
  c.emit(exec::bit_handler(op, Type::b32));
}
void shf(Coder &c) {
  bool left = c.take("l"), wrap = c.take("wrap");
  if ((!left && !c.take("r")) || (!wrap && !c.take("clamp")))
    c.unsupported();
  c.need_type(Type::b32);
  words(c, left ? (wrap ? BitOp::shf_l_wrap : BitOp::shf_l_clamp) : (wrap ? BitOp::shf_r_wrap : BitOp::shf_r_clamp), 3);
}
void prmt(Coder &c) {
  static constexpr Coder::Choice<BitOp> modes[] = {{"f4e", BitOp::prmt_f4e}, {"b4e", BitOp::prmt_b4e},
                                                   {"rc8", BitOp::prmt_rc8}, {"ecl", BitOp::prmt_ecl},
                                                   {"ecr", BitOp::prmt_ecr}, {"rc16", BitOp::prmt_rc16}};
  c.need_type(Type::b32);
  BitOp op = BitOp::prmt;
  c.take_choice(modes, op);
  words(c, op, 3);
}
void lop3(Coder &c) {
  bool and_p = c.take("and"), or_p = c.take("or");
  c.need_type(Type::b32);
  bool to_predicate = and_p || or_p;
  c.need(to_predicate ? 6 : 5);
  c.out.op[0] = c.destination(0, Type::b32);
  for (size_t i = 1; i < 4; ++i)
    c.out.op[i] = c.source(i, Type::b32);
  c.out.immediate = static_cast<int64_t>(c.integer(4) & 0xff);
  if (to_predicate) {
    c.out.op[4] = c.destination_predicate(c.operand(0).second);
    c.out.op[5] = c.source_predicate(c.operand(5));
    c.out.mode = static_cast<uint8_t>(and_p ? BooleanOp::and_ : BooleanOp::or_);
  }
  c.emit(exec::bit_handler(BitOp::lop3, Type::b32));
}

/* popc, clz and bfind: the result has 32 bits, whatever the type of the source. */
void counting(Coder &c, BitOp op) {
  Type type = c.need_type();
  c.operands({Type::b32, type});
  c.emit(exec::bit_handler(op, type));
}
void popc(Coder &c) { counting(c, BitOp::popc); }
void clz(Coder &c) { counting(c, BitOp::clz); }
void bfind(Coder &c) { counting(c, c.take("shiftamt") ? BitOp::bfind_shift : BitOp::bfind); }
void brev(Coder &c) {
  Type type = c.need_type();
  c.operands(type, 1);
  c.emit(bits_of(type) >= 32 ? exec::bit_handler(BitOp::brev, type) : nullptr);
}
void fns(Coder &c) {
  c.need_type(Type::b32);
  words(c, BitOp::fns, 3);
}
void bfe(Coder &c) {
  Type type = c.need_type();
  c.operands({type, type, Type::u32, Type::u32});
  c.emit(exec::bit_handler(BitOp::bfe, type));
}
void bfi(Coder &c) {
  Type type = c.need_type();
  c.operands({type, type, type, Type::u32, Type::u32});
  c.emit(exec::bit_handler(BitOp::bfi, type));
}
void bmsk(Coder &c) {
  bool wrap = c.take("wrap");
  if (!wrap && !c.take("clamp"))
    c.unsupported();
  c.need_type(Type::b32);
  words(c, wrap ? BitOp::bmsk_wrap : BitOp::bmsk_clamp, 2);
}
void szext(Coder &c) {
  bool wrap = c.take("wrap");
  if (!wrap && !c.take("clamp"))
    c.unsupported();
  Type type = c.need_type();
  c.operands(Type::b32, 2);
  c.emit(exec::bit_handler(wrap ? BitOp::szext_wrap : BitOp::szext_clamp, type));
}

/* --- comparison --------------------------------------------------------------------------------------------------- */

bool take_comparison(Coder &c, Type type, Comparison &comparison) {
  static constexpr Coder::Choice<Comparison> all[] = {
      {"eq", Comparison::eq},   {"ne", Comparison::ne},   {"lt", Comparison::lt},   {"le", Comparison::le},
      {"gt", Comparison::gt},   {"ge", Comparison::ge},   {"equ", Comparison::equ}, {"neu", Comparison::neu},
      {"ltu", Comparison::ltu}, {"leu", Comparison::leu}, {"gtu", Comparison::gtu}, {"geu", Comparison::geu},
      {"num", Comparison::num}, {"nan", Comparison::nan}, {"lo", Comparison::lt},   {"ls", Comparison::le},
      {"hi", Comparison::gt},   {"hs", Comparison::ge}};
  /* Values of the types .b16, .b32 and .b64 can only be compared for equality. */
  bool only_equality = class_of(type) == TypeClass::bits;
  return c.take_choice(all, comparison) &&
         (!only_equality || comparison == Comparison::eq || comparison == Comparison::ne);
}
void take_boolean(Coder &c, size_t operand) {
  BooleanOp op = c.take("and")   ? BooleanOp::and_
                 : c.take("or")  ? BooleanOp::or_
                 : c.take("xor") ? BooleanOp::xor_
                                 : BooleanOp::none;
  c.out.mode = static_cast<uint8_t>(op);
  c.need(op == BooleanOp::none ? operand : operand + 1);
  if (op != BooleanOp::none)
    c.out.op[4] = c.source_predicate(c.operand(operand));
}

void setp(Coder &c) {
  Type type = c.need_type();
  Comparison comparison;
  if (!take_comparison(c, type, comparison))
    c.unsupported();
  bool ftz = c.take("ftz");
  take_boolean(c, 3);
  c.out.op[0] = c.destination_predicate(c.operand(0).name);
  if (!c.operand(0).second.empty())
    c.out.op[1] = c.destination_predicate(c.operand(0).second);
  c.out.op[2] = c.source(1, type);
  c.out.op[3] = c.source(2, type);
  bool pair = type == Type::f16x2 || type == Type::bf16x2;
  c.emit(pair ? exec::setp_pair_handler(comparison, type) : exec::setp_handler(comparison, type, ftz));
}

int64_t truth_of(Type type) {
  switch (type) {
  case Type::f32:
    return 0x3f800000;
  case Type::f16:
    return 0x3c00;
  case Type::f16x2:
    return 0x3c003c00;
  case Type::bf16:
    return 0x3f80;
  case Type::bf16x2:
    return 0x3f803f80;
  default:
    return 0xffffffff;
  }
}
void set(Coder &c) {
  Type to = c.need_type(), type = c.need_type();
  Comparison comparison;
  if (!take_comparison(c, type, comparison))
    c.unsupported();
  bool ftz = c.take("ftz");
  take_boolean(c, 3);
  c.out.op[0] = c.destination(0, to);
  c.out.op[1] = c.source(1, type);
  c.out.op[2] = c.source(2, type);
  c.out.immediate = truth_of(to);
  c.emit(exec::set_handler(comparison, type, ftz));
}

void selp(Coder &c) {
  Type type = c.need_type();
  c.need(4);
  c.out.op[0] = c.destination(0, type);
  c.out.op[1] = c.source(1, type);
  c.out.op[2] = c.source(2, type);
  c.out.op[3] = c.source_predicate(c.operand(3));
  c.emit(exec::selp_handler(type));
}
void slct(Coder &c) {
  bool ftz = c.take("ftz");
  Type type = c.need_type(), selector = c.need_type();
  c.operands({type, type, type, selector});
  c.emit(exec::slct_handler(type, selector, ftz));
}

} // namespace

const Decoder logic_decoders[] = {{"and", and_},  {"or", or_},    {"xor", xor_},    {"not", not_},     {"cnot", cnot},
                                  {"shl", shl},   {"shr", shr},   {"shf", shf},     {"prmt", prmt},    {"lop3", lop3},
                                  {"popc", popc}, {"clz", clz},   {"bfind", bfind}, {"brev", brev},    {"fns", fns},
                                  {"bfe", bfe},   {"bfi", bfi},   {"bmsk", bmsk},   {"szext", szext},  {"setp", setp},
                                  {"set", set},   {"selp", selp}, {"slct", slct},   {nullptr, nullptr}};

} // namespace sim::ptx
