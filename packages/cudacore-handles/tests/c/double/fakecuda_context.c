/* SPDX-License-Identifier: Apache-2.0 */
/* The double's devices, contexts, streams and events. */
#include "double/fakecuda_internal.h"

#include <unistd.h>

/* ---- devices and contexts ---------------------------------------------------------------------------------------- */

CUresult CUDAAPI cuDeviceGetCount(int *count) {
  ENTER(cuDeviceGetCount);
  *count = DEVICES;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER(cuDeviceGet);
  TRY(check_device(ordinal));
  *device = ordinal;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGetAttribute(int *out, CUdevice_attribute attribute, CUdevice device) {
  static const struct {
    CUdevice_attribute attribute;
    int value;
  } known[] = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
  };
  ENTER(cuDeviceGetAttribute);
  TRY(check_device(device));
  if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
    return leave(CUDA_ERROR_INVALID_VALUE);
  *out = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? device + 1 : 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].attribute == attribute)
      *out = known[i].value;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  ENTER(cuDevicePrimaryCtxRetain);
  TRY(check_device(device));
  static uint64_t contexts;
  if (state.contexts[device].u.ctx.retains++ == 0)
    state.contexts[device].u.ctx.id = ++contexts;
  *out = (CUcontext)&state.contexts[device];
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  ENTER(cuDevicePrimaryCtxRelease_v2);
  TRY(check_device(device));
  object *context = &state.contexts[device];
  if (!context->u.ctx.retains) {
    violate("the primary context of device %d is not retained", device);
    return leave(CUDA_ERROR_INVALID_CONTEXT);
  }
  context->u.ctx.retains--;
  if (!context->u.ctx.retains && context->u.ctx.residents)
    violate("the primary context of device %d goes with %zu objects alive in it", device, context->u.ctx.residents);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  ENTER(cuDevicePrimaryCtxGetState);
  TRY(check_device(device));
  *flags = 0;
  *active = state.contexts[device].u.ctx.retains != 0;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long *out) {
  ENTER(cuCtxGetId);
  object *context = depth ? stack[depth - 1] : NULL;
  if (handle)
    TRY(find_object(&context, FAKE_CONTEXT, handle));
  if (!context)
    return leave(CUDA_ERROR_INVALID_CONTEXT);
  bool is_green = context >= state.contexts + DEVICES || context < state.contexts;
  if (!is_green && !context->u.ctx.retains)
    return leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  *out = is_green ? (unsigned long long)(uintptr_t)context : context->u.ctx.id;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *out) {
  ENTER(cuCtxGetCurrent);
  *out = depth ? (CUcontext)stack[depth - 1] : NULL;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) {
  ENTER(cuCtxSetCurrent);
  object *context = NULL;
  if (!handle) {
    if (depth)
      depth--;
    return leave(CUDA_SUCCESS);
  }
  TRY(find_object(&context, FAKE_CONTEXT, handle));
  if (!context->u.ctx.retains)
    violate("the primary context of device %d was released", context->u.ctx.device);
  if (!depth)
    depth = 1;
  stack[depth - 1] = context;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext handle) {
  ENTER(cuCtxPushCurrent_v2);
  object *context = NULL;
  if (!handle || depth == MAX_DEPTH)
    return leave(CUDA_ERROR_INVALID_VALUE);
  TRY(find_object(&context, FAKE_CONTEXT, handle));
  TRY(check_context(context));
  stack[depth++] = context;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *out) {
  ENTER(cuCtxPopCurrent_v2);
  if (!depth) {
    violate("no context is current");
    return leave(CUDA_ERROR_INVALID_CONTEXT);
  }
  depth--;
  if (out)
    *out = (CUcontext)stack[depth];
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
  ENTER(cuCtxGetDevice);
  if (!depth) /* a question, not a misuse */
    return leave(CUDA_ERROR_INVALID_CONTEXT);
  *device = stack[depth - 1]->u.ctx.device;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  ENTER(cuCtxSynchronize);
  object *context;
  TRY(current_context(&context));
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER(cuCtxGetStreamPriorityRange);
  object *context;
  TRY(current_context(&context));
  if (least)
    *least = LEAST_PRIORITY;
  if (greatest)
    *greatest = GREATEST_PRIORITY;
  return leave(CUDA_SUCCESS);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

CUresult make_stream(CUstream *out, object *context, unsigned flags, int priority) {
  if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  object *stream = new_object(FAKE_STREAM);
  if (!stream)
    return CUDA_ERROR_OUT_OF_MEMORY;
  bind_to_context(stream, context);
  stream->u.stream.flags = flags;
  stream->u.stream.priority = priority < GREATEST_PRIORITY ? GREATEST_PRIORITY
                              : priority > LEAST_PRIORITY  ? LEAST_PRIORITY
                                                           : priority;
  *out = (CUstream)stream;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  ENTER(cuStreamCreateWithPriority);
  object *context;
  TRY(current_context(&context));
  return leave(make_stream(out, context, flags, priority));
}

CUresult CUDAAPI cuStreamDestroy(CUstream handle) {
  ENTER(cuStreamDestroy_v2);
  object *stream;
  TRY(find_object(&stream, FAKE_STREAM, handle));
  end_object(stream);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext *out) {
  ENTER(cuStreamGetCtx);
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  *out = (CUcontext)context;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned *flags) {
  ENTER(cuStreamGetFlags);
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  *flags = stream ? stream->u.stream.flags : 0;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int *priority) {
  ENTER(cuStreamGetPriority);
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  *priority = stream ? stream->u.stream.priority : 0;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  ENTER(cuStreamQuery);
  object *stream, *context;
  return leave(find_stream(&stream, &context, handle));
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  ENTER(cuStreamSynchronize);
  object *stream, *context, *capture;
  TRY(find_stream(&stream, &context, handle));
  TRY(find_capture(&capture, stream, handle));
  if (capture) {
    capture->u.stream.capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return leave(check_captures());
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  ENTER(cuStreamWaitEvent);
  object *stream, *context, *event;
  TRY(find_stream(&stream, &context, handle));
  TRY(find_object(&event, FAKE_EVENT, event_handle));
  return leave(flags > CU_EVENT_WAIT_EXTERNAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned flags) {
  ENTER(cuEventCreate);
  object *context;
  TRY(current_context(&context));
  const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if ((flags & ~known) || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
    return leave(CUDA_ERROR_INVALID_VALUE);
  object *event = new_object(FAKE_EVENT);
  if (!event)
    return leave(CUDA_ERROR_OUT_OF_MEMORY);
  bind_to_context(event, home_of(context));
  event->u.event.flags = flags;
  *out = (CUevent)event;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuEventDestroy(CUevent handle) {
  ENTER(cuEventDestroy_v2);
  object *event;
  TRY(find_object(&event, FAKE_EVENT, handle));
  end_object(event);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream_handle) {
  ENTER(cuEventRecord);
  object *event, *stream, *context;
  TRY(find_stream(&stream, &context, stream_handle));
  object *capture;
  TRY(find_capture(&capture, stream, stream_handle));
  TRY(find_object(&event, FAKE_EVENT, handle));
  if (event->context != home_of(context)) {
    violate("the event is of device %d's context, the stream of device %d's", event->context->u.ctx.device,
            context->u.ctx.device);
    return leave(CUDA_ERROR_INVALID_HANDLE);
  }
  event->u.event.recorded = true;
  clock_gettime(CLOCK_MONOTONIC, &event->u.event.time);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuEventQuery(CUevent handle) {
  ENTER(cuEventQuery);
  object *event;
  TRY(find_object(&event, FAKE_EVENT, handle));
  return leave(check_captures());
}

CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
  ENTER(cuEventSynchronize);
  object *event;
  TRY(find_object(&event, FAKE_EVENT, handle));
  return leave(check_captures());
}

static CUresult elapsed(float *milliseconds, CUevent start_handle, CUevent end_handle) {
  object *start, *end;
  CUresult result = find_object(&start, FAKE_EVENT, start_handle);
  if (result == CUDA_SUCCESS)
    result = find_object(&end, FAKE_EVENT, end_handle);
  if (result != CUDA_SUCCESS)
    return result;
  if (!start->u.event.recorded || !end->u.event.recorded ||
      ((start->u.event.flags | end->u.event.flags) & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = (float)((double)(end->u.event.time.tv_sec - start->u.event.time.tv_sec) * 1e3 +
                          (double)(end->u.event.time.tv_nsec - start->u.event.time.tv_nsec) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  ENTER(cuEventElapsedTime);
  return leave(elapsed(milliseconds, start, end));
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
  ENTER(cuEventElapsedTime_v2);
  return leave(elapsed(milliseconds, start, end));
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

static _Thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  ENTER(cuThreadExchangeStreamCaptureMode);
  CUstreamCaptureMode old = capture_mode;
  capture_mode = *mode;
  *mode = old;
  return leave(CUDA_SUCCESS);
}

static void for_each_capture(void (*function)(object *stream, void *argument), void *argument) {
  for (chunk *c = state.chunks[FAKE_STREAM]; c; c = c->next)
    for (int i = 0; i < CHUNK; i++)
      if (c->objects[i].live && c->objects[i].u.stream.capture == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        function(&c->objects[i], argument);
}

static void invalidate_if_in_the_way(object *stream, void *refused) {
  bool own = stream->u.stream.capture_thread == (uint64_t)gettid();
  if (stream->u.stream.mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return;
  if (!own && (stream->u.stream.mode != CU_STREAM_CAPTURE_MODE_GLOBAL || capture_mode != CU_STREAM_CAPTURE_MODE_GLOBAL))
    return;
  stream->u.stream.capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  *(bool *)refused = true;
}

CUresult check_captures(void) {
  bool refused = false;
  for_each_capture(invalidate_if_in_the_way, &refused);
  return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

struct blocking {
  bool found, invalidate;
};

static void look_for_blocking(object *stream, void *opaque) {
  struct blocking *blocking = opaque;
  if (stream->u.stream.flags & CU_STREAM_NON_BLOCKING)
    return;
  blocking->found = true;
  if (blocking->invalidate)
    stream->u.stream.capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

static bool is_legacy(CUstream handle) { return handle == NULL || handle == CU_STREAM_LEGACY; }

CUresult find_capture(object **out, object *stream, CUstream handle) {
  struct blocking blocking = {.invalidate = true};
  *out = NULL;
  if (is_legacy(handle))
    for_each_capture(look_for_blocking, &blocking);
  if (blocking.found)
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (!stream || stream->u.stream.capture == CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_SUCCESS;
  *out = stream;
  return stream->u.stream.capture == CU_STREAM_CAPTURE_STATUS_ACTIVE ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

static CUresult begin_capture(CUstream handle, object *graph, const CUgraphNode *before, size_t count,
                              CUstreamCaptureMode mode) {
  static uint64_t captures;
  object *stream, *context;
  CUresult result = find_stream(&stream, &context, handle);
  if (result != CUDA_SUCCESS)
    return result;
  if (!stream)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->u.stream.capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_ERROR_ILLEGAL_STATE;
  stream->u.stream.makes_graph = graph == NULL;
  stream->u.stream.graph = graph ? graph : new_graph();
  stream->u.stream.last = calloc(count + 1, sizeof *before);
  if (count)
    memcpy(stream->u.stream.last, before, count * sizeof *before);
  stream->u.stream.last_count = count;
  stream->u.stream.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  stream->u.stream.mode = mode;
  stream->u.stream.capture_id = ++captures;
  stream->u.stream.capture_thread = (uint64_t)gettid();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  ENTER(cuStreamBeginCapture_v2);
  return leave(begin_capture(handle, NULL, NULL, 0, mode));
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle, const CUgraphNode *before,
                                             const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
  (void)edges;
  ENTER(cuStreamBeginCaptureToGraph);
  object *graph;
  TRY(find_object(&graph, FAKE_GRAPH, graph_handle));
  return leave(begin_capture(handle, graph, before, count, mode));
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  ENTER(cuStreamEndCapture);
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  if (!stream || stream->u.stream.capture == CU_STREAM_CAPTURE_STATUS_NONE)
    return leave(CUDA_ERROR_ILLEGAL_STATE);
  /* A failure ends it, too. */
  CUresult result = CUDA_SUCCESS;
  if (stream->u.stream.capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (stream->u.stream.mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
           stream->u.stream.capture_thread != (uint64_t)gettid())
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  stream->u.stream.capture = CU_STREAM_CAPTURE_STATUS_NONE;
  free(stream->u.stream.last);
  stream->u.stream.last = NULL;
  *graph = result == CUDA_SUCCESS ? (CUgraph)stream->u.stream.graph : NULL;
  if (result != CUDA_SUCCESS && stream->u.stream.makes_graph)
    end_graph(stream->u.stream.graph);
  stream->u.stream.graph = NULL;
  return leave_with_destructors(result);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *dependencies, size_t count,
                                                   unsigned flags) {
  ENTER(cuStreamUpdateCaptureDependencies);
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  if (!stream || stream->u.stream.capture != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return leave(CUDA_ERROR_ILLEGAL_STATE);
  if (flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    return leave(CUDA_ERROR_NOT_SUPPORTED);
  free(stream->u.stream.last);
  stream->u.stream.last = calloc(count + 1, sizeof *dependencies);
  memcpy(stream->u.stream.last, dependencies, count * sizeof *dependencies);
  stream->u.stream.last_count = count;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  ENTER(cuStreamIsCapturing);
  struct blocking blocking = {.found = false};
  object *stream, *context;
  TRY(find_stream(&stream, &context, handle));
  if (is_legacy(handle))
    for_each_capture(look_for_blocking, &blocking);
  if (blocking.found)
    return leave(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  *status = stream ? stream->u.stream.capture : CU_STREAM_CAPTURE_STATUS_NONE;
  return leave(CUDA_SUCCESS);
}

static CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                             const CUgraphNode **before, size_t *count) {
  object *stream, *context;
  CUresult result = find_stream(&stream, &context, handle);
  if (result != CUDA_SUCCESS)
    return result;
  if (!status)
    return CUDA_ERROR_INVALID_VALUE;
  *status = stream ? stream->u.stream.capture : CU_STREAM_CAPTURE_STATUS_NONE;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_SUCCESS;
  if (id)
    *id = stream->u.stream.capture_id;
  if (graph)
    *graph = (CUgraph)stream->u.stream.graph;
  if (before)
    *before = stream->u.stream.last;
  if (count)
    *count = stream->u.stream.last_count;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id) {
  ENTER(cuStreamGetCaptureInfo);
  return leave(capture_info(handle, status, id, NULL, NULL, NULL));
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                           CUgraph *graph, const CUgraphNode **before, size_t *count) {
  ENTER(cuStreamGetCaptureInfo_v2);
  return leave(capture_info(handle, status, id, graph, before, count));
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                           CUgraph *graph, const CUgraphNode **before, const CUgraphEdgeData **edges,
                                           size_t *count) {
  ENTER(cuStreamGetCaptureInfo_v3);
  if (edges)
    *edges = NULL;
  return leave(capture_info(handle, status, id, graph, before, count));
}
