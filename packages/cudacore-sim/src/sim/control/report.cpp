/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of misuse, faults and leaks. */
#include "report.h"

#include "config.h"

#include <algorithm>
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

void add(const std::string &text) {
  note(text);
  if (store().texts.size() < most_reports)
    store().texts.push_back(text);
}

} // namespace

void report(const std::string &text) {
  std::lock_guard<std::mutex> guard(store().mutex);
  add(text);
}

void report_once(const std::string &text) {
  std::lock_guard<std::mutex> guard(store().mutex);
  const std::vector<std::string> &texts = store().texts;
  if (std::find(texts.begin(), texts.end(), text) == texts.end())
    add(text);
}

void note(const std::string &text) {
  if (config().reports)
    std::fprintf(stderr, "cudacore-sim: %s\n", text.c_str());
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
