/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_MATRIX_TENSOR_CELLS_H
#define CUDACORE_SIM_EXEC_OPS_MATRIX_TENSOR_CELLS_H

#include "sim/exec/grid.h"
#include "sim/isa/tensor_memory.h"

/* The tensor memory of a block: 128 lanes with 512 columns of 32 bits. */
namespace sim::exec {

struct TensorMemory {
  std::array<std::array<uint32_t, tensor_columns>, tensor_lanes> cells;
  /* For each unit of columns, the first column and the number of columns of its allocation; 0 columns: it is free. */
  struct Allocation {
    uint32_t first = 0, columns = 0;
    Warp *by = nullptr; /* the warp that allocated the columns, and its instruction */
    const Instruction *at = nullptr;
  };
  std::array<Allocation, tensor_columns / tensor_unit> units{};
  bool relinquished = false;
};

/* Returns a cell of tensor memory. An access outside of the allocated columns is a fault. */
uint32_t &tensor_cell(Warp &w, const Instruction &ins, uint32_t by, uint32_t lane, uint32_t column);
inline uint32_t lane_of_address(uint32_t address) { return address >> 16; }
inline uint32_t column_of_address(uint32_t address) { return address & 0xffff; }

} // namespace sim::exec

#endif
