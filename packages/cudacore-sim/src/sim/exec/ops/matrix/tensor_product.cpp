/* SPDX-License-Identifier: Apache-2.0 */
/* tcgen05.mma: products of matrices whose sums are in tensor memory. One thread starts them; here they end at once. */
#include <algorithm>

#include "sim/exec/ops/matrix/shared.h"
#include "sim/exec/ops/matrix/tensor_cells.h"
#include "sim/isa/numeric.h"

namespace sim::exec {

namespace {

constexpr uint32_t tile_rows = 16, tile_columns = 8; /* products are computed tile by tile */

/* What the 32 bits that describe a product say. */
struct Description {
  MatrixProduct tile;
  uint32_t m = 0, n = 0;
  bool negated_a = false, negated_b = false, a_by_k = true, b_by_k = true;
  uint32_t a_scale = 0, b_scale = 0; /* the first byte of the scales in their word */
};

Element element_of(TensorKind kind, uint32_t code) {
  static constexpr Element small[] = {Element::e4m3, Element::e5m2, Element::none, Element::e2m3,
                                      Element::e3m2, Element::e2m1, Element::none, Element::none};
  switch (kind) {
  case TensorKind::f16:
    return code == 0 ? Element::f16 : code == 1 ? Element::bf16 : Element::none;
  case TensorKind::tf32:
    return code == 2 ? Element::tf32 : Element::none;
  case TensorKind::i8:
    return code == 0 ? Element::u8 : code == 1 ? Element::s8 : Element::none;
  case TensorKind::f8f6f4:
  case TensorKind::mxf8f6f4:
    return small[code & 7];
  default:
    return code == 1 ? Element::e2m1_packed : Element::none;
  }
}

Description describe(TensorKind kind, uint32_t bits, uint32_t scales) {
  auto field = [&](uint32_t first, uint32_t count) { return bits >> first & ((1u << count) - 1); };
  Description d;
  Element a = element_of(kind, field(7, 3)), b = element_of(kind, field(10, is_packed(kind) ? 2 : 3)),
          sum = Element::f32;
  if (kind == TensorKind::i8)
    sum = field(4, 2) == 2 ? Element::s32 : Element::none;
  else if (!is_scaled(kind))
    sum = field(4, 2) == 1 ? Element::f32 : field(4, 2) == 0 && kind != TensorKind::tf32 ? Element::f16 : Element::none;
  d.n = field(17, 6) * 8;
  d.m = is_scaled(kind) ? field(27, 2) * 128 : field(24, 5) * 16;
  if (a == Element::none || b == Element::none)
    return d;
  MatrixShape shape{tile_rows, tile_columns, 256 / bits_of(a)};
  d.tile.a = {MatrixRole::a, a, shape, Spread::mma};
  d.tile.b = {MatrixRole::b, b, shape, Spread::mma};
  d.tile.c = d.tile.d = {MatrixRole::c, sum, shape, Spread::mma};
  d.tile.at_once = true;
  d.tile.saturate = kind == TensorKind::i8 && field(3, 1);
  d.tile.scales = scales;
  d.tile.scales_are_powers = field(23, 1);
  d.negated_a = field(13, 1);
  d.negated_b = field(14, 1);
  d.a_by_k = !field(15, 1);
  d.b_by_k = !field(16, 1);
  d.a_scale = field(29, 2);
  d.b_scale = field(4, 2);
  return d;
}

/* Returns why there is no product of this description, or an empty string. */
std::string problem_of(TensorKind kind, uint32_t bits, const Description &d) {
  if (d.tile.a.element == Element::none || d.tile.d.element == Element::none)
    return "types that this kind of product does not have";
  if (bits >> 2 & 1)
    return "a sparse matrix, for a product that is not sparse";
  bool known = d.m == 128 || (d.m == 64 && !is_scaled(kind));
  if (!known || d.n == 0 || d.n > 256 || d.n % (d.m == 128 ? 16 : 8) != 0)
    return "a shape that there is not, m" + std::to_string(d.m) + "n" + std::to_string(d.n);
  if ((!d.a_by_k || !d.b_by_k) && (bits_of(d.tile.a.element) < 8 || kind == TensorKind::tf32))
    return "a transposed matrix of this type, which is not simulated";
  return {};
}

/* Returns the lane of a row of A or D. With 64 rows, half of the lanes are used. */
uint32_t lane_of(const Description &d, uint32_t row) {
  return d.m == 64 ? row / tile_rows * warp_size + row % tile_rows : row;
}

/* One product, which a thread starts. */
class Product {
public:
  Product(Warp &w, const Instruction &ins, uint32_t by) : w_(w), ins_(ins), by_(by) {}

