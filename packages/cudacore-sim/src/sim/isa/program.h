/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_PROGRAM_H
#define CUDACORE_SIM_ISA_PROGRAM_H

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/engine.h"
#include "sim/isa/matrix.h"
#include "sim/isa/tensor_copy.h"
#include "sim/isa/texture.h"
#include "sim/isa/types.h"

namespace sim::exec {

/* The functions that CUDA's runtime environment provides to kernels. */
enum class Builtin : uint8_t { none, vprintf, assert_fail, malloc, free, set_condition };

/* The location of an argument or result of a function: bytes of the frame, or a register. */
struct ValueLocation {
  bool is_register = false;
  OperandIndex register_index = no_operand; /* for an argument, this may also be a constant */
  bool is_predicate = false;
  uint32_t offset = 0; /* offset in the frame, in bytes */
  uint32_t size = 0;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool is_defined = false;
  bool address_taken = false;
  Builtin builtin = Builtin::none;
  uint32_t entry = 0;       /* index of the first instruction */
  uint32_t slots = 0;       /* size of a frame's registers and predicates, in slots of 32 lanes */
  uint32_t frame_bytes = 0; /* size of a lane's .local and .param variables */
  uint32_t local_bytes = 0; /* size of a lane's .local variables alone */
  std::vector<ValueLocation> results, parameters;
  std::vector<uint32_t> callees;
  std::vector<uint32_t> shared_variables; /* the shared variables that the function uses */
  bool calls_indirectly = false;
};

struct CallSite {
  uint32_t caller = 0;
  std::vector<ValueLocation> results, arguments;
};

struct SharedVariable {
  std::string name;
  uint64_t size = 0;
  uint64_t alignment = 1;
  bool is_dynamic = false; /* extern .shared x[]: the launch determines the size */
};

/* The offsets in shared memory of all shared variables that a kernel can reach. */
struct SharedLayout {
  std::unordered_map<uint32_t, uint32_t> offsets; /* offset of each variable */
  uint32_t static_bytes = 0;
  uint32_t dynamic_offset = 0;
};

struct Kernel {
  uint32_t function = 0;
  SharedLayout shared;
};

/*
 * An instruction that reads or copies an accumulator of wgmma. The accumulator's value is undefined until the program
 * has waited for the product.
 */
struct AccumulatorUse {
  Handler run = nullptr;
  bool moves = false; /* copies the accumulator to the first operand, which becomes an accumulator, too */
  std::vector<OperandIndex> registers;
};

/* How undefined operands of an instruction make its results undefined, for the check of initialization. */
enum class Flow : uint8_t {
  computes, /* the results are undefined if an operand is undefined */
  selects,  /* the result is undefined if the condition or the selected operand is undefined */
  ands,     /* for predicates: the result is defined if one operand is false and defined */
  ors,      /* for predicates: the result is defined if one operand is true and defined */
  loads,    /* the results come from memory; the address has to be defined */
  uses      /* the operands have to be defined, because they determine what the program does */
};

/* A range of Program::values: first the values that an instruction reads, then the values that it writes. */
struct DataFlow {
  uint32_t begin = 0;
  uint16_t reads = 0, writes = 0;
  Flow flow = Flow::computes;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<DataFlow> flows;      /* the data flow of each instruction */
  std::vector<OperandIndex> values; /* the index of a register, or the complement of the index of a mask */
  std::vector<uint64_t> constants;  /* each constant is repeated warp_size times */
  std::vector<Function> functions;
  std::vector<CallSite> calls;
  std::vector<std::vector<uint32_t>> branch_tables;
  std::vector<MatrixProduct> products;
  std::vector<GroupProduct> group_products;
  std::vector<TensorCopy> tensor_copies;
  std::unordered_map<uint32_t, AccumulatorUse> accumulator_uses; /* the accumulators that each instruction uses */
  std::vector<MatrixAccess> matrix_accesses;
  std::vector<TextureAccess> texture_accesses;
  std::vector<SharedVariable> shared_variables;
  std::vector<Kernel> kernels; /* in the same order as ModuleInfo::kernels */
  std::map<uint32_t, std::string> files;
  uint32_t id = 0; /* distinguishes the addresses of this module's functions from those of other modules */
};

/* The windows of generic addresses. Except for `memory`, they are above all addresses that a process can have. */
constexpr uint64_t window_shift = 48;
enum class Window : uint64_t {
  memory = 0,
  shared = 1,
  local = 2,
  parameter = 3,
  workspace = 4,
  heap = 5,
  function = 6
};
constexpr uint64_t window_base(Window window) { return static_cast<uint64_t>(window) << window_shift; }

/* A shared address consists of the rank of its block in the cluster and an offset. */
constexpr uint32_t shared_rank_shift = 24;
/*
 * The part of the reserved KiB (Launch::shared_reserved) that cooperative groups of several warps use. It begins at
 * %reserved_smem_offset_1. Programs may not use the rest of the reserved KiB.
 */
constexpr uint32_t shared_scratch = 288, shared_scratch_offset = 1024 - shared_scratch;

constexpr uint64_t function_address(uint32_t program, uint32_t function) {
  return window_base(Window::function) | (uint64_t{program} << 24) | (uint64_t{function} << 4);
}

} // namespace sim::exec

namespace sim {
class Module {
public:
  ModuleInfo info;
  exec::Program program;
};
} // namespace sim

#endif
