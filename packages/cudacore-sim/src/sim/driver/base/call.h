/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_CALL_H
#define CUDACORE_SIM_DRIVER_BASE_CALL_H

#include "sim/driver/base/api.h"

#include <exception>
#include <functional>
#include <mutex>
#include <type_traits>
#include <vector>

namespace sim {

/*
 * A call of an entry point, on the application's thread. The call holds the lock of the state until it ends. Functions
 * that wait, or run for long, release the lock meanwhile.
 */
class Call {
public:
  Call(Entry entry, bool per_thread, void *stream);
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  static Call &current();
  static bool active();

  /* Checks whether the call is permitted. If not, the entry point returns this code without doing anything. */
  CUresult refused();
  CUresult done(CUresult result);

  /* Runs a function of the application at the end of the call, before the entry point returns. */
  void run_at_end(std::function<void()> function) { at_end.push_back(std::move(function)); }

  std::unique_lock<std::mutex> lock;
  const bool per_thread; /* whether CUstream 0 means the calling thread's own default stream */
  const Entry entry;
  const uint64_t began; /* start time in nanoseconds; 0: no trace is made */

private:
  Call *outer;
  std::vector<std::function<void()>> at_end;
  void *context = nullptr;
  void *const stream; /* the stream, for the log */
  bool injected = false, counted = false;
};

CUresult code_of(const std::exception &error);

/* Catches only exceptions that derive from std::exception: the unwinding of a cancelled thread must not be stopped. */
template <class Body> CUresult enter(Entry entry, bool per_thread, void *stream, Body body) {
  Call call(entry, per_thread, stream);
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

/* The stream among the arguments of a call. Null: there is none, or it is the default stream. */
template <class... Arguments> void *stream_among(const Arguments &...arguments) {
  void *found = nullptr;
  [[maybe_unused]] auto look = [&](const auto &argument) {
    using Argument = std::decay_t<decltype(argument)>;
    if constexpr (std::is_same_v<Argument, CUstream>)
      found = argument;
    else if constexpr (std::is_same_v<Argument, const CUlaunchConfig *>)
      found = argument != nullptr ? argument->hStream : nullptr;
  };
  (look(arguments), ...);
  return found;
}

CUresult unsupported(Entry entry); /* explains once that a function is not simulated, and returns its result */

/* A scope in which this thread runs a host function or callback, where CUDA calls are forbidden. */
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
