/* SPDX-License-Identifier: Apache-2.0 */
/* Links modules of PTX, as a linker does with object files. */
#include "sim/ptx/link.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

namespace sim::ptx {

namespace {

using ast::Linkage;

bool same_formals(const std::vector<ast::Declaration> &a, const std::vector<ast::Declaration> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ast::Declaration &x, const ast::Declaration &y) {
    return x.bytes() == y.bytes() && (x.space == StateSpace::reg) == (y.space == StateSpace::reg);
  });
}

class Linker {
public:
  Linker(std::vector<ast::Module> &modules, const std::vector<std::string> &names, std::deque<std::string> &names_made)
      : modules_(modules), names_(names), names_made_(names_made) {}

  ast::Module run() {
    for (size_t i = 0; i < modules_.size(); ++i) {
      functions(i);
      variables(i);
    }
    if (!messages_.empty())
      throw LinkError{messages_};
    for (ast::Module &module : modules_)
      drop_variables(module);
    rename_internal();
    return joined();
  }

private:
  /* What a name that the modules share stands for. */
  struct Shared {
    size_t module = 0; /* index of the module with the definition, or with the first declaration */
    bool is_defined = false;
    bool is_weak = false;
    ast::Function *function = nullptr;    /* the definition, or the first declaration */
    ast::Declaration *variable = nullptr; /* the definition, or the first declaration */
  };

  void conflict(const char *what, std::string_view name, size_t module, const char *before, const Shared &first) {
    messages_ += std::string(what) + " '" + std::string(name) + "' in '" + names_[module] + "', " + before + " in '" +
                 names_[first.module] + "'\n";
  }

  /*
   * Returns the linkage of a function. It is visible if one of its declarations is marked as visible. A kernel is
   * always visible.
   */
  static Linkage linkage_of(const ast::Function &function, const ast::Module &module) {
    Linkage found = function.is_entry && function.linkage == Linkage::internal ? Linkage::visible : function.linkage;
    for (const ast::Function &other : module.functions)
      if (found == Linkage::internal && other.name == function.name)
        found = other.linkage;
    return found;
  }

  void functions(size_t index) {
    for (ast::Function &one : modules_[index].functions) {
      Linkage linkage = linkage_of(one, modules_[index]);
      if (linkage == Linkage::internal)
        continue;
      auto [place, is_new] = shared_.try_emplace(one.name);
      Shared &known = place->second;
      if (is_new) {
        known.module = index;
        known.function = &one;
      } else if (known.function == nullptr || known.function->is_entry != one.is_entry ||
                 (known.module != index && !one.is_entry &&
                  (!same_formals(known.function->parameters, one.parameters) ||
                   !same_formals(known.function->results, one.results)))) {
        if (known.module != index) /* an error within one module is reported when the module is built */
          conflict("Prototype doesn't match for", one.name, index, "first specified", known);
        continue;
      }
      if (!one.has_body)
        continue;
      bool is_weak = linkage == Linkage::weak;
      if (known.is_defined && known.module == index)
        continue;
      if (known.is_defined && !is_weak && !known.is_weak) {
        conflict("Multiple definition of", one.name, index, "first defined", known);
      } else if (known.is_defined && is_weak) {
        drop_body(one);
      } else {
        if (known.is_defined)
          drop_body(*known.function);
        known = {index, true, is_weak, &one, nullptr};
      }
    }
  }

  static void drop_body(ast::Function &function) {
    function.has_body = false;
    function.body.clear();
    function.instructions.clear();
    function.declarations.clear();
  }

  void variables(size_t index) {
    for (ast::Declaration &one : modules_[index].variables) {
      if (one.linkage == Linkage::internal)
        continue;
      auto [place, is_new] = shared_.try_emplace(one.name);
      Shared &known = place->second;
      bool is_defined = one.linkage != Linkage::external, is_weak = one.linkage == Linkage::weak;
      if (is_new) {
        known = {index, is_defined, is_weak, nullptr, &one};
        continue;
      }
      if (known.module == index)
        continue; /* an error within one module is reported when the module is built */
      if (known.variable == nullptr || known.variable->space != one.space) {
        conflict("Memory space doesn't match for", one.name, index, "first specified", known);
      } else if (!one.unsized && !known.variable->unsized && one.bytes() != known.variable->bytes()) {
        conflict("Size doesn't match for", one.name, index, "first specified", known);
      } else if (is_defined && known.is_defined && !is_weak && !known.is_weak) {
        conflict("Multiple definition of", one.name, index, "first defined", known);
      } else if (is_defined && (!known.is_defined || (known.is_weak && !is_weak))) {
        dropped_.insert(known.variable);
        known = {index, true, is_weak, nullptr, &one};
      } else {
        dropped_.insert(&one);
      }
    }
  }

