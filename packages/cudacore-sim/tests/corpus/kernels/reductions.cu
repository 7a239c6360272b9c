/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk and vector reductions of f16 and bf16 in global memory: sums, minima and maxima. The operands are all pairs of
   special numbers, and random numbers. */
#include "rows.cuh"

constexpr u32 pairs = 512; /* the first half are pairs of special numbers */

/* The special numbers: zeros, the ends of the subnormal and of the normal range, infinities and NaNs. */
template <u32 infinity, u32 smallest> __device__ u16 number(const u16 *others, u32 at, u32 special) {
  if (at >= pairs / 2)
    return others[at - pairs / 2];
  const u16 positive[] = {
      0, 1, smallest - 1, smallest, infinity - 1, infinity, infinity | 1, infinity | smallest / 2 | 5};
  return static_cast<u16>(positive[special / 2] | (special & 1) << 15);
}
template <u32 infinity, u32 smallest> __device__ u16 left(const u16 *others, u32 at) {
  return number<infinity, smallest>(others, at, at / 16);
}
template <u32 infinity, u32 smallest> __device__ u16 right(const u16 *others, u32 at) {
  return number<infinity, smallest>(others, at, at % 16);
}
#define F16 0x7c00, 0x400
#define BF16 0x7f80, 0x80

#define REDUCE(operation, out, tile)                                                                                   \
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." operation " [%0], [%1], 1024;" ::"l"(out),        \
               "r"((u32)__cvta_generic_to_shared(tile))                                                                \
               : "memory")
#define BULK(format, type)                                                                                             \
  sums[i] = least[i] = most[i] = left<format>(a, i);                                                                   \
  tile[i] = right<format>(b, i);                                                                                       \
  asm volatile("fence.proxy.async;" ::: "memory");                                                                     \
  __syncthreads();                                                                                                     \
  if (i == 0) {                                                                                                        \
    REDUCE("add.noftz." type, sums, tile);                                                                             \
    REDUCE("min." type, least, tile);                                                                                  \
    REDUCE("max." type, most, tile);                                                                                   \
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");                              \
  }

//! f16 f16 -> u16:512 u16:512 u16:512 grid=1 block=512
extern "C" __global__ void bulk_f16(const u16 *a, const u16 *b, u16 *sums, u16 *least, u16 *most) {
  __shared__ alignas(16) u16 tile[pairs];
  int i = threadIdx.x;
  BULK(F16, "f16");
}

//! bf16 bf16 -> u16:512 u16:512 u16:512 grid=1 block=512
extern "C" __global__ void bulk_bf16(const u16 *a, const u16 *b, u16 *sums, u16 *least, u16 *most) {
  __shared__ alignas(16) u16 tile[pairs];
  int i = threadIdx.x;
  BULK(BF16, "bf16");
}

#define PAIR(array, at) ((array)[at] | (u32)(array)[(at) + 1] << 16)
/* Each thread has four numbers: atom.min returns the old values of all four; red.max updates them as two pairs. */
#define VECTORS(format, type)                                                                                          \
  u16 to[4], old[4];                                                                                                   \
  for (int n = 0; n < 4; ++n) {                                                                                        \
    least[i + n] = most[i + n] = left<format>(a, i + n);                                                               \
    to[n] = right<format>(b, i + n);                                                                                   \
  }                                                                                                                    \
  asm volatile("atom.global.min.noftz.v4." type " {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};"                           \
               : "=h"(old[0]), "=h"(old[1]), "=h"(old[2]), "=h"(old[3])                                                \
               : "l"(least + i), "h"(to[0]), "h"(to[1]), "h"(to[2]), "h"(to[3])                                        \
               : "memory");                                                                                            \
  asm volatile("red.global.max.noftz.v2." type "x2 [%0], {%1, %2};" ::"l"(most + i), "r"(PAIR(to, 0)),                 \
               "r"(PAIR(to, 2))                                                                                        \
               : "memory");                                                                                            \
  for (int n = 0; n < 4; ++n)                                                                                          \
    before[i + n] = old[n];

//! f16 f16 -> u16:512 u16:512 u16:512 grid=1 block=128
extern "C" __global__ void vectors_f16(const u16 *a, const u16 *b, u16 *before, u16 *least, u16 *most) {
  int i = 4 * threadIdx.x;
  VECTORS(F16, "f16");
}

//! bf16 bf16 -> u16:512 u16:512 u16:512 grid=1 block=128
extern "C" __global__ void vectors_bf16(const u16 *a, const u16 *b, u16 *before, u16 *least, u16 *most) {
  int i = 4 * threadIdx.x;
  VECTORS(BF16, "bf16");
}
