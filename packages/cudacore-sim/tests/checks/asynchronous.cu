/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous copies and clusters, for the check race. `planted.py` explains the marks. */

__device__ unsigned shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }
__device__ unsigned in_other_block(const void *at) {
  unsigned there;
  asm volatile("{ .reg .b32 r; mov.u32 r, %%cluster_ctarank; xor.b32 r, r, 1; mapa.shared::cluster.u32 %0, %1, r; }"
               : "=r"(there)
               : "r"(shared_address(at)));
  return there;
}

/* These are macros so that reports name the line that uses them. */
#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait;" ::: "memory")
#define CLUSTER_SYNC() asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory")
#define COPY(to, from, bytes)                                                                                          \
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2; cp.async.wait_all;" ::"r"(shared_address(to)), "l"(from), \
               "r"(bytes)                                                                                              \
               : "memory")
#define COPY_BULK(to, from, bar)                                                                                       \
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" ::"r"(        \
                   shared_address(to)),                                                                                \
               "l"(from), "r"(shared_address(bar))                                                                     \
               : "memory")
#define STORE_THERE(to, value, bar)                                                                                    \
  asm volatile(                                                                                                        \
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(in_other_block(to)),      \
      "r"(value), "r"(in_other_block(bar))                                                                             \
      : "memory")
#define ADD_THERE(to, value, bar)                                                                                      \
  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"( \
                   in_other_block(to)),                                                                                \
               "r"(value), "r"(in_other_block(bar))                                                                    \
               : "memory")
#define ADD_BULK(to, from, bytes)                                                                                      \
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;"                            \
               "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::"l"(to),                                    \
               "r"(shared_address(from)), "r"(bytes)                                                                   \
               : "memory")
#define LOAD_THERE(value, from)                                                                                        \
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(in_other_block(from)) : "memory")
#define WRITE_THERE(to, value)                                                                                         \
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(in_other_block(to)), "r"(value) : "memory")
#define ARRIVE_THERE(bar)                                                                                              \
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(in_other_block(bar)) : "memory")

__device__ void begin(unsigned long long *bar, int bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;"
               "{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(shared_address(bar)),
               "r"(bytes)
               : "memory");
}
__device__ void wait_for(unsigned long long *bar) {
  int done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;"
                 "selp.b32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_address(bar))
                 : "memory");
}

//! block=32: write of 4 bytes ~ in shared memory: 'copies_to_one_place::last'
extern "C" __global__ void copies_to_one_place(int *out, int *raw) {
  __shared__ int last;
  raw[threadIdx.x] = threadIdx.x;
  COPY(&last, raw + threadIdx.x, 4); // FOUND OTHER
  __syncwarp();
  out[threadIdx.x] = last;
}

//! block=32
extern "C" __global__ void copies_of_one_value_right(int *out, int *raw) {
  __shared__ int last;
  COPY(&last, out, 4);
  __syncwarp();
  raw[threadIdx.x] = last;
}

//! block=32
extern "C" __global__ void copies_of_nothing_right(int *out, int *raw) {
  __shared__ int last;
  raw[threadIdx.x] = threadIdx.x;
  COPY(&last, raw + threadIdx.x, 0);
  __syncwarp();
  out[threadIdx.x] = last;
}

//! block=32: write of 16 bytes ~ in shared memory: 'bulk_copies_to_one_place::tile'
extern "C" __global__ void bulk_copies_to_one_place(int *out, int *raw) {
  __shared__ alignas(16) int tile[4];
  __shared__ alignas(8) unsigned long long bar;
  if (threadIdx.x == 0)
    begin(&bar, 32);
  for (int i = 0; i < 4; ++i)
    raw[threadIdx.x * 4 + i] = threadIdx.x;
  __syncwarp();
  if (threadIdx.x < 2)
    COPY_BULK(tile, raw + 4 * threadIdx.x, &bar); // FOUND OTHER
  wait_for(&bar);
  out[threadIdx.x] = tile[threadIdx.x % 4];
}

//! block=32
extern "C" __global__ void bulk_copies_of_one_value_right(int *out, int *raw) {
  __shared__ alignas(16) int tile[4];
  __shared__ alignas(8) unsigned long long bar;
  if (threadIdx.x == 0)
    begin(&bar, 32);
  __syncwarp();
  if (threadIdx.x < 2)
    COPY_BULK(tile, out, &bar);
  wait_for(&bar);
  raw[threadIdx.x] = tile[threadIdx.x % 4];
}

//! block=32 grid=2: race: ~ of 4 bytes ~ 'stores_not_waited_for::inbox'
extern "C" __global__ __cluster_dims__(2) void stores_not_waited_for(int *out, int *raw) {
  __shared__ int inbox[32];
  __shared__ alignas(8) unsigned long long bar;
  if (threadIdx.x == 0)
    begin(&bar, 128);
  CLUSTER_SYNC();
  STORE_THERE(inbox + threadIdx.x, threadIdx.x, &bar);     // OTHER
  out[blockIdx.x * 32 + threadIdx.x] = inbox[threadIdx.x]; // FOUND
  CLUSTER_SYNC();
}

