/* SPDX-License-Identifier: Apache-2.0 */
/* libcu++, CUDA's extensions of the C++ standard library: atomics, barriers, pipelines and instructions. */
//! cuda: 13
#include "rows.cuh"
#include <cooperative_groups.h>
#include <cuda/annotated_ptr>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cuda/semaphore>
#include <cuda/std/utility>

namespace std_ = cuda::std;

//! u32 i32 f32(-100,100) -> u64:12
extern "C" __global__ void atomic_refs(const u32 *a, const i32 *b, const float *c, u64 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 *words = (u32 *)out;
  cuda::atomic_ref<u32, cuda::thread_scope_device>(words[0]).fetch_add(a[index]);
  cuda::atomic_ref<u32>(words[1]).fetch_xor(a[index], cuda::std::memory_order_relaxed);
  cuda::atomic_ref<u32, cuda::thread_scope_device>(words[2]).fetch_or(a[index] & 0x10101010,
                                                                      std_::memory_order_release);
  cuda::atomic_ref<u32, cuda::thread_scope_device>(words[3]).fetch_max(a[index], std_::memory_order_acq_rel);
  cuda::atomic_ref<i32, cuda::thread_scope_device>((i32 &)words[4]).fetch_min(b[index]);
  cuda::atomic_ref<u64, cuda::thread_scope_device>(out[3]).fetch_sub(a[index]);
  cuda::atomic_ref<i64, cuda::thread_scope_device>((i64 &)out[4]).fetch_max(b[index] * 1000000007ll);
  cuda::atomic_ref<float, cuda::thread_scope_device>((float &)words[10]).fetch_add(floorf(c[index]));
  cuda::atomic_ref<float, cuda::thread_scope_device>((float &)words[11]).fetch_max(c[index]);
  cuda::atomic_ref<double, cuda::thread_scope_device>((double &)out[6]).fetch_min(double(c[index]));
  cuda::atomic_ref<u32, cuda::thread_scope_device> product(words[14]);
  u32 seen = product.load(std_::memory_order_relaxed);
  while (!product.compare_exchange_weak(seen, seen ^ (a[index] >> 3), std_::memory_order_acq_rel))
    ;
  ++cuda::atomic_ref<u32, cuda::thread_scope_device>(words[15]);
  cuda::atomic_ref<i32, cuda::thread_scope_device>((i32 &)words[16]) -= b[index];
  cuda::atomic_ref<u64, cuda::thread_scope_device>(out[9]) &= ~u64(a[index]);
}

/* Atomics smaller than a word, which are loops of compare-and-swap. */
//! u32 -> u32:20
extern "C" __global__ void small_atomics(const u32 *a, u32 *out) {
  __shared__ cuda::atomic<u8, cuda::thread_scope_block> bytes[4];
  __shared__ cuda::atomic<u16, cuda::thread_scope_block> shorts[2];
  __shared__ cuda::atomic<i64, cuda::thread_scope_block> wide;
  __shared__ cuda::atomic<bool, cuda::thread_scope_block> flag;
  int i = threadIdx.x;
  if (i == 0) {
    for (int j = 0; j < 4; ++j)
      new (bytes + j) cuda::atomic<u8, cuda::thread_scope_block>(j * 3);
    for (int j = 0; j < 2; ++j)
      new (shorts + j) cuda::atomic<u16, cuda::thread_scope_block>(1000 * j);
    new (&wide) cuda::atomic<i64, cuda::thread_scope_block>(-5);
    new (&flag) cuda::atomic<bool, cuda::thread_scope_block>(false);
  }
  __syncthreads();
  u32 x = a[blockIdx.x * blockDim.x + i];
  bytes[0].fetch_add(u8(x));
  bytes[1].fetch_xor(u8(x >> 8));
  bytes[2].fetch_max(u8(x >> 16));
  bytes[3] -= u8(x >> 24);
  shorts[0] += u16(x);
  shorts[1] ^= u16(x >> 16);
  wide.fetch_add(x);
  if (x % 64 == 3)
    flag.exchange(true);
  __syncthreads();
  if (i == 0) {
    u32 *own = out + 5 * blockIdx.x;
    own[0] = shorts[0];
    own[1] = shorts[1].load() + flag.load() * 0x10000;
    own[2] = u32(wide.load() >> 3);
    own[3] = wide.is_lock_free();
    own[4] = bytes[0] + bytes[1] * 0x100 + bytes[2] * 0x10000 + bytes[3] * 0x1000000;
  }
}

