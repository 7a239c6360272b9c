/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUB's collective operations of blocks. Undefined results are not recorded. CUDA 13 is required, because the CUB of
 * CUDA 12 includes headers of the host.
 */
//! cuda: 13
#include "cub_operators.cuh"
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>

struct ByLowByte {
  __device__ bool operator()(u32 a, u32 b) const { return (a & 0xff) < (b & 0xff); }
};
struct Distance {
  __device__ i64 operator()(i64 here, i64 there) const { return 2 * here - there; }
};
struct Far {
  __device__ bool operator()(u32 a, u32 b) const { return b - a > 1; }
};

template <cub::BlockReduceAlgorithm how, class T, class Op> __device__ T reduce(T x, Op op, int valid = threads) {
  using Reduce = cub::BlockReduce<T, threads, how>;
  __shared__ typename Reduce::TempStorage storage;
  __syncthreads();
  T result = valid == threads ? Reduce(storage).Reduce(x, op) : Reduce(storage).Reduce(x, op, valid);
  return threadIdx.x ? T{} : result;
}

//! u32 i64 -> rows:u64
extern "C" __global__ void cub_block_reduce(const u32 *a, const i64 *b, u64 *out) {
  BEGIN(out);
  u32 x = a[index];
  i64 y = b[index];
  ROW(reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(x, Plus{}));
  ROW(reduce<cub::BLOCK_REDUCE_RAKING>(x, Plus{}));
  ROW(reduce<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(x, Plus{}));
  ROW(reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(y, Largest{}));
  ROW(reduce<cub::BLOCK_REDUCE_RAKING>(y, Smallest{}));
  ROW(reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(Affine{x | 1, u32(y)}, Compose{}));
  ROW(reduce<cub::BLOCK_REDUCE_RAKING>(Affine{x | 1, u32(y)}, Compose{}));
}

/* Reductions of fewer items than threads, and of several items per thread. */
//! u32 i32(-1000000,1000000):1024 -> rows:u32
extern "C" __global__ void cub_block_reduce_some(const u32 *a, const i32 *b, u32 *out) {
  BEGIN(out);
  u32 x = a[index];
  ROW(reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(x, Plus{}, 1));
  ROW(reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(x, Plus{}, 37));
  ROW(reduce<cub::BLOCK_REDUCE_RAKING>(x, Largest{}, 20 + blockIdx.x));
  ROW(reduce<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(x, Plus{}, 63));
  using Reduce = cub::BlockReduce<i32, threads>;
  __shared__ Reduce::TempStorage storage;
  __shared__ i32 shared;
  i32 items[4];
  for (int i = 0; i < 4; ++i)
    items[i] = b[4 * index + i];
  i32 largest = Reduce(storage).Reduce(items, Largest{});
  if (threadIdx.x == 0)
    shared = largest;
  __syncthreads();
  ROW(shared);
}

/* The algorithm determines the order of a sum, and thereby its rounding. */
//! f32(-100,100) f64(-1,1) -> f32:4 f32:4 f64:4 f64:4
extern "C" __global__ void cub_block_sums_of_floats(const float *a, const double *b, float *tree, float *raked,
                                                    double *wide_tree, double *wide_raked) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[index];
  double y = b[index];
  float of_tree = reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(x, Plus{});
  float of_rake = reduce<cub::BLOCK_REDUCE_RAKING>(x, Plus{});
  double of_wide_tree = reduce<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(y, Plus{});
  double of_wide_rake = reduce<cub::BLOCK_REDUCE_RAKING>(y, Plus{});
  if (threadIdx.x)
    return;
  tree[blockIdx.x] = of_tree;
  raked[blockIdx.x] = of_rake;
  wide_tree[blockIdx.x] = of_wide_tree;
  wide_raked[blockIdx.x] = of_wide_rake;
}

template <cub::BlockScanAlgorithm how, class T, class Op> __device__ T inclusive(T x, Op op) {
  using Scan = cub::BlockScan<T, threads, how>;
  __shared__ typename Scan::TempStorage storage;
  __syncthreads();
  T result;
  Scan(storage).InclusiveScan(x, result, op);
  return result;
}
template <cub::BlockScanAlgorithm how, class T, class Op>
__device__ T exclusive(T x, T initial, Op op, T *all = nullptr) {
  using Scan = cub::BlockScan<T, threads, how>;
  __shared__ typename Scan::TempStorage storage;
  __syncthreads();
  T result, aggregate;
  Scan(storage).ExclusiveScan(x, result, initial, op, aggregate);
  if (all)
    *all = aggregate;
  return result;
}

