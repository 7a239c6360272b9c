/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_PARSER_H
#define CUDACORE_SIM_PTX_PARSER_H

#include "sim/ptx/ast.h"
#include "sim/ptx/lexer.h"

namespace sim::ptx {

/*
 * Reads a module. The result refers to `text`. Its lines and the files of .loc are counted from the numbers given, so
 * that those of several texts are different ones. Throws SyntaxError.
 */
ast::Module parse(std::string_view text, uint32_t first_line = 1, uint32_t first_file = 0);

} // namespace sim::ptx

#endif
