/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_MEMORY_H
#define CUDACORE_SIM_EXEC_OPS_MEMORY_H

#include "sim/exec/grid.h"
#include "sim/isa/handlers.h"

/* From addresses to host memory, with the checks of each space. */
namespace sim::exec {

/* The slow ways, for what is not in the range last used, or is a fault. */
std::byte *locate_memory(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write);
std::byte *locate_generic(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write);
std::byte *locate_shared(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write);
std::byte *locate_local(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes, bool write);
std::byte *locate_parameter(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes,
                            bool write);
[[noreturn]] void misaligned(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, uint32_t bytes,
                             bool write, StateSpace space);

/* Of an instruction whose address register has 32 bits (its flag), addresses wrap there. */
inline uint64_t address_mask(const Instruction &ins) { return ins.flag ? 0xffffffffu : ~uint64_t{0}; }

/* Where `bytes` (a power of two) at an address of a space are. Does not return when they may not be accessed. */
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
    uint64_t offset = address - (uint64_t{block.rank} << shared_rank_shift) - shared_reserved;
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
 * Relaxed atomics for all plain accesses: kernels race as the memory model lets them, and that must not be undefined
 * behaviour of the simulator. They cost nothing on the host.
 */
template <class T> inline T load_relaxed(const std::byte *at) {
  return __atomic_load_n(reinterpret_cast<const T *>(at), __ATOMIC_RELAXED);
}
template <class T> inline void store_relaxed(std::byte *at, T value) {
  __atomic_store_n(reinterpret_cast<T *>(at), value, __ATOMIC_RELAXED);
}

} // namespace sim::exec

#endif
