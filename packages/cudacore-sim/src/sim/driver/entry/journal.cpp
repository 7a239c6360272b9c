/* SPDX-License-Identifier: Apache-2.0 */
/* The log of calls, injected failures and held calls, and their part of the control interface. */
#include "sim/driver/entry/journal.h"

#include "sim/control/config.h"
#include "cudacore_sim.h"
#include "sim/driver/base/executor.h"
#include "sim/control/report.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <vector>

namespace sim {
namespace {

constexpr size_t log_capacity = 16384;

struct Failure {
  std::vector<bool> entries; /* the functions that fail */
  uint64_t left;             /* calls until the failure; 0: all calls fail */
  CUresult result;
};

/* The number of calls of an entry point, and whether its calls are held. */
struct EntryState {
  uint64_t calls = 0;
  bool held = false;    /* whether calls must wait */
  uint64_t waiting = 0; /* the number of calls that wait now */
};

struct Journal {
  std::mutex mutex;
  bool enabled = true;
  std::vector<cudasim_call> ring = std::vector<cudasim_call>(log_capacity);
  uint64_t position = 0;
  std::vector<EntryState> entries = std::vector<EntryState>(entry_count);
  std::vector<Failure> failures;
  uint64_t injected = 0;
  std::condition_variable let_go;
  std::set<std::string> hidden;
  FILE *file = nullptr;
  bool opened = false;
};

std::atomic<bool> armed{false}; /* whether a call may have to wait or to fail */

Journal &journal() {
  static Journal *const instance = new Journal;
  return *instance;
}

void open_file(Journal &j) {
  j.opened = true;
  if (config().log.empty())
    return;
  j.file = config().log == "-" ? stderr : std::fopen(config().log.c_str(), "ae");
  if (j.file == nullptr)
    std::fprintf(stderr, "cudacore-sim: CUDACORE_SIM_LOG: %s: %s\n", config().log.c_str(), std::strerror(errno));
}

bool is_named(Entry entry, const char *name) {
  return std::strcmp(symbol_of(entry), name) == 0 || std::strcmp(base_name_of(entry), name) == 0;
}

std::vector<bool> entries_named(const char *name, bool &any) {
  std::vector<bool> found(entry_count, name == nullptr);
  any = name == nullptr;
  for (size_t i = 0; name != nullptr && i < entry_count; i++)
    if (is_named(static_cast<Entry>(i), name))
      any = found[i] = true;
  return found;
}

/* Sets `armed`. The journal's lock must be held. */
void arm(const Journal &j) {
  bool any_held = std::any_of(j.entries.begin(), j.entries.end(), [](const EntryState &one) { return one.held; });
  armed.store(any_held || !j.failures.empty(), std::memory_order_release);
}

void wait_while_held(Journal &j, Entry number, std::unique_lock<std::mutex> &guard) {
  EntryState &entry = j.entries[static_cast<size_t>(number)];
  if (!entry.held)
    return;
  entry.waiting++;
  j.let_go.wait(guard, [&] { return !entry.held; });
  entry.waiting--;
}

int set_held(const char *name, bool held) {
  bool any = false;
  std::vector<bool> entries = entries_named(name, any);
  if (!any)
    return -1;
  Journal &j = journal();
  std::lock_guard<std::mutex> guard(j.mutex);
  for (size_t i = 0; i < entry_count; i++)
    if (entries[i])
      j.entries[i].held = held;
  arm(j);
  j.let_go.notify_all();
  return 0;
}

/* The sum of a count of all entry points with a name; UINT64_MAX if there are none. */
uint64_t sum_of(uint64_t EntryState::*count, const char *name) {
  bool any = false;
  std::vector<bool> wanted = entries_named(name, any);
  if (!any)
    return UINT64_MAX;
  std::lock_guard<std::mutex> guard(journal().mutex);
  uint64_t sum = 0;
  for (size_t i = 0; i < entry_count; i++)
    if (wanted[i])
      sum += journal().entries[i].*count;
  return sum;
}

} // namespace

CUresult interfere(Entry entry) {
  if (!armed.load(std::memory_order_acquire))
    return CUDA_SUCCESS;
  Journal &j = journal();
  std::unique_lock<std::mutex> guard(j.mutex);
  wait_while_held(j, entry, guard);
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < j.failures.size();) {
    Failure &failure = j.failures[i];
    bool spent = false;
    if (failure.entries[static_cast<size_t>(entry)]) {
      if (failure.left == 0) {
        result = failure.result;
      } else if (--failure.left == 0) {
        result = failure.result;
        spent = true;
      }
    }
    if (spent)
      j.failures.erase(j.failures.begin() + static_cast<std::ptrdiff_t>(i));
    else
      i++;
  }
  j.injected += result != CUDA_SUCCESS;
  arm(j);
  return result;
}

