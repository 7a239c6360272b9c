/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/exec/grid.h"

#include <algorithm>
#include <map>

#include "sim/exec/checker.h"

namespace sim::exec {

namespace {
constexpr int64_t warp_turn = 32768;  /* instructions that a warp executes before the next warp of its block runs */
constexpr int64_t unit_turn = 40;     /* rounds over the warps of a unit before another unit may run */
constexpr uint32_t sm_threads = 2048; /* maximum number of threads on one multiprocessor */
constexpr uint32_t sm_blocks = 32;    /* maximum number of blocks on one multiprocessor */
constexpr uint64_t resident_bytes = 512u << 20; /* maximum host memory for units that have begun, in bytes */
} // namespace

Grid::Grid(const Launch &of)
    : launch(of), program(of.instance->module->program), kernel(program.kernels[of.kernel]),
      function(program.functions[kernel.function]) {
  threads = of.block[0] * of.block[1] * of.block[2];
  warps = (threads + warp_size - 1) / warp_size;
  shared_bytes = std::max(kernel.shared.static_bytes, kernel.shared.dynamic_offset + of.dynamic_shared_bytes);
  shared_bytes = (shared_bytes + of.shared_unit - 1) / of.shared_unit * of.shared_unit;
  cluster_size = 1;
  units = 1;
  for (size_t i = 0; i < 3; ++i) {
    cluster_size *= of.cluster[i];
    clusters[i] = of.grid[i] / of.cluster[i];
    units *= clusters[i];
  }
  uint64_t blocks = std::min<uint64_t>(sm_blocks, std::max<uint32_t>(1, sm_threads / std::max(threads, 1u)));
  uint64_t unit_bytes = (uint64_t{function.slots} * warp_size * 8 * warps + shared_bytes) * cluster_size + 4096;
  resident_limit =
      std::max<uint64_t>(1, std::min(blocks * of.multiprocessors / cluster_size, resident_bytes / unit_bytes));
  if (of.cooperative)
    resident_limit = units; /* all blocks of a cooperative grid must be able to make progress */
  if (of.checks.any())
    checker = std::make_shared<Checker>(*this);
}

Dim3 Grid::cluster_of(uint64_t unit) const {
  return {static_cast<uint32_t>(unit % clusters[0]), static_cast<uint32_t>(unit / clusters[0] % clusters[1]),
          static_cast<uint32_t>(unit / clusters[0] / clusters[1])};
}

void Grid::report(const Fault &fault) {
  std::lock_guard<std::mutex> hold(lock_);
  if (fault_.kind == FaultKind::none)
    fault_ = fault;
  stop.store(true, std::memory_order_relaxed);
}

void Grid::print(const std::string &text, bool is_error) {
  std::lock_guard<std::mutex> hold(lock_);
  if (printed_ + text.size() > launch.printf_limit)
    return;
  printed_ += text.size();
  if (launch.print)
    launch.print(text, is_error);
}

/* --- barriers of a block -------------------------------------------------------------------------------------- */

void Block::arrive(Warp &warp, uint32_t lanes, uint32_t number, uint32_t expected, bool waits,
                   const uint32_t *predicate) {
  Barrier &barrier = barriers[number];
  barrier.in_use = true;
  if (expected)
    barrier.expected = expected;
  barrier.arrived[warp.index] |= lanes;
  if (Checker *checker = unit->grid->checker.get())
    checker->arrives(warp, lanes, number);
  if (predicate) {
    uint32_t set = *predicate & lanes;
    barrier.population += static_cast<uint32_t>(__builtin_popcount(set));
    barrier.any = barrier.any || set;
    barrier.all = barrier.all && set == lanes;
  }
  if (waits) {
    for_lanes(lanes, [&](uint32_t lane) { warp.barrier[lane] = static_cast<uint8_t>(number); });
    warp.wait(lanes, Warp::Wait::barrier);
  }
  if (complete(barrier))
    release(number);
}

/*
 * Returns whether a barrier is complete. As on the hardware, a warp counts with all its 32 threads once all its lanes
 * that have not ended have arrived.
 */
bool Block::complete(const Barrier &barrier) const {
  uint32_t count = 0;
  for (size_t i = 0; i < warps.size(); ++i) {
    const Warp &warp = warps[i];
    uint32_t here = barrier.arrived[i];
    if (!barrier.expected) {
      if (warp.alive & ~here)
        return false;
    } else if (here) {
      count += (warp.alive & ~here) ? static_cast<uint32_t>(__builtin_popcount(here)) : warp_size;
    }
  }
  return !barrier.expected || count >= barrier.expected;
}

void Block::release(uint32_t number) {
  Barrier done = barriers[number];
  barriers[number] = Barrier{};
  if (Checker *checker = unit->grid->checker.get())
    checker->completes(*this, number, done);
  for (Warp &warp : warps) {
    uint32_t lanes = 0;
    for (uint32_t rest = warp.waiting(Warp::Wait::barrier); rest; rest &= rest - 1) {
      auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
      if (warp.barrier[lane] == number)
        lanes |= 1u << lane;
    }
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
      auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
      const Instruction &ins = warp.instruction_of(lane);
      if (ins.op[0] == no_operand)
        continue;
      uint64_t *frame = warp.frame_of(lane);
      if (ins.mode == 0) {
        put<uint32_t>(frame + ins.op[0], lane, done.population);
      } else {
        uint32_t &mask = reinterpret_cast<uint32_t *>(frame)[ins.op[0] >> 1];
        bool value = ins.mode == 1 ? done.all : done.any;
        mask = (mask & ~(1u << lane)) | (uint32_t{value} << lane);
      }
    }
    warp.release(lanes, true);
  }
}

