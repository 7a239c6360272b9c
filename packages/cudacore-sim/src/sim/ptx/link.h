/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_LINK_H
#define CUDACORE_SIM_PTX_LINK_H

#include <deque>
#include <vector>

#include "sim/ptx/ast.h"

namespace sim::ptx {

/* The exception for modules that cannot be linked. */
struct LinkError {
  std::string messages; /* one line for each error */
};

/*
 * Links modules. A name that is not internal stands for the same thing in all modules. If several modules define the
 * name, the definition that is not weak is used or, if all of them are weak, the first definition. All declarations of
 * the name refer to this definition. An internal name that other modules also use is replaced by a new name, which is
 * stored in `names_made`. `names` are the names of the modules for messages. Throws LinkError.
 */
ast::Module link(std::vector<ast::Module> modules, const std::vector<std::string> &names,
                 std::deque<std::string> &names_made);

} // namespace sim::ptx

#endif
