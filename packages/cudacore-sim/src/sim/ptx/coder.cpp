/* SPDX-License-Identifier: Apache-2.0 */
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "sim/isa/numeric.h"
#include "sim/ptx/coder.h"

namespace sim::ptx {

static void fail_unless_empty(std::string &&reason) {
  if (!reason.empty())
    throw StatementError{std::move(reason)};
}

Coder::Coder(FunctionBuilder &function, const ast::Instruction &tree)
    : function_(function), tree_(tree), taken_(tree.modifiers.size(), false) {
  stamp(out);
  if (tree.guard.empty())
    return;
  const Symbol &symbol = function.resolve(tree.guard);
  if (symbol.kind != Symbol::Kind::predicate)
    fail("'" + std::string(tree.guard) + "' is no predicate");
  out.guard = symbol.op | (tree.guard_negated ? 1 : 0);
}

void Coder::stamp(Instruction &instruction) const {
  instruction.line = tree_.line;
  instruction.source_file = tree_.source.file;
  instruction.source_line = tree_.source.line;
}

std::string Coder::text() const {
  std::string result(tree_.opcode);
  for (std::string_view modifier : tree_.modifiers)
    (result += '.') += modifier;
  return result;
}
void Coder::fail(const std::string &message) const { throw StatementError{message + " in '" + text() + "'"}; }
void Coder::unsupported() const {
  throw StatementError{"unknown instruction '" + text() + "'", CompileResult::Failure::unsupported_instruction};
}

/* --- modifiers ---------------------------------------------------------------------------------------------------- */

bool Coder::take(std::string_view modifier) {
  for (size_t i = 0; i < taken_.size(); ++i)
    if (!taken_[i] && tree_.modifiers[i] == modifier) {
      taken_[i] = true;
      return true;
    }
  return false;
}

size_t Coder::take_one_of(const std::string_view *names, size_t count) {
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i])
      continue;
    auto found = static_cast<size_t>(std::find(names, names + count, tree_.modifiers[i]) - names);
    if (found < count) {
      taken_[i] = true;
      return found;
    }
  }
  return count;
}

Type Coder::take_type() {
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i])
      continue;
    Type type = type_named(tree_.modifiers[i]);
    if (type == Type::none)
      continue;
    taken_[i] = true;
    return type;
  }
  return Type::none;
}
Type Coder::need_type() {
  Type type = take_type();
  if (type == Type::none)
    unsupported();
  return type;
}
void Coder::need_type(Type exactly) {
  if (need_type() != exactly)
    unsupported();
}

StateSpace Coder::take_space() {
  static constexpr Choice<StateSpace> spaces[] = {
      {"global", StateSpace::global},      {"shared", StateSpace::shared},
      {"shared::cta", StateSpace::shared}, {"shared::cluster", StateSpace::shared_cluster},
      {"local", StateSpace::local},        {"const", StateSpace::constant},
      {"param", StateSpace::param},        {"param::entry", StateSpace::param},
      {"param::func", StateSpace::param}};
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i])
      continue;
    for (const auto &one : spaces)
      if (tree_.modifiers[i] == one.name) {
        taken_[i] = true;
        return one.meaning;
      }
  }
  return StateSpace::generic;
}

exec::Rounding Coder::take_rounding() {
  using exec::Rounding;
  static constexpr Choice<Rounding> roundings[] = {{"rn", Rounding::nearest},
                                                   {"rz", Rounding::zero},
                                                   {"rm", Rounding::down},
                                                   {"rp", Rounding::up},
                                                   {"rna", Rounding::nearest_away}};
  Rounding rounding = Rounding::none;
  take_choice(roundings, rounding);
  return rounding;
}

uint32_t Coder::take_vector() { return take("v2") ? 2 : take("v4") ? 4 : take("v8") ? 8 : 1; }

void Coder::skip_cache_hints() {
  static constexpr std::string_view hints[] = {"ca",
                                               "cg",
                                               "cs",
                                               "lu",
                                               "cv",
                                               "wb",
                                               "wt",
                                               "nc",
                                               "L1::evict_normal",
                                               "L1::evict_unchanged",
                                               "L1::evict_first",
                                               "L1::evict_last",
                                               "L1::no_allocate",
                                               "L2::evict_normal",
                                               "L2::evict_first",
                                               "L2::evict_last",
                                               "L2::64B",
                                               "L2::128B",
                                               "L2::256B",
                                               "unified"};
  for (std::string_view hint : hints)
    take(hint);
}