void Block::check_barriers() {
  for (uint32_t i = 0; i < barrier_count; ++i)
    if (barriers[i].in_use && complete(barriers[i]))
      release(i);
  for (size_t first = 0; first < warps.size(); first += group_warps)
    check_group(warps[first]);
}

bool Block::begin_product(Warp &warp, uint32_t lanes) {
  if (warp.awaits_group) {
    warp.awaits_group = false;
    return true;
  }
  ++warp.group_begun;
  warp.awaits_group = true;
  if (has_group(warp)) {
    warp.awaits_group = false;
    check_group(warp);
    return true;
  }
  warp.wait(lanes, Warp::Wait::group);
  return false;
}

void Block::end_product(Warp &warp) {
  ++warp.group_made;
  check_group(warp);
}

void Block::wait_products(Warp &warp, uint32_t lanes) {
  if (!has_group(warp))
    return warp.wait(lanes, Warp::Wait::group);
  if (Checker *checker = unit->grid->checker.get())
    checker->group_passes(warp, lanes);
}

/*
 * Returns whether the other warps of a warp's group have reached the product that this warp waits for. Warps that have
 * ended do not count.
 */
bool Block::has_group(const Warp &warp) const {
  size_t first = warp.index / group_warps * group_warps, end = std::min(first + group_warps, warps.size());
  return std::all_of(warps.begin() + static_cast<ptrdiff_t>(first), warps.begin() + static_cast<ptrdiff_t>(end),
                     [&](const Warp &other) {
                       return !other.alive || (warp.awaits_group ? other.group_begun >= warp.group_begun
                                                                 : other.group_made >= warp.group_made);
                     });
}

void Block::check_group(const Warp &warp) {
  size_t first = warp.index / group_warps * group_warps, end = std::min(first + group_warps, warps.size());
  for (size_t i = first; i < end; ++i) {
    Warp &one = warps[i];
    uint32_t lanes = one.waiting(Warp::Wait::group);
    if (!lanes || !has_group(one))
      continue;
    if (Checker *checker = unit->grid->checker.get(); checker && !one.awaits_group)
      checker->group_passes(one, lanes);
    one.release(lanes, !one.awaits_group);
  }
}

/* --- clusters ------------------------------------------------------------------------------------------------- */

void Unit::start(Grid &of, uint64_t number) {
  bool same_launch = grid == &of;
  grid = &of;
  cluster_index = of.cluster_of(number);
  if (blocks.size() != of.cluster_size)
    blocks.resize(of.cluster_size);
  const Dim3 &cluster = of.launch.cluster, &shape = of.launch.block;
  for (uint32_t rank = 0; rank < of.cluster_size; ++rank) {
    Block &block = blocks[rank];
    block.unit = this;
    block.rank = rank;
    /* Code that names no shared variable counts from 0, as Halide's does. */
    block.shared_begin =
        (rank << shared_rank_shift) + (of.kernel.shared.offsets.empty() ? 0 : of.launch.shared_reserved);
    block.index = {cluster_index[0] * cluster[0] + rank % cluster[0],
                   cluster_index[1] * cluster[1] + rank / cluster[0] % cluster[1],
                   cluster_index[2] * cluster[2] + rank / cluster[0] / cluster[1]};
    block.shared.assign(of.shared_bytes, of.launch.fill);
    block.unchecked_bytes = of.shared_bytes;
    block.scratch.fill(std::byte{0});
    block.tensor_memory.reset();
    block.barriers.fill(Barrier{});
    if (block.warps.size() != of.warps) {
      block.warps.resize(of.warps);
      same_launch = false;
    }
    for (uint32_t w = 0; w < of.warps; ++w) {
      Warp &warp = block.warps[w];
      uint32_t first = w * warp_size;
      if (!same_launch)
        for (uint32_t lane = 0; lane < warp_size; ++lane) {
          uint32_t linear = first + lane;
          warp.thread[0][lane] = linear % shape[0];
          warp.thread[1][lane] = linear / shape[0] % shape[1];
          warp.thread[2][lane] = linear / shape[0] / shape[1];
        }
      warp.start(block, w, std::min(warp_size, of.threads - first));
    }
    if (of.checker)
      of.checker->begins(block);
  }
}

