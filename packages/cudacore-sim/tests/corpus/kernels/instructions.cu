/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions that compilers rarely generate from C++. */
#include "rows.cuh"

//! u32 u32 i32 f32 -> rows:u32
extern "C" __global__ void selections(const u32 *a, const u32 *b, const i32 *c, const float *d, u32 *out) {
  BEGIN(out);
  u32 x = a[index], y = b[index], r;
  i32 z = c[index];
  float f = d[index];
  asm("slct.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  ROW(r);
  asm("slct.u32.f32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "f"(f));
  ROW(r);
  asm("set.lt.u32.u32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
  ROW(r);
  asm("set.gt.f32.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(z));
  ROW(r);
  asm("set.geu.u32.f32 %0, %1, %2;" : "=r"(r) : "f"(f), "f"(1.0f));
  ROW(r);
  asm("{ .reg .pred p, q; setp.lt.and.u32 p|q, %1, %2, 1; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }"
      : "=r"(r)
      : "r"(x), "r"(y));
  ROW(r);
  asm("{ .reg .pred p, q; setp.eq.u32 q, %2, 0; setp.hi.xor.u32 p, %1, %2, !q; selp.u32 %0, %1, %2, p; }"
      : "=r"(r)
      : "r"(x), "r"(y));
  ROW(r);
  asm("cnot.b32 %0, %1;" : "=r"(r) : "r"(x & y));
  ROW(r);
}

//! u32 u32 u32 -> rows:u32
extern "C" __global__ void truth_tables(const u32 *a, const u32 *b, const u32 *c, u32 *out) {
  BEGIN(out);
#define TABLE(number)                                                                                                  \
  ([](u32 x, u32 y, u32 z) {                                                                                           \
    u32 d;                                                                                                             \
    asm("lop3.b32 %0, %1, %2, %3, " number ";" : "=r"(d) : "r"(x), "r"(y), "r"(z));                                    \
    return d;                                                                                                          \
  })(a[index], b[index], c[index])
  ROW(TABLE("0x80"));
  ROW(TABLE("0xfe"));
  ROW(TABLE("0x96"));
  ROW(TABLE("0xe8"));
  ROW(TABLE("0x1b"));
  ROW(TABLE("0x72"));
}

//! u64 u32 -> rows:u64
extern "C" __global__ void packed_moves(const u64 *a, const u32 *b, u64 *out) {
  BEGIN(out);
  u64 x = a[index], r;
  u32 y = b[index], low, high;
  asm("mov.b64 {%0, %1}, %2;" : "=r"(low), "=r"(high) : "l"(x));
  ROW(low ^ high);
  asm("mov.b64 %0, {%1, %2};" : "=l"(r) : "r"(high), "r"(y));
  ROW(r);
  asm("{ .reg .b16 a, b, c, d; mov.b64 {a, b, c, d}, %1; mov.b64 %0, {d, c, b, a}; }" : "=l"(r) : "l"(x));
  ROW(r);
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l}; }" : "=r"(low) : "r"(y));
  ROW(low);
  asm("{ .reg .b8 a, b, c, d; .reg .b32 t; mov.b32 {a, b, c, d}, %1; mov.b32 %0, {d, c, b, a}; }" : "=r"(low) : "r"(y));
  ROW(low);
}

__device__ u32 in_global[2] = {77, 78};

/* Instructions that query the state space of an address. */
//! u32:1 -> rows:u32
extern "C" __global__ void address_spaces(const u32 *a, u32 *out) {
  BEGIN(out);
  __shared__ u32 in_shared[64];
  u32 local[8];
  for (int i = 0; i < 8; ++i)
    local[i] = index * i;
  in_shared[threadIdx.x] = index;
  const u32 *pointers[4] = {in_global, in_shared, local, a};
  const u32 *one = pointers[index & 3];
  ROW(__isGlobal(one));
  ROW(__isShared(one));
  ROW(__isLocal(one));
  u32 x;
  asm("{ .reg .u64 g; cvta.to.shared.u64 g, %1; ld.shared.u32 %0, [g]; }" : "=r"(x) : "l"(&in_shared[threadIdx.x]));
  ROW(x);
  ROW(*(index & 3 ? index & 1 ? &in_shared[threadIdx.x] : &local[index & 7] : &in_global[1]));
}

/* Loads and stores with cache hints, which do not change the values that are read. */
//! u32:1024 -> u32:1024
extern "C" __global__ void cache_hints(const u32 *a, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  uint4 v = __ldcs((const uint4 *)a + index);
  u32 w = __ldcg(a + index) + __ldca(a + 4 * index) + __ldlu(a + index) + __ldcv(a + index);
  u32 r;
  asm volatile("ld.global.nc.L1::evict_last.L2::128B.u32 %0, [%1];" : "=r"(r) : "l"(a + index));
  v.x += w;
  v.y ^= r;
  __stcs((uint4 *)out + index, v);
  __stwt(out + 4 * index + 2, v.z * 3);
  asm volatile("prefetch.global.L2 [%0];" ::"l"(a));
  __stcg(out + 4 * index + 3, v.w + 1);
}

/* Asynchronous copies to shared memory. */
//! u32:1024 -> u32:256
extern "C" __global__ void asynchronous_copies(const u32 *a, u32 *out) {
  __shared__ alignas(16) u32 tile[2][256];
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  for (int half = 0; half < 2; ++half) {
    u32 to = __cvta_generic_to_shared(&tile[half][4 * i]);
    const u32 *from = a + (blockIdx.x * 256 + 4 * (half ? 63 - i : i)) % 1024;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
    asm volatile("cp.async.commit_group;");
  }
  asm volatile("cp.async.wait_group 1;");
  __syncthreads();
  u32 sum = tile[0][i] + tile[0][255 - i];
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  out[index] = sum ^ tile[1][i];
}

/* mbarrier: all threads arrive, and wait for the end of each phase. */
//! u32 -> u32
extern "C" __global__ void memory_barriers(const u32 *a, u32 *out) {
  __shared__ u64 barrier;
  __shared__ u32 values[64];
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  u32 address = __cvta_generic_to_shared(&barrier);
  if (i == 0)
    asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(address));
  __syncthreads();
  u32 sum = 0;
  for (int phase = 0; phase < 3; ++phase) {
    values[i] = a[index] + sum;
    u64 state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(address));
    for (u32 done = 0; !done;)
      asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(address), "l"(state)
                   : "memory");
    sum += values[(i + 7) % 64];
    __syncthreads();
  }
  out[index] = sum;
}

