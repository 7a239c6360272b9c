/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f32 and f64 arithmetic. IEEE operations are those of the host; approximations are computed in double and rounded
 * once.
 */
#include <type_traits>

#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"
#include "sim/isa/numeric.h"

namespace sim::exec {

namespace {

struct Add {
  template <class T> static T apply(T a, T b) { return a + b; }
};
struct Sub {
  template <class T> static T apply(T a, T b) { return a - b; }
};
struct Mul {
  template <class T> static T apply(T a, T b) { return a * b; }
};
struct Div {
  template <class T> static T apply(T a, T b) { return a / b; }
};
struct Fma {
  template <class T> static T apply(T a, T b, T c) { return std::fma(a, b, c); }
};
struct Rcp {
  template <class T> static T apply(T a) { return T{1} / a; }
};
struct Sqrt {
  template <class T> static T apply(T a) { return std::sqrt(a); }
};

template <class T> bool is_nan(T a) { return a != a; }
/* Returns the larger or smaller operand. A number is preferred to a NaN, and -0 is less than +0. */
template <bool Max, bool KeepNan> struct Extreme {
  template <class T> static T apply(T a, T b) {
    if (is_nan(a) || is_nan(b)) {
      if (KeepNan || (is_nan(a) && is_nan(b)))
        return std::numeric_limits<T>::quiet_NaN();
      return is_nan(a) ? b : a;
    }
    if (a == b)
      return std::signbit(a) == Max ? b : a;
    return (a < b) == Max ? b : a;
  }
};

/* Returns the larger or smaller magnitude, with the sign of the product of the operands. */
template <class E> struct XorSign {
  static float apply(float a, float b) {
    float magnitude = E::apply(std::abs(a), std::abs(b));
    return is_nan(magnitude) ? magnitude : std::copysign(magnitude, std::signbit(a) != std::signbit(b) ? -1.0f : 1.0f);
  }
};

/* Returns the largest or smallest of three operands, or of their magnitudes. */
template <class E, bool Magnitudes> struct OfThree {
  static float apply(float a, float b, float c) {
    if (Magnitudes)
      a = std::abs(a), b = std::abs(b), c = std::abs(c);
    return E::apply(E::apply(a, b), c);
  }
};

/* The approximations below are computed in double, and so are more precise than the hardware guarantees. */
struct DivFull {
  static float apply(float a, float b) { return static_cast<float>(double{a} / b); }
};
/* Computes a times the reciprocal of b. The reciprocal is flushed to zero if the magnitude of b is above 2^126. */
struct DivApprox {
  static float apply(float a, float b) {
    if (std::isfinite(b) && std::abs(b) > 0x1p126f)
      b = std::copysign(HUGE_VALF, b);
    return DivFull::apply(a, b);
  }
};
struct RcpApprox {
  static float apply(float a) { return static_cast<float>(1.0 / a); }
};
struct SqrtApprox {
  static float apply(float a) { return std::sqrt(a); }
};
struct RsqrtApprox {
  static float apply(float a) { return static_cast<float>(1.0 / std::sqrt(double{a})); }
  static double apply(double a) { return 1.0 / std::sqrt(a); }
};
struct Sin {
  static float apply(float a) { return static_cast<float>(std::sin(double{a})); }
};
struct Cos {
  static float apply(float a) { return static_cast<float>(std::cos(double{a})); }
};
struct Lg2 {
  static float apply(float a) { return static_cast<float>(std::log2(double{a})); }
};
struct Ex2 {
  static float apply(float a) { return static_cast<float>(std::exp2(double{a})); }
};
struct Tanh {
  static float apply(float a) { return static_cast<float>(std::tanh(double{a})); }
};
/*
 * The initial value of a Newton iteration, with 20 bits of mantissa. The low words of sources are ignored, and
 * subnormal numbers are flushed.
 */
template <class F> struct Seed {
  static double apply(double a) {
    a = bit_cast<double>(bit_cast<uint64_t>(a) & 0xffffffff00000000u);
    if (a != 0 && std::abs(a) < 0x1p-1022)
      a = std::copysign(0.0, a);
    double result = F::apply(a);
    if (is_nan(result))
      return bit_cast<double>(uint64_t{0x7fffffff00000000});
    if (std::abs(result) < 0x1p-1022)
      return std::copysign(0.0, result);
    return bit_cast<double>(bit_cast<uint64_t>(result) & 0xffffffff00000000u);
  }
};

template <bool Ftz, class T> T flush_if(T value) { return Ftz ? flush(value) : value; }

/*
 * Returns the NaN that an operation on f64 returns on a GPU. If several sources are NaNs, the NaN of the second source
 * is returned rather than that of the third, and that of the third rather than that of the first. A division returns
 * the NaN of its first source.
 */
template <class F> double nan_of(double a) { return first_nan({a}); }
template <class F> double nan_of(double a, double b) {
  return std::is_same_v<F, Div> ? first_nan({a, b}) : first_nan({b, a});
}
template <class F> double nan_of(double a, double b, double c) { return first_nan({b, c, a}); }

template <class F, class T, Rounding R, bool Ftz, bool Sat> struct Variant {
  template <class... Sources> static T apply(Sources... sources) {
    return finish(flush_if<Ftz>(F::apply(flush_if<Ftz>(sources)...)), sources...);
  }
  template <class... Sources> static T finish(T value, Sources... sources) {
    if (is_nan(value)) {
      if constexpr (std::is_same_v<T, double>)
        value = nan_of<F>(sources...);
      else
        value = canonical_nan(value);
    }
    return Sat ? saturate_unit(value) : value;
  }
  static void one(Warp &w, const Instruction &ins, uint32_t lanes) {
    RoundingScope<R> scope;
    unary<Variant, T, T>(w, ins, lanes);
  }
  static void two(Warp &w, const Instruction &ins, uint32_t lanes) {
    RoundingScope<R> scope;
    binary<Variant, T, T>(w, ins, lanes);
  }
  static void three(Warp &w, const Instruction &ins, uint32_t lanes) {
    RoundingScope<R> scope;
    ternary<Variant, T, T>(w, ins, lanes);
  }
#ifdef __x86_64__
  /*
   * Does the same as three(), but with the fused multiply-add instruction of the processor instead of the library
   * function.
   */
  __attribute__((target("fma"))) static void three_fused(Warp &w, const Instruction &ins, uint32_t lanes) {
    RoundingScope<R> scope;
    const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]), *c = w.in(ins.op[3]);
    uint64_t *d = w.out(ins.op[0]);
    for (uint32_t lane = 0; lane < warp_size; ++lane)
      if ((lanes >> lane) & 1) {
        T x = get<T>(a, lane), y = get<T>(b, lane), z = get<T>(c, lane);
        T value = flush_if<Ftz>(std::fma(flush_if<Ftz>(x), flush_if<Ftz>(y), flush_if<Ftz>(z)));
        put<T>(d, lane, finish(value, x, y, z));
      }
  }
#endif
};

