/* SPDX-License-Identifier: Apache-2.0 */
/* All forms of mov: from registers, vectors, special registers and addresses. */
#include <chrono>

#include "sim/exec/grid.h"
#include "sim/isa/handlers.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"

namespace sim::exec {

namespace {

struct Identity {
  template <class T> static T apply(T a) { return a; }
};

void move_wide(Warp &w, const Instruction &ins, uint32_t lanes) {
  for (OperandIndex half = 0; half < 2; ++half) {
    OperandIndex step = half * static_cast<OperandIndex>(warp_size);
    const uint64_t *a = w.in(ins.op[1] >= 0 ? ins.op[1] + step : ins.op[1] - half);
    uint64_t *d = w.out(ins.op[0] + step);
    for_lanes(lanes, [&](uint32_t lane) { d[lane] = a[lane]; });
  }
}

/* Joins elements. A 128-bit value consists of two 64-bit registers, so the bytes of a lane are joined in a buffer. */
template <class T> void pack(Warp &w, const Instruction &ins, uint32_t lanes) {
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t joined[2] = {0, 0};
    for (uint32_t i = 0; i < ins.count; ++i)
      std::memcpy(reinterpret_cast<char *>(joined) + i * sizeof(T), w.in(ins.op[i + 1u]) + lane, sizeof(T));
    w.out(ins.op[0])[lane] = joined[0];
    if (sizeof(T) * ins.count == 16)
      w.out(ins.op[0] + static_cast<OperandIndex>(warp_size))[lane] = joined[1];
  });
}
template <class T> void unpack(Warp &w, const Instruction &ins, uint32_t lanes) {
  OperandIndex source = ins.op[ins.count];
  bool wide = sizeof(T) * ins.count == 16;
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t joined[2] = {w.in(source)[lane], wide ? w.in(source + static_cast<OperandIndex>(warp_size))[lane] : 0};
    for (uint32_t i = 0; i < ins.count; ++i)
      std::memcpy(w.out(ins.op[i]) + lane, reinterpret_cast<char *>(joined) + i * sizeof(T), sizeof(T));
  });
}

void broadcast(Warp &w, const Instruction &ins, uint32_t lanes, uint64_t value) {
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { d[lane] = value; });
}

/* --- special registers -------------------------------------------------------------------------------------------- */

uint64_t nanoseconds() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}
/* Returns the time in clock cycles of 1.98 GHz, a clock rate of an H200. */
uint64_t cycles() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) * 99 / 50;
}

uint64_t linear(const Dim3 &index, const Dim3 &extent) {
  return (uint64_t{index[2]} * extent[1] + index[1]) * extent[0] + index[0];
}

/*
 * Returns an environment register. envreg1 and envreg2 hold the address of the barrier of the grid, which cooperative
 * groups use. The other environment registers are zero.
 */
uint32_t environment(const Grid &grid, uint32_t number) {
  if (!grid.launch.cooperative)
    return 0;
  uint64_t address = window_base(Window::workspace);
  return number == 1 ? static_cast<uint32_t>(address >> 32) : number == 2 ? static_cast<uint32_t>(address) : 0;
}

/* Returns the value of a special register that is the same for all lanes. */
template <SpecialRegister S> uint64_t uniform(const Warp &w, uint32_t component) {
  const Block &block = *w.block;
  const Grid &grid = *w.grid;
  const Launch &launch = grid.launch;
  uint64_t number = linear(block.index, launch.grid);
  switch (S) {
  case SpecialRegister::ntid:
    return launch.block[component];
  case SpecialRegister::ctaid:
    return block.index[component];
  case SpecialRegister::nctaid:
    return launch.grid[component];
  case SpecialRegister::clusterid:
    return block.unit->cluster_index[component];
  case SpecialRegister::nclusterid:
    return grid.clusters[component];
  case SpecialRegister::cluster_ctaid:
    return block.index[component] % launch.cluster[component];
  case SpecialRegister::cluster_nctaid:
    return launch.cluster[component];
  case SpecialRegister::cluster_ctarank:
    return block.rank;
  case SpecialRegister::cluster_nctarank:
    return grid.cluster_size;
  case SpecialRegister::is_explicit_cluster:
    return grid.cluster_size > 1;
  case SpecialRegister::warpid:
    return w.index;
  case SpecialRegister::nwarpid:
    return 64;
  case SpecialRegister::smid:
    return number % std::max(launch.multiprocessors, 1u);
  case SpecialRegister::nsmid:
    return launch.multiprocessors;
  case SpecialRegister::gridid:
    return launch.grid_id;
  case SpecialRegister::clock:
    return cycles() & 0xffffffff;
  case SpecialRegister::clock_hi:
    return cycles() >> 32;
  case SpecialRegister::clock64:
    return cycles();
  case SpecialRegister::globaltimer:
    return nanoseconds();
  case SpecialRegister::globaltimer_lo:
    return nanoseconds() & 0xffffffff;
  case SpecialRegister::globaltimer_hi:
    return nanoseconds() >> 32;
  case SpecialRegister::dynamic_smem_size:
    return launch.dynamic_shared_bytes;
  case SpecialRegister::total_smem_size:
    return grid.shared_bytes;
  case SpecialRegister::aggr_smem_size:
    return grid.shared_bytes + launch.shared_reserved;
  case SpecialRegister::reserved_smem_offset_end:
  case SpecialRegister::reserved_smem_offset_cap:
    return launch.shared_reserved;
  case SpecialRegister::reserved_smem_offset_1:
    return shared_scratch_offset;
  case SpecialRegister::envreg:
    return environment(grid, component);
  default:
    return 0;
  }
}

