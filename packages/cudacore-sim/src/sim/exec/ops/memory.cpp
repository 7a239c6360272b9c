/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores, asynchronous copies, and conversions between generic and other addresses. */
#include "sim/exec/ops/memory.h"

#include <algorithm>

#include "sim/exec/checker.h"
#include "sim/exec/heap.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"

namespace sim::exec {

namespace {
const char *space_name(StateSpace space) {
  switch (space) {
  case StateSpace::global:
    return "global";
  case StateSpace::shared:
    return "shared";
  case StateSpace::shared_cluster:
    return "shared::cluster";
  case StateSpace::local:
    return "local";
  case StateSpace::constant:
    return "const";
  case StateSpace::param:
    return "param";
  default:
    return "generic";
  }
}
} // namespace

void misaligned(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write,
                StateSpace space) {
  w.access_fault(FaultKind::misaligned_address, ins, lane, address, bytes, write, space_name(space),
                 "the address is not a multiple of " + std::to_string(bytes));
}

const Range &range_of(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write) {
  auto has = [&](const Range &range) {
    return address >= range.begin && address < range.end && bytes <= range.end - address;
  };
  if (w.grid->launch.memory && (!w.found || !has(*w.found))) {
    const std::vector<Range> &ranges = w.grid->launch.memory->ranges;
    auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                  [](uint64_t value, const Range &range) { return value < range.begin; });
    w.found = after != ranges.begin() && has(*std::prev(after)) ? &*std::prev(after) : nullptr;
  }
  if (!w.found) {
    if (Checker *checker = w.grid->checker.get())
      checker->misses(w, ins, address, bytes, write);
    w.access_fault(FaultKind::illegal_address, ins, lane, address, bytes, write, "global");
  }
  if (write && !w.found->writable)
    w.access_fault(FaultKind::illegal_address, ins, lane, address, bytes, write, "global", "the memory is read-only");
  return *w.found;
}

std::byte *locate_memory(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write) {
  const Range &range = range_of(w, ins, lane, address, bytes, write);
  uint64_t offset = address - range.begin;
  Checker *checker = w.grid->checker.get();
  if (checker && checker->watches_memory()) /* not caching the range lets the checks see all accesses */
    checker->global(w, ins, lane,
                    {"global", address, range.host + offset, range.written ? range.written + offset : nullptr}, bytes,
                    write);
  else
    w.range = range;
  return range.host + offset;
}

std::byte *locate_generic(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes,
                          bool write) {
  uint64_t offset = address & ((uint64_t{1} << window_shift) - 1);
  switch (static_cast<Window>(address >> window_shift)) {
  case Window::memory:
    return locate_memory(w, ins, lane, address, bytes, write);
  case Window::shared:
    return locate<StateSpace::shared>(w, ins, lane, offset, bytes, write);
  case Window::local:
    return locate_local(w, ins, lane, offset, bytes, write);
  case Window::parameter:
    return locate_parameter(w, ins, lane, offset, bytes, write);
  case Window::workspace:
    if (offset + bytes <= w.grid->workspace.size()) {
      std::byte *host = w.grid->workspace.data() + offset;
      if (Checker *checker = w.grid->checker.get())
        checker->global(w, ins, lane, {"global", address, host, nullptr}, bytes, write);
      return host;
    }
    break;
  case Window::heap:
    if (std::byte *at = w.grid->launch.heap ? w.grid->launch.heap->locate(offset, bytes) : nullptr) {
      if (Checker *checker = w.grid->checker.get())
        checker->heap(w, ins, lane, {"heap", address, at, w.grid->launch.heap->states(offset)}, bytes, write);
      return at;
    }
    break;
  default:
    break;
  }
  w.access_fault(FaultKind::illegal_address, ins, lane, address, bytes, write, "generic");
}

std::byte *locate_shared(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write) {
  Unit &unit = *w.block->unit;
  uint64_t rank = address >> shared_rank_shift;
  if (rank < unit.blocks.size()) {
    Block &block = unit.blocks[rank];
    uint64_t offset = address - block.shared_begin;
    std::vector<std::byte> &shared = block.shared;
    if (offset < shared.size() && bytes <= shared.size() - offset) {
      if (Checker *checker = w.grid->checker.get())
        checker->shared(w, ins, lane, block, static_cast<uint32_t>(offset), bytes, write);
      return shared.data() + offset;
    }
    offset = (address & ((1u << shared_rank_shift) - 1)) - shared_scratch_offset;
    if (w.grid->launch.shared_reserved != 0 && offset < shared_scratch && bytes <= shared_scratch - offset) {
      if (Checker *checker = w.grid->checker.get())
        checker->scratch(w, ins, lane, block, block.scratch.data() + offset);
      return block.scratch.data() + offset;
    }
  }
  w.access_fault(FaultKind::illegal_address, ins, lane, address, bytes, write, "shared",
                 "the block has " + std::to_string(w.grid->shared_bytes) + " bytes of shared memory, from " +
                     std::to_string(w.block->shared_begin));
}

