/* SPDX-License-Identifier: Apache-2.0 */
/* cvt: conversions between all types, with rounding and saturation. */
#include <limits>

#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"
#include "sim/isa/numeric.h"

namespace sim::exec {

namespace {

/* The variants of a conversion, packed in the immediate of the instruction. */
struct Mode {
  Rounding rounding;
  bool ftz, sat, relu, satfinite, integral;
};
constexpr uint32_t sat_bit = 1, ftz_bit = 2, relu_bit = 4, satfinite_bit = 8, integral_bit = 16;

Mode mode_of(const Instruction &ins) {
  auto bits = static_cast<uint32_t>(ins.immediate);
  return {static_cast<Rounding>(bits >> 8), (bits & ftz_bit) != 0,       (bits & sat_bit) != 0,
          (bits & relu_bit) != 0,           (bits & satfinite_bit) != 0, (bits & integral_bit) != 0};
}

/* Returns the exact value of the source as a double. */
template <Type From> double read_float(uint64_t bits, bool ftz) {
  if constexpr (From == Type::f32) {
    auto value = bit_cast<float>(static_cast<uint32_t>(bits));
    return ftz ? flush(canonical_nan(value)) : value;
  } else if constexpr (From == Type::f64) {
    return bit_cast<double>(bits);
  } else {
    return value_of(format_of(From), bits & ((uint64_t{1} << ptx::bits_of(From)) - 1));
  }
}

template <Type To> uint64_t write_float(double value, const Mode &mode) {
  if (mode.integral)
    value = round_to_integral(value, mode.rounding);
  if (mode.sat)
    value = saturate_unit(value);
  if (mode.relu && value <= 0)
    value = 0;
  if constexpr (To == Type::f64) {
    return bit_cast<uint64_t>(value);
  } else {
    Rounding rounding = mode.rounding == Rounding::none || mode.integral ? Rounding::nearest : mode.rounding;
    if (To == Type::f32 && rounding == Rounding::nearest) {
      float result = canonical_nan(static_cast<float>(value));
      return bit_cast<uint32_t>(mode.ftz ? flush(result) : result);
    }
    uint64_t bits = round_to(format_of(To), value, rounding, mode.satfinite);
    if (To == Type::tf32)
      bits <<= 13;
    if (To == Type::f32 && mode.ftz)
      bits = bit_cast<uint32_t>(flush(bit_cast<float>(static_cast<uint32_t>(bits))));
    return bits;
  }
}

/* Returns the 64 bits of a register that holds a number of type From, extended by its sign if From is signed. */
template <class From> uint64_t extend(From value) {
  if constexpr (std::is_signed_v<From>)
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  return static_cast<uint64_t>(value);
}

template <class To, class From> struct IntegerToInteger {
  static void run(Warp &w, const Instruction &ins, uint32_t lanes) {
    const uint64_t *a = w.in(ins.op[1]);
    uint64_t *d = w.out(ins.op[0]);
    bool sat = mode_of(ins).sat;
    for_lanes(lanes, [&](uint32_t lane) {
      From value = get<From>(a, lane);
      if (sat) {
        constexpr To low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
        if (std::is_signed_v<From> && (!std::is_signed_v<To> ? value < 0 : int64_t(value) < int64_t(low)))
          return void(d[lane] = extend(low));
        if (value > 0 && static_cast<uint64_t>(value) > static_cast<uint64_t>(high))
          return void(d[lane] = extend(high));
      }
      d[lane] = extend(static_cast<To>(value));
    });
  }
};

template <class To, Type From> void float_to_integer(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint64_t *d = w.out(ins.op[0]);
  Mode mode = mode_of(ins);
  constexpr To low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  /*
   * The first integer above `high` is a power of two. A double represents it exactly, which is not true of every
   * `high`.
   */
  const double above = std::ldexp(1.0, std::numeric_limits<To>::digits);
  for_lanes(lanes, [&](uint32_t lane) {
    double value = round_to_integral(read_float<From>(a[lane], mode.ftz), mode.rounding);
    if (std::isnan(value)) {
      bool top_bit = From == Type::f64 || sizeof(To) == 8;
      d[lane] = top_bit ? extend(static_cast<To>(To{1} << (sizeof(To) * 8 - 1))) : 0;
    } else if (value >= above) {
      d[lane] = extend(high);
    } else if (value < static_cast<double>(low)) {
      d[lane] = extend(low);
    } else {
      d[lane] = extend(static_cast<To>(value));
    }
  });
}

template <Type To, class From> void integer_to_float(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint64_t *d = w.out(ins.op[0]);
  Mode mode = mode_of(ins);
  Rounding rounding = mode.rounding == Rounding::none ? Rounding::nearest : mode.rounding;
  for_lanes(lanes, [&](uint32_t lane) {
    From value = get<From>(a, lane);
    bool negative = value < 0;
    uint64_t magnitude = negative ? 0 - extend(value) : extend(value);
    uint64_t bits = round_to(format_of(To), negative, magnitude, 0, false, rounding, mode.satfinite);
    if (mode.sat)
      bits = round_to(format_of(To), saturate_unit(value_of(format_of(To), bits)), Rounding::nearest);
    std::memcpy(d + lane, &bits, ptx::bytes_of(To));
  });
}

/*
 * Converts a NaN to the format's only NaN or, in some conversions, to a NaN that keeps as many of the NaN's bits as
 * fit.
 */
template <Type To, Type From> uint64_t convert_nan(uint64_t bits, const Mode &mode) {
  const Format &format = format_of(To);
  if (From == Type::f64 && To != Type::f64) {
    uint64_t mantissa = (bits >> (52 - format.mantissa_bits)) & ((uint64_t{1} << format.mantissa_bits) - 1);
    uint64_t quiet = uint64_t{1} << (format.mantissa_bits - 1);
    return bits >> 63 << format.sign_shift() | (format.largest + 1) | quiet | mantissa;
  }
  if (From == Type::bf16 && To == Type::f32 && !mode.ftz)
    return (bits & 0xffff) << 16;
  if (To == Type::tf32)
    return bits & 0xffffe000u;
  return write_float<To>(read_float<From>(bits, mode.ftz), mode);
}

template <Type To, Type From> void float_to_float(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint64_t *d = w.out(ins.op[0]);
  Mode mode = mode_of(ins);
  for_lanes(lanes, [&](uint32_t lane) {
    double value = read_float<From>(a[lane], mode.ftz);
    bool keeps = std::isnan(value) && !mode.sat && !mode.relu && !mode.integral;
    uint64_t bits = keeps ? convert_nan<To, From>(a[lane], mode) : write_float<To>(value, mode);
    std::memcpy(d + lane, &bits, ptx::bytes_of(To));
  });
}

template <class Make> Handler for_integer(Type type, Make make) {
  return for_type<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(type, make);
}
template <class Make> Handler for_float(Type type, Make make) {
  return for_constant<Type::f16, Type::bf16, Type::f32, Type::f64>(type, make);
}

template <class To> Handler to_integer(Type from) {
  Handler handler = for_integer(from, [](auto t) { return IntegerToInteger<To, decltype(t)>::run; });
  return handler ? handler : for_float(from, [](auto f) { return float_to_integer<To, f.value>; });
}
template <Type To> Handler to_float(Type from) {
  Handler handler = for_integer(from, [](auto t) { return integer_to_float<To, decltype(t)>; });
  return handler ? handler : for_float(from, [](auto f) { return float_to_float<To, f.value>; });
}

/* --- pairs -------------------------------------------------------------------------------------------------------- */

/* A type of two numbers: their format, and the number of bits for each of them. */
struct Pair {
  Type type;
  const Format &format;
  uint32_t bits;
};
constexpr Pair pairs[] = {{Type::f16x2, format_f16, 16},    {Type::bf16x2, format_bf16, 16},
                          {Type::e4m3x2, format_e4m3, 8},   {Type::e5m2x2, format_e5m2, 8},
                          {Type::e2m3x2, format_e2m3, 8},   {Type::e3m2x2, format_e3m2, 8},
                          {Type::ue8m0x2, format_ue8m0, 8}, {Type::e2m1x2, format_e2m1, 4}};
size_t pair_of(Type type) {
  for (size_t i = 0; i < std::size(pairs); ++i)
    if (pairs[i].type == type)
      return i;
  return std::size(pairs);
}

/* Stores the pair of two numbers, rounded to its format. */
void put_pair(uint64_t *d, uint32_t lane, const Pair &to, double high, double low, const Mode &mode) {
  auto bits = [&](double value) {
    return round_to(to.format, mode.relu && value <= 0 ? 0 : value, mode.rounding, mode.satfinite);
  };
  uint64_t both = bits(high) << to.bits | bits(low);
  std::memcpy(d + lane, &both, to.bits == 4 ? 1 : to.bits / 4);
}
/* d = {a, b}; a is the high half. */
void pair_from_f32(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]);
  uint64_t *d = w.out(ins.op[0]);
  Mode mode = mode_of(ins);
  for_lanes(lanes, [&](uint32_t lane) {
    put_pair(d, lane, pairs[ins.mode], read_float<Type::f32>(a[lane], mode.ftz),
             read_float<Type::f32>(b[lane], mode.ftz), mode);
  });
}
void pair_to_pair(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]);
  uint64_t *d = w.out(ins.op[0]);
  Mode mode = mode_of(ins);
  const Pair &from = pairs[ins.count];
  auto value = [&](uint64_t bits) { return value_of(from.format, bits & ((1u << from.bits) - 1)); };
  for_lanes(lanes, [&](uint32_t lane) {
    put_pair(d, lane, pairs[ins.mode], value(a[lane] >> from.bits), value(a[lane]), mode);
  });
}

