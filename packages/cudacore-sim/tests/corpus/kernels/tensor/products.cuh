/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices of random numbers, in all regimes. The lanes have the matrices as arrays of words. */
#pragma once
#include "matrices.cuh"

/* Operands of asm statements: the first words of an array. */
#define OUT1(x) "=r"(x[0])
#define OUT2(x) OUT1(x), "=r"(x[1])
#define OUT4(x) OUT2(x), "=r"(x[2]), "=r"(x[3])
#define OUT8(x) OUT4(x), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7])
#define IN1(x) "r"(x[0])
#define IN2(x) IN1(x), "r"(x[1])
#define IN4(x) IN2(x), "r"(x[2]), "r"(x[3])
#define IN8(x) IN4(x), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7])

/* Runs all rounds. The results of a turn are combined into one word for each of `lanes`. */
template <class Round> __device__ __forceinline__ void all_rounds(u32 *out, u32 lanes, u32 lane, Round &&round) {
#pragma unroll 1
  for (u32 turn = 0; turn < regimes; ++turn) {
    Results results{out + turn * lanes + lane};
#pragma unroll 1
    for (u32 step = 0; step < rounds; ++step)
      round(results, Turn{turn * rounds + step}, step);
#ifndef RAW
    *results.out = results.sum;
#endif
  }
}

/* Makes the words of a lane for an operand. */
template <class T, int count, class Word>
__device__ __forceinline__ void make_words(Word (&words)[count], int operand, Turn now, u32 lane) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    words[i] = word_of<T, Word>(operand, now.regime(operand), now.round, lane * count + i);
}

/* Adds the words of a lane to the results. `at` is the number of the lane among the lanes of all rounds. */
template <int count, class Word>
__device__ __forceinline__ void put_words(Results &results, const Word (&words)[count], u32 *out, u32 at) {
#ifdef RAW
  results.out = out + at * count * (sizeof(Word) / 4);
#endif
#pragma unroll
  for (int i = 0; i < count; ++i)
    results.put(words[i]);
}
