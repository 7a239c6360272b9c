/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic. */
#include <limits>

#include "sim/isa/handlers.h"
#include "sim/exec/ops/functions.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"

namespace sim::exec {

namespace {

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

template <class T> using Unsigned = std::make_unsigned_t<T>;
template <class T> struct Is {
  using type = T;
};
template <class T> struct Widened;
template <> struct Widened<uint16_t> : Is<uint32_t> {};
template <> struct Widened<int16_t> : Is<int32_t> {};
template <> struct Widened<uint32_t> : Is<uint64_t> {};
template <> struct Widened<int32_t> : Is<int64_t> {};
template <> struct Widened<uint64_t> : Is<uint128> {};
template <> struct Widened<int64_t> : Is<int128> {};
template <class T> using Wide = typename Widened<T>::type;

/*
 * The unsigned type of at least 32 bits in which arithmetic on T is computed, because C++ defines the wrap-around of
 * unsigned types.
 */
template <class T> using Ring = std::conditional_t<sizeof(T) < 4, uint32_t, Unsigned<T>>;

template <class T> T saturate(int64_t value) {
  constexpr int64_t low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  return static_cast<T>(value < low ? low : value > high ? high : value);
}

struct Add {
  template <class T> static T apply(T a, T b) { return static_cast<T>(Ring<T>(a) + Ring<T>(b)); }
};
struct Sub {
  template <class T> static T apply(T a, T b) { return static_cast<T>(Ring<T>(a) - Ring<T>(b)); }
};
struct AddSaturated {
  template <class T> static T apply(T a, T b) { return saturate<T>(int64_t{a} + b); }
};
struct SubSaturated {
  template <class T> static T apply(T a, T b) { return saturate<T>(int64_t{a} - b); }
};
struct MulLo {
  template <class T> static T apply(T a, T b) { return static_cast<T>(Ring<T>(a) * Ring<T>(b)); }
};
struct MulHi {
  template <class T> static T apply(T a, T b) { return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> (sizeof(T) * 8)); }
};
struct MulWide {
  template <class T> static Wide<T> apply(T a, T b) { return Wide<T>(a) * Wide<T>(b); }
};
/* Returns the 24 low bits of a, sign-extended if the type is signed. */
template <class T> int64_t low24(T a) {
  uint32_t bits = static_cast<uint32_t>(a) & 0xffffff;
  return std::is_signed_v<T> ? int64_t{static_cast<int32_t>(bits << 8) >> 8} : int64_t{bits};
}
struct Mul24Lo {
  template <class T> static T apply(T a, T b) { return static_cast<T>(low24(a) * low24(b)); }
};
struct Mul24Hi {
  template <class T> static T apply(T a, T b) { return static_cast<T>((low24(a) * low24(b)) >> 16); }
};
template <class F> struct ThenAdd {
  template <class T> static T apply(T a, T b, T c) { return Add::apply(F::apply(a, b), c); }
};
template <class F> struct ThenAddSaturated {
  template <class T> static T apply(T a, T b, T c) { return saturate<T>(int64_t{F::apply(a, b)} + c); }
};
struct MadWide {
  template <class T> static Wide<T> apply(T a, T b, Wide<T> c) {
    return static_cast<Wide<T>>(Unsigned<Wide<T>>(MulWide::apply(a, b)) + Unsigned<Wide<T>>(c));
  }
};
struct Sad {
  template <class T> static T apply(T a, T b, T c) {
    Ring<T> difference = a < b ? Ring<T>(b) - Ring<T>(a) : Ring<T>(a) - Ring<T>(b);
    return static_cast<T>(Ring<T>(c) + difference);
  }
};
/* A division by zero gives all ones, and so does its remainder. The most negative number divided by -1 wraps around. */
struct Div {
  template <class T> static T apply(T a, T b) {
    if (b == 0)
      return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == -1)
        return static_cast<T>(Ring<T>{0} - Ring<T>(a));
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T> static T apply(T a, T b) {
    if (b == 0)
      return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == -1)
        return 0;
    return static_cast<T>(a % b);
  }
};
struct Neg {
  template <class T> static T apply(T a) { return static_cast<T>(Ring<T>{0} - Ring<T>(a)); }
};
struct Abs {
  template <class T> static T apply(T a) { return a < 0 ? Neg::apply(a) : a; }
};
template <class F> struct Relu {
  template <class T> static T apply(T a, T b) { return Max::apply(F::apply(a, b), T{0}); }
};
/* Applies F to each of the two 16-bit values in a 32-bit register. */
template <class F, class T> struct Pair {
  static uint32_t apply(uint32_t a, uint32_t b) {
    auto low = static_cast<uint16_t>(F::apply(static_cast<T>(a), static_cast<T>(b)));
    auto high = static_cast<uint16_t>(F::apply(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return low | (uint32_t{high} << 16);
  }
};

template <class Make> Handler for_integer(Type type, Make make) {
  return for_type<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(type, make);
}
template <class Make> Handler for_integer_of_32(Type type, Make make) {
  return for_type<uint32_t, int32_t>(type, make);
}
/* Chooses the handler for a type with a type of twice its width, in which products and their sums are computed. */
template <class Make> Handler for_widened(Type type, Make make) {
  return for_type<uint16_t, int16_t, uint32_t, int32_t>(type, make);
}

template <class F> Handler two(Type type) {
  return for_integer(type, [](auto t) { return binary<F, decltype(t), decltype(t)>; });
}
template <class F> Handler two_or_pair(Type type) {
  if (type == Type::u16x2)
    return binary<Pair<F, uint16_t>, uint32_t, uint32_t>;
  if (type == Type::s16x2)
    return binary<Pair<F, int16_t>, uint32_t, uint32_t>;
  return two<F>(type);
}
template <class F> Handler three(Type type) {
  return for_integer(type, [](auto t) { return ternary<F, decltype(t), decltype(t)>; });
}
template <class F> Handler one_signed(Type type) {
  return for_type<int16_t, int32_t, int64_t>(type, [](auto t) { return unary<F, decltype(t), decltype(t)>; });
}
template <class F> Handler two_of_32(Type type) {
  return for_integer_of_32(type, [](auto t) { return binary<F, decltype(t), decltype(t)>; });
}
template <class F> Handler three_of_32(Type type) {
  return for_integer_of_32(type, [](auto t) { return ternary<F, decltype(t), decltype(t)>; });
}
template <class F> Handler two_of_s32(Type type) {
  return for_type<int32_t>(type, [](auto t) { return binary<F, decltype(t), decltype(t)>; });
}
template <class F> Handler three_of_s32(Type type) {
  return for_type<int32_t>(type, [](auto t) { return ternary<F, decltype(t), decltype(t)>; });
}
template <class F> Handler relu(Type type) {
  return type == Type::s16x2 ? binary<Pair<Relu<F>, int16_t>, uint32_t, uint32_t> : two_of_s32<Relu<F>>(type);
}

Handler mul_wide(Type type) {
  return for_widened(type, [](auto t) { return binary<MulWide, Wide<decltype(t)>, decltype(t)>; });
}
Handler mad_wide(Type type) {
  return for_widened(type, [](auto t) {
    using T = decltype(t);
    return ternary<MadWide, Wide<T>, T, T, Wide<T>>;
  });
}

/* --- extended precision: the carry of each lane is a bit of the warp ------------------------------------------ */

enum class Product : uint8_t { none, lo, hi };

/*
 * Computes a +- b, or a * b +- c. `Use`: the old carry takes part. `Set`: the new carry is kept. Subtraction adds the
 * complement, so the carry is set if there was no borrow. The PTX manual describes a borrow instead, which is
 * equivalent as long as additions and subtractions are not mixed. NVRTC's division of 128-bit numbers mixes them, and
 * relies on the carry.
 */
template <class T, Product P, bool Subtract, bool Use, bool Set>
void extended(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]);
  const uint64_t *c = P == Product::none ? b : w.in(ins.op[3]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) {
    T left = get<T>(a, lane);
    if (P == Product::lo)
      left = MulLo::apply(left, get<T>(b, lane));
    if (P == Product::hi)
      left = MulHi::apply(left, get<T>(b, lane));
    using U = Unsigned<T>;
    U x = static_cast<U>(left), y = get<U>(c, lane), carry = Use ? (w.carries >> lane) & 1 : Subtract;
    if (Subtract)
      y = static_cast<U>(~y);
    U first = x + y;
    U result = first + carry;
    put<U>(d, lane, result);
    if (!Set)
      return;
    bool out = first < x || result < first;
    w.carries = (w.carries & ~(1u << lane)) | (uint32_t{out} << lane);
  });
}

