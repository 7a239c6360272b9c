/* SPDX-License-Identifier: Apache-2.0 */
/* Branches, calls, and ends. */
#include "sim/exec/grid.h"
#include "sim/isa/handlers.h"
#include "sim/exec/ops/lanes.h"

namespace sim::exec {

namespace {

void branch(Warp &w, const Instruction &ins, uint32_t lanes) { w.branch(lanes, ins.target); }

void branch_indexed(Warp &w, const Instruction &ins, uint32_t lanes) {
  const std::vector<uint32_t> &table = w.grid->program.branch_tables[ins.target];
  const uint64_t *index = w.in(ins.op[0]);
  std::array<uint32_t, warp_size> targets{};
  for_lanes(lanes, [&](uint32_t lane) {
    auto at = get<uint32_t>(index, lane);
    if (at >= table.size())
      w.fault(FaultKind::illegal_instruction, ins, lane,
              "branch target " + std::to_string(at) + " of " + std::to_string(table.size()));
    targets[lane] = table[at];
  });
  w.scatter(lanes, targets);
}

void call(Warp &w, const Instruction &ins, uint32_t lanes) { w.call(ins, lanes, static_cast<uint32_t>(ins.immediate)); }

void call_indirect(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *addresses = w.in(ins.op[0]);
  const Program &program = w.grid->program;
  uint32_t remaining = lanes;
  /* The addresses are copied first, because a call may change the registers that hold them. */
  std::array<uint64_t, warp_size> address;
  std::memcpy(address.data(), addresses, sizeof address);
  while (remaining) {
    auto first = static_cast<uint32_t>(__builtin_ctz(remaining));
    uint32_t same = 0;
    for_lanes(remaining, [&](uint32_t lane) { same |= uint32_t{address[lane] == address[first]} << lane; });
    remaining &= ~same;
    uint64_t function = (address[first] - function_address(program.id, 0)) >> 4;
    if (function >= program.functions.size() ||
        address[first] != function_address(program.id, static_cast<uint32_t>(function)))
      w.access_fault(FaultKind::illegal_instruction, ins, first, address[first], 0, false, "generic",
                     "a call of what is no function of this module");
    w.call(ins, same, static_cast<uint32_t>(function));
  }
}

void leave(Warp &w, const Instruction &, uint32_t lanes) { w.leave(lanes); }
void exit(Warp &w, const Instruction &, uint32_t lanes) { w.exit(lanes); }
void trap(Warp &w, const Instruction &ins, uint32_t lanes) {
  w.fault(FaultKind::trap, ins, static_cast<uint32_t>(__builtin_ctz(lanes)));
}
void sleep(Warp &w, const Instruction &ins, uint32_t lanes) { w.sleep(lanes, w.in(ins.op[0])); }

} // namespace

Handler branch_handler() { return branch; }
Handler branch_indexed_handler() { return branch_indexed; }
Handler call_handler() { return call; }
Handler call_indirect_handler() { return call_indirect; }
Handler return_handler() { return leave; }
Handler exit_handler() { return exit; }
Handler trap_handler() { return trap; }
Handler sleep_handler() { return sleep; }

} // namespace sim::exec
