/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of a tensor map in 128 bytes. */
#include "sim/isa/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace sim::exec {

namespace {

/*
 * The bit positions of the fields, as in the tensor maps of an H200's driver. Numbers that cannot be zero are stored
 * minus one.
 */
constexpr uint32_t address_at = 0, im2col_at = 64, rank_at = 68, element_at = 71, interleave_at = 75, swizzle_at = 77,
                   fill_at = 79, tf32_at = 80, l2_at = 81, stride_at = 96, high_stride_at = 224, dim_at = 256,
                   element_stride_at = 416, inner_at = 440, box_at = 448, corner_at = 448, upper_at = 464,
                   pixel_at = 480, bytes_at = 512, alignment_at = 576;

/* The number in a tensor map of each element type. TF32 has the number of f32; a flag tells them apart. */
constexpr uint8_t element_codes[tensor_element_count] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7, 8};

uint64_t take(const std::byte *from, uint32_t at, uint32_t bits) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < bits; i++) {
    uint32_t bit = at + i;
    value |= uint64_t{std::to_integer<uint32_t>(from[bit / 8] >> (bit % 8)) & 1} << i;
  }
  return value;
}
void put(std::byte *out, uint32_t at, uint32_t bits, uint64_t value) {
  for (uint32_t i = 0; i < bits; i++) {
    uint32_t bit = at + i;
    auto mask = std::byte{1} << (bit % 8);
    out[bit / 8] = value >> i & 1 ? out[bit / 8] | mask : out[bit / 8] & ~mask;
  }
}

/*
 * Returns the number of bits that a coordinate of a corner of the bounding box has, which depends on the number of
 * dimensions.
 */
uint32_t corner_bits(uint32_t rank) { return rank == 3 ? 16 : rank == 4 ? 8 : 5; }
int32_t signed_of(uint64_t value, uint32_t bits) {
  return static_cast<int32_t>(value ^ uint64_t{1} << (bits - 1)) - (int32_t{1} << (bits - 1));
}

} // namespace

uint32_t bytes_of(TensorElement element) {
  switch (element) {
  case TensorElement::u8:
    return 1;
  case TensorElement::u16:
  case TensorElement::f16:
  case TensorElement::bf16:
    return 2;
  case TensorElement::u64:
  case TensorElement::s64:
  case TensorElement::f64:
    return 8;
  default:
    return 4;
  }
}
bool is_floating(TensorElement element) { return element >= TensorElement::f16; }

void TensorMap::write(std::byte *out) const {
  std::memset(out, 0, tensor_map_bytes);
  bool is_tf32 = element == TensorElement::tf32 || element == TensorElement::tf32_ftz;
  uint64_t moved = bytes_of(element);
  put(out, address_at, 64, address);
  put(out, im2col_at, 1, im2col);
  put(out, rank_at, 3, rank - 1);
  put(out, element_at, 4, element_codes[static_cast<size_t>(element)]);
  put(out, interleave_at, 2, interleave);
  put(out, swizzle_at, 2, swizzle);
  put(out, fill_at, 1, fills_nan);
  put(out, tf32_at, 1, is_tf32);
  put(out, l2_at, 2, l2_promotion);
  for (uint32_t i = 0; i < rank; i++) {
    put(out, dim_at + 32 * i, 32, dims[i] - 1);
    put(out, element_stride_at + 3 * i, 3, element_strides[i] - 1);
    if (!im2col)
      moved *= box[i] / element_strides[i];
    if (i > 0 && !im2col)
      put(out, box_at + 8 * (i - 1), 8, box[i] - 1);
    if (i + 1 < rank) {
      put(out, stride_at + 32 * i, 32, strides[i] >> 4);
      put(out, high_stride_at + 4 * i, 4, strides[i] >> 36);
    }
  }
  put(out, inner_at, 8, (im2col ? channels : box[0]) - 1);
  if (im2col) {
    uint32_t bits = corner_bits(rank);
    for (uint32_t i = 0; i < rank - 2; i++) {
      put(out, corner_at + bits * i, bits, static_cast<uint32_t>(lower[i]));
      put(out, upper_at + bits * i, bits, static_cast<uint32_t>(upper[i]));
    }
    put(out, pixel_at, 10, pixels - 1);
    moved *= uint64_t{channels} * pixels;
  }
  put(out, bytes_at, 32, moved);
  put(out, alignment_at, 32, swizzle == 0 ? 16 : 128u << swizzle);
}

