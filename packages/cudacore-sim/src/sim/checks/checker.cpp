/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of synchronization and of initialization, and the functions that all checks share. */
#include "sim/exec/checker.h"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>

#include "sim/isa/handlers.h"
#include "sim/exec/heap.h"
#include "sim/checks/race.h"
#include "sim/checks/touch.h"
#include "sim/exec/undefined.h"

namespace sim::exec {

namespace {

constexpr size_t max_findings = 100; /* maximum number of findings that are reported for one launch */

uint32_t lane_of(uint32_t lanes) { return static_cast<uint32_t>(__builtin_ctz(lanes)); }
uint32_t count_of(uint32_t lanes) { return static_cast<uint32_t>(__builtin_popcount(lanes)); }

/* Returns the readable form of a variable's mangled name: _ZZ4kernE4tile is kern::tile. */
std::string demangled(const std::string &symbol) {
  int status = 0;
  char *name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string text = status == 0 ? name : symbol;
  std::free(name);
  return text;
}

std::string mask_text(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

} // namespace

std::string lines_of(const Program &program, const Instruction &ins) {
  std::string text;
  auto file = program.files.find(ins.source_file);
  if (ins.source_line && file != program.files.end())
    text += " [" + file->second + ":" + std::to_string(ins.source_line) + "]";
  return text + " [PTX line " + std::to_string(ins.line) + "]";
}

std::string text_of(const Dim3 &at) {
  return "(" + std::to_string(at[0]) + "," + std::to_string(at[1]) + "," + std::to_string(at[2]) + ")";
}

Checker::Checker(Grid &grid) : grid_(grid), checks_(grid.launch.checks) {
  if (checks_.race)
    races_ = std::make_unique<Races>(grid, *this);
}

Checker::~Checker() = default;

Touches *Checker::new_touches() {
  if (!checks_.order || !grid_.launch.touched)
    return nullptr;
  std::lock_guard<std::mutex> hold(lock_);
  return touches_.emplace_back(std::make_unique<Touches>()).get();
}

void Checker::find(Fault what, const Instruction &ins, uint64_t other) {
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (found_.size() >= max_findings || !found_.insert({&ins, other}).second)
      return;
  }
  if (grid_.launch.found)
    grid_.launch.found(what);
}

void Checker::begins(Block &block) {
  if (checks_.init)
    block.written.assign(block.shared.size(), std::byte{0});
  if (races_)
    races_->begins(block);
  if (checks_.init || checks_.race)
    block.unchecked_bytes = 0;
}

void Checker::ended(Unit &unit) {
  if (checks_.sync)
    for (Block &block : unit.blocks)
      groups_ended(block);
  if (races_)
    races_->ended(unit);
}

void Checker::finish() {
  if (races_)
    races_->finish();
  if (touches_.empty())
    return;
  std::shared_ptr<Touches> all = std::move(touches_.front());
  for (size_t i = 1; i < touches_.size(); ++i)
    all->merge(std::move(*touches_[i]));
  auto place = [all, module = grid_.launch.instance->module](uint64_t address, bool write) {
    int64_t pc = all->place(address, write);
    return pc < 0 ? "" : lines_of(module->program, module->program.code[static_cast<size_t>(pc)]);
  };
  grid_.launch.touched(std::make_shared<const Touched>(Touched{all->ranges(), place}));
}

std::string Checker::variable_at(const Spot &spot) const {
  if (spot.space != shared_space)
    return {};
  auto offset = static_cast<uint32_t>(spot.address & ((1u << shared_rank_shift) - 1)) - grid_.launch.shared_reserved;
  const SharedLayout &layout = grid_.kernel.shared;
  for (const auto &[variable, start] : layout.offsets) {
    const SharedVariable &one = grid_.program.shared_variables[variable];
    uint64_t size = one.is_dynamic ? grid_.shared_bytes - start : one.size;
    if (offset - start < size && offset >= start)
      return "'" + demangled(one.name) + "'" + (offset == start ? "" : " + " + std::to_string(offset - start));
  }
  return {};
}

/* --- synchronization ------------------------------------------------------------------------------------------ */

void Checker::names(Warp &w, uint32_t lanes, uint32_t members) {
  uint32_t unnamed = lanes & ~members;
  if (!checks_.sync || !unnamed)
    return;
  const Instruction &ins = grid_.program.code[w.pc];
  uint32_t lane = lane_of(unnamed);
  find(w.place(FaultKind::synchronization, ins, lane,
               "the mask " + mask_text(members) + " does not name the lane that gives it, " + std::to_string(lane)),
       ins);
}

/* Reports a lane once: at the first instruction that names it after it went elsewhere and ended. */
void Checker::gathers(Warp &w, uint32_t members, uint32_t present, bool orders) {
  if (races_ && orders)
    races_->synchronizes_warp(w, present);
  uint32_t missed = members & w.strayed;
  if (!checks_.sync || !missed)
    return;
  w.strayed &= ~missed;
  const Instruction &ins = grid_.program.code[w.pc];
  find(w.place(FaultKind::synchronization, ins, lane_of(present),
               "the mask " + mask_text(members) + " names lane " + std::to_string(lane_of(missed)) +
                   ", which never came: it ended at" + lines_of(grid_.program, w.instruction_of(lane_of(missed)))),
       ins);
}

void Checker::aligned(Warp &w, const Instruction &ins, uint32_t present) {
  if (!checks_.sync || present == all_lanes)
    return;
  find(w.place(FaultKind::synchronization, ins, lane_of(present),
               "all 32 threads of a warp have to execute it together, but lane " + std::to_string(lane_of(~present)) +
                   " has ended or never was"),
       ins);
}

void Checker::comes(Warp &w, uint32_t lanes, uint32_t number, uint32_t expected) {
  const Barrier &barrier = w.block->barriers[number];
  if (!checks_.sync || !barrier.in_use || barrier.expected == expected)
    return;
  const Instruction &ins = grid_.program.code[w.pc];
  auto threads = [](uint32_t count) {
    return count ? std::to_string(count) + " threads" : std::string("all threads of the block");
  };
  std::string other; /* where other lanes wait; empty if the other lanes arrived without waiting */
  for (Warp &one : w.block->warps)
    for_lanes(one.waiting(Warp::Wait::barrier), [&](uint32_t lane) {
      if (other.empty() && one.barrier[lane] == number)
        other = " at" + lines_of(grid_.program, one.instruction_of(lane));
    });
  find(w.place(FaultKind::synchronization, ins, lane_of(lanes),
               "barrier " + std::to_string(number) + " is one of " + threads(expected) +
                   " here, while others have come to it as one of " + threads(barrier.expected) + other),
       ins);
}

void Checker::arrives(Warp &w, uint32_t lanes, uint32_t number) {
  if (races_)
    races_->arrives(w, lanes, number);
}

void Checker::completes(Block &block, uint32_t number, const Barrier &done) {
  for (Warp &w : block.warps) {
    uint32_t waiting = 0;
    for_lanes(w.waiting(Warp::Wait::barrier),
              [&](uint32_t lane) { waiting |= uint32_t{w.barrier[lane] == number} << lane; });
    if (races_)
      races_->passes(w, waiting, number);
    uint32_t aligned = 0;
    for_lanes(waiting, [&](uint32_t lane) {
      aligned |= uint32_t{(w.instruction_of(lane).access & access_aligned) != 0} << lane;
    });
    if (!checks_.sync || !aligned)
      continue;
    uint32_t first = lane_of(aligned), elsewhere = 0;
    const Instruction &ins = w.instruction_of(first);
    for_lanes(waiting, [&](uint32_t lane) { elsewhere |= uint32_t{w.pc_of(lane) != w.pc_of(first)} << lane; });
    uint32_t began = std::min(warp_size, grid_.threads - w.index * warp_size);
    uint32_t missing = (began == warp_size ? all_lanes : (1u << began) - 1) & ~done.arrived[w.index];
    std::string barrier = "barrier " + std::to_string(number) + " is one that all threads of a warp execute together";
    if (elsewhere)
      find(w.place(FaultKind::synchronization, ins, first,
                   barrier + ", but lane " + std::to_string(lane_of(elsewhere)) + " waits for it at" +
                       lines_of(grid_.program, w.instruction_of(lane_of(elsewhere)))),
           ins);
    else if (missing)
      find(w.place(FaultKind::synchronization, ins, first,
                   barrier + ", but " + std::to_string(count_of(missing)) + " of this one, lane " +
                       std::to_string(lane_of(missing)) + " the first, never came: they ended at" +
                       lines_of(grid_.program, w.instruction_of(lane_of(missing)))),
           ins);
  }
  if (races_)
    races_->completes(block, number);
}

void Checker::arrives_at_cluster(Warp &w, uint32_t lanes) {
  if (races_)
    races_->arrives_at_cluster(w, lanes);
}
void Checker::passes_cluster(Warp &w, uint32_t lanes) {
  if (races_)
    races_->passes_cluster(w, lanes);
}
void Checker::fences(Warp &w, const Instruction &ins, uint32_t lanes) {
  if (races_)
    races_->fences(w, ins, lanes);
}

/* --- accesses ------------------------------------------------------------------------------------------------- */

/*
 * Checks that the memory of a read was written. A read is not reported if at least one of its bytes was written:
 * compilers copy structures with their padding, and load more than they need. Asynchronous copies do not use the
 * values: what they copy from unwritten memory is unwritten in the destination, too.
 */
void Checker::initialised(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write,
                          std::byte unwritten) {
  if (!checks_.init || !spot.written)
    return;
  bool is_update = (ins.access & access_update) && !(ins.access & access_replace);
  /* A tensor copy reads its tensor map in larger parts than those that it moves, and uses these bytes. */
  bool is_copy =
      (ins.run == copy_async_handler() || ins.run == copy_bulk_handler() || ins.run == tensor_copy_handler()) &&
      bytes <= w.moving.size() - w.moving_at;
  std::byte *moving = w.moving.data() + w.moving_at;
  if (is_copy && !write) {
    for (uint32_t i = 0; i < bytes; ++i)
      moving[i] = std::byte{spot.written[i] != unwritten};
    return;
  }
  if (is_update || !write) {
    bool any = std::any_of(spot.written, spot.written + bytes, [&](std::byte one) { return one != unwritten; });
    if (!any && w.undefined && grid_.program.flows[w.pc].flow == Flow::loads)
      w.undefined->loads(w, lane, spot, bytes);
    else if (!any)
      reads_unwritten(w, ins, lane, spot, bytes, nullptr);
  }
  for (uint32_t i = 0; write && i < bytes; ++i)
    spot.written[i] = is_copy && !is_update && moving[i] == std::byte{0} ? unwritten : std::byte{1};
}

void Checker::reads_unwritten(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes,
                              const Instruction *use) {
  std::string detail = variable_at(spot);
  if (use)
    detail += (detail.empty() ? "" : ", ") + ("used at" + lines_of(grid_.program, *use)) + ", read at";
  Fault fault = w.place(FaultKind::unwritten, ins, lane, std::move(detail));
  fault.address = spot.address;
  fault.access_bytes = bytes;
  fault.space = spot.space;
  find(std::move(fault), ins);
}

void Checker::global(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write) {
  initialised(w, ins, lane, spot, bytes, write);
  if (races_)
    races_->global(w, ins, lane, spot, bytes, write);
  if (Touches *touches = w.block->unit->touches)
    touches->add(w, ins, spot.address, bytes, write);
}

/*
 * Records an access to memory that does not exist, for the order check: the program may have failed to order the access
 * after the allocation of the memory, or before its free.
 */
void Checker::misses(Warp &w, const Instruction &ins, uint64_t address, uint32_t bytes, bool write) {
  if (Touches *touches = w.block->unit->touches)
    touches->add(w, ins, address, bytes, write);
}

void Checker::heap(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write) {
  if (checks_.init && spot.written) {
    auto is_not = [&](std::byte state) {
      return std::find(spot.written, spot.written + bytes, state) != spot.written + bytes;
    };
    bool is_freed = is_not(Heap::freed), is_outside = is_not(Heap::outside);
    if (is_freed || is_outside) {
      Fault fault = w.place(FaultKind::freed, ins, lane,
                            is_freed ? "it was given back by free()" : "it is in nothing that malloc() gave");
      fault.address = spot.address;
      fault.access_bytes = bytes;
      fault.space = spot.space;
      fault.is_write = write;
      find(std::move(fault), ins, 1);
    } else {
      initialised(w, ins, lane, spot, bytes, write, Heap::new_);
    }
  }
  if (races_)
    races_->global(w, ins, lane, spot, bytes, write);
}

void Checker::local(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write) {
  initialised(w, ins, lane, spot, bytes, write);
}

void Checker::frame(Warp &w, const Instruction &ins, uint32_t lanes, uint32_t bytes, bool write) {
  if (!checks_.init)
    return;
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t at = w.local_base[lane] + static_cast<uint64_t>(ins.immediate);
    initialised(w, ins, lane, {"local", at, w.local(lane) + at, w.local_written(lane) + at}, bytes, write);
  });
}

