/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_EXECUTOR_H
#define CUDACORE_SIM_DRIVER_BASE_EXECUTOR_H

#include "sim/driver/base/trace.h"
#include "sim/driver/base/api.h"
#include "sim/driver/base/order.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace sim {

struct Context;

/*
 * A unit of work with its dependencies: a kernel, a copy, a host function, the recording of an event, ... The executor
 * has no notion of streams: streams only add dependencies, like the edges of a graph.
 */
struct Unit {
  const char *name = "";
  std::shared_ptr<Context> context;
  int priority = 0; /* lower is more urgent, as for streams */

  std::function<void()> work;   /* runs on a worker, without the lock, unless the context has failed; empty: none */
  std::function<void()> finish; /* runs with the lock, when the work is done or was skipped */

  bool of_application = false;   /* the work is a function of the application, which can wait for anything */
  bool runs_after_error = false; /* the work is not skipped in a context that has failed */

  bool done = false;
  uint64_t finished = 0; /* nanoseconds of the monotonic clock */
  TracedPtr traced;      /* null: no trace is made */
  OrderedPtr ordered;    /* null: the order of work is not checked */

private:
  friend class Executor;
  bool is_skipped() const;
  size_t waiting = 0;
  uint64_t order = 0;
  std::vector<std::shared_ptr<Unit>> next;
};

using UnitPtr = std::shared_ptr<Unit>;

/* All functions are called with the state's lock held. */
class Executor {
public:
  /* Runs the unit once its dependencies are done. Null dependencies are ignored. */
  void submit(const UnitPtr &unit, const std::vector<UnitPtr> &dependencies);

  /*
   * Completes a unit once a condition holds, such as a value in memory. Code outside of the executor can change the
   * condition. The condition is evaluated with the lock held, and counts as true once the context has failed.
   */
  void complete_when(UnitPtr unit, std::function<bool()> condition);

  /* Release the lock and wait until the unit is done; wait_all(): until all units are done. */
  void wait(std::unique_lock<std::mutex> &lock, const UnitPtr &unit);
  void wait_all(std::unique_lock<std::mutex> &lock);

  /* Releases the lock and waits until no unit runs or can run. Units that wait for values in memory may remain. */
  void settle(std::unique_lock<std::mutex> &lock);

  /*
   * While the main thread waits, reads the numbers of signals from a nonblocking file. `arrived` gets the numbers of
   * those that ask the program to end. `file`: -1 ends this.
   */
  void watch_signals(int file, std::function<void(int signal)> arrived);

  bool is_idle() const { return pending == 0; }

  /* The unit whose work this thread runs; null: none. */
  static const Unit *running();

  /* Notes that the application queries whether work is done: in shuffle mode, work that is held back may then start. */
  void poll();

private:
  void make_ready(UnitPtr unit, std::vector<UnitPtr> &completed);
  void complete(std::vector<UnitPtr> completed);
  void start_workers(std::vector<UnitPtr> &completed);
  bool start_thread(void (Executor::*body)());
  void serve();
  void run(std::unique_lock<std::mutex> &lock, const UnitPtr &unit);
  template <class Condition> void wait_until(std::unique_lock<std::mutex> &lock, Condition condition);
  void read_signals(bool are_old);
  void watch();
  bool may_start() const;
  UnitPtr pick();
  void publish() const; /* shows the number of unfinished units to processes that lock this process */

  std::vector<UnitPtr> ready;
  std::vector<std::pair<UnitPtr, std::function<bool()>>> watched;
  std::condition_variable work_there, watch_there, progress;
  size_t workers = 0, idle = 0, in_application = 0, pending = 0, waiters = 0;
  UnitPtr ending; /* the unit that is ending; units that are submitted meanwhile come after it */
  uint64_t submissions = 0, last_submission = 0, last_start = 0;
  std::mt19937_64 random;
  bool seeded = false, watching = false;
  int signals = -1; /* a file; -1: none */
  std::function<void(int)> signal_arrived;
  bool application_ends = false; /* functions of the application are no longer called */
};

uint64_t monotonic_ns();
uint64_t thread_id(); /* the system's number of the calling thread */

} // namespace sim

#endif