/* Concurrent additions to neighbouring bytes of a word. No addition may be lost. */
//! u8:256 -> u8:8
extern "C" __global__ void neighbouring_atomics(const u8 *a, u8 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  cuda::atomic_ref<u8, cuda::thread_scope_device> byte(out[index % 8]);
  byte.fetch_add(a[index], std_::memory_order_relaxed);
}

/* A chain of blocks: each waits for the value that its predecessor publishes. */
__device__ cuda::atomic<u32, cuda::thread_scope_device> turn;
__device__ u32 carried;

//! u32:256 -> u32:4
extern "C" __global__ void atomic_waits(const u32 *a, u32 *out) {
  __shared__ cuda::atomic<u32, cuda::thread_scope_block> sum;
  if (threadIdx.x == 0)
    sum.store(0, std_::memory_order_relaxed);
  __syncthreads();
  sum.fetch_add(a[blockIdx.x * blockDim.x + threadIdx.x], std_::memory_order_relaxed);
  __syncthreads();
  if (threadIdx.x)
    return;
  for (u32 now; (now = turn.load(std_::memory_order_acquire)) != blockIdx.x;)
    turn.wait(now, std_::memory_order_relaxed);
  carried = carried * 3 + sum.load();
  out[blockIdx.x] = carried;
  if (blockIdx.x + 1 == gridDim.x)
    carried = 0;
  turn.store((blockIdx.x + 1) % gridDim.x, std_::memory_order_release);
  turn.notify_all();
}

/* One warp publishes values with fences, and the other warp reads the values. */
//! u32:256 -> u32:256
extern "C" __global__ void atomic_fences(const u32 *a, u32 *out) {
  __shared__ u32 message[32];
  __shared__ std_::atomic_flag ready;
  __shared__ cuda::atomic<int, cuda::thread_scope_block> count;
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  if (i == 0) {
    ready.clear();
    count.store(0);
  }
  __syncthreads();
  if (i < 32) {
    message[i] = a[index] * 5;
    cuda::atomic_thread_fence(std_::memory_order_release, cuda::thread_scope_block);
    if (count.fetch_add(1, std_::memory_order_relaxed) == 31) {
      cuda::atomic_thread_fence(std_::memory_order_acquire, cuda::thread_scope_block);
      ready.test_and_set(std_::memory_order_release);
    }
    out[index] = a[index];
  } else {
    while (!ready.test(std_::memory_order_acquire))
      ;
    out[index] = message[63 - i] + a[index];
  }
}

//! u32:256 -> u32:256
extern "C" __global__ void block_barriers(const u32 *a, u32 *out) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ Barrier barrier;
  __shared__ u32 values[2][64];
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  if (i == 0)
    init(&barrier, blockDim.x);
  __syncthreads();
  u32 x = a[index];
  for (int round = 0; round < 5; ++round) {
    values[round & 1][i] = x;
    auto token = barrier.arrive();
    u32 other = x * 3;
    barrier.wait(std_::move(token));
    x = other + values[round & 1][(i + 17) % 64];
  }
  values[1][i] = x;
  barrier.arrive_and_wait();
  out[index] = values[1][63 - i];
}

/* A barrier with a completion function. Some threads drop out of the barrier. */
struct Count {
  u32 *rounds;
  __device__ void operator()() const noexcept { ++*rounds; }
};

//! u32:64 -> u32:65 grid=1 block=64
extern "C" __global__ void barriers_with_completion(const u32 *a, u32 *out) {
  using Barrier = cuda::barrier<cuda::thread_scope_block, Count>;
  __shared__ alignas(Barrier) char storage[sizeof(Barrier)];
  __shared__ u32 rounds, sums[64];
  auto *barrier = reinterpret_cast<Barrier *>(storage);
  int i = threadIdx.x;
  if (i == 0) {
    rounds = 0;
    new (barrier) Barrier(64, Count{&rounds});
  }
  sums[i] = a[i];
  __syncthreads();
  bool left = false;
  for (int distance = 32; distance; distance /= 2) {
    if (i >= distance) {
      barrier->arrive_and_drop();
      left = true;
      break;
    }
    sums[i] += sums[i + distance];
    barrier->arrive_and_wait();
  }
  __syncthreads();
  out[i] = sums[i] + left;
  if (i == 0)
    out[64] = rounds;
}

//! u32:1024 -> u32:256
extern "C" __global__ void barriers_of_copies(const u32 *a, u32 *out) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ Barrier barrier;
  __shared__ alignas(16) u32 tile[256];
  int i = threadIdx.x;
  if (i == 0)
    init(&barrier, blockDim.x);
  __syncthreads();
  const u32 *from = a + 256 * blockIdx.x;
  cuda::memcpy_async(tile + 4 * i, from + 4 * i, cuda::aligned_size_t<16>(16), barrier);
  barrier.arrive_and_wait();
  u32 x = tile[255 - 4 * i];
  barrier.arrive_and_wait();
  if (i % 2 == 0)
    cuda::memcpy_async(tile + i, from + i + 100, 8, barrier);
  barrier.arrive_and_wait();
  out[64 * blockIdx.x + i] = x + tile[i ^ 5];
}

