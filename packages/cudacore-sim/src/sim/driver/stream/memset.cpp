/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemset*. */
#include "sim/driver/stream/copy.h"

#include <optional>

namespace sim {
namespace {

/* Without a stream, the call is synchronous. */
CUresult set(std::optional<CUstream> handle, CUdeviceptr address, size_t pitch, uint32_t value, unsigned bytes,
             size_t count, size_t height) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(handle.value_or(nullptr), stream));
  Shape shape{0, height};
  if (__builtin_mul_overflow(count, size_t{bytes}, &shape.width) || (height > 1 && pitch < shape.width))
    return CUDA_ERROR_INVALID_VALUE;
  return fill(stream, {Place::device, address, pitch}, shape, value, bytes,
              handle.has_value() ? Return::at_once : Return::when_synchronous);
}

} // namespace

namespace api {

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return set(std::nullopt, dstDevice, 0, uc, 1, N, 1);
}

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return set(hStream, dstDevice, 0, uc, 1, N, 1);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height) {
  return set(std::nullopt, dstDevice, dstPitch, uc, 1, Width, Height);
}

CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
                           CUstream hStream) {
  return set(hStream, dstDevice, dstPitch, uc, 1, Width, Height);
}

CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return set(std::nullopt, dstDevice, 0, us, 2, N, 1);
}

CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return set(hStream, dstDevice, 0, us, 2, N, 1);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height) {
  return set(std::nullopt, dstDevice, dstPitch, us, 2, Width, Height);
}

CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
                            CUstream hStream) {
  return set(hStream, dstDevice, dstPitch, us, 2, Width, Height);
}

CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return set(std::nullopt, dstDevice, 0, ui, 4, N, 1);
}

CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return set(hStream, dstDevice, 0, ui, 4, N, 1);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height) {
  return set(std::nullopt, dstDevice, dstPitch, ui, 4, Width, Height);
}

CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
                            CUstream hStream) {
  return set(hStream, dstDevice, dstPitch, ui, 4, Width, Height);
}

} // namespace api
} // namespace sim
