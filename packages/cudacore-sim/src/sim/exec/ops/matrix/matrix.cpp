/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions on matrices, which all lanes of a warp execute together. The matrices are in registers or in shared
 * memory.
 */
#include <algorithm>

#include "sim/exec/checker.h"
#include "sim/exec/ops/matrix/shared.h"
#include "sim/exec/ops/memory.h"

namespace sim::exec {

namespace {

/* Returns the index in MatrixBits of a cell of the matrix. */
uint32_t index_of(const Fragment &fragment, const MatrixCell &cell) {
  uint32_t one = fragment.rows() * fragment.columns();
  uint32_t at = fragment.role == MatrixRole::b ? cell.column * fragment.rows() + cell.row
                                               : cell.row * fragment.columns() + cell.column;
  return cell.product * one + at;
}

/* Calls f(lane, number of the register, first bit in the register, index in MatrixBits) for all elements. */
template <class F> void for_elements(const Fragment &fragment, F &&f) {
  uint32_t registers = fragment.registers_used(), per_register = fragment.per_register(),
           bits = bits_of(fragment.element);
  for (uint32_t number = 0; number < registers; ++number)
    for (uint32_t part = 0; part < per_register; ++part)
      for (uint32_t lane = 0; lane < warp_size; ++lane)
        f(lane, number, part * bits, index_of(fragment, cell_of(fragment, lane, number * per_register + part)));
}

void gather(const Warp &w, const Fragment &fragment, const OperandIndex *registers, MatrixBits &matrix) {
  uint32_t bits = bits_of(fragment.element);
  uint64_t mask = ~uint64_t{0} >> (64 - bits);
  for_elements(fragment, [&](uint32_t lane, uint32_t number, uint32_t bit, uint32_t at) {
    matrix[at] = (w.in(registers[number])[lane] >> bit) & mask;
  });
}

void scatter(Warp &w, const Fragment &fragment, const OperandIndex *registers, const MatrixBits &matrix,
             uint32_t present) {
  if (bits_of(fragment.element) == 16) { /* two elements in each register */
    for (uint32_t number = 0; number < fragment.registers(); ++number)
      for_lanes(present, [&](uint32_t lane) {
        uint32_t low = index_of(fragment, cell_of(fragment, lane, 2 * number)),
                 high = index_of(fragment, cell_of(fragment, lane, 2 * number + 1));
        put<uint32_t>(w.out(registers[number]), lane, static_cast<uint32_t>(matrix[low] | matrix[high] << 16));
      });
    return;
  }
  for_elements(fragment, [&](uint32_t lane, uint32_t number, uint32_t, uint32_t at) {
    if (!((present >> lane) & 1))
      return;
    if (bits_of(fragment.element) == 64)
      put<uint64_t>(w.out(registers[number]), lane, matrix[at]);
    else
      put<uint32_t>(w.out(registers[number]), lane, static_cast<uint32_t>(matrix[at]));
  });
}

/*
 * Returns the scales of a product. In each group of four lanes, one lane has the scales of a column of B. A pair of
 * lanes has those of A: the first lane for the group's row, the second one for the row that is 8 rows below.
 */
ScaleBits gather_scales(const Warp &w, const MatrixProduct &product, uint32_t first) {
  ScaleBits scales{};
  auto take = [&](const ScaleOperands &from, uint32_t line, uint32_t lane, std::array<uint8_t, 64> &to) {
    uint32_t word = get<uint32_t>(w.in(from.words), lane), byte = get<uint16_t>(w.in(from.byte), first) & 3;
    for (uint32_t i = 0; i < product.scales; ++i)
      to[line * product.scales + i] = static_cast<uint8_t>(word >> ((byte + i) & 3) * 8);
  };
  uint32_t a_thread = get<uint16_t>(w.in(product.a_scales.thread), first) & 1,
           b_thread = get<uint16_t>(w.in(product.b_scales.thread), first) & 3;
  for (uint32_t row = 0; row < product.a.shape.m; ++row)
    take(product.a_scales, row, row % 8 * 4 + a_thread * 2 + row / 8, scales.a);
  for (uint32_t column = 0; column < product.b.shape.n; ++column)
    take(product.b_scales, column, column * 4 + b_thread, scales.b);
  return scales;
}

void product(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    const MatrixProduct &what = w.grid->program.products[ins.target];
    const OperandIndex *d_registers = what.registers.data(), *a_registers = d_registers + what.d.registers(),
                       *b_registers = a_registers + what.a.registers(), *c_registers = b_registers + what.b.registers();
    MatrixBits a, b, c, d;
    gather(w, what.a, a_registers, a);
    if (what.a.sparse)
      expand(what, w.in(what.metadata), a);
    gather(w, what.b, b_registers, b);
    gather(w, what.c, c_registers, c);
    ScaleBits scales;
    if (what.scales)
      scales = gather_scales(w, what, static_cast<uint32_t>(__builtin_ctz(present)));
    multiply(what, a, b, c, d, scales);
    scatter(w, what.d, d_registers, d, present);
  });
}

