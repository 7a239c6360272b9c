/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_CODER_H
#define CUDACORE_SIM_PTX_CODER_H

#include "sim/ptx/builder.h"

namespace sim::ptx {

/*
 * An instruction that is being decoded. A decoder takes the modifiers of the instruction one by one until none is left,
 * converts the operands, and emits instructions of the program.
 */
class Coder {
public:
  Coder(FunctionBuilder &function, const ast::Instruction &tree);

  /* --- modifiers ---------------------------------------------------------------------------------------------- */
  bool take(std::string_view modifier);
  /*
   * Takes the first of the instruction's modifiers that is in `names`. Returns its index in `names`, or `count` if
   * there is none.
   */
  size_t take_one_of(const std::string_view *names, size_t count);
  /* A modifier, and the value that it stands for. */
  template <class T> struct Choice {
    std::string_view name;
    T meaning;
  };
  /*
   * Takes the first of `choices` whose modifier the instruction has, and stores the value that it stands for. Returns
   * false if the instruction has none of these modifiers.
   */
  template <class T, size_t N> bool take_choice(const Choice<T> (&choices)[N], T &meaning) {
    for (const Choice<T> &one : choices)
      if (take(one.name)) {
        meaning = one.meaning;
        return true;
      }
    return false;
  }
  /* Takes the first remaining modifier that is a type. Returns Type::none if there is none. */
  Type take_type();
  Type need_type();
  void need_type(Type exactly);
  StateSpace take_space(); /* takes the first remaining modifier that is a state space, or returns `generic` */
  exec::Rounding take_rounding();
  /* Takes .v2, .v4 or .v8. Returns the number of elements, or 1. */
  uint32_t take_vector();
  /* Takes the modifiers that have no effect here: hints for caches and the memory system. */
  void skip_cache_hints();
  /* Takes the modifiers of the memory order and the scope. Returns whether the access is strong, as PTX calls it. */
  bool take_memory_order();
  void take_scope();
  void need_aligned(); /* takes .sync.aligned */
  [[noreturn]] void unsupported() const;
  [[noreturn]] void fail(const std::string &message) const;

  /* --- operands ----------------------------------------------------------------------------------------------- */
  size_t count() const { return tree_.operands.size(); }
  void need(size_t min, size_t max);
  void need(size_t exactly) { need(exactly, exactly); }
  const ast::Operand &operand(size_t i) const { return tree_.operands[i]; }
  bool is_list(size_t i) const { return i < count() && operand(i).kind == ast::Operand::Kind::vector; }

  OperandIndex destination(const ast::Operand &operand, Type type, bool may_be_wider = false);
  OperandIndex source(const ast::Operand &operand, Type type, bool may_be_wider = false);
  OperandIndex destination_predicate(std::string_view name);
  OperandIndex source_predicate(const ast::Operand &operand);
  OperandIndex destination(size_t i, Type type) { return destination(tree_.operands[i], type); }
  OperandIndex source(size_t i, Type type) { return source(tree_.operands[i], type); }
  /* Checks that the operands are one destination and sources, all of these types, and stores them in `out`. */
  void operands(std::initializer_list<Type> types);
  void operands(Type type, size_t sources); /* for operands that all have the same type */
  OperandIndex constant(uint64_t value) { return function_.module.constant(value); }
  uint64_t integer(size_t i) const;
  Type register_type(const ast::Operand &operand);

  struct Address {
    enum class Kind : uint8_t { dynamic, frame, kernel_parameter } kind = Kind::dynamic;
    OperandIndex base = exec::no_operand;
    bool narrow = false; /* the register with the base has 32 bits */
    int64_t offset = 0;
  };
  Address address(const ast::Operand &operand, uint64_t bytes);
  /* Stores the base, the offset and the width of an address in `out`. */
  void set_address(const ast::Operand &operand, size_t place, uint64_t bytes = 1);
  /*
   * Returns whether an operand is a special register. If so, makes `read` the instruction that reads this register,
   * which still lacks its destination.
   */
  bool special(const ast::Operand &operand, Instruction &read) const;
  /* Emits instructions that compute the address of a symbol, plus an offset, in a register. */
  void emit_address_of(const Symbol &symbol, int64_t offset, OperandIndex into);

  /* --- results ------------------------------------------------------------------------------------------------ */
  Instruction out;
  /*
   * Adds `out` to the program, with this handler. Fails if `handler` is null (PTX has no such instruction), or if
   * modifiers are left that were not taken.
   */
  void emit(exec::Handler handler);
  void emit_before(Instruction instruction);
  void emit_branch(uint32_t label);
  FunctionBuilder &function() { return function_; }
  std::string_view opcode() const { return tree_.opcode; }
  void check_target() const; /* fails if the function's target does not have this instruction */
  std::string text() const;  /* add.s32 */

private:
  void check_all_taken() const;
  void refuse_component(const ast::Operand &operand) const;
  uint64_t addend(const ast::Operand &operand, const Symbol &symbol) const;
  uint64_t immediate(const ast::Operand &operand, Type type) const;
  void stamp(Instruction &instruction) const;

  FunctionBuilder &function_;
  const ast::Instruction &tree_;
  std::vector<bool> taken_;
};

/* Decodes an instruction and adds it to the code. Throws StatementError. */
void decode(Coder &coder);
/* Returns whether instructions with this opcode only read and write registers. */
bool only_computes(std::string_view opcode);

/* The tables of decoders, one for each group of instructions. The last row of each table has a null name. */
struct Decoder {
  const char *name;
  void (*decode)(Coder &);
};
extern const Decoder arithmetic_decoders[];
extern const Decoder video_decoders[];
extern const Decoder logic_decoders[];
extern const Decoder data_decoders[];
extern const Decoder memory_decoders[];
extern const Decoder asynchronous_decoders[];
extern const Decoder parallel_decoders[];
extern const Decoder matrix_decoders[];
extern const Decoder matrix_rows_decoders[];
extern const Decoder tensor_decoders[];
extern const Decoder tcgen05_decoders[];
extern const Decoder texture_decoders[];
extern const Decoder control_decoders[];

} // namespace sim::ptx

#endif
