/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on mbarriers, and the bulk copies that report to them. An mbarrier is a 64-bit object in shared memory,
 * which counts arrivals and bytes.
 */
#include "sim/exec/checker.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"
#include "sim/exec/ops/asynchronous.h"
#include "sim/exec/ops/memory.h"

namespace sim::exec {

namespace {

/*
 * The fields of an mbarrier's 64 bits: pending arrivals, expected arrivals, pending bytes (stored with a bias), and
 * phase.
 */
struct State {
  static constexpr uint32_t count_mask = (1u << 20) - 1;
  static constexpr int64_t bytes_bias = 1 << 21;
  uint32_t pending, expected;
  int64_t bytes;
  uint32_t phase;

  static State from(uint64_t word) {
    return {static_cast<uint32_t>(word & count_mask), static_cast<uint32_t>((word >> 20) & count_mask),
            static_cast<int64_t>((word >> 40) & ((1u << 22) - 1)) - bytes_bias, static_cast<uint32_t>(word >> 63)};
  }
  uint64_t word() const {
    return uint64_t{pending & count_mask} | uint64_t{expected & count_mask} << 20 |
           (static_cast<uint64_t>(bytes + bytes_bias) & ((1u << 22) - 1)) << 40 | uint64_t{phase & 1} << 63;
  }
  void settle() {
    if (pending != 0 || bytes != 0)
      return;
    phase ^= 1;
    pending = expected;
  }
};

template <class Change> uint64_t change(std::byte *at, Change &&how) {
  auto *word = reinterpret_cast<uint64_t *>(at);
  uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    State state = State::from(old);
    how(state);
    state.settle();
    if (__atomic_compare_exchange_n(word, &old, state.word(), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      return old;
  }
}

} // namespace

void need_in_block_of(uint64_t destination, Warp &w, const Instruction &ins, uint32_t lane, uint64_t mbarrier) {
  uint32_t there = static_cast<uint32_t>(destination) >> shared_rank_shift;
  uint32_t here = static_cast<uint32_t>(mbarrier) >> shared_rank_shift;
  if (here != there)
    w.access_fault(FaultKind::illegal_address, ins, lane, static_cast<uint32_t>(mbarrier), 8, true, "shared",
                   "the mbarrier is in block " + std::to_string(here) +
                       " of the cluster, and what it counts goes to block " + std::to_string(there) +
                       ": it has to be in the same one");
}

void complete_bytes(Warp &w, const Instruction &ins, uint32_t lane, uint32_t mbarrier, uint32_t bytes) {
  change(locate<StateSpace::shared>(w, ins, lane, mbarrier, 8, true), [&](State &s) { s.bytes -= bytes; });
}

namespace {

/*
 * Operands: d (a state or a predicate), the address of the mbarrier, then a count, a parity or a state. The fourth
 * operand of complete_tx is the destination of the copy. The fifth operand of complete_tx and arrive is a mask of the
 * blocks whose mbarriers are meant.
 */
template <MbarrierOp Op, StateSpace S> void operate(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *base = w.in(ins.op[1]);
  const uint64_t *b = ins.op[2] == no_operand ? nullptr : w.in(ins.op[2]);
  uint64_t mask = address_mask(ins);
  uint32_t complete = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
    if ((Op == MbarrierOp::complete_tx || Op == MbarrierOp::arrive) && ins.op[4] != no_operand)
      return for_blocks(get<uint16_t>(w.in(ins.op[4]), lane), address, [&](uint32_t there) {
        if (Op == MbarrierOp::complete_tx)
          return complete_bytes(w, ins, lane, there, get<uint32_t>(b, lane));
        change(locate<StateSpace::shared>(w, ins, lane, there, 8, true), [](State &s) { s.pending -= 1; });
      });
    if (Op == MbarrierOp::complete_tx && ins.op[3] != no_operand)
      need_in_block_of(w.in(ins.op[3])[lane], w, ins, lane, address);
    std::byte *at = locate<S>(w, ins, lane, address, 8, true);
    uint64_t argument = b ? b[lane] : 1;
    auto number = static_cast<uint32_t>(argument);
    uint64_t old = 0;
    switch (Op) {
    case MbarrierOp::init:
      store_relaxed<uint64_t>(at, State{number, number, 0, 0}.word());
      break;
    case MbarrierOp::inval:
      store_relaxed<uint64_t>(at, 0);
      break;
    case MbarrierOp::arrive:
      old = change(at, [&](State &s) { s.pending -= number; });
      break;
    case MbarrierOp::arrive_drop:
      old = change(at, [&](State &s) {
        s.pending -= number;
        s.expected -= number;
      });
      break;
    case MbarrierOp::expect_tx:
      change(at, [&](State &s) { s.bytes += number; });
      break;
    case MbarrierOp::complete_tx:
      change(at, [&](State &s) { s.bytes -= number; });
      break;
    case MbarrierOp::arrive_expect_tx:
      old = change(at, [&](State &s) {
        s.bytes += number;
        s.pending -= 1;
      });
      break;
    case MbarrierOp::wait_state:
    case MbarrierOp::wait_parity: {
      uint32_t phase = State::from(__atomic_load_n(reinterpret_cast<uint64_t *>(at), __ATOMIC_ACQUIRE)).phase;
      uint32_t waited = Op == MbarrierOp::wait_state ? State::from(argument).phase : number & 1;
      complete |= uint32_t{phase != waited} << lane;
      break;
    }
    }
    if (ins.op[0] != no_operand && Op != MbarrierOp::wait_state && Op != MbarrierOp::wait_parity)
      w.out(ins.op[0])[lane] = old;
  });
  if (Op == MbarrierOp::wait_state || Op == MbarrierOp::wait_parity) {
    w.set_predicate(ins.op[0], lanes, complete);
    if (complete != lanes)
      w.yield();
  }
}

void pending_count(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { put<uint32_t>(d, lane, State::from(a[lane]).pending); });
}

