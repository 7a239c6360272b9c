/* SPDX-License-Identifier: Apache-2.0 */
/* wgmma, for all checks. `planted.py` explains the marks. */

/* These are macros so that reports name the line that uses them. */
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(groups) asm volatile("wgmma.wait_group.sync.aligned " #groups ";" ::: "memory")
#define PUBLISH() asm volatile("fence.proxy.async;" ::: "memory")
#define MULTIPLY(d)                                                                                                    \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"            \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                        \
               : "l"(at(left)), "l"(at(right))                                                                         \
               : "memory")
#define MATRICES()                                                                                                     \
  __shared__ __align__(128) int left[512];                                                                             \
  __shared__ __align__(128) int right[64];                                                                             \
  float d[4] = {}

__device__ unsigned long long at(const void *matrix) {
  return (__cvta_generic_to_shared(matrix) & 0x3ffff) >> 4 | 8ull << 16 | 16ull << 32;
}
/* All threads of the block fill both matrices. */
#define FILL()                                                                                                         \
  for (int i = threadIdx.x; i < 576; i += blockDim.x)                                                                  \
  (i < 512 ? left : right - 512)[i] = i
/* Fills both matrices and makes them visible to wgmma. */
#define PREPARE()                                                                                                      \
  FILL();                                                                                                              \
  PUBLISH();                                                                                                           \
  __syncthreads()
/* Waits for the products, and stores the first result of each thread. */
#define FINISH()                                                                                                       \
  COMMIT();                                                                                                            \
  WAIT(0);                                                                                                             \
  out[threadIdx.x] = d[0]

//! block=128
extern "C" __global__ void all_of_it_right(int *out, int *raw) {
  MATRICES();
  PREPARE();
  FENCE();
  MULTIPLY(d);
  MULTIPLY(d);
  COMMIT();
  WAIT(0);
  out[threadIdx.x] = d[0] + d[3];
}

//! block=256
extern "C" __global__ void readers_fence_right(int *out, int *raw) {
  MATRICES();
  FILL();
  __syncthreads();
  PUBLISH();
  FENCE();
  for (int i = 0; i < 3; ++i) {
    MULTIPLY(d);
    COMMIT();
  }
  WAIT(0);
  out[threadIdx.x] = d[1];
}

//! block=128
extern "C" __global__ void waits_for_the_first_right(int *out, int *raw) {
  MATRICES();
  float other[4] = {};
  PREPARE();
  FENCE();
  MULTIPLY(d);
  COMMIT();
  MULTIPLY(other);
  COMMIT();
  WAIT(1);
  out[threadIdx.x] = d[2];
  WAIT(0);
  out[threadIdx.x] += other[2];
}

//! block=128
extern "C" __global__ void overlapping_right(int *out, int *raw) {
  MATRICES();
  PREPARE();
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    FENCE();
    MULTIPLY(d);
    COMMIT();
    WAIT(1);
  }
  WAIT(0);
  out[threadIdx.x] = d[0];
}

/* Any warp may overwrite a matrix after the wait: all four warps execute the product together. */
//! block=128
extern "C" __global__ void rewritten_right(int *out, int *raw) {
  MATRICES();
  PREPARE();
  FENCE();
  MULTIPLY(d);
  COMMIT();
  WAIT(0);
  if (threadIdx.x >= 64)
    right[threadIdx.x - 64] = threadIdx.x;
  out[threadIdx.x] = d[0];
}

//! block=128: with nothing that orders the two
extern "C" __global__ void rewritten_too_early(int *out, int *raw) {
  MATRICES();
  PREPARE();
  FENCE();
  MULTIPLY(d); // FOUND OTHER
  COMMIT();
  if (threadIdx.x >= 64)
    right[threadIdx.x - 64] = threadIdx.x; // FOUND OTHER
  WAIT(0);
  out[threadIdx.x] = d[0];
}

//! block=128: for whose group no wgmma.wait_group has waited
extern "C" __global__ void no_wait(int *out, int *raw) {
  MATRICES();
  PREPARE();
  FENCE();
  MULTIPLY(d); // OTHER
  COMMIT();
  out[threadIdx.x] = d[0]; // FOUND
}

