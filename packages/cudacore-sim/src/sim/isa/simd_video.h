/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_SIMD_VIDEO_H
#define CUDACORE_SIM_ISA_SIMD_VIDEO_H

#include "sim/isa/handlers.h"

/* The video instructions on two half-words or four bytes of a register: vadd2, vset4 and so on. */
namespace sim::exec {

enum class SimdOp : uint8_t { add, sub, average, absdiff, min, max, set, count };

struct SimdMode {
  uint8_t parts = 2; /* 2 or 4 */
  bool d_signed = false, a_signed = false, b_signed = false;
  bool saturate = false;
  bool adds = false;                     /* the results are added to c; otherwise they replace parts of c */
  uint8_t comparison = 0;                /* for set: a Comparison */
  uint8_t mask = 0;                      /* the parts of d that the results are for */
  std::array<uint8_t, 4> a_from, b_from; /* for each part, its source: a part of a or, from `parts` on, of b */
};
/* Operands: d, a, b, c. The immediate is simd_mode(). */
Handler simd_handler(SimdOp op);
int64_t simd_mode(const SimdMode &mode);

} // namespace sim::exec

#endif