bool TensorMap::read(const std::byte *from) {
  *this = {};
  im2col = take(from, im2col_at, 1) != 0;
  rank = static_cast<uint32_t>(take(from, rank_at, 3)) + 1;
  bool is_tf32 = take(from, tf32_at, 1) != 0;
  auto code = take(from, element_at, 4);
  const auto *known = std::find(std::begin(element_codes), std::end(element_codes), code);
  if (rank > max_tensor_rank || known == std::end(element_codes))
    return false;
  element = static_cast<TensorElement>(known - std::begin(element_codes));
  if (is_tf32)
    element = element == TensorElement::f32_ftz ? TensorElement::tf32_ftz : TensorElement::tf32;
  address = take(from, address_at, 57);
  interleave = static_cast<uint32_t>(take(from, interleave_at, 2));
  swizzle = static_cast<uint32_t>(take(from, swizzle_at, 2));
  fills_nan = take(from, fill_at, 1) != 0;
  l2_promotion = static_cast<uint32_t>(take(from, l2_at, 2));
  for (uint32_t i = 0; i < rank; i++) {
    dims[i] = take(from, dim_at + 32 * i, 32) + 1;
    element_strides[i] = static_cast<uint32_t>(take(from, element_stride_at + 3 * i, 3)) + 1;
    if (i > 0)
      box[i] = static_cast<uint32_t>(take(from, box_at + 8 * (i - 1), 8)) + 1;
    if (i + 1 < rank)
      strides[i] = take(from, stride_at + 32 * i, 32) << 4 | take(from, high_stride_at + 4 * i, 4) << 36;
  }
  box[0] = channels = static_cast<uint32_t>(take(from, inner_at, 8)) + 1;
  if (uint64_t{channels} * bytes_of(element) % 16 != 0 || (im2col && rank < 3))
    return false;
  if (!im2col)
    return true;
  uint32_t bits = corner_bits(rank);
  for (uint32_t i = 0; i < rank - 2; i++) {
    lower[i] = signed_of(take(from, corner_at + bits * i, bits), bits);
    upper[i] = signed_of(take(from, upper_at + bits * i, bits), bits);
  }
  pixels = static_cast<uint32_t>(take(from, pixel_at, 10)) + 1;
  return true;
}

void replace_field(std::byte *map, TensorField field, uint32_t dimension, uint64_t value) {
  switch (field) {
  case TensorField::global_address:
    return put(map, address_at, 64, value);
  case TensorField::rank: /* PTX gives the rank minus one, as it is stored */
    return put(map, rank_at, 3, value);
  case TensorField::box_dim:
    return put(map, dimension == 0 ? inner_at : box_at + 8 * (dimension - 1), 8, value - 1);
  case TensorField::global_dim:
    return put(map, dim_at + 32 * dimension, 32, value - 1);
  case TensorField::global_stride:
    put(map, stride_at + 32 * dimension, 32, value >> 4);
    return put(map, high_stride_at + 4 * dimension, 4, value >> 36);
  case TensorField::element_stride:
    return put(map, element_stride_at + 3 * dimension, 3, value - 1);
  case TensorField::elemtype: { /* PTX gives the number that is stored, except for TF32, which has larger numbers */
    constexpr uint64_t tf32 = 11, f32 = 7;
    put(map, element_at, 4, value >= tf32 ? value - tf32 + f32 : value);
    return put(map, tf32_at, 1, value >= tf32 ? 1 : 0);
  }
  case TensorField::interleave_layout:
    return put(map, interleave_at, 2, value);
  case TensorField::swizzle_mode:
    return put(map, swizzle_at, 2, value);
  case TensorField::fill_mode:
    return put(map, fill_at, 1, value);
  }
}

} // namespace sim::exec
