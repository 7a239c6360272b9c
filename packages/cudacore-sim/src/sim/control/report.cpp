/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of misuse, faults and leaks. */
#include "sim/control/report.h"

#include "sim/control/config.h"

#include <cstdio>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

namespace sim {
namespace {

constexpr size_t max_kept = 1000;

/* Texts with numbers from 1. All texts are counted, and the newest are kept. */
class Texts {
public:
  void add(const std::string &text) {
    count_++;
    kept_.push_back(text);
    if (kept_.size() > max_kept)
      kept_.pop_front();
  }
  uint64_t count() const { return count_; }
  std::string text(uint64_t number) const {
    uint64_t forgotten = count_ - kept_.size();
    return number > forgotten && number <= count_ ? kept_[number - forgotten - 1] : std::string();
  }
  void forget() { kept_.clear(); }

private:
  uint64_t count_ = 0;
  std::deque<std::string> kept_;
};

struct Reports {
  std::mutex mutex;
  Texts reports, explanations;
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
  store().reports.add(text);
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
  if (known.size() >= max_kept)
    known.clear(); /* some texts may then be given a second time */
  if (!known.insert(key.empty() ? text : key).second)
    return;
  store().explanations.add(text);
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

uint64_t count_reports() {
  std::lock_guard<std::mutex> guard(store().mutex);
  return store().reports.count();
}

std::string report_text(uint64_t number) {
  std::lock_guard<std::mutex> guard(store().mutex);
  return store().reports.text(number);
}

uint64_t count_explanations() {
  std::lock_guard<std::mutex> guard(store().mutex);
  return store().explanations.count();
}

std::string explanation_text(uint64_t number) {
  std::lock_guard<std::mutex> guard(store().mutex);
  return store().explanations.text(number);
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
  store().reports.forget();
  store().explanations.forget();
  store().known.clear();
}

std::string hex(unsigned long long value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", value);
  return text;
}

} // namespace sim