//! u32 i64 -> rows:u64
extern "C" __global__ void cub_block_scan(const u32 *a, const i64 *b, u64 *out) {
  BEGIN(out);
  u32 x = a[index], all;
  i64 y = b[index];
  ROW(inclusive<cub::BLOCK_SCAN_WARP_SCANS>(x, Plus{}));
  ROW(inclusive<cub::BLOCK_SCAN_RAKING>(x, Plus{}));
  ROW(inclusive<cub::BLOCK_SCAN_RAKING_MEMOIZE>(x, Largest{}));
  ROW(exclusive<cub::BLOCK_SCAN_WARP_SCANS>(x, 7u, Plus{}, &all));
  ROW(all);
  ROW(exclusive<cub::BLOCK_SCAN_RAKING>(y, i64(5), Smallest{}));
  ROW(exclusive<cub::BLOCK_SCAN_RAKING_MEMOIZE>(x, 1u, Plus{}, &all));
  ROW(all);
  ROW(inclusive<cub::BLOCK_SCAN_WARP_SCANS>(Affine{x | 1, u32(y)}, Compose{}));
  ROW(exclusive<cub::BLOCK_SCAN_RAKING>(Affine{x | 1, u32(y)}, Affine{3, 4}, Compose{}));
}

/* An operator that returns the sum of all previous tiles. CUB calls it in the first warp, once for each tile. */
struct Running {
  u32 total;
  __device__ u32 operator()(u32 aggregate) {
    u32 before = total;
    total += aggregate;
    return before;
  }
};

//! u32:1024 -> u32:1024 u32:1 grid=1 block=64
extern "C" __global__ void cub_block_scan_of_tiles(const u32 *a, u32 *out, u32 *total) {
  using Load = cub::BlockLoad<u32, threads, 4, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<u32, threads, 4, cub::BLOCK_STORE_TRANSPOSE>;
  using Scan = cub::BlockScan<u32, threads>;
  __shared__ union {
    Load::TempStorage load;
    Store::TempStorage store;
    Scan::TempStorage scan;
  } storage;
  Running running{100};
  for (int tile = 0; tile < 1024; tile += 4 * threads) {
    u32 items[4];
    Load(storage.load).Load(a + tile, items);
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(items, items, running);
    __syncthreads();
    Store(storage.store).Store(out + tile, items);
    __syncthreads();
  }
  if (threadIdx.x == 0)
    *total = running.total;
}

//! f32(-10,10):512 -> f32:512 f32:256
extern "C" __global__ void cub_block_scan_of_floats(const float *a, float *out, float *raked) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  using Scan = cub::BlockScan<float, threads, cub::BLOCK_SCAN_WARP_SCANS>;
  __shared__ Scan::TempStorage storage;
  float items[2] = {a[2 * index], a[2 * index + 1]};
  raked[index] = inclusive<cub::BLOCK_SCAN_RAKING>(items[0], Plus{});
  Scan(storage).InclusiveSum(items, items);
  out[2 * index] = items[0];
  out[2 * index + 1] = items[1];
}

//! u32:512 u32(0,999):512 -> u32:512 u32:512
extern "C" __global__ void cub_block_radix_sort(const u32 *a, const u32 *b, u32 *out, u32 *of_digits) {
  int first = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  using Sort = cub::BlockRadixSort<u32, threads, 2>;
  __shared__ Sort::TempStorage storage;
  u32 keys[2] = {a[first], a[first + 1]}, few[2] = {b[first] << 7, b[first + 1] << 7};
  Sort(storage).Sort(keys);
  __syncthreads();
  Sort(storage).SortDescending(few, 9, 13);
  for (int i = 0; i < 2; ++i) {
    out[first + i] = keys[i];
    of_digits[first + i] = few[i];
  }
}

