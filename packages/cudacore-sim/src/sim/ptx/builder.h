/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_BUILDER_H
#define CUDACORE_SIM_PTX_BUILDER_H

#include <deque>
#include <optional>
#include <unordered_map>

#include "sim/isa/handlers.h"
#include "sim/isa/program.h"
#include "sim/ptx/ast.h"
#include "sim/ptx/lexer.h"

/* Generation of code for a module and its functions: symbols, registers and labels. */
namespace sim::ptx {

using exec::Instruction;
using exec::OperandIndex;

/* The exception for an error in one statement. The compiler still checks the other statements. */
struct StatementError {
  std::string message;
  CompileResult::Failure failure = CompileResult::Failure::syntax;
};

struct Symbol {
  enum class Kind : uint8_t {
    none,
    reg,
    predicate,
    global,           /* index: that of a variable of the module */
    shared,           /* index: that of a shared variable */
    frame,            /* offset: in bytes from the start of the frame */
    kernel_parameter, /* offset: in bytes from the start of the argument block */
    function          /* index */
  };
  Kind kind = Kind::none;
  Type type = Type::none;
  StateSpace space = StateSpace::generic;
  OperandIndex op = exec::no_operand; /* for registers and predicates */
  uint32_t index = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t element = 0; /* size in bytes of an array's element, for name[2] */
};

class ModuleBuilder {
public:
  explicit ModuleBuilder(const ast::Module &tree) : tree_(tree), module_(std::make_shared<Module>()) {}
  CompileResult build();

  /* --- members that function builders use ------------------------------------------------------------------------- */
  const Symbol *find(std::string_view name) const;
  OperandIndex constant(uint64_t bits);
  uint32_t add_variable(const ast::Declaration &declaration);
  uint32_t add_shared(const ast::Declaration &declaration);
  exec::Program &program() { return module_->program; }
  void error(uint32_t line, const StatementError &what);

private:
  void declare_functions();
  void declare(std::string_view name, const Symbol &symbol);
  static void set_signature(exec::Function &function, const ast::Function &from);
  static bool has_signature(const exec::Function &function, const ast::Function &as);
  void describe_kernels();
  void lay_out_shared(uint32_t function, exec::SharedLayout &layout) const;
  std::vector<uint32_t> reachable(uint32_t function) const;
  void resolve_initial_values();
  void check_externals();
  KernelInfo describe(uint32_t function, const ast::Function &from);

