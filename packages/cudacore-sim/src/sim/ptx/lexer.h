/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_LEXER_H
#define CUDACORE_SIM_PTX_LEXER_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::ptx {

enum class TokenKind : uint8_t {
  identifier, /* add, %r1, $L__BB0_2, _ */
  dotted,     /* .s32, .shared::cluster, .reg; text includes the dot */
  integer,
  floating, /* bits of a double in `value` if `wide`, otherwise of a float */
  string,   /* the text without its quotes; escape sequences are not replaced */
  punctuation,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  uint32_t line = 0;
  uint64_t value = 0;
  bool wide = false;        /* for floating: `value` holds the bits of a double */
  bool is_unsigned = false; /* for integer: written with a U, or too large for a signed integer */
};

/* An error that ends compilation at once: the rest of the text cannot be read. */
struct SyntaxError {
  uint32_t line;
  std::string message;
};

/* Returns all tokens of `text`, followed by a token of kind `end`. The tokens refer to `text`. Throws SyntaxError. */
std::vector<Token> tokenize(std::string_view text, uint32_t first_line = 1);

} // namespace sim::ptx

#endif
