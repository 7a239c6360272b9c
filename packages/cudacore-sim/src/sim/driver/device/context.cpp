/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: how they are created and destroyed, and the stack of contexts that each thread has. */
#include "sim/control/report.h"
#include "sim/driver/base/capture_rules.h"
#include "sim/driver/device/green.h"

#include <algorithm>
#include <sys/syscall.h>
#include <unistd.h>

namespace sim {
namespace {

constexpr unsigned api_version = 3020;

CUresult create(CUcontext *out, unsigned flags, CUdevice ordinal) {
  Device *device = nullptr;
  if (out == nullptr || !are_context_flags(flags))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_device(ordinal, device));
  if (device->error != CUDA_SUCCESS)
    return device->error;
  ContextPtr context = new_context(*device, flags, false);
  context_stack().push_back(context);
  *out = handle_of<CUcontext>(context->handle);
  return CUDA_SUCCESS;
}

/* Counts objects that are destroyed with a context, by kind. */
std::map<std::string, size_t> contents_of(const ContextPtr &context) {
  State &s = state();
  std::map<std::string, size_t> counts;
  auto is_in_it = [&](const auto &object) { return object->context.lock() == context; };
  for (const AllocationPtr &allocation : s.memory.all())
    if (!allocation->internal && !allocation->freed && is_in_it(allocation))
      counts[describe(*allocation)]++;
  for (const auto &event : s.events.all())
    if (is_in_it(event))
      counts["event"]++;
  for (const auto &module : s.modules.all())
    if (!module->of_library && is_in_it(module))
      counts["module"]++;
  if (!context->streams.empty())
    counts["stream"] = context->streams.size();
  size_t pieces = config().checks.init ? pieces_in(*context->heap) : 0;
  if (pieces != 0)
    counts["piece of the device heap"] = pieces;
  return counts;
}

/*
 * Reports objects that are destroyed with a context although the application can still use them. After an error, the
 * application can no longer use them.
 */
void report_contents(const ContextPtr &context, const char *by) {
  std::string text;
  for (const auto &[kind, count] : contents_of(context))
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + kind;
  if (!text.empty() && context->error == CUDA_SUCCESS)
    report(std::string(by) + " destroys a context with what is alive in it: " + text);
}

/* Destroys the primary context of a device. A new one is created only after that, because it has the same handle. */
void end_primary(Device &device) {
  struct Ending {
    Device &device;
    explicit Ending(Device &device) : device(device) { device.primary_ending = true; }
    ~Ending() {
      device.primary_ending = false;
      state().primary_ended.notify_all();
    }
  } ending(device);
  ContextPtr context = std::move(device.primary);
  device.primary = nullptr;
  destroy_context(context, Call::current().lock);
}

/* The context of a handle; for a null handle, the current context. */
CUresult find_or_current(CUcontext handle, ContextPtr &out) {
  if (handle != nullptr)
    return find_context(handle, out);
  out = current_context();
  return out == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

} // namespace

bool are_context_flags(unsigned flags) {
  unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~CU_CTX_FLAGS_MASK) == 0 && (schedule & (schedule - 1)) == 0;
}

CUresult retain_primary(Device &device) {
  state().primary_ended.wait(Call::current().lock, [&] { return !device.primary_ending; });
  if (device.primary == nullptr) {
    if (device.error != CUDA_SUCCESS)
      return device.error;
    device.primary = new_context(device, device.primary_flags, true);
  }
  device.primary_references++;
  return CUDA_SUCCESS;
}

void release_primary(Device &device) {
  if (--device.primary_references == 0 && device.primary != nullptr)
    end_primary(device);
}

/* Makes all contexts of the device fail, also those that are created later. */
void Context::fail(CUresult code) {
  auto note = [code](CUresult &where) { where = where == CUDA_SUCCESS ? code : where; };
  note(error);
  note(device->error);
  for (const ContextPtr &other : state().contexts.all())
    if (other->device == device)
      note(other->error);
}

std::vector<ContextPtr> &context_stack() {
  struct Owner {
    std::vector<ContextPtr> *stack = new std::vector<ContextPtr>;
    /* atexit functions of the main thread run after this destructor, and may use CUDA. */
    ~Owner() {
      if (syscall(SYS_gettid) != getpid()) // glibc 2.28 has no gettid()
        delete stack;
    }
  };
  static thread_local Owner owner;
  return *owner.stack;
}

ContextPtr current_context() {
  std::vector<ContextPtr> &stack = context_stack();
  if (stack.empty())
    return nullptr;
  ContextPtr &top = stack.back();
  if (top->destroyed && top->primary && top->device->primary != nullptr)
    top = top->device->primary; /* the primary context was retained again, as a new object */
  return top;
}

CUresult usable(const ContextPtr &context) {
  if (context->ending || (context->home != nullptr && context->home->ending))
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context->error;
}

ContextPtr home_of(const ContextPtr &context) {
  return context != nullptr && context->home != nullptr ? context->home : context;
}