/* A pipeline for each thread, with several tiles in flight. */
//! u32:2048 -> u32:256
extern "C" __global__ void thread_pipelines(const u32 *a, u32 *out) {
  __shared__ u32 stages[3][64];
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  auto pipeline = cuda::make_pipeline();
  auto fetch = [&](int tile) {
    pipeline.producer_acquire();
    if (tile < 8)
      cuda::memcpy_async(&stages[tile % 3][i], a + 512 * blockIdx.x + 64 * tile + i, sizeof(u32), pipeline);
    pipeline.producer_commit();
  };
  fetch(0);
  fetch(1);
  u32 sum = 0;
  for (int tile = 0; tile < 8; ++tile) {
    fetch(tile + 2);
    cuda::pipeline_consumer_wait_prior<2>(pipeline);
    sum = sum * 31 + stages[tile % 3][i];
    pipeline.consumer_release();
  }
  out[index] = sum;
}

/* A pipeline of a block: one warp fetches data, and the other warp computes. */
//! u32:1024 -> u32:128
extern "C" __global__ void block_pipelines(const u32 *a, u32 *out) {
  using State = cuda::pipeline_shared_state<cuda::thread_scope_block, 2>;
  __shared__ State state;
  __shared__ u32 stages[2][32];
  auto block = cooperative_groups::this_thread_block();
  int lane = threadIdx.x % 32;
  auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipeline = cuda::make_pipeline(block, &state, role);
  u32 sum = 0;
  for (int tile = 0; tile < 8; ++tile) {
    if (threadIdx.x < 32) {
      pipeline.producer_acquire();
      cuda::memcpy_async(&stages[tile % 2][lane], a + 256 * blockIdx.x + 32 * tile + lane, sizeof(u32), pipeline);
      pipeline.producer_commit();
    } else {
      pipeline.consumer_wait();
      sum = sum * 31 + stages[tile % 2][31 - lane];
      pipeline.consumer_release();
    }
  }
  if (threadIdx.x >= 32)
    out[32 * blockIdx.x + lane] = sum;
}

//! u32:256 -> u32:256
extern "C" __global__ void latches_and_semaphores(const u32 *a, u32 *out) {
  using Latch = cuda::latch<cuda::thread_scope_block>;
  using Semaphore = cuda::counting_semaphore<cuda::thread_scope_block, 3>;
  __shared__ alignas(Latch) char for_latch[sizeof(Latch)];
  __shared__ alignas(Semaphore) char for_semaphore[sizeof(Semaphore)];
  __shared__ u32 values[64];
  __shared__ cuda::atomic<int, cuda::thread_scope_block> inside, too_many;
  auto &latch = reinterpret_cast<Latch &>(for_latch);
  auto &semaphore = reinterpret_cast<Semaphore &>(for_semaphore);
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  if (i == 0) {
    new (&latch) Latch(blockDim.x);
    new (&semaphore) Semaphore(3);
    inside.store(0);
    too_many.store(0);
  }
  __syncthreads();
  values[i] = a[index] ^ i;
  latch.arrive_and_wait();
  u32 x = values[(i + 1) % 64];
  semaphore.acquire();
  if (inside.fetch_add(1) >= 3)
    too_many.fetch_add(1);
  inside.fetch_sub(1);
  semaphore.release();
  __syncthreads();
  out[index] = x + too_many.load() + inside.load();
}

//! u32:256 u64:256 -> u32:256 u64:256
extern "C" __global__ void annotated_pointers(const u32 *a, u64 *b, u32 *out, u64 *wide) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ u32 shared[64];
  cuda::annotated_ptr<const u32, cuda::access_property::persisting> often(a);
  cuda::annotated_ptr<u64, cuda::access_property::streaming> once(b);
  cuda::annotated_ptr<u32, cuda::access_property::shared> local(shared);
  cuda::annotated_ptr<u32, cuda::access_property> to(out, cuda::access_property(cuda::access_property::normal{}));
  local[threadIdx.x] = often[index] + 1;
  __syncthreads();
  to[index] = local[63 - threadIdx.x] * 2;
  wide[index] = once[255 - index] ^ *cuda::associate_access_property(a + index, cuda::access_property::persisting{});
  cuda::apply_access_property(a, 256, cuda::access_property::persisting{});
}

