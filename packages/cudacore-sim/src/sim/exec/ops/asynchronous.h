/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_ASYNCHRONOUS_H
#define CUDACORE_SIM_EXEC_OPS_ASYNCHRONOUS_H

#include "sim/exec/warp.h"
#include "sim/isa/tensor_copy.h"

/* Shared by asynchronous operations. */
namespace sim::exec {

/* The mbarrier that counts the bytes of an asynchronous operation must be in the destination's shared memory. */
void need_in_block_of(uint64_t destination, Warp &w, const Instruction &ins, uint32_t lane, uint64_t mbarrier);
/* Makes an mbarrier, given by its shared address, count bytes that were copied. */
void complete_bytes(Warp &w, const Instruction &ins, uint32_t lane, uint32_t mbarrier, uint32_t bytes);

/* One element of a reduction: *at = op(*at, *value). Null: the elements have no such operation. */
using ElementReduction = void (*)(std::byte *at, const std::byte *value);
ElementReduction element_reduction(AtomicOp op, TensorElement element);

} // namespace sim::exec

#endif
