/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of eight rows: ldmatrix, stmatrix, movmatrix. */
#include "sim/ptx/coder.h"

namespace sim::ptx {

namespace {

void need_eight_rows(Coder &c) {
  c.need_aligned();
  if (c.take("m8n16") || c.take("m16n16") || c.take("m16n8"))
    c.fail("matrices of bytes need sm_100a: on sm_90, there is .m8n8 of .b16 alone");
  if (!c.take("m8n8"))
    c.fail("expected .m8n8");
}

uint32_t take_count(Coder &c) {
  for (uint32_t count : {1, 2, 4})
    if (c.take("x" + std::to_string(count)))
      return count;
  c.fail("expected .x1, .x2 or .x4");
}

/* ldmatrix.sync.aligned.m8n8.x4{.trans}{.space}.b16 r, [p]; stmatrix has the same form, with the address first. */
void rows(Coder &c, bool store) {
  need_eight_rows(c);
  uint32_t count = take_count(c);
  c.out.mode = c.take("trans");
  StateSpace space = c.take_space();
  if (space != StateSpace::shared && space != StateSpace::generic)
    c.fail("the matrix has to be in .shared");
  if (c.take_type() != Type::b16)
    c.fail("expected .b16");
  c.need(2);
  const ast::Operand &list = c.operand(store ? 1 : 0);
  bool single = count == 1 && list.kind != ast::Operand::Kind::vector;
  if (!single && (list.kind != ast::Operand::Kind::vector || list.elements.size() != count))
    c.fail("expected " + std::to_string(count) + " registers");
  for (uint32_t i = 0; i < count; ++i) {
    const ast::Operand &one = single ? list : list.elements[i];
    c.out.op[i] = store ? c.source(one, Type::b32) : c.destination(one, Type::b32);
  }
  c.out.count = static_cast<uint8_t>(count);
  c.set_address(c.operand(store ? 0 : 1), count, 16);
  c.emit(store ? exec::store_rows_handler(space) : exec::load_rows_handler(space));
}
void ldmatrix(Coder &c) { rows(c, false); }
void stmatrix(Coder &c) { rows(c, true); }

void movmatrix(Coder &c) {
  need_eight_rows(c);
  if (!c.take("trans"))
    c.fail("expected .trans");
  if (c.take_type() != Type::b16)
    c.fail("expected .b16");
  c.need(2);
  c.out.op[0] = c.destination(0, Type::b32);
  c.out.op[1] = c.source(1, Type::b32);
  c.emit(exec::transpose_handler());
}

} // namespace

const Decoder matrix_rows_decoders[] = {
    {"ldmatrix", ldmatrix}, {"stmatrix", stmatrix}, {"movmatrix", movmatrix}, {nullptr, nullptr}};

} // namespace sim::ptx
