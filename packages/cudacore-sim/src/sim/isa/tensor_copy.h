/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_TENSOR_COPY_H
#define CUDACORE_SIM_ISA_TENSOR_COPY_H

#include "sim/isa/handlers.h"
#include "sim/isa/tensor_map.h"

/* Copies between shared memory and the part of global memory that a tensor map describes. */
namespace sim::exec {

enum class TensorWay : uint8_t { load, store, reduce, prefetch };

/* The operands of a tensor copy. There are too many of them for an Instruction. */
struct TensorCopy {
  TensorWay way = TensorWay::load;
  bool im2col = false;
  uint32_t rank = 1;
  AtomicOp op = AtomicOp::add; /* the operation, if the copy is a reduction */
  OperandIndex map = no_operand, shared = no_operand, mbarrier = no_operand;
  OperandIndex blocks = no_operand; /* mask of the blocks of a multicast; absent: no multicast */
  std::array<OperandIndex, max_tensor_rank> at{};
  std::array<OperandIndex, max_tensor_rank - 2> offsets{}; /* the offsets of an im2col load */
};

} // namespace sim::exec

#endif
