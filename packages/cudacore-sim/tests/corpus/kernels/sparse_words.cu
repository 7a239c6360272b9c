/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.sp without ::ordered_metadata, an older form. The indices in the metadata can have any order; here they are
 * ascending, so both forms have the same meaning. For the H200, ptxas warns about this form.
 */
#include "matrices.cuh"

/* Products of all regimes. The results of a turn are combined into one word for each lane. */
template <class A, class C, class Product> __device__ __forceinline__ void products(u32 *out, Product &&product) {
  const u32 lane = threadIdx.x;
#pragma unroll 1
  for (u32 turn = 0; turn < regimes; ++turn) {
    Results results{out + turn * 32 + lane};
#pragma unroll 1
    for (u32 step = 0; step < rounds; ++step) {
      Turn now{turn * rounds + step};
      u32 a[4], b[4], c[4], d[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[i] = word_of<A>(0, now.regime(0), now.round, lane * 4 + i);
        b[i] = word_of<A>(1, now.regime(1), now.round, lane * 4 + i);
        c[i] = word_of<C>(2, now.regime(2), now.round, lane * 4 + i);
      }
      product(d, a, b, c, ordered_places(now.round * 32 + lane, A::bits == 32));
#pragma unroll
      for (int i = 0; i < 4; ++i)
        results.put(d[i]);
    }
    *results.out = results.sum;
  }
}

/* PRODUCT_n: A and B have n registers each; C and D have four. */
#define PRODUCT_2(form, selector)                                                                                      \
  auto product = [](u32 *d, const u32 *a, const u32 *b, const u32 *c, u32 e) {                                         \
    asm volatile("mma.sp.sync.aligned." form                                                                           \
                 " {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%8, %9, %10, %11}, %12, " #selector ";"                      \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(e));    \
  }
#define PRODUCT_4(form, selector)                                                                                      \
  auto product = [](u32 *d, const u32 *a, const u32 *b, const u32 *c, u32 e) {                                         \
    asm volatile("mma.sp.sync.aligned." form                                                                           \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, %16, " #selector ";"  \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(c[0]),  \
                   "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(e));                                                           \
  }

//! -> u32 grid=1 block=32
extern "C" __global__ void words_m16n8k16_f16(u32 *out) {
  PRODUCT_2("m16n8k16.row.col.f32.f16.f16.f32", 2);
  products<F16, F32>(out, product);
}

//! -> u32 grid=1 block=32
extern "C" __global__ void words_m16n8k32_bf16(u32 *out) {
  PRODUCT_4("m16n8k32.row.col.f32.bf16.bf16.f32", 1);
  products<BF16, F32>(out, product);
}

//! -> u32 grid=1 block=32
extern "C" __global__ void words_m16n8k16_tf32(u32 *out) {
  PRODUCT_4("m16n8k16.row.col.f32.tf32.tf32.f32", 0);
  products<TF32, F32>(out, product);
}

//! -> u32 grid=1 block=32
extern "C" __global__ void words_m16n8k32_s8(u32 *out) {
  PRODUCT_2("m16n8k32.row.col.s32.s8.s8.s32", 1);
  products<I8, I32>(out, product);
}

//! -> u32 grid=1 block=32
extern "C" __global__ void words_m16n8k64_u8(u32 *out) {
  PRODUCT_4("m16n8k64.row.col.s32.u8.u8.s32", 0);
  products<I8, I32>(out, product);
}

//! -> u32 grid=1 block=32
extern "C" __global__ void words_m16n8k128_s4(u32 *out) {
  PRODUCT_4("m16n8k128.row.col.s32.s4.s4.s32", 0);
  products<I4, I32>(out, product);
}

//! -> u32 grid=1 block=32
extern "C" __global__ void words_m16n8k64_e4m3(u32 *out) {
  PRODUCT_4("m16n8k64.row.col.f32.e4m3.e4m3.f32", 0);
  products<E4M3, F32>(out, product);
}
