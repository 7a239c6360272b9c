/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, which give units of work their dependencies. */
#include "sim/control/report.h"
#include "sim/driver/graph/capture.h"
#include "sim/driver/device/green.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

namespace sim {
namespace {

constexpr uint64_t per_thread_stream_id = 13; /* the identifier of the first thread's default stream */

StreamPtr per_thread_stream(const ContextPtr &context) {
  StreamPtr &stream = context->per_thread[this_thread()];
  if (stream == nullptr) {
    stream = std::make_shared<Stream>();
    stream->context = context;
    stream->id = context->per_thread.size() == 1 ? per_thread_stream_id : state().next_stream_id++;
  }
  return stream;
}

/* The streams that wait for work of the legacy default stream, and whose work the legacy default stream waits for. */
std::vector<StreamPtr> blocking_streams(const Context &context) {
  std::vector<StreamPtr> found;
  for (const StreamPtr &stream : context.streams)
    if (stream->blocking())
      found.push_back(stream);
  for (const auto &entry : context.per_thread)
    found.push_back(entry.second);
  return found;
}

void forget_done(std::vector<UnitPtr> &units) {
  auto is_done = [](const UnitPtr &unit) { return unit->done; };
  units.erase(std::remove_if(units.begin(), units.end(), is_done), units.end());
}

bool is_default(CUstream handle) {
  return handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

CUresult create(CUstream *out, unsigned flags, int priority) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_current(context));
  return new_stream(out, context, flags, priority);
}

CUstreamAttrValue *attribute_of(Stream &stream, CUstreamAttrID attribute) {
  switch (attribute) {
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    return &stream.synchronization_policy;
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    return &stream.access_policy;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    return &stream.memory_domain;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    return &stream.memory_domain_map;
  default:
    return nullptr;
  }
}

/* Returns the result of a query about a stream. Some queries are refused while the stream is captured. */
template <class T, class Answer> CUresult read(CUstream handle, T *out, bool in_capture, Answer answer) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  if (!in_capture)
    SIM_RETURN_FAILURE(check_question(stream));
  SIM_REQUIRE(out != nullptr);
  *out = answer(*stream);
  return CUDA_SUCCESS;
}

} // namespace

CUresult new_stream(CUstream *out, const ContextPtr &context, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_shared<Stream>();
  stream->context = home_of(context);
  if (context->home != nullptr)
    stream->green = context;
  stream->flags = flags;
  if (context->home != nullptr) /* green contexts have no blocking streams */
    stream->flags = CU_STREAM_NON_BLOCKING;
  stream->priority = std::clamp(priority, greatest_priority, least_priority);
  stream->id = state().next_stream_id++;
  stream->handle = state().streams.add(stream);
  context->streams.insert(stream);
  *out = handle_of<CUstream>(stream->handle);
  return CUDA_SUCCESS;
}

uint64_t this_thread() {
  static std::atomic<uint64_t> next{1};
  static thread_local const uint64_t id = next++;
  return id;
}

ContextPtr owner_of(const Stream &stream) {
  ContextPtr green = stream.green.lock();
  return green != nullptr ? green : stream.context.lock();
}

CUresult find_stream(CUstream handle, StreamPtr &out) {
  if (is_default(handle)) {
    ContextPtr context;
    SIM_RETURN_FAILURE(need_current(context));
    bool own = handle == CU_STREAM_PER_THREAD || (handle == nullptr && Call::current().per_thread);
    if (context->home != nullptr && own)
      return CUDA_ERROR_INVALID_HANDLE; /* a green context has a single default stream */
    out = own ? per_thread_stream(context) : context->legacy;
    return CUDA_SUCCESS;
  }
  SIM_RETURN_FAILURE(find_object(state().streams, Kind::stream, handle, out));
  if (ContextPtr green = out->green.lock(); green != nullptr && green->ending)
    return is_13_1() ? CUDA_ERROR_STREAM_DETACHED : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return usable(out->context.lock());
}

UnitPtr new_unit(const char *name, const ContextPtr &context, std::function<void()> work,
                 std::function<void()> finish) {
  auto unit = std::make_shared<Unit>();
  unit->name = name;
  unit->context = context;
  unit->work = std::move(work);
  unit->finish = std::move(finish);
  if (tracing()) {
    unit->traced = std::make_shared<Traced>();
    unit->traced->name = name;
    unit->traced->device = context->device->ordinal;
  }
  if (ordering())
    unit->ordered = new_ordered(name);
  return unit;
}

