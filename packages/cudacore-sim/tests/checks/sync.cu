/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers and masks with undefined behaviour, and correct ones. `planted.py` explains the marks. */

//! block=64: but lane 1 waits for it at
extern "C" __global__ void two_barriers(int *out, int *raw) {
  if (threadIdx.x % 2) {
    out[threadIdx.x] = 1;
    __syncthreads(); // FOUND OTHER
  } else {
    out[threadIdx.x] = 2;
    __syncthreads(); // FOUND OTHER
  }
}

//! block=64
extern "C" __global__ void two_barriers_right(int *out, int *raw) {
  if (threadIdx.x < 32) {
    out[threadIdx.x] = 1;
    __syncthreads();
  } else {
    out[threadIdx.x] = 2;
    __syncthreads();
  }
}

//! block=64: but 16 of this one, lane 16 the first, never came
extern "C" __global__ void not_all_come(int *out, int *raw) {
  if (threadIdx.x < 48)
    __syncthreads(); // FOUND
  out[threadIdx.x] = 1;
}

//! block=64: never came
extern "C" __global__ void loops_of_different_lengths(int *out, int *raw) {
#pragma unroll 1
  for (int i = threadIdx.x; i < 112; i += 64) {
    out[i] = i;
    __syncthreads(); // FOUND
  }
}

//! block=40: never came
extern "C" __global__ void early_return(int *out, int *raw) {
  if (threadIdx.x >= 34)
    return;
  out[threadIdx.x] = 1;
  __syncthreads(); // FOUND
  out[threadIdx.x] += 1;
}

//! block=40
extern "C" __global__ void odd_block_right(int *out, int *raw) {
  __shared__ int tile[40];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int value = __shfl_down_sync(0xffffffff, tile[39 - threadIdx.x], 1);
  __syncwarp();
  out[threadIdx.x] = value;
}

//! block=64
extern "C" __global__ void warps_that_return_right(int *out, int *raw) {
  if (threadIdx.x >= 32)
    return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

//! block=32: the mask 0x0000ffff does not name the lane that gives it, 16
extern "C" __global__ void shuffle_without_itself(int *out, int *raw) {
  out[threadIdx.x] = __shfl_xor_sync(0xffff, threadIdx.x, 1); // FOUND
}

//! block=32: the mask 0xffffffff names lane 16, which never came
extern "C" __global__ void shuffle_in_a_branch(int *out, int *raw) {
  int value = threadIdx.x;
  if (threadIdx.x < 16)
    value = __shfl_xor_sync(0xffffffff, value, 1); // FOUND
  out[threadIdx.x] = value;
}

//! block=32
extern "C" __global__ void shuffle_in_a_branch_right(int *out, int *raw) {
  int value = threadIdx.x;
  if (threadIdx.x < 16)
    value = __shfl_xor_sync(0xffff, value, 1);
  out[threadIdx.x] = value;
}

//! block=32
extern "C" __global__ void guarded_right(int *out, int *raw) {
  if (threadIdx.x >= 20)
    return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffff, threadIdx.x, 1);
}

//! block=32: names lane 8, which never came
extern "C" __global__ void syncwarp_of_more(int *out, int *raw) {
  if (threadIdx.x < 8)
    __syncwarp(0xffff); // FOUND
  out[threadIdx.x] = 1;
}

//! block=32: does not name the lane that gives it, 0
extern "C" __global__ void syncwarp_of_others(int *out, int *raw) {
  out[threadIdx.x] = 1;
  if (threadIdx.x == 0)
    __syncwarp(0xfffffffe); // FOUND
  else
    __syncwarp(0xfffffffe);
  out[threadIdx.x] = 2;
}

//! block=32: does not name the lane that gives it, 31
extern "C" __global__ void ballot_without_itself(int *out, int *raw) {
  out[threadIdx.x] = __ballot_sync(0x7fffffff, threadIdx.x & 1); // FOUND
}

//! block=32: does not name the lane that gives it
extern "C" __global__ void reduction_without_itself(int *out, int *raw) {
  out[threadIdx.x] = __reduce_add_sync(0xff00, threadIdx.x); // FOUND
}

//! block=32: does not name the lane that gives it
extern "C" __global__ void match_without_itself(int *out, int *raw) {
  out[threadIdx.x] = __match_any_sync(1, threadIdx.x / 2); // FOUND
}

//! block=96: is one of 96 threads here, while others have come to it as one of 64 threads
extern "C" __global__ void two_counts(int *out, int *raw) {
  if (threadIdx.x < 32)
    asm volatile("bar.sync 1, 64;" ::: "memory"); // OTHER
  else
    asm volatile("bar.sync 1, 96;" ::: "memory"); // FOUND
  out[threadIdx.x] = 1;
}

//! block=64: never came
extern "C" __global__ void vote_of_some(int *out, int *raw) {
  int any = 0;
  if (threadIdx.x % 32 < 5)
    any = __syncthreads_or(threadIdx.x); // FOUND
  out[threadIdx.x] = any;
}

//! block=32: all 32 threads of a warp have to execute it together, but lane 16
extern "C" __global__ void half_of_a_warp_multiplies(int *out, int *raw) {
  int d = threadIdx.x;
  if (threadIdx.x >= 16) {
    out[threadIdx.x] = 1;
    asm volatile("exit;");
  }
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(d)); // FOUND
  out[threadIdx.x] = d;
}

//! block=16: all 32 threads of a warp have to execute it together, but lane 16 has ended or never was
extern "C" __global__ void half_a_warp_multiplies(int *out, int *raw) {
  int d = threadIdx.x;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(d)); // FOUND
  out[threadIdx.x] = d;
}

//! block=64
extern "C" __global__ void one_warp_multiplies(int *out, int *raw) {
  int d = threadIdx.x;
  if (threadIdx.x < 32)
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(d));
  out[threadIdx.x] = d;
}
