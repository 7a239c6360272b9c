/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons, and selection by predicates and signs. */
#include "sim/exec/ops/functions.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"
#include "sim/isa/numeric.h"

namespace sim::exec {

namespace {

/* f16 and bf16 are compared as doubles. */
struct F16 {
  uint16_t bits;
  double value() const { return value_of(format_f16, bits); }
};
struct Bf16 {
  uint16_t bits;
  double value() const { return value_of(format_bf16, bits); }
};
template <class T> T comparable(T value) { return value; }
double comparable(F16 value) { return value.value(); }
double comparable(Bf16 value) { return value.value(); }

template <Comparison C, class T, bool Ftz>
uint32_t compare(const uint64_t *a, const uint64_t *b, uint32_t lanes, unsigned shift = 0) {
  uint32_t result = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    T left, right;
    std::memcpy(&left, reinterpret_cast<const char *>(a + lane) + shift, sizeof left);
    std::memcpy(&right, reinterpret_cast<const char *>(b + lane) + shift, sizeof right);
    auto x = comparable(left), y = comparable(right);
    if constexpr (Ftz && std::is_same_v<T, float>) {
      x = flush(x);
      y = flush(y);
    }
    result |= uint32_t{holds(C, x, y)} << lane;
  });
  return result;
}

uint32_t combine(const Warp &w, const Instruction &ins, uint32_t value) {
  switch (static_cast<BooleanOp>(ins.mode)) {
  case BooleanOp::and_:
    return value & w.predicate(ins.op[4]);
  case BooleanOp::or_:
    return value | w.predicate(ins.op[4]);
  case BooleanOp::xor_:
    return value ^ w.predicate(ins.op[4]);
  default:
    return value;
  }
}

template <Comparison C, class T, bool Ftz> struct SetPredicate {
  static void run(Warp &w, const Instruction &ins, uint32_t lanes) {
    uint32_t result = compare<C, T, Ftz>(w.in(ins.op[2]), w.in(ins.op[3]), lanes);
    uint32_t both = combine(w, ins, result), other = combine(w, ins, ~result);
    w.set_predicate(ins.op[0], lanes, both);
    if (ins.op[1] != no_operand)
      w.set_predicate(ins.op[1], lanes, other);
  }
};
template <Comparison C, class T, bool Ftz> struct SetPredicatePair {
  static void run(Warp &w, const Instruction &ins, uint32_t lanes) {
    const uint64_t *a = w.in(ins.op[2]), *b = w.in(ins.op[3]);
    uint32_t low = combine(w, ins, compare<C, T, Ftz>(a, b, lanes));
    uint32_t high = combine(w, ins, compare<C, T, Ftz>(a, b, lanes, 2));
    w.set_predicate(ins.op[0], lanes, low);
    if (ins.op[1] != no_operand)
      w.set_predicate(ins.op[1], lanes, high);
  }
};
/*
 * Operands: d, a, b, none, c. The immediate is the result for true: all ones, or 1.0 if d is a floating-point register.
 */
template <Comparison C, class T, bool Ftz> struct SetValue {
  static void run(Warp &w, const Instruction &ins, uint32_t lanes) {
    uint32_t result = combine(w, ins, compare<C, T, Ftz>(w.in(ins.op[1]), w.in(ins.op[2]), lanes));
    uint64_t *d = w.out(ins.op[0]);
    auto truth = static_cast<uint64_t>(ins.immediate);
    for_lanes(lanes, [&](uint32_t lane) { d[lane] = (result >> lane) & 1 ? truth : 0; });
  }
};
template <Comparison C, class T, bool Ftz> struct SetValuePair {
  static void run(Warp &w, const Instruction &ins, uint32_t lanes) {
    const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]);
    uint32_t low = combine(w, ins, compare<C, T, Ftz>(a, b, lanes));
    uint32_t high = combine(w, ins, compare<C, T, Ftz>(a, b, lanes, 2));
    uint64_t *d = w.out(ins.op[0]);
    auto truth = static_cast<uint32_t>(ins.immediate);
    for_lanes(lanes, [&](uint32_t lane) {
      uint32_t value = ((low >> lane) & 1 ? truth & 0xffff : 0) | ((high >> lane) & 1 ? truth & 0xffff0000 : 0);
      put<uint32_t>(d, lane, value);
    });
  }
};

