/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_CURSOR_H
#define CUDACORE_SIM_PTX_CURSOR_H

#include "sim/ptx/ast.h"
#include "sim/ptx/lexer.h"

namespace sim::ptx {

/* A position in the list of tokens, with functions that all parts of the grammar need. */
class Cursor {
public:
  explicit Cursor(const std::vector<Token> &tokens) : tokens_(tokens) {}

  const Token &peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token &take() {
    const Token &token = peek();
    if (at_ + 1 < tokens_.size())
      ++at_;
    return token;
  }
  bool at_end() const { return peek().kind == TokenKind::end; }
  bool is(std::string_view text) const {
    const Token &token = peek();
    return token.kind != TokenKind::string && token.kind != TokenKind::end && token.text == text;
  }
  bool accept(std::string_view text) {
    if (!is(text))
      return false;
    take();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text))
      fail("expected '" + std::string(text) + "'");
  }
  std::string_view identifier(const char *what);
  uint64_t integer(const char *what);
  Dim3 triple(const char *what); /* reads one to three integers; missing ones are 1 */
  [[noreturn]] void fail(const std::string &message) const;

  /* Reads a constant expression. Its value is an integer or a floating-point number, never a name. */
  ast::Operand constant();

private:
  ast::Operand conditional(int depth);
  ast::Operand binary(int level, int depth);
  ast::Operand unary(int depth);
  ast::Operand primary(int depth);

  const std::vector<Token> &tokens_;
  size_t at_ = 0;
};

} // namespace sim::ptx

#endif
