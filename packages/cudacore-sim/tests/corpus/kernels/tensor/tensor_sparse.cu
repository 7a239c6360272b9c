/* SPDX-License-Identifier: Apache-2.0 */
/* mma.sp: the first matrix is sparse. Of every four numbers, two are stored; metadata has the indices of the two. */
#include "products.cuh"

#define REGISTERS_2_2_2_2 "{%0, %1}, {%2, %3}, {%4, %5}, {%6, %7}, %8, "
#define REGISTERS_2_4_4_2 "{%0, %1}, {%2, %3, %4, %5}, {%6, %7, %8, %9}, {%10, %11}, %12, "
#define REGISTERS_4_2_2_4 "{%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%8, %9, %10, %11}, %12, "
#define REGISTERS_4_4_4_4 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, %16, "

template <class A, class B, class C, int nd, int na, int nb, int nc, class Product>
__device__ __forceinline__ void products(u32 *out, Product &&product) {
  const u32 lane = threadIdx.x % 32;
  all_rounds(out, 32, lane, [&](Results &results, Turn now, u32 step) {
    u32 a[na], b[nb], c[nc], d[nd];
    make_words<A>(a, 0, now, lane);
    make_words<B>(b, 1, now, lane);
    make_words<C>(c, 2, now, lane);
    product(d, a, b, c, ordered_places(now.round * 32 + lane, A::bits == 32), step % 2);
    put_words(results, d, out, now.round * 32 + lane);
  });
}

