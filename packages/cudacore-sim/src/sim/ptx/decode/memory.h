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

/* Returns the operands in a vector of `vector` elements. */
const std::vector<ast::Operand> &elements_of(Coder &c, const ast::Operand &operand, uint32_t vector);

/* Decodes the operand of a load or store with the values: one register, or a vector of registers. */
template <class Operand> void values(Coder &c, const ast::Operand &operand, uint32_t vector, Operand &&operand_of) {
  if (vector == 1 && operand.kind != ast::Operand::Kind::vector) {
    c.out.op[0] = operand_of(operand);
    return;
  }
  const std::vector<ast::Operand> &elements = elements_of(c, operand, vector);
  for (uint32_t i = 0; i < vector; ++i)
    c.out.op[i] = operand_of(elements[i]);
}

/* Decode st.async, st.bulk and red.async, after these words were taken. */
void st_async(Coder &c);
void st_bulk(Coder &c);
void red_async(Coder &c);

/*
 * Decodes cp.async.bulk.tensor, cp.reduce.async.bulk.tensor or cp.async.bulk.prefetch.tensor, after these words were
 * taken. For a copy that is not a reduction or a prefetch, `way` is a load, which can turn out to be a store.
 */
void tensor_copy(Coder &c, exec::TensorWay way);

} // namespace sim::ptx

#endif