static Spot shared_spot(Block &owner, uint32_t offset) {
  return {shared_space, uint64_t{owner.shared_begin} + offset, owner.shared.data() + offset,
          owner.written.empty() ? nullptr : owner.written.data() + offset};
}

void Checker::shared(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, uint32_t offset, uint32_t bytes,
                     bool write) {
  Spot spot = shared_spot(owner, offset);
  initialised(w, ins, lane, spot, bytes, write);
  if (races_)
    races_->shared(w, ins, lane, owner, offset, spot, bytes, write);
}

void Checker::scratch(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, const std::byte *host) {
  if (races_)
    races_->scratch(w, ins, lane, owner, host);
}

void Checker::copies(const std::byte *what) {
  if (races_)
    races_->copies(what);
}

void Checker::bulk_group(Warp &w, const Instruction &ins, uint32_t lanes) {
  if (races_)
    races_->bulk_group(w, ins, lanes);
}

void Checker::copy_begins(Warp &w, const PendingCopy &copy) {
  if (races_)
    races_->copy_begins(w, copy);
}

void Checker::copy_ends(Warp &w, const PendingCopy &copy) {
  if (!races_)
    return;
  races_->copy_ends(w, copy);
  auto offset = static_cast<uint64_t>(copy.target - w.block->shared.data());
  if (offset < w.block->shared.size()) { /* the destination is in the shared memory of this block */
    auto at = static_cast<uint32_t>(offset);
    races_->shared(w, *copy.place, copy.lane, *w.block, at, shared_spot(*w.block, at), copy.bytes, true);
  }
  races_->copies(nullptr);
}

void Checker::allocates(uint64_t address, uint64_t bytes) {
  if (races_)
    races_->forget(address, bytes);
}

} // namespace sim::exec
