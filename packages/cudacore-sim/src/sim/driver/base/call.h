/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_CALL_H
#define CUDACORE_SIM_DRIVER_BASE_CALL_H

#include "sim/driver/base/api.h"

#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace sim {

/*
 * One call of an entry point, from the application's thread. It takes the one lock that guards all state, and
 * releases it when it ends; what waits or runs long gives the lock up in between.
 */
class Call {
public:
  Call(Entry entry, bool per_thread);
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  static Call &current();
  static bool active();

  /* Not CUDA_SUCCESS: the call ends with this before it does anything. */
  CUresult refused();
  CUresult done(CUresult result);

  /* Something of the application's that runs when the call is over, before it returns. */
  void run_at_end(std::function<void()> function) { at_end.push_back(std::move(function)); }

  std::unique_lock<std::mutex> lock;
  const bool per_thread; /* CUstream 0 is the thread's own default stream */
  const Entry entry;
  const uint64_t began; /* nanoseconds; 0: no trace is made */

private:
  Call *outer;
  std::vector<std::function<void()>> at_end;
  void *context = nullptr;
  bool injected = false;
  bool quick = false; /* reads what never changes, before cuInit and in callbacks too, and takes no lock */
};

CUresult code_of(const std::exception &error);

/* Only what derives from std::exception is caught: a thread that is cancelled unwinds, too, and must not be stopped. */
template <class Body> CUresult enter(Entry entry, bool per_thread, Body body) {
  Call call(entry, per_thread);
  CUresult result = CUDA_SUCCESS;
  try {
    result = call.refused();
    if (result == CUDA_SUCCESS)
      result = body();
  } catch (const std::exception &error) {
    result = code_of(error);
  }
  return call.done(result);
}

CUresult unsupported(Entry entry); /* what is not simulated answers, and says on stderr, once a function */

/* Whether this thread runs a host function or callback, where CUDA calls are forbidden. */
class CallbackScope {
public:
  explicit CallbackScope(const char *what, bool ends_outer = false);
  ~CallbackScope();
  CallbackScope(const CallbackScope &) = delete;
  CallbackScope &operator=(const CallbackScope &) = delete;

private:
  const char *const outer;
};

} // namespace sim

#endif
