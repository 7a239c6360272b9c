/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that use tensor maps (cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, cp.async.bulk.prefetch.tensor), and
 * instructions that change tensor maps (tensormap).
 */
#include "sim/ptx/decode/memory.h"

namespace sim::ptx {

namespace {

using exec::TensorCopy;
using exec::TensorWay;

/* .1d to .5d */
uint32_t take_rank(Coder &c) {
  static constexpr std::string_view ranks[] = {"1d", "2d", "3d", "4d", "5d"};
  size_t found = c.take_one_of(ranks, std::size(ranks));
  if (found == std::size(ranks))
    c.unsupported();
  return static_cast<uint32_t>(found) + 1;
}

/* [map, {c0, c1}] */
void set_tensor(Coder &c, const ast::Operand &operand, TensorCopy &copy) {
  bool narrow = false;
  if (operand.elements.size() != copy.rank)
    c.fail("expected a tensor map and " + std::to_string(copy.rank) + " coordinates: [map, {...}]");
  ast::Operand map = operand;
  map.elements.clear();
  copy.map = computed_address(c, map, narrow);
  if (narrow)
    c.fail("the address of a tensor map has 64 bits");
  for (uint32_t i = 0; i < copy.rank; i++)
    copy.at[i] = c.source(operand.elements[i], Type::s32);
}

void set_offsets(Coder &c, size_t place, TensorCopy &copy) {
  if (!c.is_list(place) || c.operand(place).elements.size() != copy.rank - 2)
    c.fail("expected " + std::to_string(copy.rank - 2) + " offsets: {...}");
  for (uint32_t i = 0; i < copy.rank - 2; i++)
    copy.offsets[i] = c.source(c.operand(place).elements[i], Type::u16);
}

bool writes(TensorWay way) { return way == TensorWay::store || way == TensorWay::reduce; }

/* Takes the state spaces. They determine whether a copy that is not a reduction is a load or a store. */
TensorWay take_way(Coder &c, TensorWay way) {
  if (way == TensorWay::prefetch) {
    if (!c.take("L2") || c.take_space() != StateSpace::global)
      c.unsupported();
    return way;
  }
  StateSpace to = c.take_space(), from = c.take_space();
  bool from_shared = from == StateSpace::shared && to == StateSpace::global;
  bool to_shared = from == StateSpace::global && (to == StateSpace::shared || to == StateSpace::shared_cluster);
  if (from_shared)
    return way == TensorWay::reduce ? way : TensorWay::store;
  if (way == TensorWay::reduce || !to_shared)
    c.unsupported();
  return way;
}

/* Takes .tile or .im2col, and the modifier that says how the completion of the copy is signalled. */
void take_modes(Coder &c, TensorCopy &copy) {
  copy.im2col = c.take(writes(copy.way) ? "im2col_no_offs" : "im2col");
  if ((copy.im2col && copy.rank < 3) || (!copy.im2col && c.take("im2col")))
    c.unsupported();
  c.take("tile");
  c.take("cta_group::1"); /* the mbarrier is in the same block as the destination, as without it */
  if ((copy.way == TensorWay::load && !c.take("mbarrier::complete_tx::bytes")) ||
      (writes(copy.way) && !c.take("bulk_group")))
    c.unsupported();
}

/*
 * Operands of a load: shared address, [map, {...}], mbarrier, offsets, blocks. Of a store or a reduction: [map, {...}],
 * shared address. Of a prefetch: [map, {...}], offsets. Offsets, blocks, and a cache hint at the end can be absent.
 */
void set_operands(Coder &c, TensorCopy &copy) {
  bool loads = copy.way == TensorWay::load, has_offsets = copy.im2col && !writes(copy.way);
  bool sends = loads && c.take("multicast::cluster"), has_hint = c.take("L2::cache_hint");
  size_t fixed = loads ? 3 : writes(copy.way) ? 2 : 1;
  c.need(fixed + has_offsets + sends + has_hint);
  set_tensor(c, c.operand(loads ? 1 : 0), copy);
  bool narrow = false;
  if (copy.way != TensorWay::prefetch)
    copy.shared = computed_address(c, c.operand(loads ? 0 : 1), narrow);
  if (loads)
    copy.mbarrier = computed_address(c, c.operand(2), narrow);
  if (has_offsets)
    set_offsets(c, fixed, copy);
  if (sends)
    copy.blocks = c.source(fixed + has_offsets, Type::u16);
}

void emit_copy(Coder &c, const TensorCopy &copy) {
  std::vector<TensorCopy> &copies = c.function().module.program().tensor_copies;
  c.out.target = static_cast<uint32_t>(copies.size());
  copies.push_back(copy);
  if (copy.way == TensorWay::reduce)
    c.out.access = exec::access_strong | exec::access_update;
  c.out.run = exec::tensor_copy_handler();
  if (copy.way != TensorWay::load)
    return c.emit(c.out.run);
  c.emit_before(c.out);
  c.out.access = completion_access;
  c.emit(exec::tensor_signal_handler());
}

} // namespace

void tensor_copy(Coder &c, TensorWay way) {
  TensorCopy copy;
  copy.rank = take_rank(c);
  copy.way = take_way(c, way);
  if (copy.way == TensorWay::reduce && !take_atomic_op(c, copy.op))
    c.unsupported();
  take_modes(c, copy);
  set_operands(c, copy);
  emit_copy(c, copy);
}

namespace {

/* tensormap.replace.tile.field{.space}.b1024{.type} [map], {dimension,} value */
void replace(Coder &c) {
  using Field = exec::TensorField;
  static constexpr std::string_view fields[exec::tensor_field_count] = {
      "global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
      "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode"};
  bool is_tile = c.take("tile");
  size_t found = c.take_one_of(fields, std::size(fields));
  StateSpace space = c.take_space();
  Type type = c.take("b1024") ? c.take_type() : Type::none;
  bool is_known = space == StateSpace::generic || space == StateSpace::global || space == StateSpace::shared;
  if (!is_tile || found == std::size(fields) || !is_known)
    c.unsupported();
  auto field = static_cast<Field>(found);
  bool of_dimension = field >= Field::box_dim && field <= Field::element_stride;
  bool is_wide = field == Field::global_address || field == Field::global_stride;
  c.need(of_dimension ? 3 : 2);
  bool narrow = false;
  c.out.op[0] = computed_address(c, c.operand(0), narrow);
  uint64_t dimension = of_dimension ? c.integer(1) : 0;
  if (dimension + (field == Field::global_stride ? 1 : 0) >= exec::max_tensor_rank)
    c.fail("a tensor map has no dimension " + std::to_string(dimension) + " there");
  c.out.op[1] = c.source(of_dimension ? 2 : 1, type == Type::none ? (is_wide ? Type::b64 : Type::b32) : type);
  c.out.target = static_cast<uint32_t>(found);
  c.out.immediate = static_cast<int64_t>(dimension);
  c.out.flag = narrow || space == StateSpace::shared;
  c.emit(exec::tensor_replace_handler());
}

/* tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [to], [from], 128 */
void publish(Coder &c) {
  const Instruction fence = c.out;
  StateSpace to = c.take_space(), from = c.take_space();
  bool is_known = to == StateSpace::global && from == StateSpace::shared;
  for (const char *word : {"tensormap::generic", "release", "sync", "aligned"})
    is_known &= c.take(word);
  c.take_scope();
  if (!is_known)
    c.unsupported();
  c.need(3);
  if (c.integer(2) != exec::tensor_map_bytes)
    c.fail("a tensor map has 128 bytes");
  bool narrow = false;
  c.out.op[0] = computed_address(c, c.operand(0), narrow);
  c.out.op[1] = computed_address(c, c.operand(1), narrow);
  c.out.run = exec::tensor_publish_handler();
  c.emit_before(c.out);
  c.out = fence;
  c.emit(exec::fence_handler());
}

void tensormap(Coder &c) {
  if (c.take("replace"))
    return replace(c);
  if (!c.take("cp_fenceproxy"))
    c.unsupported();
  publish(c);
}

} // namespace

const Decoder tensor_decoders[] = {{"tensormap", tensormap}, {nullptr, nullptr}};

} // namespace sim::ptx
