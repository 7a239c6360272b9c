/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the structures of two- and three-dimensional copies. */
#include "sim/driver/memory/copy.h"

#include "sim/driver/memory/array.h"

namespace sim {
namespace {

/* Makes one side of a copy: a box in an array. Fails if the box exceeds the array. */
CUresult side_of_array(CUarray handle, size_t x, size_t y, size_t z, const Shape &shape, Side &out) {
  std::shared_ptr<Array> array;
  SIM_REQUIRE(handle != nullptr);
  SIM_RETURN_FAILURE(find_array(handle, array));
  uint64_t pitch = array->pitch(), slice = pitch * array->rows();
  auto is_in = [](uint64_t from, uint64_t count, uint64_t all) { return from <= all && count <= all - from; };
  if (!is_in(x, shape.width, pitch) || !is_in(y, shape.height, array->rows()) ||
      !is_in(z, shape.depth, array->planes()))
    return CUDA_ERROR_INVALID_VALUE;
  out = {MemoryKind::device, array->address + z * slice + y * pitch + x, pitch, slice, nullptr, handle, {x, y, z}};
  return CUDA_SUCCESS;
}

/* Makes one side of a copy from fields that the structures of the 2D and the 3D functions both have. */
CUresult side_of(CUmemorytype type, const void *on_host, CUdeviceptr on_device, CUarray array, size_t x, size_t y,
                 size_t z, size_t pitch, size_t rows, const Shape &shape, Side &out) {
  switch (static_cast<int>(type)) {
  case CU_MEMORYTYPE_HOST:
    out = {MemoryKind::host, value_of(on_host)};
    break;
  case CU_MEMORYTYPE_DEVICE:
    out = {MemoryKind::device, on_device};
    break;
  case CU_MEMORYTYPE_UNIFIED:
    out = {MemoryKind::either, on_device};
    break;
  case CU_MEMORYTYPE_ARRAY:
    return side_of_array(array, x, y, z, shape, out);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t needed = 0, offset = 0, skipped = 0;
  bool is_given = pitch != 0; /* a pitch that is given is checked even if there is only one row */
  if (!is_given)
    pitch = shape.width;
  if (rows == 0)
    rows = shape.height;
  if (__builtin_add_overflow(x, shape.width, &needed) || ((is_given || shape.height > 1) && pitch < needed) ||
      __builtin_mul_overflow(pitch, rows, &out.slice) || __builtin_mul_overflow(y, pitch, &offset) ||
      __builtin_mul_overflow(z, out.slice, &skipped) || __builtin_add_overflow(offset, skipped, &offset) ||
      __builtin_add_overflow(offset, x, &offset) || __builtin_add_overflow(out.address, offset, &out.address))
    return CUDA_ERROR_INVALID_VALUE;
  if (shape.depth > 1 && rows < shape.height)
    return CUDA_ERROR_INVALID_VALUE;
  out.pitch = pitch;
  return CUDA_SUCCESS;
}

/* The two sides of a copy, from CUDA_MEMCPY3D or from CUDA_MEMCPY3D_PEER, which has the same fields. */
template <class Parameters> CUresult sides_of(const Parameters &p, Side &to, Side &from, Shape &shape) {
  shape = {p.WidthInBytes, p.Height, p.Depth};
  if ((p.srcMemoryType == CU_MEMORYTYPE_ARRAY && p.srcLOD != 0) ||
      (p.dstMemoryType == CU_MEMORYTYPE_ARRAY && p.dstLOD != 0))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(side_of(p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, p.srcZ,
                             p.srcPitch, p.srcHeight, shape, from));
  return side_of(p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch,
                 p.dstHeight, shape, to);
}

} // namespace

CUresult read_copy(const CUDA_MEMCPY2D &fields, Side &to, Side &from, Shape &shape) {
  const CUDA_MEMCPY2D &p = fields;
  shape = {p.WidthInBytes, p.Height};
  SIM_RETURN_FAILURE(side_of(p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, 0, p.srcPitch,
                             0, shape, from));
  return side_of(p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, 0, p.dstPitch, 0, shape,
                 to);
}

CUresult read_copy(const CUDA_MEMCPY3D &fields, Side &to, Side &from, Shape &shape) {
  return sides_of(fields, to, from, shape);
}

CUresult read_copy(const CUDA_MEMCPY3D_PEER &fields, Side &to, Side &from, Shape &shape) {
  return sides_of(fields, to, from, shape);
}

} // namespace sim
