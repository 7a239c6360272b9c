/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks the values that were loaded from memory that nobody wrote. */
#include "sim/exec/undefined.h"

namespace sim::exec {

void Undefined::Value::add(const Value &other, uint32_t of) {
  for (uint32_t rest = other.lanes & of & ~lanes; rest; rest &= rest - 1) {
    auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    load[lane] = other.load[lane];
  }
  lanes |= other.lanes & of;
}

/*
 * Returns the position of a value in the warp's array of masks. A slot holds one register or several predicates, so the
 * position of a register is that of the first mask of its slot.
 */
size_t Undefined::place_of(const Warp &w, OperandIndex value) {
  size_t frame = w.place_of(0) / warp_size * masks_in_slot;
  return value >= 0 ? frame + static_cast<size_t>(value) / warp_size * masks_in_slot
                    : frame + static_cast<size_t>(~value);
}

const Undefined::Value *Undefined::find(const Warp &w, OperandIndex value) const {
  auto found = values_.find(place_of(w, value));
  return found == values_.end() ? nullptr : &found->second;
}

uint32_t Undefined::lanes_of(const Warp &w, OperandIndex value) const {
  const Value *found = find(w, value);
  return found ? found->lanes : 0;
}

void Undefined::report(Warp &w, const Instruction &use, const Value &value, uint32_t lanes) {
  for_lanes(value.lanes & lanes, [&](uint32_t lane) {
    const Instruction &load = w.grid->program.code[value.load[lane]];
    const Access &access = accesses_.at(value.load[lane])[lane];
    w.grid->checker->reads_unwritten(w, load, lane, access.spot, access.bytes, &use);
  });
}

void Undefined::set(const Warp &w, OperandIndex value, uint32_t lanes, const Value &from) {
  size_t place = place_of(w, value);
  auto found = values_.find(place);
  if (found == values_.end()) {
    if ((from.lanes & lanes) == 0)
      return;
    found = values_.emplace(place, Value{}).first;
  }
  found->second.lanes &= ~lanes;
  found->second.add(from, lanes);
  if (found->second.lanes == 0)
    values_.erase(found);
}

Undefined::Value Undefined::result(const Warp &w, const Instruction &ins, const DataFlow &flow) const {
  const OperandIndex *reads = w.grid->program.values.data() + flow.begin;
  Value value;
  auto add = [&](OperandIndex operand, uint32_t of) {
    if (const Value *found = find(w, operand))
      value.add(*found, of);
  };
  if (flow.flow == Flow::selects && ins.op[3] >= 0) {
    OperandIndex condition = ~(ins.op[3] >> 1);
    uint32_t unknown = lanes_of(w, condition), first = w.predicate(ins.op[3]);
    add(condition, all_lanes);
    if (ins.op[1] >= 0)
      add(ins.op[1], first | unknown);
    if (ins.op[2] >= 0)
      add(ins.op[2], ~first | unknown);
    return value;
  }
  for (uint16_t i = 0; i < flow.reads; ++i)
    add(reads[i], all_lanes);
  if (flow.flow == Flow::ands || flow.flow == Flow::ors)
    for (size_t i = 1; i <= 2; ++i) {
      uint32_t undefined = ins.op[i] >= 0 ? lanes_of(w, ~(ins.op[i] >> 1)) : 0;
      uint32_t decides = flow.flow == Flow::ands ? ~w.predicate(ins.op[i]) : w.predicate(ins.op[i]);
      value.lanes &= ~(decides & ~undefined);
    }
  return value;
}

void Undefined::before(Warp &w, const Instruction &ins, uint32_t lanes) {
  if (values_.empty())
    return;
  if (ins.guard >= 0)
    if (const Value *condition = find(w, ~(ins.guard >> 1)))
      report(w, ins, *condition, w.active);
  if (!lanes)
    return;
  const DataFlow &flow = w.grid->program.flows[w.pc];
  const OperandIndex *reads = w.grid->program.values.data() + flow.begin, *writes = reads + flow.reads;
  Value value;
  if (flow.flow == Flow::uses || flow.flow == Flow::loads) {
    for (uint16_t i = 0; i < flow.reads; ++i)
      if (const Value *found = find(w, reads[i]))
        report(w, ins, *found, lanes);
  } else {
    value = result(w, ins, flow);
  }
  for (uint16_t i = 0; i < flow.writes; ++i)
    set(w, writes[i], lanes, value);
}

void Undefined::loads(Warp &w, uint32_t lane, const Spot &spot, uint32_t bytes) {
  accesses_[w.pc][lane] = {spot, bytes};
  Value value;
  value.lanes = 1u << lane;
  value.load[lane] = w.pc;
  const DataFlow &flow = w.grid->program.flows[w.pc];
  const OperandIndex *writes = w.grid->program.values.data() + flow.begin + flow.reads;
  for (uint16_t i = 0; i < flow.writes; ++i)
    set(w, writes[i], value.lanes, value);
}

void Undefined::leaves(uint32_t lanes, size_t slot) {
  for (auto at = values_.begin(); at != values_.end();) {
    if (at->first >= slot * masks_in_slot)
      at->second.lanes &= ~lanes;
    at = at->second.lanes ? std::next(at) : values_.erase(at);
  }
}

} // namespace sim::exec