template <Product P, bool Subtract, bool Use, bool Set> Handler extended_of(Type type) {
  return for_type<uint32_t, int32_t, uint64_t, int64_t>(
      type, [](auto t) { return extended<decltype(t), P, Subtract, Use, Set>; });
}

/* --- dot products --------------------------------------------------------------------------------------------- */

/* Returns a byte (or half) of a word, extended to 32 bits with its sign if the type is signed. */
template <class T> uint32_t element(uint32_t word, unsigned index) {
  return static_cast<uint32_t>(static_cast<int32_t>(static_cast<T>(word >> (index * sizeof(T) * 8))));
}
template <class A, class B> struct Dp4a {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    for (unsigned i = 0; i < 4; ++i)
      c += element<A>(a, i) * element<B>(b, i);
    return c;
  }
};
template <class A, class B, unsigned First> struct Dp2a {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    for (unsigned i = 0; i < 2; ++i)
      c += element<A>(a, i) * element<B>(b, First + i);
    return c;
  }
};

template <class A16, class A8, class B8> Handler dot(DotOp op) {
  switch (op) {
  case DotOp::dp4a:
    return ternary<Dp4a<A8, B8>, uint32_t, uint32_t>;
  case DotOp::dp2a_lo:
    return ternary<Dp2a<A16, B8, 0>, uint32_t, uint32_t>;
  case DotOp::dp2a_hi:
    return ternary<Dp2a<A16, B8, 2>, uint32_t, uint32_t>;
  }
  return nullptr;
}

} // namespace

