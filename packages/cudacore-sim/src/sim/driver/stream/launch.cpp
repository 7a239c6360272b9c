/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuLaunchKernel and similar functions: a launch is work of a stream, or a node of the graph that the stream is
 * captured into.
 */
#include "sim/driver/device/green.h"
#include "sim/driver/graph/capture.h"

#include <algorithm>
#include <cstdlib>

namespace sim {
namespace {

CUresult read_attributes(const CUlaunchAttribute *attributes, unsigned count, LaunchRequest &request) {
  for (unsigned i = 0; i < count; i++)
    SIM_RETURN_FAILURE(read_attribute(attributes[i], request));
  return CUDA_SUCCESS;
}

/* Adds a captured launch to the graph, as a node. */
void capture_launch(const StreamPtr &stream, CUfunction handle, const Callable &what, const LaunchRequest &request,
                    std::vector<std::byte> arguments, bool as_block) {
  KernelAttributes attributes;
  for (const CUlaunchAttribute &attribute : request.attributes)
    if (is_node_attribute(attribute.id))
      attributes[attribute.id] = attribute.value;
  CUlaunchAttributeValue value{};
  value.cooperative = 1;
  if (request.cooperative)
    attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE] = value;
  value = {};
  value.priority = request.priority.value_or(stream->priority);
  if (value.priority != 0)
    attributes[CU_LAUNCH_ATTRIBUTE_PRIORITY] = value;
  ParamsPtr params = make_kernel(value_of(handle), what, owner_of(*stream), request, std::move(arguments), as_block,
                                 std::move(attributes));
  NodePtr node = capture_node(stream, CU_GRAPH_NODE_TYPE_KERNEL, std::move(params), request.programmatic);
  for (const auto &[event, port] : request.events)
    capture_record(node, *stream->capture, *event, port);
}

bool launches_block() {
  static const bool result = [] {
    const char *setting = std::getenv("CUDA_LAUNCH_BLOCKING");
    return setting != nullptr && std::atoi(setting) != 0;
  }();
  return result;
}

CUresult launch_kernel(CUfunction handle, LaunchRequest request, CUstream stream_handle, void **parameters,
                       void **extra) {
  State &s = state();
  StreamPtr stream;
  Callable what;
  if (handle == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  SIM_RETURN_FAILURE(find_stream(stream_handle, stream));
  ContextPtr context = stream->context.lock();
  SIM_RETURN_FAILURE(find_callable(handle, context, what));
  if (what.context != context)
    return CUDA_ERROR_INVALID_HANDLE;
  for (const auto &[event, port] : request.events)
    if (event->context.lock() != context)
      return CUDA_ERROR_INVALID_HANDLE;
  bool is_captured = false;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  std::vector<std::byte> arguments;
  const Dim3 asked_cluster = request.cluster;
  SIM_RETURN_FAILURE(read_arguments(what.info(), parameters, extra, arguments));
  SIM_RETURN_FAILURE(is_captured ? CUDA_SUCCESS : check_code(what));
  request.multiprocessors = multiprocessors_of(*stream);
  if (CUresult result = check_sizes(what, *context->device, request)) {
    if (is_captured)
      invalidate_capture(*stream);
    return result;
  }
  if (is_captured) {
    request.cluster = asked_cluster;
    capture_launch(stream, handle, what, request, std::move(arguments), parameters == nullptr && extra != nullptr);
    return CUDA_SUCCESS;
  }
  std::function<void()> work;
  SIM_RETURN_FAILURE(kernel_work(what, request, arguments, work));
  s.last_launch = {s.last_launch.number + 1,
                   what.info().name,
                   value_of(stream_handle),
                   context->handle,
                   request.grid,
                   request.block,
                   asked_cluster,
                   request.dynamic_shared,
                   request.cooperative,
                   request.programmatic,
                   std::move(arguments)};
  UnitPtr unit = new_unit("kernel", context, std::move(work));
  if (unit->traced != nullptr)
    describe_launch(*unit->traced, what, request);
  if (unit->ordered != nullptr)
    unit->ordered->what = name_of(what);
  enqueue(stream, unit);
  if (request.priority)
    unit->priority = std::clamp(*request.priority, greatest_priority, least_priority);
  for (const auto &[event, port] : request.events) {
    event->captured = nullptr;
    event->recorded = unit;
  }
  if (!launches_block())
    return CUDA_SUCCESS;
  s.executor.wait(Call::current().lock, unit);
  show_printed(*context);
  return context->error;
}

} // namespace

namespace api {

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra) {
  LaunchRequest request;
  request.grid = {gridDimX, gridDimY, gridDimZ};
  request.block = {blockDimX, blockDimY, blockDimZ};
  request.dynamic_shared = sharedMemBytes;
  return launch_kernel(f, std::move(request), hStream, kernelParams, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void **kernelParams) {
  LaunchRequest request;
  request.grid = {gridDimX, gridDimY, gridDimZ};
  request.block = {blockDimX, blockDimY, blockDimZ};
  request.dynamic_shared = sharedMemBytes;
  request.cooperative = true;
  return launch_kernel(f, std::move(request), hStream, kernelParams, nullptr);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
  LaunchRequest request;
  if (config == nullptr || (config->attrs == nullptr && config->numAttrs != 0))
    return CUDA_ERROR_INVALID_VALUE;
  request.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  request.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  request.dynamic_shared = config->sharedMemBytes;
  SIM_RETURN_FAILURE(read_attributes(config->attrs, config->numAttrs, request));
  request.attributes.assign(config->attrs, config->attrs + config->numAttrs);
  return launch_kernel(f, std::move(request), config->hStream, kernelParams, extra);
}

} // namespace api
} // namespace sim
