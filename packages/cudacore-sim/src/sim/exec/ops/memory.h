/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_MEMORY_H
#define CUDACORE_SIM_EXEC_OPS_MEMORY_H

#include "sim/exec/grid.h"
#include "sim/isa/handlers.h"

/* Translation of addresses to host memory, with the checks of each state space. */
namespace sim::exec {

/* Returns the range of global memory that has all of the bytes. If there is none, the access is a fault. */
const Range &range_of(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write);

/* The slow paths of locate(): the address is not in the range that was used last, or the access is a fault. */
std::byte *locate_memory(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write);
std::byte *locate_generic(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write);
std::byte *locate_shared(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write);
std::byte *locate_local(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write);
std::byte *locate_parameter(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes,
                            bool write);
[[noreturn]] void misaligned(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes,
                             bool write, StateSpace space);

/*
 * Returns a mask of the address bits that are used. Addresses in 32-bit registers, which the instruction's flag marks,
 * wrap around.
 */
inline uint64_t address_mask(const Instruction &ins) { return ins.flag ? 0xffffffffu : ~uint64_t{0}; }

/*
 * Returns the host address of `bytes` bytes (a power of two) at an address of a state space. Throws DeviceFault if the
 * access is not allowed.
 */
template <StateSpace S>
inline std::byte *locate(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write) {
  if (address & (bytes - 1))
    misaligned(w, ins, lane, address, bytes, write, S);
  if constexpr (S == StateSpace::global || S == StateSpace::generic || S == StateSpace::constant) {
    uint64_t offset = address - w.range.begin, size = w.range.end - w.range.begin;
    if (offset < size && bytes <= size - offset && (!write || w.range.writable))
      return w.range.host + offset;
    return S == StateSpace::generic ? locate_generic(w, ins, lane, address, bytes, write)
                                    : locate_memory(w, ins, lane, address, bytes, write);
  } else if constexpr (S == StateSpace::shared || S == StateSpace::shared_cluster) {
    const Block &block = *w.block;
    uint64_t offset = address - block.shared_begin;
    uint64_t size = block.unchecked_bytes;
    if (offset < size && bytes <= size - offset)
      return w.block->shared.data() + offset;
    return locate_shared(w, ins, lane, address, bytes, write);
  } else if constexpr (S == StateSpace::local) {
    return locate_local(w, ins, lane, address, bytes, write);
  } else {
    return locate_parameter(w, ins, lane, address, bytes, write);
  }
}

/*
 * All plain accesses are relaxed atomics, because a race in a kernel must not be undefined behaviour in the simulator.
 * On the host, relaxed atomics are as fast as plain accesses.
 */
template <class T> inline T load_relaxed(const std::byte *at) {
  return __atomic_load_n(reinterpret_cast<const T *>(at), __ATOMIC_RELAXED);
}
template <class T> inline void store_relaxed(std::byte *at, T value) {
  __atomic_store_n(reinterpret_cast<T *>(at), value, __ATOMIC_RELAXED);
}

} // namespace sim::exec

#endif
