/* SPDX-License-Identifier: Apache-2.0 */
/* Runs units of work in an order that their dependencies allow. */
#include "sim/control/report.h"
#include "sim/driver/base/process_page.h"
#include "sim/driver/base/state.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <thread>
#include <utility>

namespace sim {
namespace {

/*
 * The number of units that can run at once. It is large, as on a GPU, because kernels may wait for one another.
 * Units that run functions of the application are not counted.
 */
constexpr size_t max_running = 128;

/*
 * In shuffle mode, units start only this long after the last submission, so that there are several to pick from. While
 * a call waits for work, they start without this delay.
 */
constexpr uint64_t shuffle_hold_ns = 2'000'000;

/* In shuffle mode one unit runs at a time. If it takes longer than this, another may start: the first may need it. */
constexpr uint64_t shuffle_patience_ns = 500'000'000;

constexpr int watch_interval_us = 100;
constexpr std::chrono::milliseconds signal_interval(100);

thread_local const Unit *running_here = nullptr;

void make_room(std::vector<UnitPtr> &units, size_t count) {
  if (units.capacity() < count)
    units.reserve(2 * count);
}

} // namespace

uint64_t thread_id() {
  static thread_local uint64_t id = static_cast<uint64_t>(syscall(SYS_gettid));
  return id;
}

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

const Unit *Executor::running() { return running_here; }

bool Unit::is_skipped() const {
  return !work || context->destroyed || (context->error != CUDA_SUCCESS && !runs_after_error);
}

void Executor::submit(const UnitPtr &unit, const std::vector<UnitPtr> &dependencies) {
  /* All memory is reserved first, so that nothing has changed if no memory is left. */
  make_room(ready, pending + 1);
  for (const UnitPtr &dependency : dependencies)
    if (dependency != nullptr && !dependency->done)
      make_room(dependency->next, dependency->next.size() + 1);
  pending++;
  unit->order = ++submissions;
  if (unit->traced != nullptr) {
    unit->traced->takes_time = unit->work != nullptr;
    for (const UnitPtr &dependency : dependencies)
      if (dependency != nullptr && dependency->traced != nullptr)
        trace_after(*unit->traced, dependency->traced);
  }
  if (unit->ordered != nullptr) {
    order_after(*unit->ordered, ending.get());
    for (const UnitPtr &dependency : dependencies)
      order_after(*unit->ordered, dependency.get());
  }
  for (const UnitPtr &dependency : dependencies) {
    if (dependency == nullptr || dependency->done)
      continue;
    /* A second edge to the same unit is not needed: a unit that is the last one of two streams is listed twice. */
    if (!dependency->next.empty() && dependency->next.back() == unit)
      continue;
    dependency->next.push_back(unit);
    unit->waiting++;
  }
  if (config().shuffle)
    last_submission = monotonic_ns();
  if (unit->waiting == 0) {
    std::vector<UnitPtr> completed;
    make_ready(unit, completed);
    complete(std::move(completed));
  }
  publish();
}

void Executor::publish() const {
  if (own_page != nullptr)
    own_page->units.store(pending + watched.size());
}

void Executor::make_ready(UnitPtr unit, std::vector<UnitPtr> &completed) {
  if (unit->ordered != nullptr)
    order_ready(unit->ordered);
  if (unit->is_skipped()) {
    completed.push_back(std::move(unit));
    return;
  }
  ready.push_back(std::move(unit));
  start_workers(completed);
  work_there.notify_one();
}

/* Starts a thread for each unit that can run; in shuffle mode, one idle thread is enough. */
void Executor::start_workers(std::vector<UnitPtr> &completed) {
  size_t wanted = config().shuffle ? std::min<size_t>(ready.size(), 1) : ready.size();
  while (idle < wanted && workers - in_application < max_running && start_thread(&Executor::serve)) {
    workers++;
    idle++;
  }
  if (workers > 0 || ready.empty())
    return;
  report("no thread can be started: the work that is queued cannot run");
  for (UnitPtr &unit : ready) {
    unit->context->fail(CUDA_ERROR_OPERATING_SYSTEM);
    completed.push_back(std::move(unit));
  }
  ready.clear();
}

/* A loop and not a recursion, because a chain of units without work can have any length. */
void Executor::complete(std::vector<UnitPtr> completed) {
  bool any = !completed.empty();
  while (!completed.empty()) {
    UnitPtr unit = std::move(completed.back());
    completed.pop_back();
    unit->done = true;
    unit->finished = monotonic_ns();
    unit->work = nullptr;
    if (unit->traced != nullptr)
      trace_end(*unit->traced);
    pending--;
    if (unit->finish) {
      std::function<void()> finish = std::move(unit->finish);
      unit->finish = nullptr;
      UnitPtr outer = std::exchange(ending, unit);
      try {
        finish();
      } catch (const std::exception &error) {
        unit->context->fail(code_of(error));
      }
      ending = std::move(outer);
    }
    if (unit->ordered != nullptr) {
      unit->ordered->may_wait_for_anything |= unit->of_application;
      order_done(unit->ordered);
    }
    std::vector<UnitPtr> next = std::move(unit->next);
    for (UnitPtr &follower : next)
      if (--follower->waiting == 0)
        make_ready(std::move(follower), completed);
  }
  if (ending == nullptr)
    publish(); /* not while a unit ends, because the finish() of the unit can submit more units */
  if (any && waiters > 0)
    progress.notify_all();
}

bool Executor::may_start() const {
  if (!config().shuffle)
    return true;
  uint64_t now = monotonic_ns();
  bool running = idle < workers && now - last_start < shuffle_patience_ns;
  return !running && (waiters > 0 || now - last_submission > shuffle_hold_ns);
}

UnitPtr Executor::pick() {
  size_t index = 0;
  if (config().shuffle) {
    if (!seeded) {
      random.seed(*config().shuffle);
      seeded = true;
    }
    index = random() % ready.size();
  } else {
    for (size_t i = 1; i < ready.size(); i++)
      if (ready[i]->priority < ready[index]->priority ||
          (ready[i]->priority == ready[index]->priority && ready[i]->order < ready[index]->order))
        index = i;
  }
  UnitPtr unit = std::move(ready[index]);
  ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(index));
  if (config().shuffle)
    last_start = monotonic_ns();
  return unit;
}

