/* SPDX-License-Identifier: Apache-2.0 */
/* Textures and surfaces. An operand has the handle of the texture or surface object. */
#include "sim/ptx/coder.h"

namespace sim::ptx {

namespace {

using exec::TextureAccess;
using Geometry = TextureAccess::Geometry;
using Op = TextureAccess::Op;

void take_geometry(Coder &c, TextureAccess &access) {
  static constexpr std::string_view names[] = {"1d", "2d", "3d", "cube", "a1d", "a2d", "", "acube"};
  size_t found = c.take_one_of(names, std::size(names));
  if (found == std::size(names))
    c.unsupported();
  access.geometry = static_cast<Geometry>(found % 4);
  access.layered = found >= 4;
}

/* Decodes the operand with the values: one register, or a vector of registers. */
template <class Operand>
void registers(const ast::Operand &operand, std::vector<OperandIndex> &out, Operand operand_of) {
  if (operand.kind != ast::Operand::Kind::vector) {
    out.push_back(operand_of(operand));
    return;
  }
  for (const ast::Operand &element : operand.elements)
    out.push_back(operand_of(element));
}

void results(Coder &c, const ast::Operand &operand, TextureAccess &access, size_t count) {
  registers(operand, access.registers,
            [&](const ast::Operand &one) { return c.destination(one, access.type, bytes_of(access.type) == 1); });
  if (access.registers.size() != count)
    c.fail("expected a vector of " + std::to_string(count));
}

/* Decodes {...}|p: p says whether the texels are resident, as those of all textures here are. */
void resident(Coder &c, const ast::Operand &operand) {
  if (operand.second.empty())
    return;
  Instruction set = c.out;
  set.op[0] = c.destination_predicate(operand.second);
  set.op[1] = exec::predicate_true;
  set.run = exec::bit_handler(exec::BitOp::mov_pred, Type::pred);
  c.emit_before(set);
}

/*
 * [object, {coordinates}]. If there are layers, the layer comes first. In a vector of four coordinates, the last one is
 * used only if the geometry needs it.
 */
void place(Coder &c, const ast::Operand &operand, TextureAccess &access) {
  if (operand.kind != ast::Operand::Kind::address || operand.name.empty() || operand.value != 0)
    c.fail("expected [object, coordinates]");
  ast::Operand object;
  object.name = operand.name;
  access.object = c.source(object, Type::b64);
  if (access.op == Op::query)
    return;
  size_t wanted = exec::axes_of(access.geometry) + (access.layered ? 1 : 0);
  size_t given = 0;
  Type type = access.integer_coordinates ? Type::s32 : Type::f32;
  for (const ast::Operand &one : operand.elements) {
    bool is_layer = access.layered && given == 0;
    access.coordinates.push_back(given++ < wanted ? c.source(one, is_layer ? Type::u32 : type) : exec::no_operand);
  }
  if (given < wanted || given > 4)
    c.fail("expected " + std::to_string(wanted) + " coordinates");
  access.coordinates.resize(wanted);
}

void emit(Coder &c, TextureAccess &&access) {
  std::vector<TextureAccess> &accesses = c.function().module.program().texture_accesses;
  c.out.target = static_cast<uint32_t>(accesses.size());
  exec::Handler handler = exec::texture_handler(access);
  accesses.push_back(std::move(access));
  c.emit(handler);
}

void take_coordinate_type(Coder &c, TextureAccess &access) {
  Type type = c.need_type();
  if (type != Type::s32 && type != Type::f32)
    c.unsupported();
  access.integer_coordinates = type == Type::s32;
}

void tex(Coder &c) {
  TextureAccess access;
  static constexpr std::string_view levels[] = {"base", "level", "grad"};
  size_t level = c.take_one_of(levels, 3);
  access.level = level == 3 ? TextureAccess::Level::automatic : static_cast<TextureAccess::Level>(level + 1);
  take_geometry(c, access);
  uint32_t count = c.take_vector();
  access.type = c.need_type();
  take_coordinate_type(c, access);
  if (count != 4 || bytes_of(access.type) != 4)
    c.unsupported();
  size_t axes = exec::axes_of(access.geometry);
  size_t given = access.level == TextureAccess::Level::given      ? 1
                 : access.level == TextureAccess::Level::gradient ? 2
                                                                  : 0;
  c.need(2 + given);
  resident(c, c.operand(0));
  results(c, c.operand(0), access, 4);
  place(c, c.operand(1), access);
  for (size_t i = 0; i < given; i++) {
    size_t before = access.more.size(), taken = 0, wanted = given == 1 ? 1 : axes;
    bool is_integer = given == 1 && access.integer_coordinates;
    registers(c.operand(2 + i), access.more, [&](const ast::Operand &one) {
      return taken++ < wanted ? c.source(one, is_integer ? Type::s32 : Type::f32) : exec::no_operand;
    });
    if (taken < wanted)
      c.fail("expected " + std::to_string(wanted) + " derivatives");
    access.more.resize(before + wanted);
  }
  emit(c, std::move(access));
}

void tld4(Coder &c) {
  TextureAccess access;
  access.op = Op::gather;
  static constexpr std::string_view channels[] = {"r", "g", "b", "a"};
  size_t channel = c.take_one_of(channels, 4);
  take_geometry(c, access);
  uint32_t count = c.take_vector();
  access.type = c.need_type();
  take_coordinate_type(c, access);
  bool is_plane = access.geometry == Geometry::plane && !access.layered;
  if (channel == 4 || count != 4 || !is_plane || access.integer_coordinates || bytes_of(access.type) != 4)
    c.unsupported();
  access.channel = static_cast<uint8_t>(channel);
  c.need(2);
  resident(c, c.operand(0));
  results(c, c.operand(0), access, 4);
  place(c, c.operand(1), access);
  emit(c, std::move(access));
}

void query(Coder &c) {
  TextureAccess access;
  access.op = Op::query;
  static constexpr std::string_view names[] = {"width", "height", "depth"}; /* for sm_90, there are no other queries */
  if (c.take("level"))
    access.level = TextureAccess::Level::given;
  size_t found = c.take_one_of(names, std::size(names));
  access.type = c.need_type();
  if (found == std::size(names) || access.type != Type::b32)
    c.unsupported();
  access.query = static_cast<TextureAccess::Query>(found);
  bool has_level = access.level == TextureAccess::Level::given;
  c.need(has_level ? 3 : 2);
  results(c, c.operand(0), access, 1);
  place(c, c.operand(1), access);
  if (has_level)
    access.more.push_back(c.source(c.operand(2), Type::u32));
  emit(c, std::move(access));
}

void take_clamp(Coder &c, TextureAccess &access) {
  static constexpr std::string_view names[] = {"trap", "clamp", "zero"};
  size_t found = c.take_one_of(names, 3);
  access.clamp = found == 3 ? TextureAccess::Clamp::trap : static_cast<TextureAccess::Clamp>(found);
}

/* Decodes what suld and sust have in common. Returns the number of elements of the vector. */
uint32_t surface(Coder &c, TextureAccess &access, Op op) {
  access.op = op;
  access.integer_coordinates = true;
  access.formatted = c.take("p");
  if (!access.formatted && !c.take("b"))
    c.unsupported();
  take_geometry(c, access);
  c.skip_cache_hints();
  uint32_t count = c.take_vector();
  access.type = c.need_type();
  take_clamp(c, access);
  bool is_known =
      access.formatted ? op == Op::store && bytes_of(access.type) == 4 : class_of(access.type) == TypeClass::bits;
  if (!is_known || access.geometry == Geometry::cube || bytes_of(access.type) * count > 16)
    c.unsupported();
  return count;
}

void suld(Coder &c) {
  TextureAccess access;
  uint32_t count = surface(c, access, Op::load);
  c.need(2);
  results(c, c.operand(0), access, count);
  place(c, c.operand(1), access);
  emit(c, std::move(access));
}

void values(Coder &c, const ast::Operand &operand, TextureAccess &access, size_t count) {
  registers(operand, access.registers,
            [&](const ast::Operand &one) { return c.source(one, access.type, bytes_of(access.type) == 1); });
  if (access.registers.size() != count)
    c.fail("expected a vector of " + std::to_string(count));
}

void sust(Coder &c) {
  TextureAccess access;
  uint32_t count = surface(c, access, Op::store);
  c.need(2);
  place(c, c.operand(0), access);
  values(c, c.operand(1), access, count);
  c.out.access = exec::access_store;
  emit(c, std::move(access));
}

void sured(Coder &c) {
  TextureAccess access;
  static constexpr std::string_view names[] = {"add", "min", "max", "and", "or"};
  access.op = Op::reduce;
  access.integer_coordinates = true;
  access.formatted = c.take("p");
  if (!access.formatted && !c.take("b"))
    c.unsupported();
  size_t found = c.take_one_of(names, 5);
  take_geometry(c, access);
  access.type = c.need_type();
  take_clamp(c, access);
  bool is_wide = bytes_of(access.type) == 8;
  if (found == 5 || access.geometry == Geometry::cube || (bytes_of(access.type) != 4 && !is_wide) ||
      (access.formatted && is_wide))
    c.unsupported();
  access.reduction = static_cast<TextureAccess::Reduction>(found);
  c.need(2);
  place(c, c.operand(0), access);
  values(c, c.operand(1), access, 1);
  c.out.access = exec::access_strong | exec::access_update;
  emit(c, std::move(access));
}

} // namespace

const Decoder texture_decoders[] = {{"tex", tex},   {"tld4", tld4}, {"txq", query},   {"suq", query},
                                    {"suld", suld}, {"sust", sust}, {"sured", sured}, {nullptr, nullptr}};

} // namespace sim::ptx
