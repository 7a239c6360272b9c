/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_LINK_H
#define CUDACORE_SIM_PTX_LINK_H

#include <deque>
#include <vector>

#include "sim/ptx/ast.h"

namespace sim::ptx {

/* Modules that cannot be one. */
struct LinkError {
  std::string messages; /* a line each */
};

/*
 * Makes one module of several. A name that is not internal is the same in all of them: of its definitions the one that
 * is not weak is taken, or the first, and declarations find it. Internal names that others have too are made others,
 * which are kept in `names_made`. The modules' names are for messages. Throws LinkError.
 */
ast::Module link(std::vector<ast::Module> modules, const std::vector<std::string> &names,
                 std::deque<std::string> &names_made);

} // namespace sim::ptx

#endif