  const ast::Module &tree_;
  std::shared_ptr<Module> module_;
  std::unordered_map<std::string_view, Symbol> symbols_;
  std::unordered_map<uint64_t, OperandIndex> constants_;
  std::vector<const ast::Declaration *> variable_declarations_;
  std::vector<uint32_t> registers_; /* an estimate of the number of registers, by function */
  std::string log_;
  uint32_t errors_ = 0;
  CompileResult::Failure failure_ = CompileResult::Failure::none;
};

/* Rounds an offset up to a multiple of the alignment. */
constexpr uint64_t aligned(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

class FunctionBuilder {
public:
  FunctionBuilder(ModuleBuilder &module, const ast::Function &tree, uint32_t index);
  /*
   * Appends the code of the function to the program. Returns an estimate of the number of registers that the function
   * needs.
   */
  uint32_t build();

  /* --- members that decoders of instructions use -------------------------------------------------------------- */
  const Symbol &resolve(std::string_view name);
  bool knows(std::string_view name) { return find(name) != nullptr; }
  /*
   * Returns the names of the registers that make up a vector register (.reg .v4 .f32 %v), or null if there is no vector
   * register of this name.
   */
  const std::vector<std::string_view> *vector_elements(std::string_view name);
  /* Returns the number of a label. The label's instruction is known only when the function is complete. */
  uint32_t label(std::string_view name);
  const ast::Prototype *prototype(std::string_view name) const;
  const ast::BranchTargets *branch_targets(std::string_view name) const;
  /* Returns a 64-bit register for a temporary value of the instruction that is being decoded. */
  OperandIndex scratch();
  OperandIndex scratch_predicate();
  void emit(const Instruction &instruction) {
    module.program().code.push_back(instruction);
    module.program().flows.emplace_back();
  }
  /*
   * reads() and writes() record that the instruction that is being decoded reads or writes a register, or the mask of a
   * predicate.
   */
  void reads(OperandIndex value) { reads_.push_back(value); }
  void writes(OperandIndex value) { writes_.push_back(value); }
  void emit_branch(Instruction instruction, uint32_t label);
  uint32_t add_branch_table(const std::vector<uint32_t> &labels);
  exec::Function &function() { return module.program().functions[index]; }
  bool is_entry() const { return tree_.is_entry; }
  Target target() const { return tree_.target; }

  ModuleBuilder &module;
  const uint32_t index;

private:
  struct RegisterRange {
    Type type;
    uint32_t count;
    uint32_t vector;
  };
  template <class T> using Names = std::unordered_map<std::string_view, T>;
  struct Scope {
    Names<Symbol> symbols;
    Names<RegisterRange> ranges;
    Names<std::vector<std::string_view>> vectors; /* the names of the registers that make up each vector register */
    Names<uint32_t> labels;
    Names<const ast::Prototype *> prototypes;
    Names<const ast::BranchTargets *> branch_targets;
  };
  struct Live {
    uint32_t begin, end, words;
  };

  void declare_formals();
  void collect_labels();
  void declare(const ast::Declaration &declaration);
  void add_symbol(std::string_view name, const Symbol &symbol);
  Symbol new_register(Type type);
  void add_vector(Scope &scope, std::string_view name, Type type, uint32_t count);
  ast::Operand without_vectors(const ast::Operand &operand);
  Symbol new_frame_variable(const ast::Declaration &declaration);
  const Symbol *find(std::string_view name);
  /* Returns what a name stands for in the innermost scope that declares it, or null if no scope does. */
  template <class T> const T *find_in(Names<T> Scope::*names, std::string_view name) const;
  void touch(const Symbol &symbol);
  void keep_accumulator_uses(size_t begin);
  void instruction(const ast::Instruction &one);
  void keep_flow(const ast::Instruction &one);
  void patch_branches();
  uint32_t estimate_registers();

  const ast::Function &tree_;
  std::vector<Scope> scopes_;                         /* all scopes, in the order in which they begin in the text */
  std::vector<size_t> open_scopes_;                   /* the scopes around the current statement */
  std::vector<uint32_t> labels_;                      /* the index of the instruction at each label */
  std::vector<std::pair<size_t, uint32_t>> branches_; /* the branch instructions, and the labels to which they branch */
  std::vector<uint32_t> tables_; /* the branch tables in which labels have not been replaced by instructions yet */
  std::unordered_map<OperandIndex, Live> live_;
  /* The registers that an instruction uses. This is recorded only in functions that may contain wgmma. */
  struct Use {
    uint32_t at;
    bool moves;
    std::vector<OperandIndex> registers;
  };
  std::vector<Use> uses_;
  std::vector<OperandIndex> touched_;        /* the operands used by the instruction that is being decoded */
  std::vector<OperandIndex> reads_, writes_; /* see reads() and writes() */
  const bool keeps_uses_;                    /* whether the code may contain wgmma */
  uint32_t slots_ = 0;
  uint32_t predicates_in_slot_ = 64;
  uint32_t predicate_slot_ = 0;
  OperandIndex sink_ = exec::no_operand, predicate_sink_ = exec::no_operand;
  std::vector<OperandIndex> scratch_;
  bool has_vectors_ = false;
  std::deque<std::string> names_; /* the names of the registers in vectors, which do not occur in the PTX text */
  size_t scratch_used_ = 0;
  uint64_t frame_bytes_ = 0;
  Symbol found_;
};

} // namespace sim::ptx

#endif