/* --- cvt.pack ----------------------------------------------------------------------------------------------------- */

/* Saturates a and b to 16, 8, 4 or 2 bits, and joins them. If there is a c, the two numbers become its new low bits. */
void pack(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]);
  const uint64_t *c = ins.op[3] == no_operand ? nullptr : w.in(ins.op[3]);
  uint64_t *d = w.out(ins.op[0]);
  uint32_t bits = ins.mode;
  bool is_signed = ins.flag;
  int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
  int64_t high = is_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  uint32_t mask = (1u << bits) - 1;
  for_lanes(lanes, [&](uint32_t lane) {
    auto clamp = [&](int64_t value) {
      return static_cast<uint32_t>(value < low ? low : value > high ? high : value) & mask;
    };
    uint32_t both = clamp(get<int32_t>(a, lane)) << bits | clamp(get<int32_t>(b, lane));
    uint64_t rest = c ? uint64_t{get<uint32_t>(c, lane)} << (2 * bits) : 0;
    put<uint32_t>(d, lane, static_cast<uint32_t>(rest) | both);
  });
}

} // namespace

Handler convert_handler(const Conversion &conversion) {
  Type from = conversion.from;
  if (conversion.to == Type::tf32)
    return from == Type::f32 ? float_to_float<Type::tf32, Type::f32> : nullptr;
  Handler handler = for_integer(conversion.to, [=](auto t) { return to_integer<decltype(t)>(from); });
  return handler ? handler : for_float(conversion.to, [=](auto f) { return to_float<f.value>(from); });
}