#define SPARSE(selector, nd, na, nb, nc, form)                                                                         \
  asm volatile("mma.sp::ordered_metadata.sync.aligned." form " " REGISTERS_##nd##_##na##_##nb##_##nc #selector ";"     \
               : OUT##nd(d)                                                                                            \
               : IN##na(a), IN##nb(b), IN##nc(c), "r"(e))
#define MMA(A, B, C, nd, na, nb, nc, form, last)                                                                  \
  products<A, B, C, nd, na, nb, nc>(out, [](u32 *d, const u32 *a, const u32 *b, const u32 *c, u32 e, bool other) {     \
    if (other)                                                                                                         \
      SPARSE(last, nd, na, nb, nc, form);                                                                              \
    else                                                                                                               \
      SPARSE(0, nd, na, nb, nc, form);                                                                                 \
  })

//! -> u32 grid=1 block=32
KERNEL(sparse_m16n8k16_f16_f16, MMA(F16, F16, F16, 2, 2, 2, 2, "m16n8k16.row.col.f16.f16.f16.f16", 3))
KERNEL(sparse_m16n8k16_f32_f16, MMA(F16, F16, F32, 4, 2, 2, 4, "m16n8k16.row.col.f32.f16.f16.f32", 3))
KERNEL(sparse_m16n8k16_f32_bf16, MMA(BF16, BF16, F32, 4, 2, 2, 4, "m16n8k16.row.col.f32.bf16.bf16.f32", 3))
KERNEL(sparse_m16n8k32_f16_f16, MMA(F16, F16, F16, 2, 4, 4, 2, "m16n8k32.row.col.f16.f16.f16.f16", 1))
KERNEL(sparse_m16n8k32_f32_f16, MMA(F16, F16, F32, 4, 4, 4, 4, "m16n8k32.row.col.f32.f16.f16.f32", 1))
KERNEL(sparse_m16n8k32_f32_bf16, MMA(BF16, BF16, F32, 4, 4, 4, 4, "m16n8k32.row.col.f32.bf16.bf16.f32", 1))
KERNEL(sparse_m16n8k8_f32_tf32, MMA(TF32, TF32, F32, 4, 2, 2, 4, "m16n8k8.row.col.f32.tf32.tf32.f32", 3))
KERNEL(sparse_m16n8k16_f32_tf32, MMA(TF32, TF32, F32, 4, 4, 4, 4, "m16n8k16.row.col.f32.tf32.tf32.f32", 1))
KERNEL(sparse_m16n8k32_s32_s8, MMA(I8, I8, I32, 4, 2, 2, 4, "m16n8k32.row.col.s32.s8.s8.s32", 1))
KERNEL(sparse_m16n8k32_s32_u8_s8_sat, MMA(I8, I8, I32, 4, 2, 2, 4, "m16n8k32.row.col.satfinite.s32.u8.s8.s32", 1))
KERNEL(sparse_m16n8k32_s32_s8_u8, MMA(I8, I8, I32, 4, 2, 2, 4, "m16n8k32.row.col.s32.s8.u8.s32", 1))
KERNEL(sparse_m16n8k32_s32_u8, MMA(I8, I8, I32, 4, 2, 2, 4, "m16n8k32.row.col.s32.u8.u8.s32", 1))
KERNEL(sparse_m16n8k64_s32_s8, MMA(I8, I8, I32, 4, 4, 4, 4, "m16n8k64.row.col.s32.s8.s8.s32", 0))
KERNEL(sparse_m16n8k64_s32_u8_s8_sat, MMA(I8, I8, I32, 4, 4, 4, 4, "m16n8k64.row.col.satfinite.s32.u8.s8.s32", 0))
KERNEL(sparse_m16n8k64_s32_s8_u8, MMA(I8, I8, I32, 4, 4, 4, 4, "m16n8k64.row.col.s32.s8.u8.s32", 0))
KERNEL(sparse_m16n8k64_s32_u8, MMA(I8, I8, I32, 4, 4, 4, 4, "m16n8k64.row.col.s32.u8.u8.s32", 0))
KERNEL(sparse_m16n8k64_s32_s4, MMA(I4, I4, I32, 4, 2, 2, 4, "m16n8k64.row.col.s32.s4.s4.s32", 1))
KERNEL(sparse_m16n8k64_s32_u4_s4_sat, MMA(I4, I4, I32, 4, 2, 2, 4, "m16n8k64.row.col.satfinite.s32.u4.s4.s32", 1))
KERNEL(sparse_m16n8k64_s32_s4_u4, MMA(I4, I4, I32, 4, 2, 2, 4, "m16n8k64.row.col.s32.s4.u4.s32", 1))
KERNEL(sparse_m16n8k64_s32_u4, MMA(I4, I4, I32, 4, 2, 2, 4, "m16n8k64.row.col.s32.u4.u4.s32", 1))
KERNEL(sparse_m16n8k128_s32_s4, MMA(I4, I4, I32, 4, 4, 4, 4, "m16n8k128.row.col.s32.s4.s4.s32", 0))
KERNEL(sparse_m16n8k128_s32_u4_s4_sat, MMA(I4, I4, I32, 4, 4, 4, 4, "m16n8k128.row.col.satfinite.s32.u4.s4.s32", 0))
KERNEL(sparse_m16n8k128_s32_s4_u4, MMA(I4, I4, I32, 4, 4, 4, 4, "m16n8k128.row.col.s32.s4.u4.s32", 0))
KERNEL(sparse_m16n8k128_s32_u4, MMA(I4, I4, I32, 4, 4, 4, 4, "m16n8k128.row.col.s32.u4.u4.s32", 0))
KERNEL(sparse_m16n8k64_f32_e4m3, MMA(E4M3, E4M3, F32, 4, 4, 4, 4, "m16n8k64.row.col.f32.e4m3.e4m3.f32", 0))
KERNEL(sparse_m16n8k64_f32_e4m3_e5m2, MMA(E4M3, E5M2, F32, 4, 4, 4, 4, "m16n8k64.row.col.f32.e4m3.e5m2.f32", 0))
KERNEL(sparse_m16n8k64_f32_e5m2_e4m3, MMA(E5M2, E4M3, F32, 4, 4, 4, 4, "m16n8k64.row.col.f32.e5m2.e4m3.f32", 0))
KERNEL(sparse_m16n8k64_f32_e5m2, MMA(E5M2, E5M2, F32, 4, 4, 4, 4, "m16n8k64.row.col.f32.e5m2.e5m2.f32", 0))
