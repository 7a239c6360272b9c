/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions that several lanes of a warp, several warps of a block, or several blocks of a cluster execute together.
 */
#include "sim/exec/checker.h"
#include "sim/isa/numeric.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"

namespace sim::exec {

namespace {

/*
 * Calls f(lanes) for every set of lanes that execute a .sync instruction together. The lanes that the interpreter runs
 * as one group can belong to different sets, such as the tiles of a warp. The lanes of a set wait until the set is
 * complete.
 */
template <class F> void together(Warp &w, uint32_t lanes, OperandIndex members, bool anywhere, F &&f) {
  const uint64_t *masks = w.in(members);
  while (lanes) {
    auto first = static_cast<uint32_t>(__builtin_ctz(lanes));
    auto mask = get<uint32_t>(masks, first);
    uint32_t same = 0;
    for_lanes(lanes, [&](uint32_t lane) { same |= uint32_t{get<uint32_t>(masks, lane) == mask} << lane; });
    lanes &= ~same;
    Checker *checker = w.grid->checker.get();
    if (checker)
      checker->names(w, same, mask);
    uint32_t present = w.gather(same, mask, anywhere ? Warp::Meeting::anywhere : Warp::Meeting::apart);
    if (!present)
      continue;
    if (checker)
      checker->gathers(w, mask, present, anywhere);
    f(present);
  }
}

/*
 * A copy of a source register. The destination of the instruction may be the same register, so the source is copied
 * first.
 */
struct Snapshot {
  std::array<uint64_t, warp_size> value;
  Snapshot(const Warp &w, OperandIndex op) { std::memcpy(value.data(), w.in(op), sizeof value); }
  template <class T> T as(uint32_t lane) const { return get<T>(value.data(), lane); }
};

template <ShuffleOp Op> void shuffle(Warp &w, const Instruction &ins, uint32_t lanes) {
  together(w, lanes, ins.op[5], false, [&](uint32_t present) {
    Snapshot a(w, ins.op[2]), b(w, ins.op[3]), c(w, ins.op[4]);
    uint64_t *d = w.out(ins.op[0]);
    uint32_t inside = 0;
    for_lanes(present, [&](uint32_t lane) {
      uint32_t shift = b.as<uint32_t>(lane) & 31, control = c.as<uint32_t>(lane);
      uint32_t clamp = control & 31, segment = (control >> 8) & 31;
      uint32_t max_lane = (lane & segment) | (clamp & ~segment), min_lane = lane & segment;
      uint32_t from = 0;
      bool valid = false;
      switch (Op) {
      case ShuffleOp::up:
        from = lane - shift;
        valid = static_cast<int32_t>(from) >= static_cast<int32_t>(max_lane);
        break;
      case ShuffleOp::down:
        from = lane + shift;
        valid = from <= max_lane;
        break;
      case ShuffleOp::butterfly:
        from = lane ^ shift;
        valid = from <= max_lane;
        break;
      case ShuffleOp::index:
        from = min_lane | (shift & ~segment);
        valid = from <= max_lane;
        break;
      }
      if (!valid)
        from = lane;
      put<uint32_t>(d, lane, a.as<uint32_t>(from & 31));
      inside |= uint32_t{valid} << lane;
    });
    if (ins.op[1] != no_operand)
      w.set_predicate(ins.op[1], present, inside);
  });
}

template <VoteOp Op> void vote(Warp &w, const Instruction &ins, uint32_t lanes) {
  together(w, lanes, ins.op[2], false, [&](uint32_t present) {
    uint32_t set = w.predicate(ins.op[1]) & present;
    switch (Op) {
    case VoteOp::all:
      w.set_predicate(ins.op[0], present, set == present ? all_lanes : 0);
      break;
    case VoteOp::any:
      w.set_predicate(ins.op[0], present, set ? all_lanes : 0);
      break;
    case VoteOp::uniform:
      w.set_predicate(ins.op[0], present, set == 0 || set == present ? all_lanes : 0);
      break;
    case VoteOp::ballot: {
      uint64_t *d = w.out(ins.op[0]);
      for_lanes(present, [&](uint32_t lane) { put<uint32_t>(d, lane, set); });
      break;
    }
    }
  });
}

template <bool All, class T> void match(Warp &w, const Instruction &ins, uint32_t lanes) {
  together(w, lanes, ins.op[3], false, [&](uint32_t present) {
    Snapshot a(w, ins.op[2]);
    uint64_t *d = w.out(ins.op[0]);
    uint32_t equal_to_all = 0;
    for_lanes(present, [&](uint32_t lane) {
      uint32_t same = 0;
      for_lanes(present, [&](uint32_t other) { same |= uint32_t{a.as<T>(lane) == a.as<T>(other)} << other; });
      bool all = same == present;
      equal_to_all |= uint32_t{all} << lane;
      put<uint32_t>(d, lane, All && !all ? 0 : same);
    });
    if (ins.op[1] != no_operand)
      w.set_predicate(ins.op[1], present, equal_to_all);
  });
}

template <ReduceOp Op, class T> void reduce(Warp &w, const Instruction &ins, uint32_t lanes) {
  together(w, lanes, ins.op[2], false, [&](uint32_t present) {
    const uint64_t *a = w.in(ins.op[1]);
    auto first = static_cast<uint32_t>(__builtin_ctz(present));
    T result = get<T>(a, first);
    for_lanes(present & ~(1u << first), [&](uint32_t lane) {
      T value = get<T>(a, lane);
      switch (Op) {
      case ReduceOp::add:
        result = static_cast<T>(static_cast<uint32_t>(result) + static_cast<uint32_t>(value));
        break;
      case ReduceOp::min:
        result = value < result ? value : result;
        break;
      case ReduceOp::max:
        result = result < value ? value : result;
        break;
      case ReduceOp::and_:
        result = result & value;
        break;
      case ReduceOp::or_:
        result = result | value;
        break;
      case ReduceOp::xor_:
        result = result ^ value;
        break;
      }
    });
    uint64_t *d = w.out(ins.op[0]);
    for_lanes(present, [&](uint32_t lane) { put<T>(d, lane, result); });
  });
}

/* Without .NaN, only numbers count. -0 is less than +0. */
template <bool Max> void reduce_floats(Warp &w, const Instruction &ins, uint32_t lanes) {
  together(w, lanes, ins.op[2], false, [&](uint32_t present) {
    const uint64_t *a = w.in(ins.op[1]);
    float result = canonical_nan(NAN);
    bool any_nan = false;
    for_lanes(present, [&](uint32_t lane) {
      auto value = get<float>(a, lane);
      if (ins.mode & reduce_magnitudes)
        value = std::abs(value);
      bool replaces = value == result ? std::signbit(result) == Max : Max ? value > result : value < result;
      if (std::isnan(value))
        any_nan = true;
      else if (std::isnan(result) || replaces)
        result = value;
    });
    if (any_nan && (ins.mode & reduce_keeps_nan))
      result = canonical_nan(NAN);
    uint64_t *d = w.out(ins.op[0]);
    for_lanes(present, [&](uint32_t lane) { put<float>(d, lane, result); });
  });
}

void elect(Warp &w, const Instruction &ins, uint32_t lanes) {
  together(w, lanes, ins.op[2], false, [&](uint32_t present) {
    auto leader = static_cast<uint32_t>(__builtin_ctz(present));
    if (ins.op[0] != no_operand) {
      uint64_t *d = w.out(ins.op[0]);
      for_lanes(present, [&](uint32_t lane) { put<uint32_t>(d, lane, leader); });
    }
    w.set_predicate(ins.op[1], present, 1u << leader);
  });
}

void active_mask(Warp &w, const Instruction &ins, uint32_t lanes) {
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { put<uint32_t>(d, lane, lanes); });
}

void warp_barrier(Warp &w, const Instruction &ins, uint32_t lanes) {
  together(w, lanes, ins.op[0], true, [](uint32_t) {});
}

void barrier(Warp &w, const Instruction &ins, uint32_t lanes) {
  uint32_t predicate = ins.op[3] == no_operand ? 0 : w.predicate(ins.op[3]);
  const uint64_t *numbers = w.in(ins.op[1]);
  const uint64_t *counts = ins.op[2] == no_operand ? nullptr : w.in(ins.op[2]);
  /* In each round, handles the lanes that use the same barrier. Lanes rarely use different barriers. */
  while (lanes) {
    auto first = static_cast<uint32_t>(__builtin_ctz(lanes));
    auto number = get<uint32_t>(numbers, first);
    uint32_t expected = counts ? get<uint32_t>(counts, first) : 0;
    if (number >= barrier_count)
      w.fault(FaultKind::illegal_instruction, ins, first, "barrier " + std::to_string(number) + " of 16");
    if (counts && (expected == 0 || expected % warp_size != 0))
      w.fault(FaultKind::illegal_instruction, ins, first,
              "a barrier of " + std::to_string(expected) + " threads, which is no multiple of 32");
    uint32_t same = 0;
    for_lanes(lanes, [&](uint32_t lane) { same |= uint32_t{get<uint32_t>(numbers, lane) == number} << lane; });
    lanes &= ~same;
    if (w.grid->checker)
      w.grid->checker->comes(w, same, number, expected);
    w.block->arrive(w, same, number, expected, ins.flag, ins.op[3] == no_operand ? nullptr : &predicate);
  }
}

void cluster_arrive(Warp &w, const Instruction &, uint32_t lanes) { w.block->unit->arrive_cluster(w, lanes); }
/*
 * Makes the lanes that have arrived in the current phase wait for its end. The phase for which the other lanes would
 * wait has already ended.
 */
void cluster_wait(Warp &w, const Instruction &, uint32_t lanes) {
  uint32_t early = lanes & w.cluster_arrived;
  if (w.grid->checker)
    w.grid->checker->passes_cluster(w, lanes & ~early);
  if (early)
    w.wait(early, Warp::Wait::cluster);
}

template <class T> Handler reduction(ReduceOp op) {
  return for_constant<ReduceOp::add, ReduceOp::min, ReduceOp::max, ReduceOp::and_, ReduceOp::or_, ReduceOp::xor_>(
      op, [](auto o) { return reduce<o.value, T>; });
}

} // namespace

