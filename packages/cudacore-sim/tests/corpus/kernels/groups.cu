/* SPDX-License-Identifier: Apache-2.0 */
/* Cooperative groups, the synchronisation of whole grids, and clusters. */
#include "rows.cuh"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/std/type_traits> /* of CCCL; cooperative groups are made of it */

namespace cg = cooperative_groups;

//! i32 -> rows:u32
extern "C" __global__ void tiles(const i32 *a, u32 *out) {
  BEGIN(out);
  i32 x = a[index];
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(warp);
  auto two = cg::tiled_partition<2>(eight);
  ROW(warp.thread_rank() << 16 | warp.meta_group_rank() << 8 | warp.meta_group_size());
  ROW(eight.thread_rank() << 16 | eight.meta_group_rank() << 8 | eight.size());
  ROW(eight.shfl(x, 3));
  ROW(eight.shfl_up(x, 2));
  ROW(two.shfl_xor(x, 1));
  ROW(eight.ballot(x > 0));
  ROW(eight.any(x > 1000) + 2 * eight.all(x < 1000000));
  ROW(eight.match_any(x & 3));
  ROW(cg::reduce(eight, x, cg::plus<i32>()));
  ROW(cg::reduce(warp, x, cg::greater<i32>()));
  ROW(cg::reduce(two, u32(x), cg::bit_xor<u32>()));
  ROW(cg::inclusive_scan(eight, x));
  ROW(cg::exclusive_scan(warp, x));
  ROW(block.thread_rank() << 16 | block.size());
}

//! u32(0,4) -> u32
extern "C" __global__ void coalesced_groups(const u32 *a, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 x = a[index], result = 0;
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  auto same = cg::labeled_partition(tile, x);
  result = same.thread_rank() << 8 | same.size();
  result ^= same.shfl(x * 0x01010101 + same.thread_rank(), 0);
  out[index] = result + cg::reduce(same, u32(index), cg::plus<u32>());
}

__device__ u32 shared_sum[3];

/* Rounds of a sum that all blocks see after each barrier. */
//! u32:512 -> u32:512 grid=4 block=128 cooperative
extern "C" __global__ void grid_barriers(const u32 *a, u32 *out) {
  auto grid = cg::this_grid();
  u32 i = grid.thread_rank(), x = a[i];
  for (int round = 0; round < 3; ++round) {
    atomicAdd(&shared_sum[round], x);
    grid.sync();
    x = x * 3 + *(volatile u32 *)&shared_sum[round];
  }
  out[i] = x + grid.size();
  grid.sync();
  if (i == 0)
    shared_sum[0] = shared_sum[1] = shared_sum[2] = 0;
}

/* Blocks of a cluster read and add to each other's shared memory. */
//! u32 -> u32 grid=8 block=32
extern "C" __global__ void __cluster_dims__(4) cluster_memory(const u32 *a, u32 *out) {
  __shared__ u32 values[32], sum;
  auto cluster = cg::this_cluster();
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  values[i] = a[index];
  if (i == 0)
    sum = 0;
  cluster.sync();
  u32 rank = cluster.block_rank(), blocks = cluster.num_blocks();
  u32 *theirs = cluster.map_shared_rank(values, (rank + 1) % blocks);
  atomicAdd(cluster.map_shared_rank(&sum, 0), values[i]);
  u32 x = theirs[31 - i];
  cluster.sync();
  u32 total = *cluster.map_shared_rank(&sum, 0);
  cluster.sync();
  out[index] = x + total + (rank << 8) + blocks;
}

//! u32:1 -> u32:64 grid=8 block=8
extern "C" __global__ void __cluster_dims__(2) cluster_registers(const u32 *, u32 *out) {
  u32 id, count, rank, size, x;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(id));
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(x));
  out[blockIdx.x * blockDim.x + threadIdx.x] = id << 20 | count << 12 | rank << 8 | size << 4 | x;
}
