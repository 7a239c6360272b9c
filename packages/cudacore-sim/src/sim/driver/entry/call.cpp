/* SPDX-License-Identifier: Apache-2.0 */
/* Code that every call of an entry point runs: the lock, the log, injected failures, and calls that are forbidden. */
#include "sim/driver/base/call.h"

#include "sim/driver/entry/journal.h"
#include "cudacore_sim.h"
#include "sim/control/report.h"
#include "sim/driver/base/capture_rules.h"
#include "sim/driver/base/process_page.h"

#include <atomic>
#include <dlfcn.h>
#include <execinfo.h>
#include <new>
#include <pthread.h>

namespace sim {
namespace {

thread_local Call *active_call = nullptr;
thread_local const char *callback = nullptr;
constexpr const char *as_callback = "cudasim_forbid"; /* the value of `callback` while a test forbids calls */

std::atomic<bool> forked{false};

/* Takes the locks, so that threads that do not exist in the child cannot hold them. The child cannot use the driver. */
void before_fork() {
  if (!Call::active())
    state().mutex.lock();
  journal_before_fork();
}

void after_fork_in_parent() {
  journal_after_fork();
  if (!Call::active())
    state().mutex.unlock();
}

void after_fork_in_child() {
  if (state().initialised)
    forked.store(true);
  leave_own_page();
  journal_after_fork_in_child();
  after_fork_in_parent();
}

struct WatchFork {
  WatchFork() { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }
} watch_fork;

} // namespace

Call::Call(Entry entry, bool per_thread, void *stream)
    : lock(state().mutex, std::defer_lock), per_thread(per_thread), entry(entry),
      began(tracing() && !has(entry, quick) ? monotonic_ns() : 0), outer(active_call), stream(stream) {
  active_call = this;
  if (outer == nullptr)
    call_began();
}

Call::~Call() { active_call = outer; }

Call &Call::current() { return *active_call; }

bool Call::active() { return active_call != nullptr && active_call->lock.owns_lock(); }

CUresult Call::refused() {
  CUresult failure = interfere(entry);
  injected = failure != CUDA_SUCCESS;
  if (injected || has(entry, quick))
    return failure;
  if (forked.load(std::memory_order_relaxed))
    return CUDA_ERROR_NOT_INITIALIZED;
  if (callback != nullptr && !has(entry, in_callback)) {
    if (!has(entry, probe) && callback != as_callback)
      report(std::string(symbol_of(entry)) + " was called from " + callback + ", where CUDA calls are forbidden");
    return CUDA_ERROR_NOT_PERMITTED;
  }
  /* Waits while this process is locked. Calls in callbacks do not wait, because locking waits for the callbacks. */
  if (outer == nullptr && callback == nullptr && !has(entry, checkpoints))
    counted = enter_gate();
  lock.lock();
  if (const ContextPtr &now = current_context())
    context = handle_of<void *>(now->handle);
  if (!state().initialised && !has(entry, before_init))
    return CUDA_ERROR_NOT_INITIALIZED;
  return has(entry, unsafe) && !state().captures.empty() ? check_unsafe() : CUDA_SUCCESS;
}

CUresult Call::done(CUresult result) {
  if (lock.owns_lock())
    lock.unlock();
  for (const std::function<void()> &function : at_end)
    function();
  if (counted)
    leave_gate();
  /* An injected failure needs no explanation, and neither does one that was explained already. */
  if (result == CUDA_ERROR_NOT_SUPPORTED && !injected && entry != Entry::cuGetExportTable && !call_has_reported())
    explain(
        std::string(symbol_of(entry)) +
        " answers CUDA_ERROR_NOT_SUPPORTED: what it was asked for is not simulated, or this device does not have it");
  if (outer == nullptr)
    call_ended(result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result);
  note_call(entry, context, stream, result, injected);
  if (began != 0)
    trace_call(symbol_of(entry), began);
  return result;
}

CUresult code_of(const std::exception &error) {
  return dynamic_cast<const std::bad_alloc *>(&error) != nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
}

namespace {

/* The name of a library without its folder. */
std::string base_name(const char *path) {
  std::string name = path;
  return name.substr(name.find_last_of('/') + 1);
}

/*
 * The file of the calling code: the first file on the stack other than this library. AddressSanitizer's library calls
 * backtrace() for this library, so it is on the stack, too.
 */
std::string calling_file() {
  void *frames[32];
  int count = backtrace(frames, 32);
  Dl_info own{}, other{};
  if (dladdr(reinterpret_cast<void *>(&unsupported), &own) == 0)
    return {};
  for (int i = 0; i < count; i++)
    if (dladdr(frames[i], &other) != 0 && other.dli_fbase != own.dli_fbase && other.dli_fname != nullptr &&
        base_name(other.dli_fname).rfind("libasan", 0) != 0)
      return base_name(other.dli_fname);
  return {};
}

/* Whether a file is a compiler. Compilers call cuGetExportTable to find their cache, and work without the cache. */
bool is_compiler(const std::string &file) {
  for (const char *name : {"libnvrtc", "libnvJitLink", "libnvvm", "libnvptxcompiler", "libnvfatbin"})
    if (file.rfind(name, 0) == 0)
      return true;
  return false;
}

CUresult no_export_table() {
  std::string file = calling_file();
  if (!is_compiler(file))
    explain("cuGetExportTable, which " + (file.empty() ? "a library" : file) +
            " asks for, is not offered: it gives out functions of the driver that no document describes. The CUDA "
            "runtime (libcudart, also where it is linked into a program, as in CuPy, Warp and what nvcc builds) does "
            "not start without; use what works with the driver API, cuda.bindings.driver or cudacore");
  return CUDA_ERROR_NOT_SUPPORTED;
}

} // namespace

CUresult unsupported(Entry entry) {
  if (entry == Entry::cuGetExportTable)
    return no_export_table();
  return refuse(CUDA_ERROR_NOT_SUPPORTED,
                std::string(symbol_of(entry)) + " is not simulated, and answers CUDA_ERROR_NOT_SUPPORTED");
}

CallbackScope::CallbackScope(const char *what, bool ends_outer) : outer(ends_outer ? nullptr : callback) {
  callback = what;
}
CallbackScope::~CallbackScope() { callback = outer; }

} // namespace sim

using namespace sim;

extern "C" void cudasim_forbid(int forbidden) { callback = forbidden != 0 ? as_callback : nullptr; }
