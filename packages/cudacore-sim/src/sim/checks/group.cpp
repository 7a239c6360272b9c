/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of wgmma. The products of a group are complete only after the program has waited for the group. */
#include <algorithm>
#include <map>

#include "sim/exec/checker.h"
#include "sim/isa/handlers.h"
#include "sim/checks/race.h"

namespace sim::exec {

/* The wgmma instructions that a warp has executed, and the accumulators that may be incomplete. */
struct GroupWork {
  struct Sum {
    uint32_t group; /* number of the group of the product */
    const Instruction *product;
  };
  std::map<size_t, Sum> sums; /* the accumulators that may be incomplete, by their index in the warp's registers */
  uint32_t open = 0;          /* the number of the group that the next product joins */
  uint64_t products = 0;
  bool has_fenced = false;
  const Instruction *last = nullptr; /* the product that the warp executed last */
};

static GroupWork &work_of(Warp &w) {
  if (!w.group_work)
    w.group_work = std::make_shared<GroupWork>();
  return *w.group_work;
}

void Checker::group_orders(Warp &w, const Instruction &ins) {
  if (!checks_.sync)
    return;
  GroupWork &work = work_of(w);
  switch (static_cast<GroupOrder>(ins.mode)) {
  case GroupOrder::fence:
    work.has_fenced = true;
    return;
  case GroupOrder::commit:
    ++work.open;
    return;
  case GroupOrder::wait:
    for (auto sum = work.sums.begin(); sum != work.sums.end();)
      sum = sum->second.group + ins.immediate < work.open ? work.sums.erase(sum) : std::next(sum);
  }
}

void Checker::group_has_multiplied(Warp &w) {
  if (races_)
    races_->ends_reads(w);
}
void Checker::group_passes(Warp &w, uint32_t lanes) {
  if (races_)
    races_->awaits_reads(w, lanes);
}

void Checker::group_multiplies(Warp &w, const Instruction &ins, const GroupProduct &product) {
  if (!checks_.sync)
    return;
  GroupWork &work = work_of(w);
  uint32_t lane = static_cast<uint32_t>(__builtin_ctz(w.alive));
  if (w.index / group_warps * group_warps + group_warps > grid_.threads / warp_size)
    find(w.place(FaultKind::synchronization, ins, lane,
                 "four warps have to execute it, which begin with one whose number is a multiple of four, but the "
                 "block has " +
                     std::to_string(grid_.threads) + " threads"),
         ins);
  if (!work.has_fenced)
    find(w.place(FaultKind::synchronization, ins, lane,
                 "there is no wgmma.fence before the first wgmma.mma_async of the warp, which may find registers as "
                 "they were"),
         ins, 1);
  ++work.products;
  work.last = &ins;
  for (uint32_t i = 0; i < product.sums(); ++i)
    work.sums[w.place_of(product.tile.registers[i])] = {work.open, &ins};
}

/*
 * Reports an accumulator that an instruction of the program uses before it is complete. Moves are not reported, because
 * compilers move accumulators early; the destination then counts as an accumulator, too.
 */
void Checker::uses_accumulators(Warp &w, const Instruction &ins, const AccumulatorUse &use) {
  if (!checks_.sync || !w.group_work)
    return;
  std::map<size_t, GroupWork::Sum> &sums = w.group_work->sums;
  const OperandIndex to = use.moves ? ins.op[0] : no_operand;
  auto used = std::find_if(use.registers.begin(), use.registers.end(),
                           [&](OperandIndex one) { return one != to && sums.count(w.place_of(one)); });
  if (used == use.registers.end()) {
    if (use.moves)
      sums.erase(w.place_of(to));
    return;
  }
  const GroupWork::Sum sum = sums[w.place_of(*used)];
  if (use.moves) {
    sums[w.place_of(to)] = sum;
    return;
  }
  find(w.place(FaultKind::synchronization, ins, static_cast<uint32_t>(__builtin_ctz(w.active)),
               "a register that it uses is a sum of the wgmma.mma_async at" + lines_of(grid_.program, *sum.product) +
                   ", for whose group no wgmma.wait_group has waited"),
       ins);
}

/* Reports warps of a group that have executed different numbers of products. */
void Checker::groups_ended(Block &block) {
  auto count = [](const Warp &w) { return w.group_work ? w.group_work->products : 0; };
  auto less = [&](const Warp &a, const Warp &b) { return count(a) < count(b); };
  for (size_t first = 0; first + group_warps <= block.warps.size(); first += group_warps) {
    auto from = block.warps.begin() + static_cast<ptrdiff_t>(first), to = from + group_warps;
    auto [min, max] = std::minmax_element(from, to, less);
    if (count(*min) == count(*max))
      continue;
    const Instruction &ins = *max->group_work->last;
    find(max->place(FaultKind::synchronization, ins, 0,
                    "all four warps of a group have to execute it, but warp " + std::to_string(min->index) +
                        " has executed " + std::to_string(count(*min)) + " such products, and warp " +
                        std::to_string(max->index) + " " + std::to_string(count(*max))),
         ins, 2);
  }
}

} // namespace sim::exec
