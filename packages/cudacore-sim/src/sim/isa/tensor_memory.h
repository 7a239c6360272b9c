/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_TENSOR_MEMORY_H
#define CUDACORE_SIM_ISA_TENSOR_MEMORY_H

#include "sim/isa/handlers.h"

/*
 * tcgen05: the tensor memory of a block, and products of matrices in it. An address of tensor memory has the lane in
 * its upper half, and the column in its lower half.
 */
namespace sim::exec {

constexpr uint32_t tensor_lanes = 128, tensor_columns = 512, tensor_unit = 32; /* columns are allocated in units */

/* Operands: a shared address (flag: it is not generic), and the number of columns. */
Handler tensor_alloc_handler();
Handler tensor_free_handler();       /* address, number of columns */
Handler tensor_relinquish_handler(); /* no more allocations follow */

/* The lanes and columns that a load or store accesses, before it is repeated. */
enum class TensorShape : uint8_t { lanes_32x32b, lanes_16x32bx2, lanes_16x64b, lanes_16x128b, lanes_16x256b };
/*
 * tcgen05.ld and tcgen05.st. Operand: the address. mode: a TensorShape; flag: 16 bits are stored in each column;
 * immediate: the distance of the halves of 16x32bx2; target: index in Program::matrix_accesses, for the registers.
 */
Handler tensor_load_handler();
Handler tensor_store_handler();

/*
 * tcgen05.cp. Operands: the address, and the descriptor of the matrix in shared memory. count: number of words of a
 * row; mode: a TensorCopyRows.
 */
enum class TensorCopyRows : uint8_t { all_128, halves_02_13, halves_01_23, to_all_warps };
Handler tensor_fill_handler();

/* The types of a product's matrices A and B. */
enum class TensorKind : uint8_t { f16, tf32, i8, f8f6f4, mxf8f6f4, mxf4, mxf4nvf4 };
constexpr bool is_scaled(TensorKind kind) { return kind >= TensorKind::mxf8f6f4; }
constexpr bool is_packed(TensorKind kind) { return kind >= TensorKind::mxf4; } /* two numbers are in a byte */
/*
 * tcgen05.mma. Operands: the address of D; A, a descriptor or (flag) an address of tensor memory; the descriptor of B;
 * the description of the instruction; a predicate: D is added. Then the addresses of the scales of A and B, or four
 * masks of the lanes that keep their values; they can be absent. mode: a TensorKind; count: number of scales of a row;
 * immediate: D is divided by 2 to this power.
 */
Handler tensor_product_handler();

} // namespace sim::exec

#endif