  void run() {
    const auto kind = static_cast<TensorKind>(ins_.mode);
    const uint32_t bits = word(3);
    d_ = describe(kind, bits, ins_.count);
    if (std::string problem = problem_of(kind, bits, d_); !problem.empty())
      w_.fault(FaultKind::illegal_instruction, ins_, by_, problem);
    const uint32_t k = d_.tile.a.shape.k;
    const bool adds = (w_.predicate(ins_.op[4]) >> by_) & 1;
    std::vector<MatrixBits> a(d_.m / tile_rows);
    for (uint32_t i = 0; i < a.size(); ++i)
      read_a(i * tile_rows, a[i]);
    MatrixBits b, c, sums;
    for (uint32_t column = 0; column < d_.n; column += tile_columns) {
      read_lines(w_, ins_, by_, d_.tile.b.element, k, w_.in(ins_.op[2])[by_], d_.b_by_k, column, tile_columns, b);
      if (d_.negated_b)
        negate(d_.tile.b.element, tile_columns * k, b);
      for (uint32_t i = 0; i < a.size(); ++i) {
        if (adds)
          read_sums(i * tile_rows, column, c);
        else
          std::fill_n(c.begin(), tile_rows * tile_columns, uint64_t{0});
        ScaleBits scales;
        if (d_.tile.scales)
          scales = read_scales(i * tile_rows, column);
        multiply(d_.tile, a[i], b, c, sums, scales);
        write_sums(i * tile_rows, column, sums);
      }
    }
  }

private:
  uint32_t word(size_t operand) const { return get<uint32_t>(w_.in(ins_.op[operand]), by_); }
  uint32_t &cell(uint32_t address, uint32_t lane, uint32_t column) {
    return tensor_cell(w_, ins_, by_, lane_of_address(address) + lane, column_of_address(address) + column);
  }

  void read_a(uint32_t first, MatrixBits &a) {
    const Element element = d_.tile.a.element;
    const uint32_t k = d_.tile.a.shape.k, bits = bits_of(element);
    if (ins_.flag)
      for (uint32_t row = 0; row < tile_rows; ++row)
        for (uint32_t t = 0; t < k; ++t)
          a[row * k + t] = uint64_t{cell(word(1), lane_of(d_, first + row), t * bits / 32)} >> t * bits % 32 &
                           ~uint64_t{0} >> (64 - bits);
    else
      read_lines(w_, ins_, by_, element, k, w_.in(ins_.op[1])[by_], d_.a_by_k, first, tile_rows, a);
    if (d_.negated_a)
      negate(element, tile_rows * k, a);
  }

  template <class F> void for_sums(uint32_t first, uint32_t column, F &&f) {
    for (uint32_t row = 0; row < tile_rows; ++row)
      for (uint32_t i = 0; i < tile_columns; ++i)
        f(row * tile_columns + i, lane_of(d_, first + row), column + i);
  }
  void read_sums(uint32_t first, uint32_t column, MatrixBits &c) {
    const Format &format = format_of(d_.tile.d.element);
    for_sums(first, column, [&](uint32_t at, uint32_t lane, uint32_t where) {
      c[at] = cell(word(0), lane, where);
      if (d_.tile.d.element == Element::f16)
        c[at] &= 0xffff;
      if (ins_.immediate)
        c[at] =
            round_to(format, std::ldexp(value_of(format, c[at]), -static_cast<int>(ins_.immediate)), Rounding::nearest);
    });
  }
  void write_sums(uint32_t first, uint32_t column, const MatrixBits &sums) {
    const bool masked = !d_.tile.scales && ins_.op[5] != no_operand;
    for_sums(first, column, [&](uint32_t at, uint32_t lane, uint32_t where) {
      if (!masked || !(word(5 + lane / warp_size) >> lane % warp_size & 1))
        cell(word(0), lane, where) = static_cast<uint32_t>(sums[at]);
    });
  }

  /*
   * The scales of 32 rows or columns are in 32 lanes of a column. Each group of 32 lanes has all of them, for the rows
   * that are there.
   */
  ScaleBits read_scales(uint32_t first, uint32_t column) {
    ScaleBits scales{};
    const uint32_t group = first / warp_size * warp_size;
    auto take = [&](uint32_t address, uint32_t line, uint32_t byte, uint8_t *to) {
      uint32_t bits = cell(address, group + line % warp_size, line / warp_size);
      for (uint32_t i = 0; i < d_.tile.scales; ++i)
        to[i] = static_cast<uint8_t>(bits >> ((byte + i) & 3) * 8);
    };
    for (uint32_t row = 0; row < tile_rows; ++row)
      take(word(5), first + row, d_.a_scale, scales.a.data() + row * d_.tile.scales);
    for (uint32_t i = 0; i < tile_columns; ++i)
      take(word(6), column + i, d_.b_scale, scales.b.data() + i * d_.tile.scales);
    return scales;
  }

  Warp &w_;
  const Instruction &ins_;
  const uint32_t by_;
  Description d_;
};

void product(Warp &w, const Instruction &ins, uint32_t lanes) {
  for_lanes(lanes, [&](uint32_t lane) { Product(w, ins, lane).run(); });
}

} // namespace

Handler tensor_product_handler() { return product; }

} // namespace sim::exec
