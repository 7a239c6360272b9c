/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/cursor.h"

#include <cstring>
#include <optional>

namespace sim::ptx {

namespace {
constexpr int max_depth = 64; /* maximum nesting of expressions, so that no text exhausts the stack */

struct Level {
  std::string_view operators[4];
};
/* The binary operators, from the lowest to the highest precedence. */
constexpr Level levels[] = {
    {{"||"}},       {{"&&"}},     {{"|"}},           {{"^"}}, {{"&"}}, {{"==", "!="}}, {{"<", "<=", ">", ">="}},
    {{"<<", ">>"}}, {{"+", "-"}}, {{"*", "/", "%"}},
};
constexpr int level_count = static_cast<int>(std::size(levels));

ast::Operand integer_operand(uint64_t value, bool is_unsigned = false) {
  ast::Operand result;
  result.kind = ast::Operand::Kind::integer;
  result.value = value;
  result.is_unsigned = is_unsigned;
  return result;
}

/* Returns the result of a comparison, or nothing if the operator is not a comparison. */
template <class T> std::optional<bool> compare(std::string_view op, T a, T b) {
  if (op == "==")
    return a == b;
  if (op == "!=")
    return a != b;
  if (op == "<")
    return a < b;
  if (op == "<=")
    return a <= b;
  if (op == ">")
    return a > b;
  if (op == ">=")
    return a >= b;
  return std::nullopt;
}

/* Applies an operator whose result is unsigned if an operand is unsigned. */
ast::Operand combine(std::string_view op, uint64_t a, uint64_t b, bool is_unsigned, const Cursor &cursor) {
  if (op == "|")
    return integer_operand(a | b, is_unsigned);
  if (op == "^")
    return integer_operand(a ^ b, is_unsigned);
  if (op == "&")
    return integer_operand(a & b, is_unsigned);
  if (op == "+")
    return integer_operand(a + b, is_unsigned);
  if (op == "-")
    return integer_operand(a - b, is_unsigned);
  if (op == "*")
    return integer_operand(a * b, is_unsigned);
  if (b == 0)
    cursor.fail("division by zero in a constant expression");
  if (op == "%")
    return integer_operand(a % b, is_unsigned); /* computed with unsigned numbers, even if the operands are signed */
  if (is_unsigned)
    return integer_operand(a / b, true);
  /* INT64_MIN / -1 is undefined in C++ */
  auto sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
  return integer_operand(sb == -1 ? 0 - a : static_cast<uint64_t>(sa / sb));
}

/*
 * Applies an operator to integers by the rules of ptxas, which also determine whether the result is unsigned. Shifts
 * use only the lowest six bits of the shift amount.
 */
ast::Operand apply(std::string_view op, const ast::Operand &left, const ast::Operand &right, const Cursor &cursor) {
  uint64_t a = left.value, b = right.value;
  auto sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
  bool is_unsigned = left.is_unsigned || right.is_unsigned;
  if (op == "||")
    return integer_operand(a || b);
  if (op == "&&")
    return integer_operand(a && b);
  if (std::optional<bool> result = is_unsigned ? compare(op, a, b) : compare(op, sa, sb))
    return integer_operand(*result);
  if (op == "<<")
    return integer_operand(a << (b & 63), left.is_unsigned);
  if (op == ">>")
    return integer_operand(left.is_unsigned ? a >> (b & 63) : static_cast<uint64_t>(sa >> (b & 63)), left.is_unsigned);
  return combine(op, a, b, is_unsigned, cursor);
}

double value_of(const ast::Operand &number) {
  double wide;
  float narrow;
  if (number.wide) {
    std::memcpy(&wide, &number.value, sizeof wide);
    return wide;
  }
  auto bits = static_cast<uint32_t>(number.value);
  std::memcpy(&narrow, &bits, sizeof narrow);
  return double{narrow};
}

ast::Operand apply_floating(std::string_view op, const ast::Operand &left, const ast::Operand &right,
                            const Cursor &cursor) {
  double a = value_of(left), b = value_of(right), result;
  if (std::optional<bool> comparison = compare(op, a, b))
    return integer_operand(*comparison);
  if (op == "+")
    result = a + b;
  else if (op == "-")
    result = a - b;
  else if (op == "*")
    result = a * b;
  else if (op == "/")
    result = a / b;
  else
    cursor.fail("'" + std::string(op) + "' is for integers");
  ast::Operand number;
  number.kind = ast::Operand::Kind::floating;
  number.wide = true;
  std::memcpy(&number.value, &result, sizeof result);
  return number;
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

Dim3 Cursor::triple(const char *what) {
  Dim3 value{1, 1, 1};
  for (size_t i = 0; i < 3; ++i) {
    value[i] = static_cast<uint32_t>(integer(what));
    if (!accept(","))
      break;
  }
  return value;
}

ast::Operand Cursor::constant() { return conditional(0); }

ast::Operand Cursor::conditional(int depth) {
  ast::Operand condition = binary(0, depth);
  if (!accept("?"))
    return condition;
  if (condition.kind != ast::Operand::Kind::integer)
    fail("the condition of a constant expression must be an integer");
  ast::Operand first = conditional(depth + 1);
  expect(":");
  ast::Operand second = conditional(depth + 1);
  if (first.kind != second.kind)
    fail("both values of a condition must be integers, or both floating-point numbers");
  return condition.value ? first : second;
}

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
    if (left.kind != right.kind)
      fail("a constant expression mixes integers and floating-point numbers");
    left = left.kind == ast::Operand::Kind::integer ? apply(found, left, right, *this)
                                                    : apply_floating(found, left, right, *this);
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
  value.is_unsigned = op == '~' || (op == '-' && value.is_unsigned);
  return value;
}

ast::Operand Cursor::primary(int depth) {
  if (accept("(")) {
    /* A cast does not change the bits, only whether they count as signed. */
    if (peek().kind == TokenKind::dotted && (is(".s64") || is(".u64"))) {
      bool is_unsigned = take().text == ".u64";
      expect(")");
      ast::Operand value = unary(depth + 1);
      if (value.kind != ast::Operand::Kind::integer)
        fail("a floating-point number cannot be cast");
      value.is_unsigned = is_unsigned;
      return value;
    }
    ast::Operand value = conditional(depth + 1);
    expect(")");
    return value;
  }
  const Token &token = peek();
  ast::Operand value;
  if (token.kind == TokenKind::identifier && token.text == "WARP_SZ") {
    value = integer_operand(32);
  } else if (token.kind == TokenKind::integer) {
    value = integer_operand(token.value, token.is_unsigned);
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
