/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/parser.h"

#include "sim/ptx/cursor.h"

namespace sim::ptx {

namespace {

constexpr uint64_t max_elements = uint64_t{1} << 34; /* maximum for one variable; a larger number must be a mistake */
constexpr int max_nesting = 200;                     /* maximum nesting of blocks and of initialisers */

class Parser {
public:
  Parser(const std::vector<Token> &tokens, uint32_t first_file) : in_(tokens), first_file_(first_file) {}

  ast::Module run() {
    header();
    while (!in_.at_end())
      top_level();
    return std::move(module_);
  }

private:
  using Operand = ast::Operand;

  void header() {
    if (!in_.is(".version"))
      in_.fail("expected '.version' first");
    module_.version_line = in_.peek().line;
    in_.take();
    const Token &version = in_.take();
    module_.version = std::string(version.text);
    size_t dot = module_.version.find('.');
    if (version.kind != TokenKind::floating || dot == std::string::npos || dot == 0 || dot > 3 ||
        module_.version.size() > dot + 3 || module_.version.size() == dot + 1)
      throw SyntaxError{version.line, "'" + module_.version + "' is no PTX version"};
    module_.major = static_cast<uint32_t>(std::atoi(module_.version.c_str()));
    module_.minor = static_cast<uint32_t>(std::atoi(module_.version.c_str() + dot + 1));
    in_.expect(".target");
    module_.target = std::string(in_.identifier("a target"));
    while (in_.accept(","))
      in_.identifier("a target option");
    if (in_.accept(".address_size") && in_.integer("the address size") != 64)
      in_.fail("only an address size of 64 is supported");
  }

  void top_level() {
    const Token &token = in_.peek();
    if (token.text == ".file")
      return file();
    if (token.text == ".section")
      return section();
    if (token.text == ".loc")
      return location();
    if (token.text == ".pragma")
      return pragma();
    if (token.text == ".alias")
      return alias();
    if (in_.accept(";"))
      return;
    uint32_t line = token.line;
    ast::Linkage linkage = read_linkage();
    if (in_.is(".entry") || in_.is(".func"))
      return function(linkage, line);
    if (in_.is(".tex") || in_.is(".texref") || in_.is(".samplerref") || in_.is(".surfref"))
      in_.fail("textures and surfaces are not supported");
    declarations(linkage, [this](ast::Declaration &&one) { module_.variables.push_back(std::move(one)); });
  }

  ast::Linkage read_linkage() {
    ast::Linkage linkage = ast::Linkage::internal;
    for (;;) {
      if (in_.accept(".visible"))
        linkage = ast::Linkage::visible;
      else if (in_.accept(".extern"))
        linkage = ast::Linkage::external;
      else if (in_.accept(".weak") || in_.accept(".common"))
        linkage = ast::Linkage::weak;
      else
        return linkage;
    }
  }

  void file() {
    in_.take();
    auto index = first_file_ + static_cast<uint32_t>(in_.integer("the file's number"));
    if (in_.peek().kind != TokenKind::string)
      in_.fail("expected a file name");
    module_.files[index] = std::string(in_.take().text);
    while (in_.accept(","))
      in_.integer("the file's time or size");
  }

  void section() {
    in_.take();
    in_.take(); /* skips the name of the section */
    in_.expect("{");
    while (!in_.is("}")) {
      if (in_.at_end())
        in_.fail("a section is not closed");
      in_.take();
    }
    in_.take();
  }

  void location() {
    in_.take();
    ast::SourcePosition at;
    at.file = first_file_ + static_cast<uint32_t>(in_.integer("the file of .loc"));
    at.line = static_cast<uint32_t>(in_.integer("the line of .loc"));
    if (in_.peek().kind == TokenKind::integer)
      in_.take();
    if (in_.accept(",")) {
      in_.expect("function_name");
      in_.identifier("a label");
      if (in_.accept("+"))
        in_.integer("an offset");
      in_.expect(",");
      in_.expect("inlined_at");
      for (int i = 0; i < 3; ++i) {
        if (in_.peek().kind != TokenKind::integer)
          in_.fail("expected a number after inlined_at");
        in_.take();
      }
    }
    /* Line 0 means that the code belongs to no line. The last known line is more useful in messages. */
    if (at.line != 0)
      source_ = at;
  }

