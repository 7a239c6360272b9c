/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_DECODE_MEMORY_H
#define CUDACORE_SIM_PTX_DECODE_MEMORY_H

#include "sim/isa/tensor_copy.h"
#include "sim/ptx/coder.h"

/* Functions that several decoders of memory instructions share. */
namespace sim::ptx {

/*
 * Returns a register with the address of an operand, including its offset. Sets `narrow` if the register has 32 bits.
 */
exec::OperandIndex computed_address(Coder &c, const ast::Operand &operand, bool &narrow);
/*
 * The flags of all operations on an mbarrier. Nearly all of them order memory, so none of them is treated as relaxed.
 */
constexpr uint8_t mbarrier_access =
    exec::access_strong | exec::access_acquire | exec::access_release | exec::access_update | exec::access_barrier;
/* Those of the end of an asynchronous operation: it releases the data, and the thread that began it acquires nothing.
 */
constexpr uint8_t completion_access = mbarrier_access & ~exec::access_acquire;
/* Takes .add, .min or another operation. Returns false if there is none. */
bool take_atomic_op(Coder &c, exec::AtomicOp &op);

/*
 * Decodes cp.async.bulk.tensor, cp.reduce.async.bulk.tensor or cp.async.bulk.prefetch.tensor, after these words were
 * taken. For a copy that is not a reduction or a prefetch, `way` is a load, which can turn out to be a store.
 */
void tensor_copy(Coder &c, exec::TensorWay way);

} // namespace sim::ptx

#endif
