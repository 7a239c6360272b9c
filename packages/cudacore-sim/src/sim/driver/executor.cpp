/* SPDX-License-Identifier: Apache-2.0 */
/* Runs units of work in an order that their dependencies allow. */
#include "executor.h"
#include "state.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <pthread.h>
#include <signal.h>
#include <system_error>
#include <thread>

namespace sim {
namespace {

/* Units that run at once; host functions may wait for one another, and kernels too. */
constexpr size_t most_workers = 32;

/* With shuffling, how long work is held back while nobody waits for any, so that there is something to choose from. */
constexpr uint64_t shuffle_hold_ns = 2'000'000;

constexpr int watch_interval_us = 100;

} // namespace

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void Executor::submit(const UnitPtr &unit, const std::vector<UnitPtr> &dependencies) {
  pending++;
  unit->order = ++submissions;
  for (const UnitPtr &dependency : dependencies) {
    if (dependency == nullptr || dependency->done)
      continue;
    /* One edge a pair is enough; a stream names its tail twice where it is the legacy stream's, too. */
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
}

void Executor::make_ready(UnitPtr unit, std::vector<UnitPtr> &completed) {
  if (!unit->work || unit->context->error != CUDA_SUCCESS) {
    completed.push_back(std::move(unit));
    return;
  }
  ready.push_back(std::move(unit));
  bool more = idle < ready.size() && workers < (config().shuffle ? 1 : most_workers);
  if (more && start_thread(&Executor::serve)) {
    workers++;
    idle++;
  }
  work_there.notify_one();
}

/* Iterates instead of recursing: a chain of units without work can be of any length. */
void Executor::complete(std::vector<UnitPtr> completed) {
  bool any = !completed.empty();
  while (!completed.empty()) {
    UnitPtr unit = std::move(completed.back());
    completed.pop_back();
    unit->done = true;
    unit->finished = monotonic_ns();
    unit->work = nullptr;
    pending--;
    if (unit->finish) {
      std::function<void()> finish = std::move(unit->finish);
      unit->finish = nullptr;
      finish();
    }
    std::vector<UnitPtr> next = std::move(unit->next);
    for (UnitPtr &follower : next)
      if (--follower->waiting == 0)
        make_ready(std::move(follower), completed);
  }
  if (any && waiters > 0)
    progress.notify_all();
}

bool Executor::may_start(uint64_t now) const {
  return !config().shuffle || waiters > 0 || now - last_submission > shuffle_hold_ns;
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
  return unit;
}

bool Executor::start_thread(void (Executor::*body)()) {
  bool started = true;
  /* Signals belong to the application's threads. */
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    std::thread([this, body] { (this->*body)(); }).detach();
  } catch (const std::system_error &) {
    started = false; /* those that run have to do */
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return started;
}

void Executor::serve() {
  pthread_setname_np(pthread_self(), "cudacore-sim");
  std::unique_lock<std::mutex> lock(state().mutex);
  for (;;) {
    while (ready.empty() || !may_start(config().shuffle ? monotonic_ns() : 0)) {
      if (ready.empty())
        work_there.wait(lock);
      else
        work_there.wait_for(lock, std::chrono::milliseconds(1));
    }
    idle--;
    UnitPtr unit = pick();
    if (unit->context->error == CUDA_SUCCESS) {
      lock.unlock();
      unit->work();
      lock.lock();
    }
    std::vector<UnitPtr> completed;
    completed.push_back(std::move(unit));
    complete(std::move(completed));
    idle++;
  }
}

void Executor::complete_when(UnitPtr unit, std::function<bool()> condition) {
  if (!watching && !(watching = start_thread(&Executor::watch))) {
    unit->context->fail(CUDA_ERROR_OPERATING_SYSTEM);
    submit(unit, {});
    return;
  }
  watched.emplace_back(std::move(unit), std::move(condition));
  watch_there.notify_one();
}

/* Nobody tells when memory changes: it is looked at again and again, while somebody waits for it. */
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

void Executor::wait(std::unique_lock<std::mutex> &lock, const UnitPtr &unit) {
  if (unit == nullptr || unit->done)
    return;
  waiters++;
  work_there.notify_all();
  progress.wait(lock, [&] { return unit->done; });
  waiters--;
}

void Executor::wait_all(std::unique_lock<std::mutex> &lock) {
  waiters++;
  work_there.notify_all();
  progress.wait(lock, [&] { return pending == 0; });
  waiters--;
}

void Executor::settle(std::unique_lock<std::mutex> &lock) {
  waiters++;
  work_there.notify_all();
  progress.wait(lock, [&] { return ready.empty() && idle == workers; });
  waiters--;
}

void Executor::poll() {
  if (config().shuffle)
    last_submission = 0;
}

} // namespace sim
