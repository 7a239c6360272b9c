/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CONTROL_REPORT_H
#define CUDACORE_SIM_CONTROL_REPORT_H

#include <cstdint>
#include <string>

namespace sim {

/*
 * Reports an error on stderr and in the control interface: a fault of a kernel, a misuse of the driver, a leak. Any
 * thread may call this, with or without the state's lock.
 */
void report(const std::string &text);

/* Reports the fault that makes a context fail. `result`: the CUresult that calls in the context return from now on. */
void report_fault(const std::string &text, int result);

/*
 * Explains a refused call that is not misuse. Of several texts with the same `key`, only the first is printed on stderr
 * and returned by explanations(); why() returns each of them. refuse() explains, and returns its argument `code`.
 */
void explain(const std::string &text, const std::string &key = {});
template <class Code> Code refuse(Code code, const std::string &text, const std::string &key = {}) {
  explain(text, key);
  return code;
}

/* Collect the reports and explanations of this thread from call_began() to call_ended(): why the call failed. */
void call_began();
bool call_has_reported();
void call_ended(int result);
std::string why(); /* the reason why this thread's last failed call failed; empty if unknown */

/* Clears the result of why(), and the text of the last fault, which why() gives as the reason of later failures. */
void forget_why();

/* Prints a note on stderr about something that is not an error of the program, such as a limit of the simulator. */
void note(const std::string &text);

/*
 * Reports and explanations are numbered from 1. The newest texts are kept, and forget_reports() drops them, but the
 * numbers go on. The text of a number is empty if it is not kept.
 */
uint64_t count_reports();
std::string report_text(uint64_t number);
uint64_t count_explanations();
std::string explanation_text(uint64_t number);
void forget_reports();

std::string hex(unsigned long long value);

} // namespace sim

#endif