template <SpecialRegister S> void read_uniform(Warp &w, const Instruction &ins, uint32_t lanes) {
  /* A program may read a clock repeatedly to wait until some time has passed. */
  if (S >= SpecialRegister::clock && S <= SpecialRegister::globaltimer_hi)
    w.polled();
  broadcast(w, ins, lanes, uniform<S>(w, ins.mode));
}
template <SpecialRegister S> void read_lane(Warp &w, const Instruction &ins, uint32_t lanes) {
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) {
    uint32_t bit = 1u << lane, below = bit - 1;
    switch (S) {
    case SpecialRegister::tid:
      d[lane] = w.thread[ins.mode][lane];
      break;
    case SpecialRegister::laneid:
      d[lane] = lane;
      break;
    case SpecialRegister::lanemask_eq:
      d[lane] = bit;
      break;
    case SpecialRegister::lanemask_lt:
      d[lane] = below;
      break;
    case SpecialRegister::lanemask_le:
      d[lane] = below | bit;
      break;
    case SpecialRegister::lanemask_gt:
      d[lane] = ~(below | bit);
      break;
    default:
      d[lane] = ~below;
      break;
    }
  });
}

template <SpecialRegister S> constexpr Handler reader() {
  switch (S) {
  case SpecialRegister::tid:
  case SpecialRegister::laneid:
  case SpecialRegister::lanemask_eq:
  case SpecialRegister::lanemask_lt:
  case SpecialRegister::lanemask_le:
  case SpecialRegister::lanemask_gt:
  case SpecialRegister::lanemask_ge:
    return read_lane<S>;
  default:
    return read_uniform<S>;
  }
}

/* --- addresses ---------------------------------------------------------------------------------------------------- */

void global_address(Warp &w, const Instruction &ins, uint32_t lanes) {
  broadcast(w, ins, lanes,
            w.grid->launch.instance->variable_addresses[ins.target] + static_cast<uint64_t>(ins.immediate));
}
void shared_address(Warp &w, const Instruction &ins, uint32_t lanes) {
  const SharedLayout &layout = w.grid->kernel.shared;
  auto found = layout.offsets.find(ins.target);
  uint64_t offset = found == layout.offsets.end() ? 0 : found->second;
  broadcast(w, ins, lanes, w.block->shared_begin + offset + static_cast<uint64_t>(ins.immediate));
}
void local_address(Warp &w, const Instruction &ins, uint32_t lanes) {
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { d[lane] = w.local_base[lane] + static_cast<uint64_t>(ins.immediate); });
}
void function_address_of(Warp &w, const Instruction &ins, uint32_t lanes) {
  broadcast(w, ins, lanes, function_address(w.grid->program.id, ins.target));
}

} // namespace

Handler move_handler(Type type) {
  if (ptx::bits_of(type) == 128)
    return move_wide;
  return for_width<uint8_t, uint16_t, uint32_t, uint64_t>(
      type, [](auto t) { return unary<Identity, decltype(t), decltype(t)>; });
}
Handler pack_handler(Type element) {
  return for_width<uint8_t, uint16_t, uint32_t, uint64_t>(element, [](auto t) { return pack<decltype(t)>; });
}
Handler unpack_handler(Type element) {
  return for_width<uint8_t, uint16_t, uint32_t, uint64_t>(element, [](auto t) { return unpack<decltype(t)>; });
}
Handler special_handler(SpecialRegister special) {
  switch (special) {
#define SIM_SPECIAL(name, components)                                                                                  \
  case SpecialRegister::name:                                                                                          \
    return reader<SpecialRegister::name>();
    SIM_SPECIAL_REGISTERS(SIM_SPECIAL)
#undef SIM_SPECIAL
  }
  return nullptr;
}
Handler global_address_handler() { return global_address; }
Handler shared_address_handler() { return shared_address; }
Handler local_address_handler() { return local_address; }
Handler function_address_handler() { return function_address_of; }

} // namespace sim::exec
