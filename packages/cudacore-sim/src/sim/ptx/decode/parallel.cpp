/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions that several threads execute together: the threads of a warp, a block or a cluster. */
#include "sim/ptx/coder.h"

namespace sim::ptx {

namespace {

using exec::ReduceOp;
using exec::ShuffleOp;
using exec::VoteOp;

void need_sync(Coder &c) {
  if (!c.take("sync"))
    c.unsupported();
}

void optional_predicate(Coder &c, size_t place) {
  if (!c.operand(0).second.empty())
    c.out.op[place] = c.destination_predicate(c.operand(0).second);
}

/* shfl.sync.mode.b32 d|p, a, b, c, members */
void shfl(Coder &c) {
  static constexpr Coder::Choice<ShuffleOp> modes[] = {
      {"up", ShuffleOp::up}, {"down", ShuffleOp::down}, {"bfly", ShuffleOp::butterfly}, {"idx", ShuffleOp::index}};
  need_sync(c);
  c.need_type(Type::b32);
  c.need(5);
  ShuffleOp op;
  if (!c.take_choice(modes, op))
    c.unsupported();
  c.out.op[0] = c.destination(0, Type::b32);
  optional_predicate(c, 1);
  for (size_t i = 1; i < 5; ++i)
    c.out.op[i + 1] = c.source(i, Type::b32);
  c.emit(exec::shuffle_handler(op));
}

void vote(Coder &c) {
  need_sync(c);
  c.need(3);
  bool ballot = c.take("ballot");
  VoteOp op = ballot ? VoteOp::ballot : c.take("all") ? VoteOp::all : c.take("any") ? VoteOp::any : VoteOp::uniform;
  if (op == VoteOp::uniform && !c.take("uni"))
    c.unsupported();
  if (c.need_type() != (ballot ? Type::b32 : Type::pred))
    c.unsupported();
  c.out.op[0] = ballot ? c.destination(0, Type::b32) : c.destination_predicate(c.operand(0).name);
  c.out.op[1] = c.source_predicate(c.operand(1));
  c.out.op[2] = c.source(2, Type::b32);
  c.emit(exec::vote_handler(op));
}

void match(Coder &c) {
  bool all = c.take("all");
  if (!all && !c.take("any"))
    c.unsupported();
  need_sync(c);
  Type type = c.need_type();
  c.need(3);
  c.out.op[0] = c.destination(0, Type::b32);
  optional_predicate(c, 1);
  c.out.op[2] = c.source(1, type);
  c.out.op[3] = c.source(2, Type::b32);
  c.emit(exec::match_handler(all, type));
}

bool take_reduction(Coder &c, ReduceOp &op) {
  static constexpr Coder::Choice<ReduceOp> all[] = {{"add", ReduceOp::add}, {"min", ReduceOp::min},
                                                    {"max", ReduceOp::max}, {"and", ReduceOp::and_},
                                                    {"or", ReduceOp::or_},  {"xor", ReduceOp::xor_}};
  return c.take_choice(all, op);
}
void redux(Coder &c) {
  ReduceOp op;
  need_sync(c);
  if (!take_reduction(c, op))
    c.unsupported();
  Type type = c.need_type();
  if (type == Type::f32 && c.take("abs"))
    c.out.mode |= exec::reduce_magnitudes;
  if (type == Type::f32 && c.take("NaN"))
    c.out.mode |= exec::reduce_keeps_nan;
  c.operands({type, type, Type::b32});
  c.emit(exec::reduce_handler(op, type));
}

/* elect.sync d|p, members */
void elect(Coder &c) {
  need_sync(c);
  c.need(2);
  if (c.operand(0).second.empty())
    c.fail("expected a predicate");
  if (c.operand(0).name != "_")
    c.out.op[0] = c.destination(0, Type::b32);
  optional_predicate(c, 1);
  c.out.op[2] = c.source(1, Type::b32);
  c.emit(exec::elect_handler());
}

void activemask(Coder &c) {
  c.need_type(Type::b32);
  c.need(1);
  c.out.op[0] = c.destination(0, Type::b32);
  c.emit(exec::active_mask_handler());
}

/* --- barriers ----------------------------------------------------------------------------------------------------- */

void cluster_barrier(Coder &c) {
  bool arrive = c.take("arrive");
  if (!arrive && !c.take("wait"))
    c.unsupported();
  for (const char *word : {"release", "relaxed", "acquire", "aligned"})
    c.take(word);
  c.need(0);
  c.emit(arrive ? exec::cluster_arrive_handler() : exec::cluster_wait_handler());
}

/* bar.red.op d, a, b, p. The thread count b can be missing. */
void reducing_barrier(Coder &c) {
  bool popc = c.take("popc"), all = c.take("and");
  if (!popc && !all && !c.take("or"))
    c.unsupported();
  if (c.need_type() != (popc ? Type::u32 : Type::pred))
    c.unsupported();
  c.need(3, 4);
  c.out.mode = popc ? 0 : all ? 1 : 2;
  c.out.op[0] = popc ? c.destination(0, Type::u32) : c.destination_predicate(c.operand(0).name);
  c.out.op[1] = c.source(1, Type::u32);
  if (c.count() == 4)
    c.out.op[2] = c.source(2, Type::u32);
  c.out.op[3] = c.source_predicate(c.operand(c.count() - 1));
  c.out.flag = true;
  c.emit(exec::barrier_handler());
}

void bar(Coder &c) {
  if (c.take("warp")) {
    need_sync(c);
    c.need(1);
    c.out.op[0] = c.source(0, Type::b32);
    return c.emit(exec::warp_barrier_handler());
  }
  if (c.take("cluster"))
    return cluster_barrier(c);
  c.take("cta");
  if (c.take("aligned") || c.opcode() == "bar")
    c.out.access = exec::access_aligned;
  if (c.take("red"))
    return reducing_barrier(c);
  bool arrive = c.take("arrive");
  if (!arrive)
    need_sync(c);
  c.need(arrive ? 2 : 1, 2);
  c.out.op[1] = c.source(0, Type::u32);
  if (c.count() == 2)
    c.out.op[2] = c.source(1, Type::u32);
  c.out.flag = !arrive;
  c.emit(exec::barrier_handler());
}

} // namespace

const Decoder parallel_decoders[] = {{"shfl", shfl},   {"vote", vote},   {"match", match},
                                     {"redux", redux}, {"elect", elect}, {"activemask", activemask},
                                     {"bar", bar},     {"barrier", bar}, {nullptr, nullptr}};

} // namespace sim::ptx