std::byte *locate_local(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write) {
  uint64_t top = w.local_top[lane];
  if (address < top && bytes <= top - address) {
    if (std::byte *written = w.local_written(lane))
      w.grid->checker->local(w, ins, lane, {"local", address, w.local(lane) + address, written + address}, bytes,
                             write);
    return w.local(lane) + address;
  }
  w.access_fault(FaultKind::illegal_address, ins, lane, address, bytes, write, "local",
                 "the thread uses " + std::to_string(top) + " bytes of local memory");
}

std::byte *locate_parameter(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes,
                            bool write) {
  const std::vector<std::byte> &block = w.grid->launch.parameters;
  if (!write && address < block.size() && bytes <= block.size() - address)
    return const_cast<std::byte *>(block.data()) + address; /* safe, because the access is a read */
  w.access_fault(write ? FaultKind::invalid_address_space : FaultKind::illegal_address, ins, lane, address, bytes,
                 write, "param");
}

namespace {

/* --- loads and stores --------------------------------------------------------------------------------------------- */

template <class T> uint64_t extended(T value) {
  if constexpr (std::is_signed_v<T>)
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  return static_cast<uint64_t>(value);
}

template <StateSpace S, class T, bool Ordered> void load(Warp &w, const Instruction &ins, uint32_t lanes) {
  uint32_t count = ins.count;
  auto bytes = static_cast<uint32_t>(sizeof(T) * count);
  const uint64_t *base = w.in(ins.op[count]);
  uint64_t mask = address_mask(ins);
  if (Ordered)
    w.polled();
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
    const std::byte *at = locate<S>(w, ins, lane, address, bytes, false);
    if constexpr (Ordered) {
      for (uint32_t i = 0; i < count; ++i, at += sizeof(T))
        w.out(ins.op[i])[lane] = extended(__atomic_load_n(reinterpret_cast<const T *>(at), __ATOMIC_ACQUIRE));
    } else {
      for (uint32_t i = 0; i < count; ++i, at += sizeof(T))
        w.out(ins.op[i])[lane] = extended(load_relaxed<T>(at));
    }
  });
}

template <StateSpace S, class T, bool Ordered> void store(Warp &w, const Instruction &ins, uint32_t lanes) {
  uint32_t count = ins.count;
  auto bytes = static_cast<uint32_t>(sizeof(T) * count);
  const uint64_t *base = w.in(ins.op[count]);
  uint64_t mask = address_mask(ins);
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
    std::byte *at = locate<S>(w, ins, lane, address, bytes, true);
    for (uint32_t i = 0; i < count; ++i, at += sizeof(T)) {
      auto value = get<T>(w.in(ins.op[i]), lane);
      if (Ordered)
        __atomic_store_n(reinterpret_cast<T *>(at), value, __ATOMIC_RELEASE);
      else
        store_relaxed<T>(at, value);
    }
  });
}

/* Loads a variable at a fixed offset in the frame. Such variables always exist, so there is nothing to check. */
template <class T> void load_frame(Warp &w, const Instruction &ins, uint32_t lanes) {
  if (w.grid->checker)
    w.grid->checker->frame(w, ins, lanes, static_cast<uint32_t>(sizeof(T) * ins.count), false);
  for_lanes(lanes, [&](uint32_t lane) {
    const std::byte *at = w.frame_bytes(lane, static_cast<uint32_t>(ins.immediate));
    for (uint32_t i = 0; i < ins.count; ++i, at += sizeof(T)) {
      T value;
      std::memcpy(&value, at, sizeof value);
      w.out(ins.op[i])[lane] = extended(value);
    }
  });
}
template <class T> void store_frame(Warp &w, const Instruction &ins, uint32_t lanes) {
  if (w.grid->checker)
    w.grid->checker->frame(w, ins, lanes, static_cast<uint32_t>(sizeof(T) * ins.count), true);
  for_lanes(lanes, [&](uint32_t lane) {
    std::byte *at = w.frame_bytes(lane, static_cast<uint32_t>(ins.immediate));
    for (uint32_t i = 0; i < ins.count; ++i, at += sizeof(T))
      std::memcpy(at, w.in(ins.op[i]) + lane, sizeof(T));
  });
}
/* Loads a kernel's parameter at a fixed offset. All lanes get the same value. */
template <class T> void load_kernel_parameter(Warp &w, const Instruction &ins, uint32_t lanes) {
  const std::byte *at = w.grid->launch.parameters.data() + ins.immediate;
  for (uint32_t i = 0; i < ins.count; ++i, at += sizeof(T)) {
    T value;
    std::memcpy(&value, at, sizeof value);
    uint64_t *d = w.out(ins.op[i]);
    for_lanes(lanes, [&](uint32_t lane) { d[lane] = extended(value); });
  }
}

