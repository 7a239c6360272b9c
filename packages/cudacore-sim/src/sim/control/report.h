/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CONTROL_REPORT_H
#define CUDACORE_SIM_CONTROL_REPORT_H

#include <cstddef>
#include <string>
#include <vector>

namespace sim {

/*
 * Reports an error on stderr and in the control interface: a fault of a kernel, a misuse of the driver, a leak. Any
 * thread may call this, with or without the state's lock.
 */
void report(const std::string &text);

/* Reports why a context fails. `result`: the CUresult that calls in the context return from now on. */
void report_fault(const std::string &text, int result);

/*
 * Explains a refused call that is not misuse: on stderr the first time, and in the control interface. Texts with the
 * same `key` count as one. refuse() also returns a code.
 */
void explain(const std::string &text, const std::string &key = {});
template <class Code> Code refuse(Code code, const std::string &text, const std::string &key = {}) {
  explain(text, key);
  return code;
}

/* Collects the reports and explanations of this thread since call_began(): the reasons why its call failed. */
void call_began();
bool call_has_reported();
void call_ended(int result);
std::string why(); /* the reason why the last failed call of this thread failed; empty: not known */

/* Clears the result of why(), and the last fault, which explains later failures. */
void forget_why();

/* Prints a note on stderr about something that is not an error of the program, such as a limit of the simulator. */
void note(const std::string &text);

std::vector<std::string> reports();
std::vector<std::string> explanations();
void forget_reports();

std::string hex(unsigned long long value);

} // namespace sim

#endif
