/* SPDX-License-Identifier: Apache-2.0 */
/* Green contexts: creation, destruction, resources, and events for all of their work. */
#include "sim/driver/device/green.h"

#include "sim/control/report.h"
#include "sim/driver/base/capture_rules.h"

#include <algorithm>

namespace sim {
namespace {

CUresult find_green(CUgreenCtx handle, ContextPtr &out) {
  out = state().green_contexts.find(value_of(handle));
  if (out != nullptr)
    return usable(out);
  if (!state().green_contexts.was_destroyed(value_of(handle)))
    return CUDA_ERROR_INVALID_CONTEXT;
  report_stale(Kind::green_context, value_of(handle));
  return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

StreamPtr default_stream(const ContextPtr &green) {
  auto stream = std::make_shared<Stream>();
  stream->context = green->home;
  stream->green = green;
  stream->flags = CU_STREAM_NON_BLOCKING;
  stream->id = 7;
  return stream;
}

DeviceShare share_of(const Context &context) {
  return context.share != nullptr ? *context.share : DeviceShare{all_multiprocessors(*context.device), all_queues()};
}

/* Fails if a stream of a green context is captured. Invalidates such captures. */
CUresult check_green_capture(const ContextPtr &green) {
  CUresult result = CUDA_SUCCESS;
  for (const StreamPtr &stream : green->streams)
    if (stream->capture != nullptr) {
      invalidate_capture(*stream);
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  return result;
}

} // namespace

unsigned multiprocessors_of(const Stream &stream) {
  ContextPtr green = stream.green.lock();
  if (green != nullptr)
    return static_cast<unsigned>(green->share->sms.members.count());
  return static_cast<unsigned>(
      device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, *stream.context.lock()->device));
}

void destroy_green(const ContextPtr &green, std::unique_lock<std::mutex> &lock) {
  State &s = state();
  auto is_done = [](const UnitPtr &unit) { return unit == nullptr || unit->done; };
  green->ending = true;
  for (auto units = outstanding(*green); !std::all_of(units.begin(), units.end(), is_done); units = outstanding(*green))
    for (const UnitPtr &unit : units)
      s.executor.wait(lock, unit);
  for (const UnitPtr &unit : outstanding(*green))
    if (unit != nullptr)
      mark_known_done(unit->ordered.get());
  if (green->destroyed)
    return; /* another thread destroyed the context while the lock was released */
  green->destroyed = true;
  green->home->greens.erase(green);
  s.ended_contexts[green->handle] = green;
  s.contexts.remove(green->handle);
  s.green_contexts.remove(green->green_handle);
}

namespace api {

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
  Device *device = nullptr;
  DeviceShare share;
  bool needs_stream = !is_13_1(); /* earlier drivers require CU_GREEN_CTX_DEFAULT_STREAM */
  if (phCtx == nullptr || (flags & ~static_cast<unsigned>(CU_GREEN_CTX_DEFAULT_STREAM)) != 0 ||
      (flags == 0 && needs_stream))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_device(dev, device));
  SIM_RETURN_FAILURE(find_share(desc, *device, share));
  if (share.sms.device != device)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(retain_primary(*device));
  State &s = state();
  ContextPtr green = new_context(*device, device->primary->flags, false);
  green->home = device->primary;
  green->share = std::make_shared<const DeviceShare>(share);
  green->legacy = default_stream(green);
  green->green_handle = s.green_contexts.add(green);
  green->home->greens.insert(green);
  *phCtx = handle_of<CUgreenCtx>(green->green_handle);
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
  ContextPtr green;
  CUresult result = find_green(hCtx, green);
  if (green == nullptr)
    return result;
  if (green->ending)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  destroy_green(green, Call::current().lock);
  release_primary(*green->device);
  return green->error;
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx) {
  ContextPtr green;
  return store(find_green(hCtx, green), pContext, [&] { return handle_of<CUcontext>(green->handle); });
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId) {
  ContextPtr green = current_context();
  SIM_REQUIRE(greenCtxId != nullptr);
  if (greenCtx != nullptr)
    SIM_RETURN_FAILURE(find_green(greenCtx, green));
  if (green == nullptr || green->home == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  *greenCtxId = green->id;
  return usable(green);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type) {
  ContextPtr green;
  SIM_RETURN_FAILURE(find_green(hCtx, green));
  return describe(share_of(*green), type, resource);
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type) {
  ContextPtr context;
  SIM_RETURN_FAILURE(find_any_context(hCtx, context));
  SIM_RETURN_FAILURE(usable(context));
  return describe(share_of(*context), type, resource);
}

CUresult cuStreamGetDevResource(CUstream hStream, CUdevResource *resource, CUdevResourceType type) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  if (type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  ContextPtr green = stream->green.lock();
  return describe(share_of(green != nullptr ? *green : *stream->context.lock()), type, resource);
}

CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority) {
  ContextPtr green;
  SIM_RETURN_FAILURE(find_green(greenCtx, green));
  if (flags != CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  return new_stream(phStream, green, flags, priority);
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
  ContextPtr green;
  std::shared_ptr<Event> event;
  SIM_RETURN_FAILURE(find_green(hCtx, green));
  SIM_RETURN_FAILURE(find_object(state().events, Kind::event, hEvent, event));
  if (event->context.lock() != green->home)
    return CUDA_ERROR_INVALID_HANDLE;
  SIM_RETURN_FAILURE(check_green_capture(green));
  state().executor.submit(record(*event, green->home), outstanding(*green));
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
  ContextPtr green;
  std::shared_ptr<Event> event;
  SIM_RETURN_FAILURE(find_green(hCtx, green));
  SIM_RETURN_FAILURE(find_object(state().events, Kind::event, hEvent, event));
  SIM_RETURN_FAILURE(check_green_capture(green));
  if (event->captured != nullptr) {
    invalidate_capture(*event);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  wait_in_context(*green, *event);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
