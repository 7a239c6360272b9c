/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgmma: products of matrices, computed by the four warps of a warpgroup. B is in shared memory. A is in shared memory
 * or in registers.
 */
//! nvrtc: --gpu-architecture=compute_90a --fmad=false
#include "products.cuh"

#define INOUT4(x) "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3])
#define INOUT8(x) INOUT4(x), "+r"(x[4]), "+r"(x[5]), "+r"(x[6]), "+r"(x[7])
#define INOUT32(x) INOUT8(x), INOUT8((x + 8)), INOUT8((x + 16)), INOUT8((x + 24))
#define D4 "{%0, %1, %2, %3}, "
#define D8 "{%0, %1, %2, %3, %4, %5, %6, %7}, "
#define D32                                                                                                            \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "    \
  "%24, %25, %26, %27, %28, %29, %30, %31}, "
#define WGMMA(adds, text)                                                                                              \
  "{ .reg .pred p; setp.ne.b32 p, " adds ", 0; wgmma.fence.sync.aligned; wgmma.mma_async" text                         \
  "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }"

__device__ __forceinline__ u32 address_of(const void *shared) { return u32(__cvta_generic_to_shared(shared)); }

struct Layout {
  u32 leading, stride, base, swizzle;
};
__device__ __forceinline__ u64 describe(u32 address, Layout how) {
  return (address & 0x3ffff) >> 4 | u64(how.leading >> 4) << 16 | u64(how.stride >> 4) << 32 | u64(how.base) << 49 |
         u64(how.swizzle) << 62;
}

/* Makes earlier writes visible to wgmma. */
__device__ __forceinline__ void publish() {
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
}

/* A has 64 rows, B has 16 columns. `product` is called with C in `d` and the registers of A in `a`. */
template <class A, class B, class C, int nd, bool sparse, class Product>
__device__ __forceinline__ void products(u32 *out, Product &&product) {
  constexpr u32 a_words = 64 * 8, b_words = 16 * 8 * (sparse ? 2 : 1);
  __shared__ __align__(1024) u32 left[a_words];
  __shared__ __align__(1024) u32 right[b_words];
  const u64 a_matrix = describe(address_of(left), {128, 256, 0, 0}),
            b_matrix = describe(address_of(right), {128, sparse ? 512u : 256u, 0, 0});
  const u32 thread = threadIdx.x;
  all_rounds(out, 128, thread, [&](Results &results, Turn now, u32 step) {
    u32 a[4], d[nd];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      left[thread * 4 + i] = a[i] = word_of<A>(0, now.regime(0), now.round, thread * 4 + i);
#pragma unroll 1
    for (u32 i = thread; i < b_words; i += 128)
      right[i] = word_of<B>(1, now.regime(1), now.round, i);
    make_words<C>(d, 2, now, thread);
    publish();
    product(d, a, a_matrix, b_matrix, ordered_places(now.round * 128 + thread, A::bits == 32), step != 5);
    __syncthreads();
    put_words(results, d, out, now.round * 128 + thread);
  });
}

#define PRODUCTS(A, B, C, nd, sparse, ...)                                                                             \
  products<A, B, C, nd, sparse>(                                                                                       \
      out, [](u32 *d, const u32 *a, u64 a_matrix, u64 b_matrix, u32 where, int adds) { asm volatile(__VA_ARGS__); })

#define MEMORY_4(A, B, C, form, more)                                                                                  \
  PRODUCTS(A, B, C, 4, false, WGMMA("%6", ".sync.aligned." form " " D4 "%4, %5, p" more) : INOUT4(d) : "l"(a_matrix),  \
           "l"(b_matrix), "r"(adds) : "memory")
#define MEMORY_8(A, B, C, form, more)                                                                                  \
  PRODUCTS(A, B, C, 8, false, WGMMA("%10", ".sync.aligned." form " " D8 "%8, %9, p" more) : INOUT8(d) : "l"(a_matrix), \
           "l"(b_matrix), "r"(adds) : "memory")