/* The sort is stable, and -0 equals 0. Negative NaNs come first, positive NaNs last. */
//! f32:512 -> u32:512 u32:512 grid=2 block=128
extern "C" __global__ void cub_block_radix_sort_pairs(const float *a, u32 *out, u32 *places) {
  int first = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  using Sort = cub::BlockRadixSort<float, 128, 2, u32>;
  __shared__ Sort::TempStorage storage;
  float keys[2] = {a[first], a[first + 1]};
  u32 values[2] = {u32(first), u32(first) + 1};
  Sort(storage).SortBlockedToStriped(keys, values);
  for (int i = 0; i < 2; ++i) {
    int place = blockIdx.x * 256 + i * 128 + threadIdx.x;
    out[place] = __float_as_uint(keys[i]);
    places[place] = values[i];
  }
}

//! i64:256 -> i64:256
extern "C" __global__ void cub_block_radix_sort_signed(const i64 *a, i64 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  using Sort = cub::BlockRadixSort<i64, threads, 1>;
  __shared__ Sort::TempStorage storage;
  i64 keys[1] = {a[index]};
  Sort(storage).SortDescending(keys);
  out[index] = keys[0];
}

//! u32:768 i32:300 -> u32:768 i32:300 u32:300
extern "C" __global__ void cub_block_merge_sort(const u32 *a, const i32 *b, u32 *out, i32 *sorted, u32 *places) {
  int first = 3 * (blockIdx.x * blockDim.x + threadIdx.x);
  using Sort = cub::BlockMergeSort<u32, threads, 3>;
  using Pairs = cub::BlockMergeSort<i32, threads, 2, u32>;
  __shared__ union {
    Sort::TempStorage keys;
    Pairs::TempStorage pairs;
  } storage;
  u32 keys[3] = {a[first], a[first + 1], a[first + 2]};
  Sort(storage.keys).StableSort(keys, ByLowByte{});
  for (int i = 0; i < 3; ++i)
    out[first + i] = keys[i];
  __syncthreads();
  i32 numbers[2];
  u32 values[2];
  for (int i = 0; i < 2; ++i) {
    int place = 2 * threadIdx.x + i;
    numbers[i] = place < 75 ? b[75 * blockIdx.x + place] : -0x80000000;
    values[i] = place;
  }
  Pairs(storage.pairs).Sort(numbers, values, Greater{}, 75, i32(-0x80000000));
  for (int i = 0; i < 2; ++i) {
    int place = 2 * threadIdx.x + i;
    if (place < 75) {
      sorted[75 * blockIdx.x + place] = numbers[i];
      places[75 * blockIdx.x + place] = numbers[i] == b[75 * blockIdx.x + values[i]];
    }
  }
}

//! u8(0,48):1024 -> u32:192 u32:192
extern "C" __global__ void cub_block_histogram(const u8 *a, u32 *sorted, u32 *counted) {
  int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  using BySort = cub::BlockHistogram<u8, threads, 4, 48, cub::BLOCK_HISTO_SORT>;
  using ByCount = cub::BlockHistogram<u8, threads, 4, 48, cub::BLOCK_HISTO_ATOMIC>;
  __shared__ BySort::TempStorage sort_storage;
  __shared__ ByCount::TempStorage count_storage;
  __shared__ u32 bins[48], others[48];
  u8 items[4];
  for (int i = 0; i < 4; ++i)
    items[i] = a[first + i];
  ByCount(count_storage).Histogram(items, others);
  __syncthreads();
  ByCount(count_storage).Composite(items, others);
  BySort(sort_storage).Histogram(items, bins);
  __syncthreads();
  if (threadIdx.x < 48) {
    sorted[48 * blockIdx.x + threadIdx.x] = bins[threadIdx.x];
    counted[48 * blockIdx.x + threadIdx.x] = others[threadIdx.x];
  }
}

template <cub::BlockLoadAlgorithm how, class From> __device__ u32 load(From from, int valid = 0) {
  using Load = cub::BlockLoad<u32, threads, 4, how>;
  __shared__ typename Load::TempStorage storage;
  __syncthreads();
  u32 items[4], result = 0;
  if (valid)
    Load(storage).Load(from + blockIdx.x * 4 * threads, items, valid, 99u);
  else
    Load(storage).Load(from + blockIdx.x * 4 * threads, items);
  for (int i = 0; i < 4; ++i)
    result = result * 31 + items[i];
  return result;
}