  void pragma() {
    in_.take();
    do {
      if (in_.peek().kind != TokenKind::string)
        in_.fail("expected a string");
      in_.take();
    } while (in_.accept(","));
    in_.expect(";");
  }

  void alias() {
    ast::Alias alias;
    alias.line = in_.take().line;
    alias.name = in_.identifier("a function's name");
    in_.expect(",");
    alias.target = in_.identifier("a function's name");
    in_.expect(";");
    module_.aliases.push_back(alias);
  }

  /* --- declarations ------------------------------------------------------------------------------------------ */

  StateSpace space_of(std::string_view text) {
    static constexpr std::pair<std::string_view, StateSpace> spaces[] = {
        {".global", StateSpace::global},      {".shared", StateSpace::shared}, {".local", StateSpace::local},
        {".shared::cta", StateSpace::shared}, {".param", StateSpace::param},   {".reg", StateSpace::reg},
        {".const", StateSpace::constant}};
    for (const auto &[name, space] : spaces)
      if (text == name)
        return space;
    return StateSpace::generic;
  }

  /* Parses what precedes the names in a declaration: state space, alignment, vector, type, and other attributes. */
  ast::Declaration declaration_head(ast::Linkage linkage) {
    ast::Declaration head;
    head.linkage = linkage;
    head.line = in_.peek().line;
    head.space = space_of(in_.peek().text);
    if (head.space == StateSpace::generic)
      in_.fail("expected a declaration");
    in_.take();
    while (head.type == Type::none) {
      const Token &token = in_.peek();
      if (token.kind != TokenKind::dotted)
        in_.fail("expected a type");
      if (in_.accept(".align")) {
        head.alignment = in_.integer("an alignment");
        if (head.alignment == 0 || head.alignment > 4096 || (head.alignment & (head.alignment - 1)))
          in_.fail("an alignment must be a power of two up to 4096");
      } else if (in_.accept(".v2")) {
        head.vector = 2;
      } else if (in_.accept(".v4")) {
        head.vector = 4;
      } else if (in_.accept(".attribute")) {
        skip_parenthesised();
      } else {
        head.type = type_named(token.text.substr(1));
        if (head.type == Type::none)
          in_.fail("expected a type");
        in_.take();
        pointer_attributes();
      }
    }
    return head;
  }

  /* Parses hints about the memory that a parameter points to, as in `.u64 .ptr .global .align 8 name`. */
  void pointer_attributes() {
    if (!in_.accept(".ptr"))
      return;
    while (in_.accept(".global") || in_.accept(".shared") || in_.accept(".const") || in_.accept(".local") ||
           in_.accept(".param"))
      ;
    if (in_.accept(".align"))
      in_.integer("an alignment");
  }

  void skip_parenthesised() {
    in_.expect("(");
    for (int depth = 1; depth > 0; in_.take()) {
      if (in_.at_end())
        in_.fail("a parenthesis is not closed");
      depth += in_.is("(") ? 1 : in_.is(")") ? -1 : 0;
    }
  }

  void declared_name(ast::Declaration &one) {
    one.line = in_.peek().line;
    one.name = in_.identifier("a name");
    if (one.space == StateSpace::reg && in_.accept("<")) {
      if (in_.peek().kind != TokenKind::integer)
        in_.fail("expected the number of registers");
      uint64_t count = in_.take().value; /* only a number is accepted: in an expression, the > would be an operator */
      in_.expect(">");
      if (count == 0 || count > (1u << 24))
        in_.fail("too many registers, or none");
      one.register_count = static_cast<uint32_t>(count);
      return;
    }
    std::vector<uint64_t> dimensions;
    while (in_.accept("[")) {
      one.is_array = true;
      uint64_t size = 0;
      if (!in_.is("]"))
        size = in_.integer("an array's size");
      if (size == 0) {
        if (!dimensions.empty())
          in_.fail("only an array's first dimension can be left open");
        one.unsized = true;
      }
      in_.expect("]");
      dimensions.push_back(size);
    }
    uint64_t inner = 1;
    for (size_t i = one.unsized ? 1 : 0; i < dimensions.size(); ++i) {
      if (dimensions[i] > max_elements / inner)
        in_.fail("an array is too large");
      inner *= dimensions[i];
    }
    one.elements = one.unsized ? 0 : inner;
    if (in_.accept("="))
      initialiser(one, dimensions, inner);
  }