/* Loads or stores values of 128 bits, each in two registers of 64 bits. */
template <StateSpace S, bool Write> void access_wide(Warp &w, const Instruction &ins, uint32_t lanes) {
  uint32_t count = ins.count;
  const uint64_t *base = w.in(ins.op[count]);
  uint64_t mask = address_mask(ins);
  if (Write)
    ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
    std::byte *at = locate<S>(w, ins, lane, address, 16 * count, Write);
    for (uint32_t i = 0; i < count; ++i)
      for (uint32_t half = 0; half < 2; ++half, at += 8) {
        OperandIndex op = ins.op[i] + static_cast<OperandIndex>(half * warp_size);
        if (Write)
          store_relaxed<uint64_t>(at, w.in(op)[lane]);
        else
          w.out(op)[lane] = load_relaxed<uint64_t>(at);
      }
  });
}

/* Chooses the handler of a load or store by its type. Loads extend signed integers by their sign. */
template <class Make> Handler for_access(Type type, Make make) {
  switch (type) {
  case Type::b8:
  case Type::u8:
    return make(uint8_t{});
  case Type::s8:
    return make(int8_t{});
  case Type::b16:
  case Type::u16:
  case Type::f16:
  case Type::bf16:
    return make(uint16_t{});
  case Type::s16:
    return make(int16_t{});
  case Type::b32:
  case Type::u32:
  case Type::f32:
  case Type::f16x2:
  case Type::bf16x2:
    return make(uint32_t{});
  case Type::s32:
    return make(int32_t{});
  case Type::b64:
  case Type::u64:
  case Type::s64:
  case Type::f64:
    return make(uint64_t{});
  default:
    return nullptr;
  }
}
template <StateSpace S> Handler load_from(const AccessMode &mode) {
  if (mode.type == Type::b128)
    return access_wide<S, false>;
  return mode.ordered ? for_access(mode.type, [](auto t) { return load<S, decltype(t), true>; })
                      : for_access(mode.type, [](auto t) { return load<S, decltype(t), false>; });
}
template <StateSpace S> Handler store_to(const AccessMode &mode) {
  if (mode.type == Type::b128)
    return access_wide<S, true>;
  return mode.ordered ? for_access(mode.type, [](auto t) { return store<S, decltype(t), true>; })
                      : for_access(mode.type, [](auto t) { return store<S, decltype(t), false>; });
}

/* --- asynchronous copies: they read at once, and write as late as possible, which is one of the legal orders ----- */

void copy_async(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *to = w.in(ins.op[0]), *from = w.in(ins.op[1]);
  const uint64_t *size = ins.op[2] == no_operand ? nullptr : w.in(ins.op[2]);
  uint32_t ignored = ins.op[3] == no_operand ? 0 : w.predicate(ins.op[3]);
  uint32_t bytes = ins.count;
  uint64_t mask = address_mask(ins);
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t place = (to[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
    uint32_t wanted = size ? std::min(get<uint32_t>(size, lane), bytes) : bytes;
    if ((ignored >> lane) & 1)
      wanted = 0;
    uint64_t address = from[lane] + ins.target;
    if (address & (bytes - 1))
      misaligned(w, ins, lane, address, bytes, false, StateSpace::global);
    std::array<std::byte, 16> values{};
    w.moving.fill(std::byte{1});
    for (uint32_t i = 0; i < wanted; ++i) {
      w.moving_at = i;
      values[i] = std::byte{load_relaxed<uint8_t>(locate<StateSpace::generic>(w, ins, lane, address + i, 1, false))};
    }
    w.moving_at = 0;
    if (w.grid->checker)
      w.grid->checker->copies(values.data());
    std::byte *target = locate<StateSpace::shared>(w, ins, lane, place, bytes, true);
    w.copies.push_back({&ins, w.pc, lane, w.copy_groups[lane], target, bytes, values});
    if (w.grid->checker)
      w.grid->checker->copy_begins(w, w.copies.back());
  });
}

void commit_copies(Warp &w, const Instruction &, uint32_t lanes) {
  for_lanes(lanes, [&](uint32_t lane) { ++w.copy_groups[lane]; });
}

void wait_for_copies(Warp &w, const Instruction &ins, uint32_t lanes) { w.complete_copies(lanes, ins.immediate); }

/* --- address spaces ----------------------------------------------------------------------------------------------- */