uint64_t load_part(const std::byte *at, uint32_t bytes) {
  return bytes == 8   ? load_relaxed<uint64_t>(at)
         : bytes == 4 ? load_relaxed<uint32_t>(at)
         : bytes == 2 ? load_relaxed<uint16_t>(at)
                      : load_relaxed<uint8_t>(at);
}
void store_part(std::byte *at, uint64_t value, uint32_t bytes) {
  switch (bytes) {
  case 8:
    return store_relaxed<uint64_t>(at, value);
  case 4:
    return store_relaxed<uint32_t>(at, static_cast<uint32_t>(value));
  case 2:
    return store_relaxed<uint16_t>(at, static_cast<uint16_t>(value));
  default:
    return store_relaxed<uint8_t>(at, static_cast<uint8_t>(value));
  }
}

/* --- wgmma: four warps, each for its own rows ----------------------------------------------------------------- */

/*
 * Computes a warp's part of a product of four warps. The warp waits until all four warps have reached the product, so
 * it reads the data that any of them has written to memory before. The product is complete when all four warps have
 * finished reading. This is also so on an H200, and programs rely on it instead of using barriers.
 */
void group_product(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    if (!w.block->begin_product(w, present))
      return;
    const GroupProduct &what = w.grid->program.group_products[ins.target];
    const MatrixProduct &tile = what.tile;
    const auto reader = static_cast<uint32_t>(__builtin_ctz(present));
    const uint32_t rows = tile.a.rows(), columns = tile.b.columns(), k = tile.b.rows(), each = tile.d.registers();
    const OperandIndex *d_registers = tile.registers.data();
    const bool adds = (w.predicate(what.adds) >> reader) & 1;
    if (Checker *checker = w.grid->checker.get())
      checker->group_multiplies(w, ins, what);
    MatrixBits a, b, c, d;
    if (what.a_descriptor == no_operand)
      gather(w, tile.a, d_registers + what.sums(), a);
    else
      read_lines(w, ins, reader, tile.a.element, tile.a.columns(), w.in(what.a_descriptor)[reader], what.a_by_k,
                 w.index % 4 * rows, rows, a);
    if (what.negated_a)
      negate(tile.a.element, rows * tile.a.columns(), a);
    if (tile.a.sparse)
      expand(tile, w.in(tile.metadata), a);
    for (uint32_t n = 0; n < what.n; n += columns, d_registers += each) {
      read_lines(w, ins, reader, tile.b.element, k, w.in(what.b_descriptor)[reader], what.b_by_k, n, columns, b);
      if (what.negated_b)
        negate(tile.b.element, k * columns, b);
      if (adds)
        gather(w, tile.c, d_registers, c);
      else
        std::fill_n(c.begin(), rows * columns, uint64_t{0});
      multiply(tile, a, b, c, d);
      scatter(w, tile.d, d_registers, d, present);
    }
    if (Checker *checker = w.grid->checker.get())
      checker->group_has_multiplied(w);
    w.block->end_product(w);
  });
}

