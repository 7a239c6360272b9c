/* SPDX-License-Identifier: Apache-2.0 */
#include <algorithm>
#include <chrono>

#include "sim/exec/undefined.h"
#include "sim/exec/checker.h"
#include "sim/isa/handlers.h"

namespace sim::exec {

namespace {
constexpr int64_t group_turn = 16384;            /* instructions of a group before another group can run */
constexpr uint32_t poll_limit = 4;               /* number of signs of waiting after which another group is chosen */
constexpr size_t max_register_slots = 1u << 18;  /* 64 MiB of registers: about 10,000 nested calls */
constexpr uint32_t longest_sleep = 1'000'000;    /* nanoseconds */
constexpr size_t max_local_bytes = 512u * 1024u; /* maximum local memory of a thread, as on a GPU */
} // namespace

void Warp::start(Block &of, uint32_t warp_index, uint32_t lanes) {
  block = &of;
  grid = of.unit->grid;
  index = warp_index;
  constants = grid->program.constants.data();
  alive = lanes == warp_size ? all_lanes : (1u << lanes) - 1;
  active = 0;
  carries = 0;
  leaving = strayed = 0;
  stores = 0;
  range = Range{0, 0, nullptr, false, 0};
  found = nullptr;
  cluster_arrived = 0;
  group_begun = group_made = 0;
  awaits_group = false;
  group_work.reset();
  copies.clear();
  copy_groups.fill(0);
  blocked_ = 0;
  apart_ = parted_ = 0;
  waiting_.fill(0);
  polls_ = 0;
  rotate_ = false;
  clock_ = 0;
  const Function &function = grid->function;
  lane_pc_.fill(function.entry);
  base_.fill(0);
  last_run_.fill(0);
  executed_.fill(0);
  local_base.fill(0);
  local_top.fill(function.frame_bytes);
  for (auto &stack : stack_)
    stack.clear();
  reserve_registers(function.slots);
  reserve_local(function.frame_bytes);
  if (grid->launch.checks.init)
    local_written_.assign(local_stride_ * warp_size, std::byte{0});
  else
    local_written_.clear();
  undefined = grid->launch.checks.init ? std::make_shared<Undefined>() : nullptr;
}

template <bool IsWatched> void Warp::run_group() {
  const Instruction *code = grid->program.code.data();
  do {
    const Instruction &ins = code[pc];
    next = pc + 1;
    uint32_t lanes = active;
    if (ins.guard != no_operand)
      lanes &= predicate(ins.guard);
    if constexpr (IsWatched)
      undefined->before(*this, ins, lanes);
    if (lanes)
      ins.run(*this, ins, lanes);
    pc = next;
    --group_budget_;
  } while (pc < limit_);
}

Warp::Result Warp::run(int64_t turn) {
  budget_ = turn;
  yielded_ = false;
  while (select()) {
    if (undefined)
      run_group<true>();
    else
      run_group<false>();
    store_group();
    if (yielded_ || budget_ <= 0)
      break;
  }
  if (!alive)
    return Result::finished;
  return can_run() ? Result::yielded : Result::blocked;
}

/* Chooses the group that runs next. Returns false if no lane can run. */
bool Warp::select() {
  uint32_t runnable = alive & ~blocked_;
  if (!runnable) {
    part();
    runnable = alive & ~blocked_;
  }
  if (!runnable)
    return false;
  auto leader = static_cast<uint32_t>(__builtin_ctz(runnable));
  for (uint32_t rest = runnable & (runnable - 1); rest; rest &= rest - 1) {
    auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    bool better;
    if (rotate_)
      better = last_run_[lane] < last_run_[leader];
    else if (stack_[lane].size() != stack_[leader].size())
      better = stack_[lane].size() > stack_[leader].size();
    else
      better = lane_pc_[lane] < lane_pc_[leader];
    if (better)
      leader = lane;
  }
  pc = lane_pc_[leader];
  uint32_t base = base_[leader];
  active = 0;
  limit_ = UINT32_MAX;
  for (uint32_t rest = runnable; rest; rest &= rest - 1) {
    auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    if (base_[lane] != base)
      continue;
    if (lane_pc_[lane] == pc)
      active |= 1u << lane;
    else if (lane_pc_[lane] > pc && lane_pc_[lane] < limit_)
      limit_ = lane_pc_[lane];
  }
  group_ = active;
  frame = registers_.data() + static_cast<size_t>(base) * warp_size;
  rotate_ = false;
  group_start_ = group_budget_ = std::min(group_turn, std::max<int64_t>(budget_, 1));
  return true;
}

/* Stores the state of the running group, and decides whether the groups have to take turns. */
void Warp::store_group() {
  int64_t done = group_start_ - group_budget_;
  budget_ -= done;
  ++clock_;
  for_lanes(active, [&](uint32_t lane) { lane_pc_[lane] = pc; });
  /* Lanes that have left the group by a branch or a call also count as having run in this turn. */
  for_lanes(group_, [&](uint32_t lane) {
    last_run_[lane] = clock_;
    executed_[lane] += static_cast<uint64_t>(done);
  });
  uint64_t limit = grid->launch.instruction_limit;
  if (limit) {
    auto lane = static_cast<uint32_t>(__builtin_ctz(group_));
    if (executed_[lane] > limit)
      fault(FaultKind::hang, instruction_of(lane), lane, "the limit of " + std::to_string(limit) + " instructions");
  }
  if (polls_ >= poll_limit || group_budget_ <= 0) {
    bool others = (alive & ~blocked_ & ~active) != 0;
    rotate_ = others;
    yielded_ = yielded_ || polls_ >= poll_limit;
    polls_ = 0;
  }
  active = 0;
}

void Warp::yield() {
  polls_ = poll_limit;
  limit_ = 0;
}

const Instruction &Warp::instruction_of(uint32_t lane) const { return grid->program.code[lane_pc_[lane]]; }

void Warp::branch(uint32_t lanes, uint32_t target) {
  /* Only a backward branch ends the turn, because code without loops is short. */
  if (target <= pc && (group_budget_ <= 0 || polls_ >= poll_limit))
    limit_ = 0;
  if (lanes == active) {
    next = target;
    return;
  }
  for_lanes(lanes, [&](uint32_t lane) { lane_pc_[lane] = target; });
  record_leaving(lanes);
  active &= ~lanes;
  limit_ = 0;
}

/* Records which of the running lanes only end now that these lanes part from the others. */
void Warp::record_leaving(uint32_t lanes) {
  if (!grid->launch.checks.sync)
    return;
  for_lanes(active & ~lanes, [&](uint32_t lane) { lane_pc_[lane] = pc + 1; });
  leaving &= ~active;
  for_lanes(active, [&](uint32_t lane) { leaving |= uint32_t{is_ending(lane)} << lane; });
}

void Warp::scatter(uint32_t lanes, const std::array<uint32_t, warp_size> &targets) {
  for_lanes(lanes, [&](uint32_t lane) { lane_pc_[lane] = targets[lane]; });
  record_leaving(lanes);
  active &= ~lanes;
  limit_ = 0;
}

bool Warp::is_ending(uint32_t lane) {
  constexpr uint32_t max_jumps = 4;
  uint32_t at = lane_pc_[lane];
  for (uint32_t i = 0; i < max_jumps; ++i) {
    const Instruction &ins = grid->program.code[at];
    bool is_left_out = false;
    if (ins.guard >= 0) {
      uint32_t mask = reinterpret_cast<const uint32_t *>(frame_of(lane))[ins.guard >> 1];
      is_left_out = ((mask >> lane ^ static_cast<uint32_t>(ins.guard)) & 1) == 0;
    }
    if (is_left_out)
      ++at;
    else if (ins.run == branch_handler())
      at = ins.target;
    else
      return ins.run == exit_handler() || (ins.run == return_handler() && stack_[lane].empty());
  }
  return false;
}

/*
 * Completes asynchronous copies as late as possible, at the wait of their thread. The hardware may complete a copy at
 * any time until then, so this exposes missing waits.
 */
void Warp::complete_copies(uint32_t lanes, int64_t pending_groups) {
  auto is_awaited = [&](const PendingCopy &copy) {
    return (lanes >> copy.lane & 1) != 0 &&
           (pending_groups < 0 || copy.group + pending_groups < int64_t{copy_groups[copy.lane]});
  };
  uint32_t here = pc;
  for (const PendingCopy &copy : copies) {
    if (!is_awaited(copy))
      continue;
    pc = copy.pc;
    if (grid->checker)
      grid->checker->copy_ends(*this, copy);
    for (uint32_t at = 0; at < copy.bytes; at += 4) {
      uint32_t word;
      std::memcpy(&word, copy.values.data() + at, sizeof word);
      __atomic_store_n(reinterpret_cast<uint32_t *>(copy.target + at), word, __ATOMIC_RELAXED);
    }
  }
  pc = here;
  copies.erase(std::remove_if(copies.begin(), copies.end(), is_awaited), copies.end());
}

void Warp::exit(uint32_t lanes) {
  if (!copies.empty())
    complete_copies(lanes, -1);
  if (grid->launch.checks.sync) {
    for_lanes(lanes, [&](uint32_t lane) { lane_pc_[lane] = pc; });
    if (active & ~lanes) /* the others continue, because of the guard of the return */
      leaving |= lanes;
    strayed |= lanes & ~leaving;
  }
  alive &= ~lanes;
  active &= ~lanes;
  limit_ = 0;
  /* Lanes that wait for other lanes must check again, because the lanes that have ended no longer count. */
  release(waiting(Wait::warp), false);
  block->unit->lanes_ended(*block);
}

void Warp::wait(uint32_t lanes, Wait why) {
  for_lanes(lanes, [&](uint32_t lane) { lane_pc_[lane] = pc; });
  active &= ~lanes;
  blocked_ |= lanes;
  waiting_[static_cast<size_t>(why)] |= lanes;
  limit_ = 0;
}

void Warp::release(uint32_t lanes, bool past) {
  if (!lanes)
    return;
  blocked_ &= ~lanes;
  for (uint32_t &mask : waiting_)
    mask &= ~lanes;
  if (past)
    for_lanes(lanes, [&](uint32_t lane) { ++lane_pc_[lane]; });
  limit_ = 0;
}

/*
 * Lets lanes go on that wait for members at other instructions of the same kind, such as shuffles on both sides of a
 * branch: on sm_70 and later, each side then executes its instruction alone. Called if no lane of the warp can run.
 */
void Warp::part() {
  uint32_t ready = 0, waits = waiting(Wait::warp) & apart_;
  for_lanes(waits, [&](uint32_t lane) {
    bool all_wait = (members_[lane] & alive & ~waits) == 0;
    for_lanes(members_[lane] & waits, [&](uint32_t other) { all_wait &= members_[other] == members_[lane]; });
    ready |= uint32_t{all_wait} << lane;
  });
  parted_ |= ready;
  release(ready, false);
}

uint32_t Warp::gather(uint32_t lanes, uint32_t members, Meeting meeting) {
  bool anywhere = meeting == Meeting::anywhere;
  uint32_t wanted = members & alive;
  if ((wanted & ~lanes) == 0 || (lanes & ~parted_) == 0) {
    apart_ &= ~lanes;
    parted_ &= ~lanes;
    return lanes;
  }
  uint32_t present = lanes;
  auto first = static_cast<uint32_t>(__builtin_ctz(lanes));
  for (uint32_t rest = waiting(Wait::warp) & members; rest; rest &= rest - 1) {
    auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    bool same_place = lane_pc_[lane] == pc && base_[lane] == base_[first];
    if (members_[lane] == members && (anywhere || same_place))
      present |= 1u << lane;
  }
  if ((wanted & ~present) == 0) {
    apart_ &= ~present;
    release(present & ~lanes, true);
    return present;
  }
  if (meeting == Meeting::apart)
    apart_ |= lanes;
  for_lanes(lanes, [&](uint32_t lane) { members_[lane] = members; });
  wait(lanes, Wait::warp);
  return 0;
}

uint64_t monotonic_time() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void Warp::sleep(uint32_t lanes, const uint64_t *durations) {
  uint64_t now = monotonic_time();
  for_lanes(lanes,
            [&](uint32_t lane) { wake_at_[lane] = now + std::min(get<uint32_t>(durations, lane), longest_sleep); });
  wait(lanes, Wait::sleep);
}

uint64_t Warp::wake(uint64_t now) {
  uint32_t over = 0;
  uint64_t next_one = UINT64_MAX;
  for_lanes(waiting(Wait::sleep), [&](uint32_t lane) {
    if (wake_at_[lane] <= now)
      over |= 1u << lane;
    else
      next_one = std::min(next_one, wake_at_[lane]);
  });
  release(over, true);
  return next_one;
}

/* --- calls ---------------------------------------------------------------------------------------------------- */

void Warp::reserve_registers(size_t slots) {
  if (registers_.size() < slots * warp_size)
    registers_.resize(std::max(slots * warp_size, registers_.size() * 3 / 2));
}

void Warp::reserve_local(size_t bytes) {
  if (bytes <= local_stride_)
    return;
  size_t stride = (std::max(bytes, local_stride_ * 3 / 2) + 15) & ~size_t{15};
  std::vector<std::byte> grown(stride * warp_size);
  for (size_t lane = 0; lane < warp_size && local_stride_; ++lane)
    std::memcpy(grown.data() + lane * stride, local_memory_.data() + lane * local_stride_, local_stride_);
  local_memory_.swap(grown);
  if (grid->launch.checks.init) {
    std::vector<std::byte> marks(stride * warp_size);
    for (size_t lane = 0; lane < warp_size && !local_written_.empty(); ++lane)
      std::memcpy(marks.data() + lane * stride, local_written_.data() + lane * local_stride_, local_stride_);
    local_written_.swap(marks);
  }
  local_stride_ = stride;
}

void Warp::set_written(const std::vector<ValueLocation> &places, uint32_t frame_local, uint32_t lane) {
  for (const ValueLocation &place : places)
    if (!place.is_register)
      std::memset(local_written(lane) + frame_local + place.offset, 1, place.size);
}

uint64_t Warp::read_value(const ValueLocation &place, uint32_t lane) {
  if (place.is_register)
    return in(place.register_index)[lane];
  uint64_t value = 0;
  std::memcpy(&value, frame_bytes(lane, place.offset), std::min<size_t>(place.size, sizeof value));
  return value;
}

void Warp::write_value(const ValueLocation &place, uint32_t lane, uint64_t value) {
  if (place.is_register)
    out(place.register_index)[lane] = value;
  else
    std::memcpy(frame_bytes(lane, place.offset), &value, std::min<size_t>(place.size, sizeof value));
}

void Warp::copy_arguments(const std::vector<ValueLocation> &from, uint64_t *from_frame, uint32_t from_local,
                          const std::vector<ValueLocation> &to, uint64_t *to_frame, uint32_t to_local, uint32_t lane) {
  for (size_t i = 0; i < from.size(); ++i) {
    const ValueLocation &source = from[i], &target = to[i];
    std::byte *memory = local(lane);
    const std::byte *bytes;
    uint64_t value;
    if (source.is_register) {
      OperandIndex op = source.register_index;
      value = op >= 0 ? from_frame[op + static_cast<OperandIndex>(lane)]
                      : constants[static_cast<size_t>(~op) * warp_size + lane];
      bytes = reinterpret_cast<const std::byte *>(&value);
    } else {
      bytes = memory + from_local + source.offset;
    }
    if (target.is_register)
      std::memcpy(to_frame + target.register_index + lane, bytes, std::min<size_t>(source.size, 8));
    else
      std::memcpy(memory + to_local + target.offset, bytes, std::min(source.size, target.size));
  }
}

void Warp::call(const Instruction &ins, uint32_t lanes, uint32_t function) {
  const Program &program = grid->program;
  const Function &callee = program.functions[function];
  const CallSite &site = program.calls[ins.target];
  auto first = static_cast<uint32_t>(__builtin_ctz(lanes));
  auto matches = [](const std::vector<ValueLocation> &a, const std::vector<ValueLocation> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ValueLocation &x, const ValueLocation &y) {
      return x.size == y.size || x.is_register || y.is_register;
    });
  };
  if (!matches(site.arguments, callee.parameters) || !matches(site.results, callee.results))
    fault(FaultKind::illegal_instruction, ins, first, "a call of '" + callee.name + "' with other parameters");
  if (callee.builtin != Builtin::none)
    return call_builtin(ins, lanes, callee);

  uint32_t caller_base = base_[first];
  uint32_t callee_base = caller_base + program.functions[site.caller].slots;
  if (callee_base + callee.slots > max_register_slots)
    fault(FaultKind::illegal_address, ins, first, "stack overflow: calls are nested too deeply");
  reserve_registers(callee_base + callee.slots);
  uint64_t *caller_frame = registers_.data() + static_cast<size_t>(caller_base) * warp_size;
  uint64_t *callee_frame = registers_.data() + static_cast<size_t>(callee_base) * warp_size;
  frame = caller_frame;
  for_lanes(lanes, [&](uint32_t lane) {
    uint32_t local = (local_top[lane] + 15) & ~15u;
    if (local + callee.frame_bytes > max_local_bytes)
      fault(FaultKind::illegal_address, ins, lane, "stack overflow: more than 512 KiB of local memory");
    reserve_local(local + callee.frame_bytes);
    copy_arguments(site.arguments, caller_frame, local_base[lane], callee.parameters, callee_frame, local, lane);
    if (local_written(lane)) {
      std::memset(local_written(lane) + local, 0, callee.frame_bytes);
      set_written(callee.parameters, local, lane);
    }
    stack_[lane].push_back({pc + 1, pc, caller_base, local_base[lane], local_top[lane], function});
    local_base[lane] = local;
    local_top[lane] = local + callee.frame_bytes;
    base_[lane] = callee_base;
    lane_pc_[lane] = callee.entry;
  });
  active &= ~lanes;
  limit_ = 0;
}

