/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_PTX_TARGETS_H
#define CUDACORE_SIM_PTX_TARGETS_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::ptx {

/* The target of a module. For sm_90a, `number` is 90 and `suffix` is 'a'. */
struct Target {
  uint32_t number = 0;
  char suffix = 0;
};
Target target_named(std::string_view name);

/*
 * Returns why code for a target cannot have an instruction, in the words of the assembler, or an empty string if it
 * can. For special registers and directives, `opcode` is their name, and there are no modifiers.
 */
std::string refusal(Target target, std::string_view opcode, const std::vector<std::string_view> &modifiers = {},
                    size_t operands = 0);

} // namespace sim::ptx

#endif
