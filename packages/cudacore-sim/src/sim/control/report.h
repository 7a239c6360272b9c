/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_REPORT_H
#define CUDACORE_SIM_REPORT_H

#include <cstddef>
#include <string>
#include <vector>

namespace sim {

/*
 * Says what went wrong, on stderr and in the control interface: a fault of a kernel, a misuse of the driver, a leak.
 * Any thread, with or without the state's lock.
 */
void report(const std::string &text);

/* The same, unless a report that says exactly this is there already. */
void report_once(const std::string &text);

/* Says on stderr alone what is no mistake of the program, such as a limit of the simulator that it has met. */
void note(const std::string &text);

std::vector<std::string> reports();
void forget_reports();

std::string hex(unsigned long long value);

} // namespace sim

#endif
