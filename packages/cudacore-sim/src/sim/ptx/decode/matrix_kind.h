/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_DECODE_MATRIX_KIND_H
#define CUDACORE_SIM_PTX_DECODE_MATRIX_KIND_H

#include "sim/isa/tensor_memory.h"
#include "sim/ptx/coder.h"

/* The .kind of a product of matrices, which mma.sync and tcgen05.mma share. */
namespace sim::ptx {

/* Takes .kind::f16 or another kind. Returns false if there is none. */
bool take_kind(Coder &c, exec::TensorKind &kind);
/*
 * Takes .block_scale and the number of scales of a row, which tcgen05 can also give as the number of columns of a block
 * (`by_block`). Returns 0 if products of this kind have no scales.
 */
uint8_t take_scales(Coder &c, exec::TensorKind kind, bool by_block);

} // namespace sim::ptx

#endif
