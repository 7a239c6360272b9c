/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a matrix in shared memory. The fields of a descriptor are, beginning with the lowest bits: the start of
 * the matrix, two distances between parts of the matrix, and how pieces of 16 bytes are permuted ("swizzle").
 */
#include <utility>

#include "sim/isa/matrix.h"

namespace sim::exec {

namespace {

constexpr uint32_t lines_together = 8;

} // namespace

/* Returns the number of bytes of a line that are adjacent: 16, or the width of the swizzle pattern. */
uint32_t MatrixDescriptor::width() const {
  auto mode = static_cast<uint32_t>(bits_ >> 62);
  return mode == 0 ? piece_bytes : 256u >> mode;
}

/*
 * Returns the permuted offset of a piece of 16 bytes. The number of the piece in its line is combined (xor) with the
 * number of its 128-byte unit, counted from the start of the pattern. The base offset of the descriptor determines
 * where the pattern starts.
 */
uint32_t MatrixDescriptor::swizzled(uint32_t offset) const {
  auto base = static_cast<uint32_t>(bits_ >> 49 & 7) << 7;
  return offset ^ ((offset - base) >> 3 & (width() - piece_bytes));
}

uint32_t MatrixDescriptor::by_k(uint32_t line, uint32_t k_byte) const {
  uint32_t leading = field(16), stride = field(32);
  return swizzled(field(0) + line % lines_together * width() + line / lines_together * stride + k_byte % width() +
                  k_byte / width() * leading);
}

/* Eight consecutive places in k are stored together. Without swizzling, the two distances have each other's meaning. */
uint32_t MatrixDescriptor::by_line(uint32_t line, uint32_t k) const {
  uint32_t leading = field(16), stride = field(32), line_byte = line * 2;
  if (width() == piece_bytes)
    std::swap(leading, stride);
  return swizzled(field(0) + k % lines_together * width() + k / lines_together * stride + line_byte % width() +
                  line_byte / width() * leading);
}

} // namespace sim::exec
