/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: threads of the host run the units of a grid until all units have ended. */
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <thread>

#include <pthread.h>

#include "sim/exec/checker.h"

namespace sim {

namespace exec {
namespace {

constexpr uint64_t inline_warps = 8; /* launches with at most this many warps run only on the calling thread */

/* Keeps an ended unit for reuse, so that registers and shared memory need not be allocated again. */
class UnitStore {
public:
  std::unique_ptr<Unit> take() {
    if (!kept_)
      return std::make_unique<Unit>();
    return std::move(kept_);
  }
  void give(std::unique_ptr<Unit> unit) {
    if (!kept_)
      kept_ = std::move(unit);
  }
  void launch_ended() {
    if (kept_)
      kept_->grid = nullptr; /* the next launch may have a grid at the same address */
  }

private:
  std::unique_ptr<Unit> kept_;
};

/*
 * Runs units of a launch, until all units of the grid have begun, and all units that this thread has begun have ended.
 */
void work(Grid &grid, uint64_t resident_limit) {
  static thread_local UnitStore store;
  std::fenv_t environment;
  std::fegetenv(&environment);
  std::fesetenv(FE_DFL_ENV); /* the GPU does not use the caller's modes for rounding and subnormal numbers */
  std::deque<std::unique_ptr<Unit>> parked;
  uint64_t next_wake = UINT64_MAX; /* the earliest time at which a sleeping unit can continue */
  Touches *touches = grid.checker ? grid.checker->new_touches() : nullptr;
  size_t asleep = 0; /* how many units in a row were sleeping; 0 as soon as a unit makes progress */
  try {
    while (!grid.is_over()) {
      std::unique_ptr<Unit> unit;
      if (parked.size() < resident_limit && grid.next_unit.load(std::memory_order_relaxed) < grid.units) {
        uint64_t number = grid.next_unit.fetch_add(1);
        if (number >= grid.units)
          continue;
        unit = store.take();
        unit->touches = touches;
        unit->start(grid, number);
      } else if (!parked.empty()) {
        if (asleep >= parked.size()) {
          uint64_t now = monotonic_time();
          if (now < next_wake)
            std::this_thread::sleep_for(std::chrono::nanoseconds(next_wake - now));
          asleep = 0;
          next_wake = UINT64_MAX;
        }
        unit = std::move(parked.front());
        parked.pop_front();
      } else {
        break;
      }
      bool is_parked = unit->run() == Unit::Result::parked;
      asleep = is_parked && unit->wake_at ? asleep + 1 : 0;
      next_wake = asleep ? std::min(next_wake, unit->wake_at) : UINT64_MAX;
      if (is_parked)
        parked.push_back(std::move(unit));
      else
        store.give(std::move(unit));
    }
  } catch (const DeviceFault &thrown) {
    grid.report(thrown.fault);
  } catch (const std::exception &error) {
    Fault fault;
    fault.kind = FaultKind::illegal_address;
    fault.kernel = grid.function.name;
    fault.detail = std::string("the simulator has no memory left: ") + error.what();
    grid.report(fault);
  }
  store.launch_ended();
  std::fesetenv(&environment);
}

/*
 * The worker threads, which wait for launches. The object is never destroyed, because threads may outlive static
 * objects.
 */
class Pool {
public:
  static Pool &get() {
    static std::once_flag once;
    std::call_once(once, [] {
      current().store(new Pool);
      /* A forked child process has no worker threads, so it needs a new pool. */
      pthread_atfork(nullptr, nullptr, [] { current().store(new Pool); });
    });
    return *current().load();
  }

  void run(Grid &grid) {
    Job job{grid, 0, 0, 0};
    std::list<Job *>::iterator place;
    {
      std::lock_guard<std::mutex> hold(lock_);
      begin_threads();
      job.wanted = std::min<uint64_t>(threads_, grid.units - 1);
      job.resident_limit = grid.resident_limit / (job.wanted + 1) + 1;
      place = jobs_.insert(jobs_.end(), &job);
    }
    wake_.notify_all();
    work(grid, job.resident_limit);
    std::unique_lock<std::mutex> hold(lock_);
    jobs_.erase(place);
    done_.wait(hold, [&] { return job.active == 0; });
  }

  static uint64_t size() {
    static const uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
    return cores - 1;
  }

private:
  struct Job {
    Grid &grid;
    uint64_t wanted, active;
    uint64_t resident_limit;
  };

  static std::atomic<Pool *> &current() {
    static std::atomic<Pool *> pool{nullptr};
    return pool;
  }

  /*
   * Starts the worker threads. If no more threads can be created, the existing ones have to suffice. The calling thread
   * always runs units as well.
   */
  void begin_threads() {
    try {
      for (; threads_ < size(); ++threads_)
        std::thread([this] { help(); }).detach();
    } catch (const std::exception &) {
      return;
    }
  }

  [[noreturn]] void help() {
    std::unique_lock<std::mutex> hold(lock_);
    for (;;) {
      Job *job = nullptr;
      for (Job *one : jobs_)
        if (one->wanted)
          job = one;
      if (!job) {
        wake_.wait(hold);
        continue;
      }
      --job->wanted;
      ++job->active;
      hold.unlock();
      work(job->grid, job->resident_limit);
      hold.lock();
      --job->active;
      done_.notify_all();
    }
  }

  std::mutex lock_;
  std::condition_variable wake_, done_;
  std::list<Job *> jobs_;
  uint64_t threads_ = 0;
};

/*
 * Checks the conditions without which the engine would not be safe; the driver has checked all other conditions.
 * Returns an empty string if all of them hold.
 */
std::string problem_of(const Launch &launch) {
  if (!launch.instance || !launch.instance->module)
    return "no module";
  const Module &module = *launch.instance->module;
  if (launch.kernel >= module.info.kernels.size())
    return "no such kernel";
  if (launch.parameters.size() < module.info.kernels[launch.kernel].parameter_bytes)
    return "too few parameters";
  if (launch.instance->variable_addresses.size() < module.info.variables.size())
    return "variables are not placed";
  uint64_t threads = 1, blocks = 1;
  for (size_t i = 0; i < 3; ++i) {
    if (launch.block[i] == 0 || launch.block[i] > 1024)
      return "the block's shape";
    if (launch.grid[i] == 0)
      return "the grid's shape";
    if (launch.cluster[i] == 0 || launch.cluster[i] > 16 || launch.grid[i] % launch.cluster[i])
      return "the cluster's shape";
    threads *= launch.block[i];
    blocks *= launch.cluster[i];
  }
  if (threads > 1024)
    return "more than 1024 threads in a block";
  if (blocks > 16)
    return "more than 16 blocks in a cluster";
  if (launch.dynamic_shared_bytes > (1u << 22))
    return "too much shared memory";
  return {};
}

} // namespace
} // namespace exec

Fault run(const Launch &launch) {
  std::string problem = exec::problem_of(launch);
  if (!problem.empty()) {
    Fault fault;
    fault.kind = FaultKind::illegal_instruction;
    fault.detail = "a launch that cannot run: " + problem;
    return fault;
  }
  exec::Grid grid(launch);
  if (launch.checks.race || exec::Pool::size() == 0 || grid.units == 1 ||
      grid.units * grid.warps * grid.cluster_size <= exec::inline_warps)
    exec::work(grid, grid.resident_limit);
  else
    exec::Pool::get().run(grid);
  if (grid.checker)
    grid.checker->finish();
  return grid.result();
}

} // namespace sim