enum class Arity : uint8_t { one, two, three };

/* Does the same as V for each of two numbers in a register of 64 bits. */
template <class V, Rounding R> struct OfPair {
  template <class... Sources> static uint64_t apply(Sources... sources) {
    auto number = [](uint64_t pair, int shift) { return bit_cast<float>(static_cast<uint32_t>(pair >> shift)); };
    auto bits = [&](int shift) { return uint64_t{bit_cast<uint32_t>(V::apply(number(sources, shift)...))} << shift; };
    return bits(32) | bits(0);
  }
  static void two(Warp &w, const Instruction &ins, uint32_t lanes) {
    RoundingScope<R> scope;
    binary<OfPair, uint64_t, uint64_t>(w, ins, lanes);
  }
  static void three(Warp &w, const Instruction &ins, uint32_t lanes) {
    RoundingScope<R> scope;
    ternary<OfPair, uint64_t, uint64_t>(w, ins, lanes);
  }
};
/* The type of operations on f32x2. */
struct FloatPair {};

template <class F, class T, Arity N, Rounding R, bool Ftz, bool Sat> Handler variant() {
  if constexpr (std::is_same_v<T, FloatPair>) {
    using P = OfPair<Variant<F, float, R, Ftz, false>, R>;
    if constexpr (N == Arity::two)
      return Sat ? nullptr : P::two;
    else
      return Sat ? nullptr : P::three;
  } else if constexpr (N == Arity::one) {
    return Variant<F, T, R, Ftz, Sat>::one;
  } else if constexpr (N == Arity::two) {
    return Variant<F, T, R, Ftz, Sat>::two;
  } else {
#ifdef __x86_64__
    static const bool fused = std::is_same_v<F, Fma> && __builtin_cpu_supports("fma");
    if (fused)
      return Variant<F, T, R, Ftz, Sat>::three_fused;
#endif
    return Variant<F, T, R, Ftz, Sat>::three;
  }
}
template <class F, class T, Arity N, Rounding R> Handler with_mode(FloatMode mode) {
  if constexpr (std::is_same_v<T, double>) {
    return mode.ftz || mode.sat ? nullptr : variant<F, T, N, R, false, false>();
  } else {
    if (mode.ftz)
      return mode.sat ? variant<F, T, N, R, true, true>() : variant<F, T, N, R, true, false>();
    return mode.sat ? variant<F, T, N, R, false, true>() : variant<F, T, N, R, false, false>();
  }
}
template <class F, class T, Arity N> Handler rounded(FloatMode mode) {
  switch (mode.rounding) {
  case Rounding::none:
  case Rounding::nearest:
    return with_mode<F, T, N, Rounding::nearest>(mode);
  case Rounding::zero:
    return with_mode<F, T, N, Rounding::zero>(mode);
  case Rounding::down:
    return with_mode<F, T, N, Rounding::down>(mode);
  case Rounding::up:
    return with_mode<F, T, N, Rounding::up>(mode);
  default:
    return nullptr;
  }
}
template <class F, Arity N> Handler both(Type type, FloatMode mode) {
  if (type == Type::f32)
    return rounded<F, float, N>(mode);
  if (type == Type::f64)
    return rounded<F, double, N>(mode);
  return nullptr;
}
template <class F, Arity N> Handler with_pairs(Type type, FloatMode mode) {
  return type == Type::f32x2 ? rounded<F, FloatPair, N>(mode) : both<F, N>(type, mode);
}
template <class F, Arity N> Handler unsaturated(Type type, FloatMode mode) {
  return mode.sat ? nullptr : both<F, N>(type, mode);
}
/* Returns the handler of an operation that has no rounding mode and no saturation. */
template <class F, Arity N> Handler plain(Type type, FloatMode mode) {
  if (mode.sat)
    return nullptr;
  if (type == Type::f32)
    return with_mode<F, float, N, Rounding::nearest>(mode);
  if (type == Type::f64)
    return with_mode<F, double, N, Rounding::nearest>(mode);
  return nullptr;
}
template <class F, Arity N = Arity::one> Handler only_f32(Type type, FloatMode mode) {
  return type == Type::f32 && !mode.sat ? with_mode<F, float, N, Rounding::nearest>(mode) : nullptr;
}

