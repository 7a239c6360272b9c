/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_ASYNCHRONOUS_H
#define CUDACORE_SIM_EXEC_OPS_ASYNCHRONOUS_H

#include "sim/exec/warp.h"
#include "sim/isa/tensor_copy.h"

/* Functions that several asynchronous operations share. */
namespace sim::exec {

/*
 * Checks that the mbarrier that counts the bytes of an asynchronous operation is in the same block's shared memory as
 * the destination.
 */
void need_in_block_of(uint64_t destination, Warp &w, const Instruction &ins, uint32_t lane, uint64_t mbarrier);
/* Makes the mbarrier at a shared address count bytes that were copied. */
void complete_bytes(Warp &w, const Instruction &ins, uint32_t lane, uint32_t mbarrier, uint32_t bytes);

/* Calls a function with the address that corresponds to a shared address in each of some blocks of the cluster. */
template <class Function> void for_blocks(uint32_t blocks, uint64_t address, Function &&function) {
  constexpr uint32_t in_block = (1u << shared_rank_shift) - 1;
  for (; blocks; blocks &= blocks - 1)
    function((static_cast<uint32_t>(address) & in_block) | static_cast<uint32_t>(__builtin_ctz(blocks))
                                                               << shared_rank_shift);
}

/*
 * A reduction of one element: *at = op(*at, *value). element_reduction() returns null if elements of this type have no
 * such operation.
 */
using ElementReduction = void (*)(std::byte *at, const std::byte *value);
ElementReduction element_reduction(AtomicOp op, TensorElement element);

} // namespace sim::exec

#endif
