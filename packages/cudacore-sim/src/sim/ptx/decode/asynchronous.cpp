/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous operations: copies, stores and reductions that complete later, mbarriers, and cancelled clusters. */
#include "sim/ptx/decode/memory.h"

namespace sim::ptx {

namespace {

using exec::AccessMode;
using exec::AtomicOp;
using exec::MbarrierOp;

/* Ends an asynchronous operation, which is already complete, by making the mbarrier count its bytes. */
void complete_on_mbarrier(Coder &c, const Instruction &whole, const ast::Operand &destination,
                          const ast::Operand &mbarrier, OperandIndex bytes, OperandIndex blocks = exec::no_operand,
                          StateSpace space = StateSpace::shared) {
  bool narrow = false;
  c.out = whole;
  c.out.access = completion_access;
  c.set_address(mbarrier, 1, 8);
  c.out.op[2] = bytes;
  c.out.op[3] = computed_address(c, destination, narrow);
  c.out.op[4] = blocks;
  c.emit(exec::mbarrier_handler(MbarrierOp::complete_tx, space));
}

/* Returns whether an atomic operation has an asynchronous form, which operates on shared memory. */
bool is_asynchronous(AtomicOp op, Type type) {
  switch (op) {
  case AtomicOp::inc:
  case AtomicOp::dec:
    return type == Type::u32;
  case AtomicOp::min:
  case AtomicOp::max:
    return type == Type::u32 || type == Type::s32;
  case AtomicOp::and_:
  case AtomicOp::or_:
  case AtomicOp::xor_:
    return type == Type::b32;
  case AtomicOp::add:
    return type == Type::u32 || type == Type::s32 || type == Type::u64;
  default:
    return false;
  }
}

} // namespace

/*
 * st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [a], {b, c}, [mbarrier]. The store is executed at
 * once.
 */
void st_async(Coder &c) {
  AccessMode mode;
  const Instruction whole = c.out;
  c.take("weak");
  mode.space = c.take_space();
  uint32_t vector = c.take_vector();
  bool counted = c.take("mbarrier::complete_tx::bytes");
  mode.type = c.need_type();
  c.need(3);
  bool is_of_words = bytes_of(mode.type) == 4 || bytes_of(mode.type) == 8;
  exec::Handler handler = exec::store_handler(mode);
  if (mode.space != StateSpace::shared_cluster || !counted || !is_of_words || vector > 4 || !handler)
    c.unsupported();
  values(c, c.operand(1), vector, [&](const ast::Operand &one) { return c.source(one, mode.type, true); });
  c.set_address(c.operand(0), vector, uint64_t{bytes_of(mode.type)} * vector);
  c.out.count = static_cast<uint8_t>(vector);
  c.out.access = exec::access_store;
  c.out.run = handler;
  c.emit_before(c.out);
  complete_on_mbarrier(c, whole, c.operand(0), c.operand(2), c.constant(uint64_t{bytes_of(mode.type)} * vector));
}

/* st.bulk.weak.shared::cta [a], size, 0 */
void st_bulk(Coder &c) {
  c.take("weak");
  StateSpace space = c.take_space();
  c.need(3);
  if (space != StateSpace::generic && space != StateSpace::shared)
    c.unsupported();
  if (c.integer(2) != 0)
    c.fail("st.bulk can only store 0");
  bool narrow = false;
  c.out.op[0] = computed_address(c, c.operand(0), narrow);
  c.out.op[1] = c.source(c.operand(1), Type::b32, true);
  c.out.flag = narrow || space == StateSpace::shared;
  c.emit(exec::fill_bulk_handler());
}

/*
 * red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [a], b, [mbarrier]. It is executed at
 * once.
 */
void red_async(Coder &c) {
  const Instruction whole = c.out;
  AtomicOp op;
  bool relaxed = c.take("relaxed") && c.take("cluster");
  StateSpace space = c.take_space();
  bool counted = c.take("mbarrier::complete_tx::bytes");
  if (!relaxed || space != StateSpace::shared_cluster || !counted || !take_atomic_op(c, op))
    c.unsupported();
  Type type = c.need_type();
  c.need(3);
  if (!is_asynchronous(op, type))
    c.unsupported();
  c.out.access = exec::access_strong | exec::access_update;
  c.out.set_scope(exec::Scope::cluster);
  c.set_address(c.operand(0), 1, bytes_of(type));
  c.out.op[2] = c.source(1, type);
  c.out.run = exec::atomic_handler(op, type, space);
  c.emit_before(c.out);
  complete_on_mbarrier(c, whole, c.operand(0), c.operand(2), c.constant(bytes_of(type)));
}
namespace {

/* --- cp.async ----------------------------------------------------------------------------------------------------- */

void wait_for_all_copies(Coder &c) {
  exec::Instruction wait = c.out;
  wait.immediate = -1;
  wait.run = exec::copy_wait_handler();
  c.emit_before(wait);
}
/* cp.async.bulk.prefetch.L2.global [from], size */
void prefetch_bulk(Coder &c) {
  if (!c.take("L2") || c.take_space() != StateSpace::global)
    c.unsupported();
  c.need(c.take("L2::cache_hint") ? 3 : 2);
  c.set_address(c.operand(0), 0);
  c.source(1, Type::u32);
  c.emit(exec::nop_handler());
}

/* cp.async.bulk.dst.src.completion [to], [from], size, [mbarrier], blocks, hint, mask of bytes */
void cp_bulk(Coder &c) {
  const Instruction whole = c.out;
  bool commits = c.take("commit_group");
  if (commits || c.take("wait_group")) {
    /* Bulk copies are executed at once, so only the checks distinguish these instructions. */
    auto kind = commits ? exec::BulkGroup::commit : c.take("read") ? exec::BulkGroup::wait_read : exec::BulkGroup::wait;
    c.need(commits ? 0 : 1);
    c.out.mode = static_cast<uint8_t>(kind);
    c.out.immediate = commits ? 0 : static_cast<int64_t>(c.integer(0));
    return c.emit(exec::bulk_group_handler());
  }
  bool prefetches = c.take("prefetch");
  if (c.take("tensor"))
    return tensor_copy(c, prefetches ? exec::TensorWay::prefetch : exec::TensorWay::load);
  if (prefetches)
    return prefetch_bulk(c);
  StateSpace to = c.take_space(), from = c.take_space();
  bool counted = c.take("mbarrier::complete_tx::bytes");
  if (!counted && !c.take("bulk_group"))
    c.unsupported();
  size_t fixed = counted ? 4 : 3;
  bool sends = to == StateSpace::shared_cluster && from == StateSpace::global && c.take("multicast::cluster");
  bool masked = to == StateSpace::global && !counted && c.take("cp_mask");
  c.need(fixed + sends + masked + (c.take("L2::cache_hint") ? 1 : 0));
  bool narrow[2] = {false, false};
  c.out.op[0] = computed_address(c, c.operand(0), narrow[0]);
  c.out.op[1] = computed_address(c, c.operand(1), narrow[1]);
  OperandIndex size = c.out.op[2] = c.source(2, Type::u32);
  OperandIndex blocks = c.out.op[3] = sends ? c.source(4, Type::u16) : exec::no_operand;
  c.out.op[4] = masked ? c.source(c.count() - 1, Type::u16) : exec::no_operand;
  /* If the space is shared, the operand is a shared address, even in a 64-bit register. */
  auto is_shared = [](StateSpace space) { return space == StateSpace::shared || space == StateSpace::shared_cluster; };
  c.out.mode = static_cast<uint8_t>((narrow[0] || is_shared(to) ? 1 : 0) | (narrow[1] || is_shared(from) ? 2 : 0));
  if (!counted)
    return c.emit(exec::copy_bulk_handler());
  c.out.run = exec::copy_bulk_handler();
  c.emit_before(c.out);
  complete_on_mbarrier(c, whole, c.operand(0), c.operand(3), size, blocks);
}

/* cp.reduce.async.bulk.dst.src.completion.add.u32 [to], [from], size, [mbarrier] */
void cp_reduce(Coder &c) {
  const Instruction whole = c.out;
  if (!c.take("async") || !c.take("bulk"))
    c.unsupported();
  if (c.take("tensor"))
    return tensor_copy(c, exec::TensorWay::reduce);
  StateSpace to = c.take_space(), from = c.take_space();
  bool counted = c.take("mbarrier::complete_tx::bytes");
  bool is_global = to == StateSpace::global && c.take("bulk_group") && !counted;
  if (from != StateSpace::shared || !(is_global || (to == StateSpace::shared_cluster && counted)))
    c.unsupported();
  AtomicOp op;
  if (!take_atomic_op(c, op))
    c.unsupported();
  bool keeps_subnormals = c.take("noftz");
  Type type = c.need_type();
  bool is_half = type == Type::f16 || type == Type::bf16;
  if (keeps_subnormals != (is_half && op == AtomicOp::add) || class_of(type) == TypeClass::packed ||
      (!is_global && !is_asynchronous(op, type)))
    c.unsupported();
  size_t fixed = counted ? 4 : 3;
  c.need(fixed + (is_global && c.take("L2::cache_hint") ? 1 : 0));
  bool narrow = false;
  OperandIndex size = c.source(2, Type::u32);
  c.out.access = exec::access_strong | exec::access_update;
  c.out.op[0] = computed_address(c, c.operand(0), narrow);
  if (is_global && narrow)
    c.fail("the destination must be in global memory");
  c.out.op[1] = computed_address(c, c.operand(1), narrow);
  c.out.op[2] = size;
  exec::Handler handler = exec::reduce_bulk_handler(op, type, to);
  if (!counted || !handler)
    return c.emit(handler);
  c.out.run = handler;
  c.emit_before(c.out);
  complete_on_mbarrier(c, whole, c.operand(0), c.operand(3), size);
}

/*
 * cp.async.mbarrier.arrive completes the copies here, which is the earliest time that PTX allows. With .noinc, the
 * instruction then arrives at the mbarrier, whose expected count includes this arrival. Without .noinc, the instruction
 * would first add one to the expected count and then arrive, so the mbarrier does not change.
 */
void cp_mbarrier(Coder &c) {
  c.out.access = mbarrier_access;
  if (!c.take("arrive"))
    c.unsupported();
  bool counted_before = c.take("noinc");
  StateSpace space = c.take_space();
  c.need_type(Type::b64);
  c.need(1);
  wait_for_all_copies(c);
  c.set_address(c.operand(0), 1, 8);
  c.emit(counted_before ? exec::mbarrier_handler(MbarrierOp::arrive, space) : exec::nop_handler());
}

void cp(Coder &c) {
  if (c.take("reduce"))
    return cp_reduce(c);
  if (!c.take("async"))
    c.unsupported();
  if (c.take("bulk"))
    return cp_bulk(c);
  if (c.take("commit_group")) {
    c.need(0);
    return c.emit(exec::copy_commit_handler());
  }
  bool is_for_all = c.take("wait_all");
  if (is_for_all || c.take("wait_group")) {
    c.need(is_for_all ? 0 : 1);
    c.out.immediate = is_for_all ? -1 : static_cast<int64_t>(c.integer(0));
    return c.emit(exec::copy_wait_handler());
  }
  if (c.take("mbarrier"))
    return cp_mbarrier(c);
  bool ca = c.take("ca");
  if (!ca && !c.take("cg"))
    c.unsupported();
  c.take("shared");
  c.take("shared::cta");
  c.take("global");
  c.skip_cache_hints();
  size_t hints = c.take("L2::cache_hint") ? 1 : 0;
  c.need(3 + hints, 4 + hints);
  bool is_limited = c.count() > 3 + hints;
  uint64_t bytes = c.integer(2);
  if (bytes != 16 && (!ca || (bytes != 4 && bytes != 8)))
    c.fail("copies have 4, 8 or 16 bytes");
  c.out.count = static_cast<uint8_t>(bytes);
  Coder::Address from = c.address(c.operand(1), bytes);
  if (from.kind != Coder::Address::Kind::dynamic || from.narrow)
    c.fail("the source must be in global memory");
  c.out.op[1] = from.base;
  c.set_address(c.operand(0), 0, bytes);
  c.out.target = static_cast<uint32_t>(from.offset);
  if (from.offset < 0 || from.offset > INT32_MAX)
    c.fail("the source's offset is too large");
  if (is_limited && c.operand(3).kind == ast::Operand::Kind::name && c.register_type(c.operand(3)) == Type::pred)
    c.out.op[3] = c.source_predicate(c.operand(3));
  else if (is_limited)
    c.out.op[2] = c.source(3, Type::u32);
  c.emit(exec::copy_async_handler());
}

/* --- mbarrier ----------------------------------------------------------------------------------------------------- */

void mbarrier_arrive(Coder &c, bool drop) {
  bool expect = c.take("expect_tx");
  c.take("noComplete");
  c.take_memory_order();
  c.out.access = mbarrier_access;
  StateSpace space = c.take_space();
  c.need_type(Type::b64);
  bool returns = c.operand(0).kind != ast::Operand::Kind::address;
  size_t first = returns ? 1 : 0;
  c.need(first + 1, first + 2);
  if (returns && c.operand(0).name != "_")
    c.out.op[0] = c.destination(0, Type::b64);
  c.set_address(c.operand(first), 1, 8);
  if (c.count() > first + 1)
    c.out.op[2] = c.source(first + 1, Type::u32);
  if (expect && c.out.op[2] == exec::no_operand)
    c.unsupported();
  if (expect && drop) { /* expects bytes, and then arrives once */
    Instruction expects = c.out;
    expects.op[0] = exec::no_operand;
    expects.run = exec::mbarrier_handler(MbarrierOp::expect_tx, space);
    c.emit_before(expects);
    c.out.op[2] = exec::no_operand;
    expect = false;
  }
  c.emit(exec::mbarrier_handler(expect ? MbarrierOp::arrive_expect_tx
                                : drop ? MbarrierOp::arrive_drop
                                       : MbarrierOp::arrive,
                                space));
}

void mbarrier_wait(Coder &c) {
  bool parity = c.take("parity");
  c.take_memory_order();
  c.out.access = mbarrier_access;
  StateSpace space = c.take_space();
  c.need_type(Type::b64);
  c.need(3, 4); /* the fourth operand is the maximum time for which try_wait sleeps */
  c.out.op[0] = c.destination_predicate(c.operand(0).name);
  c.set_address(c.operand(1), 1, 8);
  c.out.op[2] = c.source(2, parity ? Type::u32 : Type::b64);
  c.emit(exec::mbarrier_handler(parity ? MbarrierOp::wait_parity : MbarrierOp::wait_state, space));
}

void mbarrier(Coder &c) {
  if (c.take("arrive"))
    return mbarrier_arrive(c, false);
  if (c.take("arrive_drop"))
    return mbarrier_arrive(c, true);
  if (c.take("test_wait") || c.take("try_wait"))
    return mbarrier_wait(c);
  if (c.take("pending_count")) {
    c.need_type(Type::b64);
    c.need(2);
    c.out.op[0] = c.destination(0, Type::u32);
    c.out.op[1] = c.source(1, Type::b64);
    return c.emit(exec::mbarrier_pending_handler());
  }
  static constexpr Coder::Choice<MbarrierOp> simple[] = {{"init", MbarrierOp::init},
                                                         {"inval", MbarrierOp::inval},
                                                         {"expect_tx", MbarrierOp::expect_tx},
                                                         {"complete_tx", MbarrierOp::complete_tx}};
  MbarrierOp op;
  if (!c.take_choice(simple, op))
    c.unsupported();
  c.take_memory_order();
  c.out.access = mbarrier_access;
  if (op == MbarrierOp::init)
    c.out.access |= exec::access_replace;
  StateSpace space = c.take_space();
  c.need_type(Type::b64);
  c.need(op == MbarrierOp::inval ? 1 : 2);
  c.set_address(c.operand(0), 1, 8);
  if (c.count() > 1)
    c.out.op[2] = c.source(1, Type::u32);
  c.emit(exec::mbarrier_handler(op, space));
}

/* --- clusterlaunchcontrol ----------------------------------------------------------------------------------------- */

/* clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast}.b128 [to], [mbarrier] */
void try_cancel(Coder &c) {
  const Instruction whole = c.out;
  bool is_async = c.take("async");
  StateSpace space = c.take_space();
  bool counted = c.take("mbarrier::complete_tx::bytes");
  c.out.flag = c.take("multicast::cluster::all");
  c.need_type(Type::b128);
  c.need(2);
  if (!is_async || !counted || (space != StateSpace::generic && space != StateSpace::shared))
    c.unsupported();
  bool narrow = false;
  c.out.op[0] = computed_address(c, c.operand(0), narrow);
  OperandIndex blocks = c.out.op[1] = c.function().scratch();
  c.out.mode = narrow || space == StateSpace::shared;
  c.out.run = exec::try_cancel_handler();
  c.emit_before(c.out);
  complete_on_mbarrier(c, whole, c.operand(0), c.operand(1), c.constant(exec::cancel_bytes), blocks, space);
}

/* clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {x, y, z, _}, response */
void query_cancel(Coder &c) {
  static constexpr std::string_view dimensions[] = {"get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"};
  bool whole = c.take("get_first_ctaid") && c.take("v4"), succeeded = c.take("is_canceled");
  size_t dimension = succeeded ? exec::cancel_succeeded : whole ? 0 : c.take_one_of(dimensions, std::size(dimensions));
  c.need_type(succeeded ? Type::pred : Type::b32);
  c.need_type(Type::b128);
  c.need(2);
  if (!succeeded && dimension == std::size(dimensions))
    c.unsupported();
  c.out.op[1] = c.source(1, Type::b128);
  c.out.mode = static_cast<uint8_t>(dimension);
  if (!whole) {
    c.out.op[0] = succeeded ? c.destination_predicate(c.operand(0).name) : c.destination(0, Type::b32);
    return c.emit(exec::query_cancel_handler());
  }
  if (!c.is_list(0) || c.operand(0).elements.size() != 4)
    c.fail("expected a vector of 4");
  c.out.run = exec::query_cancel_handler();
  for (uint8_t i = 0; i < 3; ++i) {
    c.out.op[0] = c.destination(c.operand(0).elements[i], Type::b32);
    c.out.mode = i;
    i < 2 ? c.emit_before(c.out) : c.emit(c.out.run);
  }
}

void clusterlaunchcontrol(Coder &c) {
  if (c.take("try_cancel"))
    return try_cancel(c);
  if (!c.take("query_cancel"))
    c.unsupported();
  query_cancel(c);
}

} // namespace

const Decoder asynchronous_decoders[] = {
    {"cp", cp}, {"mbarrier", mbarrier}, {"clusterlaunchcontrol", clusterlaunchcontrol}, {nullptr, nullptr}};

} // namespace sim::ptx
