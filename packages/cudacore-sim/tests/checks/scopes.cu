/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes of atomics and fences, for the check race. `planted.py` explains the marks. */

/* Write a word, then set a flag; wait for the flag, then read. Reports name the line that uses these macros. */
#define PUBLISH(at, order)                                                                                             \
  asm volatile("st.global.u32 [%0+4], 7; st." order ".u32 [%0], 1;" ::"l"(__cvta_generic_to_global(at)) : "memory")
#define RECEIVE(value, at, order)                                                                                      \
  asm volatile("{ .reg .pred p; .reg .u32 flag;"                                                                       \
               "again: ld." order ".u32 flag, [%1]; setp.eq.u32 p, flag, 0; @p bra again;"                             \
               "ld.global.u32 %0, [%1+4]; }"                                                                           \
               : "=r"(value)                                                                                           \
               : "l"(__cvta_generic_to_global(at))                                                                     \
               : "memory")

__device__ void wait_for(int *flag) {
  while (atomicAdd(flag, 0) == 0)
    ;
}

//! block=32 grid=2: with a scope that leaves out the other's block: .cta
extern "C" __global__ void counter_of_a_block(int *out, int *raw) {
  atomicAdd_block(out, 1); // FOUND OTHER
}

//! block=64 grid=2
extern "C" __global__ void counter_of_a_block_right(int *out, int *raw) {
  __shared__ int count;
  if (threadIdx.x == 0)
    count = 0;
  __syncthreads();
  atomicAdd_block(&count, 1);
  atomicAdd_block(out + blockIdx.x, 1);
}

//! block=32 grid=2: with a scope that leaves out the other's block: .cta
extern "C" __global__ void counter_of_one_block(int *out, int *raw) {
  if (blockIdx.x == 0)
    atomicAdd_block(out, 1); // OTHER
  else
    atomicAdd(out, 1); // FOUND
}

//! block=32 grid=2
extern "C" __global__ void counter_of_all_right(int *out, int *raw) {
  if (blockIdx.x == 0)
    atomicAdd_system(out, 1);
  else
    atomicAdd(out, 1);
}

//! block=32 grid=2: which thread (0,0,0) of block (0,0,0) wrote
extern "C" __global__ void fence_of_a_block(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0) {
    out[1] = 7; // OTHER
    __threadfence_block();
    atomicExch(out, 1);
  } else {
    wait_for(out);
    __threadfence();
    out[2] = out[1]; // FOUND
  }
}

//! block=32 grid=2: which thread (0,0,0) of block (0,0,0) wrote
extern "C" __global__ void fence_of_the_reading_block(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0) {
    out[1] = 7; // OTHER
    __threadfence();
    atomicExch(out, 1);
  } else {
    wait_for(out);
    __threadfence_block();
    out[2] = out[1]; // FOUND
  }
}

//! block=64
extern "C" __global__ void fences_of_a_block_right(int *out, int *raw) {
  __shared__ int word, flag;
  if (threadIdx.x == 0)
    flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    word = 7;
    __threadfence_block();
    atomicExch_block(&flag, 1);
  } else if (threadIdx.x == 32) {
    while (atomicAdd_block(&flag, 0) == 0)
      ;
    __threadfence_block();
    out[0] = word;
  }
}

//! block=32 grid=2
extern "C" __global__ void both_fences_right(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0) {
    out[1] = 7;
    __threadfence();
    __threadfence_block();
    atomicExch(out, 1);
  } else {
    wait_for(out);
    __threadfence_block();
    __threadfence();
    out[2] = out[1];
  }
}

//! block=64 grid=2: of block (0,0,0) wrote
extern "C" __global__ void fences_of_a_block_and_barrier(int *out, int *raw) {
  if (blockIdx.x == 0) {
    out[1 + threadIdx.x] = 7; // OTHER
    __threadfence_block();
    __syncthreads();
    if (threadIdx.x == 0)
      atomicExch(out, 1);
  } else {
    wait_for(out);
    __threadfence();
    raw[threadIdx.x] = out[64 - threadIdx.x]; // FOUND
  }
}

//! block=64 grid=2
extern "C" __global__ void barrier_and_fence_right(int *out, int *raw) {
  if (blockIdx.x == 0) {
    out[1 + threadIdx.x] = 7;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicExch(out, 1);
    }
  } else {
    wait_for(out);
    __threadfence();
    raw[threadIdx.x] = out[64 - threadIdx.x];
  }
}

//! block=32 grid=2: of block (0,0,0) wrote
extern "C" __global__ void released_to_its_block(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0)
    PUBLISH(out, "release.cta"); // OTHER
  else
    RECEIVE(raw[0], out, "acquire.gpu"); // FOUND
}

//! block=32 grid=2: of block (0,0,0) wrote
extern "C" __global__ void acquired_from_its_block(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0)
    PUBLISH(out, "release.gpu"); // OTHER
  else
    RECEIVE(raw[0], out, "acquire.cta"); // FOUND
}

//! block=64
extern "C" __global__ void release_and_acquire_of_a_block_right(int *out, int *raw) {
  if (threadIdx.x == 0)
    PUBLISH(out, "release.cta");
  else if (threadIdx.x == 32)
    RECEIVE(raw[0], out, "acquire.cta");
}

//! block=32 grid=2
extern "C" __global__ __cluster_dims__(2) void release_and_acquire_of_a_cluster_right(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0)
    PUBLISH(out, "release.cluster");
  else
    RECEIVE(raw[0], out, "acquire.cluster");
}

//! block=32 grid=4: of block (0,0,0) wrote
extern "C" __global__ __cluster_dims__(2) void released_to_its_cluster(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0)
    PUBLISH(out, "release.cluster"); // OTHER
  else if (blockIdx.x == 2)
    RECEIVE(raw[0], out, "acquire.gpu"); // FOUND
}

/* Transitive: thread 32 acquires from thread 0 of its block, and releases to the other block. */
//! block=64 grid=2
extern "C" __global__ void by_way_of_a_block_right(int *out, int *raw) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      out[4] = 9;
      PUBLISH(out, "release.cta");
    } else if (threadIdx.x == 32) {
      RECEIVE(raw[0], out, "acquire.cta");
      PUBLISH(out + 2, "release.gpu");
    }
  } else if (threadIdx.x == 0) {
    RECEIVE(raw[1], out + 2, "acquire.gpu");
    raw[2] = out[1] + out[4];
  }
}

/* A release at GPU scope also includes the thread's own block, where an acquire at block scope suffices. */
//! block=64 grid=2
extern "C" __global__ void wide_and_narrow_right(int *out, int *raw) {
  int *mine = out + 4 * blockIdx.x;
  if (threadIdx.x == 0)
    PUBLISH(mine, "release.gpu");
  else if (threadIdx.x == 32)
    RECEIVE(raw[blockIdx.x], mine, "acquire.cta");
}
