/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_LANES_H
#define CUDACORE_SIM_EXEC_OPS_LANES_H

#include "sim/exec/warp.h"

/*
 * Handlers that apply a function to each lane. F::apply takes the values of the sources, and returns that of the
 * result.
 */
namespace sim::exec {

template <class F, class R, class A> void unary(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { put<R>(d, lane, F::apply(get<A>(a, lane))); });
}

template <class F, class R, class A, class B = A> void binary(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { put<R>(d, lane, F::apply(get<A>(a, lane), get<B>(b, lane))); });
}

template <class F, class R, class A, class B = A, class C = B>
void ternary(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]), *c = w.in(ins.op[3]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes,
            [&](uint32_t lane) { put<R>(d, lane, F::apply(get<A>(a, lane), get<B>(b, lane), get<C>(c, lane))); });
}

} // namespace sim::exec

#endif
