/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a module: names, variables and their initial values, and the properties of kernels for the driver. */
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/isa/numeric.h"
#include "sim/ptx/builder.h"
#include "sim/ptx/link.h"
#include "sim/ptx/parser.h"

namespace sim::ptx {

namespace {

constexpr uint32_t max_errors = 20;
constexpr uint32_t newest_major = 9; /* the newest major version of PTX that is accepted */
constexpr uint64_t max_variable_bytes = uint64_t{1} << 33;
constexpr uint64_t max_initialised_bytes = uint64_t{1} << 30;
constexpr uint64_t max_shared_bytes = 1u << 22;

exec::Builtin builtin_named(std::string_view name) {
  if (name == "vprintf")
    return exec::Builtin::vprintf;
  if (name == "__assertfail")
    return exec::Builtin::assert_fail;
  if (name == "malloc")
    return exec::Builtin::malloc;
  if (name == "free")
    return exec::Builtin::free;
  if (name == "cudaGraphSetConditional")
    return exec::Builtin::set_condition;
  return exec::Builtin::none;
}

std::vector<uint32_t> builtin_signature(exec::Builtin builtin, bool results) {
  switch (builtin) {
  case exec::Builtin::vprintf:
    return results ? std::vector<uint32_t>{4} : std::vector<uint32_t>{8, 8};
  case exec::Builtin::assert_fail:
    return results ? std::vector<uint32_t>{} : std::vector<uint32_t>{8, 8, 4, 8, 8};
  case exec::Builtin::malloc:
    return results ? std::vector<uint32_t>{8} : std::vector<uint32_t>{8};
  case exec::Builtin::free:
    return results ? std::vector<uint32_t>{} : std::vector<uint32_t>{8};
  case exec::Builtin::set_condition:
    return results ? std::vector<uint32_t>{} : std::vector<uint32_t>{8, 4};
  default:
    return {};
  }
}

bool has_sizes(const std::vector<exec::ValueLocation> &places, const std::vector<uint32_t> &sizes) {
  return std::equal(places.begin(), places.end(), sizes.begin(), sizes.end(),
                    [](const exec::ValueLocation &place, uint32_t size) { return place.size == size; });
}

/* Returns the bits of a number in an initialiser, converted to the type of the array's elements. */
uint64_t bits_of_value(const ast::Operand &value, Type type) {
  if (value.kind == ast::Operand::Kind::integer) {
    if (class_of(type) != TypeClass::floating)
      return value.value;
    auto number = static_cast<double>(static_cast<int64_t>(value.value));
    return type == Type::f64   ? exec::bit_cast<uint64_t>(number)
           : type == Type::f32 ? exec::bit_cast<uint32_t>(static_cast<float>(number))
                               : value.value;
  }
  if (type == Type::f64 && !value.wide)
    return exec::bit_cast<uint64_t>(double{exec::bit_cast<float>(static_cast<uint32_t>(value.value))});
  if (type == Type::f32 && value.wide)
    return exec::bit_cast<uint32_t>(static_cast<float>(exec::bit_cast<double>(value.value)));
  return value.value;
}

} // namespace

CompileResult ModuleBuilder::build() {
  static std::atomic<uint32_t> next_id{1};
  module_->program.id = next_id.fetch_add(1) & 0xffffff;
  module_->info.ptx_version = tree_.version;
  module_->info.target = tree_.target;
  module_->program.files = tree_.files;
  if (tree_.major > newest_major) {
    error(tree_.version_line, {"PTX version " + tree_.version + " is newer than " + std::to_string(newest_major) + ".x",
                               CompileResult::Failure::unsupported_version});
    return {nullptr, log_, failure_};
  }
  for (const ast::Declaration &one : tree_.variables) {
    try {
      Symbol symbol;
      symbol.space = one.space;
      symbol.element = one.element_bytes();
      if (one.space == StateSpace::global || one.space == StateSpace::constant) {
        symbol.kind = Symbol::Kind::global;
        symbol.index = add_variable(one);
      } else if (one.space == StateSpace::shared) {
        symbol.kind = Symbol::Kind::shared;
        symbol.index = add_shared(one);
      } else {
        throw StatementError{"'" + std::string(one.name) + "' cannot be declared outside of a function"};
      }
      declare(one.name, symbol);
    } catch (const StatementError &what) {
      error(one.line, what);
    }
  }
  declare_functions();
  registers_.resize(module_->program.functions.size());
  for (const ast::Function &one : tree_.functions) {
    const Symbol *symbol = find(one.name);
    if (!one.has_body || !symbol || symbol->kind != Symbol::Kind::function)
      continue;
    const exec::Function &declared = module_->program.functions[symbol->index];
    /* If the definition differs from the declaration, the error was already reported. */
    if (declared.is_entry != one.is_entry || (!one.is_entry && !has_signature(declared, one)))
      continue;
    if (declared.is_defined) {
      error(one.line, {"'" + std::string(one.name) + "' is defined twice"});
      continue;
    }
    registers_[symbol->index] = FunctionBuilder(*this, one, symbol->index).build();
  }
  check_externals();
  resolve_initial_values();
  if (failure_ == CompileResult::Failure::none)
    describe_kernels();
  if (failure_ != CompileResult::Failure::none)
    return {nullptr, log_, failure_};
  return {module_, {}, failure_};
}

void ModuleBuilder::error(uint32_t line, const StatementError &what) {
  if (failure_ == CompileResult::Failure::none)
    failure_ = what.failure;
  if (++errors_ <= max_errors)
    log_ += "line " + std::to_string(line) + ": " + what.message + "\n";
}

const Symbol *ModuleBuilder::find(std::string_view name) const {
  auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : &found->second;
}

void ModuleBuilder::declare(std::string_view name, const Symbol &symbol) {
  if (!symbols_.emplace(name, symbol).second)
    throw StatementError{"'" + std::string(name) + "' is declared twice"};
}

OperandIndex ModuleBuilder::constant(uint64_t bits) {
  auto [place, is_new] = constants_.try_emplace(bits, 0);
  std::vector<uint64_t> &values = module_->program.constants;
  if (is_new) {
    place->second = ~static_cast<OperandIndex>(values.size() / exec::warp_size);
    values.insert(values.end(), exec::warp_size, bits);
  }
  return place->second;
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

uint32_t ModuleBuilder::add_variable(const ast::Declaration &one) {
  Variable variable;
  variable.name = std::string(one.name);
  variable.space = one.space == StateSpace::constant ? Space::constant : Space::global;
  variable.size = one.bytes();
  variable.alignment = one.natural_alignment();
  variable.is_external = one.linkage == ast::Linkage::external;
  uint64_t limit = one.initial.empty() ? max_variable_bytes : max_initialised_bytes;
  if (variable.size > limit)
    throw StatementError{"'" + variable.name + "' is too large"};
  if (class_of(one.type) == TypeClass::predicate)
    throw StatementError{"a variable cannot be a predicate"};
  module_->info.variables.push_back(std::move(variable));
  variable_declarations_.push_back(&one);
  return static_cast<uint32_t>(module_->info.variables.size() - 1);
}

uint32_t ModuleBuilder::add_shared(const ast::Declaration &one) {
  exec::SharedVariable variable;
  variable.name = std::string(one.name);
  variable.size = one.bytes();
  variable.alignment = one.natural_alignment();
  /* If an external variable has a size, compilers ignore that it is external. */
  variable.is_dynamic = one.linkage == ast::Linkage::external && variable.size == 0;
  if (variable.size > max_shared_bytes)
    throw StatementError{"'" + variable.name + "' does not fit in shared memory"};
  if (!one.initial.empty())
    throw StatementError{"a shared variable cannot be initialised"};
  module_->program.shared_variables.push_back(std::move(variable));
  return static_cast<uint32_t>(module_->program.shared_variables.size() - 1);
}

/* Computes the initial bytes of variables, once all names are known. */
void ModuleBuilder::resolve_initial_values() {
  for (size_t i = 0; i < variable_declarations_.size(); ++i) {
    const ast::Declaration &one = *variable_declarations_[i];
    Variable &variable = module_->info.variables[i];
    /* A variable without an initialiser is zero. The bytes of a large variable are not stored. */
    if (one.initial.empty()) {
      if (!variable.is_external && variable.size <= max_initialised_bytes)
        variable.initial.resize(variable.size);
      continue;
    }
    variable.initial.resize(variable.size);
    uint32_t element = bytes_of(one.type);
    uint32_t next_byte = 0; /* of an address of which only some bytes were given yet */
    for (const ast::InitialValue &value : one.initial) {
      uint64_t offset = value.index * element;
      if (value.mask != (value.mask || next_byte ? uint64_t{0xff} << 8 * next_byte : 0)) {
        error(value.line, {"'" + variable.name + "' has only some bytes of an address, or in another order"});
        break;
      }
      if (offset + element > variable.size) {
        error(value.line, {"too many values for '" + variable.name + "'"});
        break;
      }
      if (value.value.kind != ast::Operand::Kind::name) {
        uint64_t bits = bits_of_value(value.value, one.type);
        std::memcpy(variable.initial.data() + offset, &bits, std::min<size_t>(element, sizeof bits));
        continue;
      }
      const Symbol *symbol = find(value.value.name);
      bool has_address = symbol && (symbol->kind == Symbol::Kind::global || symbol->kind == Symbol::Kind::function);
      if (!has_address || element != (value.mask ? 1 : 8)) {
        error(value.line, {"'" + std::string(value.value.name) + "' cannot initialise '" + variable.name + "'"});
        break;
      }
      if (symbol->kind == Symbol::Kind::function)
        module_->program.functions[symbol->index].address_taken = true;
      /* In packed structures, addresses are given byte by byte. The first byte stands for the whole address. */
      if (value.mask && next_byte++ != 0) {
        next_byte %= 8;
        continue;
      }
      variable.relocations.push_back(
          {offset, std::string(value.value.name), static_cast<int64_t>(value.value.value), value.generic});
    }
  }
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

bool ModuleBuilder::has_signature(const exec::Function &function, const ast::Function &as) {
  exec::Function other;
  set_signature(other, as);
  auto same = [](const std::vector<exec::ValueLocation> &a, const std::vector<exec::ValueLocation> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const exec::ValueLocation &x, const exec::ValueLocation &y) {
                        return x.size == y.size && x.is_register == y.is_register;
                      });
  };
  return same(function.results, other.results) && same(function.parameters, other.parameters);
}

void ModuleBuilder::set_signature(exec::Function &function, const ast::Function &from) {
  auto sizes = [](const std::vector<ast::Declaration> &list) {
    std::vector<exec::ValueLocation> places(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      places[i].size = static_cast<uint32_t>(std::min<uint64_t>(std::max<uint64_t>(list[i].bytes(), 1), UINT32_MAX));
      places[i].is_register = list[i].space == StateSpace::reg;
    }
    return places;
  };
  function.results = sizes(from.results);
  function.parameters = sizes(from.parameters);
}

void ModuleBuilder::declare_functions() {
  std::vector<exec::Function> &functions = module_->program.functions;
  for (const ast::Function &one : tree_.functions) {
    try {
      if (const Symbol *known = find(one.name)) {
        if (known->kind != Symbol::Kind::function || functions[known->index].is_entry != one.is_entry)
          throw StatementError{"'" + std::string(one.name) + "' is declared twice"};
        if (!one.is_entry && !has_signature(functions[known->index], one))
          throw StatementError{"'" + std::string(one.name) + "' is declared with different parameters"};
        continue;
      }
      Symbol symbol;
      symbol.kind = Symbol::Kind::function;
      symbol.index = static_cast<uint32_t>(functions.size());
      declare(one.name, symbol);
      exec::Function function;
      function.name = std::string(one.name);
      function.is_entry = one.is_entry;
      if (!one.is_entry)
        set_signature(function, one);
      functions.push_back(std::move(function));
    } catch (const StatementError &what) {
      error(one.line, what);
    }
  }
  for (const ast::Alias &one : tree_.aliases) {
    const Symbol *target = find(one.target), *alias = find(one.name);
    if (!target || target->kind != Symbol::Kind::function || (alias && alias->kind != Symbol::Kind::function))
      error(one.line, {"'" + std::string(one.name) + "' cannot be an alias of '" + std::string(one.target) + "'"});
    else
      symbols_[one.name] = Symbol(*target);
  }
}

/* Checks that each function without a body is one that the runtime environment provides. */
void ModuleBuilder::check_externals() {
  std::vector<exec::Function> &functions = module_->program.functions;
  for (const ast::Function &one : tree_.functions) {
    const Symbol *symbol = find(one.name);
    if (!symbol || symbol->kind != Symbol::Kind::function)
      continue;
    exec::Function &function = functions[symbol->index];
    if (function.is_defined || function.builtin != exec::Builtin::none)
      continue;
    function.builtin = builtin_named(one.name);
    if (function.builtin != exec::Builtin::none) {
      if (!has_sizes(function.parameters, builtin_signature(function.builtin, false)) ||
          (!function.results.empty() && /* a declaration may drop the result */
           !has_sizes(function.results, builtin_signature(function.builtin, true))))
        error(one.line, {"'" + function.name + "' is declared with other parameters than it has"});
      continue;
    }
    bool used = function.address_taken || function.is_entry;
    for (const exec::Function &caller : functions)
      used = used || std::find(caller.callees.begin(), caller.callees.end(), symbol->index) != caller.callees.end();
    if (!used)
      continue;
    const bool is_launch =
        function.name.rfind("cudaLaunchDevice", 0) == 0 || function.name.rfind("cudaGetParameterBuffer", 0) == 0;
    error(one.line, {"unresolved function '" + function.name + "'" +
                         (is_launch ? ", because launches from kernels are not simulated: launch from the host" : ""),
                     CompileResult::Failure::unresolved});
  }
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

std::vector<uint32_t> ModuleBuilder::reachable(uint32_t from) const {
  const std::vector<exec::Function> &functions = module_->program.functions;
  std::vector<bool> seen(functions.size(), false);
  std::vector<uint32_t> order{from};
  seen[from] = true;
  auto visit = [&](uint32_t next) {
    if (seen[next])
      return;
    seen[next] = true;
    order.push_back(next);
  };
  for (size_t i = 0; i < order.size(); ++i) {
    const exec::Function &function = functions[order[i]];
    for (uint32_t callee : function.callees)
      visit(callee);
    if (!function.calls_indirectly)
      continue;
    for (uint32_t other = 0; other < functions.size(); ++other)
      if (functions[other].address_taken)
        visit(other);
  }
  return order;
}

/*
 * Places shared variables in the order of their declarations, as compilers do, although sorting them by alignment would
 * waste less memory.
 */
void ModuleBuilder::lay_out_shared(uint32_t function, exec::SharedLayout &layout) const {
  const exec::Program &program = module_->program;
  std::vector<uint32_t> used;
  for (uint32_t one : reachable(function))
    used.insert(used.end(), program.functions[one].shared_variables.begin(),
                program.functions[one].shared_variables.end());
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  uint64_t end = 0, dynamic_alignment = 1;
  /*
   * Compilers pad the static variables for the alignment of all dynamic variables of the module, even in kernels that
   * use no dynamic variables.
   */
  for (const exec::SharedVariable &variable : program.shared_variables)
    if (variable.is_dynamic)
      dynamic_alignment = std::max({dynamic_alignment, uint64_t{variable.alignment}, uint64_t{16}});
  for (uint32_t index : used) {
    const exec::SharedVariable &variable = program.shared_variables[index];
    if (variable.is_dynamic)
      continue;
    end = aligned(end, variable.alignment);
    layout.offsets[index] = static_cast<uint32_t>(end);
    end += variable.size;
  }
  layout.static_bytes = static_cast<uint32_t>(std::min<uint64_t>(aligned(end, dynamic_alignment), max_shared_bytes));
  layout.dynamic_offset = static_cast<uint32_t>(aligned(layout.static_bytes, dynamic_alignment));
  for (uint32_t index : used)
    if (program.shared_variables[index].is_dynamic)
      layout.offsets[index] = layout.dynamic_offset;
}

KernelInfo ModuleBuilder::describe(uint32_t index, const ast::Function &from) {
  KernelInfo info;
  info.name = std::string(from.name);
  uint64_t offset = 0;
  for (const ast::Declaration &one : from.parameters) {
    auto alignment = static_cast<uint32_t>(one.natural_alignment());
    offset = aligned(offset, alignment);
    info.parameters.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(one.bytes()), alignment});
    offset += one.bytes();
    if (offset > 32764) {
      error(one.line, {"the parameters of '" + info.name + "' have more than 32,764 bytes"});
      return info;
    }
  }
  info.parameter_bytes = static_cast<uint32_t>(offset);
  info.max_threads = from.max_threads;
  info.required_threads = from.required_threads;
  info.min_blocks = from.min_blocks;
  info.required_cluster = from.required_cluster;
  info.explicit_cluster = from.explicit_cluster;
  for (uint32_t one : reachable(index)) {
    info.registers = std::max(info.registers, registers_[one]);
    info.local_bytes = std::max(info.local_bytes, module_->program.functions[one].local_bytes);
  }
  /* Compilers use only as many registers as the directives allow, and spill other values to memory. */
  const Dim3 &bound = from.required_threads[0] ? from.required_threads : from.max_threads;
  uint64_t threads = uint64_t{bound[0]} * bound[1] * bound[2] * std::max(1u, from.min_blocks);
  if (threads)
    info.limit_registers(65536 / threads);
  if (from.max_registers)
    info.limit_registers(from.max_registers);
  return info;
}

