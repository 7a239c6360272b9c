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

/* The functions that the runtime environment of CUDA provides. */
enum class Builtin : uint8_t { none, vprintf, assert_fail, malloc, free, set_condition };

/* The place of a value that is passed to or from a function: bytes of the frame, or a register. */
struct ValueLocation {
  bool is_register = false;
  OperandIndex register_index = no_operand; /* an argument may also be a constant */
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
  uint32_t slots = 0;       /* registers and predicates of a frame, in slots of 32 lanes */
  uint32_t frame_bytes = 0; /* .local and .param variables of a lane */
  uint32_t local_bytes = 0; /* .local variables alone */
  std::vector<ValueLocation> results, parameters;
  std::vector<uint32_t> callees;
  std::vector<uint32_t> shared_variables; /* variables that the function names */
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

/* The places in shared memory of the variables that a kernel can reach. */
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
 * An instruction that reads or moves an accumulator of wgmma. The value is undefined until the program has waited for
 * the product.
 */
struct AccumulatorUse {
  Handler run = nullptr;
  bool moves = false; /* the value is copied to the first operand, which then counts as an accumulator, too */
  std::vector<OperandIndex> registers;
};

/* How undefined operands make results undefined, for the check of initialization. */
enum class Flow : uint8_t {
  computes, /* the results are undefined if an operand is undefined */
  selects,  /* the result is undefined if the condition or the chosen operand is undefined */
  ands,     /* of predicates: the result is defined if one operand is false */
  ors,      /* of predicates: the result is defined if one operand is true */
  loads,    /* the results come from memory; the address has to be defined */
  uses      /* the operands have to be defined, because they change what the program does */
};

/* The values that an instruction reads, and after them those that it writes: a range of Program::values. */
struct DataFlow {
  uint32_t begin = 0;
  uint16_t reads = 0, writes = 0;
  Flow flow = Flow::computes;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<DataFlow> flows;      /* the data flow of each instruction */
  std::vector<OperandIndex> values; /* a register's index, or the complement of the index of a predicate's mask */
  std::vector<uint64_t> constants;  /* each is repeated warp_size times */
  std::vector<Function> functions;
  std::vector<CallSite> calls;
  std::vector<std::vector<uint32_t>> branch_tables;
  std::vector<MatrixProduct> products;
  std::vector<GroupProduct> group_products;
  std::vector<TensorCopy> tensor_copies;
  std::unordered_map<uint32_t, AccumulatorUse> accumulator_uses; /* uses by instruction */
  std::vector<MatrixAccess> matrix_accesses;
  std::vector<TextureAccess> texture_accesses;
  std::vector<SharedVariable> shared_variables;
  std::vector<Kernel> kernels; /* in the same order as ModuleInfo::kernels */
  std::map<uint32_t, std::string> files;
  uint32_t id = 0; /* distinguishes the function addresses of modules */
};

/* The windows of generic addresses. These windows are above all addresses that a process can have. */
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

/* A shared address: the rank of its block in the cluster, and an offset. The first KiB is reserved, as on sm_90. */
constexpr uint32_t shared_rank_shift = 24;
constexpr uint32_t shared_reserved = 1024;
/*
 * The part of the reserved KiB that cooperative groups of several warps use, at %reserved_smem_offset_1. Programs may
 * not use the rest.
 */
constexpr uint32_t shared_scratch = 288, shared_scratch_offset = shared_reserved - shared_scratch;
constexpr uint32_t shared_unit = 128; /* the unit in which devices from 8.0 on allocate shared memory */

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
