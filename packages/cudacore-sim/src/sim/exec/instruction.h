/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_INSTRUCTION_H
#define CUDACORE_SIM_EXEC_INSTRUCTION_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace sim::exec {

class Warp;
struct Instruction;

/* Executes one instruction for the lanes of a mask, which is never empty. */
using Handler = void (*)(Warp &, const Instruction &, uint32_t lanes);

constexpr uint32_t warp_size = 32;
constexpr uint32_t all_lanes = 0xffffffffu;

/*
 * Operands. A register is the index of its 32 lanes in the frame, in units of one 64-bit lane (slot * 32). A constant
 * has the complement of its index in the program's constants, where it is stored 32 times over, so that handlers
 * read both alike. A predicate is its index in the frame's masks times two, plus one when it is negated.
 */
using OperandIndex = int32_t;
constexpr OperandIndex no_operand = INT32_MIN;
constexpr OperandIndex predicate_false = -2;
constexpr OperandIndex predicate_true = -1;

constexpr size_t max_operands = 10;

struct Instruction {
  Handler run = nullptr;
  std::array<OperandIndex, max_operands> op;
  OperandIndex guard = no_operand;
  uint8_t count = 1;     /* elements of a vector access */
  uint8_t mode = 0;      /* what the handler's family needs besides: a comparison, a table, ... */
  bool flag = false;     /* likewise */
  int64_t immediate = 0; /* an address offset, a value */
  uint32_t target = 0;   /* a label's instruction, a function, a variable, a call site */
  uint32_t line = 0;     /* of the PTX text */
  uint32_t source_file = 0, source_line = 0;

  Instruction() { op.fill(no_operand); }
};

} // namespace sim::exec

#endif
