/* SPDX-License-Identifier: Apache-2.0 */
/* mma: products of matrices in the registers of a warp. */
#include "products.cuh"

#define REGISTERS_2_1_1_2 "{%0, %1}, {%2}, {%3}, {%4, %5};"
#define REGISTERS_2_2_1_2 "{%0, %1}, {%2, %3}, {%4}, {%5, %6};"
#define REGISTERS_2_4_2_2 "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
#define REGISTERS_4_2_1_4 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
#define REGISTERS_4_4_2_4 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
#define REGISTERS_4_2_2_4 "{%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%8, %9, %10, %11};"
#define REGISTERS_8_2_2_4 "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%12, %13, %14, %15};"
#define REGISTERS_8_2_2_8                                                                                              \
  "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%12, %13, %14, %15, %16, %17, %18, %19};"

template <class A, class B, class C, int nd, int na, int nb, int nc, class Word = u32, class Product>
__device__ __forceinline__ void products(u32 *out, Product &&product) {
  const u32 lane = threadIdx.x % 32;
  all_rounds(out, 32, lane, [&](Results &results, Turn now, u32) {
    Word a[na], b[nb], c[nc], d[nd];
    make_words<A>(a, 0, now, lane);
    make_words<B>(b, 1, now, lane);
    make_words<C>(c, 2, now, lane);
    product(d, a, b, c);
    put_words(results, d, out, now.round * 32 + lane);
  });
}