//! u32:1024 -> rows:u32
extern "C" __global__ void cub_block_load(const u32 *a, u32 *out) {
  BEGIN(out);
  ROW(load<cub::BLOCK_LOAD_DIRECT>(a));
  ROW(load<cub::BLOCK_LOAD_STRIPED>(a));
  ROW(load<cub::BLOCK_LOAD_VECTORIZE>(const_cast<u32 *>(a)));
  ROW(load<cub::BLOCK_LOAD_TRANSPOSE>(a));
  ROW(load<cub::BLOCK_LOAD_WARP_TRANSPOSE>(a));
  ROW(load<cub::BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED>(a));
  ROW(load<cub::BLOCK_LOAD_DIRECT>(a, 111));
  ROW(load<cub::BLOCK_LOAD_STRIPED>(a, 200));
  ROW(load<cub::BLOCK_LOAD_TRANSPOSE>(a, 1));
  ROW(load<cub::BLOCK_LOAD_WARP_TRANSPOSE>(a, 255));
}

template <cub::BlockStoreAlgorithm how> __device__ void store(u32 *to, const u32 (&items)[4], int valid = 0) {
  using Store = cub::BlockStore<u32, threads, 4, how>;
  __shared__ typename Store::TempStorage storage;
  __syncthreads();
  u32 copy[4] = {items[0], items[1], items[2], items[3]};
  if (valid)
    Store(storage).Store(to + blockIdx.x * 4 * threads, copy, valid);
  else
    Store(storage).Store(to + blockIdx.x * 4 * threads, copy);
}

//! u32:1024 -> u32:1024 u32:1024 u32:1024 u32:1024 u32:1024 u32:1024
extern "C" __global__ void cub_block_store(const u32 *a, u32 *direct, u32 *striped, u32 *vectors, u32 *transposed,
                                           u32 *by_warps, u32 *in_slices) {
  int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  u32 items[4] = {a[first], a[first + 1], a[first + 2], a[first + 3]};
  store<cub::BLOCK_STORE_DIRECT>(direct, items, 77);
  store<cub::BLOCK_STORE_STRIPED>(striped, items);
  store<cub::BLOCK_STORE_VECTORIZE>(vectors, items);
  store<cub::BLOCK_STORE_TRANSPOSE>(transposed, items, 130);
  store<cub::BLOCK_STORE_WARP_TRANSPOSE>(by_warps, items);
  store<cub::BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED>(in_slices, items, 201);
}

//! u32:768 -> u32:768 u32:768 u32:768 u32:768
extern "C" __global__ void cub_block_exchange(const u32 *a, u32 *striped, u32 *blocked, u32 *by_warps, u32 *back) {
  using Exchange = cub::BlockExchange<u32, threads, 3>;
  __shared__ Exchange::TempStorage storage;
  int first = 3 * (blockIdx.x * blockDim.x + threadIdx.x);
  u32 items[3] = {a[first], a[first + 1], a[first + 2]}, result[3];
  auto keep = [&](u32 *to) {
    for (int i = 0; i < 3; ++i)
      to[first + i] = result[i];
    __syncthreads();
  };
  Exchange(storage).BlockedToStriped(items, result), keep(striped);
  Exchange(storage).StripedToBlocked(items, result), keep(blocked);
  Exchange(storage).BlockedToWarpStriped(items, result), keep(by_warps);
  Exchange(storage).WarpStripedToBlocked(items, result), keep(back);
}

/* The ranks are a permutation of the items. In the guarded scatter, some items have no rank. */
//! u32:768 -> u32:768 u32:768 u32:768
extern "C" __global__ void cub_block_scatter(const u32 *a, u32 *blocked, u32 *striped, u32 *guarded) {
  using Exchange = cub::BlockExchange<u32, threads, 3>;
  __shared__ Exchange::TempStorage storage;
  int first = 3 * (blockIdx.x * blockDim.x + threadIdx.x);
  int ranks[3], some[3];
  u32 items[3];
  for (int i = 0; i < 3; ++i) {
    ranks[i] = (3 * threadIdx.x + i) * 5 % 192;
    some[i] = a[first + i] % 4 ? ranks[i] : -1;
    items[i] = a[first + i];
  }
  u32 result[3];
  Exchange(storage).ScatterToBlocked(items, result, ranks);
  __syncthreads();
  for (int i = 0; i < 3; ++i)
    blocked[first + i] = result[i];
  Exchange(storage).ScatterToStriped(items, result, ranks);
  __syncthreads();
  for (int i = 0; i < 3; ++i)
    striped[first + i] = result[i];
  __syncthreads();
  Exchange(storage).ScatterToStripedGuarded(items, result, ranks);
  for (int i = 0; i < 3; ++i)
    guarded[first + i] = result[i] ^ some[i];
}