CUresult need_current(ContextPtr &out) {
  out = current_context();
  return out == nullptr ? CUDA_ERROR_INVALID_CONTEXT : usable(out);
}

CUresult need_context(ContextPtr &out) {
  CUresult result = need_current(out);
  out = home_of(out);
  return result;
}

/*
 * Finds a context to make current. This can be a destroyed context, because programs restore a context that was current
 * earlier. All other calls with a destroyed context fail.
 */
CUresult find_any_context(CUcontext handle, ContextPtr &out) {
  out = state().green_contexts.find(value_of(handle)); /* `handle` can be a green context's CUgreenCtx */
  if (out != nullptr)
    return CUDA_SUCCESS;
  const auto &ended = state().ended_contexts;
  auto found = ended.find(value_of(handle));
  if (found == ended.end())
    return find_exact_context(handle, out);
  out = found->second;
  return CUDA_SUCCESS;
}

CUresult find_context(CUcontext handle, ContextPtr &out) {
  CUresult result = find_exact_context(handle, out);
  out = home_of(out);
  return result;
}

CUresult find_exact_context(CUcontext handle, ContextPtr &out) {
  out = state().contexts.find(value_of(handle));
  if (out != nullptr)
    return CUDA_SUCCESS;
  auto ended = state().ended_contexts.find(value_of(handle));
  if (ended != state().ended_contexts.end() && ended->second->primary)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED; /* a primary context that nobody retains */
  if (state().contexts.was_destroyed(value_of(handle)))
    report_stale(Kind::context, value_of(handle));
  return CUDA_ERROR_INVALID_CONTEXT;
}

ContextPtr new_context(Device &device, unsigned flags, bool primary) {
  State &s = state();
  auto context = std::make_shared<Context>();
  context->device = &device;
  context->flags = flags;
  context->primary = primary;
  context->id = s.next_context_id++;
  if (primary && device.primary_handle != 0) {
    context->handle = device.primary_handle;
    s.contexts.restore(context->handle, context);
  } else {
    context->handle = s.contexts.add(context);
    if (primary)
      device.primary_handle = context->handle;
  }
  s.ended_contexts.erase(context->handle);
  context->legacy = std::make_shared<Stream>();
  context->legacy->context = context;
  context->legacy->legacy = true;
  context->legacy->id = 7;
  return context;
}

/* Records the handles that make the driver crash if they are used after the primary context was destroyed. */
void lose_contents(const ContextPtr &context) {
  State &s = state();
  for (const StreamPtr &stream : context->streams)
    s.lost[stream->handle] = nullptr;
  for (const auto &event : s.events.all())
    if (event->context.lock() == context)
      s.lost[event->handle] = nullptr;
  lose_graph_execs(context);
}

/* Destroys everything that was created in the context, as the driver does. */
void destroy_context(const ContextPtr &context, std::unique_lock<std::mutex> &lock) {
  State &s = state();
  auto is_done = [](const UnitPtr &unit) { return unit == nullptr || unit->done; };
  context->ending = true;
  /* This is a loop, because calls of other threads that found the context usable may still add work. */
  for (auto units = outstanding(*context); !std::all_of(units.begin(), units.end(), is_done);
       units = outstanding(*context))
    for (const UnitPtr &unit : units)
      s.executor.wait(lock, unit);
  show_printed(*context);
  if (context->destroyed)
    return; /* another thread destroyed the context while the lock was released */
  context->destroyed = true;
  const char *by = "cudasim_reset_device";
  if (Call::active()) {
    by = symbol_of(Call::current().entry);
    report_contents(context, by);
    if (context->primary)
      lose_contents(context);
  }
  while (!context->greens.empty()) {
    ContextPtr green = *context->greens.begin();
    destroy_green(green, lock);
    for (const StreamPtr &stream : green->streams)
      s.streams.remove(stream->handle);
    green->streams.clear();
  }
  for (const AllocationPtr &allocation : s.memory.all())
    if (allocation->context.lock() == context)
      release_memory(allocation, by);
  for (const auto &entry : context->per_thread)
    if (entry.second->capture != nullptr)
      abandon_capture(entry.second);
  for (const StreamPtr &stream : context->streams) {
    if (stream->capture != nullptr)
      abandon_capture(stream);
    s.streams.remove(stream->handle);
  }
  context->streams.clear();
  context->per_thread.clear();
  forget_arrays(context);
  for (const auto &event : s.events.all())
    if (event->context.lock() == context)
      s.events.remove(event->handle);
  for (const auto &module : s.modules.all())
    if (module->context.lock() == context)
      s.modules.remove(module->handle);
  for (const auto &function : s.functions.all())
    if (function->context.lock() == context)
      s.functions.remove(function->handle);
  context->placements.clear();
  context->map = nullptr;
  if (s.contexts.find(context->handle) != context)
    return; /* a new primary context already has this handle */
  s.ended_contexts[context->handle] = context;
  s.contexts.remove(context->handle, !context->primary);
}

