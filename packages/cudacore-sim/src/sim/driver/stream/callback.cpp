/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the application that run in a stream's order. */
#include "sim/driver/graph/capture.h"

namespace sim {
namespace {

CUresult error_of(const Context &context) {
  std::lock_guard<std::mutex> guard(state().mutex);
  return context.error;
}

} // namespace

namespace api {

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  SIM_REQUIRE(fn != nullptr);
  bool is_captured = false;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  if (is_captured) {
    capture_node(stream, CU_GRAPH_NODE_TYPE_HOST, make_host(fn, userData));
    return CUDA_SUCCESS;
  }
  UnitPtr unit = new_unit("host function", stream->context.lock(), [fn, userData] {
    CallbackScope scope("a host function");
    fn(userData);
  });
  unit->of_application = true;
  enqueue(stream, unit);
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData, unsigned int syncMode) {
  return syncMode > 1 ? CUDA_ERROR_INVALID_VALUE : api::cuLaunchHostFunc(hStream, fn, userData);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(hStream, stream));
  if (callback == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(check_uncaptured_work(stream));
  ContextPtr context = stream->context.lock();
  UnitPtr unit = new_unit("stream callback", context, [hStream, callback, userData, context] {
    CUresult error = error_of(*context);
    CallbackScope scope("a stream callback");
    callback(hStream, error, userData);
  });
  unit->of_application = true;
  unit->runs_after_error = true; /* after an error, the callback is called, with the error */
  enqueue(stream, unit);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
