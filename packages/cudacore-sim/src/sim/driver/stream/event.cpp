/* SPDX-License-Identifier: Apache-2.0 */
/* Events. Waiting for an event means waiting for the unit of work that records it. */
#include "sim/driver/graph/capture.h"
#include "sim/driver/memory/ipc.h"

namespace sim {
namespace {

constexpr unsigned known_flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

CUresult find_event(CUevent handle, std::shared_ptr<Event> &out) {
  SIM_RETURN_FAILURE(find_object(state().events, Kind::event, handle, out));
  ContextPtr context = out->context.lock();
  return context == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : usable(context);
}

} // namespace

UnitPtr record(Event &event, const ContextPtr &context) {
  event.captured = nullptr;
  event.recorded = new_unit("event record", context);
  if (std::shared_ptr<SharedEvent> shared = event.shared)
    event.recorded->finish = [shared, number = shared->submit()] { shared->complete(number); };
  return event.recorded;
}

void wait_in_context(Context &context, Event &event) {
  if (UnitPtr recorded = awaited_record(event)) {
    UnitPtr gate = new_unit("event wait of a context", home_of(context.shared_from_this()));
    state().executor.submit(gate, {context.gate, recorded});
    context.gate = gate;
  }
}

UnitPtr latest_record(Event &event) {
  SharedEvent *shared = event.shared.get();
  uint64_t number = shared != nullptr ? shared->submitted() : 0;
  if (shared == nullptr || number == shared->recorded_here)
    return event.recorded != nullptr && !event.recorded->done ? event.recorded : nullptr;
  if (shared->is_complete(number))
    return nullptr;
  if (shared->awaited == number && !event.recorded->done)
    return event.recorded;
  /* Another process recorded the event last. */
  event.recorded = new_unit("event of another process", event.context.lock());
  shared->awaited = number;
  state().executor.complete_when(event.recorded, [kept = event.shared, number] { return kept->is_complete(number); });
  return event.recorded;
}

UnitPtr awaited_record(Event &event) {
  UnitPtr latest = latest_record(event);
  if (latest != nullptr || !ordering())
    return latest;
  if (event.shared == nullptr || event.shared->submitted() == event.shared->recorded_here)
    return event.recorded;
  /* Another process recorded the event last. Before that, it may have waited for any unit of this process. */
  ContextPtr context = event.context.lock();
  UnitPtr recorded = new_unit("event of another process", context);
  recorded->ordered->may_wait_for_anything = true;
  state().executor.submit(recorded, {});
  return recorded;
}

namespace {

/* Finds an event that is queried or waited for. Fails if a capture forbids that. */
CUresult find_queried(CUevent handle, std::shared_ptr<Event> &out) {
  SIM_RETURN_FAILURE(find_event(handle, out));
  SIM_RETURN_FAILURE(check_event(*out, true));
  return check_unsafe();
}

} // namespace

namespace api {

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  bool shared_with_timing = (Flags & CU_EVENT_INTERPROCESS) != 0 && (Flags & CU_EVENT_DISABLE_TIMING) == 0;
  if (phEvent == nullptr || (Flags & ~known_flags) != 0 || shared_with_timing)
    return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>();
  event->context = context;
  event->flags = Flags;
  if ((Flags & CU_EVENT_INTERPROCESS) != 0 && (event->shared = SharedEvent::make(*context->device)) == nullptr)
    return CUDA_ERROR_OUT_OF_MEMORY;
  event->handle = state().events.add(event);
  *phEvent = handle_of<CUevent>(event->handle);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
  std::shared_ptr<Event> event;
  SIM_RETURN_FAILURE(find_object(state().events, Kind::event, hEvent, event));
  ContextPtr context = event->context.lock();
  state().events.remove(event->handle);
  return context != nullptr ? context->error : CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent hEvent) { return api::cuEventDestroy_v2(hEvent); }

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  ContextPtr context;
  std::shared_ptr<Event> event;
  SIM_RETURN_FAILURE(find_exact_context(hCtx, context));
  SIM_RETURN_FAILURE(find_event(hEvent, event));
  if (home_of(context) != event->context.lock())
    return CUDA_ERROR_INVALID_HANDLE;
  SIM_RETURN_FAILURE(check_wait(*context));
  state().executor.submit(record(*event, home_of(context)), outstanding(*context));
  return CUDA_SUCCESS;
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  ContextPtr context;
  std::shared_ptr<Event> event;
  SIM_RETURN_FAILURE(find_exact_context(hCtx, context));
  SIM_RETURN_FAILURE(find_object(state().events, Kind::event, hEvent, event));
  SIM_RETURN_FAILURE(check_wait(*context));
  wait_in_context(*context, *event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  StreamPtr stream;
  std::shared_ptr<Event> event;
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  SIM_RETURN_FAILURE(find_event(hEvent, event));
  if (stream->context.lock() != event->context.lock())
    return CUDA_ERROR_INVALID_HANDLE;
  bool is_captured = false;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  if (flags != 0 && !is_captured)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (is_captured) {
    if (flags != 0)
      capture_node(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, make_event_record(hEvent, event));
    else
      capture_record(stream, *event);
    return CUDA_SUCCESS;
  }
  enqueue(stream, record(*event, stream->context.lock()));
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) { return api::cuEventRecordWithFlags(hEvent, hStream, 0); }

CUresult cuEventQuery(CUevent hEvent) {
  std::shared_ptr<Event> event;
  SIM_RETURN_FAILURE(find_queried(hEvent, event));
  state().executor.poll();
  if (latest_record(*event) != nullptr)
    return CUDA_ERROR_NOT_READY;
  if (event->recorded != nullptr)
    mark_known_done(event->recorded->ordered.get());
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent hEvent) {
  std::shared_ptr<Event> event;
  SIM_RETURN_FAILURE(find_queried(hEvent, event));
  UnitPtr recorded = awaited_record(*event);
  ContextPtr context = event->context.lock();
  state().executor.wait(Call::current().lock, recorded);
  end_wait(*context);
  return usable(context);
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  std::shared_ptr<Event> start, end;
  SIM_RETURN_FAILURE(find_event(hStart, start));
  SIM_RETURN_FAILURE(find_event(hEnd, end));
  for (const std::shared_ptr<Event> &event : {start, end}) {
    SIM_RETURN_FAILURE(check_event(*event, false));
    if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0)
      return CUDA_ERROR_INVALID_HANDLE;
  }
  if (start->recorded == nullptr || end->recorded == nullptr || start->context.lock() != end->context.lock())
    return CUDA_ERROR_INVALID_HANDLE;
  SIM_REQUIRE(pMilliseconds != nullptr);
  state().executor.poll();
  if (!start->recorded->done || !end->recorded->done)
    return CUDA_ERROR_NOT_READY;
  for (const std::shared_ptr<Event> &event : {start, end})
    mark_known_done(event->recorded->ordered.get());
  *pMilliseconds = static_cast<float>(static_cast<double>(end->recorded->finished) * 1e-6 -
                                      static_cast<double>(start->recorded->finished) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  return api::cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

} // namespace api
} // namespace sim
