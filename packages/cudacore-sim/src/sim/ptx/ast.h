/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_AST_H
#define CUDACORE_SIM_PTX_AST_H

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/engine.h"
#include "sim/isa/types.h"
#include "sim/ptx/targets.h"

/* The syntax tree of PTX. Names in it are not resolved yet. All string_views refer to the compiled text. */
namespace sim::ptx::ast {

struct Operand {
  enum class Kind : uint8_t {
    name,     /* %r1, symbol, symbol+8, symbol[2], %p1|%p2, !%p1, %tid.x */
    integer,  /* value */
    floating, /* value: bits of a double if `wide`, otherwise of a float */
    address,  /* [name+value] or [value]; for tensor copies and textures [name, {elements}] */
    vector,   /* {a, b} */
    list      /* (a, b): the arguments or results of a call */
  };
  Kind kind = Kind::name;
  bool negated = false;
  bool wide = false;
  bool is_unsigned = false; /* whether an integer is unsigned, for constant expressions */
  bool minus = false;       /* -%r1 */
  bool indexed = false;     /* symbol[2]: `value` counts elements of the variable */
  std::string_view name;
  std::string_view component; /* in %tid.x: x */
  std::string_view second;    /* in a pair such as %p1|%p2 or {%r1, %r2}|%p1: the name after the | */
  uint64_t value = 0;         /* a number, or an offset from `name`: in bytes or, if `indexed`, in elements */
  std::vector<Operand> elements;
};

struct SourcePosition {
  uint32_t file = 0, line = 0;
};

struct Instruction {
  uint32_t line = 0;
  SourcePosition source;
  std::string_view guard;
  bool guard_negated = false;
  std::string_view opcode;
  std::vector<std::string_view> modifiers; /* the modifiers, without their dots */
  std::vector<Operand> operands;
};

enum class Linkage : uint8_t { internal, visible, external, weak };

/* One value of an initialiser, with its index in the array. */
struct InitialValue {
  uint64_t index = 0;
  Operand value;        /* an integer, a floating-point number, or a name with an addend */
  bool generic = false; /* written as generic(name) */
  uint64_t mask = 0;    /* 0xff00(name): the byte of the address that has these bits; 0: the whole address */
  uint32_t line = 0;
};

struct Declaration {
  uint32_t line = 0;
  StateSpace space = StateSpace::generic;
  Linkage linkage = Linkage::internal;
  Type type = Type::none;
  uint32_t vector = 1;    /* 2 with .v2 */
  uint64_t alignment = 0; /* 0: not given */
  uint64_t elements = 1;  /* number of elements of an array, over all dimensions */
  bool is_array = false;
  bool unsized = false;        /* name[] without an initialiser, which would determine the size */
  uint32_t register_count = 0; /* %r<8> */
  std::string_view name;
  std::vector<InitialValue> initial;

  uint64_t element_bytes() const { return static_cast<uint64_t>(bytes_of(type)) * vector; }
  uint64_t bytes() const { return elements * element_bytes(); }
  uint64_t natural_alignment() const { return alignment ? alignment : element_bytes() ? element_bytes() : 1; }
};

struct Prototype {
  std::string_view name;
  std::vector<Declaration> results, parameters;
};

struct BranchTargets {
  std::string_view name;
  std::vector<std::string_view> labels;
};

struct Statement {
  enum class Kind : uint8_t { instruction, label, declaration, open, close, prototype, branch_targets };
  Kind kind = Kind::instruction;
  uint32_t line = 0;
  std::string_view label;
  /* The index in the list of the function that belongs to this kind of statement. These lists keep statements small. */
  size_t index = 0;
};

struct Function {
  uint32_t line = 0;
  bool is_entry = false;
  bool has_body = false;
  Linkage linkage = Linkage::internal;
  Target target; /* that of its text: texts with different targets can be linked */
  std::string_view name;
  std::vector<Declaration> results, parameters;
  Dim3 max_threads{0, 0, 0}, required_threads{0, 0, 0}, required_cluster{0, 0, 0};
  uint32_t min_blocks = 0, max_registers = 0;
  bool explicit_cluster = false;
  std::vector<Statement> body;
  std::vector<Instruction> instructions;
  std::vector<Declaration> declarations;
  std::vector<Prototype> prototypes;
  std::vector<BranchTargets> branch_targets;
};

struct Alias {
  uint32_t line = 0;
  std::string_view name, target;
};

struct Module {
  std::string version;
  uint32_t major = 0, minor = 0;
  uint32_t version_line = 0;
  std::string target;
  std::vector<Declaration> variables;
  std::vector<Function> functions;
  std::vector<Alias> aliases;
  std::map<uint32_t, std::string> files;
};

} // namespace sim::ptx::ast

#endif
