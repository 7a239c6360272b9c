/* SPDX-License-Identifier: Apache-2.0 */
/* tcgen05: tensor memory, and products of matrices in it. */
#include "sim/ptx/decode/matrix_kind.h"
#include "sim/ptx/decode/memory.h"

namespace sim::ptx {

namespace {

using exec::TensorCopyRows;
using exec::TensorKind;
using exec::TensorShape;

[[noreturn]] void not_simulated(const Coder &c, const char *what) {
  throw StatementError{"unknown instruction '" + c.text() + "': " + what + " is not simulated",
                       CompileResult::Failure::unsupported_instruction};
}

void take_group(Coder &c) {
  if (c.take("cta_group::2"))
    not_simulated(c, "tensor memory of two blocks");
  if (!c.take("cta_group::1"))
    c.unsupported();
}
/* Returns a register with an address of tensor memory: [address]. */
exec::OperandIndex tensor_address(Coder &c, const ast::Operand &operand) {
  bool narrow = false;
  exec::OperandIndex address = computed_address(c, operand, narrow);
  if (!narrow)
    c.fail("an address of tensor memory has 32 bits");
  return address;
}

void alloc(Coder &c) {
  take_group(c);
  c.need_aligned();
  StateSpace space = c.take_space();
  c.need_type(Type::b32);
  c.need(2);
  if (space != StateSpace::generic && space != StateSpace::shared)
    c.unsupported();
  bool narrow = false;
  c.out.op[0] = computed_address(c, c.operand(0), narrow);
  c.out.op[1] = c.source(1, Type::b32);
  c.out.flag = narrow || space == StateSpace::shared;
  c.emit(exec::tensor_alloc_handler());
}
void dealloc(Coder &c) {
  take_group(c);
  c.need_aligned();
  c.need_type(Type::b32);
  c.need(2);
  c.out.op[0] = c.source(0, Type::b32);
  c.out.op[1] = c.source(1, Type::b32);
  c.emit(exec::tensor_free_handler());
}
void relinquish(Coder &c) {
  take_group(c);
  c.need_aligned();
  c.need(0);
  c.emit(exec::tensor_relinquish_handler());
}

/* tcgen05.ld.sync.aligned.shape.num{.pack::16b}.b32 {r, ...}, [address]{, distance}; st has the address first. */
void access(Coder &c, bool store) {
  static constexpr Coder::Choice<TensorShape> shapes[] = {{"32x32b", TensorShape::lanes_32x32b},
                                                          {"16x32bx2", TensorShape::lanes_16x32bx2},
                                                          {"16x64b", TensorShape::lanes_16x64b},
                                                          {"16x128b", TensorShape::lanes_16x128b},
                                                          {"16x256b", TensorShape::lanes_16x256b}};
  if (!store && c.take("red"))
    not_simulated(c, "a load with a reduction");
  c.need_aligned();
  TensorShape shape;
  if (!c.take_choice(shapes, shape))
    c.unsupported();
  uint32_t count = 1;
  while (count <= 128 && !c.take("x" + std::to_string(count)))
    count *= 2;
  c.out.flag = c.take(store ? "unpack::16b" : "pack::16b");
  c.need_type(Type::b32);
  uint32_t registers = count * (shape == TensorShape::lanes_16x128b ? 2 : shape == TensorShape::lanes_16x256b ? 4 : 1);
  if (registers > 128)
    c.unsupported();
  bool halves = shape == TensorShape::lanes_16x32bx2;
  c.need(halves ? 3 : 2);
  const size_t address = store ? 0 : 1, distance = store ? 1 : 2, values = store ? c.count() - 1 : 0;
  c.out.op[0] = tensor_address(c, c.operand(address));
  if (halves)
    c.out.immediate = static_cast<int64_t>(c.integer(distance));
  exec::MatrixAccess where;
  for (const ast::Operand &one : elements_of(c, c.operand(values), registers))
    where.registers.push_back(store ? c.source(one, Type::b32) : c.destination(one, Type::b32));
  c.out.mode = static_cast<uint8_t>(shape);
  std::vector<exec::MatrixAccess> &accesses = c.function().module.program().matrix_accesses;
  c.out.target = static_cast<uint32_t>(accesses.size());
  accesses.push_back(std::move(where));
  c.emit(store ? exec::tensor_store_handler() : exec::tensor_load_handler());
}

/* Waits and fences: operations are complete when they have been executed. */
void nothing(Coder &c) {
  c.need(0);
  c.emit(exec::nop_handler());
}

/* tcgen05.commit.cta_group::1.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64 [mbarrier]{, blocks} */
void commit(Coder &c) {
  take_group(c);
  bool arrives = c.take("mbarrier::arrive::one");
  StateSpace space = c.take_space();
  bool sends = c.take("multicast::cluster");
  c.need_type(Type::b64);
  c.need(sends ? 2 : 1);
  if (!arrives || (space != StateSpace::generic && space != StateSpace::shared_cluster))
    c.unsupported();
  c.out.access = completion_access;
  c.set_address(c.operand(0), 1, 8);
  if (sends)
    c.out.op[4] = c.source(1, Type::u16);
  c.emit(exec::mbarrier_handler(exec::MbarrierOp::arrive, c.out.flag ? StateSpace::shared : space));
}

/* tcgen05.cp.cta_group::1.shape{.multicast} [address], descriptor */
void copy(Coder &c) {
  take_group(c);
  if (c.take("4x256b"))
    not_simulated(c, "a copy to four lanes");
  bool is_wide = c.take("128x256b"), is_whole = is_wide || c.take("128x128b");
  TensorCopyRows rows = TensorCopyRows::all_128;
  if (!is_whole) {
    static constexpr Coder::Choice<TensorCopyRows> halves[] = {{"warpx2::02_13", TensorCopyRows::halves_02_13},
                                                               {"warpx2::01_23", TensorCopyRows::halves_01_23}};
    if (c.take("32x128b") && c.take("warpx4"))
      rows = TensorCopyRows::to_all_warps;
    else if (!c.take("64x128b") || !c.take_choice(halves, rows))
      c.unsupported();
  }
  if (c.take("b8x16"))
    not_simulated(c, "a copy that unpacks numbers");
  c.need(2);
  c.out.op[0] = tensor_address(c, c.operand(0));
  c.out.op[1] = c.source(1, Type::b64);
  c.out.mode = static_cast<uint8_t>(rows);
  c.out.count = is_wide ? 8 : 4;
  c.emit(exec::tensor_fill_handler());
}

/*
 * tcgen05.mma.cta_group::1.kind [d], a, b, description{, [scales of a], [scales of b]}{, {masks}}, adds{, scale of d}
 */
void product(Coder &c) {
  for (const char *variant : {"sp", "ws"})
    if (c.take(variant))
      not_simulated(c, *variant == 's' ? "a product of a sparse matrix" : "a product that keeps B");
  take_group(c);
  TensorKind kind;
  if (!take_kind(c, kind))
    c.unsupported();
  if (c.take("ashift"))
    not_simulated(c, "a shifted matrix");
  for (const char *use : {"fill", "use", "lastuse", "discard"})
    c.take(std::string("collector::a::") + use);
  const bool is_scaled = exec::is_scaled(kind);
  c.out.count = take_scales(c, kind, true);
  c.need(is_scaled ? 7 : 5, 7);
  c.out.op[0] = tensor_address(c, c.operand(0));
  c.out.flag = c.operand(1).kind == ast::Operand::Kind::address;
  c.out.op[1] = c.out.flag ? tensor_address(c, c.operand(1)) : c.source(1, Type::b64);
  c.out.op[2] = c.source(2, Type::b64);
  c.out.op[3] = c.source(3, Type::b32);
  size_t place = 4;
  if (is_scaled) {
    c.out.op[5] = tensor_address(c, c.operand(place++));
    c.out.op[6] = tensor_address(c, c.operand(place++));
  } else if (c.is_list(place)) {
    const std::vector<ast::Operand> &masks = elements_of(c, c.operand(place++), 4);
    for (size_t i = 0; i < masks.size(); ++i)
      c.out.op[5 + i] = c.source(masks[i], Type::b32);
  }
  if (place >= c.count())
    c.fail("expected a predicate");
  c.out.op[4] = c.source_predicate(c.operand(place++));
  if (place < c.count()) {
    if (is_scaled || (kind != TensorKind::f16 && kind != TensorKind::tf32) || c.integer(place) > 15)
      c.fail("D can be scaled by 0 to 15, for .kind::f16 and .kind::tf32");
    c.out.immediate = static_cast<int64_t>(c.integer(place++));
  }
  c.need(place);
  c.out.mode = static_cast<uint8_t>(kind);
  c.emit(exec::tensor_product_handler());
}

void tcgen05(Coder &c) {
  struct Operation {
    std::string_view name;
    void (*decode)(Coder &);
  };
  static constexpr Operation operations[] = {{"alloc", alloc},
                                             {"dealloc", dealloc},
                                             {"relinquish_alloc_permit", relinquish},
                                             {"ld", [](Coder &one) { access(one, false); }},
                                             {"st", [](Coder &one) { access(one, true); }},
                                             {"commit", commit},
                                             {"cp", copy},
                                             {"mma", product}};
  for (const Operation &operation : operations)
    if (c.take(operation.name))
      return operation.decode(c);
  if (c.take("shift"))
    not_simulated(c, "a shift");
  for (const char *order : {"wait::ld", "wait::st"})
    if (c.take(order)) {
      c.need_aligned();
      return nothing(c);
    }
  if (!c.take("fence::before_thread_sync") && !c.take("fence::after_thread_sync"))
    c.unsupported();
  nothing(c);
}

} // namespace

bool take_kind(Coder &c, TensorKind &kind) {
  static constexpr Coder::Choice<TensorKind> kinds[] = {
      {"kind::f16", TensorKind::f16},           {"kind::tf32", TensorKind::tf32},
      {"kind::f8f6f4", TensorKind::f8f6f4},     {"kind::i8", TensorKind::i8},
      {"kind::mxf8f6f4", TensorKind::mxf8f6f4}, {"kind::mxf4", TensorKind::mxf4},
      {"kind::mxf4nvf4", TensorKind::mxf4nvf4}};
  return c.take_choice(kinds, kind);
}

uint8_t take_scales(Coder &c, TensorKind kind, bool by_block) {
  struct Form {
    TensorKind kind;
    std::string_view name, block;
    uint8_t scales;
    bool is_default; /* the number can be left out */
  };
  static constexpr Form forms[] = {{TensorKind::mxf8f6f4, "scale_vec::1X", "block32", 1, true},
                                   {TensorKind::mxf4, "scale_vec::2X", "block32", 2, true},
                                   {TensorKind::mxf4nvf4, "scale_vec::2X", "block32", 2, false},
                                   {TensorKind::mxf4nvf4, "scale_vec::4X", "block16", 4, false}};
  if (!is_scaled(kind))
    return 0;
  if (!c.take("block_scale"))
    c.fail("expected .block_scale");
  for (const Form &form : forms)
    if (form.kind == kind && (c.take(form.name) || (by_block && c.take(form.block)) || form.is_default))
      return form.scales;
  c.fail("expected .scale_vec::2X or .scale_vec::4X");
}

const Decoder tcgen05_decoders[] = {{"tcgen05", tcgen05}, {nullptr, nullptr}};

} // namespace sim::ptx