/* On a GPU, abs and neg are arithmetic operations: for a NaN, they return the same NaN as an addition. */
template <bool Negate, bool Ftz> struct SignOf {
  static float apply(float a) {
    float f = Ftz ? flush(a) : a;
    return is_nan(f) ? canonical_nan(f) : Negate ? -f : std::abs(f);
  }
  static double apply(double a) { return is_nan(a) ? quiet_nan(a) : Negate ? -a : std::abs(a); }
};
template <class U> struct CopySign {
  static U apply(U sign, U magnitude) {
    constexpr U mask = U{1} << (sizeof(U) * 8 - 1);
    return (sign & mask) | (magnitude & ~mask);
  }
};
template <bool Negate> Handler sign_handler(Type type, FloatMode mode) {
  if (type == Type::f32)
    return mode.ftz ? unary<SignOf<Negate, true>, float, float> : unary<SignOf<Negate, false>, float, float>;
  return mode.ftz ? nullptr : unary<SignOf<Negate, false>, double, double>;
}
Handler copy_sign(Type type, FloatMode) {
  return type == Type::f32 ? binary<CopySign<uint32_t>, uint32_t, uint32_t>
                           : binary<CopySign<uint64_t>, uint64_t, uint64_t>;
}

template <FloatTest Test, class T> void test(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint32_t result = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    T value = get<T>(a, lane);
    bool holds = false;
    switch (Test) {
    case FloatTest::finite:
      holds = std::isfinite(value);
      break;
    case FloatTest::infinite:
      holds = std::isinf(value);
      break;
    case FloatTest::number:
      holds = !std::isnan(value);
      break;
    case FloatTest::notanumber:
      holds = std::isnan(value);
      break;
    /* PTX counts zero among the normal numbers. */
    case FloatTest::normal:
      holds = std::isnormal(value) || value == 0;
      break;
    case FloatTest::subnormal:
      holds = std::fpclassify(value) == FP_SUBNORMAL;
      break;
    }
    result |= uint32_t{holds} << lane;
  });
  w.set_predicate(ins.op[0], lanes, result);
}
template <FloatTest Test> Handler test_of(Type type) {
  return type == Type::f32 ? Handler(test<Test, float>) : type == Type::f64 ? Handler(test<Test, double>) : nullptr;
}

