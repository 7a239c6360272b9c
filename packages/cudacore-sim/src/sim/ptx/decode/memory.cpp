/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores, atomics, fences. */
#include "sim/ptx/decode/memory.h"

namespace sim::ptx {

exec::OperandIndex computed_address(Coder &c, const ast::Operand &operand, bool &narrow) {
  Coder::Address where = c.address(operand, 1);
  if (where.kind != Coder::Address::Kind::dynamic)
    c.fail("this needs an address in memory");
  narrow = where.narrow;
  if (where.offset == 0)
    return where.base;
  Instruction add;
  add.line = c.out.line;
  add.op[0] = c.function().scratch();
  add.op[1] = where.base;
  add.op[2] = c.constant(static_cast<uint64_t>(where.offset));
  add.run = exec::integer_handler(exec::IntegerOp::add, narrow ? Type::u32 : Type::u64);
  c.emit_before(add);
  return add.op[0];
}

bool take_atomic_op(Coder &c, exec::AtomicOp &op) {
  using exec::AtomicOp;
  static constexpr Coder::Choice<AtomicOp> all[] = {
      {"add", AtomicOp::add}, {"exch", AtomicOp::exch}, {"cas", AtomicOp::cas}, {"inc", AtomicOp::inc},
      {"dec", AtomicOp::dec}, {"min", AtomicOp::min},   {"max", AtomicOp::max}, {"and", AtomicOp::and_},
      {"or", AtomicOp::or_},  {"xor", AtomicOp::xor_}};
  return c.take_choice(all, op);
}

const std::vector<ast::Operand> &elements_of(Coder &c, const ast::Operand &operand, uint32_t vector) {
  if (operand.kind != ast::Operand::Kind::vector || operand.elements.size() != vector)
    c.fail("expected a vector of " + std::to_string(vector));
  return operand.elements;
}

namespace {

using exec::AccessMode;
using exec::AtomicOp;

/* Decodes the address operand. Sets mode.space to the state space that the access really uses. */
void set_access(Coder &c, const ast::Operand &operand, uint32_t vector, AccessMode &mode) {
  uint64_t bytes = uint64_t{bytes_of(mode.type)} * vector;
  Coder::Address where = c.address(operand, bytes);
  c.out.count = static_cast<uint8_t>(vector);
  c.out.immediate = where.offset;
  c.out.flag = where.narrow;
  c.out.op[vector] = where.base;
  mode.frame = where.kind == Coder::Address::Kind::frame;
  mode.parameter = where.kind == Coder::Address::Kind::kernel_parameter;
  if ((mode.frame || mode.parameter) && mode.type == Type::b128)
    c.unsupported();
  if (mode.space == StateSpace::param && !c.function().is_entry())
    mode.space = StateSpace::local;
}

/* Takes the modifiers of a load or store. Returns its mode, and sets `vector` to the number of elements. */
AccessMode take_access(Coder &c, uint32_t &vector) {
  AccessMode mode;
  mode.ordered = c.take_memory_order();
  mode.space = c.take_space();
  c.skip_cache_hints();
  vector = c.take_vector();
  if (c.take("L2::cache_hint"))
    c.need(3);
  else
    c.need(2);
  mode.type = c.need_type();
  return mode;
}

void ld(Coder &c) {
  uint32_t vector = 1;
  AccessMode mode = take_access(c, vector);
  values(c, c.operand(0), vector, [&](const ast::Operand &one) { return c.destination(one, mode.type, true); });
  set_access(c, c.operand(1), vector, mode);
  c.emit(exec::load_handler(mode));
}

void st(Coder &c) {
  if (c.take("bulk"))
    return st_bulk(c);
  if (c.take("async"))
    return st_async(c);
  uint32_t vector = 1;
  AccessMode mode = take_access(c, vector);
  values(c, c.operand(1), vector, [&](const ast::Operand &one) { return c.source(one, mode.type, true); });
  set_access(c, c.operand(0), vector, mode);
  if (mode.parameter)
    c.fail("a kernel's parameters cannot be written");
  c.out.access |= exec::access_store;
  c.emit(exec::store_handler(mode));
}

/* ldu is a load from memory that no thread writes meanwhile, and is executed like ld. */
void ldu(Coder &c) { ld(c); }

/*
 * atom.global.add.v4.f32 {d, ...}, [a], {b, ...}. The elements are updated one after the other, because only each
 * single update is atomic. The old values go to temporary registers first, because a destination register can also be
 * the address or a source of a later element.
 */
void vector_atomic(Coder &c, AtomicOp op, StateSpace space, uint32_t vector, Type type, bool returns) {
  size_t first = returns ? 1 : 0;
  uint32_t bytes = bytes_of(type);
  c.need(first + (c.take("L2::cache_hint") ? 3 : 2));
  bool is_float = class_of(type) == TypeClass::floating || class_of(type) == TypeClass::packed;
  exec::Handler handler = exec::atomic_handler(op, type, space);
  if (!handler || !is_float || (space != StateSpace::global && space != StateSpace::generic) || vector * bytes > 16)
    c.unsupported();
  c.set_address(c.operand(first), 1, uint64_t{vector} * bytes);
  const std::vector<ast::Operand> &sources = elements_of(c, c.operand(first + 1), vector);
  const Instruction whole = c.out;
  std::vector<OperandIndex> old(vector, exec::no_operand);
  for (uint32_t i = 0; i < vector; ++i) {
    Instruction part = whole;
    part.run = handler;
    /* The access to the first element checks the alignment of the whole vector. */
    part.count = static_cast<uint8_t>(i == 0 ? vector : 1);
    part.immediate += int64_t{i} * bytes;
    part.op[2] = c.source(sources[i], type);
    if (returns)
      part.op[0] = old[i] = c.function().scratch();
    c.emit_before(part);
  }
  c.out.op.fill(exec::no_operand);
  if (!returns)
    return c.emit(exec::nop_handler());
  const std::vector<ast::Operand> &destinations = elements_of(c, c.operand(0), vector);
  for (uint32_t i = 0; i < vector; ++i) {
    c.out.op[0] = c.destination(destinations[i], type);
    c.out.op[1] = old[i];
    c.out.run = exec::move_handler(type);
    i + 1 < vector ? c.emit_before(c.out) : c.emit(c.out.run);
  }
}

/* atom.global.add.u32 d, [a], b; red has no d. */
void atomic(Coder &c, bool returns) {
  AtomicOp op;
  c.take_memory_order();
  c.out.access |= exec::access_strong | exec::access_update;
  StateSpace space = c.take_space();
  if (!take_atomic_op(c, op))
    c.unsupported();
  if (op == AtomicOp::exch)
    c.out.access |= exec::access_replace;
  bool keeps_subnormals = c.take("noftz");
  uint32_t vector = c.take_vector();
  Type type = c.need_type();
  bool is_half = type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
  if (is_half && op != AtomicOp::add &&
      (vector == 1 || !keeps_subnormals)) /* without a vector, these types have no minimum or maximum */
    c.unsupported();
  if (vector > 1)
    return vector_atomic(c, op, space, vector, type, returns);
  size_t first = returns ? 1 : 0, sources = op == AtomicOp::cas ? 2 : 1;
  if (c.take("L2::cache_hint"))
    c.need(first + sources + 2);
  else
    c.need(first + sources + 1);
  if (returns && c.operand(0).name != "_")
    c.out.op[0] = c.destination(0, type);
  c.set_address(c.operand(first), 1, bytes_of(type));
  c.out.op[2] = c.source(first + 1, type);
  if (sources == 2)
    c.out.op[3] = c.source(first + 2, type);
  c.emit(exec::atomic_handler(op, type, space));
}
void atom(Coder &c) { atomic(c, true); }

void red(Coder &c) { c.take("async") ? red_async(c) : atomic(c, false); }

void membar(Coder &c) {
  if (c.take("cta"))
    c.out.set_scope(exec::Scope::block);
  else if (!c.take("gl") && !c.take("sys"))
    c.unsupported();
  c.need(0);
  c.emit(exec::fence_handler());
}
void fence(Coder &c) {
  bool crosses = c.take("proxy") && c.take("async");
  for (const char *word :
       {"sc", "acq_rel", "acquire", "release", "proxy", "mbarrier_init", "async", "alias", "async::generic",
        "sync_restrict::shared::cta", "sync_restrict::shared::cluster", "async.global", "tensormap::generic"})
    c.take(word);
  c.take_scope();
  c.out.mode = c.take_space() != StateSpace::global && crosses;
  if (c.count() > 2)
    c.need(0);
  c.emit(exec::fence_handler());
}

/* --- hints, which do nothing; only their operands are checked ----------------------------------------------------- */

void prefetch(Coder &c) {
  c.take_space();
  for (const char *level : {"L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"})
    c.take(level);
  c.need(1);
  c.set_address(c.operand(0), 0);
  c.emit(exec::nop_handler());
}
void applypriority(Coder &c) {
  c.take_space();
  c.skip_cache_hints();
  c.need(2);
  c.set_address(c.operand(0), 0);
  c.emit(exec::nop_handler());
}
/* discard.L2 makes the contents of memory undefined. Here the contents are kept, which is also allowed. */
void discard(Coder &c) {
  if (c.take_space() != StateSpace::global && c.count() != 2)
    c.unsupported();
  if (!c.take("L2"))
    c.unsupported();
  c.need(2);
  if (c.integer(1) != 128)
    c.fail("what is discarded has 128 bytes");
  c.set_address(c.operand(0), 0);
  c.emit(exec::nop_handler());
}
void createpolicy(Coder &c) {
  for (const char *word : {"fractional", "range", "cvt", "L2"})
    c.take(word);
  c.take_space();
  c.skip_cache_hints();
  c.skip_cache_hints(); /* the second priority can be the same */
  c.take("L2::evict_unchanged");
  c.take_type();
  c.out.op[0] = c.destination(0, Type::b64);
  c.out.op[1] = c.constant(0);
  c.emit(exec::move_handler(Type::b64));
}

} // namespace

const Decoder memory_decoders[] = {{"ld", ld},
                                   {"ldu", ldu},
                                   {"st", st},
                                   {"atom", atom},
                                   {"red", red},
                                   {"membar", membar},
                                   {"fence", fence},
                                   {"prefetch", prefetch},
                                   {"prefetchu", prefetch},
                                   {"applypriority", applypriority},
                                   {"discard", discard},
                                   {"createpolicy", createpolicy},
                                   {nullptr, nullptr}};

} // namespace sim::ptx
