/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/checks/race.h"

#include <algorithm>

#include "sim/isa/handlers.h"

namespace sim::exec {

static_assert(access_acquire == 2 && access_release == 4); /* in PastAccess::flags, these bits hold the scope */
static uint8_t flags_of(const Instruction &ins) {
  return static_cast<uint8_t>((ins.access & (access_strong | access_update)) | static_cast<uint8_t>(scope_of(ins))
                                                                                   << 1);
}
static Scope scope_of(const PastAccess &past) { return static_cast<Scope>(past.flags >> 1 & 3); }

constexpr uint16_t by_copy = 0x8000, write_by_copy = 0x4000; /* in PastAccess::thread */
static uint32_t issuer_of(const PastAccess &past) { return past.thread & ~(by_copy | write_by_copy); }

static bool is_bulk_copy(const Instruction &ins) {
  return ins.run == copy_bulk_handler() || ins.run == tensor_copy_handler();
}

static bool reaches(const VectorClockPtr &clock, ThreadId who, LogicalTime time) {
  if (!clock)
    return false;
  auto found = clock->blocks.find(who.block);
  return found != clock->blocks.end() && (*found->second)[who.thread] >= time;
}

bool Races::happens_before(const PastAccess &past, ThreadId who, const ThreadHistory &thread) const {
  return (past.block == who.block && past.thread == who.thread) || happens_before(past, thread.clock);
}

bool Races::happens_before(const PastAccess &past, const VectorClockPtr &clock) const {
  uint32_t copy = threads() + ((past.thread & write_by_copy) != 0);
  return reaches(clock, {past.block, (past.thread & by_copy) != 0 ? copy : past.thread}, past.time);
}

PastAccess Races::access_of(Warp &w, const Instruction &ins, uint32_t lane, uint8_t bytes, bool write) {
  ThreadId who = id_of(w, lane);
  auto thread = static_cast<uint16_t>(who.thread);
  LogicalTime time = thread_of(w, lane).now;
  if (is_bulk_copy(ins)) {
    thread |= write ? by_copy | write_by_copy : by_copy;
    time = w.block->history->bulk_now[write];
  }
  return {who.block, thread, bytes, flags_of(ins), time, w.pc};
}

/* Ends a group of bulk copies, or orders the lanes after the copies of their groups: only after their reads, or all. */
void Races::bulk_group(Warp &w, const Instruction &ins, uint32_t lanes) {
  CopyTimes &now = w.block->history->bulk_now;
  for_lanes(lanes, [&](uint32_t lane) {
    ThreadHistory &thread = thread_of(w, lane);
    auto pending = static_cast<size_t>(ins.immediate);
    if (static_cast<BulkGroup>(ins.mode) == BulkGroup::commit) {
      thread.bulk_groups.push_back(now);
      for (LogicalTime &time : now)
        ++time;
    } else if (thread.bulk_groups.size() > pending) {
      bool only_reads = static_cast<BulkGroup>(ins.mode) == BulkGroup::wait_read;
      auto end = thread.bulk_groups.end() - static_cast<ptrdiff_t>(pending);
      ClockJoin both;
      both.add(thread.clock);
      both.add({w.block->history->index, threads()}, (*(end - 1))[0]);
      if (!only_reads) {
        both.add({w.block->history->index, threads() + 1}, (*(end - 1))[1]);
        thread.bulk_groups.erase(thread.bulk_groups.begin(), end);
      }
      thread.clock = both.result(clock_size());
    }
  });
}

/*
 * Returns whether a fence.proxy.async is missing between a write and a wgmma or a bulk copy that reads the written
 * memory. Stores write through the generic proxy, and wgmma and these copies read through the async proxy, so that
 * without a fence, they may read old values. The fence must be executed by the thread that wrote or by a thread that is
 * ordered after the write. What bulk and tensor copies write needs no fence. Whether what cp.async writes needs one is
 * not checked.
 */
bool Races::lacks_proxy_fence(const Instruction &ins, const Block &owner, const PastAccess &write) const {
  bool is_of_async_proxy = ins.run == group_product_handler() || is_bulk_copy(ins);
  if (!is_of_async_proxy || !write.bytes || (write.flags & access_strong) || (write.thread & by_copy) ||
      grid_.program.code[write.pc].run == copy_async_handler())
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
  if (ins.run == copy_async_handler() || is_bulk_copy(ins)) {
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
  else if (!write && spot.space == shared_space && lacks_proxy_fence(ins, *w.block, cell.write))
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
  if (ins.access & access_strong)
    order(w, ins, lane, owner.history->released, reinterpret_cast<uint64_t>(spot.host), write);
  note_read(w, ins, lane, spot, write);
  if (!owner.history->copying.empty())
    check_copies(w, ins, lane, *owner.history, spot, bytes, write);
  for (uint32_t cell = offset / 4 * 4; cell < offset + bytes; cell += 4)
    check(w, ins, lane, owner.history->cells[cell / 4], access_of(w, ins, lane, mask_of(offset, bytes, cell), write),
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
    order(w, ins, lane, released_, spot.address, write);
  note_read(w, ins, lane, spot, write);
  for (uint64_t cell = spot.address / 4 * 4; cell < spot.address + bytes; cell += 4)
    check(w, ins, lane, cell_of(cell), access_of(w, ins, lane, mask_of(spot.address, bytes, cell), write), spot, bytes,
          write);
}

/*
 * Orders an access to the reserved memory, which cooperative groups use as a barrier: every access acquires and
 * releases.
 */
void Races::scratch(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, const std::byte *host) {
  Instruction strong = ins;
  strong.access |= access_update | access_acquire | access_release;
  strong.set_scope(Scope::all);
  order(w, strong, lane, owner.history->released, reinterpret_cast<uint64_t>(host), true);
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
                       text_of(index_in(grid_.launch.block, issuer_of(before)));
  if (before.block != who.block)
    detail += " of block " + text_of(index_in(grid_.launch.grid, before.block));
  else if (issuer_of(before) != who.thread && issuer_of(before) / warp_size == who.thread / warp_size)
    detail += " of the same warp";
  bool is_copy = other.run == copy_async_handler() || is_bulk_copy(other);
  detail += std::string(!wrote ? " read" : is_copy ? " copied" : " wrote") + " at" + lines_of(grid_.program, other);
  if (missing) {
    detail += std::string(", with ") + missing;
  } else if (before.flags & ins.access & access_strong) {
    Scope scope = includes(scope_of(ins), who.block, before.block) ? scope_of(before) : scope_of(ins);
    detail += std::string(", with a scope that leaves out the other's block: ") +
              (scope == Scope::block ? ".cta" : ".cluster");
  } else if (before.thread & by_copy) {
    detail += ", with nothing that waits for this copy";
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
