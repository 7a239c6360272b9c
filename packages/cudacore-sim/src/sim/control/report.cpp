/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of misuse, faults and leaks. */
#include "sim/control/report.h"

#include "sim/control/config.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace sim {
namespace {

constexpr size_t max_reports = 1000; /* reports after these are printed on stderr, but not kept */

struct Reports {
  std::mutex mutex;
  std::vector<std::string> texts;
  std::vector<std::string> explanations;
  std::set<std::string> known; /* the key of each explanation or, if it has no key, its text */
  std::string fault;           /* the last fault, which makes calls return fault_result */
  int fault_result = 0;
};

/* The reports and explanations of a thread: of its current call, and the reason of its last failure. */
struct ThreadReports {
  bool in_call = false;
  std::string current, reason;
};

/*
 * A pointer, because threads can report while they end, when their thread-local objects are already destroyed. Such a
 * thread gets a new object, which is never freed.
 */
thread_local ThreadReports *own_reports = nullptr;
struct EndOfThread {
  ~EndOfThread() { delete std::exchange(own_reports, nullptr); }
};
ThreadReports &thread_reports() {
  if (own_reports == nullptr) {
    own_reports = new ThreadReports;
    static thread_local EndOfThread end;
    static_cast<void>(end);
  }
  return *own_reports;
}

void add_to_call(const std::string &text) {
  ThreadReports &own = thread_reports();
  if (!own.in_call || own.current.find(text) != std::string::npos)
    return;
  own.current += (own.current.empty() ? "" : "\n") + text;
}

Reports &store() {
  static Reports *const instance = new Reports;
  return *instance;
}

} // namespace

void report(const std::string &text) {
  add_to_call(text);
  std::lock_guard<std::mutex> guard(store().mutex);
  note(text);
  if (store().texts.size() < max_reports)
    store().texts.push_back(text);
}

void report_fault(const std::string &text, int result) {
  report(text);
  std::lock_guard<std::mutex> guard(store().mutex);
  store().fault = text;
  store().fault_result = result;
}

void explain(const std::string &text, const std::string &key) {
  add_to_call(text);
  std::lock_guard<std::mutex> guard(store().mutex);
  std::set<std::string> &known = store().known;
  if (known.size() >= max_reports || !known.insert(key.empty() ? text : key).second)
    return;
  store().explanations.push_back(text);
  note(text);
}

void call_began() { thread_reports().in_call = true; }

bool call_has_reported() { return !thread_reports().current.empty(); }

void call_ended(int result) {
  ThreadReports &own = thread_reports();
  own.in_call = false;
  if (result != 0) {
    own.reason.clear();
    if (own.current.empty()) {
      std::lock_guard<std::mutex> guard(store().mutex);
      if (result == store().fault_result)
        own.reason = store().fault;
    }
    own.reason += own.current;
  }
  own.current.clear();
}

std::string why() { return thread_reports().reason; }

void note(const std::string &text) {
  if (config().reports)
    std::fprintf(stderr, "cudacore-sim: %s\n", text.c_str());
}

std::vector<std::string> reports() {
  std::lock_guard<std::mutex> guard(store().mutex);
  return store().texts;
}

std::vector<std::string> explanations() {
  std::lock_guard<std::mutex> guard(store().mutex);
  return store().explanations;
}

void forget_why() {
  thread_reports().reason.clear();
  std::lock_guard<std::mutex> guard(store().mutex);
  store().fault.clear();
  store().fault_result = 0;
}

void forget_reports() {
  forget_why();
  std::lock_guard<std::mutex> guard(store().mutex);
  store().texts.clear();
  store().explanations.clear();
  store().known.clear();
}

std::string hex(unsigned long long value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", value);
  return text;
}

} // namespace sim