template <template <Comparison, class, bool> class H, class T, bool Ftz> Handler ordered(Comparison comparison) {
  return for_constant<Comparison::eq, Comparison::ne, Comparison::lt, Comparison::le, Comparison::gt, Comparison::ge>(
      comparison, [](auto c) { return H<c.value, T, Ftz>::run; });
}
template <template <Comparison, class, bool> class H, class T, bool Ftz> Handler floating(Comparison comparison) {
  Handler handler = ordered<H, T, Ftz>(comparison);
  if (handler)
    return handler;
  return for_constant<Comparison::equ, Comparison::neu, Comparison::ltu, Comparison::leu, Comparison::gtu,
                      Comparison::geu, Comparison::num, Comparison::nan>(
      comparison, [](auto c) { return H<c.value, T, Ftz>::run; });
}
template <template <Comparison, class, bool> class H> Handler typed(Comparison comparison, Type type, bool ftz) {
  auto integers = [=](auto t) { return ordered<H, decltype(t), false>(comparison); };
  switch (type) {
  case Type::f16:
    return floating<H, F16, false>(comparison);
  case Type::bf16:
    return floating<H, Bf16, false>(comparison);
  case Type::f32:
    return ftz ? floating<H, float, true>(comparison) : floating<H, float, false>(comparison);
  case Type::f64:
    return floating<H, double, false>(comparison);
  default:
    if (ptx::class_of(type) == ptx::TypeClass::bits)
      return for_width<uint16_t, uint32_t, uint64_t>(type, integers);
    return for_type<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(type, integers);
  }
}
template <template <Comparison, class, bool> class H> Handler paired(Comparison comparison, Type type) {
  if (type == Type::f16x2)
    return floating<H, F16, false>(comparison);
  if (type == Type::bf16x2)
    return floating<H, Bf16, false>(comparison);
  return nullptr;
}

/* d = p ? a : b */
template <class T> void select(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]);
  uint32_t p = w.predicate(ins.op[3]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) { put<T>(d, lane, get<T>((p >> lane) & 1 ? a : b, lane)); });
}

struct SelectBySign {
  template <class T, class S> static T apply(T a, T b, S c) { return c >= 0 ? a : b; }
};
struct SelectBySignFlushed {
  template <class T> static T apply(T a, T b, float c) { return flush(c) >= 0 ? a : b; }
};

template <class F, class S> Handler select_by_sign(Type type) {
  return for_width<uint16_t, uint32_t, uint64_t>(type, [](auto t) {
    using T = decltype(t);
    return ternary<F, T, T, T, S>;
  });
}

} // namespace

Handler setp_handler(Comparison comparison, Type type, bool ftz) { return typed<SetPredicate>(comparison, type, ftz); }
Handler setp_pair_handler(Comparison comparison, Type type) { return paired<SetPredicatePair>(comparison, type); }
Handler set_handler(Comparison comparison, Type type, bool ftz) {
  if (type == Type::f16x2 || type == Type::bf16x2)
    return paired<SetValuePair>(comparison, type);
  return typed<SetValue>(comparison, type, ftz);
}

Handler selp_handler(Type type) {
  return for_width<uint16_t, uint32_t, uint64_t>(type, [](auto t) { return select<decltype(t)>; });
}

Handler slct_handler(Type type, Type selector, bool ftz) {
  if (selector == Type::s32)
    return ftz ? nullptr : select_by_sign<SelectBySign, int32_t>(type);
  if (selector == Type::f32)
    return ftz ? select_by_sign<SelectBySignFlushed, float>(type) : select_by_sign<SelectBySign, float>(type);
  return nullptr;
}

} // namespace sim::exec
