/* SPDX-License-Identifier: Apache-2.0 */
/* Unordered accesses, and correct ones that look similar. `planted.py` explains the marks. */

//! block=64: race: ~ of 4 bytes ~ in shared memory: 'no_barrier::tile'
extern "C" __global__ void no_barrier(int *out, int *raw) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;           // OTHER
  out[threadIdx.x] = tile[63 - threadIdx.x]; // FOUND
}

//! block=64
extern "C" __global__ void no_barrier_right(int *out, int *raw) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

//! block=64: race: ~ of 4 bytes
extern "C" __global__ void write_after_read(int *out, int *raw) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int other = tile[63 - threadIdx.x]; // OTHER
  tile[threadIdx.x] = other + 1;      // FOUND
  out[threadIdx.x] = tile[threadIdx.x];
}

//! block=64: write of 4 bytes ~ in shared memory: 'two_writers::last'
extern "C" __global__ void two_writers(int *out, int *raw) {
  __shared__ int last;
  if (threadIdx.x % 32 == 0)
    last = threadIdx.x; // FOUND OTHER
  __syncthreads();
  out[threadIdx.x] = last;
}

//! block=64
extern "C" __global__ void two_writers_right(int *out, int *raw) {
  __shared__ int any;
  if (threadIdx.x % 32 == 0)
    any = 1; // both write the same value, so their order does not matter
  __syncthreads();
  out[threadIdx.x] = any;
}

//! block=32: of the same warp
extern "C" __global__ void no_syncwarp(int *out, int *raw) {
  __shared__ int tile[32];
  tile[threadIdx.x] = threadIdx.x;          // OTHER
  out[threadIdx.x] = tile[threadIdx.x ^ 1]; // FOUND
}

//! block=32
extern "C" __global__ void no_syncwarp_right(int *out, int *raw) {
  __shared__ int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  __syncwarp();
  int other = tile[threadIdx.x ^ 1];
  __syncwarp();
  tile[threadIdx.x] = other;
  out[threadIdx.x] = tile[threadIdx.x];
}

//! block=32: of the same warp
extern "C" __global__ void reduction_in_lockstep(int *out, int *raw) {
  __shared__ int sum[64];
  sum[threadIdx.x] = sum[threadIdx.x + 32] = threadIdx.x;
  __syncwarp();
  int upper = sum[threadIdx.x + 16]; // OTHER
  sum[threadIdx.x] += upper;         // FOUND
  out[threadIdx.x] = sum[threadIdx.x];
}

//! block=64: race: ~ of 4 bytes
extern "C" __global__ void plain_read_of_a_counter(int *out, int *raw) {
  __shared__ int count;
  if (threadIdx.x == 0)
    count = 0;
  __syncthreads();
  atomicAdd(&count, 1);       // OTHER
  out[threadIdx.x] = *&count; // FOUND
}

//! block=64 grid=2
extern "C" __global__ void plain_read_of_a_counter_right(int *out, int *raw) {
  __shared__ int count;
  if (threadIdx.x == 0)
    count = 0;
  __syncthreads();
  int mine = atomicAdd(&count, 1);
  atomicAdd(out, mine);
  __syncthreads();
  out[1 + blockIdx.x * 64 + threadIdx.x] = count;
}

//! block=32 grid=4: of block
extern "C" __global__ void neighbour_block(int *out, int *raw) {
  int i = blockIdx.x * 32 + threadIdx.x;
  out[i] = i;                   // FOUND
  raw[i] = out[(i + 32) % 128]; // OTHER
}

//! block=64: in global memory
extern "C" __global__ void result_of_all(int *out, int *raw) {
  out[0] = threadIdx.x; // FOUND OTHER
}

//! block=32 grid=2: of block (0,0,0) wrote
extern "C" __global__ void flag_without_fence(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0) {
    out[1] = 7; // OTHER
    atomicExch(out, 1);
  } else {
    while (atomicAdd(out, 0) == 0)
      ;
    __threadfence();
    out[2] = out[1]; // FOUND
  }
}

//! block=32 grid=2
extern "C" __global__ void flag_without_fence_right(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0) {
    out[1] = 7;
    __threadfence();
    atomicExch(out, 1);
  } else {
    while (atomicAdd(out, 0) == 0)
      ;
    __threadfence();
    out[2] = out[1];
  }
}

//! block=32 grid=2
extern "C" __global__ void release_and_acquire_right(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  if (blockIdx.x == 0) {
    out[1] = 7;
    asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(out) : "memory");
  } else {
    int flag = 0;
    while (flag == 0)
      asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(flag) : "l"(out) : "memory");
    out[2] = out[1];
  }
}

//! block=96: in shared memory: 'barrier_of_others::part'
extern "C" __global__ void barrier_of_others(int *out, int *raw) {
  __shared__ int part[96];
  part[threadIdx.x] = threadIdx.x; // OTHER
  if (threadIdx.x < 64)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  out[threadIdx.x] = part[(threadIdx.x + 32) % 96]; // FOUND
}

//! block=96
extern "C" __global__ void barrier_of_others_right(int *out, int *raw) {
  __shared__ int part[96];
  part[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 64) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = part[63 - threadIdx.x];
  }
}

//! block=64
extern "C" __global__ void producer_and_consumer_right(int *out, int *raw) {
  __shared__ int part[32];
  if (threadIdx.x < 32) {
    part[threadIdx.x] = threadIdx.x;
    asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = part[63 - threadIdx.x];
  }
}

