/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls are allowed while streams are captured. */
#include "sim/driver/graph/capture.h"

namespace sim {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* Whether a capture forbids unsafe calls on this thread. */
bool prohibits(const Capture &capture) {
  bool is_own = capture.thread == this_thread();
  if (is_own)
    return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult refuse(const StreamPtr &stream, CUresult code) {
  invalidate_capture(*stream);
  return code;
}

} // namespace

CUresult check_unsafe() {
  if (state().captures.empty() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  bool is_prohibited = false;
  for (const CapturePtr &capture : state().captures)
    if (prohibits(*capture)) {
      invalidate(*capture);
      is_prohibited = true;
    }
  return is_prohibited ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult check_legacy(const StreamPtr &stream, bool invalidates) {
  if (!stream->legacy || state().captures.empty())
    return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  ContextPtr context = stream->context.lock();
  auto look = [&](const StreamPtr &other) {
    if (other->capture == nullptr || !other->blocking())
      return;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (invalidates)
      invalidate(*other->capture->capture);
  };
  for (const StreamPtr &other : context->streams)
    look(other);
  for (const auto &entry : context->per_thread)
    look(entry.second);
  return result;
}

CUresult check_work(const StreamPtr &stream, bool &is_captured) {
  is_captured = stream->capture != nullptr;
  if (is_captured)
    return stream->capture->capture->is_valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return check_legacy(stream, true);
}

CUresult check_uncaptured_work(const StreamPtr &stream) {
  bool is_captured = false;
  SIM_RETURN_FAILURE(check_work(stream, is_captured));
  return is_captured ? refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) : CUDA_SUCCESS;
}

CUresult check_question(const StreamPtr &stream) {
  if (stream->capture != nullptr)
    return refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return check_legacy(stream, true);
}

CUresult check_wait(Context &context) {
  CUresult result = CUDA_SUCCESS;
  for (const CapturePtr &capture : state().captures)
    for (const std::weak_ptr<Stream> &weak : capture->streams)
      if (StreamPtr stream = weak.lock();
          stream != nullptr && (stream->context.lock().get() == &context || stream->green.lock().get() == &context)) {
        invalidate(*capture);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      }
  return result;
}

namespace api {

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  SIM_REQUIRE(mode != nullptr);
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
