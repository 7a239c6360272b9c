/* SPDX-License-Identifier: Apache-2.0 */
/* Protocols: look-back, locks, and pipelines of mbarriers. `planted.py` explains the marks. */

__device__ unsigned at(const void *shared) { return (unsigned)__cvta_generic_to_shared(shared); }
__device__ void init(const void *bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(arrivals) : "memory");
}
__device__ void arrive(const void *bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}
__device__ void wait(const void *bar, int parity) {
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(at(bar)), "r"(parity)
                 : "memory");
}

/* Each block adds to the sum of the previous blocks: out[0] to out[3] are flags, and the sums follow. */

//! block=32 grid=4
extern "C" __global__ void look_back_right(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  int sum = 0;
  if (blockIdx.x > 0) {
    while (((volatile int *)out)[blockIdx.x - 1] == 0)
      ;
    __threadfence();
    sum = out[4 + blockIdx.x - 1];
  }
  out[4 + blockIdx.x] = sum + 1;
  __threadfence();
  ((volatile int *)out)[blockIdx.x] = 1;
}

//! block=32 grid=4: race: ~ in global memory
extern "C" __global__ void look_back_without_its_first_fence(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  int sum = 0;
  if (blockIdx.x > 0) {
    while (((volatile int *)out)[blockIdx.x - 1] == 0)
      ;
    __threadfence();
    sum = out[4 + blockIdx.x - 1]; // OTHER
  }
  out[4 + blockIdx.x] = sum + 1; // FOUND
  ((volatile int *)out)[blockIdx.x] = 1;
}

//! block=32 grid=4: race: ~ in global memory
extern "C" __global__ void look_back_without_its_second_fence(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  int sum = 0;
  if (blockIdx.x > 0) {
    while (((volatile int *)out)[blockIdx.x - 1] == 0)
      ;
    sum = out[4 + blockIdx.x - 1]; // OTHER
  }
  out[4 + blockIdx.x] = sum + 1; // FOUND
  __threadfence();
  ((volatile int *)out)[blockIdx.x] = 1;
}

//! block=32 grid=4
extern "C" __global__ void look_back_in_one_word_right(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  auto state = (volatile unsigned long long *)out; /* a flag and a sum */
  unsigned long long before = 1ull << 32;
  while (blockIdx.x > 0 && (before = state[blockIdx.x - 1]) == 0)
    ;
  state[blockIdx.x] = before + 1;
}

//! block=32 grid=4: race: ~ in global memory
extern "C" __global__ void look_back_at_a_plain_word(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  auto state = (unsigned long long *)out;
  unsigned long long before = 1ull << 32;
  while (blockIdx.x > 0 && (before = ((volatile unsigned long long *)state)[blockIdx.x - 1]) == 0) // OTHER
    ;
  state[blockIdx.x] = before + 1; // FOUND
}

//! block=32 grid=4
extern "C" __global__ void ticket_lock_right(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  int ticket = atomicAdd(out, 1);
  while (((volatile int *)out)[1] != ticket)
    ;
  __threadfence();
  out[2] += 1;
  __threadfence();
  ((volatile int *)out)[1] = ticket + 1;
}

//! block=32 grid=4: race: ~ of block
extern "C" __global__ void ticket_lock_that_opens_early(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  int ticket = atomicAdd(out, 1);
  while (((volatile int *)out)[1] != ticket)
    ;
  __threadfence();
  ((volatile int *)out)[1] = ticket + 1;
  out[2] += 1; // FOUND OTHER
  __threadfence();
}

/* The first warp fills a tile twice, and the second warp reads it. */

//! block=64
extern "C" __global__ void pipeline_right(int *out, int *raw) {
  __shared__ int tile[32];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    init(&full, 32);
    init(&empty, 32);
  }
  __syncthreads();
  for (int i = 0; i < 2; ++i)
    if (threadIdx.x < 32) {
      if (i)
        wait(&empty, 0);
      tile[threadIdx.x] = i;
      arrive(&full);
    } else {
      wait(&full, i);
      out[threadIdx.x] += tile[63 - threadIdx.x];
      arrive(&empty);
    }
}

//! block=64: race: ~ in shared memory: 'pipeline_that_overtakes::tile'
extern "C" __global__ void pipeline_that_overtakes(int *out, int *raw) {
  __shared__ int tile[32];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0)
    init(&full, 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    tile[threadIdx.x] = 7;
    arrive(&full);
    tile[threadIdx.x] = 8; // FOUND
  } else {
    wait(&full, 0);
    out[threadIdx.x] = tile[63 - threadIdx.x]; // OTHER
  }
}

//! block=64: race: ~ in shared memory: 'pipeline_of_the_wrong_phase::tile'
extern "C" __global__ void pipeline_of_the_wrong_phase(int *out, int *raw) {
  __shared__ int tile[32];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0)
    init(&full, 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    tile[threadIdx.x] = 7; // FOUND
    arrive(&full);
  } else {
    wait(&full, 1);
    out[threadIdx.x] = tile[63 - threadIdx.x]; // OTHER
  }
}

//! block=64: race: ~ in shared memory: 'pipeline_that_arrives_early::tile'
extern "C" __global__ void pipeline_that_arrives_early(int *out, int *raw) {
  __shared__ int tile[32];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0)
    init(&full, 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    arrive(&full);
    tile[threadIdx.x] = 7; // FOUND
  } else {
    wait(&full, 0);
    out[threadIdx.x] = tile[63 - threadIdx.x]; // OTHER
  }
}
