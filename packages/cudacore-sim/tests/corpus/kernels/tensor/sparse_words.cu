/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.sp without ::ordered_metadata, an older form. The indices in the metadata can have any order; here they are
 * ascending, so both forms have the same meaning. For the H200, ptxas warns about this form.
 */
#include "products.cuh"

template <class A, class C, class Product> __device__ __forceinline__ void products(u32 *out, Product &&product) {
  const u32 lane = threadIdx.x;
  all_rounds(out, 32, lane, [&](Results &results, Turn now, u32) {
    u32 a[4], b[4], c[4], d[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i] = word_of<A>(0, now.regime(0), now.round, lane * 4 + i);
      b[i] = word_of<A>(1, now.regime(1), now.round, lane * 4 + i);
      c[i] = word_of<C>(2, now.regime(2), now.round, lane * 4 + i);
    }
    product(d, a, b, c, ordered_places(now.round * 32 + lane, A::bits == 32));
    put_words(results, d, out, now.round * 32 + lane);
  });
}

/* PRODUCTS_n: A and B have n registers each; C and D have four. */
#define PRODUCTS_2(A, C, form, selector)                                                                               \
  products<A, C>(out, [](u32 *d, const u32 *a, const u32 *b, const u32 *c, u32 e) {                                    \
    asm volatile("mma.sp.sync.aligned." form                                                                           \
                 " {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%8, %9, %10, %11}, %12, " #selector ";"                      \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(e));    \
  })
#define PRODUCTS_4(A, C, form, selector)                                                                               \
  products<A, C>(out, [](u32 *d, const u32 *a, const u32 *b, const u32 *c, u32 e) {                                    \
    asm volatile("mma.sp.sync.aligned." form                                                                           \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, %16, " #selector ";"  \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(c[0]),  \
                   "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(e));                                                           \
  })

//! -> u32 grid=1 block=32
KERNEL(words_m16n8k16_f16, PRODUCTS_2(F16, F32, "m16n8k16.row.col.f32.f16.f16.f32", 2))
KERNEL(words_m16n8k32_bf16, PRODUCTS_4(BF16, F32, "m16n8k32.row.col.f32.bf16.bf16.f32", 1))
KERNEL(words_m16n8k16_tf32, PRODUCTS_4(TF32, F32, "m16n8k16.row.col.f32.tf32.tf32.f32", 0))
KERNEL(words_m16n8k32_s8, PRODUCTS_2(I8, I32, "m16n8k32.row.col.s32.s8.s8.s32", 1))
KERNEL(words_m16n8k64_u8, PRODUCTS_4(I8, I32, "m16n8k64.row.col.s32.u8.u8.s32", 0))
KERNEL(words_m16n8k128_s4, PRODUCTS_4(I4, I32, "m16n8k128.row.col.s32.s4.s4.s32", 0))
KERNEL(words_m16n8k64_e4m3, PRODUCTS_4(E4M3, F32, "m16n8k64.row.col.f32.e4m3.e4m3.f32", 0))