namespace api {

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
  Device *device = nullptr;
  SIM_REQUIRE(pctx != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  SIM_RETURN_FAILURE(retain_primary(*device));
  *pctx = handle_of<CUcontext>(device->primary->handle);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  Device *device = nullptr;
  SIM_RETURN_FAILURE(find_device(dev, device));
  if (device->primary_references == 0) {
    report("cuDevicePrimaryCtxRelease was called for a primary context that is not retained");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  release_primary(*device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  Device *device = nullptr;
  SIM_RETURN_FAILURE(find_device(dev, device));
  if (device->primary == nullptr)
    return CUDA_SUCCESS;
  if (!device->primary->greens.empty())
    return refuse(CUDA_ERROR_NOT_PERMITTED,
                  "cuDevicePrimaryCtxReset is not permitted while the device has green contexts");
  end_primary(*device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  Device *device = nullptr;
  SIM_RETURN_FAILURE(find_device(dev, device));
  if (!are_context_flags(flags) || (flags & CU_CTX_MAP_HOST) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  device->primary_flags = flags;
  if (device->primary != nullptr)
    device->primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
  Device *device = nullptr;
  SIM_REQUIRE(flags != nullptr && active != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  *flags = device->primary_flags;
  *active = device->primary != nullptr;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) { return api::cuDevicePrimaryCtxRelease_v2(dev); }
CUresult cuDevicePrimaryCtxReset(CUdevice dev) { return api::cuDevicePrimaryCtxReset_v2(dev); }
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return api::cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) { return create(pctx, flags, dev); }

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
                        CUdevice dev) {
  if (numParams != 0 || paramsArray != nullptr)
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev) {
  if (ctxCreateParams != nullptr && (ctxCreateParams->numExecAffinityParams != 0 || ctxCreateParams->cigParams))
    return CUDA_ERROR_NOT_SUPPORTED;
  return create(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
  ContextPtr context;
  SIM_REQUIRE(ctx != nullptr);
  SIM_RETURN_FAILURE(find_exact_context(ctx, context));
  if (context->home != nullptr) {
    report("cuCtxDestroy was given a green context, which cuGreenCtxDestroy destroys");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (context->primary) {
    report("cuCtxDestroy was given a primary context, which cuDevicePrimaryCtxRelease releases");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (context->ending)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  destroy_context(context, Call::current().lock);
  std::vector<ContextPtr> &stack = context_stack();
  if (!stack.empty() && stack.back() == context)
    stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx) { return api::cuCtxDestroy_v2(ctx); }

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
  ContextPtr context;
  SIM_REQUIRE(ctx != nullptr);
  SIM_RETURN_FAILURE(find_any_context(ctx, context));
  context_stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx) {
  std::vector<ContextPtr> &stack = context_stack();
  if (stack.empty())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (pctx != nullptr)
    *pctx = stack.back() ? handle_of<CUcontext>(stack.back()->handle) : nullptr;
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  std::vector<ContextPtr> &stack = context_stack();
  ContextPtr context;
  if (ctx != nullptr)
    SIM_RETURN_FAILURE(find_any_context(ctx, context));
  if (!stack.empty())
    stack.pop_back();
  if (context != nullptr)
    stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx) {
  SIM_REQUIRE(pctx != nullptr);
  ContextPtr context = current_context();
  *pctx = context != nullptr ? handle_of<CUcontext>(context->handle) : nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) { return api::cuCtxGetDevice_v2(device, nullptr); }

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
  ContextPtr context;
  SIM_REQUIRE(device != nullptr);
  SIM_RETURN_FAILURE(find_or_current(ctx, context));
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
  ContextPtr context = current_context();
  SIM_REQUIRE(ctxId != nullptr);
  if (ctx != nullptr)
    if (CUresult result = find_any_context(ctx, context)) {
      report("cuCtxGetId was given " + hex(value_of(ctx)) + ", which is not a context: here the driver crashes");
      return result;
    }
  if (context == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  *ctxId = context->id;
  return context->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_current(context));
  SIM_RETURN_FAILURE(check_wait(*context));
  return synchronize(context);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
  ContextPtr context;
  if (ctx == nullptr)
    return api::cuCtxSynchronize();
  SIM_RETURN_FAILURE(find_exact_context(ctx, context));
  SIM_RETURN_FAILURE(check_wait(*context));
  return synchronize(context);
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
  ContextPtr context;
  SIM_REQUIRE(version != nullptr);
  if (CUresult result = find_or_current(ctx, context))
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_ERROR_INVALID_CONTEXT : result;
  if (context->destroyed)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *version = api_version;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  ContextPtr context, peer;
  SIM_RETURN_FAILURE(need_context(context));
  if (Flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_context(peerContext, peer));
  if (peer->device == context->device)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  if (!context->peers.insert(peer->handle).second)
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  state().memory.changed();
  return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
  ContextPtr context, peer;
  SIM_RETURN_FAILURE(need_context(context));
  SIM_RETURN_FAILURE(find_context(peerContext, peer));
  if (context->peers.erase(peer->handle) == 0)
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  state().memory.changed();
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