bool Executor::start_thread(void (Executor::*body)()) {
  bool started = true;
  /* The new thread blocks all signals, so that the application's threads handle them. */
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    std::thread([this, body] { (this->*body)(); }).detach();
  } catch (const std::exception &) {
    started = false; /* no new thread: the existing threads must run all work */
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return started;
}

void Executor::serve() {
  pthread_setname_np(pthread_self(), "cudacore-sim");
  std::unique_lock<std::mutex> lock(state().mutex);
  for (;;) {
    while (ready.empty() || !may_start()) {
      if (ready.empty())
        work_there.wait(lock);
      else
        work_there.wait_for(lock, std::chrono::milliseconds(1));
    }
    run(lock, pick());
  }
}

void Executor::run(std::unique_lock<std::mutex> &lock, const UnitPtr &unit) {
  std::vector<UnitPtr> completed{unit};
  idle--;
  in_application += unit->of_application;
  start_workers(completed);
  try {
    if (!unit->is_skipped() && !(unit->of_application && application_ends)) {
      if (unit->traced != nullptr)
        trace_begin(*unit->traced);
      if (unit->ordered != nullptr && unit->of_application) {
        Ordered begun = *unit->ordered; /* the host knows that all units before the function are done */
        begun.position--;
        mark_known_done(&begun);
      }
      running_here = unit.get();
      lock.unlock();
      unit->work();
      lock.lock();
    }
  } catch (const std::exception &error) {
    lock.lock();
    unit->context->fail(code_of(error));
  } catch (...) {
    /*
     * Python before 3.14 ends a thread that enters the interpreter during finalisation. Soon afterwards, the
     * interpreter cannot be entered at all, so no more functions of the application are called.
     */
    lock.lock();
    application_ends = true;
    in_application -= unit->of_application;
    workers--;
    start_workers(completed);
    complete(std::move(completed));
    throw;
  }
  running_here = nullptr;
  in_application -= unit->of_application;
  idle++;
  complete(std::move(completed));
}

void Executor::complete_when(UnitPtr unit, std::function<bool()> condition) {
  if (!watching && !(watching = start_thread(&Executor::watch))) {
    unit->context->fail(CUDA_ERROR_OPERATING_SYSTEM);
    submit(unit, {});
    return;
  }
  if (unit->ordered != nullptr) {
    unit->ordered->may_wait_for_anything = true;
    order_after(*unit->ordered, ending.get());
  }
  watched.emplace_back(std::move(unit), std::move(condition));
  publish();
  watch_there.notify_one();
}

/* There is no notification when memory changes, so conditions are evaluated periodically. */
void Executor::watch() {
  pthread_setname_np(pthread_self(), "cudacore-sim");
  std::unique_lock<std::mutex> lock(state().mutex);
  for (;;) {
    watch_there.wait(lock, [this] { return !watched.empty(); });
    for (size_t i = 0; i < watched.size();) {
      UnitPtr unit = watched[i].first;
      if (unit->context->error == CUDA_SUCCESS && !watched[i].second()) {
        i++;
        continue;
      }
      watched.erase(watched.begin() + static_cast<std::ptrdiff_t>(i));
      submit(unit, {});
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(watch_interval_us));
    lock.lock();
  }
}

void Executor::watch_signals(int file, std::function<void(int signal)> arrived) {
  signals = file;
  signal_arrived = std::move(arrived);
}

void Executor::read_signals(bool are_old) {
  for (unsigned char number; read(signals, &number, 1) == 1;)
    if (!are_old && (number == SIGINT || number == SIGALRM || number == SIGTERM))
      signal_arrived(number);
}

/* Only the main thread looks for signals, because Python handles them on this thread, when the call has returned. */
template <class Condition> void Executor::wait_until(std::unique_lock<std::mutex> &lock, Condition condition) {
  const bool reads_signals = signals >= 0 && thread_id() == static_cast<uint64_t>(getpid());
  waiters++;
  work_there.notify_all();
  if (reads_signals)
    read_signals(true); /* Python has handled them, or the test has ended with them */
  while (!condition()) {
    if (!reads_signals)
      progress.wait(lock);
    else if (progress.wait_for(lock, signal_interval) == std::cv_status::timeout)
      read_signals(false);
  }
  waiters--;
}

void Executor::wait(std::unique_lock<std::mutex> &lock, const UnitPtr &unit) {
  if (unit == nullptr)
    return;
  if (!unit->done)
    wait_until(lock, [&] { return unit->done; });
  mark_known_done(unit->ordered.get());
}

void Executor::wait_all(std::unique_lock<std::mutex> &lock) {
  wait_until(lock, [&] { return pending == 0; });
}

void Executor::settle(std::unique_lock<std::mutex> &lock) {
  wait_until(lock, [&] { return ready.empty() && idle == workers; });
}

void Executor::poll() {
  if (config().shuffle)
    last_submission = 0;
}

} // namespace sim
