/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse matrices: half of the numbers are zero and not stored. Metadata words hold the positions of the stored
 * numbers.
 */
#include <algorithm>

#include "sim/isa/matrix.h"
#include "sim/exec/warp.h"

namespace sim::exec {

namespace {

/*
 * Returns the number of columns in a chunk, half of which are stored: two for tf32, eight (four pairs) for 4-bit
 * integers, and four for other types.
 */
uint32_t chunk_of(Element element) { return bits_of(element) == 4 ? 8 : bits_of(element) == 32 ? 2 : 4; }

/*
 * Returns the position in its chunk of the stored number or pair with the index `which`. The position has two bits, or
 * one bit in chunks of two columns.
 */
uint32_t place_in(Element element, uint32_t chunk_bits, uint32_t which) {
  return bits_of(element) == 32 ? chunk_bits >> 3 & 1 : chunk_bits >> 2 * which & 3;
}

} // namespace

uint32_t selectors_of(const Fragment &a) {
  uint32_t chunks = a.shape.k / chunk_of(a.element); /* chunks of a row; each of them has four bits of metadata */
  return chunks == 4 ? 4 : chunks == 8 ? 2 : 1;
}

/*
 * Each group of four lanes holds the metadata words of row r and of row r + 8. The words are in one or two of these
 * lanes, which the selector determines, or in all four. For numbers of 16 bits and more, each half of a word belongs to
 * one of the two rows. For smaller numbers, a whole word belongs to one row.
 */
void expand(const MatrixProduct &product, const uint64_t *words, MatrixBits &a) {
  const Fragment &fragment = product.a;
  const uint32_t k = fragment.shape.k, chunk = chunk_of(fragment.element), chunks = k / chunk;
  const uint32_t unit = chunk == 8 ? 2 : 1, there = chunk / 2 / unit; /* columns of a unit; units stored in a chunk */
  const MatrixBits packed = a;
  std::fill_n(a.begin(), fragment.shape.m * k, absent_element);
  for (uint32_t row = 0; row < fragment.shape.m; ++row)
    for (uint32_t c = 0; c < chunks; ++c) {
      uint32_t lower = row / 8, lane = row % 8 * 4, shift = c % 8 * 4;
      if (bits_of(fragment.element) >= 16) { /* each half of a word is for one row */
        lane += chunks == 4 ? product.selector : 2 * product.selector + c / 4;
        shift = 16 * lower + c % 4 * 4;
      } else {
        lane += 2 * (chunks == 8 ? product.selector : c / 8) + lower;
      }
      uint32_t bits = get<uint32_t>(words, lane) >> shift & 15;
      for (uint32_t which = 0; which < there; ++which)
        for (uint32_t i = 0; i < unit; ++i)
          a[row * k + c * chunk + place_in(fragment.element, bits, which) * unit + i] =
              packed[row * (k / 2) + (c * there + which) * unit + i];
    }
}

} // namespace sim::exec
