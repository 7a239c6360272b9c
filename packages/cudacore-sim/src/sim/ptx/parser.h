/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_PARSER_H
#define CUDACORE_SIM_PTX_PARSER_H

#include "sim/ptx/ast.h"
#include "sim/ptx/lexer.h"

namespace sim::ptx {

/*
 * Parses a module. The result refers to `text`. Line numbers begin with `first_line`, and the numbers of .loc files
 * with `first_file`, so that they differ between texts that are linked. Throws SyntaxError.
 */
ast::Module parse(std::string_view text, uint32_t first_line = 1, uint32_t first_file = 0);

} // namespace sim::ptx

#endif