Handler integer_handler(IntegerOp op, Type type) {
  using Op = IntegerOp;
  static constexpr Choice<Op, Type> choices[] = {{Op::add, two_or_pair<Add>},
                                                 {Op::sub, two_or_pair<Sub>},
                                                 {Op::add_sat, two_of_s32<AddSaturated>},
                                                 {Op::sub_sat, two_of_s32<SubSaturated>},
                                                 {Op::mul_lo, two<MulLo>},
                                                 {Op::mul_hi, two<MulHi>},
                                                 {Op::mul_wide, mul_wide},
                                                 {Op::mul24_lo, two_of_32<Mul24Lo>},
                                                 {Op::mul24_hi, two_of_32<Mul24Hi>},
                                                 {Op::mad_lo, three<ThenAdd<MulLo>>},
                                                 {Op::mad_hi, three<ThenAdd<MulHi>>},
                                                 {Op::mad_hi_sat, three_of_s32<ThenAddSaturated<MulHi>>},
                                                 {Op::mad_wide, mad_wide},
                                                 {Op::mad24_lo, three_of_32<ThenAdd<Mul24Lo>>},
                                                 {Op::mad24_hi, three_of_32<ThenAdd<Mul24Hi>>},
                                                 {Op::mad24_hi_sat, three_of_s32<ThenAddSaturated<Mul24Hi>>},
                                                 {Op::sad, three<Sad>},
                                                 {Op::div, two<Div>},
                                                 {Op::rem, two<Rem>},
                                                 {Op::abs, one_signed<Abs>},
                                                 {Op::neg, one_signed<Neg>},
                                                 {Op::min, two_or_pair<Min>},
                                                 {Op::max, two_or_pair<Max>},
                                                 {Op::min_relu, relu<Min>},
                                                 {Op::max_relu, relu<Max>},
                                                 {Op::add_cc, extended_of<Product::none, false, false, true>},
                                                 {Op::addc, extended_of<Product::none, false, true, false>},
                                                 {Op::addc_cc, extended_of<Product::none, false, true, true>},
                                                 {Op::sub_cc, extended_of<Product::none, true, false, true>},
                                                 {Op::subc, extended_of<Product::none, true, true, false>},
                                                 {Op::subc_cc, extended_of<Product::none, true, true, true>},
                                                 {Op::mad_lo_cc, extended_of<Product::lo, false, false, true>},
                                                 {Op::mad_hi_cc, extended_of<Product::hi, false, false, true>},
                                                 {Op::madc_lo, extended_of<Product::lo, false, true, false>},
                                                 {Op::madc_lo_cc, extended_of<Product::lo, false, true, true>},
                                                 {Op::madc_hi, extended_of<Product::hi, false, true, false>},
                                                 {Op::madc_hi_cc, extended_of<Product::hi, false, true, true>}};
  static_assert(is_complete(choices));
  return for_choice(choices, op, type);
}

Handler dot_handler(DotOp op, Type a, Type b) {
  if (a == Type::u32 && b == Type::u32)
    return dot<uint16_t, uint8_t, uint8_t>(op);
  if (a == Type::u32 && b == Type::s32)
    return dot<uint16_t, uint8_t, int8_t>(op);
  if (a == Type::s32 && b == Type::u32)
    return dot<int16_t, int8_t, uint8_t>(op);
  if (a == Type::s32 && b == Type::s32)
    return dot<int16_t, int8_t, int8_t>(op);
  return nullptr;
}

} // namespace sim::exec