std::vector<UnitPtr> outstanding(const StreamPtr &stream) {
  std::vector<UnitPtr> units{stream->tail};
  ContextPtr context = stream->context.lock();
  if (stream->legacy && context != nullptr) {
    for (const StreamPtr &other : blocking_streams(*context))
      units.push_back(other->tail);
    units.insert(units.end(), context->blocking_orphans.begin(), context->blocking_orphans.end());
    units.push_back(context->after_destroyed_blocking_streams);
  }
  return units;
}

namespace {

const char *name_of(const Stream &stream) {
  if (!stream.green.expired())
    return "default stream of a green context";
  return stream.legacy ? "default stream" : "per-thread default stream";
}

void trace_on(const Stream &stream, Traced &work) {
  work.stream = stream.context.lock()->id << 32 | stream.id;
  work.stream_name = stream.handle == 0 ? name_of(stream) : "stream " + hex(stream.handle);
  if (Call::active()) {
    work.thread = thread_id();
    work.called = Call::current().began;
  }
}

} // namespace

/* For the check of order: adds the work of a stream that is being destroyed to that of the destroyed streams. */
static void end_in_order(Context &context, const Stream &stream) {
  if (!ordering() || stream.tail == nullptr)
    return;
  UnitPtr &end = stream.blocking() ? context.after_destroyed_blocking_streams : context.after_destroyed_streams;
  UnitPtr both = new_unit("end of a stream", home_of(context.shared_from_this()));
  state().executor.submit(both, {end, stream.tail});
  end = both;
}

void enqueue(const StreamPtr &stream, const UnitPtr &unit, std::vector<UnitPtr> extra) {
  std::vector<UnitPtr> dependencies = outstanding(stream);
  if (stream->blocking())
    dependencies.push_back(stream->context.lock()->legacy->tail);
  dependencies.push_back(stream->context.lock()->gate);
  if (ContextPtr green = stream->green.lock())
    dependencies.push_back(green->gate);
  dependencies.insert(dependencies.end(), extra.begin(), extra.end());
  unit->priority = stream->priority;
  if (unit->traced != nullptr)
    trace_on(*stream, *unit->traced);
  if (unit->ordered != nullptr) {
    unit->ordered->stream = stream->handle;
    unit->ordered->stream_name = name_of(*stream);
    unit->ordered->number = ++stream->submitted;
  }
  state().executor.submit(unit, dependencies);
  stream->tail = unit;
}

CUresult synchronize(const StreamPtr &stream) {
  ContextPtr context = stream->context.lock();
  for (const UnitPtr &unit : outstanding(stream))
    state().executor.wait(Call::current().lock, unit);
  if (context == nullptr)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  end_wait(*context);
  return usable(context);
}

void show_printed(Context &context) {
  std::string &text = context.home != nullptr ? context.home->printed : context.printed;
  if (text.empty())
    return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  text.clear();
}

void end_wait(Context &context) {
  shrink_pools(*context.device);
  show_printed(context);
}

std::vector<UnitPtr> outstanding(Context &context) {
  forget_done(context.orphans);
  forget_done(context.blocking_orphans);
  std::vector<UnitPtr> units = context.orphans;
  units.insert(units.end(), context.blocking_orphans.begin(), context.blocking_orphans.end());
  units.push_back(context.after_destroyed_streams);
  units.push_back(context.after_destroyed_blocking_streams);
  units.push_back(context.legacy->tail);
  for (const StreamPtr &stream : context.streams)
    units.push_back(stream->tail);
  for (const auto &entry : context.per_thread)
    units.push_back(entry.second->tail);
  for (const ContextPtr &green : context.greens)
    for (const UnitPtr &unit : outstanding(*green))
      units.push_back(unit);
  return units;
}

CUresult synchronize(const ContextPtr &context) {
  for (const UnitPtr &unit : outstanding(*context))
    state().executor.wait(Call::current().lock, unit);
  end_wait(*context);
  return usable(context);
}

namespace {

/* Finds a stream that is queried or waited for. Fails if a capture forbids that. */
CUresult find_queried(CUstream handle, StreamPtr &out) {
  SIM_RETURN_FAILURE(find_stream(handle, out));
  SIM_RETURN_FAILURE(check_question(out));
  return check_unsafe();
}

} // namespace