//! u32:256 -> rows:u32
extern "C" __global__ void ptx_registers(const u32 *a, u32 *out) {
  BEGIN(out);
  namespace ptx = cuda::ptx;
  ROW(ptx::get_sreg_laneid());
  ROW(ptx::get_sreg_tid_x() | ptx::get_sreg_ntid_x() << 8);
  ROW(ptx::get_sreg_ctaid_x() << 8 | ptx::get_sreg_nctaid_x());
  ROW(ptx::get_sreg_lanemask_lt());
  ROW(ptx::get_sreg_lanemask_ge());
  ROW(ptx::get_sreg_lanemask_eq() ^ ptx::get_sreg_lanemask_le() ^ ptx::get_sreg_lanemask_gt());
  ROW(ptx::get_sreg_cluster_ctarank() | ptx::get_sreg_cluster_nctarank() << 4 | ptx::get_sreg_nclusterid_x() << 8);
  ROW(ptx::get_sreg_is_explicit_cluster());
  ROW(a[index] + ptx::get_sreg_warpid() * 0);
}

/* The instructions of mbarrier: waits by token and by parity, and the bytes of a bulk copy. */
//! u32:256 -> u32:256
extern "C" __global__ void ptx_mbarriers(const u32 *a, u32 *out) {
  namespace ptx = cuda::ptx;
  __shared__ alignas(8) u64 barrier;
  __shared__ alignas(16) u32 tile[64];
  int i = threadIdx.x;
  if (i == 0) {
    ptx::mbarrier_init(&barrier, 64);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  tile[i] = a[64 * blockIdx.x + i];
  u64 token = ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier);
  while (!ptx::mbarrier_try_wait(&barrier, token))
    ;
  u32 x = tile[63 - i];
  ptx::mbarrier_arrive(&barrier);
  while (!ptx::mbarrier_try_wait_parity(&barrier, 1))
    ;
  if (i == 0) {
    ptx::fence_proxy_async(ptx::space_shared);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, a + 64 * blockIdx.x, 128, &barrier);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier, 128);
  } else
    ptx::mbarrier_arrive(&barrier);
  while (!ptx::mbarrier_try_wait_parity(&barrier, 0))
    ;
  out[64 * blockIdx.x + i] = x * 3 + tile[i];
}

/* Bulk copies from shared memory to global memory. */
//! u32 -> u32 u32:128
extern "C" __global__ void bulk_stores(const u32 *a, u32 *out, u32 *halves) {
  namespace ptx = cuda::ptx;
  __shared__ alignas(16) u32 tile[64];
  int i = threadIdx.x;
  tile[i] = a[64 * blockIdx.x + i] * 3;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (i == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + 64 * blockIdx.x, tile, 256);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, halves + 32 * blockIdx.x, tile + 16, 128);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<1>{});
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
  }
}

/* One thread issues copies; the barrier counts their bytes. */
//! u32 -> u32
extern "C" __global__ void barriers_of_bytes(const u32 *a, u32 *out) {
  __shared__ alignas(16) u32 tile[64];
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ Barrier barrier;
  int i = threadIdx.x;
  if (i == 0) {
    init(&barrier, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  u32 x = 0;
  for (int round = 0; round < 2; ++round) {
    Barrier::arrival_token token;
    if (i == 0) {
      cuda::device::memcpy_async_tx(tile, a + 64 * (blockIdx.x ^ round), cuda::aligned_size_t<16>(256), barrier);
      token = cuda::device::barrier_arrive_tx(barrier, 1, 256);
    } else
      token = barrier.arrive();
    barrier.wait(std_::move(token));
    x = x * 7 + tile[63 - i];
    barrier.arrive_and_wait();
  }
  out[64 * blockIdx.x + i] = x;
}

/* All threads of a cluster arrive at the barrier of the cluster's block 0. */
//! u32 -> u32
extern "C" __global__ void __cluster_dims__(4) remote_arrivals(const u32 *a, u32 *out) {
  namespace ptx = cuda::ptx;
  __shared__ u32 values[4][64];
  __shared__ alignas(8) u64 barrier;
  auto cluster = cooperative_groups::this_cluster();
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  if (i == 0) {
    ptx::mbarrier_init(&barrier, 256);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  cluster.sync();
  *cluster.map_shared_rank(&values[cluster.block_rank()][i], 0) = a[index];
  ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, cluster.map_shared_rank(&barrier, 0));
  u32 result = 0;
  if (cluster.block_rank() == 0) {
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &barrier, 0))
      ;
    for (int j = 0; j < 4; ++j)
      result = result * 5 + values[j][63 - i];
  }
  out[index] = result;
  cluster.sync();
}