  void initialiser(ast::Declaration &one, std::vector<uint64_t> &dimensions, uint64_t inner) {
    if (!one.is_array && one.vector == 1) {
      initial_value(one, 0);
      return;
    }
    if (one.vector > 1)
      dimensions.push_back(one.vector);
    uint64_t end = initial_list(one, dimensions, 0, 0);
    if (one.unsized) {
      uint64_t stride = inner * one.vector;
      one.elements = (end + stride - 1) / stride * inner;
      one.unsized = false;
    }
    if (!one.initial.empty() && one.initial.back().index >= one.elements * one.vector)
      in_.fail("too many values in an initialiser");
  }

  /*
   * Parses the values of an initialiser for dimension `level`, beginning with element `at`. Returns the index after the
   * last value.
   */
  uint64_t initial_list(ast::Declaration &one, const std::vector<uint64_t> &dimensions, size_t level, uint64_t at) {
    if (level > static_cast<size_t>(max_nesting))
      in_.fail("an initialiser is nested too deeply");
    uint64_t stride = 1;
    for (size_t i = level + 1; i < dimensions.size(); ++i)
      stride *= dimensions[i];
    in_.expect("{");
    while (!in_.is("}")) {
      if (in_.is("{")) {
        if (level + 1 >= dimensions.size())
          in_.fail("too many braces in an initialiser");
        initial_list(one, dimensions, level + 1, at);
        at += stride;
      } else {
        initial_value(one, at++);
      }
      if (!in_.accept(","))
        break;
    }
    in_.expect("}");
    return at;
  }

  void initial_value(ast::Declaration &one, uint64_t index) {
    ast::InitialValue value;
    value.index = index;
    value.line = in_.peek().line;
    if (in_.peek().kind == TokenKind::integer && in_.peek(1).text == "(")
      value.mask = in_.take().value;
    bool is_byte = value.mask != 0 && in_.accept("(");
    if (is_byte || (in_.peek().kind == TokenKind::identifier && !in_.is("WARP_SZ"))) {
      std::string_view name = in_.identifier("a name");
      if (name == "generic" && in_.accept("(")) {
        value.generic = true;
        name = in_.identifier("a variable's name");
        in_.expect(")");
      }
      value.value.kind = Operand::Kind::name;
      value.value.name = name;
      if (in_.is("+") || in_.is("-"))
        value.value.value = in_.integer("an offset");
    } else {
      value.value = in_.constant();
    }
    if (is_byte)
      in_.expect(")");
    one.initial.push_back(std::move(value));
  }

  template <class Sink> void declarations(ast::Linkage linkage, Sink &&sink) {
    ast::Declaration head = declaration_head(linkage);
    do {
      ast::Declaration one = head;
      declared_name(one);
      if (linkage == ast::Linkage::external && one.is_array && one.elements == 0)
        one.unsized = true;
      sink(std::move(one));
    } while (in_.accept(","));
    in_.expect(";");
  }

  std::vector<ast::Declaration> parameter_list() {
    std::vector<ast::Declaration> list;
    in_.expect("(");
    while (!in_.is(")")) {
      if (!in_.is(".param") && !in_.is(".reg"))
        in_.fail("expected a parameter");
      list.push_back(declaration_head(ast::Linkage::internal));
      declared_name(list.back());
      if (!in_.accept(","))
        break;
    }
    in_.expect(")");
    return list;
  }

  /* --- functions --------------------------------------------------------------------------------------------- */

