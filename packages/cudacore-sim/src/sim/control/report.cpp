/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of misuse, faults and leaks. */
#include "report.h"

#include "config.h"

#include <cstdio>
#include <mutex>

namespace sim {
namespace {

constexpr size_t most_reports = 1000; /* later ones still go to stderr */

struct Reports {
  std::mutex mutex;
  std::vector<std::string> texts;
};

Reports &store() {
  static Reports *const instance = new Reports;
  return *instance;
}

} // namespace

void report(const std::string &text) {
  std::lock_guard<std::mutex> guard(store().mutex);
  if (config().reports)
    std::fprintf(stderr, "cudacore-sim: %s\n", text.c_str());
  if (store().texts.size() < most_reports)
    store().texts.push_back(text);
}

std::vector<std::string> reports() {
  std::lock_guard<std::mutex> guard(store().mutex);
  return store().texts;
}

void forget_reports() {
  std::lock_guard<std::mutex> guard(store().mutex);
  store().texts.clear();
}

std::string hex(unsigned long long value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", value);
  return text;
}

} // namespace sim