#define REGISTERS_4(A, B, C, form, more)                                                                               \
  PRODUCTS(A, B, C, 4, false,                                                                                          \
           WGMMA("%9", ".sync.aligned." form " " D4 "{%4, %5, %6, %7}, %8, p" more) : INOUT4(d) : "r"(a[0]),           \
           "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_matrix), "r"(adds) : "memory")
#define REGISTERS_8(A, B, C, form, more)                                                                               \
  PRODUCTS(A, B, C, 8, false,                                                                                          \
           WGMMA("%13", ".sync.aligned." form " " D8 "{%8, %9, %10, %11}, %12, p" more) : INOUT8(d) : "r"(a[0]),       \
           "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_matrix), "r"(adds) : "memory")
#define SPARSE_MEMORY_4(A, B, C, form, selector, more)                                                                 \
  PRODUCTS(                                                                                                            \
      A, B, C, 4, true,                                                                                                \
      WGMMA("%7", ".sp.sync.aligned." form " " D4 "%4, %5, %6, " #selector ", p" more) : INOUT4(d) : "l"(a_matrix),    \
      "l"(b_matrix), "r"(where), "r"(adds) : "memory")
#define SPARSE_MEMORY_8(A, B, C, form, selector, more)                                                                 \
  PRODUCTS(                                                                                                            \
      A, B, C, 8, true,                                                                                                \
      WGMMA("%11", ".sp.sync.aligned." form " " D8 "%8, %9, %10, " #selector ", p" more) : INOUT8(d) : "l"(a_matrix),  \
      "l"(b_matrix), "r"(where), "r"(adds) : "memory")
#define SPARSE_REGISTERS_8(A, B, C, form, selector, more)                                                              \
  PRODUCTS(A, B, C, 8, true,                                                                                           \
           WGMMA("%14", ".sp.sync.aligned." form " " D8 "{%8, %9, %10, %11}, %12, %13, " #selector                     \
                        ", p" more) : INOUT8(d) : "r"(a[0]),                                                           \
           "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_matrix), "r"(where), "r"(adds) : "memory")

//! -> u32:1024 grid=1 block=128
KERNEL(wgmma_f32_f16_f16, MEMORY_8(F16, F16, F32, "m64n16k16.f32.f16.f16", ", 1, 1, 0, 0"))
KERNEL(wgmma_f16_f16_f16, MEMORY_4(F16, F16, F16, "m64n16k16.f16.f16.f16", ", 1, 1, 0, 0"))
KERNEL(wgmma_f32_f16_f16_registers, REGISTERS_8(F16, F16, F32, "m64n16k16.f32.f16.f16", ", 1, 1, 0"))
KERNEL(wgmma_f16_f16_f16_registers, REGISTERS_4(F16, F16, F16, "m64n16k16.f16.f16.f16", ", 1, 1, 0"))
KERNEL(wgmma_f32_f16_f16_minus, MEMORY_8(F16, F16, F32, "m64n16k16.f32.f16.f16", ", -1, 1, 0, 0"))
KERNEL(wgmma_f32_bf16_bf16, MEMORY_8(BF16, BF16, F32, "m64n16k16.f32.bf16.bf16", ", 1, 1, 0, 0"))
KERNEL(wgmma_f32_bf16_bf16_registers_minus, REGISTERS_8(BF16, BF16, F32, "m64n16k16.f32.bf16.bf16", ", 1, -1, 0"))
KERNEL(wgmma_f32_tf32_tf32, MEMORY_8(TF32, TF32, F32, "m64n16k8.f32.tf32.tf32", ", 1, 1"))
KERNEL(wgmma_f32_tf32_tf32_registers_minus, REGISTERS_8(TF32, TF32, F32, "m64n16k8.f32.tf32.tf32", ", -1, -1"))
KERNEL(wgmma_f32_e4m3_e4m3, MEMORY_8(E4M3, E4M3, F32, "m64n16k32.f32.e4m3.e4m3", ", 1, 1"))
KERNEL(wgmma_f32_e4m3_e5m2, MEMORY_8(E4M3, E5M2, F32, "m64n16k32.f32.e4m3.e5m2", ", 1, 1"))
KERNEL(wgmma_f32_e5m2_e4m3, MEMORY_8(E5M2, E4M3, F32, "m64n16k32.f32.e5m2.e4m3", ", 1, 1"))
KERNEL(wgmma_f32_e5m2_e5m2, MEMORY_8(E5M2, E5M2, F32, "m64n16k32.f32.e5m2.e5m2", ", 1, 1"))
KERNEL(wgmma_f16_e4m3_e4m3, MEMORY_4(E4M3, E4M3, F16, "m64n16k32.f16.e4m3.e4m3", ", 1, 1"))
KERNEL(wgmma_f16_e5m2_e4m3, MEMORY_4(E5M2, E4M3, F16, "m64n16k32.f16.e5m2.e4m3", ", 1, 1"))
KERNEL(wgmma_f16_e5m2_e5m2, MEMORY_4(E5M2, E5M2, F16, "m64n16k32.f16.e5m2.e5m2", ", 1, 1"))
KERNEL(wgmma_f32_e4m3_e5m2_registers_minus, REGISTERS_8(E4M3, E5M2, F32, "m64n16k32.f32.e4m3.e5m2", ", -1, 1"))
KERNEL(wgmma_f16_e4m3_e5m2_registers, REGISTERS_4(E4M3, E5M2, F16, "m64n16k32.f16.e4m3.e5m2", ", 1, 1"))
KERNEL(wgmma_s32_s8_s8, MEMORY_8(I8, I8, I32, "m64n16k32.s32.s8.s8", ""))
KERNEL(wgmma_s32_s8_u8_satfinite, MEMORY_8(I8, I8, I32, "m64n16k32.satfinite.s32.s8.u8", ""))
KERNEL(wgmma_s32_u8_s8_satfinite, MEMORY_8(I8, I8, I32, "m64n16k32.satfinite.s32.u8.s8", ""))
KERNEL(wgmma_s32_u8_u8_satfinite, MEMORY_8(I8, I8, I32, "m64n16k32.satfinite.s32.u8.u8", ""))
KERNEL(wgmma_s32_s8_u8_registers, REGISTERS_8(I8, I8, I32, "m64n16k32.s32.s8.u8", ""))
KERNEL(wgmma_s32_b1_b1, MEMORY_8(B1, B1, I32, "m64n16k256.s32.b1.b1.and.popc", ""))
KERNEL(wgmma_s32_b1_b1_registers, REGISTERS_8(B1, B1, I32, "m64n16k256.s32.b1.b1.and.popc", ""))
KERNEL(wgmma_sp_f32_f16_f16_0, SPARSE_MEMORY_8(F16, F16, F32, "m64n16k32.f32.f16.f16", 0, ", 1, 1, 0, 0"))
KERNEL(wgmma_sp_f32_f16_f16_registers_1, SPARSE_REGISTERS_8(F16, F16, F32, "m64n16k32.f32.f16.f16", 1, ", 1, 1, 0"))
KERNEL(wgmma_sp_f16_f16_f16_1, SPARSE_MEMORY_4(F16, F16, F16, "m64n16k32.f16.f16.f16", 1, ", 1, 1, 0, 0"))
KERNEL(wgmma_sp_f32_bf16_bf16_1, SPARSE_MEMORY_8(BF16, BF16, F32, "m64n16k32.f32.bf16.bf16", 1, ", 1, 1, 0, 0"))
KERNEL(wgmma_sp_f32_tf32_tf32_0, SPARSE_MEMORY_8(TF32, TF32, F32, "m64n16k16.f32.tf32.tf32", 0, ", 1, 1"))
KERNEL(wgmma_sp_f32_tf32_tf32_registers_1, SPARSE_REGISTERS_8(TF32, TF32, F32, "m64n16k16.f32.tf32.tf32", 1, ", 1, 1"))
KERNEL(wgmma_sp_f32_e4m3_e5m2, SPARSE_MEMORY_8(E4M3, E5M2, F32, "m64n16k64.f32.e4m3.e5m2", 0, ", 1, 1"))
KERNEL(wgmma_sp_f16_e5m2_e4m3, SPARSE_MEMORY_4(E5M2, E4M3, F16, "m64n16k64.f16.e5m2.e4m3", 0, ", 1, 1"))
KERNEL(wgmma_sp_f32_e5m2_e4m3_registers_minus, SPARSE_REGISTERS_8(E5M2, E4M3, F32, "m64n16k64.f32.e5m2.e4m3", 0, ", 1, -1"))
KERNEL(wgmma_sp_s32_s8_u8_satfinite, SPARSE_MEMORY_8(I8, I8, I32, "m64n16k64.satfinite.s32.s8.u8", 0, ""))
KERNEL(wgmma_sp_s32_u8_s8_registers, SPARSE_REGISTERS_8(I8, I8, I32, "m64n16k64.s32.u8.s8", 0, ""))

/* --- layouts of matrices in shared memory -------------------------------------------------------------------------
 * All of the shared memory is filled with numbers, so any layout describes a valid matrix. A is 64 by 16, B is 16 by
 * 64. */

constexpr u32 layouts = 10;
__device__ __forceinline__ Layout layout(u32 swizzle, u32 which) {
  constexpr Layout all[layouts] = {{128, 256, 0, 0},   {256, 128, 0, 0}, {1024, 2048, 0, 0}, {2048, 1024, 0, 0},
                                   {16, 1024, 0, 0},   {528, 272, 0, 0}, {512, 1024, 1, 0},  {1024, 512, 6, 0},
                                   {2064, 1040, 3, 0}, {0, 1024, 0, 0}};
  Layout how = all[which];
  how.swizzle = swizzle;
  return how;
}

template <class Product> __device__ __forceinline__ void in_layouts(u32 *out, Product &&product) {
  constexpr u32 words = 20 * 256;
  __shared__ __align__(1024) u32 memory[words];
  const u32 thread = threadIdx.x;
#pragma unroll 1
  for (u32 i = thread; i < words; i += 128)
    memory[i] = word_of<F16>(0, narrow, 0, i);
  publish();
#pragma unroll 1
  for (u32 swizzle = 0; swizzle < 4; ++swizzle) {
    Results results{out + swizzle * 128 + thread};
#pragma unroll 1
    for (u32 which = 0; which < layouts; ++which) {
      /* Some matrices begin inside a swizzled unit. */
      const u32 a_begins = which % 5 * 32, b_begins = which % 3 * 144 + which % 2 * 1024;
      const u64 a_matrix = describe(address_of(memory) + a_begins, layout(swizzle, which)),
                b_matrix = describe(address_of(memory) + b_begins, layout(swizzle, (which + 3) % layouts));
      u32 d[32];
#pragma unroll
      for (int i = 0; i < 32; ++i)
        d[i] = 0;
      product(d, a_matrix, b_matrix);
#ifdef RAW
      results.out = out + ((swizzle * layouts + which) * 128 + thread) * 32;
#endif
#pragma unroll
      for (int i = 0; i < 32; ++i)
        results.put(d[i]);
    }
#ifndef RAW
    *results.out = results.sum;
#endif
  }
}
#define IN_LAYOUTS(form, more)                                                                                         \
  in_layouts(out, [](u32 *d, u64 a_matrix, u64 b_matrix) {                                                             \
    asm volatile(WGMMA("%34", ".sync.aligned." form " " D32 "%32, %33, p" more)                                        \
                 : INOUT32(d)                                                                                          \
                 : "l"(a_matrix), "l"(b_matrix), "r"(1)                                                                \
                 : "memory");                                                                                          \
  })

//! -> u32:512 grid=1 block=128
KERNEL(wgmma_layouts_k_k, IN_LAYOUTS("m64n64k16.f32.f16.f16", ", 1, 1, 0, 0"))
KERNEL(wgmma_layouts_k_n, IN_LAYOUTS("m64n64k16.f32.f16.f16", ", 1, 1, 0, 1"))
KERNEL(wgmma_layouts_m_k, IN_LAYOUTS("m64n64k16.f32.f16.f16", ", 1, 1, 1, 0"))
KERNEL(wgmma_layouts_m_n, IN_LAYOUTS("m64n64k16.f32.f16.f16", ", 1, 1, 1, 1"))

/* --- a product as in real programs ------------------------------------------------------------------------------ */

/*
 * A product of 128 rows by 64 columns with k = 64. Each of two warpgroups computes 64 rows. Each instruction covers k =
 * 16; the descriptors advance inside a swizzled unit. Two wgmma groups are in flight. Each block of the cluster has its
 * own numbers.
 */
//! -> u32:16384 grid=2 block=256 cluster=2
extern "C" __global__ void wgmma_two_groups(u32 *out) {
  __shared__ __align__(1024) u32 left[128 * 32];
  __shared__ __align__(1024) u32 right[64 * 32];
  const u32 thread = threadIdx.x, group = thread / 128;
#pragma unroll 1
  for (u32 i = thread; i < 128 * 32; i += 256)
    left[i] = word_of<BF16>(0, medium, blockIdx.x, i);
#pragma unroll 1
  for (u32 i = thread; i < 64 * 32; i += 256)
    right[i] = word_of<BF16>(1, medium, blockIdx.x, i);
  publish();
  u32 d[32];
#pragma unroll
  for (int i = 0; i < 32; ++i)
    d[i] = 0xffffffff; /* NaN: the first product must not add it */
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (u32 step = 0; step < 4; ++step) {
    const u64 a_matrix = describe(address_of(left) + group * 64 * 128 + step * 32, {16, 1024, 0, 1}),
              b_matrix = describe(address_of(right) + step * 32, {16, 1024, 0, 1});
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " D32
                 "%32, %33, p, 1, 1, 0, 0; }"
                 : INOUT32(d)
                 : "l"(a_matrix), "l"(b_matrix), "r"(int(step > 0))
                 : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (step == 1)
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < 32; ++i)
    out[(blockIdx.x * 256 + thread) * 32 + i] = d[i];
}
