/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_MATRIX_H
#define CUDACORE_SIM_ISA_MATRIX_H

#include <vector>

#include "sim/isa/instruction.h"
#include "sim/isa/types.h"

/*
 * Products of matrices that a warp computes, D = A B + C: the shapes, the places of the elements in the registers of
 * the lanes, and the sums. A has m rows and k columns, B k rows and n columns, C and D m rows and n columns.
 */
namespace sim::exec {

/* An element of b1 is a word of 32 numbers, which are consecutive in k. */
enum class Element : uint8_t { none, f16, bf16, tf32, f32, f64, e4m3, e5m2, s4, u4, s8, u8, s32, b1 };
uint32_t bits_of(Element element); /* bits of an element in a register */
/* How many numbers an element holds: 32 if it is b1, otherwise 1. */
inline uint32_t numbers_in(Element element) { return element == Element::b1 ? 32 : 1; }

struct MatrixShape {
  uint32_t m = 0, n = 0, k = 0;
  bool operator==(const MatrixShape &other) const { return m == other.m && n == other.n && k == other.k; }
};

enum class MatrixRole : uint8_t { a, b, c }; /* D has the role of C */

/* The family of an instruction, which decides how matrices are spread over the lanes. */
enum class Spread : uint8_t {
  mma,
  quad_pairs, /* mma.m8n8k4 of f16: four products, each of eight lanes */
  wmma,
  wgmma /* like mma: each of the four warps has 16 rows of A and C, in tiles of eight columns of C */
};

/* A matrix, spread over the registers of a warp. */
struct Fragment {
  MatrixRole role = MatrixRole::a;
  Element element = Element::none;
  MatrixShape shape; /* the shape of the product; k counts elements */
  Spread spread = Spread::mma;
  bool by_row = true;  /* the layout in memory, or the layout that mma.m8n8k4 requires */
  bool sparse = false; /* A stores only half of its columns */

  uint32_t rows() const { return role == MatrixRole::b ? shape.k : shape.m; }
  uint32_t columns() const { return role == MatrixRole::a ? (sparse ? shape.k / 2 : shape.k) : shape.n; }
  uint32_t products() const { return spread == Spread::quad_pairs ? 4 : 1; }
  uint32_t per_register() const { return bits_of(element) == 64 ? 1 : 32 / bits_of(element); }
  uint32_t registers() const;
  /* The number of registers that make up the matrix. Further registers repeat elements of these. */
  uint32_t registers_used() const;
  /* Whether the elements of a register are adjacent in memory, if the matrix is stored in its layout. */
  bool has_neighbours() const;
};

struct MatrixCell {
  uint32_t row, column, product;
};
/* The place in the matrix of the `index`th element of a lane, counted register by register. */
MatrixCell cell_of(const Fragment &fragment, uint32_t lane, uint32_t index);

enum class BitProduct : uint8_t { xor_, and_ };

/* A multiplication. Its registers are the registers of D, A, B and C, in this order. */
struct MatrixProduct {
  Fragment a, b, c, d;
  std::vector<OperandIndex> registers;
  bool saturate = false;
  BitProduct bits = BitProduct::xor_;
  /* For a sparse A: the words with the columns of its numbers, and the lanes that hold these words. */
  OperandIndex metadata = no_operand;
  uint32_t selector = 0;
};

/*
 * wgmma: four warps multiply 64 rows of A. Each of them multiplies 16 rows by eight columns at a time: the product
 * `tile`. The registers of `tile` are first the registers of the whole of D, which is also C. The registers of A
 * follow, unless A is in memory.
 */
struct GroupProduct {
  MatrixProduct tile;
  uint32_t n = 0;
  bool negated_a = false, negated_b = false;
  /* Whether the elements of a row of A, or of a column of B, are adjacent in memory. */
  bool a_by_k = true, b_by_k = true;
  OperandIndex a_descriptor = no_operand, b_descriptor = no_operand; /* none: A is in registers */
  OperandIndex adds = predicate_true;                                /* if this is false, D is the product without C */

  uint32_t sums() const { return n / tile.d.shape.n * tile.d.registers(); } /* registers of D */
};

/* The place of a matrix of wgmma in shared memory: in pieces of 16 bytes, consecutive in k, or in m or n. */
class MatrixDescriptor {
public:
  explicit MatrixDescriptor(uint64_t bits) : bits_(bits) {}
  /* The offset in shared memory of a piece with bytes of one line. A line is a row of A, or a column of B. */
  uint32_t by_k(uint32_t line, uint32_t k_byte) const;
  /*
   * The offset of a piece that has elements of several lines, at one place in k. Elements have 16 bits. `line` is the
   * line of the first element.
   */
  uint32_t by_line(uint32_t line, uint32_t k) const;

private:
  uint32_t field(uint32_t bit) const { return static_cast<uint32_t>(bits_ >> bit & 0x3fff) << 4; }
  uint32_t width() const;
  uint32_t swizzled(uint32_t offset) const;

  uint64_t bits_;
};
constexpr uint32_t piece_bytes = 16;

/* A fragment in memory. */
struct MatrixAccess {
  Fragment fragment;
  std::vector<OperandIndex> registers;
};

constexpr uint32_t max_elements = 2048; /* the largest matrix: sparse s4 with m16 and k128 */

/* The elements of one matrix, as bits; A and C by rows, B by columns. */
using MatrixBits = std::array<uint64_t, max_elements>;
/* An element that a sparse A does not store: its bits are zero, but it is never multiplied, not even with infinity. */
constexpr uint64_t absent_element = uint64_t{1} << 63;
/*
 * expand: restores the columns of a sparse A that are not stored. selectors_of: the number of values that the selector
 * of a sparse A can have.
 */
void expand(const MatrixProduct &product, const uint64_t *words, MatrixBits &a);
uint32_t selectors_of(const Fragment &a);
/* The sum of products, element by element. The sum does not depend on the positions of the elements in registers. */
void multiply(const MatrixProduct &product, const MatrixBits &a, const MatrixBits &b, const MatrixBits &c,
              MatrixBits &d);

} // namespace sim::exec

#endif
