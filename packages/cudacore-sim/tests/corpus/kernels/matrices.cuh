/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for products of matrices, made by the kernels themselves: what the sum of such products is depends on how far
 * the exponents of its terms are apart, which numbers of one kind do not show.
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

/* What numbers of a round are like. */
enum Regime { narrow, medium, far, every, subnormal, cancelling, special, sparse, regimes };

constexpr int rounds = 8; /* of each regime */

/* An exponent of a normal number, of `span` around that of one. */
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
  case cancelling: /* two numbers, of either sign, and now and then one that is left when they cancel */
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
/* A word of which the low bits do not count. */
struct TF32 {
  static constexpr int bits = 32;
  static __device__ u64 make(Random &random, int regime, u32 round) {
    u64 value = number<8, 10>(random, regime, round) << 13;
    return round & 1 ? value | (random.next() & 0x1fff) : value;
  }
};
/* Integers of `bits`: all of them, those at the ends of the range, and few. */
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
/* So many bits that a word is all of them. */
struct B1 {
  static constexpr int bits = 32;
  static __device__ u64 make(Random &random, int regime, u32) {
    u32 value = random.next();
    return regime == sparse ? value & random.next() & random.next() : regime == narrow ? ~0u : value;
  }
};

/* A register of a lane, or any other word, with as many numbers as it holds. */
template <class T, class Word = u32>
__device__ __noinline__ Word word_of(int operand, int regime, u32 round, u32 place) {
  Random random{mixed(mixed(mixed(operand + 1) + round) + place)};
  Word word = 0;
#pragma unroll 1
  for (int at = 0; at < int(8 * sizeof(Word)); at += T::bits)
    word |= Word(T::make(random, regime, round)) << at;
  return word;
}

/* Of a sparse matrix' word, each of the eight places of four bits has two numbers of two bits, the lesser one first. */
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

/* The regimes of A, B and C in a round: mostly that of its turn, all of them for C. */
struct Turn {
  u32 round;
  __device__ __forceinline__ int regime(int operand) const {
    int turn = round / rounds, step = round % rounds;
    return operand == 2 ? step : operand == 1 && step > 5 ? (turn + step) % regimes : turn;
  }
};

/* Of the results of a turn's rounds, one word for each lane: `round` is the first one then. RAW: all of them. */
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