bool Coder::take_memory_order() {
  static constexpr Choice<uint8_t> orders[] = {
      {"volatile", exec::access_strong},
      {"relaxed", exec::access_strong},
      {"acquire", exec::access_strong | exec::access_acquire},
      {"release", exec::access_strong | exec::access_release},
      {"acq_rel", exec::access_strong | exec::access_acquire | exec::access_release},
      {"mmio", exec::access_strong}};
  for (const auto &order : orders)
    if (take(order.name))
      out.access |= order.meaning;
  take("weak");
  take_scope();
  return out.access != 0;
}

void Coder::take_scope() {
  if (take("cta"))
    out.set_scope(exec::Scope::block);
  else if (take("cluster"))
    out.set_scope(exec::Scope::cluster);
  else
    take("gpu") || take("sys");
}

void Coder::need_aligned() {
  if (!take("sync") || !take("aligned"))
    fail("expected .sync.aligned");
}

void Coder::check_all_taken() const {
  for (bool taken : taken_)
    if (!taken)
      unsupported();
}

void Coder::check_target() const {
  fail_unless_empty(refusal(function_.target(), tree_.opcode, tree_.modifiers, count()));
}

/* --- operands ----------------------------------------------------------------------------------------------------- */

void Coder::need(size_t min, size_t max) {
  if (count() < min || count() > max)
    fail("expected " + std::to_string(min) + (max > min ? " to " + std::to_string(max) : "") + " operands, found " +
         std::to_string(count()));
}

uint64_t Coder::immediate(const ast::Operand &operand, Type type) const {
  bool is_float = class_of(type) == TypeClass::floating;
  if (operand.kind == ast::Operand::Kind::integer) {
    if (!is_float)
      return operand.value;
    auto value = static_cast<double>(static_cast<int64_t>(operand.value));
    if (type == Type::f64)
      return exec::bit_cast<uint64_t>(value);
    if (type == Type::f32)
      return exec::bit_cast<uint32_t>(static_cast<float>(value));
    return operand.value;
  }
  double value = operand.wide ? exec::bit_cast<double>(operand.value)
                              : double{exec::bit_cast<float>(static_cast<uint32_t>(operand.value))};
  if (bits_of(type) == 64)
    return operand.wide ? operand.value : exec::bit_cast<uint64_t>(value);
  if (bits_of(type) == 32)
    return operand.wide ? exec::bit_cast<uint32_t>(static_cast<float>(value)) : operand.value;
  if (type == Type::f16 || type == Type::bf16)
    return exec::round_to(type == Type::f16 ? exec::format_f16 : exec::format_bf16, value, exec::Rounding::nearest);
  fail("a floating-point number cannot be of type ." + std::string(name_of(type)));
}

/*
 * Returns whether an operand is a special register, such as %tid.x. A declared register hides a special register of the
 * same name.
 */
bool Coder::special(const ast::Operand &operand, Instruction &read) const {
  using exec::SpecialRegister;
  struct Row {
    SpecialRegister id;
    int components;
  };
  static const std::unordered_map<std::string_view, Row> &rows = *new std::unordered_map<std::string_view, Row>{
#define SIM_SPECIAL(name, components) {#name, {SpecialRegister::name, components}},
      SIM_SPECIAL_REGISTERS(SIM_SPECIAL)
#undef SIM_SPECIAL
  };
  if (operand.name.size() < 2 || operand.name[0] != '%')
    return false;
  std::string_view name = operand.name.substr(1);
  for (std::string_view numbered : {"envreg", "pm"}) {
    std::string_view digits = name.substr(std::min(numbered.size(), name.size()));
    if (name.substr(0, numbered.size()) != numbered || digits.empty() || digits.size() > 2 ||
        digits.find_first_not_of("0123456789") != digits.npos)
      continue;
    for (char c : digits)
      read.mode = static_cast<uint8_t>(read.mode * 10 + (c - '0'));
    name = numbered;
  }
  auto row = rows.find(name);
  if (row == rows.end() || (operand.component.empty() && function_.knows(operand.name)))
    return false;
  fail_unless_empty(refusal(function_.target(), operand.name));
  if (row->second.components) {
    size_t component = std::string_view("xyz").find(operand.component);
    if (operand.component == "w")
      component = 3;
    else if (operand.component.size() != 1 || component == std::string_view::npos)
      fail("'" + std::string(operand.name) + "' needs a component");
    if (component == 3)
      fail("the component .w of '" + std::string(operand.name) + "' is not supported");
    read.mode = static_cast<uint8_t>(component);
  }
  stamp(read);
  read.run = exec::special_handler(row->second.id);
  return true;
}

Type Coder::register_type(const ast::Operand &operand) {
  if (operand.kind != ast::Operand::Kind::name || operand.name == "_")
    return Type::none;
  const Symbol &symbol = function_.resolve(operand.name);
  return symbol.kind == Symbol::Kind::reg || symbol.kind == Symbol::Kind::predicate ? symbol.type : Type::none;
}

