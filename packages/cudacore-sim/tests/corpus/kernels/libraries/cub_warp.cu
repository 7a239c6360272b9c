/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUB's collective operations of warps and of single threads. Undefined results are not recorded. CUDA 13 is required,
 * because the CUB of CUDA 12 includes headers of the host.
 */
//! cuda: 13
#include "cub_operators.cuh"
#include <cub/thread/thread_reduce.cuh>
#include <cub/thread/thread_scan.cuh>
#include <cub/thread/thread_search.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <int lanes, class T, class Op> __device__ T warp_reduce(T x, Op op) {
  using Reduce = cub::WarpReduce<T, lanes>;
  __shared__ typename Reduce::TempStorage storage[threads / lanes];
  T result = Reduce(storage[threadIdx.x / lanes]).Reduce(x, op);
  return threadIdx.x % lanes ? T{} : result;
}

//! u32 i64 -> rows:u64
extern "C" __global__ void cub_warp_reduce(const u32 *a, const i64 *b, u64 *out) {
  BEGIN(out);
  u32 x = a[index];
  i64 y = b[index];
  ROW(warp_reduce<32>(x, Plus{}));
  ROW(warp_reduce<16>(x, Largest{}));
  ROW(warp_reduce<4>(y, Smallest{}));
  ROW(warp_reduce<32>(u8(x), Largest{}));
  ROW(warp_reduce<32>(Affine{x | 1, u32(y)}, Compose{}));
  using Reduce = cub::WarpReduce<u32>;
  __shared__ Reduce::TempStorage storage[2];
  u32 some = Reduce(storage[threadIdx.x / 32]).Sum(x, 19);
  ROW(threadIdx.x % 32 ? 0 : some);
}

/* A group of seven threads uses shared memory, because seven is not a power of two. Each warp has one group. */
//! u32 -> u32:8
extern "C" __global__ void cub_odd_warp_reduce(const u32 *a, u32 *out) {
  using Reduce = cub::WarpReduce<u32, 7>;
  __shared__ Reduce::TempStorage storage[2];
  int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 < 7) {
    u32 sum = Reduce(storage[warp]).Sum(a[blockIdx.x * blockDim.x + threadIdx.x]);
    if (threadIdx.x % 32 == 0)
      out[2 * blockIdx.x + warp] = sum;
  }
}

//! u32 u32(0,5) -> rows:u32
extern "C" __global__ void cub_warp_segments(const u32 *a, const u32 *b, u32 *out) {
  BEGIN(out);
  using Reduce = cub::WarpReduce<u32>;
  using Half = cub::WarpReduce<u32, 16>;
  __shared__ Reduce::TempStorage storage[2];
  __shared__ Half::TempStorage halves[4];
  bool flag = b[index] == 0, head = flag || threadIdx.x % 32 == 0;
  u32 x = a[index];
  u32 heads = Reduce(storage[threadIdx.x / 32]).HeadSegmentedSum(x, flag);
  ROW(head ? heads : 0);
  u32 tails = Reduce(storage[threadIdx.x / 32]).TailSegmentedReduce(x, flag, Largest{});
  bool after = threadIdx.x % 32 == 0 || b[index - 1] == 0;
  ROW(after ? tails : 0);
  u32 low = Half(halves[threadIdx.x / 16]).HeadSegmentedReduce(x, flag, Smallest{});
  ROW(flag || threadIdx.x % 16 == 0 ? low : 0);
}

//! u32 f32(-9,9) -> rows:u64
extern "C" __global__ void cub_warp_scan(const u32 *a, const float *b, u64 *out) {
  BEGIN(out);
  using Scan = cub::WarpScan<u32>;
  using Floats = cub::WarpScan<float>;
  using Maps = cub::WarpScan<Affine, 8>;
  __shared__ Scan::TempStorage storage[2];
  __shared__ Floats::TempStorage floats[2];
  __shared__ Maps::TempStorage maps[8];
  Scan scan(storage[threadIdx.x / 32]);
  u32 x = a[index], in, ex, all;
  scan.InclusiveSum(x, in, all);
  ROW(in);
  ROW(all);
  scan.ExclusiveScan(x, ex, 17u, Largest{});
  ROW(ex);
  scan.Scan(x, in, ex, 5u, Plus{});
  ROW(in);
  ROW(ex);
  ROW(scan.Broadcast(x, 13));
  float sum;
  Floats(floats[threadIdx.x / 32]).InclusiveSum(b[index], sum);
  ROW(sum);
  Affine map;
  Maps(maps[threadIdx.x / 8]).InclusiveScan(Affine{x | 1, x >> 5}, map, Compose{});
  ROW(map);
}

