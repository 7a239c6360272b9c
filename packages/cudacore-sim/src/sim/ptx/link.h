/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_LINK_H
#define CUDACORE_SIM_PTX_LINK_H

#include <deque>
#include <vector>

#include "sim/ptx/ast.h"

namespace sim::ptx {

/* An error: the modules cannot be linked. */
struct LinkError {
  std::string messages; /* one line for each error */
};

/*
 * Links modules. A name that is not internal means the same in all modules. If several modules define the name, the
 * definition that is not weak is used or, if all are weak, the first. Declarations refer to this definition. If other
 * modules also use an internal name, it is replaced by a new name, which is stored in `names_made`. The names of the
 * modules are for messages. Throws LinkError.
 */
ast::Module link(std::vector<ast::Module> modules, const std::vector<std::string> &names,
                 std::deque<std::string> &names_made);

} // namespace sim::ptx

#endif