//! block=32 grid=2
extern "C" __global__ __cluster_dims__(2) void stores_waited_for_right(int *out, int *raw) {
  __shared__ int inbox[32];
  __shared__ alignas(8) unsigned long long bar;
  if (threadIdx.x == 0)
    begin(&bar, 128);
  CLUSTER_SYNC();
  STORE_THERE(inbox + threadIdx.x, threadIdx.x, &bar);
  wait_for(&bar);
  out[blockIdx.x * 32 + threadIdx.x] = inbox[threadIdx.x]; // each block has received all before it ends
}

//! block=32 grid=2: race: ~ 'sums_not_waited_for::sum'
extern "C" __global__ __cluster_dims__(2) void sums_not_waited_for(int *out, int *raw) {
  __shared__ int sum;
  __shared__ alignas(8) unsigned long long bar;
  if (threadIdx.x == 0) {
    sum = 0;
    begin(&bar, 128);
  }
  CLUSTER_SYNC();
  ADD_THERE(&sum, 1, &bar);                 // OTHER
  out[blockIdx.x * 32 + threadIdx.x] = sum; // FOUND
  CLUSTER_SYNC();
}

//! block=32 grid=2
extern "C" __global__ __cluster_dims__(2) void sums_waited_for_right(int *out, int *raw) {
  __shared__ int sum;
  __shared__ alignas(8) unsigned long long bar;
  if (threadIdx.x == 0) {
    sum = 0;
    begin(&bar, 128);
  }
  CLUSTER_SYNC();
  ADD_THERE(&sum, 1, &bar);
  wait_for(&bar);
  out[blockIdx.x * 32 + threadIdx.x] = sum;
}

//! block=32: race: ~ in global memory
extern "C" __global__ void bulk_sums_of_others(int *out, int *raw) {
  __shared__ alignas(16) int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  __syncwarp();
  if (threadIdx.x == 0)
    ADD_BULK(out, tile, 128);          // OTHER
  raw[threadIdx.x] = out[threadIdx.x]; // FOUND
}

//! block=32: race: ~ in shared memory: 'bulk_sums_too_early::tile'
extern "C" __global__ void bulk_sums_too_early(int *out, int *raw) {
  __shared__ alignas(16) int tile[32];
  tile[threadIdx.x] = threadIdx.x; // OTHER
  if (threadIdx.x == 0)
    ADD_BULK(out, tile, 128); // FOUND
}

//! block=32 grid=2
extern "C" __global__ void bulk_sums_of_blocks_right(int *out, int *raw) {
  __shared__ alignas(16) int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  __syncwarp();
  if (threadIdx.x == 0)
    ADD_BULK(out, tile, 128);
}

//! block=32 grid=2: race: write of 4 bytes ~ 'before_it_has_begun::inbox' ~ of block ~ which may not have begun
extern "C" __global__ __cluster_dims__(2) void before_it_has_begun(int *out, int *raw) {
  __shared__ int inbox[32];
  WRITE_THERE(inbox + threadIdx.x, threadIdx.x); // FOUND
  CLUSTER_SYNC();
  out[blockIdx.x * 32 + threadIdx.x] = inbox[threadIdx.x];
}

//! block=32 grid=2
extern "C" __global__ __cluster_dims__(2) void after_it_has_begun_right(int *out, int *raw) {
  __shared__ int inbox[32];
  CLUSTER_SYNC();
  WRITE_THERE(inbox + threadIdx.x, threadIdx.x);
  CLUSTER_SYNC();
  out[blockIdx.x * 32 + threadIdx.x] = inbox[threadIdx.x];
}

//! block=32 grid=2: race: read of 4 bytes ~ 'after_its_end::value' ~ which may have ended
extern "C" __global__ __cluster_dims__(2) void after_its_end(int *out, int *raw) {
  __shared__ int value[32];
  value[threadIdx.x] = threadIdx.x;
  CLUSTER_SYNC();
  int theirs;
  LOAD_THERE(theirs, value + threadIdx.x); // FOUND
  out[blockIdx.x * 32 + threadIdx.x] = theirs;
}

//! block=32 grid=2
extern "C" __global__ __cluster_dims__(2) void before_its_end_right(int *out, int *raw) {
  __shared__ int value[32];
  value[threadIdx.x] = threadIdx.x;
  CLUSTER_SYNC();
  int theirs;
  LOAD_THERE(theirs, value + threadIdx.x);
  out[blockIdx.x * 32 + threadIdx.x] = theirs;
  CLUSTER_SYNC();
}

//! block=32 grid=2: which may have ended
extern "C" __global__ __cluster_dims__(2) void arrival_nobody_waits_for(int *out, int *raw) {
  __shared__ alignas(8) unsigned long long bar;
  if (threadIdx.x == 0)
    begin(&bar, 0);
  CLUSTER_SYNC();
  if (threadIdx.x == 0)
    ARRIVE_THERE(&bar); // FOUND
}

//! block=64 grid=2
extern "C" __global__ __cluster_dims__(2) void one_warp_stays_right(int *out, int *raw) {
  __shared__ int value[64];
  value[threadIdx.x] = threadIdx.x;
  CLUSTER_SYNC();
  int theirs;
  LOAD_THERE(theirs, value + threadIdx.x);
  out[blockIdx.x * 64 + threadIdx.x] = theirs;
  CLUSTER_ARRIVE();
  if (threadIdx.x >= 32)
    CLUSTER_WAIT(); // the block exists until its last thread ends
}
