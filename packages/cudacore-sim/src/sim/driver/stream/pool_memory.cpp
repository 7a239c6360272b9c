/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is allocated and freed in the order of a stream. */
#include "sim/control/report.h"
#include "sim/driver/graph/capture.h"

#include <algorithm>

namespace sim {
namespace {

CUresult capture_allocation(CUdeviceptr *out, size_t size, const Pool &pool, const StreamPtr &stream) {
  CUDA_MEM_ALLOC_NODE_PARAMS fields{};
  ParamsPtr params;
  fields.poolProps.allocType = pool.properties.allocType;
  fields.poolProps.location = pool.properties.location;
  fields.bytesize = size;
  SIM_RETURN_FAILURE(read_alloc(*stream->capture->capture->graph, fields, params));
  capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::move(params));
  *out = fields.dptr;
  return CUDA_SUCCESS;
}

/* Allocates the memory now, and makes it visible in the order of the stream. */
CUresult allocate(CUdeviceptr *out, size_t size, const std::shared_ptr<Pool> &pool, const StreamPtr &stream) {
  State &s = state();
  SIM_REQUIRE(out != nullptr);
  if (pool->imported != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  bool is_captured = false;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  if (!is_captured)
    SIM_RETURN_FAILURE(check_unsafe());
  if (size == 0) {
    *out = 0;
    return CUDA_SUCCESS;
  }
  if (is_captured) /* graphs cannot allocate memory that processes share */
    return pool->properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE ? CUDA_ERROR_NOT_SUPPORTED
                                                                   : capture_allocation(out, size, *pool, stream);
  uint64_t before = pool->reserved;
  if (!pool->reserve(size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t base = 0;
  std::byte *host = nullptr;
  if (!pool->take(size, base, host)) {
    pool->trim(before);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  fill_new_memory(host, size);
  pool->used += size;
  pool->used_high = std::max(pool->used_high, pool->used);
  auto allocation = std::make_shared<Allocation>(Allocation::Kind::pooled, base, size, host, pool->device);
  allocation->pool = pool;
  allocation->visible = false;
  s.memory.add(allocation);
  UnitPtr unit = new_unit("allocation", stream->context.lock());
  unit->finish = [allocation, ordered = unit->ordered] {
    allocation->visible = true;
    state().memory.changed();
    record_access(ordered, allocation->base, allocation->size, AccessKind::allocate);
  };
  enqueue(stream, unit);
  *out = base;
  return CUDA_SUCCESS;
}

void free_graph_memory_in_order(const AllocationPtr &allocation, const StreamPtr &stream) {
  mark_freed(*allocation);
  UnitPtr unit = new_unit("free", stream->context.lock());
  unit->finish = [allocation, ordered = unit->ordered] {
    record_access(ordered, allocation->base, allocation->size, AccessKind::free);
    free_graph_memory(allocation, "cuMemFreeAsync");
  };
  enqueue(stream, unit);
}

/* Frees memory in the order of the stream. Its addresses are not reused for a long time. */
void free_in_order(const AllocationPtr &allocation, const StreamPtr &stream) {
  allocation->freed = true;
  if (allocation->pool != nullptr) {
    allocation->pool->used -= allocation->size;
    allocation->pool->being_freed += allocation->size;
  }
  UnitPtr unit = new_unit("free", stream->context.lock());
  unit->finish = [allocation, ordered = unit->ordered] {
    record_access(ordered, allocation->base, allocation->size, AccessKind::free);
    if (allocation->pool != nullptr)
      allocation->pool->being_freed -= allocation->size;
    if (state().memory.find(allocation->base) == allocation)
      release_memory(allocation, "cuMemFreeAsync");
  };
  enqueue(stream, unit);
}

} // namespace

namespace api {

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  return allocate(dptr, bytesize, stream->context.lock()->device->pools.current, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  StreamPtr stream;
  std::shared_ptr<Pool> found;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  SIM_RETURN_FAILURE(find_pool(pool, found));
  return allocate(dptr, bytesize, found, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  bool is_captured = false;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  if (!is_captured)
    SIM_RETURN_FAILURE(check_unsafe());
  if (dptr == 0)
    return CUDA_SUCCESS;
  if (is_captured) {
    ParamsPtr params;
    SIM_RETURN_FAILURE(read_free(*stream->capture->capture->graph, dptr, params));
    capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, std::move(params));
    return CUDA_SUCCESS;
  }
  AllocationPtr allocation = state().memory.find(dptr);
  bool can_be_freed = allocation != nullptr && allocation->base == dptr && !allocation->freed &&
                      (allocation->kind == Allocation::Kind::pooled || allocation->kind == Allocation::Kind::device ||
                       allocation->kind == Allocation::Kind::graph);
  if (allocation != nullptr && allocation->kind == Allocation::Kind::managed)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!can_be_freed) {
    report("cuMemFreeAsync was given " + hex(dptr) +
           ", which is not the start of an allocation that it frees: " + state().memory.explain(dptr));
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (allocation->kind == Allocation::Kind::graph)
    free_graph_memory_in_order(allocation, stream);
  else
    free_in_order(allocation, stream);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
