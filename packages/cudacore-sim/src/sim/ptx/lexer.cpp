/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/lexer.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace sim::ptx {

namespace {

/* Unlike isdigit(), is_digit() does not depend on the locale, and can be called with any byte. */
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool starts_identifier(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
bool continues_identifier(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

std::string printable(char c) {
  if (c >= 0x20 && c < 0x7f)
    return std::string("'") + c + "'";
  char text[16];
  std::snprintf(text, sizeof text, "byte 0x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text;
}

class Lexer {
public:
  Lexer(std::string_view text, uint32_t first_line) : text_(text), line_(first_line) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    tokens.reserve(text_.size() / 4 + 1);
    for (;;) {
      skip_blanks();
      tokens.push_back(next());
      if (tokens.back().kind == TokenKind::end)
        return tokens;
    }
  }

private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool done() const { return at_ >= text_.size(); }
  [[noreturn]] void fail(std::string message) const { throw SyntaxError{line_, std::move(message)}; }

  void skip_blanks() {
    while (!done()) {
      char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
        ++at_;
      } else if (c == '/' && peek(1) == '/') {
        while (!done() && text_[at_] != '\n')
          ++at_;
      } else if (c == '/' && peek(1) == '*') {
        skip_block_comment();
      } else {
        return;
      }
    }
  }

  void skip_block_comment() {
    uint32_t opened = line_;
    for (at_ += 2; !(peek() == '*' && peek(1) == '/'); ++at_) {
      if (done())
        throw SyntaxError{opened, "a comment is not closed"};
      if (text_[at_] == '\n')
        ++line_;
    }
    at_ += 2;
  }

  Token make(TokenKind kind, size_t begin) const {
    Token token;
    token.kind = kind;
    token.text = text_.substr(begin, at_ - begin);
    token.line = line_;
    return token;
  }

  Token next() {
    if (done())
      return make(TokenKind::end, at_);
    size_t begin = at_;
    char c = peek();
    if (starts_identifier(c)) {
      for (++at_; continues_identifier(peek());)
        ++at_;
      return make(TokenKind::identifier, begin);
    }
    if (is_digit(c))
      return number();
    if (c == '.' && (continues_identifier(peek(1)))) {
      if (is_digit(peek(1)) && !is_letter(peek(2)) && !is_digit(peek(2)))
        return number();
      for (++at_; continues_identifier(peek()) || (peek() == ':' && peek(1) == ':');)
        at_ += peek() == ':' ? 2 : 1;
      return make(TokenKind::dotted, begin);
    }
    if (c == '"')
      return string();
    static constexpr std::string_view pairs[] = {"<<", ">>", "==", "!=", "<=", ">=", "&&", "||"};
    for (std::string_view pair : pairs)
      if (text_.substr(at_, 2) == pair) {
        at_ += 2;
        return make(TokenKind::punctuation, begin);
      }
    if (std::strchr("{}()[]<>,;:=+-*/%&|^~!?@#", c) && c != '\0') {
      ++at_;
      return make(TokenKind::punctuation, begin);
    }
    fail("unexpected " + printable(c));
  }

  Token string() {
    size_t begin = ++at_;
    while (!done() && peek() != '"' && peek() != '\n')
      at_ += peek() == '\\' && at_ + 1 < text_.size() ? 2 : 1;
    if (done() || peek() != '"')
      fail("a string is not closed");
    Token token = make(TokenKind::string, begin);
    ++at_;
    return token;
  }

  Token number() {
    size_t begin = at_;
    char second = peek() == '0' ? peek(1) : '\0';
    if (second == 'f' || second == 'F' || second == 'd' || second == 'D')
      return hexadecimal_float(second);
    int base = 10;
    if (second == 'x' || second == 'X')
      base = 16;
    if (second == 'b' || second == 'B')
      base = 2;
    if (base != 10)
      at_ += 2;
    size_t digits = at_;
    while (base == 16 ? is_hex_digit(peek()) : is_digit(peek()))
      ++at_;
    if (base == 10 && (peek() == '.' || peek() == 'e' || peek() == 'E'))
      return decimal_float(begin);
    if (base == 10 && second != '\0' && is_digit(second))
      base = 8;
    Token token = make(TokenKind::integer, begin);
    auto [end, error] = std::from_chars(text_.data() + digits, text_.data() + at_, token.value, base);
    if (error != std::errc() || end != text_.data() + at_)
      fail("'" + std::string(token.text) + "' is no number of 64 bits");
    token.is_unsigned = token.value > INT64_MAX;
    if (peek() == 'U' || peek() == 'u') {
      token.is_unsigned = true;
      ++at_;
    }
    return token;
  }

  Token hexadecimal_float(char marker) {
    size_t begin = at_;
    at_ += 2;
    size_t digits = at_;
    while (is_hex_digit(peek()))
      ++at_;
    bool wide = marker == 'd' || marker == 'D';
    if (at_ - digits != (wide ? 16u : 8u))
      fail("'" + std::string(text_.substr(begin, at_ - begin)) + "' needs exactly " + (wide ? "16" : "8") +
           " hexadecimal digits");
    Token token = make(TokenKind::floating, begin);
    token.wide = wide;
    std::from_chars(text_.data() + digits, text_.data() + at_, token.value, 16);
    return token;
  }

  Token decimal_float(size_t begin) {
    while (is_digit(peek()))
      ++at_;
    if (peek() == '.')
      ++at_;
    while (is_digit(peek()))
      ++at_;
    if (peek() == 'e' || peek() == 'E') {
      at_ += (peek(1) == '+' || peek(1) == '-') ? 2 : 1;
      while (is_digit(peek()))
        ++at_;
    }
    Token token = make(TokenKind::floating, begin);
    double value = 0;
    auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error == std::errc::invalid_argument)
      fail("'" + std::string(token.text) + "' is no number");
    (void)end;
    token.wide = true;
    std::memcpy(&token.value, &value, sizeof value);
    return token;
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_;
};

} // namespace

std::vector<Token> tokenize(std::string_view text, uint32_t first_line) { return Lexer(text, first_line).run(); }

} // namespace sim::ptx
