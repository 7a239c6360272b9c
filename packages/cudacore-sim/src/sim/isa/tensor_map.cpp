/* SPDX-License-Identifier: Apache-2.0 */
/* The 128 bytes of a tensor map. */
#include "sim/isa/tensor_map.h"

#include <cstring>

namespace sim::exec {

namespace {

/* Where the fields are, in bits. */
constexpr uint32_t address_at = 0, mode_at = 64, rank_at = 68, element_at = 72, interleave_at = 76, swizzle_at = 78,
                   fill_at = 81, l2_at = 82, stride_at = 96, stride_bits = 36, dim_at = 256, element_stride_at = 416,
                   box_at = 448, corner_at = 512, channel_at = 608, pixel_at = 624;

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
  put(out, address_at, 64, address);
  put(out, mode_at, 4, im2col ? 2 : 1);
  put(out, rank_at, 3, rank);
  put(out, element_at, 4, static_cast<uint32_t>(element));
  put(out, interleave_at, 2, interleave);
  put(out, swizzle_at, 3, swizzle);
  put(out, fill_at, 1, fills_nan);
  put(out, l2_at, 2, l2_promotion);
  for (uint32_t i = 0; i < rank; i++) {
    put(out, dim_at + 32 * i, 32, dims[i] - 1);
    put(out, element_stride_at + 3 * i, 3, element_strides[i] - 1);
    if (!im2col)
      put(out, box_at + 8 * i, 8, box[i] - 1);
    if (i + 1 < rank)
      put(out, stride_at + stride_bits * i, stride_bits, strides[i] / 16);
  }
  if (!im2col)
    return;
  for (uint32_t i = 0; i < 3; i++) {
    put(out, corner_at + 16 * i, 16, static_cast<uint32_t>(lower[i]));
    put(out, corner_at + 48 + 16 * i, 16, static_cast<uint32_t>(upper[i]));
  }
  put(out, channel_at, 8, channels - 1);
  put(out, pixel_at, 10, pixels - 1);
}

bool TensorMap::read(const std::byte *from) {
  *this = {};
  auto mode = take(from, mode_at, 4);
  im2col = mode == 2;
  rank = static_cast<uint32_t>(take(from, rank_at, 3));
  auto number = take(from, element_at, 4);
  if (mode < 1 || mode > 2 || rank < 1 || rank > max_tensor_rank || number >= tensor_element_count)
    return false;
  element = static_cast<TensorElement>(number);
  address = take(from, address_at, 64);
  interleave = static_cast<uint32_t>(take(from, interleave_at, 2));
  swizzle = static_cast<uint32_t>(take(from, swizzle_at, 3));
  fills_nan = take(from, fill_at, 1) != 0;
  l2_promotion = static_cast<uint32_t>(take(from, l2_at, 2));
  for (uint32_t i = 0; i < rank; i++) {
    dims[i] = take(from, dim_at + 32 * i, 32) + 1;
    element_strides[i] = static_cast<uint32_t>(take(from, element_stride_at + 3 * i, 3)) + 1;
    box[i] = static_cast<uint32_t>(take(from, box_at + 8 * i, 8)) + 1;
    if (i + 1 < rank)
      strides[i] = take(from, stride_at + stride_bits * i, stride_bits) * 16;
  }
  for (uint32_t i = 0; i < 3; i++) {
    lower[i] = static_cast<int16_t>(take(from, corner_at + 16 * i, 16));
    upper[i] = static_cast<int16_t>(take(from, corner_at + 48 + 16 * i, 16));
  }
  channels = static_cast<uint32_t>(take(from, channel_at, 8)) + 1;
  pixels = static_cast<uint32_t>(take(from, pixel_at, 10)) + 1;
  return true;
}

} // namespace sim::exec