template <bool Max, bool KeepNan> Handler extreme(Type type, FloatMode mode) {
  using E = Extreme<Max, KeepNan>;
  if (mode.of_three)
    return mode.rounding != Rounding::none ? nullptr
           : mode.magnitudes               ? only_f32<OfThree<E, true>, Arity::three>(type, mode)
                                           : only_f32<OfThree<E, false>, Arity::three>(type, mode);
  if (mode.xorsign || KeepNan)
    return mode.xorsign ? only_f32<XorSign<E>, Arity::two>(type, mode) : only_f32<E, Arity::two>(type, mode);
  return plain<E, Arity::two>(type, mode);
}

Handler rcp_approx(Type type, FloatMode mode) {
  if (type == Type::f32)
    return only_f32<RcpApprox>(type, mode);
  return mode.sat || !mode.ftz ? nullptr : unary<Seed<Rcp>, double, double>;
}
Handler rsqrt_approx(Type type, FloatMode mode) {
  if (type == Type::f32)
    return only_f32<RsqrtApprox>(type, mode);
  if (mode.sat)
    return nullptr;
  return mode.ftz ? unary<Seed<RsqrtApprox>, double, double> : unary<RsqrtApprox, double, double>;
}

} // namespace

Handler float_handler(FloatOp op, Type type, FloatMode mode) {
  if (type != Type::f32 && type != Type::f64 && type != Type::f32x2)
    return half_handler(op, type, mode);
  if (mode.relu)
    return nullptr;
  using Op = FloatOp;
  static constexpr Choice<Op, Type, FloatMode> choices[] = {{Op::add, with_pairs<Add, Arity::two>},
                                                            {Op::sub, with_pairs<Sub, Arity::two>},
                                                            {Op::mul, with_pairs<Mul, Arity::two>},
                                                            {Op::fma, with_pairs<Fma, Arity::three>},
                                                            {Op::div, unsaturated<Div, Arity::two>},
                                                            {Op::div_approx, only_f32<DivApprox, Arity::two>},
                                                            {Op::div_full, only_f32<DivFull, Arity::two>},
                                                            {Op::rcp, unsaturated<Rcp, Arity::one>},
                                                            {Op::rcp_approx, rcp_approx},
                                                            {Op::sqrt, unsaturated<Sqrt, Arity::one>},
                                                            {Op::sqrt_approx, only_f32<SqrtApprox>},
                                                            {Op::rsqrt_approx, rsqrt_approx},
                                                            {Op::sin, only_f32<Sin>},
                                                            {Op::cos, only_f32<Cos>},
                                                            {Op::lg2, only_f32<Lg2>},
                                                            {Op::ex2, only_f32<Ex2>},
                                                            {Op::tanh, only_f32<Tanh>},
                                                            {Op::abs, sign_handler<false>},
                                                            {Op::neg, sign_handler<true>},
                                                            {Op::min, extreme<false, false>},
                                                            {Op::max, extreme<true, false>},
                                                            {Op::min_nan, extreme<false, true>},
                                                            {Op::max_nan, extreme<true, true>},
                                                            {Op::copysign, copy_sign}};
  static_assert(is_complete(choices));
  return for_choice(choices, op, type, mode);
}

Handler testp_handler(FloatTest test, Type type) {
  return for_constant<FloatTest::finite, FloatTest::infinite, FloatTest::number, FloatTest::notanumber,
                      FloatTest::normal, FloatTest::subnormal>(test, [=](auto t) { return test_of<t.value>(type); });
}

} // namespace sim::exec