Unit::Result Unit::run() {
  uint64_t stores_before = 0;
  for (Block &block : blocks)
    for (Warp &warp : block.warps)
      stores_before += warp.stores;
  wake_at = 0;
  for (int64_t round = 0;; ++round) {
    bool ran = false, finished = true;
    uint64_t next_wake = UINT64_MAX;
    for (Block &block : blocks)
      for (Warp &warp : block.warps) {
        if (warp.finished())
          continue;
        if (warp.waiting(Warp::Wait::sleep))
          next_wake = std::min(next_wake, warp.wake(monotonic_time()));
        if (warp.can_run()) {
          ran = true;
          warp.run(warp_turn);
        }
        finished = finished && warp.finished();
      }
    if (finished) {
      for (const Block &block : blocks)
        if (block.tensor_memory)
          tensor_memory_ends(*block.tensor_memory);
      if (grid->checker)
        grid->checker->ended(*this);
      return Result::finished;
    }
    if (!ran && next_wake != UINT64_MAX) {
      wake_at = next_wake;
      return Result::parked;
    }
    if (!ran)
      report_hang();
    if (grid->is_over())
      return Result::finished;
    if (grid->launch.cooperative)
      return Result::parked;
    if (round < unit_turn)
      continue;
    /*
     * A unit makes progress as long as it writes memory. A unit that writes nothing may be waiting for units that have
     * not begun, so it lets them run.
     */
    uint64_t stores = 0;
    for (Block &block : blocks)
      for (Warp &warp : block.warps)
        stores += warp.stores;
    if (stores == stores_before)
      return Result::parked;
    stores_before = stores;
    round = 0;
  }
}

void Unit::lanes_ended(Block &block) {
  block.check_barriers();
  if (blocks.size() > 1)
    check_cluster();
}

void Unit::arrive_cluster(Warp &warp, uint32_t lanes) {
  warp.cluster_arrived |= lanes;
  if (grid->checker)
    grid->checker->arrives_at_cluster(warp, lanes);
  check_cluster();
}

void Unit::check_cluster() {
  bool any = false;
  for (Block &block : blocks)
    for (Warp &warp : block.warps) {
      if (warp.alive & ~warp.cluster_arrived)
        return;
      any = any || warp.cluster_arrived;
    }
  if (!any)
    return;
  for (Block &block : blocks)
    for (Warp &warp : block.warps) {
      warp.cluster_arrived = 0;
      if (grid->checker)
        grid->checker->passes_cluster(warp, warp.waiting(Warp::Wait::cluster));
      warp.release(warp.waiting(Warp::Wait::cluster), true);
    }
}

void Unit::report_hang() {
  uint32_t waiting = 0, ended = 0, total = 0;
  const Warp *stuck = nullptr;
  for (Block &block : blocks)
    for (Warp &warp : block.warps) {
      uint32_t lanes = std::min(warp_size, grid->threads - warp.index * warp_size);
      total += lanes;
      waiting += static_cast<uint32_t>(__builtin_popcount(warp.alive));
      ended += lanes - static_cast<uint32_t>(__builtin_popcount(warp.alive));
      if (warp.alive && !stuck)
        stuck = &warp;
    }
  auto lane = static_cast<uint32_t>(__builtin_ctz(stuck->alive));
  std::string detail = "a barrier that can never complete: of " + std::to_string(total) + " threads " +
                       std::to_string(waiting) + " wait and " + std::to_string(ended) + " have ended";
  std::map<uint32_t, uint32_t> places; /* the number of waiting threads, by instruction */
  for (Block &block : blocks)
    for (Warp &warp : block.warps)
      for_lanes(warp.alive, [&](uint32_t one) { ++places[warp.pc_of(one)]; });
  if (places.size() > 1) {
    const char *before = "; ";
    for (auto [pc, count] : places) {
      detail += before + std::to_string(count) + " wait" + (count == 1 ? "s" : "") + " at" +
                lines_of(grid->program, grid->program.code[pc]);
      before = ", ";
    }
  }
  stuck->fault(FaultKind::hang, stuck->instruction_of(lane), lane, detail);
}

} // namespace sim::exec
