/* SPDX-License-Identifier: Apache-2.0 */
/* Generates the code of a function: scopes, registers, labels, statements. */
#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "sim/ptx/builder.h"
#include "sim/ptx/coder.h"

namespace sim::ptx {

namespace {
constexpr uint64_t max_frame_bytes = 512 * 1024;
constexpr uint32_t max_slots = 1u << 16;

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }
} // namespace

FunctionBuilder::FunctionBuilder(ModuleBuilder &of, const ast::Function &tree, uint32_t number)
    : module(of), index(number), tree_(tree), keeps_uses_(refusal(tree.target, "wgmma").empty()) {}

uint32_t FunctionBuilder::build() {
  exec::Program &program = module.program();
  uint32_t begin = static_cast<uint32_t>(program.code.size());
  function().entry = begin;
  collect_labels();
  open_scopes_.push_back(0); /* the scope of the function's formal parameters */
  try {
    declare_formals();
  } catch (const StatementError &error) {
    module.error(tree_.line, error);
  }
  size_t next_scope = 1, next_label = 0;
  for (const ast::Statement &statement : tree_.body) {
    try {
      switch (statement.kind) {
      case ast::Statement::Kind::open:
        open_scopes_.push_back(next_scope++);
        break;
      case ast::Statement::Kind::close:
        open_scopes_.pop_back();
        break;
      case ast::Statement::Kind::label:
        labels_[next_label++] = static_cast<uint32_t>(program.code.size());
        break;
      case ast::Statement::Kind::declaration:
        declare(tree_.declarations[statement.index]);
        break;
      case ast::Statement::Kind::instruction:
        instruction(tree_.instructions[statement.index]);
        break;
      case ast::Statement::Kind::prototype:
      case ast::Statement::Kind::branch_targets:
        break;
      }
    } catch (const StatementError &error) {
      module.error(statement.line, error);
    }
  }
  /* At the end of its body, a function returns. */
  Instruction end;
  end.run = exec::return_handler();
  end.line = tree_.line;
  emit(end);
  patch_branches();
  keep_accumulator_uses(begin);
  function().slots = std::max(slots_, 1u);
  function().frame_bytes = static_cast<uint32_t>(aligned(frame_bytes_, 16));
  function().is_defined = true;
  return estimate_registers();
}

/* Collects all labels before the first instruction is decoded, because labels can be used before they are defined. */
void FunctionBuilder::collect_labels() {
  scopes_.emplace_back();
  std::vector<size_t> open{0};
  for (const ast::Statement &statement : tree_.body) {
    Scope &scope = scopes_[open.back()];
    switch (statement.kind) {
    case ast::Statement::Kind::open:
      open.push_back(scopes_.size());
      scopes_.emplace_back();
      break;
    case ast::Statement::Kind::close:
      open.pop_back();
      break;
    case ast::Statement::Kind::label:
      if (!scope.labels.emplace(statement.label, static_cast<uint32_t>(labels_.size())).second)
        module.error(statement.line, {"label " + quoted(statement.label) + " is defined twice"});
      labels_.push_back(0);
      break;
    case ast::Statement::Kind::prototype: {
      const ast::Prototype &prototype = tree_.prototypes[statement.index];
      scope.prototypes[prototype.name] = &prototype;
      break;
    }
    case ast::Statement::Kind::branch_targets: {
      const ast::BranchTargets &targets = tree_.branch_targets[statement.index];
      scope.branch_targets[targets.name] = &targets;
      break;
    }
    default:
      break;
    }
  }
}

