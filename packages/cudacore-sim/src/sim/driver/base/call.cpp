/* SPDX-License-Identifier: Apache-2.0 */
/* What every call of an entry point has in common: the lock, the log, injected failures, and where calls are forbidden.
 */
#include "sim/driver/base/call.h"

#include "sim/driver/base/journal.h"
#include "sim/control/report.h"
#include "sim/driver/graph/capture.h"

#include <atomic>
#include <dlfcn.h>
#include <execinfo.h>
#include <new>
#include <pthread.h>

namespace sim {
namespace {

thread_local Call *active_call = nullptr;
thread_local const char *callback = nullptr;

std::atomic<bool> forked{false};

/* A child of fork finds the locks free, whoever held them; the driver itself is of no use to it. */
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
  after_fork_in_parent();
}

struct WatchFork {
  WatchFork() { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }
} watch_fork;

/* Need no cuInit, are allowed in callbacks, and read nothing that changes. */
bool is_quick(Entry entry) {
  switch (entry) {
  case Entry::cuGetProcAddress:
  case Entry::cuGetProcAddress_v2:
  case Entry::cuGetErrorName:
  case Entry::cuGetErrorString:
  case Entry::cuDriverGetVersion:
    return true;
  default:
    return false;
  }
}

bool is_allowed_in_callback(Entry entry) {
  switch (entry) {
  case Entry::cuEventDestroy_v2:
  case Entry::cuEventQuery:
  case Entry::cuLibraryUnload:
  case Entry::cuStreamDestroy_v2:
  case Entry::cuStreamIsCapturing:
  case Entry::cuStreamIsCapturing_ptsz:
  case Entry::cuStreamQuery:
  case Entry::cuStreamQuery_ptsz:
  case Entry::cuThreadExchangeStreamCaptureMode:
  case Entry::cuUserObjectRelease:
  case Entry::cuUserObjectRetain:
    return true;
  default:
    return false;
  }
}

} // namespace

Call::Call(Entry entry, bool per_thread)
    : lock(state().mutex, std::defer_lock), per_thread(per_thread), entry(entry),
      began(tracing() && !is_quick(entry) ? monotonic_ns() : 0), outer(active_call), quick(is_quick(entry)) {
  active_call = this;
  if (outer == nullptr)
    call_began();
}

Call::~Call() { active_call = outer; }

Call &Call::current() { return *active_call; }

bool Call::active() { return active_call != nullptr && active_call->lock.owns_lock(); }

CUresult Call::refused() {
  CUresult failure = next_failure(entry);
  injected = failure != CUDA_SUCCESS;
  if (injected || quick)
    return failure;
  if (forked.load(std::memory_order_relaxed))
    return CUDA_ERROR_NOT_INITIALIZED;
  if (callback != nullptr && !is_allowed_in_callback(entry)) {
    /* A library can only find out whether calls are permitted by making one. These two change nothing. */
    if (entry != Entry::cuCtxGetCurrent && entry != Entry::cuCtxGetId)
      report(std::string(symbol_of(entry)) + " was called from " + callback + ", where CUDA calls are forbidden");
    return CUDA_ERROR_NOT_PERMITTED;
  }
  lock.lock();
  if (const ContextPtr &now = current_context())
    context = handle_of<void *>(now->handle);
  if (!state().initialised && entry != Entry::cuInit)
    return CUDA_ERROR_NOT_INITIALIZED;
  return check_unsafe(entry);
}

CUresult Call::done(CUresult result) {
  if (lock.owns_lock())
    lock.unlock();
  for (const std::function<void()> &function : at_end)
    function();
  /* A failure that was asked for explains itself, and so do answers. */
  if (result == CUDA_ERROR_NOT_SUPPORTED && !injected && entry != Entry::cuGetExportTable && !call_said())
    explain(
        std::string(symbol_of(entry)) +
        " answers CUDA_ERROR_NOT_SUPPORTED: what it was asked for is not simulated, or this device does not have it");
  if (outer == nullptr)
    call_ended(result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result);
  note_call(entry, context, result, injected);
  if (began != 0)
    trace_call(symbol_of(entry), began);
  return result;
}

CUresult code_of(const std::exception &error) {
  return dynamic_cast<const std::bad_alloc *>(&error) != nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
}

namespace {

/* The file that a call comes from: the first one on the stack that is not this library. */
std::string calling_file() {
  void *frames[32];
  int count = backtrace(frames, 32);
  Dl_info own{}, other{};
  if (dladdr(reinterpret_cast<void *>(&unsupported), &own) == 0)
    return {};
  for (int i = 0; i < count; i++)
    if (dladdr(frames[i], &other) != 0 && other.dli_fbase != own.dli_fbase && other.dli_fname != nullptr) {
      std::string name = other.dli_fname;
      return name.substr(name.find_last_of('/') + 1);
    }
  return {};
}

/* Compilers ask for it to find their cache, and do without. */
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

const char *name_of(Kind kind) {
  switch (kind) {
  case Kind::context:
    return "context";
  case Kind::stream:
    return "stream";
  case Kind::event:
    return "event";
  case Kind::pool:
    return "memory pool";
  case Kind::library:
    return "library";
  case Kind::kernel:
    return "kernel";
  case Kind::module:
    return "module";
  case Kind::function:
    return "function";
  case Kind::physical:
    return "physical memory";
  case Kind::graph:
    return "graph";
  case Kind::graph_node:
    return "graph node";
  case Kind::graph_exec:
    return "executable graph";
  case Kind::condition:
    return "conditional handle";
  case Kind::user_object:
    return "user object";
  case Kind::green_context:
    return "green context";
  case Kind::link:
    return "linker";
  default:
    return "object";
  }
}

CUresult report_stale(Kind kind, uint64_t handle) {
  std::string by = Call::active() ? symbol_of(Call::current().entry) : "a call";
  bool is_lost = state().lost.count(handle) != 0;
  /* Nothing but an executable graph is looked at where the current context is destroyed, too. */
  ContextPtr current = current_context();
  bool crashes = is_lost && (kind == Kind::graph_exec || current == nullptr || !current->destroyed);
  std::string what = name_of(kind);
  report(by + " was given " + (what[0] == 'e' ? "an " : "a ") + what + " that was destroyed" +
         (is_lost ? " with its context: " : ": ") + hex(handle) + (crashes ? ": here the driver crashes" : ""));
  return is_lost ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_HANDLE;
}

State &state() {
  static State *const instance = new State; /* never destroyed: worker threads outlive exit() */
  return *instance;
}

} // namespace sim
