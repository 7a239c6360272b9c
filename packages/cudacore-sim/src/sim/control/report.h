/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CONTROL_REPORT_H
#define CUDACORE_SIM_CONTROL_REPORT_H

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

/* A report of why a context fails, with the CUresult that its calls return from now on. */
void report_fault(const std::string &text, int result);

/*
 * Says why a call is refused, where that is no misuse: on stderr the first time, and to who asks for it. Of texts that
 * differ in numbers alone `key` tells that they are one. refuse() does so on the way to returning a code.
 */
void explain(const std::string &text, const std::string &key = {});
template <class Code> Code refuse(Code code, const std::string &text, const std::string &key = {}) {
  explain(text, key);
  return code;
}

/* What this thread has said since call_began() is why its call failed. */
void call_began();
bool call_said();
void call_ended(int result);
std::string why(); /* the last call of this thread that failed did so; empty: nobody has said */

/* Says on stderr alone what is no mistake of the program, such as a limit of the simulator that it has met. */
void note(const std::string &text);

std::vector<std::string> reports();
std::vector<std::string> explanations();
void forget_reports();

std::string hex(unsigned long long value);

} // namespace sim

#endif
