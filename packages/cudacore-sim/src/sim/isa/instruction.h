/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_INSTRUCTION_H
#define CUDACORE_SIM_ISA_INSTRUCTION_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace sim::exec {

class Warp;
struct Instruction;

/* Executes one instruction for the lanes of a mask. The mask is never empty. */
using Handler = void (*)(Warp &, const Instruction &, uint32_t lanes);

constexpr uint32_t warp_size = 32;
constexpr uint32_t all_lanes = 0xffffffffu;

/*
 * Operands. A register is the index of the first of its 32 lanes in the frame, where each lane is one 64-bit number
 * (slot * 32). A constant is the complement of its index in Program::constants. It is stored there 32 times, so that
 * handlers read registers and constants in the same way. A predicate is two times the index of its mask in the frame,
 * plus one if the predicate is negated.
 */
using OperandIndex = int32_t;
constexpr uint32_t masks_in_slot = 2 * warp_size; /* number of predicates that fit in the space of a register */
constexpr OperandIndex no_operand = INT32_MIN;
constexpr OperandIndex predicate_false = -2;
constexpr OperandIndex predicate_true = -1;

constexpr size_t max_operands = 10;

/* How an instruction accesses memory, for the checks. */
enum AccessFlag : uint8_t {
  access_strong = 1,   /* volatile, relaxed or stronger: two such accesses are not a race */
  access_acquire = 2,  /* acquire: later accesses see released data */
  access_release = 4,  /* release: publishes earlier accesses */
  access_update = 8,   /* reads and writes in one atomic operation */
  access_replace = 16, /* an update that does not use the old value */
  access_store = 32,   /* a store: the operands before the address are the stored values */
  access_barrier = 64, /* an operation on an mbarrier */
  access_aligned = 128 /* a barrier that all threads of a warp must execute together */
};

/* The set of threads among which an atomic or a fence orders memory. */
enum class Scope : uint8_t { block, cluster, all };
constexpr size_t scopes = 3;

struct Instruction {
  Handler run = nullptr;
  std::array<OperandIndex, max_operands> op;
  OperandIndex guard = no_operand;
  uint8_t count = 1;     /* number of elements of a vector access */
  uint8_t mode = 0;      /* its meaning depends on the handler: a comparison, a table, ... */
  bool flag : 1;         /* its meaning depends on the handler */
  uint8_t scope_ : 2;    /* a Scope */
  uint8_t access = 0;    /* bits of AccessFlag */
  int64_t immediate = 0; /* its meaning depends on the handler: an address offset, a value, ... */
  uint32_t target = 0;   /* its meaning depends on the handler: an instruction, a function, a variable, ... */
  uint32_t line = 0;     /* the number of the line in the PTX text */
  uint32_t source_file = 0, source_line = 0;

  Instruction() : flag(false), scope_(static_cast<uint8_t>(Scope::all)) { op.fill(no_operand); }
  Scope scope() const { return static_cast<Scope>(scope_); }
  void set_scope(Scope scope) { scope_ = static_cast<uint8_t>(scope) & 3; }
};

} // namespace sim::exec

#endif
