/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a matrix in shared memory. The fields of a descriptor are, beginning with the lowest bits: the start of
 * the matrix, two distances between parts of the matrix, and how pieces of 16 bytes are permuted ("swizzle").
 */
#include <utility>

#include "sim/exec/ops/matrix/shared.h"
#include "sim/exec/ops/memory.h"

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
uint32_t MatrixDescriptor::by_line(uint32_t line_byte, uint32_t k) const {
  uint32_t leading = field(16), stride = field(32);
  if (width() == piece_bytes)
    std::swap(leading, stride);
  return swizzled(field(0) + k % lines_together * width() + k / lines_together * stride + line_byte % width() +
                  line_byte / width() * leading);
}

namespace {

/* Returns how many bits of an element are stored in shared memory. Numbers with fewer than 8 bits are adjacent. */
uint32_t stored_bits(Element element) {
  switch (element) {
  case Element::e2m1:
    return 4;
  case Element::e2m3:
  case Element::e3m2:
    return 6;
  default:
    return bits_of(element);
  }
}

/*
 * Stores the elements of a piece of 16 bytes in the matrix, the first one at index `at`, the others `step` apart. After
 * elements with fewer bits than they have in registers, the piece has padding.
 */
void put_piece(const std::byte *from, Element element, MatrixBits &matrix, uint32_t at, uint32_t step) {
  const uint64_t low = load_relaxed<uint64_t>(from), high = load_relaxed<uint64_t>(from + 8);
  const uint32_t bits = stored_bits(element), up = element == Element::e2m1 ? 2 : 0;
  for (uint32_t i = 0; i < 8 * piece_bytes / bits_of(element); ++i) {
    uint32_t bit = i * bits;
    uint64_t value = bit < 64 ? low >> bit | (bit ? high << (64 - bit) : 0) : high >> (bit - 64);
    matrix[at + i * step] = (value & ~uint64_t{0} >> (64 - bits)) << up;
  }
}

} // namespace

void read_lines(Warp &w, const Instruction &ins, uint32_t reader, Element element, uint32_t k, uint64_t descriptor,
                bool by_k, uint32_t first, uint32_t count, MatrixBits &matrix) {
  const MatrixDescriptor where(descriptor);
  const uint64_t own = uint64_t{w.block->rank} << shared_rank_shift;
  const uint32_t bits = bits_of(element), together = 8 * piece_bytes / bits;
  auto piece = [&](uint32_t offset) {
    return locate<StateSpace::shared>(w, ins, reader, own + offset, piece_bytes, false);
  };
  if (by_k) {
    for (uint32_t line = 0; line < count; ++line)
      for (uint32_t t = 0; t < k; t += together)
        put_piece(piece(where.by_k(first + line, t * bits / 8)), element, matrix, line * k + t, 1);
    return;
  }
  /* A piece can have more lines than are read. */
  for (uint32_t t = 0; t < k; ++t) {
    MatrixBits lines;
    for (uint32_t line = first / together * together; line < first + count; line += together) {
      put_piece(piece(where.by_line(line * bits / 8, t)), element, lines, 0, 1);
      for (uint32_t i = 0; i < together; ++i)
        if (line + i >= first && line + i < first + count)
          matrix[(line + i - first) * k + t] = lines[i];
    }
  }
}

void negate(Element element, uint32_t count, MatrixBits &matrix) {
  uint64_t sign = uint64_t{1} << (element == Element::e2m1 || element == Element::e2m3 || element == Element::e3m2
                                      ? 5
                                      : bits_of(element) - 1);
  for (uint32_t i = 0; i < count; ++i)
    matrix[i] ^= sign;
}

} // namespace sim::exec