//! i32:1024 u32:1024 -> i32:1024 u32:1024
extern "C" __global__ void cub_warp_merge_sort(const i32 *a, const u32 *b, i32 *out, u32 *values) {
  using Sort = cub::WarpMergeSort<i32, 4, 32, u32>;
  using Keys = cub::WarpMergeSort<u32, 4, 16>;
  __shared__ union {
    Sort::TempStorage pairs[2];
    Keys::TempStorage keys[4];
  } storage;
  int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  i32 keys[4];
  u32 places[4], others[4];
  for (int i = 0; i < 4; ++i) {
    keys[i] = a[first + i];
    places[i] = first + i;
    others[i] = b[first + i];
  }
  Sort(storage.pairs[threadIdx.x / 32]).StableSort(keys, places, cuda::std::less<>{});
  __syncthreads();
  Keys(storage.keys[threadIdx.x / 16]).Sort(others, Greater{});
  for (int i = 0; i < 4; ++i) {
    out[first + i] = keys[i];
    values[first + i] = places[i] * 3 ^ others[i];
  }
}

//! u32:1024 -> u32:1024 u32:1024 u32:1024
extern "C" __global__ void cub_warp_exchange(const u32 *a, u32 *striped, u32 *shuffled, u32 *scattered) {
  using Exchange = cub::WarpExchange<u32, 4, 32>;
  using Shuffles = cub::WarpExchange<u32, 4, 4, cub::WARP_EXCHANGE_SHUFFLE>;
  __shared__ Exchange::TempStorage storage[2];
  __shared__ Shuffles::TempStorage none[16];
  Exchange exchange(storage[threadIdx.x / 32]);
  int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x), ranks[4];
  u32 items[4], result[4];
  for (int i = 0; i < 4; ++i) {
    items[i] = a[first + i];
    ranks[i] = (4 * (threadIdx.x % 32) + i) * 9 % 128;
  }
  auto keep = [&](u32 *to) {
    for (int i = 0; i < 4; ++i)
      to[first + i] = result[i];
    __syncwarp();
  };
  exchange.BlockedToStriped(items, result), keep(striped);
  Shuffles(none[threadIdx.x / 4]).StripedToBlocked(items, result), keep(shuffled);
  for (int i = 0; i < 4; ++i)
    result[i] = items[i];
  exchange.ScatterToStriped(items, result, ranks), keep(scattered);
}

//! u32:1024 -> u32:1024 u32:1024
extern "C" __global__ void cub_warp_load_and_store(const u32 *a, u32 *out, u32 *some) {
  using Load = cub::WarpLoad<u32, 4, cub::WARP_LOAD_TRANSPOSE>;
  using Vectors = cub::WarpLoad<u32, 4, cub::WARP_LOAD_VECTORIZE>;
  using Store = cub::WarpStore<u32, 4, cub::WARP_STORE_TRANSPOSE>;
  using Striped = cub::WarpStore<u32, 4, cub::WARP_STORE_STRIPED>;
  __shared__ union {
    Load::TempStorage load;
    Vectors::TempStorage vectors;
    Store::TempStorage store;
    Striped::TempStorage striped;
  } storage[2];
  int warp = threadIdx.x / 32, from = (2 * blockIdx.x + warp) * 128;
  u32 items[4], others[4];
  Load(storage[warp].load).Load(a + from, items, 100, 5u);
  __syncwarp();
  Vectors(storage[warp].vectors).Load(const_cast<u32 *>(a) + from, others);
  __syncwarp();
  for (int i = 0; i < 4; ++i)
    items[i] = items[i] * 7 + others[3 - i];
  Store(storage[warp].store).Store(out + from, items);
  __syncwarp();
  Striped(storage[warp].striped).Store(some + from, items, 90);
}

/* Reductions and searches of one thread. */
//! i32:2048 u32(0,128) u32:128 -> rows:i32
extern "C" __global__ void cub_thread_operators(const i32 *a, const u32 *b, const u32 *c, i32 *out) {
  BEGIN(out);
  i32 items[8], scanned[8];
  u32 sorted[128];
  for (int i = 0; i < 8; ++i)
    items[i] = a[8 * index + i] >> 4;
  for (u32 i = 0, sum = 0; i < 128; ++i)
    sorted[i] = sum += c[i] >> 28;
  ROW(cub::ThreadReduce(items, Plus{}));
  ROW(cub::ThreadReduce(items, Largest{}));
  ROW(cub::UpperBound(sorted, 128, b[index] * 8));
  ROW(cub::LowerBound(sorted, 128, sorted[b[index]]));
}

/* Reductions that use instructions for pairs of numbers. */
//! f16:2048 bf16:2048 i16:2048 -> rows:u16
extern "C" __global__ void cub_packed_reductions(const __half *a, const __nv_bfloat16 *b, const i16 *c, u16 *out) {
  BEGIN(out);
  __half halves[8];
  __nv_bfloat16 others[8];
  i16 shorts[8];
  u16 positive[8];
  for (int i = 0; i < 8; ++i) {
    halves[i] = a[8 * index + i];
    others[i] = b[8 * index + i];
    positive[i] = shorts[i] = c[8 * index + i];
    if (__hisnan(halves[i]))
      halves[i] = __half(i);
    if (__hisnan(others[i]))
      others[i] = __nv_bfloat16(i);
  }
  ROW(cub::ThreadReduce(halves, Largest{}));
  ROW(cub::ThreadReduce(others, Smallest{}));
  ROW(i16(cub::ThreadReduce(shorts, Largest{})));
  ROW(u16(cub::ThreadReduce(positive, Smallest{})));
  ROW(u16(cub::ThreadReduce(positive, Plus{})));
}