void Warp::leave(uint32_t lanes) {
  const Program &program = grid->program;
  uint32_t ending = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    if (stack_[lane].empty()) {
      ending |= 1u << lane;
      return;
    }
    CallRecord record = stack_[lane].back();
    stack_[lane].pop_back();
    uint64_t *caller_frame = registers_.data() + static_cast<size_t>(record.base) * warp_size;
    copy_arguments(program.functions[record.function].results, frame, local_base[lane],
                   program.calls[program.code[record.call_pc].target].results, caller_frame, record.local_base, lane);
    if (local_written(lane))
      set_written(program.calls[program.code[record.call_pc].target].results, record.local_base, lane);
    if (undefined)
      undefined->leaves(1u << lane, base_[lane]);
    local_base[lane] = record.local_base;
    local_top[lane] = record.local_top;
    base_[lane] = record.base;
    lane_pc_[lane] = record.return_pc;
  });
  active &= ~lanes;
  limit_ = 0;
  if (ending)
    exit(ending);
}

/* --- faults --------------------------------------------------------------------------------------------------- */

Fault Warp::place(FaultKind kind, const Instruction &ins, uint32_t lane, std::string detail) const {
  Fault fault;
  fault.kind = kind;
  fault.kernel = grid->function.name;
  fault.block = block->index;
  fault.thread = {thread[0][lane], thread[1][lane], thread[2][lane]};
  fault.ptx_line = ins.line;
  fault.source_line = ins.source_line;
  auto file = grid->program.files.find(ins.source_file);
  if (ins.source_line && file != grid->program.files.end())
    fault.source_file = file->second;
  fault.detail = std::move(detail);
  return fault;
}

void Warp::fault(FaultKind kind, const Instruction &ins, uint32_t lane, std::string detail) const {
  throw DeviceFault{place(kind, ins, lane, std::move(detail))};
}

void Warp::access_fault(FaultKind kind, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes,
                        bool write, const char *space, std::string detail) const {
  try {
    fault(kind, ins, lane, std::move(detail));
  } catch (DeviceFault &thrown) {
    thrown.fault.address = address;
    thrown.fault.access_bytes = bytes;
    thrown.fault.is_write = write;
    thrown.fault.space = space;
    throw;
  }
}

} // namespace sim::exec
