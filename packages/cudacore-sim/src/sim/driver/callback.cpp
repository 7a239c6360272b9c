/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the application that run in a stream's order. */
#include "state.h"

namespace sim::api {

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
  StreamPtr stream;
  if (CUresult result = find_stream(hStream, stream))
    return result;
  if (fn == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  enqueue(stream, new_unit("host function", stream->context.lock(), [fn, userData] {
            CallbackScope scope("a host function");
            fn(userData);
          }));
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData, unsigned int syncMode) {
  return syncMode > 1 ? CUDA_ERROR_INVALID_VALUE : api::cuLaunchHostFunc(hStream, fn, userData);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags) {
  StreamPtr stream;
  if (CUresult result = find_stream(hStream, stream))
    return result;
  if (callback == nullptr || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  enqueue(stream, new_unit("stream callback", stream->context.lock(), [hStream, callback, userData] {
            CallbackScope scope("a stream callback");
            callback(hStream, CUDA_SUCCESS, userData);
          }));
  return CUDA_SUCCESS;
}

} // namespace sim::api
