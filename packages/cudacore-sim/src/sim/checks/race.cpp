/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/checks/race.h"

#include <algorithm>

#include "sim/isa/handlers.h"

namespace sim::exec {

static Dim3 index_in(const Dim3 &shape, uint32_t linear) {
  return {linear % shape[0], linear / shape[0] % shape[1], linear / shape[0] / shape[1]};
}

/* --- barriers, fences, acquire and release -------------------------------------------------------------------- */

void Races::begins(Block &block) {
  const Dim3 &grid = grid_.launch.grid;
  block.history = std::make_shared<BlockHistory>();
  block.history->index = block.index[0] + grid[0] * (block.index[1] + grid[1] * block.index[2]);
  block.history->threads.resize(size_t{grid_.warps} * warp_size);
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
  thread.clock = both.result(grid_.warps * warp_size);
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
  uint32_t threads = grid_.warps * warp_size;
  for_lanes(lanes, [&](uint32_t lane) { arrive(arrivals, thread_of(w, lane), id_of(w, lane), threads); });
  settle(arrivals, threads);
  for_lanes(lanes, [&](uint32_t lane) { pass(thread_of(w, lane), arrivals, grid_.warps * warp_size); });
}

void Races::arrives(Warp &w, uint32_t lanes, uint32_t barrier) {
  BarrierClocks &arrivals = w.block->history->barriers[barrier];
  for_lanes(lanes,
            [&](uint32_t lane) { arrive(arrivals, thread_of(w, lane), id_of(w, lane), grid_.warps * warp_size); });
}

void Races::passes(Warp &w, uint32_t lanes, uint32_t barrier) {
  if (!lanes)
    return;
  BarrierClocks &arrivals = w.block->history->barriers[barrier];
  settle(arrivals, grid_.warps * warp_size);
  for_lanes(lanes, [&](uint32_t lane) { pass(thread_of(w, lane), arrivals, grid_.warps * warp_size); });
}

void Races::completes(Block &block, uint32_t barrier) { block.history->barriers[barrier] = {}; }

/*
 * The phases of a cluster's barrier are not distinguished: an arrival at the next phase already counts for the current
 * phase.
 */
void Races::arrives_at_cluster(Warp &w, uint32_t lanes) {
  BarrierClocks &arrivals = w.block->unit->blocks[0].history->cluster;
  for_lanes(lanes,
            [&](uint32_t lane) { arrive(arrivals, thread_of(w, lane), id_of(w, lane), grid_.warps * warp_size); });
}

void Races::passes_cluster(Warp &w, uint32_t lanes) {
  if (!lanes)
    return;
  BarrierClocks &arrivals = w.block->unit->blocks[0].history->cluster;
  settle(arrivals, grid_.warps * warp_size);
  for_lanes(lanes, [&](uint32_t lane) {
    ThreadHistory &thread = thread_of(w, lane);
    BarrierClocks both = arrivals; /* includes what the thread acquired after its arrival */
    both.arrived.add(thread.clock);
    for (size_t scope = 0; scope < scopes; ++scope)
      both.fences[scope].add(thread.fences[scope].clock);
    pass(thread, both, grid_.warps * warp_size);
  });
}

void Races::fences(Warp &w, const Instruction &ins, uint32_t lanes) {
  const Scope scope = ins.scope();
  for_lanes(lanes, [&](uint32_t lane) {
    ThreadHistory &thread = thread_of(w, lane);
    auto narrower = static_cast<size_t>(scope) + 1;
    for (size_t i = 0; thread.has_observed && i < narrower; ++i) {
      join(thread, thread.observed[i].result(grid_.warps * warp_size));
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
  VectorClockPtr clock = reads.result(grid_.warps * warp_size);
  reads = {};
  reads.add(clock);
}

void Races::awaits_reads(Warp &w, uint32_t lanes) {
  VectorClockPtr clock = w.block->history->group_reads[w.index / group_warps].result(grid_.warps * warp_size);
  for_lanes(lanes, [&](uint32_t lane) { join(thread_of(w, lane), clock); });
}

/*
 * Returns the scope of an access. Operations on an mbarrier order memory for all threads, because compilers leave out
 * their scope.
 */
static Scope scope_of(const Instruction &ins) { return ins.access & access_barrier ? Scope::all : ins.scope(); }

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
  auto leave = [&](Scope scope, const VectorClockPtr &clock, LogicalTime at) {
    Released &released = scope == Scope::all       ? here.for_all
                         : scope == Scope::cluster ? here.for_clusters[cluster_of(who.block)]
                                                   : here.for_blocks[who.block];
    ClockJoin left;
    left.add(released.clock);
    left.add(clock);
    left.add(who, at);
    released.clock = left.result(grid_.warps * warp_size);
    released.by.insert(who.block);
  };
  if (ins.access & access_release) {
    leave(scope_of(ins), thread.clock, thread.now);
    ++thread.now;
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

void Races::order(Warp &w, const Instruction &ins, uint32_t lane, uint64_t key, bool write) {
  auto found = released_.find(key);
  bool is_update = ins.access & access_update;
  if ((is_update || !write) && found != released_.end())
    acquire(w, ins, lane, found->second);
  if (!write)
    return;
  if (!is_update && found != released_.end())
    released_.erase(found); /* the store overwrites the released value, so that no later read can acquire it */
  if ((ins.access & access_release) || thread_of(w, lane).fences[0].exists)
    release(w, ins, lane, released_[key]);
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

/* --- accesses ------------------------------------------------------------------------------------------------- */

static_assert(access_acquire == 2 && access_release == 4); /* in PastAccess::flags, these bits hold the scope */
static uint8_t flags_of(const Instruction &ins) {
  return static_cast<uint8_t>((ins.access & (access_strong | access_update)) | static_cast<uint8_t>(scope_of(ins))
                                                                                   << 1);
}
static Scope scope_of(const PastAccess &past) { return static_cast<Scope>(past.flags >> 1 & 3); }

static bool reaches(const VectorClockPtr &clock, ThreadId who, LogicalTime time) {
  if (!clock)
    return false;
  auto found = clock->blocks.find(who.block);
  return found != clock->blocks.end() && (*found->second)[who.thread] >= time;
}

bool Races::happens_before(const PastAccess &past, ThreadId who, const ThreadHistory &thread) {
  return (past.block == who.block && past.thread == who.thread) || happens_before(past, thread.clock);
}

bool Races::happens_before(const PastAccess &past, const VectorClockPtr &clock) {
  return reaches(clock, {past.block, past.thread}, past.time);
}

/*
 * Returns whether a fence.proxy.async is missing between a write and a wgmma that reads the written memory. Stores
 * write through the generic proxy and wgmma reads through the async proxy, so that without a fence, wgmma may read old
 * values. The fence must be executed by the thread that wrote or by a thread that is ordered after the write. Bulk
 * copies write through the async proxy, too, and need no fence. Whether other asynchronous copies need one is not
 * checked.
 */
bool Races::lacks_proxy_fence(const Instruction &ins, const Block &owner, const PastAccess &write) const {
  if (ins.run != group_product_handler() || !write.bytes || (write.flags & access_strong))
    return false;
  Handler wrote = grid_.program.code[write.pc].run;
  if (wrote == copy_async_handler() || wrote == copy_bulk_handler())
    return false;
  const BlockHistory &history = *owner.history;
  if (write.block == history.index && history.threads[write.thread].proxy_fence.at >= write.time)
    return false;
  return std::none_of(history.threads.begin(), history.threads.end(),
                      [&](const ThreadHistory &thread) { return happens_before(write, thread.proxy_fence.clock); });
}

/*
 * Returns whether a store writes the value that the memory already has. If so, the order of the store does not matter.
 */
bool Races::changes_nothing(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes) const {
  if (ins.run == copy_async_handler() || ins.run == copy_bulk_handler()) {
    /* If another copy will write the same bytes, the values of that copy are compared. */
    const auto &copying = w.block->history->copying;
    for (uint32_t at = 0; copied_ && at < bytes; at += 4) {
      auto found = copying.find(spot.host + at);
      const std::byte *there = found == copying.end() ? spot.host + at : found->second.value.data();
      if (std::memcmp(there, copied_ + at, std::min(bytes - at, 4u)) != 0)
        return false;
    }
    return copied_ != nullptr;
  }
  if (!(ins.access & access_store))
    return false;
  uint32_t size = bytes / ins.count;
  for (uint32_t at = 0; at < bytes; at += std::min(size, 8u)) {
    OperandIndex op = ins.op[at / size] + static_cast<OperandIndex>(at % size / 8 * warp_size);
    uint64_t value = w.in(op)[lane];
    if (std::memcmp(spot.host + at, &value, std::min(size, 8u)) != 0)
      return false;
  }
  return true;
}

void Races::note_read(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, bool write) {
  ThreadHistory &thread = thread_of(w, lane);
  if (ins.access & access_update) {
    for (const auto &[what, where] : thread.reads)
      if (what == spot.host)
        speculative_.insert(where);
  } else if (!write && !(ins.access & access_strong)) {
    thread.reads[thread.next_read++ % thread.reads.size()] = {spot.host, w.pc};
  }
}

/* Returns whether both accesses are strong, and the scope of each of them includes the thread of the other access. */
bool Races::are_synchronizing(const PastAccess &one, const PastAccess &other) const {
  return (one.flags & other.flags & access_strong) && includes(scope_of(one), one.block, other.block) &&
         includes(scope_of(other), other.block, one.block);
}

static bool is_same_thread(const PastAccess &one, const PastAccess &other) {
  return one.bytes && one.block == other.block && one.thread == other.thread;
}

/*
 * Replaces a kept access by a new one. If one instruction has made both accesses, to different bytes of the cell, their
 * bytes are combined.
 */
static void keep(PastAccess &past, const PastAccess &now) {
  uint8_t earlier = 0;
  if (is_same_thread(past, now) && past.flags == now.flags && past.time == now.time && past.pc == now.pc)
    earlier = past.bytes;
  past = now;
  past.bytes |= earlier;
}

void Races::check(Warp &w, const Instruction &ins, uint32_t lane, Cell &cell, const PastAccess &now, const Spot &spot,
                  uint32_t bytes, bool write) {
  const ThreadHistory &thread = thread_of(w, lane);
  ThreadId who = id_of(w, lane);
  auto conflicts = [&](const PastAccess &past) {
    return (past.bytes & now.bytes) && !are_synchronizing(past, now) && !happens_before(past, who, thread);
  };
  if (conflicts(cell.write) && !(write && changes_nothing(w, ins, lane, spot, bytes)))
    report(w, ins, lane, cell.write, true, spot, bytes, write);
  else if (spot.space == shared_space && lacks_proxy_fence(ins, *w.block, cell.write))
    report(w, ins, lane, cell.write, true, spot, bytes, write, "no fence.proxy.async between the two");
  if (write) {
    for (PastAccess &read : cell.reads) {
      if (conflicts(read))
        report(w, ins, lane, read, false, spot, bytes, write);
      read.bytes &= static_cast<uint8_t>(~now.bytes);
    }
    keep(cell.write, now);
    return;
  }
  /*
   * A new read replaces an earlier read of the same thread, or a read that happens before the new one and accessed no
   * other bytes. If there is no such read, the new read replaces the second one.
   */
  for (PastAccess &read : cell.reads) {
    bool is_replaced = happens_before(read, who, thread) && !(read.bytes & ~now.bytes);
    if (!read.bytes || is_same_thread(read, now) || is_replaced) {
      keep(read, now);
      return;
    }
  }
  cell.reads[1] = now;
}

static uint8_t mask_of(uint64_t address, uint32_t bytes, uint64_t cell) {
  uint64_t from = std::max(address, cell) - cell, to = std::min(address + bytes, cell + 4) - cell;
  return static_cast<uint8_t>(((1u << to) - 1) & ~((1u << from) - 1));
}

void Races::shared(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, uint32_t offset, const Spot &spot,
                   uint32_t bytes, bool write) {
  if (&owner != w.block)
    check_remote(w, ins, lane, owner, spot, bytes, write);
  /* The key is a host address: unlike device addresses, which are the same in all blocks, host addresses are unique. */
  auto key = reinterpret_cast<uint64_t>(spot.host);
  if (ins.access & access_barrier)
    mbarriers_.insert(key);
  if (ins.run == copy_bulk_handler() && mbarriers_.count(key))
    return scratch(w, ins, lane, spot.host); /* no use of data: the copy names the mbarrier that counts its bytes */
  if (ins.access & access_strong)
    order(w, ins, lane, key, write);
  note_read(w, ins, lane, spot, write);
  if (!owner.history->copying.empty())
    check_copies(w, ins, lane, *owner.history, spot, bytes, write);
  ThreadId who = id_of(w, lane);
  for (uint32_t cell = offset / 4 * 4; cell < offset + bytes; cell += 4)
    check(w, ins, lane, owner.history->cells[cell / 4],
          {who.block, static_cast<uint16_t>(who.thread), mask_of(offset, bytes, cell), flags_of(ins),
           thread_of(w, lane).now, w.pc},
          spot, bytes, write);
}

void Races::copy_begins(Warp &w, const PendingCopy &copy) {
  ThreadId who = id_of(w, copy.lane);
  for (uint32_t at = 0; at < copy.bytes; at += 4) {
    Copying &copying = w.block->history->copying[copy.target + at];
    copying.write = {
        who.block, static_cast<uint16_t>(who.thread), 0xf, flags_of(*copy.place), thread_of(w, copy.lane).now, copy.pc};
    std::memcpy(copying.value.data(), copy.values.data() + at, 4);
  }
}

void Races::copy_ends(Warp &w, const PendingCopy &copy) {
  copied_ = copy.values.data();
  ThreadId who = id_of(w, copy.lane);
  auto &copying = w.block->history->copying;
  for (uint32_t at = 0; at < copy.bytes; at += 4)
    if (auto found = copying.find(copy.target + at); found != copying.end())
      if (const PastAccess &write = found->second.write; write.thread == who.thread && write.pc == copy.pc)
        copying.erase(found);
}

void Races::check_copies(Warp &w, const Instruction &ins, uint32_t lane, const BlockHistory &history, const Spot &spot,
                         uint32_t bytes, bool write) {
  if (ins.run == copy_async_handler())
    return;
  auto begin = reinterpret_cast<uint64_t>(spot.host) / 4 * 4;
  for (uint64_t at = begin; at < reinterpret_cast<uint64_t>(spot.host) + bytes; at += 4)
    if (auto found = history.copying.find(reinterpret_cast<const std::byte *>(at)); found != history.copying.end())
      return report(w, ins, lane, found->second.write, true, spot, bytes, write,
                    "no cp.async.wait_group by which its thread has waited for the copy");
}

void Races::check_remote(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, const Spot &spot, uint32_t bytes,
                         bool write) {
  ThreadHistory &thread = thread_of(w, lane);
  ThreadId who = id_of(w, lane);
  RemoteAccess access{w.block->rank, lane, w.index, &ins, spot, bytes, write, thread.now};
  if (!thread.clock || !thread.clock->blocks.count(owner.history->index))
    report_remote(w, owner, access, false);
  /* A relaxed read by another thread may see this access, and so order it before the end of the block. */
  bool may_be_seen = (ins.access & access_strong) && !(ins.access & access_release);
  if (!may_be_seen)
    owner.history->remote_accesses.insert_or_assign({who.block, who.thread}, access);
}

/*
 * A block's shared memory exists until the block's last thread ends. So each access by another block must happen before
 * the end of at least one thread of this block.
 */
void Races::ended(Unit &unit) {
  for (Block &owner : unit.blocks)
    for (const auto &[who, access] : owner.history->remote_accesses) {
      auto waited = [&, who = who, time = access.time](const ThreadHistory &thread) {
        return reaches(thread.clock, {who.first, who.second}, time);
      };
      const std::vector<ThreadHistory> &threads = owner.history->threads;
      if (std::none_of(threads.begin(), threads.end(), waited))
        report_remote(unit.blocks[access.rank].warps[access.warp], owner, access, true);
    }
}

Cell &Races::cell_of(uint64_t address) {
  std::unique_ptr<Page> &page = pages_[address / page_bytes];
  if (!page)
    page = std::make_unique<Page>();
  return (*page)[address % page_bytes / 4];
}

void Races::global(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write) {
  if (ins.access & access_strong)
    order(w, ins, lane, spot.address, write);
  note_read(w, ins, lane, spot, write);
  ThreadId who = id_of(w, lane);
  for (uint64_t cell = spot.address / 4 * 4; cell < spot.address + bytes; cell += 4)
    check(w, ins, lane, cell_of(cell),
          {who.block, static_cast<uint16_t>(who.thread), mask_of(spot.address, bytes, cell), flags_of(ins),
           thread_of(w, lane).now, w.pc},
          spot, bytes, write);
}

/*
 * Orders an access to the reserved memory, which cooperative groups use as a barrier: every access acquires and
 * releases.
 */
void Races::scratch(Warp &w, const Instruction &ins, uint32_t lane, const std::byte *host) {
  Instruction strong = ins;
  strong.access |= access_update | access_acquire | access_release;
  strong.set_scope(Scope::all);
  order(w, strong, lane, reinterpret_cast<uint64_t>(host), true);
}

void Races::forget(uint64_t address, uint64_t bytes) {
  for (uint64_t page = address / page_bytes; page <= (address + bytes) / page_bytes; ++page) {
    auto found = pages_.find(page);
    if (found == pages_.end())
      continue;
    for (uint64_t i = 0; i < page_bytes / 4; ++i)
      if (uint64_t at = page * page_bytes + i * 4; at >= address && at < address + bytes)
        (*found->second)[i] = {};
  }
}

void Races::finish() {
  for (auto &[read, one] : deferred_)
    if (!speculative_.count(read))
      checker_.find(std::move(one.fault), *one.place, one.other);
}

/* --- reports -------------------------------------------------------------------------------------------------- */

void Races::report_remote(Warp &w, const Block &owner, const RemoteAccess &access, bool has_begun) {
  std::string variable = checker_.variable_at(access.spot);
  std::string detail = variable + (variable.empty() ? "" : ", ") + "of block " + text_of(owner.index) + ", which may " +
                       (has_begun ? "have ended: none of its threads waits for this"
                                  : "not have begun: nothing orders this behind its beginning");
  Fault fault = w.place(FaultKind::race, *access.place, access.lane, std::move(detail));
  fault.address = access.spot.address;
  fault.access_bytes = access.bytes;
  fault.is_write = access.write;
  fault.space = access.spot.space;
  checker_.find(std::move(fault), *access.place, has_begun ? UINT64_MAX : UINT64_MAX - 1);
}

void Races::report(Warp &w, const Instruction &ins, uint32_t lane, const PastAccess &before, bool wrote,
                   const Spot &spot, uint32_t bytes, bool write, const char *missing) {
  const Instruction &other = grid_.program.code[before.pc];
  ThreadId who = id_of(w, lane);
  std::string variable = checker_.variable_at(spot);
  std::string detail = variable + (variable.empty() ? "" : ", ") + "which thread " +
                       text_of(index_in(grid_.launch.block, before.thread));
  if (before.block != who.block)
    detail += " of block " + text_of(index_in(grid_.launch.grid, before.block));
  else if (before.thread != who.thread && before.thread / warp_size == who.thread / warp_size)
    detail += " of the same warp";
  bool is_copy = other.run == copy_async_handler();
  detail += std::string(!wrote ? " read" : is_copy ? " copied" : " wrote") + " at" + lines_of(grid_.program, other);
  if (missing) {
    detail += std::string(", with ") + missing;
  } else if (before.flags & ins.access & access_strong) {
    Scope scope = includes(scope_of(ins), who.block, before.block) ? scope_of(before) : scope_of(ins);
    detail += std::string(", with a scope that leaves out the other's block: ") +
              (scope == Scope::block ? ".cta" : ".cluster");
  } else {
    detail += ", with nothing that orders the two";
  }
  Fault fault = w.place(FaultKind::race, ins, lane, std::move(detail));
  fault.address = spot.address;
  fault.access_bytes = bytes;
  fault.is_write = write;
  fault.space = spot.space;
  /* Which of the two accesses came first is random, so the report lists them in the order of the code. */
  const Instruction &first = before.pc < w.pc ? other : ins;
  uint64_t second = uint64_t{std::max(before.pc, w.pc)} + 1;
  bool is_of_update = wrote ? !write && (before.flags & access_update) : (ins.access & access_update) != 0;
  if (!is_of_update)
    return checker_.find(std::move(fault), first, second);
  uint32_t read = wrote ? w.pc : before.pc;
  auto [from, to] = deferred_.equal_range(read);
  bool is_known =
      std::any_of(from, to, [&](const auto &one) { return one.second.place == &first && one.second.other == second; });
  if (!is_known)
    deferred_.insert({read, {std::move(fault), &first, second}});
}

} // namespace sim::exec
