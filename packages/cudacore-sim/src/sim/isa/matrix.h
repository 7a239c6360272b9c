/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_MATRIX_H
#define CUDACORE_SIM_ISA_MATRIX_H

#include <vector>

#include "sim/isa/instruction.h"
#include "sim/isa/types.h"

/*
 * Products of matrices that a warp computes, D = A B + C: their shapes, the positions of the elements in the registers
 * of the lanes, and the computation. A is an m by k matrix, B is k by n, C and D are m by n.
 */
namespace sim::exec {

/*
 * An element of b1 is a word of 32 numbers, which are consecutive in k. Elements of e2m3, e3m2 and e2m1 have 8 bits: a
 * number of e2m1 is in the middle four. Those of e2m1_packed have 4 bits.
 */
enum class Element : uint8_t {
  none,
  f16,
  bf16,
  tf32,
  f32,
  f64,
  e4m3,
  e5m2,
  e2m3,
  e3m2,
  e2m1,
  s4,
  u4,
  s8,
  u8,
  s32,
  b1,
  e2m1_packed
};
uint32_t bits_of(Element element); /* number of bits of an element in a register */
/* Returns how many numbers an element holds: 32 for b1, otherwise 1. */
inline uint32_t numbers_in(Element element) { return element == Element::b1 ? 32 : 1; }

struct MatrixShape {
  uint32_t m = 0, n = 0, k = 0;
  bool operator==(const MatrixShape &other) const { return m == other.m && n == other.n && k == other.k; }
};

enum class MatrixRole : uint8_t { a, b, c }; /* D also has the role `c` */

/* The family of an instruction, which determines how a matrix is distributed over the lanes. */
enum class Spread : uint8_t {
  mma,
  quad_pairs, /* mma.m8n8k4 of f16: the warp computes four products, each with eight lanes */
  wmma,
  wgmma /* like mma; each of the four warps has 16 rows of A and C, and C is divided into tiles of eight columns */
};

/* A matrix that is distributed over the registers of a warp's lanes. */
struct Fragment {
  MatrixRole role = MatrixRole::a;
  Element element = Element::none;
  MatrixShape shape; /* the shape of the whole product; k counts elements */
  Spread spread = Spread::mma;
  bool by_row = true;  /* the layout: in memory, or as mma.m8n8k4 requires it */
  bool sparse = false; /* only half of the columns are stored (of a sparse A) */

  uint32_t rows() const { return role == MatrixRole::b ? shape.k : shape.m; }
  uint32_t columns() const { return role == MatrixRole::a ? (sparse ? shape.k / 2 : shape.k) : shape.n; }
  uint32_t products() const { return spread == Spread::quad_pairs ? 4 : 1; }
  uint32_t per_register() const { return bits_of(element) == 64 ? 1 : 32 / bits_of(element); }
  uint32_t registers() const;
  /*
   * Returns the number of registers that are needed for all elements. If there are more registers, they repeat
   * elements.
   */
  uint32_t registers_used() const;
  /* Returns whether the elements of a register are also adjacent in memory, in the layout of the matrix. */
  bool has_neighbours() const;
};

struct MatrixCell {
  uint32_t row, column, product;
};
/* Returns the row and column of the element of a lane with number `index`, counted register by register. */
MatrixCell cell_of(const Fragment &fragment, uint32_t lane, uint32_t index);

enum class BitProduct : uint8_t { xor_, and_ };

/* The operands with the scales of a product. The lanes that hold the scales of A and B, and the first of their bytes.
 */
struct ScaleOperands {
  OperandIndex words = no_operand, byte = no_operand, thread = no_operand;
};

/* A product of matrices. `registers` holds the registers of D, A, B and C, in this order. */
struct MatrixProduct {
  Fragment a, b, c, d;
  std::vector<OperandIndex> registers;
  bool saturate = false;
  BitProduct bits = BitProduct::xor_;
  /*
   * For a sparse A: `metadata` holds the positions of the stored numbers; `selector` says which lanes' words are used.
   */
  OperandIndex metadata = no_operand;
  uint32_t selector = 0;
  /* Whether each sum of products is rounded only once, without converting the numbers before: on sm_100 and later. */
  bool at_once = false;
  uint32_t scales = 0;           /* number of scales of a row of A, and of a column of B */
  bool scales_are_powers = true; /* the type of the scales: ue8m0, otherwise ue4m3 */
  ScaleOperands a_scales, b_scales;
};

/*
 * A product of wgmma: four warps multiply 64 rows of A. Each warp multiplies 16 rows by eight columns at a time; `tile`
 * is this smaller product. tile.registers holds first the registers of the whole D, which is also C, and then the
 * registers of A, unless A is in memory.
 */
struct GroupProduct {
  MatrixProduct tile;
  uint32_t n = 0;
  bool negated_a = false, negated_b = false;
  /* Whether elements that are consecutive in k are adjacent in memory, in a row of A and in a column of B. */
  bool a_by_k = true, b_by_k = true;
  OperandIndex a_descriptor = no_operand, b_descriptor = no_operand; /* none: A is in registers */
  OperandIndex adds = predicate_true;                                /* a predicate; false: C is not added */

