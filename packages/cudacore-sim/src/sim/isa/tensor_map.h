/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_TENSOR_MAP_H
#define CUDACORE_SIM_ISA_TENSOR_MAP_H

#include <array>
#include <cstddef>
#include <cstdint>

/*
 * Tensor maps. A tensor map is a descriptor of 128 bytes for a tensor in global memory, and for the parts of the tensor
 * that copies move.
 */
namespace sim::exec {

constexpr size_t tensor_map_bytes = 128, tensor_map_alignment = 64;
constexpr uint32_t max_tensor_rank = 5;

/* The numbers are those of CUtensorMapDataType. */
enum class TensorElement : uint8_t { u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32_ftz, tf32, tf32_ftz };
constexpr uint32_t tensor_element_count = 13;
uint32_t bytes_of(TensorElement element);
bool is_floating(TensorElement element);

struct TensorMap {
  bool im2col = false;
  TensorElement element = TensorElement::u8;
  uint32_t rank = 1;
  uint32_t interleave = 0;   /* the size of slices: 1 is 16 bytes, 2 is 32 bytes; 0: no slices */
  uint32_t swizzle = 0;      /* the number of CUtensorMapSwizzle */
  uint32_t l2_promotion = 0; /* a hint */
  bool fills_nan = false;    /* elements out of bounds are NaN, not zero */
  uint64_t address = 0;
  std::array<uint64_t, max_tensor_rank> dims{};        /* elements; the innermost dimension first */
  std::array<uint64_t, max_tensor_rank - 1> strides{}; /* bytes, of the dimensions from the second on */
  std::array<uint32_t, max_tensor_rank> element_strides{};
  std::array<uint32_t, max_tensor_rank> box{}; /* the box of a tiled map */
  std::array<int32_t, 3> lower{}, upper{};     /* corners of the bounding box of an im2col map: W, H, D */
  uint32_t channels = 0, pixels = 0;           /* used in an im2col map */

  void write(std::byte *out) const; /* all 128 bytes */
  /* Reads 128 bytes. False: no encoder can have written them. */
  bool read(const std::byte *from);
};

/*
 * The fields that tensormap.replace writes. A field of a dimension, such as box_dim, is written for one dimension at a
 * time.
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
/* Writes a field as an H200 does: bits that do not fit are lost, and nothing is checked. */
void replace_field(std::byte *map, TensorField field, uint32_t dimension, uint64_t value);

} // namespace sim::exec

#endif
