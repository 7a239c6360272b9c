/* SPDX-License-Identifier: Apache-2.0 */
/* ldmatrix, stmatrix and movmatrix: matrices of eight rows of 16 bytes, between shared memory and registers. */
#include "rows.cuh"

__device__ __forceinline__ u32 shared_address(const void *at) { return u32(__cvta_generic_to_shared(at)); }

/* `b` determines the addresses of the rows. Each lane receives one word of each matrix. */
//! u32(0,4294967296):1024 u32(0,256) -> rows:u32
extern "C" __global__ void ldmatrix(const u32 *a, const u32 *b, u32 *out) {
  BEGIN(out);
  __shared__ alignas(16) u32 memory[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x)
    memory[i] = a[i];
  __syncthreads();
  u32 at = shared_address(memory) + b[index] * 16;
  u32 d[4];
#define LOAD(count, form, list, ...)                                                                                   \
  ([&] {                                                                                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8." form " " list ", [%" #count "];" : __VA_ARGS__ : "r"(at) : "memory");   \
  }())
  LOAD(1, "x1.shared.b16", "{%0}", "=r"(d[0]));
  ROW(d[0]);
  LOAD(1, "x1.trans.shared.b16", "{%0}", "=r"(d[0]));
  ROW(d[0]);
  LOAD(2, "x2.shared.b16", "{%0, %1}", "=r"(d[0]), "=r"(d[1]));
  ROW(d[0]);
  ROW(d[1]);
  LOAD(2, "x2.trans.shared.b16", "{%0, %1}", "=r"(d[0]), "=r"(d[1]));
  ROW(d[0]);
  ROW(d[1]);
  LOAD(4, "x4.shared.b16", "{%0, %1, %2, %3}", "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]));
  ROW(d[0]);
  ROW(d[1]);
  ROW(d[2]);
  ROW(d[3]);
  LOAD(4, "x4.trans.shared::cta.b16", "{%0, %1, %2, %3}", "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]));
  ROW(d[0]);
  ROW(d[1]);
  ROW(d[2]);
  ROW(d[3]);
  u64 generic = u64(memory) + b[index] * 16;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.b16 {%0}, [%1];" : "=r"(d[0]) : "l"(generic) : "memory");
  ROW(d[0]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2+-16];"
               : "=r"(d[0]), "=r"(d[1])
               : "r"(at + 16)
               : "memory");
  ROW(d[0]);
  ROW(d[1]);
}

/* All rows have different addresses. The rest of the memory must not change. */
//! u32(0,4294967296):1024 -> u32:4096
extern "C" __global__ void stmatrix(const u32 *a, u32 *out) {
  __shared__ alignas(16) u32 memory[1024];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 r[4] = {a[threadIdx.x], a[256 + threadIdx.x], a[512 + threadIdx.x], a[768 + threadIdx.x]};
  const u32 row = shared_address(memory) + warp * 2048 + (lane * 13 + blockIdx.x) % 128 * 16;
  const u32 other = shared_address(memory) + warp * 2048 + (lane * 13 + 64) % 128 * 16;
  for (int i = threadIdx.x; i < 1024; i += blockDim.x)
    memory[i] = i;
  __syncthreads();
  if (blockIdx.x == 0) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(r[0]) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(other), "r"(r[0]) : "memory");
  } else if (blockIdx.x == 1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(r[0]), "r"(r[1])
                 : "memory");
  } else if (blockIdx.x == 2) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(r[0]), "r"(r[1])
                 : "memory");
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 1024; i += blockDim.x)
    out[blockIdx.x * 1024 + i] = memory[i];
}

//! u32(0,4294967296) -> rows:u32
extern "C" __global__ void movmatrix(const u32 *a, u32 *out) {
  BEGIN(out);
  u32 d;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a[index]));
  ROW(d);
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(d));
  ROW(d);
}
