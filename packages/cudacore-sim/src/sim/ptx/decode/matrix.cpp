/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor cores: mma, wmma and wgmma. The accepted forms are those that ptxas accepts for sm_90a and sm_120a.
 */
#include <iterator>

#include "sim/isa/matrix.h"
#include "sim/ptx/decode/matrix_kind.h"

namespace sim::ptx {

namespace {

using exec::BitProduct;
using exec::Element;
using exec::Fragment;
using exec::GroupOrder;
using exec::GroupProduct;
using exec::MatrixProduct;
using exec::MatrixRole;
using exec::MatrixShape;
using exec::Spread;
using exec::TensorKind;

/* --- names ---------------------------------------------------------------------------------------------------- */

constexpr std::string_view element_names[] = {"f16",  "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "e2m3",
                                              "e3m2", "e2m1", "s4",   "u4",  "s8",  "u8",   "s32",  "b1"};
static_assert(std::size(element_names) == static_cast<size_t>(Element::b1));

std::string name_of(Element element) { return "." + std::string(element_names[static_cast<size_t>(element) - 1]); }
std::string name_of(const MatrixShape &shape) {
  return ".m" + std::to_string(shape.m) + "n" + std::to_string(shape.n) + "k" + std::to_string(shape.k);
}

Element take_element(Coder &c) {
  size_t found = c.take_one_of(element_names, std::size(element_names));
  return found == std::size(element_names) ? Element::none : static_cast<Element>(found + 1);
}
Element need_element(Coder &c, const char *matrix) {
  Element element = take_element(c);
  if (element == Element::none)
    c.fail(std::string("expected the type of ") + matrix);
  return element;
}

constexpr MatrixShape shapes[] = {{8, 8, 4},    {8, 8, 16},  {8, 8, 32},   {8, 8, 128}, {16, 8, 4},
                                  {16, 8, 8},   {16, 8, 16}, {16, 8, 32},  {16, 8, 64}, {16, 8, 128},
                                  {16, 8, 256}, {16, 16, 8}, {16, 16, 16}, {32, 8, 16}, {8, 32, 16}};

MatrixShape need_shape(Coder &c) {
  for (const MatrixShape &shape : shapes)
    if (c.take(name_of(shape).substr(1)))
      return shape;
  c.fail("expected a shape that there is, such as .m16n8k16,");
}

/* --- accepted forms ------------------------------------------------------------------------------------------- */

bool is_eight_bit_float(Element element) { return element == Element::e4m3 || element == Element::e5m2; }
bool is_integer(Element element) {
  return element == Element::s4 || element == Element::u4 || element == Element::s8 || element == Element::u8;
}
/* Returns whether two types can be combined for A and B. */
bool go_together(Element a, Element b) {
  return a == b || (is_eight_bit_float(a) && is_eight_bit_float(b)) ||
         (is_integer(a) && is_integer(b) && exec::bits_of(a) == exec::bits_of(b));
}

/*
 * An accepted combination of a type of A and a shape. Of types that can be combined with each other, only one is
 * listed.
 */
struct Form {
  Element a;
  MatrixShape shape;
};
constexpr Form mma_forms[] = {{Element::f16, {8, 8, 4}},    {Element::f16, {16, 8, 8}},   {Element::f16, {16, 8, 16}},
                              {Element::bf16, {16, 8, 8}},  {Element::bf16, {16, 8, 16}}, {Element::tf32, {16, 8, 4}},
                              {Element::tf32, {16, 8, 8}},  {Element::f64, {8, 8, 4}},    {Element::f64, {16, 8, 4}},
                              {Element::f64, {16, 8, 8}},   {Element::f64, {16, 8, 16}},  {Element::s8, {8, 8, 16}},
                              {Element::s8, {16, 8, 16}},   {Element::s8, {16, 8, 32}},   {Element::s4, {8, 8, 32}},
                              {Element::s4, {16, 8, 32}},   {Element::s4, {16, 8, 64}},   {Element::e4m3, {16, 8, 16}},
                              {Element::e4m3, {16, 8, 32}}, {Element::b1, {8, 8, 128}},   {Element::b1, {16, 8, 128}},
                              {Element::b1, {16, 8, 256}}};
constexpr Form sparse_forms[] = {
    {Element::f16, {16, 8, 16}},  {Element::f16, {16, 8, 32}}, {Element::bf16, {16, 8, 16}},
    {Element::bf16, {16, 8, 32}}, {Element::tf32, {16, 8, 8}}, {Element::tf32, {16, 8, 16}},
    {Element::s8, {16, 8, 32}},   {Element::s8, {16, 8, 64}},  {Element::s4, {16, 8, 64}},
    {Element::s4, {16, 8, 128}},  {Element::e4m3, {16, 8, 64}}};
constexpr Form wmma_forms[] = {
    {Element::f16, {16, 16, 16}},  {Element::f16, {32, 8, 16}},  {Element::f16, {8, 32, 16}},
    {Element::bf16, {16, 16, 16}}, {Element::bf16, {32, 8, 16}}, {Element::bf16, {8, 32, 16}},
    {Element::s8, {16, 16, 16}},   {Element::s8, {32, 8, 16}},   {Element::s8, {8, 32, 16}},
    {Element::tf32, {16, 16, 8}},  {Element::f64, {8, 8, 4}},    {Element::s4, {8, 8, 32}},
    {Element::b1, {8, 8, 128}}};

/* The numbers of floating point with 8, 6 or 4 bits, which .kind products can combine with each other. */
bool is_small_float(Element element) {
  return is_eight_bit_float(element) || element == Element::e2m3 || element == Element::e3m2 ||
         element == Element::e2m1;
}

template <size_t N> void check_form(Coder &c, const Form (&forms)[N], Element a, const MatrixShape &shape) {
  std::string known;
  for (const Form &form : forms) {
    if (!go_together(form.a, a))
      continue;
    if (form.shape == shape)
      return;
    known += (known.empty() ? "" : ", ") + name_of(form.shape);
  }
  if (known.empty())
    c.fail("there is no such product of " + name_of(a) + ",");
  c.fail("there is no shape " + name_of(shape) + " for " + name_of(a) + ", but " + known + ",");
}

void check_accumulator(Coder &c, Element a, Element accumulator) {
  bool known;
  switch (a) {
  case Element::f64:
    known = accumulator == Element::f64;
    break;
  case Element::f16:
  case Element::e4m3:
  case Element::e5m2:
    known = accumulator == Element::f16 || accumulator == Element::f32;
    break;
  case Element::bf16:
  case Element::tf32:
    known = accumulator == Element::f32;
    break;
  default:
    known = accumulator == Element::s32;
  }
  if (!known)
    c.fail("products of " + name_of(a) + " are not summed in " + name_of(accumulator) + ",");
}

/* --- operands ------------------------------------------------------------------------------------------------- */

Type register_type(Element element) { return exec::bits_of(element) == 64 ? Type::b64 : Type::b32; }

const char *letter_of(MatrixRole role) { return role == MatrixRole::a ? "A" : role == MatrixRole::b ? "B" : "C"; }

template <class Operand>
void add_registers(Coder &c, const Fragment &fragment, const ast::Operand &operand,
                   std::vector<exec::OperandIndex> &registers, Operand &&operand_of) {
  size_t count = fragment.registers();
  if (operand.kind != ast::Operand::Kind::vector && count == 1) {
    registers.push_back(operand_of(operand));
    return;
  }
  if (operand.kind != ast::Operand::Kind::vector || operand.elements.size() != count)
    c.fail("expected " + std::to_string(count) + " registers of " + letter_of(fragment.role));
  for (const ast::Operand &one : operand.elements)
    registers.push_back(operand_of(one));
}
void add_sources(Coder &c, const Fragment &fragment, size_t operand, std::vector<exec::OperandIndex> &registers) {
  add_registers(c, fragment, c.operand(operand), registers,
                [&](const ast::Operand &one) { return c.source(one, register_type(fragment.element)); });
}
void add_destinations(Coder &c, const Fragment &fragment, size_t operand, std::vector<exec::OperandIndex> &registers) {
  add_registers(c, fragment, c.operand(operand), registers,
                [&](const ast::Operand &one) { return c.destination(one, register_type(fragment.element)); });
}

void emit_product(Coder &c, MatrixProduct &&product) {
  add_destinations(c, product.d, 0, product.registers);
  add_sources(c, product.a, 1, product.registers);
  add_sources(c, product.b, 2, product.registers);
  add_sources(c, product.c, 3, product.registers);
  std::vector<MatrixProduct> &products = c.function().module.program().products;
  c.out.target = static_cast<uint32_t>(products.size());
  products.push_back(std::move(product));
  c.emit(exec::matrix_product_handler());
}

bool take_layout(Coder &c) {
  bool row = c.take("row");
  if (!row && !c.take("col"))
    c.fail("expected .row or .col");
  return row;
}
/* Takes the layouts of A and B, in this order. */
void take_layouts(Coder &c, Fragment &a, Fragment &b) {
  static constexpr std::string_view names[] = {"row", "col"};
  size_t first = c.take_one_of(names, 2), second = c.take_one_of(names, 2);
  if (first == 2 || second == 2)
    c.fail("expected .row or .col for A and for B");
  a.by_row = first == 0;
  b.by_row = second == 0;
}

BitProduct take_bit_product(Coder &c) {
  bool is_and = c.take("and");
  if ((!is_and && !c.take("xor")) || !c.take("popc"))
    c.fail("expected .xor.popc or .and.popc");
  return is_and ? BitProduct::and_ : BitProduct::xor_;
}

MatrixProduct product_of(const MatrixShape &shape, Spread spread, Element d, Element a, Element b, Element c) {
  MatrixProduct product;
  MatrixShape own = shape;
  own.k /= exec::numbers_in(a);
  product.a = {MatrixRole::a, a, own, spread};
  product.b = {MatrixRole::b, b, own, spread};
  product.c = {MatrixRole::c, c, own, spread};
  product.d = {MatrixRole::c, d, own, spread};
  return product;
}

/* --- mma ------------------------------------------------------------------------------------------------------ */

/*
 * Adds two operands of a sparse product: the words with the positions of the numbers of A, and the selector of the
 * lanes that hold these words.
 */
void add_metadata(Coder &c, MatrixProduct &product, size_t place) {
  product.a.sparse = true;
  product.metadata = c.source(place, Type::b32);
  uint64_t selector = c.integer(place + 1);
  uint32_t count = exec::selectors_of(product.a);
  if (selector >= count)
    c.fail("the selector is " + std::to_string(selector) + ", but there are " + std::to_string(count) + " here,");
  product.selector = static_cast<uint32_t>(selector);
}

/* Takes the operands with the scales of A or B: a word, and {byte, thread}. */
exec::ScaleOperands take_scale_operands(Coder &c, size_t place) {
  if (!c.is_list(place + 1) || c.operand(place + 1).elements.size() != 2)
    c.fail("expected {byte, thread}");
  const std::vector<ast::Operand> &selectors = c.operand(place + 1).elements;
  return {c.source(place, Type::b32), c.source(selectors[0], Type::u16), c.source(selectors[1], Type::u16)};
}

/* mma.sync.aligned.shape.row.col.kind{.block_scale{.scale_vec::NX}}.dtype.atype.btype.ctype{.stype} d, a, b, c, ... */
void mma_of_kind(Coder &c, TensorKind kind, const MatrixShape &shape) {
  const uint8_t scales = take_scales(c, kind, false);
  Element d = need_element(c, "D"), a = need_element(c, "A"), b = need_element(c, "B"), from = need_element(c, "C");
  const bool packed = is_packed(kind);
  bool known = packed ? a == Element::e2m1 && b == Element::e2m1 : is_small_float(a) && is_small_float(b);
  if (kind < TensorKind::f8f6f4 || !known || !(shape == MatrixShape{16, 8, packed ? 64u : 32u}))
    c.fail("this .kind has no such product,");
  if (d != from || (d != Element::f32 && (d != Element::f16 || scales)))
    c.fail("C and D cannot be " + name_of(from) + " and " + name_of(d));
  if (packed)
    a = b = Element::e2m1_packed;
  MatrixProduct product = product_of(shape, Spread::mma, d, a, b, from);
  product.at_once = true;
  take_layouts(c, product.a, product.b);
  if (!product.a.by_row || product.b.by_row)
    c.fail("A has to be .row and B .col");
  product.scales = scales;
  c.need(scales ? 8 : 4);
  if (scales) {
    product.scales_are_powers = c.take("ue8m0");
    if (!product.scales_are_powers && (scales != 4 || !c.take("ue4m3")))
      c.fail("expected the type of the scales");
    product.a_scales = take_scale_operands(c, 4);
    product.b_scales = take_scale_operands(c, 6);
  }
  emit_product(c, std::move(product));
}

/* mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype d, a, b, c */
void mma(Coder &c) {
  bool ordered = c.take("sp::ordered_metadata"), sparse = c.take("sp") || ordered;
  c.need_aligned();
  MatrixShape shape = need_shape(c);
  TensorKind kind;
  if (take_kind(c, kind))
    return sparse ? c.unsupported() : mma_of_kind(c, kind, shape);
  Element d = need_element(c, "D"), a = need_element(c, "A"), b = need_element(c, "B"), from = need_element(c, "C");
  Spread spread = a == Element::f16 && shape.m == 8 ? Spread::quad_pairs : Spread::mma;
  if (!go_together(a, b))
    c.fail("A and B cannot be " + name_of(a) + " and " + name_of(b));
  if (sparse)
    check_form(c, sparse_forms, a, shape);
  else
    check_form(c, mma_forms, a, shape);
  check_accumulator(c, a, d);
  check_accumulator(c, a, from);
  if (sparse && is_eight_bit_float(a) && d == Element::f16)
    c.fail("sums in .f16 of sparse " + name_of(a) + " need a newer device than sm_90");
  if (d != from && (spread != Spread::quad_pairs || d == Element::f16))
    c.fail("C cannot be " + name_of(from) + " where D is " + name_of(d));
  MatrixProduct product = product_of(shape, spread, d, a, b, from);
  take_layouts(c, product.a, product.b);
  if (spread == Spread::mma && (!product.a.by_row || product.b.by_row))
    c.fail("A has to be .row and B .col");
  product.saturate = is_integer(a) && c.take("satfinite");
  if (a == Element::b1)
    product.bits = take_bit_product(c);
  c.need(sparse ? 6 : 4);
  if (sparse)
    add_metadata(c, product, 4);
  emit_product(c, std::move(product));
}

/* --- wmma ----------------------------------------------------------------------------------------------------- */

/* Checks that wmma has a product with this fragment, by the fragment's type and shape. */
void check_wmma_fragment(Coder &c, const Fragment &fragment) {
  if (fragment.role != MatrixRole::c)
    return check_form(c, wmma_forms, fragment.element, fragment.shape);
  static constexpr struct {
    Element element;
    MatrixShape shape;
  } rows[] = {{Element::f16, {16, 16, 16}}, {Element::f16, {32, 8, 16}},  {Element::f16, {8, 32, 16}},
              {Element::f32, {16, 16, 16}}, {Element::f32, {32, 8, 16}},  {Element::f32, {8, 32, 16}},
              {Element::f32, {16, 16, 8}},  {Element::s32, {16, 16, 16}}, {Element::s32, {32, 8, 16}},
              {Element::s32, {8, 32, 16}},  {Element::s32, {8, 8, 32}},   {Element::s32, {8, 8, 128}},
              {Element::f64, {8, 8, 4}}};
  for (const auto &row : rows)
    if (row.element == fragment.element && row.shape == fragment.shape)
      return;
  c.fail("there is no matrix C of " + name_of(fragment.element) + " in the shape " + name_of(fragment.shape));
}

/*
 * wmma.load.a.sync.aligned.layout.shape{.space}.type r, [p]{, stride}; wmma.store.d has the same form, with the address
 * first.
 */
void wmma_access(Coder &c, bool store) {
  exec::MatrixAccess access;
  Fragment &fragment = access.fragment;
  bool is_a = !store && c.take("a"), is_b = !store && !is_a && c.take("b");
  if (!is_a && !is_b && !c.take(store ? "d" : "c"))
    c.fail("expected which matrix it is of");
  fragment.role = is_a ? MatrixRole::a : is_b ? MatrixRole::b : MatrixRole::c;
  fragment.spread = Spread::wmma;
  c.need_aligned();
  fragment.by_row = take_layout(c);
  fragment.shape = need_shape(c);
  StateSpace space = c.take_space();
  fragment.element = need_element(c, "the matrix");
  check_wmma_fragment(c, fragment);
  if (exec::bits_of(fragment.element) < 8 || fragment.element == Element::b1)
    if (fragment.by_row != is_a)
      c.fail("A has to be .row and B .col");
  fragment.shape.k /= exec::numbers_in(fragment.element);
  c.need(2, 3);
  size_t address = store ? 0 : 1, value = store ? 1 : 0;
  if (store)
    add_sources(c, fragment, value, access.registers);
  else
    add_destinations(c, fragment, value, access.registers);
  c.set_address(c.operand(address), 0);
  uint32_t line = (fragment.by_row ? fragment.columns() : fragment.rows()) * exec::numbers_in(fragment.element);
  c.out.op[1] = c.count() == 3 ? c.source(2, Type::u32) : c.constant(line);
  std::vector<exec::MatrixAccess> &accesses = c.function().module.program().matrix_accesses;
  c.out.target = static_cast<uint32_t>(accesses.size());
  accesses.push_back(std::move(access));
  c.emit(store ? exec::store_fragment_handler(space) : exec::load_fragment_handler(space));
}

/* wmma.mma.sync.aligned.alayout.blayout.shape.dtype{.atype.btype}.ctype d, a, b, c. Without types, A and B are f16. */
void wmma_mma(Coder &c) {
  bool has_bits = c.take("and"), is_and = has_bits;
  has_bits |= c.take("xor");
  if (has_bits && !c.take("popc"))
    c.fail("expected .popc");
  c.need_aligned();
  MatrixShape shape = need_shape(c);
  Element d = need_element(c, "D"), second = need_element(c, "C"), third = take_element(c);
  Element a = Element::f16, b = Element::f16, from = second;
  if (third != Element::none) {
    a = second;
    b = third;
    from = need_element(c, "C");
  }
  if (a != b)
    c.fail("A and B have to be of one type");
  check_form(c, wmma_forms, a, shape);
  check_accumulator(c, a, d);
  check_accumulator(c, a, from);
  if ((a == Element::b1) != has_bits)
    c.fail(has_bits ? "only products of .b1 have an operation" : "expected .xor.popc or .and.popc");
  MatrixProduct product = product_of(shape, Spread::wmma, d, a, b, from);
  take_layouts(c, product.a, product.b);
  if ((exec::bits_of(a) < 8 || a == Element::b1) && (!product.a.by_row || product.b.by_row))
    c.fail("A has to be .row and B .col");
  product.saturate = is_integer(a) && c.take("satfinite");
  product.bits = is_and ? BitProduct::and_ : BitProduct::xor_;
  if (a == Element::f64)
    c.take("rn");
  c.need(4);
  emit_product(c, std::move(product));
}

void wmma(Coder &c) {
  if (c.take("load"))
    return wmma_access(c, false);
  if (c.take("store"))
    return wmma_access(c, true);
  if (c.take("mma"))
    return wmma_mma(c);
  c.unsupported();
}

/* --- wgmma ---------------------------------------------------------------------------------------------------- */

/*
 * Returns the number of columns of A. A row of A is stored in 32 bytes, which hold all columns or, if A is sparse, half
 * of them.
 */
uint32_t group_k(Element a, bool sparse) { return a == Element::b1 ? 256 : 256 / exec::bits_of(a) * (sparse ? 2 : 1); }

/*
 * Takes the shape m64nNkK, where K is given by `k`. N is a multiple of 8 up to 256 or, for integers, one of 8, 16, 24
 * and the multiples of 16 from 32 on.
 */
MatrixShape take_group_shape(Coder &c, Element a, uint32_t k) {
  bool is_integral = is_integer(a) || a == Element::b1;
  for (uint32_t n = 8; n <= 256; n += is_integral && n >= 32 ? 16 : 8) {
    MatrixShape shape{64, n, k};
    if (c.take(name_of(shape).substr(1)))
      return shape;
  }
  c.fail("expected a shape that there is for " + name_of(a) + ", .m64nNk" + std::to_string(k) +
         (is_integral ? " with N of 8, 16, 24, 32 or a multiple of 16" : " with N a multiple of 8") + " up to 256,");
}

bool take_choice(Coder &c, size_t place, uint64_t first, uint64_t second, const char *what) {
  uint64_t value = c.integer(place);
  if (value != first && value != second)
    c.fail(std::string(what) + " cannot be " + std::to_string(static_cast<int64_t>(value)));
  return value == second;
}

/*
 * wgmma.mma_async{.sp}.sync.aligned.shape{.satfinite}.dtype.atype.btype d, a, b{, metadata, selector}, scale-d
 * {, imm-scale-a, imm-scale-b{, imm-trans-a}{, imm-trans-b}}
 */
void group_product(Coder &c) {
  bool sparse = c.take("sp");
  c.need_aligned();
  Element d = need_element(c, "D"), a = need_element(c, "A"), b = need_element(c, "B");
  if (!go_together(a, b))
    c.fail("A and B cannot be " + name_of(a) + " and " + name_of(b));
  bool is_float = !is_integer(a) && a != Element::b1, may_be_transposed = a == Element::f16 || a == Element::bf16;
  if (a == Element::f64 || a == Element::f32 || a == Element::s32 || exec::bits_of(a) == 4 ||
      (sparse && a == Element::b1))
    c.fail("there is no such product of " + name_of(a) + ",");
  check_accumulator(c, a, d);
  MatrixShape shape = take_group_shape(c, a, group_k(a, sparse));
  GroupProduct group;
  MatrixProduct &product = group.tile;
  product = product_of({16, 8, shape.k}, Spread::wgmma, d, a, b, d);
  product.a.sparse = sparse;
  product.b.by_row = false;
  product.saturate = is_integer(a) && c.take("satfinite");
  if (a == Element::b1) {
    product.bits = take_bit_product(c);
    if (product.bits != BitProduct::and_)
      c.fail("expected .and.popc");
  }
  group.n = shape.n;
  bool a_in_registers = c.is_list(1);
  size_t place = 3;
  c.need(3 + (sparse ? 2 : 0) + 1 + (is_float ? 2 : 0) + (may_be_transposed ? (a_in_registers ? 1 : 2) : 0));
  Fragment whole = product.d;
  whole.shape.n = shape.n;
  add_destinations(c, whole, 0, product.registers);
  if (a_in_registers)
    add_sources(c, product.a, 1, product.registers);
  else
    group.a_descriptor = c.source(1, Type::b64);
  group.b_descriptor = c.source(2, Type::b64);
  if (sparse) {
    add_metadata(c, product, place);
    place += 2;
  }
  if (const ast::Operand &scale = c.operand(place); scale.kind == ast::Operand::Kind::integer && scale.value > 1)
    c.fail("the scale of D cannot be " + std::to_string(static_cast<int64_t>(scale.value)));
  group.adds = c.source_predicate(c.operand(place++));
  if (is_float) {
    group.negated_a = take_choice(c, place++, 1, ~uint64_t{0}, "the scale of A");
    group.negated_b = take_choice(c, place++, 1, ~uint64_t{0}, "the scale of B");
  }
  if (may_be_transposed && !a_in_registers)
    group.a_by_k = !take_choice(c, place++, 0, 1, "the transposition of A");
  if (may_be_transposed)
    group.b_by_k = !take_choice(c, place++, 0, 1, "the transposition of B");
  std::vector<GroupProduct> &products = c.function().module.program().group_products;
  c.out.target = static_cast<uint32_t>(products.size());
  products.push_back(std::move(group));
  c.emit(exec::group_product_handler());
}

void wgmma(Coder &c) {
  if (c.take("mma_async"))
    return group_product(c);
  static constexpr std::string_view names[] = {"fence", "commit_group", "wait_group"}; /* in the order of GroupOrder */
  size_t order = c.take_one_of(names, std::size(names));
  if (order == std::size(names))
    c.unsupported();
  c.need_aligned();
  bool waits = static_cast<GroupOrder>(order) == GroupOrder::wait;
  c.need(waits ? 1 : 0);
  c.out.mode = static_cast<uint8_t>(order);
  if (waits) {
    c.out.immediate = static_cast<int64_t>(c.integer(0));
    if (c.out.immediate < 0)
      c.fail("the number of groups that need not be complete cannot be " + std::to_string(c.out.immediate));
  }
  c.emit(exec::group_order_handler());
}

} // namespace

const Decoder matrix_decoders[] = {{"mma", mma}, {"wmma", wmma}, {"wgmma", wgmma}, {nullptr, nullptr}};

} // namespace sim::ptx