bool is_hidden(const char *name) {
  Journal &j = journal();
  std::lock_guard<std::mutex> guard(j.mutex);
  return j.hidden.count(name) != 0;
}

void note_call(Entry entry, void *context, void *stream, CUresult result, bool injected) {
  Journal &j = journal();
  std::lock_guard<std::mutex> guard(j.mutex);
  j.entries[static_cast<size_t>(entry)].calls++;
  if (!j.opened)
    open_file(j);
  if (j.file != nullptr) {
    std::fprintf(j.file, "%llu %s -> %d%s\n", static_cast<unsigned long long>(thread_id()), symbol_of(entry), result,
                 injected ? " (injected)" : "");
    std::fflush(j.file);
  }
  if (!j.enabled)
    return;
  j.position++;
  j.ring[j.position % log_capacity] = {j.position, symbol_of(entry), thread_id(), context,
                                       result,     injected,         stream,      base_name_of(entry)};
}

void journal_before_fork() { journal().mutex.lock(); }
void journal_after_fork() { journal().mutex.unlock(); }

/* Forgets calls that wait, because their threads do not exist in the child. */
void journal_after_fork_in_child() {
  Journal &j = journal();
  for (EntryState &entry : j.entries)
    entry.waiting = 0;
  new (&j.let_go) std::condition_variable;
}

} // namespace sim

using namespace sim;

extern "C" {

uint64_t cudasim_log_position(void) {
  std::lock_guard<std::mutex> guard(journal().mutex);
  return journal().position;
}

size_t cudasim_log(uint64_t after, cudasim_call *out, size_t max) {
  Journal &j = journal();
  std::lock_guard<std::mutex> guard(j.mutex);
  uint64_t first = j.position > log_capacity ? j.position - log_capacity : 0;
  size_t count = 0;
  for (uint64_t n = (after > first ? after : first) + 1; n <= j.position && count < max && out != nullptr; n++)
    out[count++] = j.ring[n % log_capacity];
  return count;
}

void cudasim_log_enable(int on) {
  std::lock_guard<std::mutex> guard(journal().mutex);
  journal().enabled = on != 0;
}

uint64_t cudasim_calls(const char *name) { return sum_of(&EntryState::calls, name); }

int cudasim_hold(const char *name) { return set_held(name, true); }

uint64_t cudasim_held(const char *name) { return sum_of(&EntryState::waiting, name); }

int cudasim_let_go(const char *name) { return set_held(name, false); }

int cudasim_fail(const char *name, uint64_t nth, int result) {
  bool any = false;
  std::vector<bool> entries = entries_named(name, any);
  if (!any)
    return -1;
  std::lock_guard<std::mutex> guard(journal().mutex);
  journal().failures.push_back({std::move(entries), nth, static_cast<CUresult>(result)});
  armed.store(true, std::memory_order_release);
  return 0;
}

uint64_t cudasim_injected(void) {
  std::lock_guard<std::mutex> guard(journal().mutex);
  return journal().injected;
}

int cudasim_hide(const char *name) {
  bool any = false;
  if (name != nullptr)
    for (size_t i = 0; i < entry_count && !any; i++)
      any = std::strcmp(base_name_of(static_cast<Entry>(i)), name) == 0;
  if (!any)
    return -1;
  std::lock_guard<std::mutex> guard(journal().mutex);
  journal().hidden.insert(name);
  return 0;
}

uint64_t cudasim_reports(void) { return count_reports(); }

size_t cudasim_report(uint64_t number, char *out, size_t size) { return copy_text(report_text(number), out, size); }

uint64_t cudasim_explanations(void) { return count_explanations(); }

size_t cudasim_explanation(uint64_t number, char *out, size_t size) {
  return copy_text(explanation_text(number), out, size);
}

size_t cudasim_why(char *out, size_t size) { return copy_text(why(), out, size); }

void cudasim_reset(void) {
  forget_reports();
  Journal &j = journal();
  std::lock_guard<std::mutex> guard(j.mutex);
  j.position = 0;
  for (cudasim_call &call : j.ring)
    call = {};
  for (EntryState &entry : j.entries) {
    entry.calls = 0;
    entry.held = false;
  }
  j.failures.clear();
  j.injected = 0;
  j.hidden.clear();
  armed.store(false, std::memory_order_release);
  j.let_go.notify_all();
}
}