void FunctionBuilder::declare_formals() {
  if (tree_.is_entry) {
    uint64_t offset = 0;
    for (const ast::Declaration &one : tree_.parameters) {
      offset = aligned(offset, one.natural_alignment());
      Symbol symbol;
      symbol.kind = Symbol::Kind::kernel_parameter;
      symbol.space = StateSpace::param;
      symbol.type = one.type;
      symbol.offset = offset;
      symbol.size = one.bytes();
      symbol.element = one.element_bytes();
      add_symbol(one.name, symbol);
      offset += one.bytes();
    }
    return;
  }
  auto formals = [&](const std::vector<ast::Declaration> &list, std::vector<exec::ValueLocation> &places) {
    for (size_t i = 0; i < list.size(); ++i) {
      declare(list[i]);
      const Symbol &symbol = resolve(list[i].name);
      if (symbol.kind == Symbol::Kind::predicate)
        throw StatementError{"a parameter cannot be a predicate"};
      places[i].is_register = symbol.kind == Symbol::Kind::reg;
      places[i].register_index = symbol.op;
      places[i].offset = static_cast<uint32_t>(symbol.offset);
      places[i].size = static_cast<uint32_t>(symbol.size);
    }
  };
  formals(tree_.results, function().results);
  formals(tree_.parameters, function().parameters);
}

void FunctionBuilder::add_symbol(std::string_view name, const Symbol &symbol) {
  Scope &scope = scopes_[open_scopes_.back()];
  if (scope.vectors.count(name) || !scope.symbols.emplace(name, symbol).second)
    throw StatementError{quoted(name) + " is declared twice"};
}

void FunctionBuilder::declare(const ast::Declaration &one) {
  switch (one.space) {
  case StateSpace::reg:
    if (one.register_count) {
      scopes_[open_scopes_.back()].ranges[one.name] = RegisterRange{one.type, one.register_count, one.vector};
      has_vectors_ = has_vectors_ || one.vector > 1;
      return;
    }
    if (one.vector > 1)
      return add_vector(scopes_[open_scopes_.back()], one.name, one.type, one.vector);
    return add_symbol(one.name, new_register(one.type));
  case StateSpace::local:
  case StateSpace::param:
    return add_symbol(one.name, new_frame_variable(one));
  case StateSpace::shared: {
    Symbol symbol;
    symbol.kind = Symbol::Kind::shared;
    symbol.space = StateSpace::shared;
    symbol.index = module.add_shared(one);
    symbol.element = one.element_bytes();
    return add_symbol(one.name, symbol);
  }
  case StateSpace::global:
  case StateSpace::constant: {
    Symbol symbol;
    symbol.kind = Symbol::Kind::global;
    symbol.space = one.space;
    symbol.index = module.add_variable(one);
    symbol.element = one.element_bytes();
    return add_symbol(one.name, symbol);
  }
  default:
    throw StatementError{"a declaration without a state space"};
  }
}

Symbol FunctionBuilder::new_register(Type type) {
  Symbol symbol;
  symbol.type = type;
  symbol.size = std::max(bytes_of(type), 1u);
  if (slots_ > max_slots)
    throw StatementError{"the function uses too many registers"};
  if (type == Type::pred) {
    symbol.kind = Symbol::Kind::predicate;
    if (predicates_in_slot_ == exec::masks_in_slot) {
      predicate_slot_ = slots_++;
      predicates_in_slot_ = 0;
    }
    symbol.op = static_cast<OperandIndex>((predicate_slot_ * exec::masks_in_slot + predicates_in_slot_++) * 2);
    return symbol;
  }
  symbol.kind = Symbol::Kind::reg;
  symbol.op = static_cast<OperandIndex>(slots_ * exec::warp_size);
  slots_ += bits_of(type) == 128 ? 2 : 1;
  return symbol;
}

Symbol FunctionBuilder::new_frame_variable(const ast::Declaration &one) {
  Symbol symbol;
  symbol.kind = Symbol::Kind::frame;
  symbol.space = one.space;
  symbol.type = one.type;
  symbol.size = one.bytes();
  symbol.element = one.element_bytes();
  symbol.offset = aligned(frame_bytes_, one.natural_alignment());
  if (symbol.size > max_frame_bytes || symbol.offset + symbol.size > max_frame_bytes)
    throw StatementError{quoted(one.name) + " does not fit in 512 KiB of local memory"};
  frame_bytes_ = symbol.offset + symbol.size;
  if (one.space == StateSpace::local)
    function().local_bytes += static_cast<uint32_t>(symbol.size);
  return symbol;
}