  void function(ast::Linkage linkage, uint32_t line) {
    ast::Function f;
    f.linkage = linkage;
    f.line = line;
    f.target = target_named(module_.target);
    f.is_entry = in_.take().text == ".entry";
    if (!f.is_entry) {
      if (in_.accept(".attribute"))
        skip_parenthesised();
      if (in_.is("("))
        f.results = parameter_list();
    }
    f.name = in_.identifier("a function's name");
    if (in_.is("("))
      f.parameters = parameter_list();
    function_directives(f);
    if (in_.is("{")) {
      f.has_body = true;
      block(f);
    } else {
      in_.expect(";");
    }
    module_.functions.push_back(std::move(f));
  }

  void function_directives(ast::Function &f) {
    for (;;) {
      if (std::string reason = refusal(f.target, in_.peek().text); !reason.empty())
        throw SyntaxError{in_.peek().line, reason};
      if (in_.accept(".maxntid"))
        f.max_threads = in_.triple(".maxntid");
      else if (in_.accept(".reqntid"))
        f.required_threads = in_.triple(".reqntid");
      else if (in_.accept(".reqnctapercluster"))
        f.required_cluster = in_.triple(".reqnctapercluster");
      else if (in_.accept(".minnctapersm"))
        f.min_blocks = static_cast<uint32_t>(in_.integer(".minnctapersm"));
      else if (in_.accept(".explicitcluster"))
        f.explicit_cluster = true;
      else if (in_.accept(".maxnreg"))
        f.max_registers = static_cast<uint32_t>(in_.integer(".maxnreg"));
      else if (in_.accept(".maxnctapersm") || in_.accept(".maxclusterrank") || in_.accept(".abi_preserve") ||
               in_.accept(".abi_preserve_control"))
        in_.integer("a limit");
      else if (in_.is(".pragma"))
        pragma();
      else if (in_.is(".language")) /* .language is for kernels of cuda.tile; how to launch them is not documented */
        in_.fail("kernels of cuda.tile are not simulated");
      else if (!in_.accept(".noreturn") && !in_.accept(".unified") && !in_.accept(".blocksareclusters"))
        return;
    }
  }

  void add(ast::Function &f, ast::Statement::Kind kind, uint32_t line, size_t index, std::string_view label = {}) {
    ast::Statement statement;
    statement.kind = kind;
    statement.line = line;
    statement.index = index;
    statement.label = label;
    f.body.push_back(statement);
  }

  void block(ast::Function &f) {
    int depth = 0;
    do {
      const Token &token = in_.peek();
      if (in_.at_end())
        in_.fail("a function is not closed");
      if (in_.accept("{")) {
        if (++depth > max_nesting)
          in_.fail("blocks are nested too deeply");
        add(f, ast::Statement::Kind::open, token.line, 0);
      } else if (in_.accept("}")) {
        --depth;
        add(f, ast::Statement::Kind::close, token.line, 0);
      } else {
        statement(f);
      }
    } while (depth > 0);
  }

  void statement(ast::Function &f) {
    const Token &token = in_.peek();
    if (in_.accept(";"))
      return;
    if (in_.is(".loc"))
      return location();
    if (in_.is(".pragma"))
      return pragma();
    if (in_.is(".file"))
      return file();
    if (token.kind == TokenKind::identifier && in_.peek(1).text == ":" && in_.peek(1).kind == TokenKind::punctuation)
      return label(f);
    if (token.kind == TokenKind::dotted) {
      ast::Linkage linkage = read_linkage();
      declarations(linkage, [&](ast::Declaration &&one) {
        add(f, ast::Statement::Kind::declaration, one.line, f.declarations.size());
        f.declarations.push_back(std::move(one));
      });
      return;
    }
    add(f, ast::Statement::Kind::instruction, token.line, f.instructions.size());
    f.instructions.push_back(instruction());
  }