//! block=64 shared=512: in shared memory: 'buffer' +
extern "C" __global__ void one_barrier_in_a_loop(int *out, int *raw) {
  extern __shared__ int buffer[];
  int sum = 0;
#pragma unroll 1
  for (int step = 0; step < 3; ++step) {
    buffer[threadIdx.x] = step + threadIdx.x; // FOUND
    __syncthreads();
    sum += buffer[63 - threadIdx.x]; // OTHER
  }
  out[threadIdx.x] = sum;
}

//! block=64 shared=512
extern "C" __global__ void one_barrier_in_a_loop_right(int *out, int *raw) {
  extern __shared__ int buffer[];
  int sum = 0;
#pragma unroll 1
  for (int step = 0; step < 3; ++step) {
    buffer[step % 2 * 64 + threadIdx.x] = step + threadIdx.x;
    __syncthreads();
    sum += buffer[step % 2 * 64 + 63 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

//! block=64: of 1 bytes
extern "C" __global__ void bytes(int *out, int *raw) {
  __shared__ unsigned char text[64];
  text[threadIdx.x] = threadIdx.x;                  // OTHER
  out[threadIdx.x] = text[(threadIdx.x + 32) % 64]; // FOUND
}

//! block=64
extern "C" __global__ void bytes_right(int *out, int *raw) {
  __shared__ unsigned char text[64];
  text[threadIdx.x] = threadIdx.x;
  text[threadIdx.x] += 1;
  out[threadIdx.x] = text[threadIdx.x];
}

//! block=32 grid=4: of block
extern "C" __global__ void lock_without_fences(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  while (atomicCAS(out, 0, 1) != 0)
    ;
  out[1] += 1; // FOUND OTHER
  atomicExch(out, 0);
}

//! block=32 grid=4
extern "C" __global__ void lock_without_fences_right(int *out, int *raw) {
  if (threadIdx.x != 0)
    return;
  while (atomicCAS(out, 0, 1) != 0)
    ;
  __threadfence();
  out[1] += 1;
  __threadfence();
  atomicExch(out, 0);
}

//! block=64 grid=4
extern "C" __global__ void last_block_right(int *out, int *raw) {
  __shared__ bool is_last;
  raw[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0)
    is_last = atomicInc((unsigned *)out, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (!is_last)
    return;
  int sum = 0;
  for (int i = 0; i < 256; ++i)
    sum += raw[i];
  out[1 + threadIdx.x] = sum;
}

//! block=64
extern "C" __global__ void heap_used_again_right(int *out, int *raw) {
  for (int i = 0; i < 4; ++i) {
    int *mine = (int *)malloc(16);
    mine[0] = threadIdx.x;
    out[threadIdx.x] = mine[0];
    free(mine);
  }
}

//! block=64
extern "C" __global__ void loop_that_swaps_right(int *out, int *raw) {
  int old = *out, seen;
  do {
    seen = old;
    old = atomicCAS(out, seen, seen + 1);
  } while (old != seen);
}

//! block=64
extern "C" __global__ void swap_if_larger_right(int *out, int *raw) {
  int mine = threadIdx.x % 7;
  for (int old = *out; mine > old;) {
    int seen = atomicCAS(out, old, mine);
    if (seen == old)
      break;
    old = seen;
  }
}

//! block=32
extern "C" __global__ void bytes_in_turn_right(int *out, int *raw) {
  __shared__ unsigned char text[32];
#pragma unroll 1
  for (int i = 0; i < 3; ++i) {
    text[(threadIdx.x + i * 2) % 32] = threadIdx.x; // threads write different bytes of one word
    __syncwarp();
  }
  out[threadIdx.x] = text[threadIdx.x];
}

__device__ unsigned row_of(void *tile) {
  return __cvta_generic_to_shared(static_cast<char *>(tile) + threadIdx.x % 8 * 16);
}

//! block=32: race: ~ in shared memory: 'stored_matrix::tile'
extern "C" __global__ void stored_matrix(int *out, int *raw) {
  __shared__ alignas(16) int tile[32];
  const unsigned row = row_of(tile);
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(threadIdx.x) : "memory"); // OTHER
  out[threadIdx.x] = tile[threadIdx.x];                                                                         // FOUND
}

//! block=32
extern "C" __global__ void stored_matrix_right(int *out, int *raw) {
  __shared__ alignas(16) int tile[32];
  const unsigned row = row_of(tile);
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(threadIdx.x) : "memory");
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x];
}

//! block=32: race: ~ in shared memory: 'loaded_matrix::tile'
extern "C" __global__ void loaded_matrix(int *out, int *raw) {
  __shared__ alignas(16) int tile[32];
  const unsigned row = row_of(tile);
  int part;
  tile[threadIdx.x] = threadIdx.x;                                                                         // OTHER
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(part) : "r"(row) : "memory"); // FOUND
  out[threadIdx.x] = part;
}

//! block=32
extern "C" __global__ void loaded_matrix_right(int *out, int *raw) {
  __shared__ alignas(16) int tile[32];
  const unsigned row = row_of(tile);
  int part;
  tile[threadIdx.x] = threadIdx.x;
  __syncwarp();
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(part) : "r"(row) : "memory");
  out[threadIdx.x] = part;
}

//! block=64: race: ~ in global memory
extern "C" __global__ void fragments_of_two_warps(int *out, int *raw) {
  asm volatile("wmma.store.d.sync.aligned.row.m8n8k32.global.s32 [%0], {%1, %1};" ::"l"(out), "r"(1)); // FOUND OTHER
}