int64_t convert_mode(const Conversion &conversion) {
  return (conversion.sat ? sat_bit : 0) | (conversion.ftz ? ftz_bit : 0) | (conversion.relu ? relu_bit : 0) |
         (conversion.satfinite ? satfinite_bit : 0) | (conversion.integral ? integral_bit : 0) |
         int64_t{static_cast<uint8_t>(conversion.rounding)} << 8;
}

Handler convert_pair_handler(const Conversion &conversion, Instruction &out) {
  size_t to = pair_of(conversion.to), from = pair_of(conversion.from);
  if (to == std::size(pairs))
    return nullptr;
  out.mode = static_cast<uint8_t>(to);
  out.count = static_cast<uint8_t>(from);
  bool is_half = pairs[to].bits == 16, is_power = conversion.to == Type::ue8m0x2;
  bool rounds = conversion.rounding == Rounding::nearest || (is_half && conversion.rounding == Rounding::zero);
  if (is_power)
    rounds = conversion.rounding == Rounding::zero || conversion.rounding == Rounding::up;
  bool is_known = rounds && !conversion.ftz && !conversion.sat && (conversion.satfinite || is_half || is_power);
  if (conversion.from == Type::f32)
    return is_known && !(is_power && conversion.relu) ? pair_from_f32 : nullptr;
  if (from == std::size(pairs) || (pairs[from].bits == 16) == is_half)
    return nullptr;
  /* Pairs of f16 and bf16 have all numbers of the smaller formats. Those of ue8m0 are too large for f16. */
  bool of_power = conversion.from == Type::ue8m0x2;
  if (is_power || of_power)
    is_known = is_known && !conversion.relu && (is_power ? conversion.from : conversion.to) == Type::bf16x2;
  if (is_half)
    is_known = is_known && conversion.rounding == Rounding::nearest &&
               !(conversion.satfinite && (of_power || conversion.to == Type::f16x2));
  return is_known ? pair_to_pair : nullptr;
}

Handler convert_pack_handler() { return pack; }

} // namespace sim::exec
