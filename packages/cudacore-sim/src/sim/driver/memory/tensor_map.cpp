/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps: descriptors of tensors in global memory, which kernels copy from and to. */
#include "sim/isa/tensor_map.h"
#include "sim/control/config.h"
#include "sim/driver/base/state.h"

#include <cstring>

namespace sim {
namespace {

using exec::TensorElement;
using exec::TensorMap;

constexpr uint64_t address_alignment = 16, address_limit = uint64_t{1} << 57, max_dim = uint64_t{1} << 32,
                   max_stride = uint64_t{1} << 40;
constexpr uint32_t max_box = 256, max_element_stride = 8, max_pixels = 1024, max_channels = 256;

bool is_enum(int value, int last) { return value >= 0 && value <= last; }

/* The parameters that all kinds of tensor maps have. */
struct Common {
  CUtensorMapDataType type;
  cuuint32_t rank;
  void *address;
  const cuuint64_t *dims, *strides;
  const cuuint32_t *element_strides;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion l2_promotion;
  CUtensorMapFloatOOBfill fill;
};

CUresult check_device() {
  ContextPtr context;
  if (CUresult code = need_context(context))
    return code;
  return device_attribute(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, *context->device) ? CUDA_SUCCESS
                                                                                             : CUDA_ERROR_NOT_SUPPORTED;
}

bool read_common(const Common &given, TensorMap &out) {
  if (!is_enum(given.type, exec::tensor_element_count - 1) ||
      !is_enum(given.interleave, CU_TENSOR_MAP_INTERLEAVE_32B) || !is_enum(given.swizzle, CU_TENSOR_MAP_SWIZZLE_128B) ||
      !is_enum(given.l2_promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B) ||
      !is_enum(given.fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA))
    return false;
  out.element = static_cast<TensorElement>(given.type);
  out.rank = given.rank;
  out.interleave = given.interleave;
  out.swizzle = given.swizzle;
  out.l2_promotion = given.l2_promotion;
  out.fills_nan = given.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  out.address = value_of(given.address);
  uint64_t unit = given.interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
  if (out.rank < (given.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE ? 1u : 3u) || out.rank > exec::max_tensor_rank ||
      out.address % unit || out.address >= address_limit || given.dims == nullptr || given.element_strides == nullptr ||
      given.strides == nullptr)
    return false;
  if (out.fills_nan && !exec::is_floating(out.element))
    return false;
  for (uint32_t i = 0; i < out.rank; i++) {
    out.dims[i] = given.dims[i];
    out.element_strides[i] = given.element_strides[i];
    if (out.dims[i] == 0 || out.dims[i] > max_dim || out.element_strides[i] == 0 ||
        out.element_strides[i] > max_element_stride)
      return false;
    if (i + 1 == out.rank)
      break;
    out.strides[i] = given.strides[i];
    if (out.strides[i] % unit || out.strides[i] >= max_stride)
      return false;
  }
  return true;
}

uint32_t span_of(uint32_t swizzle) {
  switch (swizzle) {
  case CU_TENSOR_MAP_SWIZZLE_32B:
    return 32;
  case CU_TENSOR_MAP_SWIZZLE_64B:
    return 64;
  default:
    return 128;
  }
}

/* Checks the size of a box. `inner`, `bytes`: the bytes of its innermost dimension, and of the whole box. */
bool check_box(const TensorMap &map, uint64_t inner, uint64_t bytes) {
  if (inner % 16 != 0)
    return false;
  if (map.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
    return true;
  auto room = static_cast<uint64_t>(
      device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, *current_context()->device));
  return bytes <= room && (map.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || inner <= span_of(map.swizzle));
}

CUresult give(CUtensorMap *out, const TensorMap &map) {
  map.write(reinterpret_cast<std::byte *>(out));
  return CUDA_SUCCESS;
}

bool is_place(const CUtensorMap *map) { return map != nullptr; }

} // namespace

namespace api {

CUresult cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill) {
  if (CUresult code = check_device())
    return code;
  TensorMap map;
  if (!is_place(tensorMap) || boxDim == nullptr ||
      !read_common({tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, elementStrides, interleave,
                    swizzle, l2Promotion, oobFill},
                   map))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t bytes = bytes_of(map.element);
  for (uint32_t i = 0; i < map.rank; i++) {
    map.box[i] = boxDim[i];
    if (map.box[i] == 0 || map.box[i] > max_box)
      return CUDA_ERROR_INVALID_VALUE;
    bytes *= map.box[i] / map.element_strides[i];
  }
  if (!check_box(map, uint64_t{map.box[0]} * bytes_of(map.element), bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return give(tensorMap, map);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                 void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                 const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,
                                 cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
                                 const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                 CUtensorMapFloatOOBfill oobFill) {
  if (CUresult code = check_device())
    return code;
  TensorMap map;
  map.im2col = true;
  if (!is_place(tensorMap) || pixelBoxLowerCorner == nullptr || pixelBoxUpperCorner == nullptr || tensorRank < 3 ||
      !read_common({tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, elementStrides, interleave,
                    swizzle, l2Promotion, oobFill},
                   map))
    return CUDA_ERROR_INVALID_VALUE;
  uint32_t spatial = map.rank - 2;
  int limit = spatial == 1 ? 1 << 15 : spatial == 2 ? 1 << 7 : 1 << 4;
  for (uint32_t i = 0; i < spatial; i++) {
    map.lower[i] = pixelBoxLowerCorner[i];
    map.upper[i] = pixelBoxUpperCorner[i];
    for (int corner : {map.lower[i], map.upper[i]})
      if (corner < -limit || corner >= limit)
        return CUDA_ERROR_INVALID_VALUE;
    if (map.dims[i + 1] > INT32_MAX || static_cast<int64_t>(map.dims[i + 1]) + map.upper[i] <= map.lower[i])
      return CUDA_ERROR_INVALID_VALUE;
  }
  map.channels = channelsPerPixel;
  map.pixels = pixelsPerColumn;
  uint64_t inner = uint64_t{map.channels} * bytes_of(map.element);
  if (map.channels == 0 || map.channels > max_channels || map.pixels == 0 || map.pixels > max_pixels ||
      !check_box(map, inner, inner * map.pixels))
    return CUDA_ERROR_INVALID_VALUE;
  return give(tensorMap, map);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress) {
  if (CUresult code = check_device())
    return code;
  if (!is_place(tensorMap) || value_of(globalAddress) == 0 || value_of(globalAddress) % address_alignment ||
      value_of(globalAddress) >= address_limit)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t address = value_of(globalAddress);
  std::memcpy(tensorMap, &address, sizeof address); /* the driver changes the first field without reading the others */
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
