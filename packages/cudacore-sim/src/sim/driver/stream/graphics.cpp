/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources of graphics. The simulator has no OpenGL: cudasim_gl_buffer creates buffers that take the place of
 * OpenGL's. If no such buffer exists, there is no OpenGL context.
 */
#include "sim/driver/stream/graphics.h"

#include "sim/control/report.h"
#include "sim/driver/base/capture_rules.h"
#include "cudacore_sim.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

constexpr CUresult no_opengl = CUDA_ERROR_INVALID_GRAPHICS_CONTEXT;

CUresult register_resource(CUgraphicsResource *out, unsigned name, unsigned target, unsigned flags) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_current(context));
  SIM_REQUIRE(out != nullptr);
  State &s = state();
  if (s.gl_buffers.empty())
    return refuse(no_opengl, "there is no OpenGL on the simulated driver, and no context of it: " +
                                 std::string(symbol_of(Call::current().entry)) +
                                 " answers CUDA_ERROR_INVALID_GRAPHICS_CONTEXT (cudacore_sim.GLBuffer stands in for a "
                                 "buffer of OpenGL, in tests)");
  /* Buffers accept one of two flags, images one of four. */
  const bool known = flags <= 2 || (target != 0 && (flags == 4 || flags == 8));
  if (name == 0 || !known)
    return CUDA_ERROR_INVALID_VALUE;
  auto buffer = s.gl_buffers.find(name);
  if (buffer == s.gl_buffers.end())
    return CUDA_ERROR_INVALID_HANDLE;
  auto resource = std::make_shared<GraphicsResource>();
  resource->context = context;
  resource->buffer = buffer->second;
  resource->is_image = target != 0;
  resource->handle = s.graphics.add(resource);
  *out = handle_of<CUgraphicsResource>(resource->handle);
  return CUDA_SUCCESS;
}

/* The driver crashes if it gets a handle that is neither a resource nor null (13.0, H200). */
CUresult find(CUgraphicsResource handle, std::shared_ptr<GraphicsResource> &out) {
  CUresult result = find_object(state().graphics, Kind::graphics, handle, out);
  if (result != CUDA_SUCCESS && handle != nullptr && !state().graphics.was_destroyed(value_of(handle)))
    report(std::string(symbol_of(Call::current().entry)) + " was given " + hex(value_of(handle)) +
           ", which is not a graphics resource: here the driver crashes");
  return result;
}

/* Finds the resources of a call. `mapped`: whether all of them must be mapped; otherwise none of them may be. */
CUresult find_all(unsigned count, const CUgraphicsResource *handles, bool mapped,
                  std::vector<std::shared_ptr<GraphicsResource>> &out) {
  if (count == 0 || handles == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    std::shared_ptr<GraphicsResource> resource;
    SIM_RETURN_FAILURE(find(handles[i], resource));
    if ((resource->memory != nullptr) != mapped)
      return mapped ? CUDA_ERROR_NOT_MAPPED : CUDA_ERROR_ALREADY_MAPPED;
    if (std::find(out.begin(), out.end(), resource) != out.end()) /* the resource was given twice */
      return mapped ? CUDA_ERROR_NOT_MAPPED : CUDA_ERROR_ALREADY_MAPPED;
    out.push_back(std::move(resource));
  }
  return CUDA_SUCCESS;
}

/* Finds the resources and the stream of a call that maps or unmaps. */
CUresult find_work(unsigned count, const CUgraphicsResource *resources, bool mapped, CUstream handle,
                   std::vector<std::shared_ptr<GraphicsResource>> &found, StreamPtr &stream) {
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  SIM_RETURN_FAILURE(find_all(count, resources, mapped, found));
  return check_uncaptured_work(stream);
}

/*
 * Submits a copy from or to a buffer, after the last such copy, which may be in another stream. Otherwise, mapping
 * could copy contents that unmapping has yet to write, or write to memory that unmapping has released.
 */
void enqueue_copy(GraphicsBuffer &buffer, const StreamPtr &stream, const UnitPtr &unit) {
  UnitPtr last = buffer.last_copy.lock();
  if (last == nullptr) { /* the copy was done long ago, but the new one is still ordered after it */
    last = std::make_shared<Unit>();
    last->done = true;
    last->ordered = buffer.last_ordered;
    last->traced = buffer.last_traced;
  }
  enqueue(stream, unit, {last});
  buffer.last_copy = unit;
  buffer.last_ordered = unit->ordered;
  buffer.last_traced = unit->traced;
}