Handler shuffle_handler(ShuffleOp op) {
  return for_constant<ShuffleOp::up, ShuffleOp::down, ShuffleOp::butterfly, ShuffleOp::index>(
      op, [](auto o) { return shuffle<o.value>; });
}
Handler vote_handler(VoteOp op) {
  return for_constant<VoteOp::all, VoteOp::any, VoteOp::uniform, VoteOp::ballot>(op,
                                                                                 [](auto o) { return vote<o.value>; });
}
Handler match_handler(bool all, Type type) {
  if (type == Type::b32)
    return all ? match<true, uint32_t> : match<false, uint32_t>;
  if (type == Type::b64)
    return all ? match<true, uint64_t> : match<false, uint64_t>;
  return nullptr;
}
Handler reduce_handler(ReduceOp op, Type type) {
  if (type == Type::f32)
    return op == ReduceOp::max ? reduce_floats<true> : op == ReduceOp::min ? reduce_floats<false> : nullptr;
  bool logic = op == ReduceOp::and_ || op == ReduceOp::or_ || op == ReduceOp::xor_;
  if (logic != (type == Type::b32))
    return nullptr;
  if (type == Type::u32 || type == Type::b32)
    return reduction<uint32_t>(op);
  return type == Type::s32 ? reduction<int32_t>(op) : nullptr;
}
Handler elect_handler() { return elect; }
Handler active_mask_handler() { return active_mask; }
Handler warp_barrier_handler() { return warp_barrier; }
Handler barrier_handler() { return barrier; }
Handler cluster_arrive_handler() { return cluster_arrive; }
Handler cluster_wait_handler() { return cluster_wait; }

} // namespace sim::exec