//! block=128: for whose group no wgmma.wait_group has waited
extern "C" __global__ void uses_a_copy(int *out, int *raw) {
  MATRICES();
  float copy;
  PREPARE();
  FENCE();
  MULTIPLY(d); // OTHER
  COMMIT();
  asm volatile("mov.b32 %0, %1;" : "=f"(copy) : "f"(d[0]));
  out[threadIdx.x] = copy; // FOUND
  WAIT(0);
  out[threadIdx.x] += copy;
}

static __device__ __noinline__ int elsewhere(int number) { return number * number; }

//! block=128: for whose group no wgmma.wait_group has waited
extern "C" __global__ void calls_before_it_waits(int *out, int *raw) {
  MATRICES();
  PREPARE();
  FENCE();
  MULTIPLY(d); // OTHER
  COMMIT();
  out[threadIdx.x] = elsewhere(threadIdx.x);
  out[threadIdx.x] += d[0]; // FOUND
  WAIT(0);
}

//! block=128: for whose group no wgmma.wait_group has waited
extern "C" __global__ void no_commit(int *out, int *raw) {
  MATRICES();
  PREPARE();
  FENCE();
  MULTIPLY(d); // OTHER
  WAIT(0);
  out[threadIdx.x] = d[1]; // FOUND
}

//! block=128: for whose group no wgmma.wait_group has waited
extern "C" __global__ void waits_for_too_few(int *out, int *raw) {
  MATRICES();
  float other[4] = {};
  PREPARE();
  FENCE();
  MULTIPLY(d);
  COMMIT();
  MULTIPLY(other); // OTHER
  COMMIT();
  WAIT(1);
  out[threadIdx.x] = other[0]; // FOUND
  WAIT(0);
  out[threadIdx.x] += d[0];
}

//! block=128: there is no wgmma.fence before the first wgmma.mma_async
extern "C" __global__ void no_fence(int *out, int *raw) {
  MATRICES();
  PREPARE();
  MULTIPLY(d); // FOUND
  FINISH();
}

//! block=128: but warp 3 has executed 0 such products, and warp ~ 1
extern "C" __global__ void three_warps(int *out, int *raw) {
  MATRICES();
  PREPARE();
  if (threadIdx.x / 32 == 3)
    return;
  FENCE();
  MULTIPLY(d); // FOUND
  FINISH();
}

//! block=96: four warps have to execute it ~ but the block has 96 threads
extern "C" __global__ void small_block(int *out, int *raw) {
  MATRICES();
  PREPARE();
  FENCE();
  MULTIPLY(d); // FOUND
  FINISH();
}

//! block=128: all 32 threads of a warp have to execute it together, but lane 5 has ended
extern "C" __global__ void missing_lane(int *out, int *raw) {
  MATRICES();
  PREPARE();
  if (threadIdx.x == 37)
    return;
  FENCE();     // FOUND
  MULTIPLY(d); // FOUND
  COMMIT();    // FOUND
  WAIT(0);     // FOUND
  out[threadIdx.x] = d[0];
}

//! block=128: with no fence.proxy.async between the two
extern "C" __global__ void not_published(int *out, int *raw) {
  MATRICES();
  FILL(); // OTHER
  __syncthreads();
  FENCE();
  MULTIPLY(d); // FOUND
  FINISH();
}

//! block=128: with no fence.proxy.async between the two
extern "C" __global__ void published_too_early(int *out, int *raw) {
  MATRICES();
  PUBLISH();
  FILL(); // OTHER
  __syncthreads();
  FENCE();
  MULTIPLY(d); // FOUND
  FINISH();
}

//! block=128: with nothing that orders the two
extern "C" __global__ void no_barrier(int *out, int *raw) {
  MATRICES();
  FILL(); // OTHER
  PUBLISH();
  FENCE();
  MULTIPLY(d); // FOUND
  FINISH();
}

//! block=128: uninitialized read of 16 bytes ~ in shared memory: 'half_a_matrix::left' +
extern "C" __global__ void half_a_matrix(int *out, int *raw) {
  MATRICES();
  for (int i = threadIdx.x; i < 320; i += blockDim.x)
    (i < 256 ? left : right - 256)[i] = i;
  PUBLISH();
  __syncthreads();
  FENCE();
  MULTIPLY(d); // FOUND
  FINISH();
}