namespace {
/* A name such as %r12, split into %r and 12. It may be one of the registers that .reg %r<20> declares. */
struct Numbered {
  explicit Numbered(std::string_view name) {
    size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
      --digits;
    prefix = name.substr(0, digits);
    std::string_view suffix = name.substr(digits);
    is_numbered = !suffix.empty() && (suffix == "0" || suffix[0] != '0') && suffix.size() < 9;
    if (is_numbered)
      std::from_chars(suffix.data(), suffix.data() + suffix.size(), number);
  }
  std::string_view prefix;
  bool is_numbered = false;
  uint32_t number = 0;
};
} // namespace

/* Declares the components V.x, V.y and so on of a vector register V. No other name in the text can be the same. */
void FunctionBuilder::add_vector(Scope &scope, std::string_view name, Type type, uint32_t count) {
  if (class_of(type) == TypeClass::predicate)
    throw StatementError{quoted(name) + " cannot be a vector of predicates"};
  std::vector<std::string_view> elements;
  for (uint32_t i = 0; i < count; ++i) {
    names_.push_back(std::string(name) + '.' + "xyzw"[i]);
    elements.push_back(names_.back());
    scope.symbols.emplace(names_.back(), new_register(type));
  }
  if (scope.symbols.count(name) || !scope.vectors.emplace(name, std::move(elements)).second)
    throw StatementError{quoted(name) + " is declared twice"};
  has_vectors_ = true;
}

const std::vector<std::string_view> *FunctionBuilder::vector_elements(std::string_view name) {
  Numbered parts(name);
  for (size_t i = open_scopes_.size(); i-- > 0;) {
    Scope &scope = scopes_[open_scopes_[i]];
    auto exact = scope.vectors.find(name);
    if (exact != scope.vectors.end())
      return &exact->second;
    if (scope.symbols.count(name))
      return nullptr;
    auto range = parts.is_numbered ? scope.ranges.find(parts.prefix) : scope.ranges.end();
    if (range == scope.ranges.end() || parts.number >= range->second.count)
      continue;
    if (range->second.vector == 1)
      return nullptr;
    add_vector(scope, name, range->second.type, range->second.vector);
    return &scope.vectors.find(name)->second;
  }
  return nullptr;
}

/*
 * Replaces a vector register by the list of its registers, and a component such as V.x by the register that it names.
 */
ast::Operand FunctionBuilder::without_vectors(const ast::Operand &operand) {
  ast::Operand result = operand;
  for (ast::Operand &element : result.elements)
    element = without_vectors(element);
  if (operand.kind != ast::Operand::Kind::name)
    return result;
  const std::vector<std::string_view> *elements = vector_elements(operand.name);
  if (!elements)
    return result;
  if (operand.component.empty()) {
    result.kind = ast::Operand::Kind::vector;
    for (std::string_view name : *elements) {
      ast::Operand element;
      element.name = name;
      result.elements.push_back(element);
    }
    return result;
  }
  size_t place = operand.component.size() == 1 ? std::string_view("xyzwrgba").find(operand.component) % 4 : 4;
  if (operand.component.size() != 1 || std::string_view("xyzwrgba").find(operand.component) == std::string_view::npos ||
      place >= elements->size())
    throw StatementError{quoted(operand.name) + " has no component '." + std::string(operand.component) + "'"};
  result.name = (*elements)[place];
  result.component = {};
  return result;
}

const Symbol *FunctionBuilder::find(std::string_view name) {
  Numbered parts(name);
  for (size_t i = open_scopes_.size(); i-- > 0;) {
    Scope &scope = scopes_[open_scopes_[i]];
    auto exact = scope.symbols.find(name);
    if (exact != scope.symbols.end())
      return &exact->second;
    if (!parts.is_numbered)
      continue;
    auto range = scope.ranges.find(parts.prefix);
    if (range == scope.ranges.end() || parts.number >= range->second.count || range->second.vector > 1)
      continue;
    return &(scope.symbols[name] = new_register(range->second.type));
  }
  return module.find(name);
}

