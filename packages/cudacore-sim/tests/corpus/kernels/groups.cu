/* SPDX-License-Identifier: Apache-2.0 */
/* Cooperative groups, the synchronisation of whole grids, and clusters. */
#include "rows.cuh"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/std/utility> /* a header of CCCL, which cooperative groups use */

namespace cg = cooperative_groups;
namespace std_ = cuda::std;

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

/* Each round adds to a sum that all blocks read after a grid barrier. */
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

struct Map {
  u32 a, b;
};
struct Compose {
  __device__ Map operator()(Map f, Map g) const { return {f.a * g.a, g.a * f.b + g.b}; }
};

/* Scans with various operations, in tiles of all sizes and in groups of only some threads of a warp. */
//! u32 i32 f32(-9,9) -> rows:u64
extern "C" __global__ void scans_of_tiles(const u32 *a, const i32 *b, const float *c, u64 *out) {
  BEGIN(out);
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto sixteen = cg::tiled_partition<16>(warp);
  auto four = cg::tiled_partition<4>(warp);
  u32 x = a[index];
  ROW(cg::inclusive_scan(warp, x, cg::bit_xor<u32>()));
  ROW(cg::inclusive_scan(sixteen, b[index], cg::greater<i32>()));
  ROW(cg::exclusive_scan(four, b[index], cg::plus<i32>()));
  ROW(cg::exclusive_scan(sixteen, x | 1, cg::bit_or<u32>()));
  ROW(cg::inclusive_scan(warp, c[index], cg::plus<float>()));
  ROW(cg::inclusive_scan(four, c[index], cg::less<float>()));
  ROW(cg::inclusive_scan(warp, Map{x | 1, x >> 3}, Compose()));
  ROW(cg::inclusive_scan(sixteen, u64(x) * x, [](u64 p, u64 q) { return p > q ? p - q : q - p; }));
  u64 some = 0;
  if (x % 3) {
    auto active = cg::coalesced_threads();
    some = cg::inclusive_scan(active, x, cg::plus<u32>());
    some += u64(cg::exclusive_scan(active, x, cg::plus<u32>())) << 32;
  }
  ROW(some);
}

//! u32 i32 f32(-9,9) f64(-9,9) -> rows:u64
extern "C" __global__ void reductions_of_tiles(const u32 *a, const i32 *b, const float *c, const double *d, u64 *out) {
  BEGIN(out);
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto eight = cg::tiled_partition<8>(warp);
  auto one = cg::tiled_partition<1>(warp);
  u32 x = a[index];
  ROW(cg::reduce(cg::tiled_partition<4>(warp), x | 0xf000, cg::bit_and<u32>()));
  ROW(cg::reduce(eight, x, cg::bit_or<u32>()));
  ROW(cg::reduce(eight, b[index], cg::less<i32>()));
  ROW(cg::reduce(one, b[index], cg::plus<i32>()));
  ROW(cg::reduce(warp, c[index], cg::plus<float>()));
  ROW(cg::reduce(eight, c[index], cg::greater<float>()));
  ROW(cg::reduce(eight, d[index], cg::plus<double>()));
  ROW(cg::reduce(warp, u64(x) << 20, cg::plus<u64>()));
  ROW(cg::reduce(eight, x, [](u32 p, u32 q) { return p * q; }));
  u64 some = 0;
  if (b[index] > 0) {
    auto active = cg::coalesced_threads();
    some = cg::reduce(active, x, cg::plus<u32>()) + u64(active.size()) * active.thread_rank();
  }
  ROW(some);
}