void ModuleBuilder::describe_kernels() {
  for (const ast::Function &one : tree_.functions) {
    if (!one.is_entry || !one.has_body)
      continue;
    exec::Kernel kernel;
    kernel.function = find(one.name)->index;
    lay_out_shared(kernel.function, kernel.shared);
    KernelInfo info = describe(kernel.function, one);
    info.static_shared_bytes = kernel.shared.static_bytes;
    module_->info.kernels.push_back(std::move(info));
    module_->program.kernels.push_back(std::move(kernel));
  }
}

} // namespace sim::ptx

namespace sim {

namespace {

constexpr size_t max_quoted = 200; /* maximum length of the line of PTX that an error quotes, in characters */

/*
 * A text to compile. `first` is the number of its first line, counted through all texts, and `count` its number of
 * lines.
 */
struct Lines {
  std::string_view name, text;
  uint32_t first = 1, count = 0;
};

uint32_t count_lines(std::string_view text) {
  return static_cast<uint32_t>(std::count(text.begin(), text.end(), '\n')) + 1;
}

std::string_view line_of(std::string_view text, size_t number) {
  size_t at = 0;
  for (; number > 0 && at < text.size(); --number)
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  return text.substr(at, text.find('\n', at) - at);
}

/* Appends the text of the line, and the name of its file, to each error of the form "line 3: message". */
std::string with_lines(const std::string &log, const std::vector<Lines> &texts) {
  std::string result;
  for (size_t at = 0; at < log.size();) {
    size_t end = std::min(log.find('\n', at), log.size()), number = 0;
    std::string message = log.substr(at, end - at);
    at = end + 1;
    bool has_line = std::sscanf(message.c_str(), "line %zu:", &number) == 1;
    for (const Lines &one : texts) {
      if (!has_line || number < one.first || number - one.first >= one.count)
        continue;
      std::string_view line = line_of(one.text, number - one.first);
      if (texts.size() > 1)
        message = "line " + std::to_string(number - one.first + 1) + " of '" + std::string(one.name) + "'" +
                  message.substr(message.find(':'));
      size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
      if (first == line.npos)
        continue;
      message += ": ";
      for (char c : line.substr(first, std::min(last - first + 1, max_quoted)))
        message += c >= 0x20 && c < 0x7f ? c : c == '\t' ? ' ' : '?';
    }
    result += message + '\n';
  }
  return result;
}

/* Applies the pragma at the end of a text, if there is one, to the kernels without limits of their own. */
void limit_registers(std::string_view text, std::vector<ptx::ast::Function> &functions) {
  text.remove_prefix(text.size() - std::min(text.size(), 2 * register_pragma.size()));
  const size_t at = text.rfind(register_pragma);
  if (at == text.npos)
    return;
  const int limit = std::atoi(std::string(text.substr(at + register_pragma.size())).c_str());
  for (ptx::ast::Function &one : functions)
    if (!one.max_threads[0] && !one.required_threads[0] && !one.min_blocks && !one.max_registers)
      one.max_registers = static_cast<uint32_t>(limit);
}

CompileResult compile_texts(const std::vector<Lines> &texts) {
  std::deque<std::string> names_made;
  std::vector<std::string> names;
  try {
    std::vector<ptx::ast::Module> trees;
    uint32_t first_file = 0;
    for (const Lines &one : texts) {
      names.emplace_back(one.name);
      trees.push_back(ptx::parse(one.text, one.first, first_file));
      limit_registers(one.text, trees.back().functions);
      if (!trees.back().files.empty())
        first_file = trees.back().files.rbegin()->first + 1;
    }
    ptx::ast::Module tree = trees.size() == 1 ? std::move(trees[0]) : ptx::link(std::move(trees), names, names_made);
    return ptx::ModuleBuilder(tree).build();
  } catch (const ptx::SyntaxError &error) {
    return {nullptr, "line " + std::to_string(error.line) + ": " + error.message + "\n",
            CompileResult::Failure::syntax};
  } catch (const ptx::LinkError &error) {
    return {nullptr, error.messages, CompileResult::Failure::conflict};
  } catch (const std::exception &error) {
    return {nullptr, std::string("line 0: ") + error.what() + "\n", CompileResult::Failure::syntax};
  }
}

CompileResult compile_lines(std::vector<Lines> texts) {
  uint32_t first = 1;
  for (Lines &one : texts) {
    one.first = first;
    one.count = count_lines(one.text);
    first += one.count;
  }
  CompileResult result = compile_texts(texts);
  if (!result.module)
    result.log = with_lines(result.log, texts);
  return result;
}

} // namespace

CompileResult compile(const char *text, size_t size) { return compile_lines({{{}, {text, size}}}); }

CompileResult compile(const std::vector<PtxText> &texts) {
  std::vector<Lines> lines;
  for (const PtxText &one : texts)
    lines.push_back({one.name, one.text});
  return compile_lines(std::move(lines));
}

const ModuleInfo &info(const Module &module) { return module.info; }

uint64_t Instance::function_address(const std::string &name) const {
  const std::vector<exec::Function> &functions = module->program.functions;
  for (size_t i = 0; i < functions.size(); ++i)
    if (functions[i].name == name)
      return exec::function_address(module->program.id, static_cast<uint32_t>(i));
  return 0;
}

} // namespace sim
