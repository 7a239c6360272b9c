/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of memory that was never written, where the value matters or not. `planted.py` explains the marks. */

#define ZERO out[1000] /* 0, which the compiler cannot assume */

/* The uninitialized value is compared, but the result does not depend on the comparison. */
//! block=32
extern "C" __global__ void compared_for_nothing_right(int *out, int *raw) {
  int result;
  asm volatile("{ .reg .pred p, q, r; .reg .b32 x;\n"
               "ld.global.u32 x, [%1];\n"
               "setp.lt.s32 p, x, 5;\n"
               "setp.ne.s32 q, %2, 0;\n" /* false */
               "and.pred r, p, q;\n"
               "not.pred p, r;\n"
               "or.pred r, q, p;\n"
               "selp.b32 %0, 1, x, r; }"
               : "=r"(result)
               : "l"(raw + threadIdx.x), "r"(ZERO));
  out[threadIdx.x] = result;
}

//! block=32: used at
extern "C" __global__ void compared_with_effect(int *out, int *raw) {
  int result;
  asm volatile("{ .reg .pred p, q, r; .reg .b32 x;\n"
               "ld.global.u32 x, [%1];\n" // FOUND
               "setp.lt.s32 p, x, 5;\n"
               "setp.eq.s32 q, %2, 0;\n" /* true */
               "and.pred r, p, q;\n"
               "selp.b32 %0, 1, 2, r; }"
               : "=r"(result)
               : "l"(raw + threadIdx.x), "r"(ZERO));
  out[threadIdx.x] = result; // FOUND
}

/* Reads one item more than it uses, as CUB's merge sorts do. */
//! block=32
extern "C" __global__ void read_ahead_right(int *out, int *raw) {
  __shared__ int tile[33];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int sum = 0, next = tile[threadIdx.x];
#pragma unroll 1
  for (int i = threadIdx.x; i < 32; ++i) {
    sum += next;
    next = tile[i + 1];
  }
  out[threadIdx.x] = sum;
}

//! block=32: in shared memory: 'one_more::tile' + 128, used at
extern "C" __global__ void one_more(int *out, int *raw) {
  __shared__ int tile[33];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int sum = 0, next = tile[threadIdx.x];
#pragma unroll 1
  for (int i = threadIdx.x; i <= 32; ++i) {
    sum += next;
    next = tile[(i + 1) % 33]; // FOUND
  }
  out[threadIdx.x] = sum; // FOUND
}

//! block=32: used at
extern "C" __global__ void branch(int *out, int *raw) {
  __shared__ volatile int tile[32];
  if (tile[threadIdx.x] > ZERO) // FOUND
    __nanosleep(1);
}

//! block=32: used at
extern "C" __global__ void address(int *out, int *raw) {
  __shared__ int tile[32];
  out[0] = out[100 + tile[threadIdx.x]]; // FOUND
}

//! block=32: used at
extern "C" __global__ void other_threads(int *out, int *raw) {
  __shared__ int tile[32];
  int mine = tile[threadIdx.x];                    // FOUND
  out[threadIdx.x] = __shfl_xor_sync(~0, mine, 1); // FOUND
}

__device__ __noinline__ int twice(int x) { return 2 * x; } // FOUND in argument

/* Passing a value to a function stores it to the frame. */
//! block=32: used at
extern "C" __global__ void argument(int *out, int *raw) {
  __shared__ int tile[32];
  out[threadIdx.x] = twice(tile[threadIdx.x]); // FOUND
}

//! block=32
extern "C" __global__ void loaded_for_nothing_right(int *out, int *raw) {
  __shared__ volatile int tile[32];
  int ignored = tile[threadIdx.x];
  asm volatile("" ::"r"(ignored));
  ignored = 1;
  out[threadIdx.x] = ignored;
}
