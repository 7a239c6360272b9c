/* SPDX-License-Identifier: Apache-2.0 */
/* For the check race: copies by cp.async without a wait. `planted.py` explains the marks. */

__device__ unsigned shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

/* These are macros so that reports name the line that uses them. */
#define COPY(to, from)                                                                                                 \
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory")
#define COPY_FOUR(to, from)                                                                                            \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_BUT_FOR(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")
#define WAIT_ALL() asm volatile("cp.async.wait_all;" ::: "memory")

//! block=32: race: read of 4 bytes ~ 'no_wait::tile' ~ which thread (0,0,0) copied at ~ with no cp.async.wait_group
extern "C" __global__ void no_wait(int *out, int *raw) {
  __shared__ int tile[32];
  COPY(tile + threadIdx.x, out + threadIdx.x); // OTHER
  COMMIT();
  raw[threadIdx.x] = tile[threadIdx.x]; // FOUND
}

//! block=64: race: read of 4 bytes ~ 'a_barrier_alone::tile' ~ copied at ~ with no cp.async.wait_group
extern "C" __global__ void a_barrier_alone(int *out, int *raw) {
  __shared__ int tile[64];
  COPY(tile + threadIdx.x, out + threadIdx.x); // OTHER
  __syncthreads();
  raw[threadIdx.x] = tile[63 - threadIdx.x]; // FOUND
  WAIT_ALL();
}

//! block=32: race: read of 4 bytes ~ 'one_group_too_few::tile' + 128 ~ copied at ~ with no cp.async.wait_group
extern "C" __global__ void one_group_too_few(int *out, int *raw) {
  __shared__ int tile[2][32];
  COPY(&tile[0][threadIdx.x], out + threadIdx.x);
  COMMIT();
  COPY(&tile[1][threadIdx.x], out + threadIdx.x + 32); // OTHER
  COMMIT();
  WAIT_BUT_FOR(1);
  raw[threadIdx.x] = tile[0][threadIdx.x];
  raw[threadIdx.x + 32] = tile[1][threadIdx.x]; // FOUND
}

//! block=32: race: read of 4 bytes ~ 'not_committed::tile' ~ copied at ~ with no cp.async.wait_group
extern "C" __global__ void not_committed(int *out, int *raw) {
  __shared__ int tile[32];
  COPY(tile + threadIdx.x, out + threadIdx.x); // OTHER
  WAIT_BUT_FOR(0);
  raw[threadIdx.x] = tile[threadIdx.x]; // FOUND
}

//! block=32: race: write of 4 bytes ~ 'written_over::tile' ~ copied at ~ with no cp.async.wait_group
extern "C" __global__ void written_over(int *out, int *raw) {
  __shared__ int tile[128];
  COPY_FOUR(tile + 4 * threadIdx.x, out + 4 * threadIdx.x); // OTHER
  tile[4 * threadIdx.x + 3] = 5;                            // FOUND
  WAIT_ALL();
  raw[threadIdx.x] = tile[4 * threadIdx.x + 3];
}

//! block=64: race: ~ of 4 bytes ~ 'no_barrier::tile' ~ with nothing that orders the two
extern "C" __global__ void no_barrier(int *out, int *raw) {
  __shared__ int tile[64];
  raw[threadIdx.x] = threadIdx.x;
  COPY(tile + threadIdx.x, raw + threadIdx.x); // FOUND OTHER
  WAIT_ALL();
  out[threadIdx.x] = tile[63 - threadIdx.x]; // FOUND OTHER
}

//! block=64: race: ~ of 4 bytes ~ 'the_wait_behind_the_barrier::tile'
extern "C" __global__ void the_wait_behind_the_barrier(int *out, int *raw) {
  __shared__ int tile[64];
  raw[threadIdx.x] = threadIdx.x;
  COPY(tile + threadIdx.x, raw + threadIdx.x); // FOUND OTHER
  __syncthreads();
  WAIT_ALL();
  out[threadIdx.x] = tile[63 - threadIdx.x]; // FOUND OTHER
}

//! block=64
extern "C" __global__ void waited_for_right(int *out, int *raw) {
  __shared__ int tile[64];
  COPY(tile + threadIdx.x, out + threadIdx.x);
  WAIT_ALL();
  __syncthreads();
  raw[threadIdx.x] = tile[63 - threadIdx.x];
}

//! block=32
extern "C" __global__ void two_stages_right(int *out, int *raw) {
  __shared__ int tile[2][32];
  COPY(&tile[0][threadIdx.x], out + threadIdx.x);
  COMMIT();
  int sum = 0;
  for (int i = 1; i <= 6; ++i) {
    if (i < 6)
      COPY(&tile[i % 2][threadIdx.x], out + 32 * i + threadIdx.x);
    COMMIT();
    WAIT_BUT_FOR(1);
    sum += tile[(i - 1) % 2][threadIdx.x];
  }
  raw[threadIdx.x] = sum;
}

//! block=64
extern "C" __global__ void counted_by_a_barrier_right(int *out, int *raw) {
  __shared__ int tile[64];
  __shared__ alignas(8) unsigned long long bar;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(shared_address(&bar)) : "memory");
  __syncthreads();
  COPY(tile + threadIdx.x, out + threadIdx.x);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&bar)) : "memory");
  int done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_address(&bar))
                 : "memory");
  raw[threadIdx.x] = tile[63 - threadIdx.x];
}