/*
 * Refuses a component or a sign. Only special registers, vectors and the operands of some instructions can have one,
 * and these operands were handled before.
 */
void Coder::refuse_component(const ast::Operand &operand) const {
  if (operand.minus)
    fail("'" + std::string(operand.name) + "' cannot have a minus sign");
  if (!operand.component.empty())
    fail("'" + std::string(operand.name) + "' has no component '." + std::string(operand.component) + "'");
}

/* Returns the offset of an operand from the address of the variable that it names, in bytes. */
uint64_t Coder::addend(const ast::Operand &operand, const Symbol &symbol) const {
  if (!operand.indexed)
    return operand.value;
  if (symbol.element == 0)
    fail("'" + std::string(operand.name) + "' has no elements");
  return operand.value * symbol.element;
}

OperandIndex Coder::destination(const ast::Operand &operand, Type type, bool may_be_wider) {
  if (operand.kind != ast::Operand::Kind::name || operand.negated)
    fail("the destination must be a register");
  refuse_component(operand);
  const Symbol &symbol = function_.resolve(operand.name);
  function_.writes(symbol.op);
  if (operand.name == "_")
    return symbol.op;
  uint32_t have = bits_of(symbol.type), want = bits_of(type);
  if (symbol.kind != Symbol::Kind::reg || have < want || (have > want && !may_be_wider))
    fail("'" + std::string(operand.name) + "' is no register of type ." + std::string(name_of(type)));
  return symbol.op;
}

OperandIndex Coder::source(const ast::Operand &operand, Type type, bool may_be_wider) {
  if (operand.kind == ast::Operand::Kind::integer || operand.kind == ast::Operand::Kind::floating)
    return constant(immediate(operand, type));
  if (operand.kind != ast::Operand::Kind::name || operand.negated)
    fail("an operand is neither a register nor a number");
  if (Instruction read; special(operand, read)) {
    read.op[0] = function_.scratch();
    emit_before(read);
    return read.op[0];
  }
  refuse_component(operand);
  const Symbol symbol = function_.resolve(operand.name);
  if (symbol.kind == Symbol::Kind::reg) {
    uint32_t have = bits_of(symbol.type), want = bits_of(type);
    if (have < want || (have > want && !may_be_wider))
      fail("'" + std::string(operand.name) + "' is no register of type ." + std::string(name_of(type)));
    if (operand.indexed || operand.value != 0)
      fail("'" + std::string(operand.name) + "' is a register, to which nothing can be added");
    function_.reads(symbol.op);
    return symbol.op;
  }
  if (symbol.kind == Symbol::Kind::predicate || symbol.kind == Symbol::Kind::none)
    fail("'" + std::string(operand.name) + "' cannot be used as a number");
  OperandIndex into = function_.scratch();
  emit_address_of(symbol, static_cast<int64_t>(addend(operand, symbol)), into);
  return into;
}

OperandIndex Coder::destination_predicate(std::string_view name) {
  if (name == "_")
    return function_.scratch_predicate();
  const Symbol &symbol = function_.resolve(name);
  if (symbol.kind != Symbol::Kind::predicate)
    fail("'" + std::string(name) + "' is no predicate");
  function_.writes(~(symbol.op >> 1));
  return symbol.op;
}

OperandIndex Coder::source_predicate(const ast::Operand &operand) {
  if (operand.kind == ast::Operand::Kind::integer)
    return operand.value ? exec::predicate_true : exec::predicate_false;
  if (operand.kind != ast::Operand::Kind::name)
    fail("expected a predicate");
  const Symbol &symbol = function_.resolve(operand.name);
  if (symbol.kind != Symbol::Kind::predicate)
    fail("'" + std::string(operand.name) + "' is no predicate");
  function_.reads(~(symbol.op >> 1));
  return symbol.op | (operand.negated ? 1 : 0);
}

uint64_t Coder::integer(size_t i) const {
  if (operand(i).kind != ast::Operand::Kind::integer)
    fail("operand " + std::to_string(i + 1) + " must be a number");
  return operand(i).value;
}

