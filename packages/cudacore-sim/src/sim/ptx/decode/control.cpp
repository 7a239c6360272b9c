/* SPDX-License-Identifier: Apache-2.0 */
/* Branches, calls, and the ends of threads. */
#include "sim/ptx/coder.h"

namespace sim::ptx {

namespace {

void bra(Coder &c) {
  c.take("uni");
  c.need(1);
  if (c.operand(0).kind != ast::Operand::Kind::name)
    c.fail("expected a label");
  c.emit_branch(c.function().label(c.operand(0).name));
}

/* brx.idx index, targets */
void brx(Coder &c) {
  if (!c.take("idx"))
    c.unsupported();
  c.take("uni");
  c.need(2);
  c.out.op[0] = c.source(0, Type::u32);
  const ast::BranchTargets *targets = c.function().branch_targets(c.operand(1).name);
  if (!targets)
    c.fail("unknown branch targets '" + std::string(c.operand(1).name) + "'");
  std::vector<uint32_t> labels;
  for (std::string_view label : targets->labels)
    labels.push_back(c.function().label(label));
  c.out.target = c.function().add_branch_table(labels);
  c.emit(exec::branch_indexed_handler());
}

/*
 * Returns the location of an argument or result of a call: a .param variable, a register, or a number. A number gets
 * the size of the formal parameter, `formal`.
 */
exec::ValueLocation location_of(Coder &c, const ast::Operand &operand, uint32_t formal) {
  exec::ValueLocation place;
  if (operand.kind == ast::Operand::Kind::name) {
    const Symbol symbol = c.function().resolve(operand.name);
    if (symbol.kind == Symbol::Kind::frame) {
      place.offset = static_cast<uint32_t>(symbol.offset);
      place.size = static_cast<uint32_t>(symbol.size);
      return place;
    }
    if (symbol.kind == Symbol::Kind::reg || operand.name == "_") {
      c.function().reads(symbol.op);
      place.is_register = true;
      place.register_index = symbol.op;
      place.size = operand.name == "_" ? std::min(formal, 8u) : static_cast<uint32_t>(symbol.size);
      return place;
    }
    c.fail("'" + std::string(operand.name) + "' cannot be passed");
  }
  place.is_register = true;
  place.size = std::min(formal, 8u);
  place.register_index = c.source(operand, formal > 4 ? Type::b64 : Type::b32);
  return place;
}

std::vector<uint32_t> sizes_of(const std::vector<exec::ValueLocation> &places) {
  std::vector<uint32_t> sizes;
  for (const exec::ValueLocation &place : places)
    sizes.push_back(place.size);
  return sizes;
}
std::vector<uint32_t> sizes_of(const std::vector<ast::Declaration> &declarations) {
  std::vector<uint32_t> sizes;
  for (const ast::Declaration &one : declarations)
    sizes.push_back(static_cast<uint32_t>(std::min<uint64_t>(one.bytes(), UINT32_MAX)));
  return sizes;
}

void pass(Coder &c, const ast::Operand &list, const std::vector<uint32_t> &sizes, const char *what,
          std::vector<exec::ValueLocation> &places) {
  if (list.elements.size() != sizes.size())
    c.fail("expected " + std::to_string(sizes.size()) + ' ' + what + ", found " + std::to_string(list.elements.size()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    places.push_back(location_of(c, list.elements[i], sizes[i]));
    if (!places.back().is_register && places.back().size != sizes[i])
      c.fail("'" + std::string(list.elements[i].name) + "' has another size than what is declared");
  }
}

/* call (results), function, (arguments), prototype. All of these except the function can be missing. */
void call(Coder &c) {
  static const ast::Operand empty = [] {
    ast::Operand list;
    list.kind = ast::Operand::Kind::list;
    return list;
  }();
  c.take("uni");
  size_t at = 0;
  auto list = [&]() -> const ast::Operand & {
    bool present = at < c.count() && c.operand(at).kind == ast::Operand::Kind::list;
    return present ? c.operand(at++) : empty;
  };
  const ast::Operand &results = list();
  if (at >= c.count() || c.operand(at).kind != ast::Operand::Kind::name)
    c.fail("expected a function");
  const ast::Operand &target = c.operand(at++);
  const ast::Operand &arguments = list();

  FunctionBuilder &function = c.function();
  exec::CallSite site;
  site.caller = function.index;
  std::vector<uint32_t> result_sizes, argument_sizes;
  const Symbol symbol = function.resolve(target.name);
  bool direct = symbol.kind == Symbol::Kind::function;
  if (direct) {
    c.need(at, at + 1);
    const exec::Function &callee = function.module.program().functions[symbol.index];
    if (callee.is_entry)
      c.fail("a kernel cannot be called");
    result_sizes = sizes_of(callee.results);
    argument_sizes = sizes_of(callee.parameters);
    c.out.immediate = symbol.index;
    function.function().callees.push_back(symbol.index);
  } else {
    c.need(at + 1);
    c.out.op[0] = c.source(target, Type::b64);
    const ast::Prototype *prototype = function.prototype(c.operand(at).name);
    if (!prototype)
      c.fail("unknown prototype '" + std::string(c.operand(at).name) + "'");
    result_sizes = sizes_of(prototype->results);
    argument_sizes = sizes_of(prototype->parameters);
    function.function().calls_indirectly = true;
  }
  pass(c, results, result_sizes, "results", site.results);
  pass(c, arguments, argument_sizes, "arguments", site.arguments);
  std::vector<exec::CallSite> &calls = function.module.program().calls;
  c.out.target = static_cast<uint32_t>(calls.size());
  calls.push_back(std::move(site));
  c.emit(direct ? exec::call_handler() : exec::call_indirect_handler());
}

void ret(Coder &c) {
  c.take("uni");
  c.need(0);
  c.emit(exec::return_handler());
}
void exit(Coder &c) {
  c.need(0);
  c.emit(exec::exit_handler());
}
void trap(Coder &c) {
  c.need(0);
  c.emit(exec::trap_handler());
}
void nanosleep(Coder &c) {
  c.need_type(Type::u32);
  c.need(1);
  c.out.op[0] = c.source(0, Type::u32);
  c.emit(exec::sleep_handler());
}
/* setmaxnreg.action.sync.aligned.u32 n. It has no effect here, because the number of registers does not matter. */
void set_registers(Coder &c) {
  if (!c.take("inc") && !c.take("dec"))
    c.unsupported();
  for (const char *word : {"sync", "aligned", "u32"})
    if (!c.take(word))
      c.unsupported();
  c.need(1);
  uint64_t count = c.integer(0);
  if (count < 24 || count > 256 || count % 8)
    c.fail("the number of registers is " + std::to_string(static_cast<int64_t>(count)) +
           ", but has to be a multiple of 8 from 24 to 256,");
  c.emit(exec::nop_handler());
}

/*
 * Instructions that have no effect here: breakpoints (there is no debugger), events for profilers, and the control of
 * dependent launches.
 */
void nothing(Coder &c) {
  for (const char *word : {"wait", "launch_dependents"})
    c.take(word);
  c.need(0, 1);
  c.emit(exec::nop_handler());
}

} // namespace

const Decoder control_decoders[] = {{"bra", bra},
                                    {"brx", brx},
                                    {"call", call},
                                    {"ret", ret},
                                    {"exit", exit},
                                    {"trap", trap},
                                    {"nanosleep", nanosleep},
                                    {"brkpt", nothing},
                                    {"pmevent", nothing},
                                    {"setmaxnreg", set_registers},
                                    {"griddepcontrol", nothing},
                                    {nullptr, nullptr}};

} // namespace sim::ptx