//! u32(0,3):512 -> u32:512 u32:512 u32:512
extern "C" __global__ void cub_block_discontinuity(const u32 *a, u32 *heads, u32 *tails, u32 *both) {
  using Flags = cub::BlockDiscontinuity<u32, threads>;
  __shared__ Flags::TempStorage storage;
  int first = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  u32 items[2] = {a[first], a[first + 1]};
  int flags[2], others[2];
  Flags(storage).FlagHeads(flags, items, cuda::std::not_equal_to<>{});
  heads[first] = flags[0], heads[first + 1] = flags[1];
  __syncthreads();
  Flags(storage).FlagTails(flags, items, Far{}, 1u);
  tails[first] = flags[0], tails[first + 1] = flags[1];
  __syncthreads();
  Flags(storage).FlagHeadsAndTails(flags, 2u, others, 0u, items, cuda::std::not_equal_to<>{});
  for (int i = 0; i < 2; ++i)
    both[first + i] = flags[i] << 1 | others[i];
}

//! i32:512 -> i64:512 i64:512 i64:512
extern "C" __global__ void cub_block_adjacent_difference(const i32 *a, i64 *left, i64 *right, i64 *partial) {
  using Difference = cub::BlockAdjacentDifference<i64, threads>;
  __shared__ Difference::TempStorage storage;
  int first = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  i64 items[2] = {a[first], a[first + 1]}, result[2];
  Difference(storage).SubtractLeft(items, result, Distance{}, i64(1000));
  left[first] = result[0], left[first + 1] = result[1];
  __syncthreads();
  Difference(storage).SubtractRight(items, result, Distance{});
  right[first] = result[0], right[first + 1] = result[1];
  __syncthreads();
  Difference(storage).SubtractLeftPartialTile(items, result, Distance{}, 101);
  partial[first] = result[0], partial[first + 1] = result[1];
}

/* If a thread has no source to read from, CUB leaves the thread's result unchanged. */
//! u32:512 -> rows:u32
extern "C" __global__ void cub_block_shuffle(const u32 *a, u32 *out) {
  BEGIN(out);
  using Shuffle = cub::BlockShuffle<u32, threads>;
  __shared__ Shuffle::TempStorage storage;
  u32 x = 0, items[2] = {a[2 * index], a[2 * index + 1]}, moved[2] = {1, 2}, last;
  Shuffle(storage).Offset(items[0], x, -5);
  ROW(threadIdx.x < 5 ? 0 : x);
  __syncthreads();
  Shuffle(storage).Rotate(items[1], x, 11);
  ROW(x);
  __syncthreads();
  Shuffle(storage).Up(items, moved, last);
  ROW(threadIdx.x ? moved[0] : 0);
  ROW(moved[1]);
  ROW(last);
  __syncthreads();
  Shuffle(storage).Down(items, moved);
  ROW(moved[0]);
  ROW(threadIdx.x < threads - 1 ? moved[1] : 0);
}

//! u32:128 u32(1,9):128 -> u32:600 u32:600 u32:1 grid=1 block=64
extern "C" __global__ void cub_block_run_length_decode(const u32 *a, const u32 *lengths, u32 *out, u32 *offsets,
                                                       u32 *total) {
  using Decode = cub::BlockRunLengthDecode<u32, threads, 2, 3>;
  __shared__ Decode::TempStorage storage;
  int first = 2 * threadIdx.x;
  u32 values[2] = {a[first], a[first + 1]}, runs[2] = {lengths[first], lengths[first + 1]}, size = 0;
  Decode decode(storage, values, runs, size);
  for (u32 from = 0; from < size; from += 3 * threads) {
    u32 items[3], places[3];
    decode.RunLengthDecode(items, places, from);
    for (int i = 0; i < 3; ++i) {
      u32 at = from + 3 * threadIdx.x + i;
      if (at < size && at < 600) {
        out[at] = items[i];
        offsets[at] = places[i];
      }
    }
  }
  if (threadIdx.x == 0)
    *total = size;
}