/*
 * Products are computed at once, so that only wgmma.wait_group has an effect here. The checks also need the fence and
 * the commit.
 */
void group_order(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    if (Checker *checker = w.grid->checker.get())
      checker->group_orders(w, ins);
    if (static_cast<GroupOrder>(ins.mode) == GroupOrder::wait)
      w.block->wait_products(w, present);
  });
}

void use_accumulators(Warp &w, const Instruction &ins, uint32_t lanes) {
  const AccumulatorUse &use = w.grid->program.accumulator_uses.at(w.pc);
  if (Checker *checker = w.grid->checker.get())
    checker->uses_accumulators(w, ins, use);
  use.run(w, ins, lanes);
}

/* --- matrices of eight rows of eight elements of 16 bits ---------------------------------------------------------- */

constexpr uint32_t row_words = 4;
using Rows = std::array<std::array<uint32_t, row_words>, 8>;

/*
 * Returns the part of a matrix that a lane holds: two adjacent elements of a row or, if the matrix is transposed, of a
 * column.
 */
uint32_t part_of(const Rows &rows, uint32_t lane, bool transposed) {
  if (!transposed)
    return rows[lane / 4][lane % 4];
  auto element = [&](uint32_t row, uint32_t column) { return rows[row][column / 2] >> (column % 2 * 16) & 0xffff; };
  uint32_t row = lane % 4 * 2, column = lane / 4;
  return element(row, column) | element(row + 1, column) << 16;
}
/* Assembles a matrix from the parts that the lanes hold. */
Rows rows_of(const uint64_t *parts, bool transposed) {
  Rows rows{};
  for (uint32_t lane = 0; lane < warp_size; ++lane) {
    auto part = get<uint32_t>(parts, lane);
    if (!transposed) {
      rows[lane / 4][lane % 4] = part;
      continue;
    }
    uint32_t row = lane % 4 * 2, column = lane / 4, shift = column % 2 * 16;
    rows[row][column / 2] |= (part & 0xffff) << shift;
    rows[row + 1][column / 2] |= (part >> 16) << shift;
  }
  return rows;
}

/* Returns the host address of a row of a matrix. A generic address must refer to shared memory. */
template <StateSpace S>
std::byte *locate_row(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, bool write) {
  if (S == StateSpace::generic && static_cast<Window>(address >> window_shift) != Window::shared)
    w.access_fault(FaultKind::illegal_instruction, ins, lane, address, 16, write, "generic",
                   "the rows of matrices have to be in shared memory");
  return locate<S>(w, ins, lane, address, 16, write);
}

/*
 * Loads or stores matrices of eight rows. Lanes 0 to 7 hold the addresses of the rows of the first matrix, lanes 8 to
 * 15 those of the second matrix, and so on.
 */
template <StateSpace S> void load_rows(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    uint32_t count = ins.count;
    const uint64_t *base = w.in(ins.op[count]);
    uint64_t mask = address_mask(ins);
    std::array<Rows, 4> matrices{};
    for_lanes(present & (count == 4 ? all_lanes : (1u << count * 8) - 1), [&](uint32_t lane) {
      uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
      const std::byte *at = locate_row<S>(w, ins, lane, address, false);
      for (uint32_t word = 0; word < row_words; ++word)
        matrices[lane / 8][lane % 8][word] = load_relaxed<uint32_t>(at + 4 * word);
    });
    for (uint32_t i = 0; i < count; ++i)
      for_lanes(present,
                [&](uint32_t lane) { put<uint32_t>(w.out(ins.op[i]), lane, part_of(matrices[i], lane, ins.mode)); });
  });
}

