/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_TENSOR_MAP_H
#define CUDACORE_SIM_ISA_TENSOR_MAP_H

#include <array>
#include <cstddef>
#include <cstdint>

/*
 * Tensor maps. A tensor map is a descriptor of 128 bytes. It describes a tensor in global memory, and the parts of the
 * tensor that copies move.
 */
namespace sim::exec {

constexpr size_t tensor_map_bytes = 128, tensor_map_alignment = 64;
constexpr uint32_t max_tensor_rank = 5;

/* The element types, with the numbers of CUtensorMapDataType. */
enum class TensorElement : uint8_t { u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32_ftz, tf32, tf32_ftz };
constexpr uint32_t tensor_element_count = 13;
uint32_t bytes_of(TensorElement element);
bool is_floating(TensorElement element);

struct TensorMap {
  bool im2col = false;
  TensorElement element = TensorElement::u8;
  uint32_t rank = 1;
  uint32_t interleave = 0;   /* the size of interleaved slices: 1 is 16 bytes, 2 is 32 bytes; 0: not interleaved */
  uint32_t swizzle = 0;      /* a CUtensorMapSwizzle */
  uint32_t l2_promotion = 0; /* a hint */
  bool fills_nan = false;    /* loads fill elements out of bounds with NaN, not zero */
  uint64_t address = 0;
  std::array<uint64_t, max_tensor_rank> dims{};        /* number of elements; the innermost dimension comes first */
  std::array<uint64_t, max_tensor_rank - 1> strides{}; /* bytes; from the second dimension on */
  std::array<uint32_t, max_tensor_rank> element_strides{};
  std::array<uint32_t, max_tensor_rank> box{}; /* the size of the box, in a tiled map */
  std::array<int32_t, 3> lower{}, upper{};     /* the corners of the bounding box in an im2col map: W, H, D */
  uint32_t channels = 0, pixels = 0;           /* only for im2col maps */

  void write(std::byte *out) const; /* writes all 128 bytes */
  /* Reads a tensor map from 128 bytes. Returns false if no encoder can have written these bytes. */
  bool read(const std::byte *from);
};

/*
 * The fields that tensormap.replace writes. If a field has a value for each dimension, such as box_dim, only the value
 * of one dimension is written at a time.
 */
enum class TensorField : uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode
};
constexpr uint32_t tensor_field_count = 10;
/* Writes a field in the way of an H200: bits that do not fit are lost, and the value is not checked. */
void replace_field(std::byte *map, TensorField field, uint32_t dimension, uint64_t value);

} // namespace sim::exec

#endif