const Symbol &FunctionBuilder::resolve(std::string_view name) {
  if (name == "_") {
    if (sink_ == exec::no_operand) {
      sink_ = new_register(Type::b128).op;
      predicate_sink_ = new_register(Type::pred).op;
    }
    found_ = Symbol{};
    found_.kind = Symbol::Kind::none;
    found_.op = sink_;
    return found_;
  }
  const Symbol *symbol = find(name);
  if (!symbol)
    throw StatementError{"unknown name " + quoted(name), CompileResult::Failure::syntax};
  touch(*symbol);
  if (symbol->kind == Symbol::Kind::shared) {
    std::vector<uint32_t> &used = function().shared_variables;
    if (std::find(used.begin(), used.end(), symbol->index) == used.end())
      used.push_back(symbol->index);
  }
  return *symbol;
}

OperandIndex FunctionBuilder::scratch() {
  if (scratch_used_ == scratch_.size())
    scratch_.push_back(new_register(Type::b64).op);
  return scratch_[scratch_used_++];
}
OperandIndex FunctionBuilder::scratch_predicate() {
  resolve("_");
  return predicate_sink_;
}

template <class T> const T *FunctionBuilder::find_in(Names<T> Scope::*names, std::string_view name) const {
  for (size_t i = open_scopes_.size(); i-- > 0;) {
    const Names<T> &known = scopes_[open_scopes_[i]].*names;
    auto found = known.find(name);
    if (found != known.end())
      return &found->second;
  }
  return nullptr;
}

uint32_t FunctionBuilder::label(std::string_view name) {
  const uint32_t *found = find_in(&Scope::labels, name);
  if (found == nullptr)
    throw StatementError{"unknown label " + quoted(name)};
  return *found;
}
const ast::Prototype *FunctionBuilder::prototype(std::string_view name) const {
  const auto *found = find_in(&Scope::prototypes, name);
  return found != nullptr ? *found : nullptr;
}
const ast::BranchTargets *FunctionBuilder::branch_targets(std::string_view name) const {
  const auto *found = find_in(&Scope::branch_targets, name);
  return found != nullptr ? *found : nullptr;
}

void FunctionBuilder::emit_branch(Instruction instruction, uint32_t label) {
  branches_.emplace_back(module.program().code.size(), label);
  emit(instruction);
}

uint32_t FunctionBuilder::add_branch_table(const std::vector<uint32_t> &labels) {
  std::vector<std::vector<uint32_t>> &tables = module.program().branch_tables;
  tables_.push_back(static_cast<uint32_t>(tables.size()));
  tables.push_back(labels);
  return tables_.back();
}

void FunctionBuilder::patch_branches() {
  exec::Program &program = module.program();
  for (auto [at, label] : branches_)
    program.code[at].target = labels_[label];
  for (uint32_t table : tables_)
    for (uint32_t &entry : program.branch_tables[table])
      entry = labels_[entry];
}

void FunctionBuilder::instruction(const ast::Instruction &one) {
  scratch_used_ = 0;
  touched_.clear();
  reads_.clear();
  writes_.clear();
  const std::vector<Instruction> &code = module.program().code;
  const size_t begin = code.size();
  if (has_vectors_) {
    ast::Instruction plain = one;
    for (ast::Operand &operand : plain.operands)
      operand = without_vectors(operand);
    Coder coder(*this, plain);
    decode(coder);
  } else {
    Coder coder(*this, one);
    decode(coder);
  }
  if (!touched_.empty() && code.size() > begin)
    uses_.push_back({static_cast<uint32_t>(code.size() - 1), one.opcode == "mov", touched_});
  if (code.size() > begin)
    keep_flow(one);
}

/*
 * Records the data flow of an instruction of PTX, for the last of the instructions that were emitted for it. The others
 * only compute addresses and special values.
 */
void FunctionBuilder::keep_flow(const ast::Instruction &one) {
  using exec::Flow;
  exec::Program &program = module.program();
  exec::DataFlow &kept = program.flows.back();
  exec::Handler run = program.code.back().run;
  bool has_carry = std::find(one.modifiers.begin(), one.modifiers.end(), "cc") != one.modifiers.end();
  if (run == exec::bit_handler(exec::BitOp::and_pred, Type::pred))
    kept.flow = Flow::ands;
  else if (run == exec::bit_handler(exec::BitOp::or_pred, Type::pred))
    kept.flow = Flow::ors;
  else if (one.opcode == "selp")
    kept.flow = Flow::selects;
  else if (one.opcode == "ld" || one.opcode == "ldu")
    kept.flow = Flow::loads;
  else if (!only_computes(one.opcode) || has_carry)
    kept.flow = Flow::uses;
  kept.begin = static_cast<uint32_t>(program.values.size());
  kept.reads = static_cast<uint16_t>(reads_.size());
  kept.writes = static_cast<uint16_t>(writes_.size());
  program.values.insert(program.values.end(), reads_.begin(), reads_.end());
  program.values.insert(program.values.end(), writes_.begin(), writes_.end());
}