#define MMA(A, B, C, nd, na, nb, nc, form)                                                                        \
  products<A, B, C, nd, na, nb, nc>(out, [](u32 *d, const u32 *a, const u32 *b, const u32 *c) {                        \
    asm volatile("mma.sync.aligned." form " " REGISTERS_##nd##_##na##_##nb##_##nc                                      \
                 : OUT##nd(d)                                                                                          \
                 : IN##na(a), IN##nb(b), IN##nc(c));                                                                   \
  })

//! -> u32 grid=1 block=32
KERNEL(mma_m8n8k4_f16_f16_row_row, MMA(F16, F16, F16, 4, 2, 2, 4, "m8n8k4.row.row.f16.f16.f16.f16"))
KERNEL(mma_m8n8k4_f16_f16_col_col, MMA(F16, F16, F16, 4, 2, 2, 4, "m8n8k4.col.col.f16.f16.f16.f16"))
KERNEL(mma_m8n8k4_f32_f16_f16_row_col, MMA(F16, F16, F16, 8, 2, 2, 4, "m8n8k4.row.col.f32.f16.f16.f16"))
KERNEL(mma_m8n8k4_f32_f16_f16_col_row, MMA(F16, F16, F16, 8, 2, 2, 4, "m8n8k4.col.row.f32.f16.f16.f16"))
KERNEL(mma_m8n8k4_f32_f16_row_row, MMA(F16, F16, F32, 8, 2, 2, 8, "m8n8k4.row.row.f32.f16.f16.f32"))
KERNEL(mma_m8n8k4_f32_f16_col_col, MMA(F16, F16, F32, 8, 2, 2, 8, "m8n8k4.col.col.f32.f16.f16.f32"))
KERNEL(mma_m8n8k16_s32_s8, MMA(I8, I8, I32, 2, 1, 1, 2, "m8n8k16.row.col.s32.s8.s8.s32"))
KERNEL(mma_m8n8k16_s32_u8_s8_sat, MMA(I8, I8, I32, 2, 1, 1, 2, "m8n8k16.row.col.satfinite.s32.u8.s8.s32"))
KERNEL(mma_m8n8k32_s32_s4, MMA(I4, I4, I32, 2, 1, 1, 2, "m8n8k32.row.col.s32.s4.s4.s32"))
KERNEL(mma_m8n8k32_s32_s4_u4_sat, MMA(I4, I4, I32, 2, 1, 1, 2, "m8n8k32.row.col.satfinite.s32.s4.u4.s32"))
KERNEL(mma_m8n8k128_s32_b1_xor, MMA(B1, B1, I32, 2, 1, 1, 2, "m8n8k128.row.col.s32.b1.b1.s32.xor.popc"))
KERNEL(mma_m8n8k128_s32_b1_and, MMA(B1, B1, I32, 2, 1, 1, 2, "m8n8k128.row.col.s32.b1.b1.s32.and.popc"))
KERNEL(mma_m16n8k4_f32_tf32, MMA(TF32, TF32, F32, 4, 2, 1, 4, "m16n8k4.row.col.f32.tf32.tf32.f32"))
KERNEL(mma_m16n8k8_f16_f16, MMA(F16, F16, F16, 2, 2, 1, 2, "m16n8k8.row.col.f16.f16.f16.f16"))
KERNEL(mma_m16n8k8_f32_f16, MMA(F16, F16, F32, 4, 2, 1, 4, "m16n8k8.row.col.f32.f16.f16.f32"))
KERNEL(mma_m16n8k8_f32_bf16, MMA(BF16, BF16, F32, 4, 2, 1, 4, "m16n8k8.row.col.f32.bf16.bf16.f32"))
KERNEL(mma_m16n8k8_f32_tf32, MMA(TF32, TF32, F32, 4, 4, 2, 4, "m16n8k8.row.col.f32.tf32.tf32.f32"))
KERNEL(mma_m16n8k16_f16_f16, MMA(F16, F16, F16, 2, 4, 2, 2, "m16n8k16.row.col.f16.f16.f16.f16"))
KERNEL(mma_m16n8k16_f32_f16, MMA(F16, F16, F32, 4, 4, 2, 4, "m16n8k16.row.col.f32.f16.f16.f32"))
KERNEL(mma_m16n8k16_f32_bf16, MMA(BF16, BF16, F32, 4, 4, 2, 4, "m16n8k16.row.col.f32.bf16.bf16.f32"))
KERNEL(mma_m16n8k16_s32_s8, MMA(I8, I8, I32, 4, 2, 1, 4, "m16n8k16.row.col.s32.s8.s8.s32"))
KERNEL(mma_m16n8k16_s32_u8_s8_sat, MMA(I8, I8, I32, 4, 2, 1, 4, "m16n8k16.row.col.satfinite.s32.u8.s8.s32"))
KERNEL(mma_m16n8k16_f32_e4m3, MMA(E4M3, E4M3, F32, 4, 2, 1, 4, "m16n8k16.row.col.f32.e4m3.e4m3.f32"))
KERNEL(mma_m16n8k16_f16_e4m3, MMA(E4M3, E4M3, F16, 2, 2, 1, 2, "m16n8k16.row.col.f16.e4m3.e4m3.f16"))
KERNEL(mma_m16n8k16_f32_e4m3_e5m2, MMA(E4M3, E5M2, F32, 4, 2, 1, 4, "m16n8k16.row.col.f32.e4m3.e5m2.f32"))
KERNEL(mma_m16n8k16_f16_e4m3_e5m2, MMA(E4M3, E5M2, F16, 2, 2, 1, 2, "m16n8k16.row.col.f16.e4m3.e5m2.f16"))
KERNEL(mma_m16n8k16_f32_e5m2_e4m3, MMA(E5M2, E4M3, F32, 4, 2, 1, 4, "m16n8k16.row.col.f32.e5m2.e4m3.f32"))
KERNEL(mma_m16n8k16_f16_e5m2_e4m3, MMA(E5M2, E4M3, F16, 2, 2, 1, 2, "m16n8k16.row.col.f16.e5m2.e4m3.f16"))
KERNEL(mma_m16n8k16_f32_e5m2, MMA(E5M2, E5M2, F32, 4, 2, 1, 4, "m16n8k16.row.col.f32.e5m2.e5m2.f32"))
KERNEL(mma_m16n8k16_f16_e5m2, MMA(E5M2, E5M2, F16, 2, 2, 1, 2, "m16n8k16.row.col.f16.e5m2.e5m2.f16"))
KERNEL(mma_m16n8k32_s32_s8, MMA(I8, I8, I32, 4, 4, 2, 4, "m16n8k32.row.col.s32.s8.s8.s32"))
KERNEL(mma_m16n8k32_s32_s8_sat, MMA(I8, I8, I32, 4, 4, 2, 4, "m16n8k32.row.col.satfinite.s32.s8.s8.s32"))
KERNEL(mma_m16n8k32_s32_s8_u8, MMA(I8, I8, I32, 4, 4, 2, 4, "m16n8k32.row.col.s32.s8.u8.s32"))
KERNEL(mma_m16n8k32_s32_u8_s8, MMA(I8, I8, I32, 4, 4, 2, 4, "m16n8k32.row.col.s32.u8.s8.s32"))
KERNEL(mma_m16n8k32_s32_u8_s8_sat, MMA(I8, I8, I32, 4, 4, 2, 4, "m16n8k32.row.col.satfinite.s32.u8.s8.s32"))
KERNEL(mma_m16n8k32_s32_u8, MMA(I8, I8, I32, 4, 4, 2, 4, "m16n8k32.row.col.s32.u8.u8.s32"))
KERNEL(mma_m16n8k32_s32_s4, MMA(I4, I4, I32, 4, 2, 1, 4, "m16n8k32.row.col.s32.s4.s4.s32"))
KERNEL(mma_m16n8k32_s32_s4_u4_sat, MMA(I4, I4, I32, 4, 2, 1, 4, "m16n8k32.row.col.satfinite.s32.s4.u4.s32"))
KERNEL(mma_m16n8k32_f32_e4m3, MMA(E4M3, E4M3, F32, 4, 4, 2, 4, "m16n8k32.row.col.f32.e4m3.e4m3.f32"))
KERNEL(mma_m16n8k32_f16_e4m3, MMA(E4M3, E4M3, F16, 2, 4, 2, 2, "m16n8k32.row.col.f16.e4m3.e4m3.f16"))
KERNEL(mma_m16n8k32_f32_e4m3_e5m2, MMA(E4M3, E5M2, F32, 4, 4, 2, 4, "m16n8k32.row.col.f32.e4m3.e5m2.f32"))
KERNEL(mma_m16n8k32_f16_e4m3_e5m2, MMA(E4M3, E5M2, F16, 2, 4, 2, 2, "m16n8k32.row.col.f16.e4m3.e5m2.f16"))
KERNEL(mma_m16n8k32_f32_e5m2_e4m3, MMA(E5M2, E4M3, F32, 4, 4, 2, 4, "m16n8k32.row.col.f32.e5m2.e4m3.f32"))
KERNEL(mma_m16n8k32_f16_e5m2_e4m3, MMA(E5M2, E4M3, F16, 2, 4, 2, 2, "m16n8k32.row.col.f16.e5m2.e4m3.f16"))
KERNEL(mma_m16n8k32_f32_e5m2, MMA(E5M2, E5M2, F32, 4, 4, 2, 4, "m16n8k32.row.col.f32.e5m2.e5m2.f32"))
KERNEL(mma_m16n8k32_f16_e5m2, MMA(E5M2, E5M2, F16, 2, 4, 2, 2, "m16n8k32.row.col.f16.e5m2.e5m2.f16"))
KERNEL(mma_m16n8k64_s32_s4, MMA(I4, I4, I32, 4, 4, 2, 4, "m16n8k64.row.col.s32.s4.s4.s32"))
KERNEL(mma_m16n8k64_s32_s4_u4, MMA(I4, I4, I32, 4, 4, 2, 4, "m16n8k64.row.col.s32.s4.u4.s32"))
KERNEL(mma_m16n8k64_s32_s4_u4_sat, MMA(I4, I4, I32, 4, 4, 2, 4, "m16n8k64.row.col.satfinite.s32.s4.u4.s32"))
KERNEL(mma_m16n8k64_s32_u4_s4, MMA(I4, I4, I32, 4, 4, 2, 4, "m16n8k64.row.col.s32.u4.s4.s32"))
KERNEL(mma_m16n8k64_s32_u4, MMA(I4, I4, I32, 4, 4, 2, 4, "m16n8k64.row.col.s32.u4.u4.s32"))
KERNEL(mma_m16n8k64_s32_u4_sat, MMA(I4, I4, I32, 4, 4, 2, 4, "m16n8k64.row.col.satfinite.s32.u4.u4.s32"))
KERNEL(mma_m16n8k128_s32_b1_xor, MMA(B1, B1, I32, 4, 2, 1, 4, "m16n8k128.row.col.s32.b1.b1.s32.xor.popc"))
KERNEL(mma_m16n8k128_s32_b1_and, MMA(B1, B1, I32, 4, 2, 1, 4, "m16n8k128.row.col.s32.b1.b1.s32.and.popc"))
KERNEL(mma_m16n8k256_s32_b1_xor, MMA(B1, B1, I32, 4, 4, 2, 4, "m16n8k256.row.col.s32.b1.b1.s32.xor.popc"))
KERNEL(mma_m16n8k256_s32_b1_and, MMA(B1, B1, I32, 4, 4, 2, 4, "m16n8k256.row.col.s32.b1.b1.s32.and.popc"))

/* The functions that the macros use for f64, whose registers are doubles. */
__device__ __forceinline__ void load(double *to, const u64 *from, int count) {
  for (int i = 0; i < count; ++i)
    to[i] = __longlong_as_double(from[i]);
}
__device__ __forceinline__ void store(u64 *to, const double *from, int count) {
  for (int i = 0; i < count; ++i)
    to[i] = __double_as_longlong(from[i]);
}
#define OUTD2(x) "=d"(x[0]), "=d"(x[1])
#define OUTD4(x) OUTD2(x), "=d"(x[2]), "=d"(x[3])
#define IND1(x) "d"(x[0])
#define IND2(x) IND1(x), "d"(x[1])
#define IND4(x) IND2(x), "d"(x[2]), "d"(x[3])
#define IND8(x) IND4(x), "d"(x[4]), "d"(x[5]), "d"(x[6]), "d"(x[7])
#define REGISTERS_4_8_4_4                                                                                              \
  "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, %19};"
#define MMA_F64(A, B, C, nd, na, nb, nc, form)                                                                    \
  products<A, B, C, nd, na, nb, nc, u64>(out, [](u64 *d, const u64 *a, const u64 *b, const u64 *c) {                   \
    double w[nd], x[na], y[nb], z[nc];                                                                                 \
    load(x, a, na), load(y, b, nb), load(z, c, nc);                                                                    \
    asm volatile("mma.sync.aligned." form " " REGISTERS_##nd##_##na##_##nb##_##nc                                      \
                 : OUTD##nd(w)                                                                                         \
                 : IND##na(x), IND##nb(y), IND##nc(z));                                                                \
    store(d, w, nd);                                                                                                   \
  })

//! -> u32 grid=1 block=32
KERNEL(mma_m8n8k4_f64, MMA_F64(F64, F64, F64, 2, 1, 1, 2, "m8n8k4.row.col.f64.f64.f64.f64"))
KERNEL(mma_m16n8k4_f64, MMA_F64(F64, F64, F64, 4, 2, 1, 4, "m16n8k4.row.col.f64.f64.f64.f64"))
KERNEL(mma_m16n8k8_f64, MMA_F64(F64, F64, F64, 4, 4, 2, 4, "m16n8k8.row.col.f64.f64.f64.f64"))
KERNEL(mma_m16n8k16_f64, MMA_F64(F64, F64, F64, 4, 8, 4, 4, "m16n8k16.row.col.f64.f64.f64.f64"))