  uint32_t sums() const { return n / tile.d.shape.n * tile.d.registers(); } /* number of registers of D */
};

/*
 * The place of a wgmma matrix in shared memory. The matrix consists of pieces of 16 bytes. The elements of a piece are
 * consecutive either in k, or in m or n.
 */
class MatrixDescriptor {
public:
  explicit MatrixDescriptor(uint64_t bits) : bits_(bits) {}
  /*
   * Returns the offset in shared memory of a piece with elements of one line. A line is a row of A, or a column of B.
   */
  uint32_t by_k(uint32_t line, uint32_t k_byte) const;
  /*
   * Returns the offset of a piece with elements of several lines, all at the same position in k. `line_byte` is the
   * line of the first element, multiplied by the number of bytes of an element.
   */
  uint32_t by_line(uint32_t line_byte, uint32_t k) const;

private:
  uint32_t field(uint32_t bit) const { return static_cast<uint32_t>(bits_ >> bit & 0x3fff) << 4; }
  uint32_t width() const;
  uint32_t swizzled(uint32_t offset) const;

  uint64_t bits_;
};
constexpr uint32_t piece_bytes = 16;

/* A load or store of a fragment in memory. */
struct MatrixAccess {
  Fragment fragment;
  std::vector<OperandIndex> registers;
};

constexpr uint32_t max_elements = 2048; /* number of elements of the largest matrix: sparse s4 with m16 and k128 */

/* The bits of a matrix's elements: A and C row by row, B column by column. */
using MatrixBits = std::array<uint64_t, max_elements>;
/*
 * Stands for an element that a sparse A does not store. Only its highest bit is set. Such an element is never
 * multiplied, not even with infinity.
 */
constexpr uint64_t absent_element = uint64_t{1} << 63;
/*
 * expand: spreads the stored columns of a sparse A to their positions. selectors_of: returns the number of values that
 * the selector of a sparse A can have.
 */
void expand(const MatrixProduct &product, const uint64_t *words, MatrixBits &a);
uint32_t selectors_of(const Fragment &a);
/* The scales of the rows of A and of the columns of B: `scales` bytes for each of them. */
struct ScaleBits {
  std::array<uint8_t, 64> a, b;
};
/*
 * Computes the sums of products, element by element. The sums do not depend on the positions of the elements in
 * registers. `scales` is used if the product has scales.
 */
void multiply(const MatrixProduct &product, const MatrixBits &a, const MatrixBits &b, const MatrixBits &c,
              MatrixBits &d, const ScaleBits &scales = {});

} // namespace sim::exec

#endif