Coder::Address Coder::address(const ast::Operand &operand, uint64_t bytes) {
  /* An operand such as array[2], as in ld.global.u32 d, array[2]. */
  bool element = operand.kind == ast::Operand::Kind::name && operand.indexed;
  if (operand.kind != ast::Operand::Kind::address && !element)
    fail("expected an address in brackets");
  if (!operand.elements.empty())
    fail("only copies by tensor maps have coordinates");
  Address result;
  result.offset = static_cast<int64_t>(operand.value);
  if (operand.name.empty()) {
    result.base = constant(0);
    return result;
  }
  const Symbol symbol = function_.resolve(operand.name);
  uint64_t offset = addend(operand, symbol);
  result.offset = static_cast<int64_t>(offset);
  switch (symbol.kind) {
  case Symbol::Kind::reg:
    if (bits_of(symbol.type) < 32)
      fail("'" + std::string(operand.name) + "' is too narrow for an address");
    function_.reads(symbol.op);
    result.base = symbol.op;
    result.narrow = bits_of(symbol.type) == 32;
    return result;
  case Symbol::Kind::frame:
  case Symbol::Kind::kernel_parameter:
    if (offset > symbol.size || bytes > symbol.size - offset)
      fail("the access is outside of '" + std::string(operand.name) + "', which has " + std::to_string(symbol.size) +
           " bytes");
    result.kind = symbol.kind == Symbol::Kind::frame ? Address::Kind::frame : Address::Kind::kernel_parameter;
    result.offset = static_cast<int64_t>(symbol.offset + offset);
    return result;
  case Symbol::Kind::global:
  case Symbol::Kind::shared:
    result.base = function_.scratch();
    emit_address_of(symbol, result.offset, result.base);
    result.offset = 0;
    return result;
  default:
    fail("'" + std::string(operand.name) + "' has no address");
  }
}

void Coder::set_address(const ast::Operand &operand, size_t place, uint64_t bytes) {
  Address where = address(operand, bytes);
  if (where.kind != Address::Kind::dynamic)
    fail("this needs an address in memory");
  out.op[place] = where.base;
  out.flag = where.narrow;
  out.immediate = where.offset;
}

void Coder::emit_address_of(const Symbol &symbol, int64_t offset, OperandIndex into) {
  Instruction compute;
  stamp(compute);
  compute.op[0] = into;
  compute.immediate = offset;
  compute.target = symbol.index;
  switch (symbol.kind) {
  case Symbol::Kind::global:
    compute.run = exec::global_address_handler();
    break;
  case Symbol::Kind::shared:
    compute.run = exec::shared_address_handler();
    break;
  case Symbol::Kind::frame:
    compute.run = exec::local_address_handler();
    compute.immediate += static_cast<int64_t>(symbol.offset);
    break;
  case Symbol::Kind::kernel_parameter:
    compute.run = exec::move_handler(Type::b64);
    compute.op[1] = constant(symbol.offset + static_cast<uint64_t>(offset));
    break;
  case Symbol::Kind::function:
    compute.run = exec::function_address_handler();
    function_.module.program().functions[symbol.index].address_taken = true;
    break;
  default:
    fail("what has no address");
  }
  emit_before(compute);
}

void Coder::operands(std::initializer_list<Type> types) {
  need(types.size());
  size_t i = 0;
  for (Type type : types) {
    out.op[i] = i == 0 ? destination(i, type) : source(i, type);
    ++i;
  }
}
void Coder::operands(Type type, size_t sources) {
  need(sources + 1);
  out.op[0] = destination(0, type);
  for (size_t i = 1; i <= sources; ++i)
    out.op[i] = source(i, type);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

void Coder::emit(exec::Handler handler) {
  check_all_taken();
  if (!handler)
    unsupported();
  out.run = handler;
  function_.emit(out);
}
void Coder::emit_before(Instruction instruction) { function_.emit(instruction); }
void Coder::emit_branch(uint32_t label) {
  check_all_taken();
  out.run = exec::branch_handler();
  function_.emit_branch(out, label);
}

namespace {
/* The groups of decoders. only_compute: the instructions of the group only read and write registers. */
constexpr struct {
  const Decoder *decoders;
  bool only_compute;
} groups[] = {{arithmetic_decoders, true}, {video_decoders, true},    {logic_decoders, true},
              {data_decoders, true},       {memory_decoders, false},  {asynchronous_decoders, false},
              {parallel_decoders, false},  {matrix_decoders, false},  {matrix_rows_decoders, false},
              {tensor_decoders, false},    {tcgen05_decoders, false}, {texture_decoders, false},
              {control_decoders, false}};

struct Entry {
  void (*decode)(Coder &);
  bool only_computes;
};
using Table = std::unordered_map<std::string_view, Entry>;
const Table &table() {
  static const Table &entries = *[] {
    auto *all = new Table;
    for (const auto &group : groups)
      for (const Decoder *one = group.decoders; one->name; ++one)
        all->insert({one->name, {one->decode, group.only_compute}});
    return all;
  }();
  return entries;
}
} // namespace

void decode(Coder &coder) {
  auto found = table().find(coder.opcode());
  if (found == table().end())
    coder.unsupported();
  coder.check_target();
  found->second.decode(coder);
}

bool only_computes(std::string_view opcode) { return table().at(opcode).only_computes; }

} // namespace sim::ptx
