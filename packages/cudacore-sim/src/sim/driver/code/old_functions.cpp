/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions from before CUDA 4 that tools still look up, and some call: launches in steps, contexts with reference
 * counts, and configuration of the profiler.
 */
#include "sim/driver/code/code.h"

#include <cstring>

namespace sim {
namespace {

constexpr size_t max_argument_bytes = 4096; /* limit for the arguments of a launch that is made in steps */

CUresult find_launch(CUfunction handle, Callable &what, std::shared_ptr<OldLaunch> &out) {
  SIM_RETURN_FAILURE(find_function(handle, what));
  if (what.settings->old_launch == nullptr)
    what.settings->old_launch = std::make_shared<OldLaunch>();
  out = what.settings->old_launch;
  return CUDA_SUCCESS;
}

CUresult set_argument(CUfunction handle, int offset, const void *value, size_t bytes) {
  Callable what;
  std::shared_ptr<OldLaunch> launch;
  SIM_RETURN_FAILURE(find_launch(handle, what, launch));
  if (offset < 0 || value == nullptr || bytes > max_argument_bytes ||
      static_cast<size_t>(offset) > max_argument_bytes - bytes)
    return CUDA_ERROR_INVALID_VALUE;
  size_t end = static_cast<size_t>(offset) + bytes;
  if (launch->arguments.size() < end)
    launch->arguments.resize(end);
  std::memcpy(launch->arguments.data() + offset, value, bytes);
  return CUDA_SUCCESS;
}

CUresult launch_in_steps(CUfunction handle, int width, int height, CUstream stream) {
  Callable what;
  std::shared_ptr<OldLaunch> launch;
  SIM_RETURN_FAILURE(find_launch(handle, what, launch));
  if (width <= 0 || height <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  size_t size = launch->arguments.size();
  void *arguments[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, launch->arguments.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                       CU_LAUNCH_PARAM_END};
  return api::cuLaunchKernel(handle, static_cast<unsigned>(width), static_cast<unsigned>(height), 1, launch->block[0],
                             launch->block[1], launch->block[2], launch->dynamic_shared, stream, nullptr,
                             size != 0 ? arguments : nullptr);
}

} // namespace

namespace api {

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
  Callable what;
  std::shared_ptr<OldLaunch> launch;
  SIM_RETURN_FAILURE(find_launch(hfunc, what, launch));
  if (x <= 0 || y <= 0 || z <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  launch->block = {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
  return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
  Callable what;
  std::shared_ptr<OldLaunch> launch;
  SIM_RETURN_FAILURE(find_launch(hfunc, what, launch));
  launch->dynamic_shared = bytes;
  return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
  Callable what;
  std::shared_ptr<OldLaunch> launch;
  SIM_RETURN_FAILURE(find_launch(hfunc, what, launch));
  if (numbytes > max_argument_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  launch->arguments.resize(numbytes);
  return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
  return set_argument(hfunc, offset, &value, sizeof value);
}

CUresult cuParamSetf(CUfunction hfunc, int offset, float value) {
  return set_argument(hfunc, offset, &value, sizeof value);
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes) {
  return set_argument(hfunc, offset, ptr, numbytes);
}

CUresult cuLaunch(CUfunction f) { return launch_in_steps(f, 1, 1, nullptr); }

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  return launch_in_steps(f, grid_width, grid_height, nullptr);
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
  return launch_in_steps(f, grid_width, grid_height, hStream);
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags) {
  ContextPtr context;
  if (pctx == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(need_context(context));
  context->attached++;
  *pctx = handle_of<CUcontext>(context->handle);
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx) {
  ContextPtr context, current;
  SIM_RETURN_FAILURE(need_context(current));
  SIM_RETURN_FAILURE(find_context(ctx, context));
  if (context != current)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (context->attached == 0)
    return api::cuCtxDestroy_v2(ctx);
  context->attached--;
  return CUDA_SUCCESS;
}

CUresult cuProfilerInitialize(const char *configFile, const char *outputFile, int outputMode) {
  ContextPtr context;
  SIM_RETURN_FAILURE(need_context(context));
  if (configFile == nullptr || outputFile == nullptr || outputMode < 0 || outputMode > 1)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS; /* nothing is profiled, as with cuProfilerStart */
}

} // namespace api
} // namespace sim
