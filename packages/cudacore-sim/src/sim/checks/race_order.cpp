/* SPDX-License-Identifier: Apache-2.0 */
/* What orders the accesses of threads: barriers, fences, acquire and release. */
#include "sim/checks/race.h"

#include <algorithm>

namespace sim::exec {

void Races::begins(Block &block) {
  const Dim3 &grid = grid_.launch.grid;
  block.history = std::make_shared<BlockHistory>();
  block.history->index = block.index[0] + grid[0] * (block.index[1] + grid[1] * block.index[2]);
  block.history->threads.resize(threads());
  block.history->cells.resize(block.shared.size() / 4);
}

ThreadHistory &Races::thread_of(Warp &w, uint32_t lane) {
  return w.block->history->threads[size_t{w.index} * warp_size + lane];
}
ThreadId Races::id_of(Warp &w, uint32_t lane) { return {w.block->history->index, w.index * warp_size + lane}; }

void Races::join(ThreadHistory &thread, const VectorClockPtr &clock) {
  if (!clock || clock == thread.clock)
    return;
  ClockJoin both;
  both.add(thread.clock);
  both.add(clock);
  thread.clock = both.result(clock_size());
}

/*
 * Records that a thread arrives at a barrier. The barrier acquires what the thread's relaxed reads saw, and passes on
 * what the thread's fences release.
 */
static void arrive(BarrierClocks &arrivals, ThreadHistory &thread, ThreadId who, uint32_t threads) {
  if (thread.has_observed) {
    for (ClockJoin &observed : thread.observed)
      arrivals.arrived.add(observed.result(threads));
    thread.observed = {};
    thread.has_observed = false;
  }
  arrivals.arrived.add(thread.clock);
  arrivals.arrived.add(who, thread.now);
  ++thread.now;
  for (size_t scope = 0; scope < scopes; ++scope) {
    const Fence &fence = thread.fences[scope];
    if (!fence.exists)
      continue;
    arrivals.fences[scope].add(fence.clock);
    arrivals.fences[scope].add(who, fence.at);
    arrivals.has_fence[scope] = true;
  }
}

/* Joins the collected clocks into a single clock that all threads share. */
static void settle(BarrierClocks &arrivals, uint32_t threads) {
  auto settle_one = [&](ClockJoin &join) {
    VectorClockPtr clock = join.result(threads);
    join = {};
    join.add(clock);
  };
  settle_one(arrivals.arrived);
  for (ClockJoin &fences : arrivals.fences)
    settle_one(fences);
}

/* Orders a thread that leaves a barrier after all threads that have arrived at it. */
static void pass(ThreadHistory &thread, const BarrierClocks &arrivals, uint32_t threads) {
  thread.clock = arrivals.arrived.result(threads);
  for (size_t scope = 0; scope < scopes; ++scope)
    if (arrivals.has_fence[scope]) {
      thread.fences[scope].exists = true;
      thread.fences[scope].clock = arrivals.fences[scope].result(threads);
    }
}

void Races::synchronizes_warp(Warp &w, uint32_t lanes) {
  BarrierClocks arrivals;
  uint32_t threads = clock_size();
  for_lanes(lanes, [&](uint32_t lane) { arrive(arrivals, thread_of(w, lane), id_of(w, lane), threads); });
  settle(arrivals, threads);
  for_lanes(lanes, [&](uint32_t lane) { pass(thread_of(w, lane), arrivals, clock_size()); });
}

void Races::arrives(Warp &w, uint32_t lanes, uint32_t barrier) {
  BarrierClocks &arrivals = w.block->history->barriers[barrier];
  for_lanes(lanes, [&](uint32_t lane) { arrive(arrivals, thread_of(w, lane), id_of(w, lane), clock_size()); });
}

void Races::passes(Warp &w, uint32_t lanes, uint32_t barrier) {
  if (!lanes)
    return;
  BarrierClocks &arrivals = w.block->history->barriers[barrier];
  settle(arrivals, clock_size());
  for_lanes(lanes, [&](uint32_t lane) { pass(thread_of(w, lane), arrivals, clock_size()); });
}

void Races::completes(Block &block, uint32_t barrier) { block.history->barriers[barrier] = {}; }

/*
 * The phases of a cluster's barrier are not distinguished: an arrival at the next phase already counts for the current
 * phase.
 */
void Races::arrives_at_cluster(Warp &w, uint32_t lanes) {
  BarrierClocks &arrivals = w.block->unit->blocks[0].history->cluster;
  for_lanes(lanes, [&](uint32_t lane) { arrive(arrivals, thread_of(w, lane), id_of(w, lane), clock_size()); });
}

void Races::passes_cluster(Warp &w, uint32_t lanes) {
  if (!lanes)
    return;
  BarrierClocks &arrivals = w.block->unit->blocks[0].history->cluster;
  settle(arrivals, clock_size());
  for_lanes(lanes, [&](uint32_t lane) {
    ThreadHistory &thread = thread_of(w, lane);
    BarrierClocks both = arrivals; /* includes what the thread acquired after its arrival */
    both.arrived.add(thread.clock);
    for (size_t scope = 0; scope < scopes; ++scope)
      both.fences[scope].add(thread.fences[scope].clock);
    pass(thread, both, clock_size());
  });
}

void Races::fences(Warp &w, const Instruction &ins, uint32_t lanes) {
  const Scope scope = ins.scope();
  for_lanes(lanes, [&](uint32_t lane) {
    ThreadHistory &thread = thread_of(w, lane);
    auto narrower = static_cast<size_t>(scope) + 1;
    for (size_t i = 0; thread.has_observed && i < narrower; ++i) {
      join(thread, thread.observed[i].result(clock_size()));
      thread.observed[i] = {};
    }
    if (ins.mode) {
      thread.proxy_fence = {true, thread.clock, thread.now};
    }
    thread.has_observed = thread.has_observed && narrower < scopes;
    std::fill_n(thread.fences.begin(), narrower, Fence{true, thread.clock, thread.now});
    ++thread.now;
  });
}

/*
 * Orders only the reads of a product. Here, the first lane of each warp makes these reads. Accesses of other lanes are
 * not ordered.
 */
void Races::ends_reads(Warp &w) {
  ClockJoin &reads = w.block->history->group_reads[w.index / group_warps];
  auto reader = static_cast<uint32_t>(__builtin_ctz(w.alive));
  reads.add(id_of(w, reader), thread_of(w, reader).now++);
  VectorClockPtr clock = reads.result(clock_size());
  reads = {};
  reads.add(clock);
}

void Races::awaits_reads(Warp &w, uint32_t lanes) {
  VectorClockPtr clock = w.block->history->group_reads[w.index / group_warps].result(clock_size());
  for_lanes(lanes, [&](uint32_t lane) { join(thread_of(w, lane), clock); });
}

/*
 * Makes an access acquire what was released for its block, if the scope of the access includes the thread that released
 * it. If several blocks have released one after the other, the scope must include at least one of these blocks.
 */
void Races::acquire(Warp &w, const Instruction &ins, uint32_t lane, const ReleasedHere &here) {
  ThreadHistory &thread = thread_of(w, lane);
  uint32_t block = id_of(w, lane).block;
  auto join_released = [&](const Released &released) {
    if (!released.clock)
      return;
    const std::vector<Block> &neighbours = w.block->unit->blocks;
    auto has_released = [&](const Block &one) { return released.by.count(one.history->index) != 0; };
    Scope least = has_released(*w.block)                                            ? Scope::block
                  : std::any_of(neighbours.begin(), neighbours.end(), has_released) ? Scope::cluster
                                                                                    : Scope::all;
    if (least > scope_of(ins))
      return;
    if (ins.access & access_acquire) {
      join(thread, released.clock);
    } else {
      thread.observed[static_cast<size_t>(least)].add(released.clock);
      thread.has_observed = true;
    }
  };
  join_released(here.for_all);
  if (auto found = here.for_clusters.find(cluster_of(block)); found != here.for_clusters.end())
    join_released(found->second);
  if (auto found = here.for_blocks.find(block); found != here.for_blocks.end())
    join_released(found->second);
}

void Races::release(Warp &w, const Instruction &ins, uint32_t lane, ReleasedHere &here) {
  ThreadHistory &thread = thread_of(w, lane);
  ThreadId who = id_of(w, lane);
  CopyTimes &copied = w.block->history->bulk_now;
  const bool completes = (ins.access & access_barrier) && !(ins.access & access_acquire);
  auto leave = [&](Scope scope, const VectorClockPtr &clock, LogicalTime at) {
    Released &released = scope == Scope::all       ? here.for_all
                         : scope == Scope::cluster ? here.for_clusters[cluster_of(who.block)]
                                                   : here.for_blocks[who.block];
    ClockJoin left;
    left.add(released.clock);
    left.add(clock);
    left.add(who, at);
    for (uint32_t i = 0; completes && i < copied.size(); ++i)
      left.add({who.block, threads() + i}, copied[i]);
    released.clock = left.result(clock_size());
    released.by.insert(who.block);
  };
  if (ins.access & access_release) {
    leave(scope_of(ins), thread.clock, thread.now);
    ++thread.now;
    for (LogicalTime &time : copied)
      time += completes;
    return;
  }
  /*
   * A fence of a wide scope was recorded for the narrower scopes, too. It is released only once, for its widest scope.
   */
  const Fence *wider = nullptr;
  for (auto scope = static_cast<size_t>(scope_of(ins)) + 1; scope-- > 0;) {
    const Fence &fence = thread.fences[scope];
    if (fence.exists && !(wider && wider->exists && fence.at == wider->at && fence.clock == wider->clock))
      leave(static_cast<Scope>(scope), fence.clock, fence.at);
    wider = &fence;
  }
}

void Races::order(Warp &w, const Instruction &ins, uint32_t lane, ReleasedAt &released, uint64_t key, bool write) {
  auto found = released.find(key);
  bool is_update = ins.access & access_update;
  if ((is_update || !write) && found != released.end())
    acquire(w, ins, lane, found->second);
  if (!write)
    return;
  if (!is_update && found != released.end())
    released.erase(found); /* the store overwrites the released value, so that no later read can acquire it */
  if ((ins.access & access_release) || thread_of(w, lane).fences[0].exists)
    release(w, ins, lane, released[key]);
}

uint32_t Races::cluster_of(uint32_t block) const {
  const Dim3 &grid = grid_.launch.grid, &cluster = grid_.launch.cluster;
  Dim3 at = index_in(grid, block);
  for (size_t i = 0; i < 3; ++i)
    at[i] -= at[i] % cluster[i];
  return at[0] + grid[0] * (at[1] + grid[1] * at[2]);
}

bool Races::includes(Scope scope, uint32_t block, uint32_t other) const {
  return block == other || scope == Scope::all || (scope == Scope::cluster && cluster_of(block) == cluster_of(other));
}

} // namespace sim::exec