/* Numbered barriers: for only some of the warps, with warps that arrive without waiting, and with a reduction. */
//! u32 -> u32 grid=2 block=128
extern "C" __global__ void numbered_barriers(const u32 *a, u32 *out) {
  __shared__ u32 values[128];
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  u32 r;
  values[i] = a[index];
  if (i < 64) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    r = values[63 - i];
    asm volatile("barrier.cta.arrive 2, 128;" ::: "memory");
  } else {
    asm volatile("barrier.cta.sync 2, 128;" ::: "memory");
    r = values[i - 64] * 3;
  }
  u32 count;
  asm volatile("{ .reg .pred p; setp.gt.u32 p, %1, 1000; barrier.cta.red.popc.u32 %0, 3, p; }" : "=r"(count) : "r"(r));
  out[index] = r + count;
}

/* brx.idx: a jump to an entry of a table. */
//! u32 u32(0,4) -> u32
extern "C" __global__ void indirect_branches(const u32 *a, const u32 *b, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 r;
  asm volatile("{ .reg .u32 t; mov.u32 t, %1;\n"
               "targets: .branchtargets first, second, third, fourth;\n"
               "brx.idx %2, targets;\n"
               "first: add.u32 t, t, 1; bra.uni done;\n"
               "second: shl.b32 t, t, 3; bra.uni done;\n"
               "third: not.b32 t, t; bra.uni done;\n"
               "fourth: mul.lo.u32 t, t, t;\n"
               "done: mov.u32 %0, t; }"
               : "=r"(r)
               : "r"(a[index]), "r"(b[index]));
  out[index] = r;
}
