/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_DECODE_MEMORY_H
#define CUDACORE_SIM_PTX_DECODE_MEMORY_H

#include "sim/isa/tensor_copy.h"
#include "sim/ptx/coder.h"

/* Shared by the decoders of memory instructions. */
namespace sim::ptx {

/* An address as a value: in a register, with an offset added. */
exec::OperandIndex computed_address(Coder &c, const ast::Operand &operand, bool &narrow);
/* .add, .min, ...; false: there is none. */
bool take_atomic_op(Coder &c, exec::AtomicOp &op);

/*
 * cp.async.bulk.tensor, cp.reduce.async.bulk.tensor or cp.async.bulk.prefetch.tensor, whose words up to this point were
 * consumed. A load can turn out to be a store.
 */
void tensor_copy(Coder &c, exec::TensorWay way);

} // namespace sim::ptx

#endif