/*
 * Lists the instructions that use accumulators of wgmma. Registers to which accumulators are copied count as
 * accumulators, too, because compilers copy accumulators between two products.
 */
void FunctionBuilder::keep_accumulator_uses(size_t begin) {
  exec::Program &program = module.program();
  std::unordered_set<OperandIndex> sums;
  for (size_t at = begin; at < program.code.size(); ++at)
    if (program.code[at].run == exec::group_product_handler()) {
      const exec::GroupProduct &product = program.group_products[program.code[at].target];
      sums.insert(product.tile.registers.begin(), product.tile.registers.begin() + product.sums());
    }
  if (sums.empty())
    return;
  auto is_of_sums = [&](const Use &use) {
    return std::any_of(use.registers.begin(), use.registers.end(), [&](OperandIndex one) { return sums.count(one); });
  };
  for (size_t known = 0; known != sums.size();) {
    known = sums.size();
    for (const Use &use : uses_)
      if (use.moves && is_of_sums(use))
        sums.insert(program.code[use.at].op[0]);
  }
  for (Use &use : uses_) {
    Instruction &ins = program.code[use.at];
    if (ins.run == exec::group_product_handler() || !is_of_sums(use))
      continue;
    program.accumulator_uses.insert({use.at, {ins.run, use.moves, std::move(use.registers)}});
    ins.run = exec::accumulator_use_handler();
  }
}

/* --- estimate of the registers that a compiler would need ----------------------------------------------------- */

void FunctionBuilder::touch(const Symbol &symbol) {
  if (symbol.kind != Symbol::Kind::reg)
    return;
  if (keeps_uses_)
    touched_.push_back(symbol.op);
  auto at = static_cast<uint32_t>(module.program().code.size());
  auto [place, is_new] = live_.try_emplace(symbol.op, Live{at, at, std::max(1u, bits_of(symbol.type) / 32)});
  if (!is_new)
    place->second.end = at;
}

/*
 * Returns an estimate of the registers that a compiler would need: the maximum number of registers that are live at the
 * same time. A register is live from its first to its last mention. If the last mention is in a loop, the register is
 * live until the end of the loop.
 */
uint32_t FunctionBuilder::estimate_registers() {
  std::vector<Live> intervals;
  for (auto &[op, live] : live_)
    intervals.push_back(live);
  std::vector<std::pair<uint32_t, uint32_t>> loops;
  for (auto [at, label] : branches_)
    if (labels_[label] <= at)
      loops.emplace_back(labels_[label], static_cast<uint32_t>(at));
  std::sort(loops.begin(), loops.end(), [](auto a, auto b) { return a.second < b.second; });
  constexpr uint64_t worth = 20'000'000;
  if (uint64_t{intervals.size()} * loops.size() < worth)
    for (auto [begin, end] : loops)
      for (Live &live : intervals)
        if (live.begin < begin && live.end >= begin && live.end < end)
          live.end = end;
  std::vector<std::pair<uint32_t, int32_t>> changes;
  for (const Live &live : intervals) {
    changes.emplace_back(live.begin, static_cast<int32_t>(live.words));
    changes.emplace_back(live.end, -static_cast<int32_t>(live.words));
  }
  /* At the same instruction, the ends of live ranges come before the beginnings. */
  std::sort(changes.begin(), changes.end());
  int32_t now = 0, max = 0;
  for (auto [at, change] : changes) {
    now += change;
    max = std::max(max, now);
  }
  constexpr uint32_t always = 6; /* number of registers for addresses of the stack, the parameters and so on */
  return std::min(255u, static_cast<uint32_t>(max) + always);
}

} // namespace sim::ptx
