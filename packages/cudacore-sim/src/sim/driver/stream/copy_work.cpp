/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills as work of a stream, or as nodes of the graph that the stream is captured into. */
#include "sim/driver/stream/copy_work.h"

#include "sim/control/report.h"
#include "sim/driver/graph/capture.h"

namespace sim {
namespace {

CUmemorytype type_of(const Side &side) {
  return side.array != nullptr             ? CU_MEMORYTYPE_ARRAY
         : side.kind == MemoryKind::host   ? CU_MEMORYTYPE_HOST
         : side.kind == MemoryKind::device ? CU_MEMORYTYPE_DEVICE
                                           : CU_MEMORYTYPE_UNIFIED;
}

CUresult capture_copy(const StreamPtr &stream, const Side &to, const Side &from, const Shape &shape) {
  ContextPtr context = stream->context.lock();
  SIM_RETURN_FAILURE(check_copy_node(*context, to, from, shape));
  CUDA_MEMCPY3D fields{};
  fields.srcMemoryType = type_of(from);
  fields.dstMemoryType = type_of(to);
  if (from.array != nullptr) {
    fields.srcArray = from.array;
    fields.srcXInBytes = from.origin[0], fields.srcY = from.origin[1], fields.srcZ = from.origin[2];
  } else {
    if (from.kind == MemoryKind::host)
      fields.srcHost = handle_of<const void *>(from.address);
    else
      fields.srcDevice = from.address;
    fields.srcPitch = from.pitch;
    fields.srcHeight = shape.depth > 1 && from.pitch != 0 ? from.slice / from.pitch : 0;
  }
  if (to.array != nullptr) {
    fields.dstArray = to.array;
    fields.dstXInBytes = to.origin[0], fields.dstY = to.origin[1], fields.dstZ = to.origin[2];
  } else {
    if (to.kind == MemoryKind::host)
      fields.dstHost = handle_of<void *>(to.address);
    else
      fields.dstDevice = to.address;
    fields.dstPitch = to.pitch;
    fields.dstHeight = shape.depth > 1 && to.pitch != 0 ? to.slice / to.pitch : 0;
  }
  fields.WidthInBytes = shape.width;
  fields.Height = shape.height;
  fields.Depth = shape.depth;
  capture_node(stream, CU_GRAPH_NODE_TYPE_MEMCPY, make_memcpy(fields, owner_of(*stream), to, from, shape));
  return CUDA_SUCCESS;
}

} // namespace

CUresult copy(const StreamPtr &stream, const Side &to, const Side &from, const Shape &shape, Return when, Read read) {
  if (shape.width == 0 || shape.height == 0 || shape.depth == 0)
    return CUDA_SUCCESS;
  if (is_in_host_pool(to) || is_in_host_pool(from))
    return CUDA_ERROR_INVALID_VALUE;
  ContextPtr context = stream->context.lock();
  bool is_captured = false;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  if (is_captured)
    return when == Return::at_once ? capture_copy(stream, to, from, shape) : check_uncaptured_work(stream);
  CheckedSide target, source;
  SIM_RETURN_FAILURE(check_side(*context, to, shape, true, target));
  SIM_RETURN_FAILURE(check_side(*context, from, shape, false, source));
  report_overlap(to, from, shape);
  bool wait = !target.known || (!source.known && size_of(shape) > max_staged) ||
              (when == Return::when_synchronous && (is_on_host(target) || is_on_host(source)));
  std::shared_ptr<std::vector<std::byte>> kept;
  bool read_before = !source.known || read == Read::during_call;
  if (read_before && !wait && (kept = stage(source, shape)) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  auto outcome = std::make_shared<CUresult>(CUDA_SUCCESS);
  UnitPtr unit = new_unit("copy", context, [context, target, source, shape, kept, outcome] {
    if (copy_now(*context, target, source, shape))
      return;
    if (target.known && (source.known || source.staged))
      fail_unusable(*context);
    else
      *outcome = CUDA_ERROR_INVALID_VALUE; /* the call is waiting, and returns this result */
  });
  if (unit->traced != nullptr)
    describe_shape(*unit->traced, shape);
  enqueue(stream, unit);
  if (!wait)
    return CUDA_SUCCESS;
  state().executor.wait(Call::current().lock, unit);
  if (is_on_host(source))
    show_printed(*context);
  CUresult result = usable(context);
  return result != CUDA_SUCCESS ? result : *outcome;
}

CUresult fill(const StreamPtr &stream, const Side &to, const Shape &shape, uint32_t value, unsigned bytes,
              Return when) {
  if (shape.width == 0 || shape.height == 0)
    return CUDA_SUCCESS;
  if (to.address % bytes != 0 || (shape.height > 1 && to.pitch % bytes != 0))
    return CUDA_ERROR_INVALID_VALUE;
  ContextPtr context = stream->context.lock();
  bool is_captured = false;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  if (is_captured) {
    ContextPtr owner = owner_of(*stream);
    CUDA_MEMSET_NODE_PARAMS_v2 fields{
        to.address, to.pitch, value, bytes, shape.width / bytes, shape.height, handle_of<CUcontext>(owner->handle)};
    capture_node(stream, CU_GRAPH_NODE_TYPE_MEMSET, make_memset(fields, owner, to, shape));
    return CUDA_SUCCESS;
  }
  CheckedSide target;
  /* The driver fills by a kernel, which needs access to the memory. For copies, no such access is needed. */
  if (AllocationPtr filled = state().memory.find(to.address);
      filled != nullptr && !may_access(*context, *filled, true)) {
    explain("a fill writes to " + hex(to.address) + ", " + state().memory.explain(to.address) + ": device " +
            std::to_string(context->device->ordinal) +
            " has no access to it (cuCtxEnablePeerAccess, cuMemPoolSetAccess)");
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIM_RETURN_FAILURE(check_side(*context, to, shape, true, target));
  UnitPtr unit = new_unit("fill", context, fill_work(context, to, shape, value, bytes));
  if (unit->traced != nullptr)
    describe_shape(*unit->traced, shape);
  enqueue(stream, unit);
  if (when == Return::at_once || !is_on_host(target))
    return CUDA_SUCCESS;
  state().executor.wait(Call::current().lock, unit);
  return usable(context);
}

} // namespace sim
