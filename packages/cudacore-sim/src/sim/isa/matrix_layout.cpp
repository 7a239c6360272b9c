/* SPDX-License-Identifier: Apache-2.0 */
/* The positions of the elements of a matrix in the registers of a warp. */
#include "sim/isa/matrix.h"

#include <utility>

namespace sim::exec {

uint32_t bits_of(Element element) {
  switch (element) {
  case Element::s4:
  case Element::u4:
  case Element::e2m1_packed:
    return 4;
  case Element::e4m3:
  case Element::e5m2:
  case Element::e2m3:
  case Element::e3m2:
  case Element::e2m1:
  case Element::s8:
  case Element::u8:
    return 8;
  case Element::f16:
  case Element::bf16:
    return 16;
  case Element::f64:
    return 64;
  default:
    return 32;
  }
}

namespace {

bool is_transposed(const Fragment &fragment) { return fragment.spread == Spread::wmma && fragment.shape.n == 32; }

/* The lanes form eight groups of four lanes. Each group holds a row of A, a row of C, and a column of B. */
uint32_t group_of(uint32_t lane) { return lane / 4; }
uint32_t place_of(uint32_t lane) { return lane % 4; }

/*
 * Returns the cell of an element in a tile of A. The tile has 16 rows if `tall`, otherwise 8 rows. The elements of a
 * register are consecutive in k.
 */
MatrixCell a_cell(uint32_t lane, uint32_t index, uint32_t per_register, bool tall) {
  uint32_t number = index / per_register, part = index % per_register;
  uint32_t lower = tall ? number % 2 : 0, right = tall ? number / 2 : number;
  return {group_of(lane) + 8 * lower, (place_of(lane) + 4 * right) * per_register + part, 0};
}
/* Returns the cell of an element in a tile of 8 columns of B. The elements of a register are consecutive in k. */
MatrixCell b_cell(uint32_t lane, uint32_t index, uint32_t per_register) {
  uint32_t number = index / per_register, part = index % per_register;
  return {(place_of(lane) + 4 * number) * per_register + part, group_of(lane), 0};
}
/*
 * Returns the cell of an element in a tile of 8 columns of C. Each lane has two elements of one row, then two elements
 * of the row that is 8 rows below.
 */
MatrixCell c_cell(uint32_t lane, uint32_t index) {
  return {group_of(lane) + 8 * (index / 2), place_of(lane) * 2 + index % 2, 0};
}

/*
 * Returns the cell of an element of mma.m8n8k4. Lanes 0 to 3 and 16 to 19 compute the first product, lanes 4 to 7 and
 * 20 to 23 the second one, and so on.
 */
MatrixCell quad_pair_cell(const Fragment &fragment, uint32_t lane, uint32_t index) {
  uint32_t product = lane % 16 / 4, upper = lane / 16 * 4, place = lane % 4;
  if (fragment.role == MatrixRole::a)
    return fragment.by_row ? MatrixCell{place + upper, index, product} : MatrixCell{index + upper, place, product};
  if (fragment.role == MatrixRole::b)
    return fragment.by_row ? MatrixCell{place, index + upper, product} : MatrixCell{index, place + upper, product};
  if (fragment.element == Element::f16)
    return {place + upper, index, product};
  return {(lane & 1) + (index & 2) + upper, (index & 4) + (lane & 2) + (index & 1), product};
}

MatrixCell mma_cell(const Fragment &fragment, uint32_t lane, uint32_t index) {
  switch (fragment.role) {
  case MatrixRole::a:
    return a_cell(lane, index, fragment.per_register(), fragment.shape.m == 16);
  case MatrixRole::b:
    return b_cell(lane, index, fragment.per_register());
  default:
    return c_cell(lane, index);
  }
}

/*
 * Returns the cell of an element of a wmma matrix, which consists of mma tiles of 16 rows and 8 columns. If there are
 * more registers than elements, the elements are repeated. The shape with 8 rows and 32 columns is the transpose of
 * that with 32 rows and 8 columns.
 */
MatrixCell wmma_cell(const Fragment &fragment, uint32_t lane, uint32_t index) {
  MatrixShape shape = fragment.shape;
  MatrixRole role = fragment.role;
  bool transposed = is_transposed(fragment);
  if (transposed) {
    std::swap(shape.m, shape.n);
    role = role == MatrixRole::a ? MatrixRole::b : role == MatrixRole::b ? MatrixRole::a : role;
  }
  bool tall = shape.m >= 16;
  MatrixCell cell{};
  if (role == MatrixRole::a) {
    uint32_t each = (tall ? 16 : 8) * shape.k / warp_size, tiles = tall ? shape.m / 16 : 1;
    cell = a_cell(lane, index % each, fragment.per_register(), tall);
    cell.row += index / each % tiles * 16;
  } else if (role == MatrixRole::b) {
    uint32_t each = 8 * shape.k / warp_size, tiles = shape.n / 8;
    cell = b_cell(lane, index % each, fragment.per_register());
    cell.column += index / each % tiles * 8;
  } else {
    uint32_t each = tall ? 4 : 2, tile = index / each;
    cell = c_cell(lane, index % each);
    (shape.m == 32 ? cell.row : cell.column) += tile * (shape.m == 32 ? 16 : 8);
  }
  if (transposed)
    std::swap(cell.row, cell.column);
  return cell;
}

} // namespace

uint32_t Fragment::registers_used() const { return products() * rows() * columns() / warp_size / per_register(); }
uint32_t Fragment::registers() const {
  return spread == Spread::wmma && element == Element::f16 && role != MatrixRole::c ? 8 : registers_used();
}
bool Fragment::has_neighbours() const {
  switch (role) {
  case MatrixRole::a:
    return by_row;
  case MatrixRole::b:
    return !by_row;
  default:
    return by_row != is_transposed(*this);
  }
}

MatrixCell cell_of(const Fragment &fragment, uint32_t lane, uint32_t index) {
  switch (fragment.spread) {
  case Spread::quad_pairs:
    return quad_pair_cell(fragment, lane, index);
  case Spread::wmma:
    return wmma_cell(fragment, lane, index);
  default:
    return mma_cell(fragment, lane, index);
  }
}

} // namespace sim::exec
