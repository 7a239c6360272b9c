/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous stores and additions to memory of other blocks, and bulk copies and reductions. */
//! cuda: 13
#include "rows.cuh"
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>

/*
 * Each block stores words in the other block's shared memory, and adds to words there. The receiving block's barrier
 * counts the bytes.
 */
//! u32 -> u32
extern "C" __global__ void __cluster_dims__(2) remote_stores(const u32 *a, u32 *out) {
  namespace ptx = cuda::ptx;
  __shared__ alignas(16) u32 inbox[64];
  __shared__ u32 sum[2];
  __shared__ alignas(8) u64 barrier;
  auto cluster = cooperative_groups::this_cluster();
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  if (i == 0) {
    sum[0] = sum[1] = 0;
    ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier, 64 * 4 + 64 * 4);
  }
  cluster.sync();
  u32 other = cluster.block_rank() ^ 1;
  u32 *to = cluster.map_shared_rank(inbox + 63 - i, other);
  u64 *theirs = cluster.map_shared_rank(&barrier, other);
  u32 x = a[index];
  ptx::st_async(to, x, theirs);
  ptx::red_async(ptx::op_add, cluster.map_shared_rank(sum + i % 2, other), x, theirs);
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &barrier, 0))
    ;
  out[index] = inbox[i] + sum[0] * 3 + sum[1];
  cluster.sync();
}

/* Bulk copies and bulk reductions from shared memory to global memory. */
//! u32 -> u32 u32:96 i32:64
extern "C" __global__ void bulk_groups(const u32 *a, u32 *out, u32 *sums, i32 *least) {
  namespace ptx = cuda::ptx;
  __shared__ alignas(16) u32 tile[64];
  int i = threadIdx.x;
  tile[i] = a[64 * blockIdx.x + i] * 3;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (i == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + 64 * blockIdx.x, tile, 256);
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, tile, 256);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_xor_op, sums + 64, tile, 128);
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_min, least, (i32 *)tile, 256);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<1>{});
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
  }
}
