/* SPDX-License-Identifier: Apache-2.0 */
/* Exchange of data between the threads of a warp. */
#include "rows.cuh"

//! i32 u32(0,40) -> rows:u32
extern "C" __global__ void shuffles(const i32 *a, const u32 *b, u32 *out) {
  BEGIN(out);
  i32 x = a[index];
  u32 by = b[index], uniform = b[blockIdx.x];
  ROW(__shfl_sync(~0u, x, by));
  ROW(__shfl_sync(~0u, x, by, 8));
  ROW(__shfl_up_sync(~0u, x, uniform));
  ROW(__shfl_up_sync(~0u, x, 3, 16));
  ROW(__shfl_down_sync(~0u, x, uniform));
  ROW(__shfl_down_sync(~0u, x, 5, 8));
  ROW(__shfl_xor_sync(~0u, x, 21));
  ROW(__shfl_xor_sync(~0u, x, 5, 4));
  ROW(__shfl_xor_sync(~0u, x, 9, 16));
  ROW(__shfl_sync(~0u, x, -3));
}

/* The predicate of a shuffle is true if the source lane was in range. */
//! u32 u32(0,32) -> rows:u32
extern "C" __global__ void shuffles_with_predicates(const u32 *a, const u32 *b, u32 *out) {
  BEGIN(out);
  u32 x = a[index], by = b[index];
#define SHUFFLE(mode, amount, clamp)                                                                                   \
  ([](u32 v, u32 n) {                                                                                                  \
    u32 d;                                                                                                             \
    asm volatile("{ .reg .pred p; .reg .b32 t; shfl.sync." mode ".b32 t|p, %1, %2, " clamp ", 0xffffffff;"             \
                 "@!p mov.b32 t, 0xdeadbeef; mov.b32 %0, t; }"                                                         \
                 : "=r"(d)                                                                                             \
                 : "r"(v), "r"(n));                                                                                    \
    return d;                                                                                                          \
  })(x, amount)
  ROW(SHUFFLE("idx", by, "31"));
  ROW(SHUFFLE("idx", by, "0x1807"));
  ROW(SHUFFLE("up", by, "0"));
  ROW(SHUFFLE("up", by, "0x1000"));
  ROW(SHUFFLE("down", by, "31"));
  ROW(SHUFFLE("down", by, "0x181f"));
  ROW(SHUFFLE("bfly", by, "31"));
  ROW(SHUFFLE("bfly", by, "0x100f"));
}

//! i64 f64 u32(0,32) -> rows:u64
extern "C" __global__ void wide_shuffles(const i64 *a, const double *b, const u32 *c, u64 *out) {
  BEGIN(out);
  ROW(__shfl_sync(~0u, a[index], c[index]));
  ROW(__shfl_down_sync(~0u, b[index], 3));
  ROW(__shfl_xor_sync(~0u, float(c[index]), 16));
  ROW(__shfl_up_sync(~0u, u64(a[index]), 1, 4));
}

//! u32(0,5) u32 -> rows:u32
extern "C" __global__ void votes(const u32 *a, const u32 *b, u32 *out) {
  BEGIN(out);
  u32 x = a[index], y = b[index];
  ROW(__ballot_sync(~0u, x > 2));
  ROW(__any_sync(~0u, x == 9));
  ROW(__any_sync(~0u, y == 0));
  ROW(__all_sync(~0u, x < 5));
  ROW(__all_sync(~0u, x < 4));
  ROW(__uni_sync(~0u, index < 64));
  ROW(__match_any_sync(~0u, x));
  ROW(__match_any_sync(~0u, u64(x) << 33));
  int same = -1;
  ROW(__match_all_sync(~0u, x, &same));
  ROW(same);
  ROW(__match_all_sync(~0u, u64(blockIdx.x), &same));
  ROW(same);
}

//! u32 i32 -> rows:u32
extern "C" __global__ void warp_reductions(const u32 *a, const i32 *b, u32 *out) {
  BEGIN(out);
  u32 x = a[index];
  i32 y = b[index];
  ROW(__reduce_add_sync(~0u, x));
  ROW(__reduce_add_sync(~0u, y));
  ROW(__reduce_min_sync(~0u, x));
  ROW(__reduce_min_sync(~0u, y));
  ROW(__reduce_max_sync(~0u, x));
  ROW(__reduce_max_sync(~0u, y));
  ROW(__reduce_and_sync(~0u, x | 0xff00));
  ROW(__reduce_or_sync(~0u, x & 0x1f));
  ROW(__reduce_xor_sync(~0u, x));
}

/* Exchange between the threads in one branch; the mask contains exactly these threads. */
//! u32 -> u32
extern "C" __global__ void divergent_masks(const u32 *a, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 x = a[index], y, mask = 0x55555555, lane = index % 32;
  if (lane & 1) {
    y = __shfl_xor_sync(~mask, x, 2) + __reduce_add_sync(~mask, lane);
    if (lane < 16)
      y ^= __ballot_sync(0x0000aaaa, x & 1);
    __syncwarp(~mask);
  } else {
    y = __shfl_sync(mask, x, 6) - __popc(__ballot_sync(mask, x & 2));
    for (int i = 0; i < 3; ++i)
      y += __shfl_down_sync(mask, y, 2);
  }
  __syncwarp();
  out[index] = y + __shfl_xor_sync(~0u, x, 1);
}

//! u32(0,3) -> rows:u32
extern "C" __global__ void active_masks(const u32 *a, u32 *out) {
  BEGIN(out);
  u32 lane_mask_lt, lane_mask_ge, lane;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lane_mask_lt));
  asm("mov.u32 %0, %%lanemask_ge;" : "=r"(lane_mask_ge));
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  ROW(__activemask());
  ROW(lane_mask_lt);
  ROW(lane_mask_ge);
  ROW(lane);
}

/* Stream compaction: each warp writes its positive elements one after another. */
//! i32 -> i32 u32:8
extern "C" __global__ void compaction(const i32 *a, i32 *out, u32 *counts) {
  int index = blockIdx.x * blockDim.x + threadIdx.x, lane = index % 32, warp = index / 32;
  i32 x = a[index];
  u32 votes = __ballot_sync(~0u, x > 0);
  if (x > 0)
    out[warp * 32 + __popc(votes & ((1u << lane) - 1))] = x;
  if (lane == 0)
    counts[warp] = __popc(votes);
}

/* A block whose last warp has only 18 threads. */
//! u32:50 -> u32:50 grid=1 block=50
extern "C" __global__ void partial_warp(const u32 *a, u32 *out) {
  int i = threadIdx.x;
  u32 mask = i < 32 ? ~0u : (1u << 18) - 1;
  u32 sum = a[i];
  for (int offset = 16; offset > 0; offset /= 2) {
    u32 other = __shfl_down_sync(mask, sum, offset);
    if (i % 32 + offset < __popc(mask))
      sum += other;
  }
  out[i] = sum ^ __ballot_sync(mask, a[i] & 1);
}

/* Special registers: the position of a thread, and the sizes of grid, block and warp. */
//! u32:1 -> u32:96 grid=3 block=32
extern "C" __global__ void special_registers(const u32 *, u32 *out) {
  u32 lanes, warps, warp;
  asm("mov.u32 %0, %%nctaid.x;" : "=r"(lanes));
  asm("mov.u32 %0, %%nwarpid;" : "=r"(warps));
  asm("mov.u32 %0, WARP_SZ;" : "=r"(warp));
  out[blockIdx.x * 32 + threadIdx.x] = lanes << 24 | warp << 12 | threadIdx.x << 4 | blockDim.y << 2 | blockIdx.z;
}