/* --- cp.async.bulk: copied at once ---------------------------------------------------------------------------------
 */

constexpr uint32_t bulk_granule = 16;

std::byte *bulk_place(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, bool narrow, uint32_t bytes,
                      bool write) {
  if (narrow)
    return locate<StateSpace::shared>(w, ins, lane, static_cast<uint32_t>(address), bytes, write);
  return locate<StateSpace::generic>(w, ins, lane, address, bytes, write);
}

void copy_bulk(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *to = w.in(ins.op[0]), *from = w.in(ins.op[1]), *sizes = w.in(ins.op[2]);
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    auto size = get<uint32_t>(sizes, lane);
    if (size % bulk_granule)
      w.access_fault(FaultKind::misaligned_address, ins, lane, to[lane], size, true, "bulk copy",
                     "the size is not a multiple of 16");
    w.moving_at = 0;
    for (uint32_t at = 0; at < size; at += bulk_granule) {
      w.moving.fill(std::byte{1});
      const std::byte *source = bulk_place(w, ins, lane, from[lane] + at, ins.mode & 2, bulk_granule, false);
      if (w.grid->checker)
        w.grid->checker->copies(source);
      auto put = [&](uint64_t address) {
        std::byte *target = bulk_place(w, ins, lane, address, ins.mode & 1, bulk_granule, true);
        for (uint32_t word = 0; word < bulk_granule; word += 8)
          store_relaxed<uint64_t>(target + word, load_relaxed<uint64_t>(source + word));
      };
      if (ins.op[4] != no_operand) { /* the bytes of a mask, which is the same for all granules */
        for_lanes(get<uint16_t>(w.in(ins.op[4]), lane), [&](uint32_t byte) {
          w.moving_at = byte;
          store_relaxed<uint8_t>(bulk_place(w, ins, lane, to[lane] + at + byte, ins.mode & 1, 1, true),
                                 load_relaxed<uint8_t>(source + byte));
        });
        w.moving_at = 0;
        continue;
      }
      if (ins.op[3] == no_operand)
        put(to[lane] + at);
      else
        for_blocks(get<uint16_t>(w.in(ins.op[3]), lane), to[lane] + at, put);
    }
    if (w.grid->checker)
      w.grid->checker->copies(nullptr);
  });
}