namespace api {

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags) { return create(phStream, Flags, 0); }

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
  return create(phStream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream hStream) {
  StreamPtr stream;
  if (is_default(hStream))
    return CUDA_ERROR_INVALID_HANDLE;
  SIM_RETURN_FAILURE(find_object(state().streams, Kind::stream, hStream, stream));
  if (stream->capture != nullptr)
    abandon_capture(stream);
  ContextPtr context = owner_of(*stream);
  /* The context keeps the unfinished work of the stream. */
  std::vector<UnitPtr> &orphans = stream->blocking() ? context->blocking_orphans : context->orphans;
  forget_done(orphans);
  if (stream->tail != nullptr && !stream->tail->done)
    orphans.push_back(stream->tail);
  end_in_order(*context, *stream);
  context->streams.erase(stream);
  state().streams.remove(stream->handle);
  if (context->ending && !is_13_1()) /* no error from 13.1 on, when the green context of the stream is destroyed */
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context->error;
}

CUresult cuStreamDestroy(CUstream hStream) { return api::cuStreamDestroy_v2(hStream); }

CUresult cuStreamSynchronize(CUstream hStream) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_queried(hStream, stream));
  return synchronize(stream);
}

CUresult cuStreamQuery(CUstream hStream) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_queried(hStream, stream));
  state().executor.poll();
  for (const UnitPtr &unit : outstanding(stream))
    if (unit != nullptr && !unit->done)
      return CUDA_ERROR_NOT_READY;
  for (const UnitPtr &unit : outstanding(stream))
    if (unit != nullptr)
      mark_known_done(unit->ordered.get());
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority) {
  return read(hStream, priority, true, [](const Stream &stream) { return stream.priority; });
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags) {
  return read(hStream, flags, false, [](const Stream &stream) { return stream.flags; });
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId) {
  return read(hStream, streamId, false, [](const Stream &stream) { return stream.id; });
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device) {
  return read(hStream, device, false, [](const Stream &stream) { return stream.context.lock()->device->ordinal; });
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
  return read(hStream, pctx, true, [](const Stream &stream) { return handle_of<CUcontext>(owner_of(stream)->handle); });
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
  CUresult result = read(hStream, pCtx, true,
                         [](const Stream &stream) { return handle_of<CUcontext>(stream.context.lock()->handle); });
  return result != CUDA_SUCCESS || pGreenCtx == nullptr ? result : api::cuStreamGetGreenCtx(hStream, pGreenCtx);
}

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx) {
  return read(hStream, phCtx, true, [](const Stream &stream) {
    ContextPtr green = stream.green.lock();
    return handle_of<CUgreenCtx>(green != nullptr ? green->green_handle : 0);
  });
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  StreamPtr stream;
  std::shared_ptr<Event> event;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  if ((Flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_object(state().events, Kind::event, hEvent, event));
  bool is_captured = false, is_external = Flags != 0;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  if (is_external && !is_captured)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (is_external) {
    capture_node(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, make_event_wait(hEvent, event));
    return CUDA_SUCCESS;
  }
  if (is_captured || event->captured != nullptr)
    return capture_wait(stream, event);
  if (UnitPtr recorded = awaited_record(*event))
    enqueue(stream, new_unit("event wait", stream->context.lock()), {recorded});
  return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  SIM_REQUIRE(value_out != nullptr);
  if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    value_out->priority = stream->priority;
    return CUDA_SUCCESS;
  }
  CUstreamAttrValue *value = attribute_of(*stream, attr);
  SIM_REQUIRE(value != nullptr);
  std::memcpy(value_out, value, sizeof *value);
  return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  SIM_REQUIRE(value != nullptr);
  if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    stream->priority = std::clamp(value->priority, greatest_priority, least_priority);
    return CUDA_SUCCESS;
  }
  CUstreamAttrValue *field = attribute_of(*stream, attr);
  SIM_REQUIRE(field != nullptr);
  bool is_policy = attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;
  if (is_policy && (value->syncPolicy < CU_SYNC_POLICY_AUTO || value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC))
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(field, value, sizeof *field);
  return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
  StreamPtr to, from;
  SIM_RETURN_FAILURE(find_stream(dst, to));
  SIM_RETURN_FAILURE(find_stream(src, from));
  to->synchronization_policy = from->synchronization_policy;
  to->access_policy = from->access_policy;
  to->memory_domain = from->memory_domain;
  to->memory_domain_map = from->memory_domain_map;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
