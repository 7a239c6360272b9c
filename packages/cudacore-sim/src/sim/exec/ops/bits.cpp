/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions on bits: logic, shifts, bit fields, permutation of bytes, and predicates. */
#include "sim/isa/handlers.h"
#include "sim/exec/ops/functions.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"

namespace sim::exec {

namespace {

struct Not {
  template <class T> static T apply(T a) { return static_cast<T>(~a); }
};
struct Cnot {
  template <class T> static T apply(T a) { return a == 0; }
};
/* A shift by the width of the type or more gives zero or, for signed right shifts, all sign bits. */
struct Shl {
  template <class T> static T apply(T a, uint32_t n) {
    return n < sizeof(T) * 8 ? static_cast<T>(uint64_t{a} << n) : 0;
  }
};
struct Shr {
  template <class T> static T apply(T a, uint32_t n) {
    constexpr uint32_t bits = sizeof(T) * 8;
    if (n >= bits)
      return std::is_signed_v<T> ? static_cast<T>(a >> (bits - 1)) : T{0};
    return static_cast<T>(a >> n);
  }
};
template <bool Wrap> uint32_t funnel_amount(uint32_t n) { return Wrap ? n & 31 : n > 32 ? 32 : n; }
template <bool Wrap> struct FunnelLeft {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t n) {
    uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(both >> (32 - funnel_amount<Wrap>(n)));
  }
};
template <bool Wrap> struct FunnelRight {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t n) {
    uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(both >> funnel_amount<Wrap>(n));
  }
};
struct Popc {
  template <class T> static uint32_t apply(T a) { return static_cast<uint32_t>(__builtin_popcountll(a)); }
};
struct Clz {
  template <class T> static uint32_t apply(T a) {
    return a == 0 ? sizeof(T) * 8 : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - sizeof(T) * 8);
  }
};
/*
 * Returns the position of the highest bit that differs from the sign bit or, for an unsigned type, of the highest bit
 * that is set.
 */
template <bool Shift> struct Bfind {
  template <class T> static uint32_t apply(T a) {
    using U = std::make_unsigned_t<T>;
    U bits = static_cast<U>(a < 0 ? ~a : a);
    if (bits == 0)
      return 0xffffffffu;
    uint32_t position = sizeof(T) * 8 - 1 - Clz::apply(bits);
    return Shift ? static_cast<uint32_t>(sizeof(T) * 8 - 1) - position : position;
  }
};
struct Brev {
  template <class T> static T apply(T a) {
    T result = 0;
    for (size_t i = 0; i < sizeof(T) * 8; ++i, a >>= 1)
      result = static_cast<T>(result << 1) | (a & 1);
    return result;
  }
};
struct Fns {
  static uint32_t apply(uint32_t mask, uint32_t base, int32_t offset) {
    if (base >= 32)
      return 0xffffffffu;
    if (offset == 0)
      return (mask >> base) & 1 ? base : 0xffffffffu;
    int32_t step = offset > 0 ? 1 : -1;
    int64_t left = offset > 0 ? int64_t{offset} : -int64_t{offset};
    for (auto at = static_cast<int32_t>(base); at >= 0 && at < 32; at += step)
      if ((mask >> at) & 1 && --left == 0)
        return static_cast<uint32_t>(at);
    return 0xffffffffu;
  }
};
/* Returns a number whose `length` lowest bits are ones. */
template <class U> U low_ones(uint32_t length) {
  return length >= sizeof(U) * 8 ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << length) - 1);
}
struct Bfe {
  template <class T> static T apply(T a, uint32_t b, uint32_t c) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t bits = sizeof(T) * 8;
    uint32_t position = b & 0xff, length = c & 0xff;
    if (length == 0)
      return 0;
    auto sign =
        static_cast<U>(std::is_signed_v<T> && ((static_cast<U>(a) >> std::min(position + length - 1, bits - 1)) & 1));
    uint32_t available = position < bits ? std::min(length, bits - position) : 0;
    U field = available ? static_cast<U>(static_cast<U>(a) >> position) & low_ones<U>(available) : U{0};
    return static_cast<T>(sign ? field | static_cast<U>(~low_ones<U>(available)) : field);
  }
};
template <class T> struct Bfi {
  static void run(Warp &w, const Instruction &ins, uint32_t lanes) {
    const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]), *c = w.in(ins.op[3]), *l = w.in(ins.op[4]);
    uint64_t *d = w.out(ins.op[0]);
    for_lanes(lanes, [&](uint32_t lane) {
      uint32_t position = get<uint32_t>(c, lane) & 0xff, length = get<uint32_t>(l, lane) & 0xff;
      T base = get<T>(b, lane), mask = 0;
      if (position < sizeof(T) * 8)
        mask = static_cast<T>(low_ones<T>(length) << position);
      T field = mask ? static_cast<T>(get<T>(a, lane) << position) : T{0};
      put<T>(d, lane, (base & ~mask) | (field & mask));
    });
  }
};
template <bool Wrap> struct Bmsk {
  static uint32_t apply(uint32_t a, uint32_t b) {
    if (Wrap) {
      a &= 31;
      b &= 31;
    }
    return a >= 32 || b == 0 ? 0 : low_ones<uint32_t>(b) << a;
  }
};
/* Extends the low `b` bits of `a` with their sign (s32) or with zeros (u32). */
template <bool Wrap, class T> struct Szext {
  static uint32_t apply(uint32_t a, uint32_t b) {
    if (Wrap)
      b &= 31;
    if (b >= 32)
      return a;
    if (b == 0)
      return 0;
    uint32_t field = a & low_ones<uint32_t>(b);
    bool negative = std::is_signed_v<T> && (field >> (b - 1)) & 1;
    return negative ? field | ~low_ones<uint32_t>(b) : field;
  }
};