/* All groups add to sums in memory. The recorded results do not depend on the order in which the groups do so. */
//! u32(0,100) -> u32:4 u64:2
extern "C" __global__ void updates_of_groups(const u32 *a, u32 *sums, u64 *seen) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  cuda::atomic_ref<u32, cuda::thread_scope_device> first(sums[0]), second(sums[1]), third(sums[2]);
  u32 before = cg::exclusive_scan_update(warp, first, 1u, cg::plus<u32>());
  atomicAdd(seen, u64(before));
  atomicXor(seen + 1, u64(1) << (cg::inclusive_scan_update(warp, second, 1u, cg::plus<u32>()) % 64));
  cg::reduce_update_async(warp, third, a[index], cg::plus<u32>());
  __shared__ u32 stored[2];
  cg::reduce_store_async(warp, stored + threadIdx.x / 32, a[index], cg::greater<u32>());
  __syncthreads();
  if (threadIdx.x == 0)
    atomicAdd(sums + 3, stored[0] * 1000 + stored[1]);
}

//! i32 -> rows:u32
extern "C" __global__ void binary_partitions(const i32 *a, u32 *out) {
  BEGIN(out);
  i32 x = a[index];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto sixteen = cg::tiled_partition<16>(warp);
  auto sign = cg::binary_partition(warp, x < 0);
  ROW(sign.thread_rank() << 8 | sign.size());
  ROW(cg::reduce(sign, u32(x), cg::plus<u32>()));
  ROW(sign.shfl(x, sign.size() - 1));
  ROW(sign.shfl_up(x, 1) * (sign.thread_rank() > 0));
  ROW(sign.meta_group_rank() + 16 * sign.meta_group_size());
  auto odd = cg::binary_partition(sixteen, x & 1);
  ROW(odd.ballot(x > 100));
  ROW(odd.match_any(x & 6));
  auto quarter = cg::binary_partition(odd, x & 2);
  ROW(quarter.thread_rank() << 8 | quarter.size());
  ROW(quarter.any(x > 1000) + 2 * quarter.all(x < 5000));
  auto three = cg::tiled_partition(cg::coalesced_threads(), 4);
  ROW(three.thread_rank() << 8 | three.size());
  auto label = cg::labeled_partition(warp, u32(x) % 5);
  ROW(label.thread_rank() << 16 | label.size() << 8 | label.meta_group_size());
  ROW(cg::reduce(label, x, cg::greater<i32>()));
}

//! u32:1024 -> u32:1024 u32:512
extern "C" __global__ void copies_of_groups(const u32 *a, u32 *out, u32 *of_warps) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  __shared__ alignas(16) u32 tile[256], parts[2][64];
  const u32 *from = a + 256 * blockIdx.x;
  cg::memcpy_async(block, tile, from, sizeof tile);
  u32 *part = parts[warp.meta_group_rank()];
  cg::memcpy_async(warp, part, 64, from + 64 * warp.meta_group_rank(), 60);
  cg::wait(block);
  for (int i = block.thread_rank(); i < 256; i += block.size())
    out[256 * blockIdx.x + i] = tile[255 - i] ^ i;
  block.sync();
  cg::memcpy_async(block, tile, from + 128, cuda::aligned_size_t<16>(512));
  cg::memcpy_async(block, tile + 128, from + 3, sizeof(u32) * 77);
  cg::wait_prior<1>(block);
  u32 x = tile[threadIdx.x];
  cg::wait(block);
  for (int i = warp.thread_rank(); i < 60; i += 32)
    of_warps[128 * blockIdx.x + 64 * warp.meta_group_rank() + i] = part[i] + tile[i + 128] + x * (i == 7);
}

/*
 * invoke_one: one thread of a group does the work. It is unspecified which thread that is, so its number is not
 * recorded.
 */
//! u32:256 -> u32:256 u32:8
extern "C" __global__ void invocations_by_one(const u32 *a, u32 *out, u32 *counts) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  cg::invoke_one(warp, [&] { atomicAdd(counts + index / 32, 1u); });
  u32 x = a[index];
  u32 size = cg::invoke_one_broadcast(warp, [&] { return warp.size() * 3; });
  if (x & 1) {
    auto active = cg::coalesced_threads();
    cg::invoke_one(active, [&](u32 by) { atomicAdd(counts + index / 32, by); }, 1000 * active.size());
    size += cg::invoke_one_broadcast(active, [&] { return active.size(); });
  }
  out[index] = size;
}