template <StateSpace S> void store_rows(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    uint32_t count = ins.count;
    const uint64_t *base = w.in(ins.op[count]);
    uint64_t mask = address_mask(ins);
    ++w.stores;
    std::array<Rows, 4> matrices;
    for (uint32_t i = 0; i < count; ++i)
      matrices[i] = rows_of(w.in(ins.op[i]), ins.mode);
    for_lanes(present & (count == 4 ? all_lanes : (1u << count * 8) - 1), [&](uint32_t lane) {
      uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
      std::byte *at = locate_row<S>(w, ins, lane, address, true);
      for (uint32_t word = 0; word < row_words; ++word)
        store_relaxed<uint32_t>(at + 4 * word, matrices[lane / 8][lane % 8][word]);
    });
  });
}

void transpose(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    Rows rows = rows_of(w.in(ins.op[1]), false);
    for_lanes(present, [&](uint32_t lane) { put<uint32_t>(w.out(ins.op[0]), lane, part_of(rows, lane, true)); });
  });
}

/* --- wmma: fragments in memory -------------------------------------------------------------------------------- */

/* Loads or stores a fragment. Elements that are adjacent both in a register and in memory are accessed together. */
template <StateSpace S, bool Write> void access_fragment(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    const MatrixAccess &what = w.grid->program.matrix_accesses[ins.target];
    const Fragment &fragment = what.fragment;
    const uint64_t *base = w.in(ins.op[0]), *strides = w.in(ins.op[1]);
    const uint32_t bits = bits_of(fragment.element), numbers = numbers_in(fragment.element);
    const uint32_t together = fragment.has_neighbours() ? fragment.per_register() : 1;
    const uint32_t bytes = bits * together / 8, parts = fragment.per_register() / together;
    const uint64_t mask = address_mask(ins);
    if (Write)
      ++w.stores;
    for (uint32_t i = 0; i < what.registers.size() * parts; ++i) {
      OperandIndex where = what.registers[i / parts];
      uint32_t shift = i % parts * bytes * 8;
      for_lanes(present, [&](uint32_t lane) {
        MatrixCell cell = cell_of(fragment, lane, i * together);
        uint64_t line = fragment.by_row ? cell.row : cell.column, within = fragment.by_row ? cell.column : cell.row;
        uint64_t bit = (line * get<uint32_t>(strides, lane) + within * numbers) * (bits / numbers);
        uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate) + bit / 8) & mask;
        std::byte *at = locate<S>(w, ins, lane, address, bytes, Write);
        if (Write) {
          store_part(at, w.in(where)[lane] >> shift, bytes);
        } else {
          uint64_t *to = w.out(where) + lane;
          *to = (shift ? *to : 0) | load_part(at, bytes) << shift;
        }
      });
    }
  });
}

template <template <StateSpace> class Select> Handler in_space(StateSpace space) {
  switch (space) {
  case StateSpace::shared:
    return Select<StateSpace::shared>::get();
  case StateSpace::global:
    return Select<StateSpace::global>::get();
  case StateSpace::generic:
    return Select<StateSpace::generic>::get();
  default:
    return nullptr;
  }
}
template <StateSpace S> struct SelectLoad {
  static Handler get() { return access_fragment<S, false>; }
};
template <StateSpace S> struct SelectStore {
  static Handler get() { return access_fragment<S, true>; }
};

} // namespace

Handler matrix_product_handler() { return product; }
Handler group_product_handler() { return group_product; }
Handler group_order_handler() { return group_order; }
Handler accumulator_use_handler() { return use_accumulators; }
Handler load_rows_handler(StateSpace space) {
  return space == StateSpace::shared    ? load_rows<StateSpace::shared>
         : space == StateSpace::generic ? load_rows<StateSpace::generic>
                                        : nullptr;
}
Handler store_rows_handler(StateSpace space) {
  return space == StateSpace::shared    ? store_rows<StateSpace::shared>
         : space == StateSpace::generic ? store_rows<StateSpace::generic>
                                        : nullptr;
}
Handler transpose_handler() { return transpose; }
Handler load_fragment_handler(StateSpace space) { return in_space<SelectLoad>(space); }
Handler store_fragment_handler(StateSpace space) { return in_space<SelectStore>(space); }

} // namespace sim::exec