/* --- prmt ----------------------------------------------------------------------------------------------------- */

uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t selectors) {
  uint64_t both = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t selector = selectors >> (4 * i);
    auto byte = static_cast<uint32_t>(both >> (8 * (selector & 7))) & 0xff;
    if (selector & 8)
      byte = byte & 0x80 ? 0xff : 0; /* fill the byte with its sign bit */
    result |= byte << (8 * i);
  }
  return result;
}
struct Prmt {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) { return select_bytes(a, b, c & 0xffff); }
};
/*
 * The selectors of the special modes, by the two low bits of c. Each hexadecimal digit selects a source byte for one
 * byte of the result, beginning with byte 3.
 */
constexpr uint16_t f4e[] = {0x3210, 0x4321, 0x5432, 0x6543}, b4e[] = {0x5670, 0x6701, 0x7012, 0x0123},
                   rc8[] = {0x0000, 0x1111, 0x2222, 0x3333}, ecl[] = {0x3210, 0x3211, 0x3222, 0x3333},
                   ecr[] = {0x0000, 0x1110, 0x2210, 0x3210}, rc16[] = {0x1010, 0x3232, 0x1010, 0x3232};
template <const uint16_t *Table> struct PrmtMode {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) { return select_bytes(a, b, Table[c & 3]); }
};

void lop3(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]), *c = w.in(ins.op[3]);
  uint64_t *d = w.out(ins.op[0]);
  auto table = static_cast<uint32_t>(ins.immediate);
  uint32_t nonzero = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    uint32_t x = get<uint32_t>(a, lane), y = get<uint32_t>(b, lane), z = get<uint32_t>(c, lane), result = 0;
    for (uint32_t term = 0; term < 8; ++term)
      if ((table >> term) & 1)
        result |= (term & 4 ? x : ~x) & (term & 2 ? y : ~y) & (term & 1 ? z : ~z);
    put<uint32_t>(d, lane, result);
    nonzero |= uint32_t{result != 0} << lane;
  });
  /* With .and or .or, lop3 also sets a predicate: p = (d != 0) op q. */
  if (ins.op[4] == no_operand)
    return;
  uint32_t q = w.predicate(ins.op[5]);
  w.set_predicate(ins.op[4], lanes, ins.mode == static_cast<uint8_t>(BooleanOp::and_) ? nonzero & q : nonzero | q);
}

template <class F> void predicates(Warp &w, const Instruction &ins, uint32_t lanes) {
  w.set_predicate(ins.op[0], lanes, F::apply(w.predicate(ins.op[1]), w.predicate(ins.op[2])));
}
void not_predicate(Warp &w, const Instruction &ins, uint32_t lanes) {
  w.set_predicate(ins.op[0], lanes, ~w.predicate(ins.op[1]));
}
void move_predicate(Warp &w, const Instruction &ins, uint32_t lanes) {
  w.set_predicate(ins.op[0], lanes, w.predicate(ins.op[1]));
}

