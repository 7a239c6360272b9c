/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of misuse, faults and leaks. */
#include "sim/control/report.h"

#include "sim/control/config.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace sim {
namespace {

constexpr size_t max_reports = 1000; /* further reports only go to stderr */

struct Reports {
  std::mutex mutex;
  std::vector<std::string> texts;
  std::vector<std::string> explanations;
  std::set<std::string> known; /* the key of each explanation or, if it has no key, its text */
  std::string fault;           /* the last fault, which makes calls return fault_result */
  int fault_result = 0;
};

/* What the calls of a thread have reported. */
struct Said {
  bool in_call = false;
  std::string now, last;
};

/* A pointer, because threads can report while they end. Such a thread gets a new object, which is never freed. */
thread_local Said *said_here = nullptr;
struct EndOfThread {
  ~EndOfThread() { delete std::exchange(said_here, nullptr); }
};
Said &said() {
  if (said_here == nullptr) {
    said_here = new Said;
    static thread_local EndOfThread end;
    static_cast<void>(end);
  }
  return *said_here;
}

void remember(const std::string &text) {
  Said &mine = said();
  if (!mine.in_call || mine.now.find(text) != std::string::npos)
    return;
  mine.now += (mine.now.empty() ? "" : "\n") + text;
}

Reports &store() {
  static Reports *const instance = new Reports;
  return *instance;
}

void add(const std::string &text) {
  note(text);
  if (store().texts.size() < max_reports)
    store().texts.push_back(text);
}

} // namespace

void report(const std::string &text) {
  remember(text);
  std::lock_guard<std::mutex> guard(store().mutex);
  add(text);
}

void report_once(const std::string &text) {
  remember(text);
  std::lock_guard<std::mutex> guard(store().mutex);
  const std::vector<std::string> &texts = store().texts;
  if (std::find(texts.begin(), texts.end(), text) == texts.end())
    add(text);
}

void report_fault(const std::string &text, int result) {
  report(text);
  std::lock_guard<std::mutex> guard(store().mutex);
  store().fault = text;
  store().fault_result = result;
}

void explain(const std::string &text, const std::string &key) {
  remember(text);
  std::lock_guard<std::mutex> guard(store().mutex);
  std::set<std::string> &known = store().known;
  if (known.size() >= max_reports || !known.insert(key.empty() ? text : key).second)
    return;
  store().explanations.push_back(text);
  note(text);
}

void call_began() { said().in_call = true; }

bool call_said() { return !said().now.empty(); }

void call_ended(int result) {
  Said &mine = said();
  mine.in_call = false;
  if (result != 0) {
    mine.last.clear();
    if (mine.now.empty()) {
      std::lock_guard<std::mutex> guard(store().mutex);
      if (result == store().fault_result)
        mine.last = store().fault;
    }
    mine.last += mine.now;
  }
  mine.now.clear();
}

std::string why() { return said().last; }

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
  said().last.clear();
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
