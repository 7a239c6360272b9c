/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers for the operands of matrix products. The kernels generate the numbers themselves. The result of a sum
 * depends on the distance between the exponents of its terms. Therefore there are several distributions ("regimes").
 */
#pragma once
#include "rows.cuh"

__device__ __forceinline__ u32 mixed(u32 x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

struct Random {
  u32 state;
  __device__ __forceinline__ u32 next() { return mixed(state += 0x9e3779b9u); }
};

/* The distribution of the numbers of an operand. */
enum Regime { narrow, medium, far, every, subnormal, cancelling, special, sparse, regimes };

constexpr int rounds = 8; /* of each turn; there is one turn for each regime */

/* Return the exponent of a normal number, at most `span` / 2 away from that of 1. */
template <int E> __device__ __forceinline__ u32 exponent_near_one(u32 span, u32 choice) {
  constexpr u32 top = (1u << E) - 1, bias = top >> 1;
  u32 low = bias > span / 2 ? bias - span / 2 : 1, high = bias + span / 2 < top ? bias + span / 2 : top - 1;
  return low + choice % (high - low + 1);
}

template <int E, int M> __device__ __noinline__ u64 number(Random &random, int regime, u32 round) {
  constexpr u32 top = (1u << E) - 1;
  constexpr u64 mask = (1ull << M) - 1;
  u32 choice = random.next(), exponent = 0;
  u64 sign = random.next() & 1, mantissa = random.next();
  if (M > 32)
    mantissa |= u64(random.next()) << 32;
  switch (regime) {
  case narrow:
    exponent = exponent_near_one<E>(2, choice);
    break;
  case medium:
    exponent = exponent_near_one<E>(16, choice);
    break;
  case far:
    exponent = exponent_near_one<E>(64, choice);
    break;
  case every:
    exponent = choice % top;
    break;
  case subnormal:
    exponent = choice % 3;
    break;
  case cancelling: /* mostly one of two magnitudes, so that terms of opposite signs cancel */
    if (choice % 8) {
      Random same{mixed(round) + choice / 8 % 2};
      exponent = exponent_near_one<E>(20, same.next());
      mantissa = same.next();
    } else {
      exponent = exponent_near_one<E>(40, choice / 8);
    }
    break;
  case special: /* infinities and NaNs */
    exponent = choice % 64 ? exponent_near_one<E>(16, choice / 64) : top;
    if (exponent == top && (choice & 64))
      mantissa = 0;
    break;
  default: /* few terms of a sum */
    exponent = choice % 4 ? 0 : choice / 4 % top;
    mantissa = choice % 4 ? 0 : mantissa;
  }
  return sign << (E + M) | u64(exponent) << M | (mantissa & mask);
}

template <int E, int M> struct Float {
  static constexpr int bits = 1 + E + M;
  static __device__ u64 make(Random &random, int regime, u32 round) { return number<E, M>(random, regime, round); }
};
using F16 = Float<5, 10>;
using BF16 = Float<8, 7>;
using E4M3 = Float<4, 3>;
using E5M2 = Float<5, 2>;
using F32 = Float<8, 23>;
using F64 = Float<11, 52>;
/* f32 whose low 13 bits are ignored: they are random in odd rounds. */
struct TF32 {
  static constexpr int bits = 32;
  static __device__ u64 make(Random &random, int regime, u32 round) {
    u64 value = number<8, 10>(random, regime, round) << 13;
    return round & 1 ? value | (random.next() & 0x1fff) : value;
  }
};
/* Integers of `Bits` bits: any value, values at or near the ends of the range, or mostly zeros. */
template <int Bits> struct Integer {
  static constexpr int bits = Bits;
  static __device__ __noinline__ u64 make(Random &random, int regime, u32 round) {
    constexpr u32 top = 1u << (Bits - 1);
    u32 value = random.next(), choice = random.next();
    if (regime == narrow)
      return round & 1 ? top - 1 : top;
    if (regime == medium)
      return choice & 1 ? top - 1 - value % (Bits / 2 * 3) : top + value % (Bits / 2 * 3);
    if (regime == sparse)
      return choice % 4 ? 0 : value & (2 * (top - 1) + 1);
    return value & (2 * (top - 1) + 1);
  }
};
using I4 = Integer<4>;
using I8 = Integer<8>;
using I32 = Integer<32>;
/* Single bits. `make` returns a word of 32 bits. */
struct B1 {
  static constexpr int bits = 32;
  static __device__ u64 make(Random &random, int regime, u32) {
    u32 value = random.next();
    return regime == sparse ? value & random.next() & random.next() : regime == narrow ? ~0u : value;
  }
};

/* Return a word full of numbers for an operand: a register of a lane, or a word in memory. */
template <class T, class Word = u32>
__device__ __noinline__ Word word_of(int operand, int regime, u32 round, u32 place) {
  Random random{mixed(mixed(mixed(operand + 1) + round) + place)};
  Word word = 0;
#pragma unroll 1
  for (int at = 0; at < int(8 * sizeof(Word)); at += T::bits)
    word |= Word(T::make(random, regime, round)) << at;
  return word;
}

/* Return metadata of a sparse matrix: eight fields of 4 bits, each with two indices of 2 bits in ascending order. */
__device__ __forceinline__ u32 ordered_places(u32 at, bool pairs) {
  Random random{mixed(at)};
  u32 word = 0;
#pragma unroll 1
  for (int i = 0; i < 32; i += 4) {
    u32 choice = random.next();
    word |= (pairs ? (choice & 1 ? 14 : 4) : (0xedc984u >> (choice % 6 * 4) & 15)) << i;
  }
  return word;
}

/* The regimes of the operands in a round. A has the regime of the turn, and so has B, except in the last two rounds. C
 * goes through all regimes. */
struct Turn {
  u32 round;
  __device__ __forceinline__ int regime(int operand) const {
    int turn = round / rounds, step = round % rounds;
    return operand == 2 ? step : operand == 1 && step > 5 ? (turn + step) % regimes : turn;
  }
};

/* Combines all results of a lane in a turn into one word. With RAW, all results are stored instead. */
struct Results {
  u32 *out;
  u32 sum = 0;
  __device__ __forceinline__ void put(u32 value) {
#ifdef RAW
    *out++ = value;
#else
    sum = ((sum ^ value) * 0x01000193u) ^ (sum >> 15);
#endif
  }
  __device__ __forceinline__ void put(u64 value) { put(u32(value)), put(u32(value >> 32)); }
};