template <Window W> void to_window(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { d[lane] = window_base(W) + a[lane]; });
}
template <Window W> void from_window(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { d[lane] = a[lane] - window_base(W); });
}
template <StateSpace S> void test_space(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint32_t result = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    auto window = static_cast<Window>(a[lane] >> window_shift);
    uint64_t rank = (a[lane] & 0xffffffff) >> shared_rank_shift;
    bool is = false;
    switch (S) {
    case StateSpace::global:
      is = window == Window::memory || window == Window::workspace || window == Window::heap;
      break;
    case StateSpace::shared:
      is = window == Window::shared && rank == w.block->rank;
      break;
    case StateSpace::shared_cluster:
      is = window == Window::shared;
      break;
    case StateSpace::local:
      is = window == Window::local;
      break;
    case StateSpace::param:
      is = window == Window::parameter;
      break;
    case StateSpace::constant:
      if (window == Window::memory) {
        const Instance &instance = *w.grid->launch.instance;
        const std::vector<Variable> &variables = instance.module->info.variables;
        for (size_t i = 0; i < variables.size(); ++i)
          is = is ||
               (variables[i].space == Space::constant && a[lane] - instance.variable_addresses[i] < variables[i].size);
      }
      break;
    default:
      break;
    }
    result |= uint32_t{is} << lane;
  });
  w.set_predicate(ins.op[0], lanes, result);
}

/* Computes the address in another block's shared memory that corresponds to a shared address. */
template <class T> void map_address(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]);
  uint64_t *d = w.out(ins.op[0]);
  constexpr T ranks = T{0xff} << shared_rank_shift;
  for_lanes(lanes, [&](uint32_t lane) {
    T rank = get<uint32_t>(b, lane);
    put<T>(d, lane, (get<T>(a, lane) & ~ranks) | (rank << shared_rank_shift & ranks));
  });
}
void rank_of_address(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { put<uint32_t>(d, lane, get<uint32_t>(a, lane) >> shared_rank_shift); });
}

void nothing(Warp &, const Instruction &, uint32_t) {}
void fence(Warp &w, const Instruction &ins, uint32_t lanes) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (w.grid->checker)
    w.grid->checker->fences(w, ins, lanes);
}

/* Shared memory of the own block and of the cluster's other blocks is accessed by the same handlers. */
StateSpace without_cluster(StateSpace space) {
  return space == StateSpace::shared_cluster ? StateSpace::shared : space;
}

/* Chooses the handler for the window of generic addresses that belongs to a state space. */
template <class Make> Handler for_window(StateSpace space, Make make) {
  switch (space) {
  case StateSpace::global:
  case StateSpace::constant:
    return move_handler(Type::b64);
  case StateSpace::shared:
  case StateSpace::shared_cluster:
    return make(std::integral_constant<Window, Window::shared>{});
  case StateSpace::local:
    return make(std::integral_constant<Window, Window::local>{});
  case StateSpace::param:
    return make(std::integral_constant<Window, Window::parameter>{});
  default:
    return nullptr;
  }
}

} // namespace

Handler load_handler(const AccessMode &mode) {
  if (mode.frame)
    return for_access(mode.type, [](auto t) { return load_frame<decltype(t)>; });
  if (mode.parameter)
    return for_access(mode.type, [](auto t) { return load_kernel_parameter<decltype(t)>; });
  return for_constant<StateSpace::generic, StateSpace::global, StateSpace::shared, StateSpace::local,
                      StateSpace::constant, StateSpace::param>(without_cluster(mode.space),
                                                               [&](auto s) { return load_from<s.value>(mode); });
}

Handler store_handler(const AccessMode &mode) {
  if (mode.frame)
    return for_access(mode.type, [](auto t) { return store_frame<decltype(t)>; });
  return for_constant<StateSpace::generic, StateSpace::global, StateSpace::shared, StateSpace::local>(
      without_cluster(mode.space), [&](auto s) { return store_to<s.value>(mode); });
}

Handler copy_async_handler() { return copy_async; }
Handler copy_commit_handler() { return commit_copies; }
Handler copy_wait_handler() { return wait_for_copies; }
Handler nop_handler() { return nothing; }
Handler fence_handler() { return fence; }

Handler to_generic_handler(StateSpace space) {
  return for_window(space, [](auto w) { return to_window<w.value>; });
}
Handler from_generic_handler(StateSpace space) {
  return for_window(space, [](auto w) { return from_window<w.value>; });
}
Handler space_test_handler(StateSpace space) {
  return for_constant<StateSpace::global, StateSpace::constant, StateSpace::shared, StateSpace::shared_cluster,
                      StateSpace::local, StateSpace::param>(space, [](auto s) { return test_space<s.value>; });
}
Handler mapa_handler(bool wide) { return wide ? map_address<uint64_t> : map_address<uint32_t>; }
Handler getctarank_handler() { return rank_of_address; }

} // namespace sim::exec
