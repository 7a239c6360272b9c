/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics of each type. The results do not depend on the order of the threads. */
#include "rows.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

//! i32 u32 -> u32:12
extern "C" __global__ void atomics_32(const i32 *a, const u32 *b, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  i32 *s = (i32 *)out;
  atomicAdd(s, a[index]);
  atomicAdd(out + 1, b[index]);
  atomicSub(s + 2, a[index]);
  atomicMin(s + 3, a[index]);
  atomicMax(s + 4, a[index]);
  atomicMin(out + 5, b[index]);
  atomicMax(out + 6, b[index]);
  atomicAnd(out + 7, b[index]);
  atomicOr(out + 8, b[index] & 0x11111111);
  atomicXor(out + 9, b[index]);
  atomicInc(out + 10, 100);
  atomicDec(out + 11, 1000);
}

//! i64 u64 -> u64:8
extern "C" __global__ void atomics_64(const i64 *a, const u64 *b, u64 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  i64 *s = (i64 *)out;
  atomicAdd(out, b[index]);
  atomicMin(s + 1, a[index]);
  atomicMax(s + 2, a[index]);
  atomicMax(out + 3, b[index]);
  atomicOr(out + 4, b[index] & 0x1111111111111111);
  atomicXor(out + 5, b[index]);
  atomicAnd(out + 6, b[index]);
  atomicMin(out + 7, b[index]);
}

//! u32 i32 u64 -> u64:10
extern "C" __global__ void shared_atomics(const u32 *a, const i32 *b, const u64 *c, u64 *out) {
  __shared__ u32 words[5];
  __shared__ u64 longs[5];
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  if (i < 5) {
    words[i] = i == 2 ? ~0u : 0;
    longs[i] = i == 2 ? ~0ull : 0;
  }
  __syncthreads();
  atomicAdd(words, a[index]);
  atomicMax((i32 *)words + 1, b[index]);
  atomicAnd(words + 2, a[index] | 0xf0f0);
  atomicXor(words + 3, a[index]);
  atomicInc(words + 4, 49);
  atomicAdd(longs, c[index]);
  atomicMax(longs + 1, c[index]);
  atomicMin(longs + 2, c[index]);
  atomicXor(longs + 3, c[index]);
  atomicMax((i64 *)longs + 4, i64(c[index]));
  __syncthreads();
  if (i < 5) {
    atomicAdd(out + i, u64(words[i]));
    atomicXor(out + 5 + i, longs[i]);
  }
}

/* Sums of small multiples of 0.25, which are exact in any order. */
//! i32(-64,64) -> f32:2 f64:2 f16:4 bf16:4
extern "C" __global__ void float_atomics(const i32 *a, float *f, double *d, __half *h, __nv_bfloat16 *b) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[index] * 0.25f;
  __shared__ float sum;
  __shared__ double wide;
  if (threadIdx.x == 0)
    sum = 0, wide = 0;
  __syncthreads();
  atomicAdd(f, x);
  atomicAdd(&sum, x);
  atomicAdd(d, double(x) * 1e6);
  atomicAdd(&wide, double(x));
  atomicAdd(h, __float2half(a[index] & 1));
  atomicAdd((__half2 *)h + 1, __floats2half2_rn(a[index] & 1, -(a[index] & 2)));
  atomicAdd(b, __float2bfloat16(index % 16 == 0));
  atomicAdd((__nv_bfloat162 *)b + 1, __floats2bfloat162_rn(index % 16 == 1, index % 8 == 1));
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(f + 1, sum);
    atomicAdd(d + 1, wide);
  }
}

/* Atomic additions of vectors of four and of two floats. */
//! i32(-64,64) -> f32:8
extern "C" __global__ void vector_atomics(const i32 *a, float *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[index];
  atomicAdd((float4 *)out, make_float4(x, -x, 2 * x, 1));
  atomicAdd((float2 *)out + 2, make_float2(x * 0.5f, 3));
}

/* Atomics whose old values are used. Whatever their order, each ticket is drawn once and each slot is taken once. */
//! u32 -> u32 u32:257 u64:2
extern "C" __global__ void tickets(const u32 *a, u32 *drawn, u32 *slots, u64 *sums) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 ticket = atomicAdd(slots + 256, 1u);
  drawn[ticket] = ticket + 1;
  u32 slot = a[index] % 256;
  while (atomicCAS(slots + slot, 0u, 1u) != 0)
    slot = (slot + 1) % 256;
  atomicAdd(sums, u64(atomicExch(slots + slot, 2u)));
  atomicAdd(sums + 1, u64(ticket));
}

/* Loops of compare-and-swap, of all widths. */
//! u32(0,50) f32(-100,100) -> u32:1 u64:1 f32:1 u16:2
extern "C" __global__ void swap_loops(const u32 *a, const float *b, u32 *out, u64 *wide, u32 *largest, u16 *small) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  for (u32 old = *out, seen; (seen = atomicCAS(out, old, old * 1 + a[index] * a[index])) != old; old = seen)
    ;
  for (u64 old = *wide, seen; (seen = atomicCAS(wide, old, old ^ u64(a[index]) << 35)) != old; old = seen)
    ;
  for (u32 old = *largest; b[index] > __uint_as_float(old);) {
    u32 seen = atomicCAS(largest, old, __float_as_uint(b[index]));
    if (seen == old)
      break;
    old = seen;
  }
  for (u16 old = small[1], seen; (seen = atomicCAS(small + 1, old, u16(old + 3))) != old; old = seen)
    ;
}

/* Instructions with scopes and memory orders. The grid has one block, so even the smallest scope is large enough. */
//! u32 u64 -> u64:6 grid=1 block=256
extern "C" __global__ void scoped_atomics(const u32 *a, const u64 *b, u64 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd_system((u32 *)out, a[index]);
  atomicMax_block((u32 *)out + 1, a[index] & 0xff);
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(out + 1), "l"(b[index]));
  asm volatile("red.release.sys.global.max.s64 [%0], %1;" ::"l"(out + 2), "l"(b[index]));
  u32 old;
  asm volatile("atom.acq_rel.cta.global.or.b32 %0, [%1], %2;" : "=r"(old) : "l"(out + 3), "r"(a[index] & 0x0ff0ff));
  asm volatile("atom.acquire.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"((u32 *)out + 8), "r"(1));
  asm volatile("fence.acq_rel.gpu;");
  asm volatile("red.global.xor.b64 [%0], %1;" ::"l"(out + 5), "l"(b[index]));
}

/* A lock that the threads of a warp acquire one after another. */
__device__ u32 lock;
__device__ u32 counter;

//! u32:1 -> u32:1 grid=8 block=32
extern "C" __global__ void locks(const u32 *, u32 *out) {
  for (bool done = false; !done;) {
    if (atomicCAS(&lock, 0u, 1u) == 0) {
      __threadfence();
      *(volatile u32 *)&counter = *(volatile u32 *)&counter + 1;
      *(volatile u32 *)out = *(volatile u32 *)&counter;
      __threadfence();
      atomicExch(&lock, 0u);
      done = true;
    }
  }
}
