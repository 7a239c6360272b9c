/* SPDX-License-Identifier: Apache-2.0 */
/* Moves, conversions, and addresses. */
#include "sim/ptx/coder.h"

namespace sim::ptx {

namespace {

Type piece_of(uint32_t bits) {
  switch (bits) {
  case 8:
    return Type::b8;
  case 16:
    return Type::b16;
  case 32:
    return Type::b32;
  case 64:
    return Type::b64;
  default:
    return Type::none;
  }
}

/*
 * Returns the type of the elements that a value is packed from, or unpacked to. Sets the number of elements in `out`.
 */
Type take_elements(Coder &c, const std::vector<ast::Operand> &elements, Type type) {
  size_t count = elements.size();
  Type element = count ? piece_of(bits_of(type) / static_cast<uint32_t>(count)) : Type::none;
  if (element == Type::none || (count != 2 && count != 4 && count != 8))
    c.unsupported();
  c.out.count = static_cast<uint8_t>(count);
  return element;
}

/* mov.b64 %rd, {%r1, %r2} */
void pack(Coder &c, Type type) {
  const std::vector<ast::Operand> &elements = c.operand(1).elements;
  size_t count = elements.size();
  Type element = take_elements(c, elements, type);
  c.out.op[0] = c.destination(0, type);
  for (size_t i = 0; i < count; ++i)
    c.out.op[i + 1] = c.source(elements[i], element);
  c.emit(exec::pack_handler(element));
}
/* mov.b64 {%r1, %r2}, %rd */
void unpack(Coder &c, Type type) {
  const std::vector<ast::Operand> &elements = c.operand(0).elements;
  size_t count = elements.size();
  Type element = take_elements(c, elements, type);
  for (size_t i = 0; i < count; ++i)
    c.out.op[i] = c.destination(elements[i], element);
  if (c.operand(1).kind != ast::Operand::Kind::name)
    c.unsupported();
  c.out.op[count] = c.source(1, type);
  c.emit(exec::unpack_handler(element));
}

/*
 * mov.v2.b32 {d, ...}, {a, ...}. All sources are read before any destination is written, because a register may be
 * both.
 */
void move_vector(Coder &c, uint32_t count, Type type) {
  if (!c.is_list(0) || !c.is_list(1) || c.operand(0).elements.size() != count || c.operand(1).elements.size() != count)
    c.fail("expected vectors of " + std::to_string(count));
  std::vector<OperandIndex> read(count);
  Instruction part = c.out;
  part.run = exec::move_handler(type);
  for (uint32_t i = 0; i < count; ++i) {
    part.op[1] = c.source(c.operand(1).elements[i], type);
    part.op[0] = read[i] = c.function().scratch();
    c.emit_before(part);
  }
  for (uint32_t i = 0; i < count; ++i) {
    c.out.op[0] = c.destination(c.operand(0).elements[i], type);
    c.out.op[1] = read[i];
    c.out.run = part.run;
    i + 1 < count ? c.emit_before(c.out) : c.emit(part.run);
  }
}

void mov(Coder &c) {
  uint32_t vector = c.take_vector();
  Type type = c.need_type();
  c.need(2);
  if (vector > 1)
    return move_vector(c, vector, type);
  if (type == Type::pred) {
    c.out.op[0] = c.destination_predicate(c.operand(0).name);
    if (Instruction read = c.out; c.operand(1).kind == ast::Operand::Kind::name && c.special(c.operand(1), read)) {
      /* Here, the special register %is_explicit_cluster is a number. So a comparison with 0 makes it a predicate. */
      read.op[0] = c.out.op[2] = c.function().scratch();
      c.emit_before(read);
      c.out.op[3] = c.constant(0);
      return c.emit(exec::setp_handler(exec::Comparison::ne, Type::u32, false));
    }
    c.out.op[1] = c.source_predicate(c.operand(1));
    return c.emit(exec::bit_handler(exec::BitOp::mov_pred, type));
  }
  bool bits = class_of(type) == TypeClass::bits;
  if (c.is_list(1) && bits)
    return pack(c, type);
  if (c.is_list(0) && bits)
    return unpack(c, type);
  c.out.op[0] = c.destination(0, type);
  const ast::Operand &from = c.operand(1);
  if (type == Type::b128) {
    if (from.kind != ast::Operand::Kind::name)
      c.fail("a constant cannot have 128 bits");
    c.out.op[1] = c.source(1, type);
    return c.emit(exec::move_handler(type));
  }
  Instruction read = c.out;
  if (from.kind == ast::Operand::Kind::name && c.special(from, read)) {
    c.out.mode = read.mode;
    return c.emit(read.run);
  }
  c.out.op[1] = c.source(1, type);
  c.emit(exec::move_handler(type));
}

/* --- cvt ---------------------------------------------------------------------------------------------------------- */

bool is_pair(Type type) { return class_of(type) == TypeClass::packed; }
bool is_float(Type type) { return class_of(type) == TypeClass::floating; }

void take_integral(Coder &c, exec::Conversion &conversion) {
  using exec::Rounding;
  static constexpr Coder::Choice<Rounding> all[] = {
      {"rni", Rounding::nearest}, {"rzi", Rounding::zero}, {"rmi", Rounding::down}, {"rpi", Rounding::up}};
  conversion.integral = c.take_choice(all, conversion.rounding);
}

/* cvt.pack.sat.u8.s32.b32 d, a, b, c */
void cvt_pack(Coder &c) {
  if (!c.take("sat"))
    c.unsupported();
  static constexpr struct {
    std::string_view name;
    uint8_t bits;
    bool is_signed;
  } sizes[] = {{"u16", 16, false}, {"s16", 16, true}, {"u8", 8, false}, {"s8", 8, true},
               {"u4", 4, false},   {"s4", 4, true},   {"u2", 2, false}, {"s2", 2, true}};
  bool known = false;
  for (const auto &size : sizes)
    if (!known && c.take(size.name)) {
      known = true;
      c.out.mode = size.bits;
      c.out.flag = size.is_signed;
    }
  if (!known || !c.take("s32"))
    c.unsupported();
  bool with_c = c.take("b32");
  c.operands(Type::b32, with_c ? 3 : 2);
  c.emit(exec::convert_pack_handler());
}

void cvt(Coder &c) {
  if (c.take("pack"))
    return cvt_pack(c);
  exec::Conversion conversion;
  conversion.rounding = c.take_rounding();
  /* Take only one rounding modifier: a second one is left over, and therefore the instruction is refused. */
  if (conversion.rounding == exec::Rounding::none)
    take_integral(c, conversion);
  conversion.ftz = c.take("ftz");
  conversion.sat = c.take("sat");
  conversion.relu = c.take("relu");
  conversion.satfinite = c.take("satfinite");
  conversion.to = c.need_type();
  conversion.from = c.need_type();
  c.out.immediate = exec::convert_mode(conversion);
  if (is_pair(conversion.to)) {
    bool from_two = conversion.from == Type::f32;
    c.need(from_two ? 3 : 2);
    c.out.op[0] = c.destination(c.operand(0), conversion.to, true);
    for (size_t i = 1; i < c.count(); ++i)
      c.out.op[i] = c.source(c.operand(i), conversion.from, true);
    return c.emit(exec::convert_pair_handler(conversion, c.out));
  }
  if (is_float(conversion.from) && !is_float(conversion.to) && conversion.rounding == exec::Rounding::none)
    c.fail("a conversion from floating point to an integer needs a rounding");
  c.need(2);
  c.out.op[0] = c.destination(c.operand(0), conversion.to, true);
  c.out.op[1] = c.source(c.operand(1), conversion.from, true);
  c.emit(exec::convert_handler(conversion));
}

/* --- addresses ---------------------------------------------------------------------------------------------------- */

Type address_type(Coder &c) {
  Type type = c.need_type();
  if (type != Type::u64 && type != Type::u32)
    c.unsupported();
  return type;
}

void cvta(Coder &c) {
  bool back = c.take("to");
  StateSpace space = c.take_space();
  Type type = address_type(c);
  /* In a function that is not a kernel, parameters are in the frame, which is in local memory. */
  if (space == StateSpace::param && !c.function().is_entry())
    space = StateSpace::local;
  c.operands(type, 1);
  c.emit(back ? exec::from_generic_handler(space) : exec::to_generic_handler(space));
}

void isspacep(Coder &c) {
  StateSpace space = c.take_space();
  c.need(2);
  c.out.op[0] = c.destination_predicate(c.operand(0).name);
  c.out.op[1] = c.source(1, Type::b64);
  c.emit(exec::space_test_handler(space));
}

void mapa(Coder &c) {
  c.take_space();
  Type type = address_type(c);
  c.operands({type, type, Type::u32});
  c.emit(exec::mapa_handler(type == Type::u64));
}
void getctarank(Coder &c) {
  c.take_space();
  Type type = address_type(c);
  c.operands({Type::u32, type});
  c.emit(exec::getctarank_handler());
}

} // namespace

const Decoder data_decoders[] = {{"mov", mov},           {"cvt", cvt},   {"cvta", cvta},
                                 {"isspacep", isspacep}, {"mapa", mapa}, {"getctarank", getctarank},
                                 {nullptr, nullptr}};

} // namespace sim::ptx
