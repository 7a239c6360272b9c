/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemset*. */
#include "sim/driver/stream/copy_work.h"

#include <optional>

namespace sim {
namespace {

/* Fills memory. If no stream is given, the call is synchronous. */
CUresult set(std::optional<CUstream> handle, CUdeviceptr address, size_t pitch, uint32_t value, unsigned bytes,
             size_t count, size_t height) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(handle.value_or(nullptr), stream));
  Shape shape{0, height};
  if (__builtin_mul_overflow(count, size_t{bytes}, &shape.width) || (height > 1 && pitch < shape.width))
    return CUDA_ERROR_INVALID_VALUE;
  return fill(stream, {MemoryKind::device, address, pitch}, shape, value, bytes,
              handle.has_value() ? Return::at_once : Return::when_synchronous);
}

} // namespace

namespace api {

/*
 * The functions for values of one size:
 *
 *   cuMemsetD8_v2, cuMemsetD8Async, cuMemsetD2D8_v2, cuMemsetD2D8Async;
 *   cuMemsetD16_v2, cuMemsetD16Async, cuMemsetD2D16_v2, cuMemsetD2D16Async;
 *   cuMemsetD32_v2, cuMemsetD32Async, cuMemsetD2D32_v2, cuMemsetD2D32Async.
 */
#define SIM_MEMSET(SIZE, Value)                                                                                        \
  CUresult cuMemset##SIZE##_v2(CUdeviceptr address, Value value, size_t count) {                                       \
    return set(std::nullopt, address, 0, value, sizeof value, count, 1);                                               \
  }                                                                                                                    \
  CUresult cuMemset##SIZE##Async(CUdeviceptr address, Value value, size_t count, CUstream stream) {                    \
    return set(stream, address, 0, value, sizeof value, count, 1);                                                     \
  }                                                                                                                    \
  CUresult cuMemsetD2##SIZE##_v2(CUdeviceptr address, size_t pitch, Value value, size_t width, size_t height) {        \
    return set(std::nullopt, address, pitch, value, sizeof value, width, height);                                      \
  }                                                                                                                    \
  CUresult cuMemsetD2##SIZE##Async(CUdeviceptr address, size_t pitch, Value value, size_t width, size_t height,        \
                                   CUstream stream) {                                                                  \
    return set(stream, address, pitch, value, sizeof value, width, height);                                            \
  }
SIM_MEMSET(D8, unsigned char)
SIM_MEMSET(D16, unsigned short)
SIM_MEMSET(D32, unsigned int)
#undef SIM_MEMSET

} // namespace api
} // namespace sim