template <class F> Handler two(Type type) {
  return for_width<uint16_t, uint32_t, uint64_t>(type, [](auto t) { return binary<F, decltype(t), decltype(t)>; });
}
template <class F> Handler one(Type type) {
  return for_width<uint16_t, uint32_t, uint64_t>(type, [](auto t) { return unary<F, decltype(t), decltype(t)>; });
}
template <class F> Handler counting(Type type) {
  return type == Type::b32   ? Handler(unary<F, uint32_t, uint32_t>)
         : type == Type::b64 ? Handler(unary<F, uint32_t, uint64_t>)
                             : nullptr;
}
template <class Make> Handler for_field(Type type, Make make) {
  return for_type<uint32_t, int32_t, uint64_t, int64_t>(type, make);
}
template <bool Shift> Handler finding(Type type) {
  return for_field(type, [](auto t) { return unary<Bfind<Shift>, uint32_t, decltype(t)>; });
}
template <class F> Handler shift_bits(Type type) {
  return for_width<uint16_t, uint32_t, uint64_t>(type,
                                                 [](auto t) { return binary<F, decltype(t), decltype(t), uint32_t>; });
}
Handler shift_left(Type type) { return ptx::class_of(type) == ptx::TypeClass::bits ? shift_bits<Shl>(type) : nullptr; }
Handler shift_right(Type type) {
  if (ptx::class_of(type) == ptx::TypeClass::bits)
    return shift_bits<Shr>(type);
  return for_type<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(
      type, [](auto t) { return binary<Shr, decltype(t), decltype(t), uint32_t>; });
}
Handler extract(Type type) {
  return for_field(type, [](auto t) { return ternary<Bfe, decltype(t), decltype(t), uint32_t, uint32_t>; });
}
template <bool Wrap> Handler extend(Type type) {
  return type == Type::u32   ? Handler(binary<Szext<Wrap, uint32_t>, uint32_t, uint32_t>)
         : type == Type::s32 ? Handler(binary<Szext<Wrap, int32_t>, uint32_t, uint32_t>)
                             : nullptr;
}
Handler find_set(Type) { return ternary<Fns, uint32_t, uint32_t, uint32_t, int32_t>; }
Handler insert(Type type) {
  return type == Type::b32 ? Bfi<uint32_t>::run : type == Type::b64 ? Bfi<uint64_t>::run : nullptr;
}
template <class F> Handler word2(Type) { return binary<F, uint32_t, uint32_t>; }
template <class F> Handler word3(Type) { return ternary<F, uint32_t, uint32_t>; }

} // namespace

Handler bit_handler(BitOp op, Type type) {
  using Op = BitOp;
  static constexpr Choice<Op, Type> choices[] = {{Op::and_, two<And>},
                                                 {Op::or_, two<Or>},
                                                 {Op::xor_, two<Xor>},
                                                 {Op::not_, one<Not>},
                                                 {Op::cnot, one<Cnot>},
                                                 {Op::shl, shift_left},
                                                 {Op::shr, shift_right},
                                                 {Op::lop3, always<lop3>},
                                                 {Op::shf_l_wrap, word3<FunnelLeft<true>>},
                                                 {Op::shf_l_clamp, word3<FunnelLeft<false>>},
                                                 {Op::shf_r_wrap, word3<FunnelRight<true>>},
                                                 {Op::shf_r_clamp, word3<FunnelRight<false>>},
                                                 {Op::popc, counting<Popc>},
                                                 {Op::clz, counting<Clz>},
                                                 {Op::bfind, finding<false>},
                                                 {Op::bfind_shift, finding<true>},
                                                 {Op::fns, find_set},
                                                 {Op::brev, one<Brev>},
                                                 {Op::bfe, extract},
                                                 {Op::bfi, insert},
                                                 {Op::bmsk_clamp, word2<Bmsk<false>>},
                                                 {Op::bmsk_wrap, word2<Bmsk<true>>},
                                                 {Op::szext_clamp, extend<false>},
                                                 {Op::szext_wrap, extend<true>},
                                                 {Op::prmt, word3<Prmt>},
                                                 {Op::prmt_f4e, word3<PrmtMode<f4e>>},
                                                 {Op::prmt_b4e, word3<PrmtMode<b4e>>},
                                                 {Op::prmt_rc8, word3<PrmtMode<rc8>>},
                                                 {Op::prmt_ecl, word3<PrmtMode<ecl>>},
                                                 {Op::prmt_ecr, word3<PrmtMode<ecr>>},
                                                 {Op::prmt_rc16, word3<PrmtMode<rc16>>},
                                                 {Op::and_pred, always<predicates<And>>},
                                                 {Op::or_pred, always<predicates<Or>>},
                                                 {Op::xor_pred, always<predicates<Xor>>},
                                                 {Op::not_pred, always<not_predicate>},
                                                 {Op::mov_pred, always<move_predicate>}};
  static_assert(is_complete(choices));
  return for_choice(choices, op, type);
}

} // namespace sim::exec