/* Tiles of several warps, which need shared memory. */
//! u32:512 -> u32:512 u32:512 grid=2 block=256
extern "C" __global__ void tiles_of_warps(const u32 *a, u32 *out, u32 *places) {
  __shared__ cg::block_tile_memory<256> memory;
  auto block = cg::this_thread_block(memory);
  auto tile = cg::tiled_partition<64>(block);
  auto large = cg::tiled_partition<128>(block);
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 x = a[index], result = cg::reduce(tile, x, cg::plus<u32>());
  result ^= cg::inclusive_scan(tile, x >> 4, cg::plus<u32>());
  result += cg::reduce(large, x, cg::greater<u32>()) * 3;
  result += tile.shfl(x, 40);
  result += tile.any(x == 5) + 2 * large.all(x != 7);
  tile.sync();
  out[index] = result;
  places[index] = tile.thread_rank() << 16 | tile.meta_group_rank() << 8 | large.meta_group_rank();
}

/* Barriers with work between the arrival and the wait. */
//! u32:512 -> u32:512 grid=8 block=64 cooperative
extern "C" __global__ void arrivals(const u32 *a, u32 *out) {
  __shared__ u32 values[64];
  auto block = cg::this_thread_block();
  auto grid = cg::this_grid();
  int i = threadIdx.x, index = grid.thread_rank();
  values[i] = a[index];
  auto token = block.barrier_arrive();
  u32 x = a[511 - index];
  block.barrier_wait(std_::move(token));
  x += values[63 - i];
  out[index] = x;
  auto all = grid.barrier_arrive();
  u32 other = x * 3 + grid.block_rank() * 256 + grid.num_blocks();
  grid.barrier_wait(std_::move(all));
  other += out[511 - index];
  grid.sync();
  out[index] = other + block.group_index().x + block.dim_threads().x;
}

/* The launch determines the size of the clusters. The bins of a histogram are spread over their blocks. */
//! u32:2048 -> u32:128 u32:512 grid=8 block=64 cluster=4
extern "C" __global__ void histogram_of_clusters(const u32 *a, u32 *out, u32 *facts) {
  __shared__ u32 bins[16];
  auto cluster = cg::this_cluster();
  int i = threadIdx.x;
  if (i < 16)
    bins[i] = 0;
  cluster.sync();
  for (int j = cluster.thread_rank(); j < 1024; j += cluster.size()) {
    u32 bin = a[1024 * (blockIdx.x / cluster.num_blocks()) + j] % 64;
    atomicAdd(cluster.map_shared_rank(bins, bin / 16) + bin % 16, 1u);
  }
  cluster.sync();
  if (i < 16)
    out[16 * blockIdx.x + i] = bins[i];
  facts[blockIdx.x * blockDim.x + i] = cluster.block_rank() << 24 | cluster.num_threads() << 8 |
                                       cluster.query_shared_rank(cluster.map_shared_rank(bins, i % 4));
}

/* Blocks of a cluster pass values to the next block of a ring, with work between arrival at a barrier and the wait. */
//! u32:256 -> u32:256 grid=8 block=32 cluster=2
extern "C" __global__ void ring_of_clusters(const u32 *a, u32 *out) {
  __shared__ u32 values[2][32];
  auto cluster = cg::this_cluster();
  int i = threadIdx.x, index = blockIdx.x * 32 + i;
  u32 x = a[index], next = (cluster.block_rank() + 1) % cluster.num_blocks();
  cluster.sync(); /* the shared memory of a block exists only after the block has begun */
  for (int round = 0; round < 3; ++round) {
    *cluster.map_shared_rank(&values[round & 1][31 - i], next) = x;
    auto token = cluster.barrier_arrive();
    u32 kept = x * 5;
    cluster.barrier_wait(std_::move(token));
    x = kept ^ values[round & 1][i];
  }
  cluster.sync();
  out[index] = x;
}