/* Copies the contents of the mapped memory back to the buffer, and frees the memory, in the order of a stream. */
void unmap(GraphicsResource &resource, const StreamPtr &stream) {
  AllocationPtr memory = std::move(resource.memory);
  resource.memory = nullptr;
  UnitPtr unit = new_unit(
      "unmap", stream->context.lock(),
      [memory, buffer = resource.buffer] {
        std::memcpy(buffer->contents.data(), memory->host, buffer->contents.size());
      },
      [memory] { release_memory(memory, "cuGraphicsUnmapResources"); });
  enqueue_copy(*resource.buffer, stream, unit);
}

} // namespace

void forget_graphics() {
  for (const auto &resource : state().graphics.all())
    state().graphics.remove(resource->handle);
}

namespace api {

CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *pCudaResource, unsigned int buffer, unsigned int Flags) {
  return register_resource(pCudaResource, buffer, 0, Flags);
}

CUresult cuGraphicsGLRegisterImage(CUgraphicsResource *pCudaResource, unsigned int image, unsigned int target,
                                   unsigned int Flags) {
  return target == 0 ? CUDA_ERROR_INVALID_VALUE : register_resource(pCudaResource, image, target, Flags);
}

CUresult cuGraphicsUnregisterResource(CUgraphicsResource resource) {
  std::shared_ptr<GraphicsResource> found;
  SIM_RETURN_FAILURE(find(resource, found));
  if (found->memory != nullptr)
    return CUDA_ERROR_ALREADY_MAPPED;
  state().graphics.remove(found->handle);
  return CUDA_SUCCESS;
}

CUresult cuGraphicsMapResources(unsigned int count, CUgraphicsResource *resources, CUstream hStream) {
  std::vector<std::shared_ptr<GraphicsResource>> found;
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_work(count, resources, false, hStream, found, stream));
  ContextPtr context = stream->context.lock();
  for (const auto &resource : found) {
    SIM_RETURN_FAILURE(new_device_memory(context, resource->buffer->contents.size(), resource->memory));
    resource->memory->internal = true; /* the application cannot free the memory by its address */
    enqueue_copy(*resource->buffer, stream,
                 new_unit("map", context, [memory = resource->memory, buffer = resource->buffer] {
                   std::memcpy(memory->host, buffer->contents.data(), buffer->contents.size());
                 }));
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphicsUnmapResources(unsigned int count, CUgraphicsResource *resources, CUstream hStream) {
  std::vector<std::shared_ptr<GraphicsResource>> found;
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_work(count, resources, true, hStream, found, stream));
  for (const auto &resource : found)
    unmap(*resource, stream);
  return CUDA_SUCCESS;
}

CUresult cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *pDevPtr, size_t *pSize, CUgraphicsResource resource) {
  std::shared_ptr<GraphicsResource> found;
  SIM_RETURN_FAILURE(find(resource, found));
  if (found->memory == nullptr)
    return CUDA_ERROR_NOT_MAPPED;
  if (found->is_image)
    return CUDA_ERROR_NOT_MAPPED_AS_POINTER;
  store_optional(pDevPtr, found->memory->base);
  store_optional(pSize, found->memory->size);
  return CUDA_SUCCESS;
}

CUresult cuGraphicsResourceSetMapFlags_v2(CUgraphicsResource resource, unsigned int flags) {
  std::shared_ptr<GraphicsResource> found;
  SIM_RETURN_FAILURE(find(resource, found));
  if (found->memory != nullptr)
    return CUDA_ERROR_ALREADY_MAPPED;
  return flags <= 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace api
} // namespace sim

using namespace sim;

extern "C" {

unsigned cudasim_gl_buffer(size_t size, void **data) {
  std::lock_guard<std::mutex> guard(state().mutex);
  unsigned name = ++state().last_gl_buffer;
  auto buffer = std::make_shared<GraphicsBuffer>();
  buffer->contents.resize(size);
  if (data != nullptr)
    *data = buffer->contents.data();
  state().gl_buffers[name] = std::move(buffer);
  return name;
}

int cudasim_gl_delete(unsigned name) {
  std::lock_guard<std::mutex> guard(state().mutex);
  return state().gl_buffers.erase(name) != 0 ? 0 : -1;
}
}
