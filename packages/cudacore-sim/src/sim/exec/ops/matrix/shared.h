/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_MATRIX_SHARED_H
#define CUDACORE_SIM_EXEC_OPS_MATRIX_SHARED_H

#include "sim/exec/checker.h"
#include "sim/isa/matrix.h"

/* What the instructions on matrices have in common: how lanes meet, and matrices in shared memory. */
namespace sim::exec {

/* Calls f(lanes) once all lanes of the warp that have not ended have reached the instruction, as .aligned requires. */
template <class F> void all_together(Warp &w, const Instruction &ins, uint32_t lanes, F &&f) {
  Checker *checker = w.grid->checker.get();
  uint32_t present = w.gather(lanes, all_lanes, Warp::Meeting::here);
  if (!present)
    return;
  if (checker)
    checker->aligned(w, ins, present);
  f(present);
}

/*
 * Reads lines of k elements from shared memory: rows of A, or columns of B. CUDA does not define which thread of a warp
 * reads which line. Here, one thread reads all lines.
 */
void read_lines(Warp &w, const Instruction &ins, uint32_t reader, Element element, uint32_t k, uint64_t descriptor,
                bool by_k, uint32_t first, uint32_t count, MatrixBits &matrix);
/* Changes the signs of the first elements of a matrix. */
void negate(Element element, uint32_t count, MatrixBits &matrix);

} // namespace sim::exec

#endif