  void label(ast::Function &f) {
    const Token &token = in_.take();
    in_.expect(":");
    if (in_.accept(".callprototype")) {
      ast::Prototype prototype;
      prototype.name = token.text;
      if (in_.is("("))
        prototype.results = parameter_list();
      in_.identifier("'_'");
      if (in_.is("("))
        prototype.parameters = parameter_list();
      while (in_.accept(".noreturn") || in_.accept(".abi_preserve"))
        if (in_.peek().kind == TokenKind::integer)
          in_.take();
      in_.expect(";");
      add(f, ast::Statement::Kind::prototype, token.line, f.prototypes.size());
      f.prototypes.push_back(std::move(prototype));
      return;
    }
    if (in_.accept(".branchtargets") || in_.accept(".calltargets")) {
      ast::BranchTargets targets;
      targets.name = token.text;
      do
        targets.labels.push_back(in_.identifier("a label"));
      while (in_.accept(","));
      in_.expect(";");
      add(f, ast::Statement::Kind::branch_targets, token.line, f.branch_targets.size());
      f.branch_targets.push_back(std::move(targets));
      return;
    }
    add(f, ast::Statement::Kind::label, token.line, 0, token.text);
  }

  /* --- instructions ------------------------------------------------------------------------------------------ */

  ast::Instruction instruction() {
    ast::Instruction one;
    one.line = in_.peek().line;
    one.source = source_;
    if (in_.accept("@")) {
      one.guard_negated = in_.accept("!");
      one.guard = in_.identifier("a predicate");
    }
    one.line = in_.peek().line;
    one.opcode = in_.identifier("an instruction");
    in_call_ = one.opcode == "call";
    while (in_.peek().kind == TokenKind::dotted)
      one.modifiers.push_back(in_.take().text.substr(1));
    while (!in_.is(";")) {
      one.operands.push_back(operand(0));
      if (in_.accept("|"))
        one.operands.back().second = in_.identifier("an operand");
      if (!in_.accept(","))
        break;
    }
    in_.expect(";");
    return one;
  }

  Operand operand(int depth) {
    if (depth > 3)
      in_.fail("operands are nested too deeply");
    if (in_.is("["))
      return address();
    if (in_.is("{"))
      return group("{", "}", Operand::Kind::vector, depth);
    if (in_.is("(") && in_call_) /* only in a call is ( the beginning of a list; elsewhere it begins an expression */
      return group("(", ")", Operand::Kind::list, depth);
    if (in_.is("!") || (in_.peek().kind == TokenKind::identifier && !in_.is("WARP_SZ")))
      return named();
    if (in_.is("-") && in_.peek(1).kind == TokenKind::identifier && in_.peek(1).text != "WARP_SZ") {
      in_.take();
      Operand result = named();
      result.minus = true;
      return result;
    }
    return in_.constant();
  }

  Operand group(std::string_view open, std::string_view close, Operand::Kind kind, int depth) {
    Operand result;
    result.kind = kind;
    in_.expect(open);
    while (!in_.is(close)) {
      result.elements.push_back(operand(depth + 1));
      if (!in_.accept(","))
        break;
    }
    in_.expect(close);
    return result;
  }

  Operand named() {
    Operand result;
    result.negated = in_.accept("!");
    result.name = in_.identifier("an operand");
    if (in_.peek().kind == TokenKind::dotted)
      result.component = in_.take().text.substr(1);
    if (in_.accept("[")) {
      result.indexed = true;
      result.value = in_.integer("an element's number");
      in_.expect("]");
    } else if (in_.is("+") || in_.is("-")) {
      result.value = in_.integer("an offset");
    }
    return result;
  }

  Operand address() {
    Operand result;
    result.kind = Operand::Kind::address;
    in_.expect("[");
    if (in_.peek().kind == TokenKind::identifier && !in_.is("WARP_SZ")) {
      result.name = in_.take().text;
      if (in_.is("+") || in_.is("-"))
        result.value = in_.integer("an offset");
    } else {
      result.value = in_.integer("an address");
    }
    if (in_.accept(",")) /* [map, {c0, c1}]: the name is that of a tensor map, a texture or a surface */
      result.elements = group("{", "}", Operand::Kind::vector, 0).elements;
    in_.expect("]");
    return result;
  }

  Cursor in_;
  const uint32_t first_file_;
  bool in_call_ = false; /* whether the parser is in a call: only there can operands be lists */
  ast::Module module_;
  ast::SourcePosition source_;
};

} // namespace

ast::Module parse(std::string_view text, uint32_t first_line, uint32_t first_file) {
  std::vector<Token> tokens = tokenize(text, first_line);
  return Parser(tokens, first_file).run();
}

} // namespace sim::ptx
