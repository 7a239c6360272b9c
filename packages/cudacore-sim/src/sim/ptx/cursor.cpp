/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/cursor.h"

#include <cstring>

namespace sim::ptx {

namespace {
constexpr int max_depth = 64; /* of nested expressions: text must not choose how deep our stack grows */

struct Level {
  std::string_view operators[4];
};
/* From weakest to strongest. */
constexpr Level levels[] = {
    {{"||"}},       {{"&&"}},     {{"|"}},           {{"^"}}, {{"&"}}, {{"==", "!="}}, {{"<", "<=", ">", ">="}},
    {{"<<", ">>"}}, {{"+", "-"}}, {{"*", "/", "%"}},
};
constexpr int level_count = static_cast<int>(std::size(levels));

uint64_t apply(std::string_view op, uint64_t a, uint64_t b, const Cursor &cursor) {
  auto sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
  if (op == "||")
    return a || b;
  if (op == "&&")
    return a && b;
  if (op == "|")
    return a | b;
  if (op == "^")
    return a ^ b;
  if (op == "&")
    return a & b;
  if (op == "==")
    return a == b;
  if (op == "!=")
    return a != b;
  if (op == "<")
    return sa < sb;
  if (op == "<=")
    return sa <= sb;
  if (op == ">")
    return sa > sb;
  if (op == ">=")
    return sa >= sb;
  if (op == "<<")
    return b < 64 ? a << b : 0;
  if (op == ">>")
    return static_cast<uint64_t>(sa >> std::min<uint64_t>(b, 63));
  if (op == "+")
    return a + b;
  if (op == "-")
    return a - b;
  if (op == "*")
    return a * b;
  if (b == 0)
    cursor.fail("division by zero in a constant expression");
  if (sb == -1)
    return op == "/" ? 0 - a : 0; /* INT64_MIN / -1 has no value in C++ */
  return static_cast<uint64_t>(op == "/" ? sa / sb : sa % sb);
}
} // namespace

void Cursor::fail(const std::string &message) const {
  const Token &token = peek();
  std::string found = token.kind == TokenKind::end ? "the end of the text" : "'" + std::string(token.text) + "'";
  throw SyntaxError{token.line, message + ", found " + found};
}

std::string_view Cursor::identifier(const char *what) {
  if (peek().kind != TokenKind::identifier)
    fail(std::string("expected ") + what);
  return take().text;
}

uint64_t Cursor::integer(const char *what) {
  ast::Operand value = constant();
  if (value.kind != ast::Operand::Kind::integer)
    fail(std::string("expected an integer: ") + what);
  return value.value;
}

ast::Operand Cursor::constant() { return binary(0, 0); }

ast::Operand Cursor::binary(int level, int depth) {
  if (level == level_count)
    return unary(depth);
  ast::Operand left = binary(level + 1, depth);
  for (;;) {
    std::string_view found;
    for (std::string_view op : levels[level].operators)
      if (!op.empty() && is(op))
        found = op;
    if (found.empty())
      return left;
    take();
    ast::Operand right = binary(level + 1, depth);
    if (left.kind != ast::Operand::Kind::integer || right.kind != ast::Operand::Kind::integer)
      fail("a constant expression of floating-point numbers is not supported");
    left.value = apply(found, left.value, right.value, *this);
  }
}

ast::Operand Cursor::unary(int depth) {
  if (depth > max_depth)
    fail("a constant expression is nested too deeply");
  if (accept("+"))
    return unary(depth + 1);
  char op = is("-") ? '-' : is("~") ? '~' : is("!") ? '!' : '\0';
  if (!op)
    return primary(depth);
  take();
  ast::Operand value = unary(depth + 1);
  if (value.kind == ast::Operand::Kind::floating) {
    if (op != '-')
      fail("a floating-point number can only be negated");
    value.value ^= value.wide ? uint64_t{1} << 63 : uint64_t{1} << 31;
    return value;
  }
  value.value = op == '-' ? 0 - value.value : op == '~' ? ~value.value : !value.value;
  return value;
}

ast::Operand Cursor::primary(int depth) {
  if (accept("(")) {
    /* A cast such as (.s64) changes nothing for the 64-bit values computed here. */
    if (peek().kind == TokenKind::dotted && (is(".s64") || is(".u64"))) {
      take();
      expect(")");
      return unary(depth + 1);
    }
    ast::Operand value = binary(0, depth + 1);
    expect(")");
    return value;
  }
  const Token &token = peek();
  ast::Operand value;
  if (token.kind == TokenKind::identifier && token.text == "WARP_SZ") {
    value.kind = ast::Operand::Kind::integer;
    value.value = 32;
  } else if (token.kind == TokenKind::integer) {
    value.kind = ast::Operand::Kind::integer;
    value.value = token.value;
  } else if (token.kind == TokenKind::floating) {
    value.kind = ast::Operand::Kind::floating;
    value.value = token.value;
    value.wide = token.wide;
  } else {
    fail("expected a number");
  }
  take();
  return value;
}

} // namespace sim::ptx