  void drop_variables(ast::Module &module) {
    std::vector<ast::Declaration> kept;
    for (ast::Declaration &one : module.variables)
      if (dropped_.count(&one) == 0)
        kept.push_back(std::move(one));
    module.variables = std::move(kept);
  }

  /* --- internal names ---------------------------------------------------------------------------------------- */

  using Renamed = std::unordered_map<std::string_view, std::string_view>;

  void rename_internal() {
    std::unordered_set<std::string_view> taken;
    for (const auto &entry : shared_)
      taken.insert(entry.first);
    for (size_t i = 0; i < modules_.size(); ++i) {
      ast::Module &module = modules_[i];
      std::unordered_set<std::string_view> internal;
      for (const ast::Declaration &one : module.variables)
        if (one.linkage == Linkage::internal)
          internal.insert(one.name);
      for (const ast::Function &one : module.functions)
        if (linkage_of(one, module) == Linkage::internal)
          internal.insert(one.name);
      Renamed renamed;
      for (std::string_view name : internal) {
        if (taken.insert(name).second)
          continue;
        for (size_t number = i + 1;; number += modules_.size()) { /* no name of PTX has an @ */
          names_made_.push_back(std::string(name) + '@' + std::to_string(number));
          if (taken.insert(names_made_.back()).second)
            break;
        }
        renamed[name] = names_made_.back();
      }
      if (!renamed.empty())
        rename(module, renamed);
    }
  }

  static void rename(std::string_view &name, const Renamed &renamed) {
    auto found = renamed.find(name);
    if (found != renamed.end())
      name = found->second;
  }

  static void rename(ast::Operand &operand, const Renamed &renamed) {
    rename(operand.name, renamed);
    for (ast::Operand &element : operand.elements)
      rename(element, renamed);
  }

  static void rename(ast::Declaration &declaration, const Renamed &renamed) {
    for (ast::InitialValue &value : declaration.initial)
      rename(value.value.name, renamed);
  }

  static void rename(ast::Module &module, const Renamed &renamed) {
    for (ast::Declaration &one : module.variables) {
      rename(one.name, renamed);
      rename(one, renamed);
    }
    for (ast::Alias &one : module.aliases) {
      rename(one.name, renamed);
      rename(one.target, renamed);
    }
    for (ast::Function &one : module.functions) {
      rename(one.name, renamed);
      Renamed seen = renamed; /* `renamed`, without the names that the function itself declares */
      for (const auto *list : {&one.results, &one.parameters, &one.declarations})
        for (const ast::Declaration &own : *list)
          seen.erase(own.name);
      for (const ast::Statement &statement : one.body)
        if (statement.kind == ast::Statement::Kind::label)
          seen.erase(statement.label);
      for (const ast::Prototype &own : one.prototypes)
        seen.erase(own.name);
      for (ast::Declaration &own : one.declarations)
        rename(own, seen);
      for (ast::BranchTargets &targets : one.branch_targets)
        for (std::string_view &label : targets.labels)
          rename(label, seen);
      for (ast::Instruction &instruction : one.instructions)
        for (ast::Operand &operand : instruction.operands)
          rename(operand, seen);
    }
  }

  /* --- joining ----------------------------------------------------------------------------------------------- */

  template <class T> static void append(std::vector<T> &to, std::vector<T> &from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }

  ast::Module joined() {
    ast::Module all = std::move(modules_[0]);
    for (size_t i = 1; i < modules_.size(); ++i) {
      ast::Module &one = modules_[i];
      if (one.major * 100 + one.minor > all.major * 100 + all.minor) {
        all.version = one.version;
        all.major = one.major;
        all.minor = one.minor;
        all.version_line = one.version_line;
      }
      append(all.variables, one.variables);
      append(all.functions, one.functions);
      append(all.aliases, one.aliases);
      all.files.insert(one.files.begin(), one.files.end());
    }
    return all;
  }

  std::vector<ast::Module> &modules_;
  const std::vector<std::string> &names_;
  std::deque<std::string> &names_made_;
  std::unordered_map<std::string_view, Shared> shared_;
  std::unordered_set<const ast::Declaration *> dropped_;
  std::string messages_;
};

} // namespace

ast::Module link(std::vector<ast::Module> modules, const std::vector<std::string> &names,
                 std::deque<std::string> &names_made) {
  return Linker(modules, names, names_made).run();
}

} // namespace sim::ptx
