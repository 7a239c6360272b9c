/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_PARSER_H
#define CUDACORE_SIM_PTX_PARSER_H

#include "sim/ptx/ast.h"
#include "sim/ptx/lexer.h"

namespace sim::ptx {

/* Reads a module. The result refers to `text`. Throws SyntaxError. */
ast::Module parse(std::string_view text);

} // namespace sim::ptx

#endif