void fill_bulk(Warp &w, const Instruction &ins, uint32_t lanes) {
  constexpr uint32_t granule = 8;
  const uint64_t *to = w.in(ins.op[0]), *sizes = w.in(ins.op[1]);
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    auto size = get<uint32_t>(sizes, lane);
    if (size % granule)
      w.access_fault(FaultKind::misaligned_address, ins, lane, to[lane], size, true, "shared",
                     "the size is not a multiple of 8");
    if (!ins.flag && static_cast<Window>(to[lane] >> window_shift) != Window::shared)
      w.access_fault(FaultKind::invalid_address_space, ins, lane, to[lane], size, true, "generic",
                     "st.bulk fills shared memory");
    for (uint32_t at = 0; at < size; at += granule)
      store_relaxed<uint64_t>(bulk_place(w, ins, lane, to[lane] + at, ins.flag, granule, true), 0);
  });
}

/* --- clusterlaunchcontrol: the response has the first block of the cancelled cluster, and whether there is one ------
 */

using Response = std::array<uint32_t, cancel_bytes / 4>;

/* Takes a cluster that has not begun from the grid. */
Response take_cluster(Grid &grid) {
  uint64_t number = grid.next_unit.load();
  while (number < grid.units && !grid.next_unit.compare_exchange_weak(number, number + 1))
    ;
  if (number >= grid.units)
    return {};
  Dim3 at = grid.cluster_of(number);
  const Dim3 &size = grid.launch.cluster;
  return {at[0] * size[0], at[1] * size[1], at[2] * size[2], 1};
}

void try_cancel(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *to = w.in(ins.op[0]);
  uint64_t *blocks = w.out(ins.op[1]);
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    Response response = take_cluster(*w.grid);
    if (!ins.mode && static_cast<Window>(to[lane] >> window_shift) != Window::shared)
      w.access_fault(FaultKind::invalid_address_space, ins, lane, to[lane], cancel_bytes, true, "generic",
                     "the response has to be in shared memory");
    auto place = static_cast<uint32_t>(to[lane]);
    blocks[lane] = ins.flag ? (1u << w.grid->cluster_size) - 1 : 1u << (place >> shared_rank_shift);
    for_blocks(static_cast<uint32_t>(blocks[lane]), place, [&](uint32_t address) {
      std::byte *at = locate<StateSpace::shared>(w, ins, lane, address, cancel_bytes, true);
      for (size_t i = 0; i < response.size(); ++i)
        store_relaxed<uint32_t>(at + 4 * i, response[i]);
    });
  });
}

void query_cancel(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *low = w.in(ins.op[1]), *high = low + warp_size;
  if (ins.mode == cancel_succeeded) {
    uint32_t set = 0;
    for_lanes(lanes, [&](uint32_t lane) { set |= uint32_t{high[lane] >> 32 != 0} << lane; });
    return w.set_predicate(ins.op[0], lanes, set);
  }
  const uint64_t *from = ins.mode == 2 ? high : low;
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) {
    put<uint32_t>(d, lane, static_cast<uint32_t>(from[lane] >> (ins.mode == 1 ? 32 : 0)));
  });
}

void bulk_group(Warp &w, const Instruction &ins, uint32_t lanes) {
  if (w.grid->checker)
    w.grid->checker->bulk_group(w, ins, lanes);
}

template <StateSpace S> Handler in_space(MbarrierOp op) {
  return for_constant<MbarrierOp::init, MbarrierOp::inval, MbarrierOp::arrive, MbarrierOp::arrive_drop,
                      MbarrierOp::expect_tx, MbarrierOp::complete_tx, MbarrierOp::arrive_expect_tx,
                      MbarrierOp::wait_state, MbarrierOp::wait_parity>(op, [](auto o) { return operate<o.value, S>; });
}

} // namespace

Handler mbarrier_handler(MbarrierOp op, StateSpace space) {
  return space == StateSpace::generic ? in_space<StateSpace::generic>(op) : in_space<StateSpace::shared>(op);
}
Handler mbarrier_pending_handler() { return pending_count; }
Handler copy_bulk_handler() { return copy_bulk; }
Handler fill_bulk_handler() { return fill_bulk; }
Handler try_cancel_handler() { return try_cancel; }
Handler query_cancel_handler() { return query_cancel; }
Handler bulk_group_handler() { return bulk_group; }

} // namespace sim::exec
