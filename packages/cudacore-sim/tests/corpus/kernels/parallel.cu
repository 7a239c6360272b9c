/* SPDX-License-Identifier: Apache-2.0 */
/* Textbook parallel algorithms, on integers or on floating-point numbers in a fixed order. */
#include "rows.cuh"

//! i32:1000 -> i64:4
extern "C" __global__ void block_reduction(const i32 *a, i64 *out) {
  __shared__ i64 sums[64];
  i64 sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 1000; i += gridDim.x * blockDim.x)
    sum += a[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half)
      sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    out[blockIdx.x] = sums[0];
}

//! i32:1000 -> i32:3 grid=8
extern "C" __global__ void warp_reduction(const i32 *a, i32 *out) {
  i32 sum = 0, low = 0x7fffffff, high = ~low;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 1000; i += gridDim.x * blockDim.x) {
    sum += a[i];
    low = min(low, a[i]);
    high = max(high, a[i]);
  }
  for (int offset = 16; offset > 0; offset /= 2)
    sum += __shfl_down_sync(~0u, sum, offset);
  low = __reduce_min_sync(~0u, low);
  high = __reduce_max_sync(~0u, high);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(out, sum);
    atomicMin(out + 1, low);
    atomicMax(out + 2, high);
  }
}

//! f32(-10,10):256 -> f32:256 grid=1 block=256
extern "C" __global__ void float_scan(const float *a, float *out) {
  __shared__ float t[2][256];
  int i = threadIdx.x, in = 0;
  t[0][i] = a[i];
  __syncthreads();
  for (int d = 1; d < 256; d *= 2) {
    t[1 - in][i] = t[in][i] + (i >= d ? t[in][i - d] : 0);
    in = 1 - in;
    __syncthreads();
  }
  out[i] = t[in][i];
}

/* Blelloch's scan: up and down a tree, in place. */
//! u32:512 -> u32:512 grid=1 block=256
extern "C" __global__ void exclusive_scan(const u32 *a, u32 *out) {
  __shared__ u32 t[512];
  int i = threadIdx.x, step = 1;
  t[2 * i] = a[2 * i];
  t[2 * i + 1] = a[2 * i + 1];
  for (int d = 256; d > 0; d /= 2, step *= 2) {
    __syncthreads();
    if (i < d)
      t[step * (2 * i + 2) - 1] += t[step * (2 * i + 1) - 1];
  }
  if (i == 0)
    t[511] = 0;
  for (int d = 1; d < 512; d *= 2) {
    step /= 2;
    __syncthreads();
    if (i < d) {
      u32 &left = t[step * (2 * i + 1) - 1], &right = t[step * (2 * i + 2) - 1], kept = left;
      left = right;
      right += kept;
    }
  }
  __syncthreads();
  out[2 * i] = t[2 * i];
  out[2 * i + 1] = t[2 * i + 1];
}

//! u8:5000 -> u32:256
extern "C" __global__ void histogram(const u8 *a, u32 *out) {
  __shared__ u32 bins[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 5000; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[a[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    atomicAdd(out + i, bins[i]);
}

//! i32:512 -> i32:512 grid=1 block=256
extern "C" __global__ void bitonic_sort(const i32 *a, i32 *out) {
  __shared__ i32 t[512];
  int i = threadIdx.x;
  t[i] = a[i];
  t[i + 256] = a[i + 256];
  for (int size = 2; size <= 512; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      int at = 2 * i - (i & (stride - 1));
      bool up = (at & size) == 0;
      if ((t[at] > t[at + stride]) == up) {
        i32 kept = t[at];
        t[at] = t[at + stride];
        t[at + stride] = kept;
      }
    }
  __syncthreads();
  out[i] = t[i];
  out[i + 256] = t[i + 256];
}

/* A radix sort by one bit at a time. Ballots determine the new positions. */
//! u32:64 -> u32:64 grid=1 block=64
extern "C" __global__ void radix_sort(const u32 *a, u32 *out) {
  __shared__ u32 keys[64], ones[2];
  int i = threadIdx.x, lane = i % 32, warp = i / 32;
  u32 key = a[i];
  for (int bit = 0; bit < 32; ++bit) {
    u32 votes = __ballot_sync(~0u, key >> bit & 1);
    if (lane == 0)
      ones[warp] = __popc(votes);
    __syncthreads();
    u32 before = __popc(votes & ((1u << lane) - 1)) + (warp ? ones[0] : 0), zeros = 64 - ones[0] - ones[1];
    keys[key >> bit & 1 ? zeros + before : i - before] = key;
    __syncthreads();
    key = keys[i];
  }
  out[i] = key;
}

//! f32(-1,1):1600 f32(-1,1):1600 -> f32:1600 grid=9 block=256
extern "C" __global__ void tiled_matrix_product(const float *a, const float *b, float *out) {
  constexpr int n = 40, side = 16;
  __shared__ float s[side][side], t[side][side + 1];
  int x = threadIdx.x % side, y = threadIdx.x / side;
  int column = blockIdx.x % 3 * side + x, row = blockIdx.x / 3 * side + y;
  float sum = 0;
  for (int k = 0; k < n; k += side) {
    s[y][x] = row < n && k + x < n ? a[row * n + k + x] : 0;
    t[y][x] = column < n && k + y < n ? b[(k + y) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < side; ++i)
      sum = fmaf(s[y][i], t[i][x], sum);
    __syncthreads();
  }
  if (row < n && column < n)
    out[row * n + column] = sum;
}

//! f64(-1,1):256 f64(-1,1):256 -> f64:256 grid=1 block=256
extern "C" __global__ void f64_matrix_product(const double *a, const double *b, double *out) {
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
  double sum = 0;
#pragma unroll
  for (int k = 0; k < 16; ++k)
    sum += a[16 * y + k] * b[16 * k + x];
  out[threadIdx.x] = sum;
}

//! u16:1024 -> u16:1024 grid=4 block=256
extern "C" __global__ void transposition(const u16 *a, u16 *out) {
  __shared__ u16 tile[16][17];
  int x = threadIdx.x % 16, y = threadIdx.x / 16, bx = blockIdx.x % 2 * 16, by = blockIdx.x / 2 * 16;
  tile[y][x] = a[(by + y) * 32 + bx + x];
  __syncthreads();
  out[(bx + y) * 32 + by + x] = tile[x][y];
}

//! f32(0,100):1024 -> f32:1024 grid=4 block=256
extern "C" __global__ void heat_stencil(const float *a, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, x = i % 32, y = i / 32;
  float here = a[i];
  float left = x ? a[i - 1] : here, right = x < 31 ? a[i + 1] : here;
  float above = y ? a[i - 32] : here, below = y < 31 ? a[i + 32] : here;
  out[i] = here + 0.2f * (left + right + above + below - 4 * here);
}

/* Each of three blocks keeps its third of a row, and the values next to that third, in dynamic shared memory. */
//! f32(-1,1):300 f32(-1,1):9 -> f32:300 grid=3 block=100 shared=432
extern "C" __global__ void convolution(const float *a, const float *weights, float *out) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int j = threadIdx.x; j < 108; j += blockDim.x) {
    int from = blockIdx.x * 100 + j - 4;
    tile[j] = from >= 0 && from < 300 ? a[from] : 0;
  }
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 9; ++k)
    sum += weights[k] * tile[threadIdx.x + k];
  out[i] = sum;
}

//! u32(0,6):257 u32(0,256):1500 f32(-9,9):1500 f32(-9,9) -> f32
extern "C" __global__ void sparse_product(const u32 *lengths, const u32 *columns, const float *values, const float *x,
                                          float *out) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  u32 begin = 0;
  for (int i = 0; i < row; ++i)
    begin += lengths[i];
  float sum = 0;
  for (u32 i = begin; i < begin + lengths[row]; ++i)
    sum = fmaf(values[i % 1500], x[columns[i % 1500]], sum);
  out[row] = sum;
}

//! f64(-2,1) f64(-1.2,1.2) -> u32
extern "C" __global__ void mandelbrot(const double *a, const double *b, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  double x = 0, y = 0;
  u32 steps = 0;
  for (; steps < 500 && x * x + y * y < 4; ++steps) {
    double next = x * x - y * y + a[index];
    y = 2 * x * y + b[index];
    x = next;
  }
  out[index] = steps;
}

//! u8(0,2):1024 -> u8:1024 grid=4 block=256
extern "C" __global__ void game_of_life(const u8 *a, u8 *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, x = i % 32, y = i / 32, neighbours = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx)
      if (dx || dy)
        neighbours += a[(y + dy & 31) * 32 + (x + dx & 31)];
  out[i] = neighbours == 3 || (a[i] && neighbours == 2);
}

/* Odd-even sort: even and odd pairs take turns. The kernel also tests barriers that vote or count. */
//! i32:128 -> i32:128 u32:2 grid=1 block=128
extern "C" __global__ void odd_even_sort(const i32 *a, i32 *out, u32 *rounds) {
  __shared__ i32 t[128];
  int i = threadIdx.x, round = 0;
  t[i] = a[i];
  __syncthreads();
  int swapped = 1;
  while (swapped) {
    swapped = 0;
    for (int parity = 0; parity < 2; ++parity) {
      int at = 2 * i + parity;
      if (at + 1 < 128 && t[at] > t[at + 1]) {
        i32 kept = t[at];
        t[at] = t[at + 1];
        t[at + 1] = kept;
        swapped = 1;
      }
      __syncthreads();
    }
    ++round;
    swapped = __syncthreads_or(swapped);
  }
  out[i] = t[i];
  int positive = __syncthreads_count(t[i] > 0);
  int all = __syncthreads_and(t[i] >= t[0]);
  if (i == 0) {
    rounds[0] = round;
    rounds[1] = positive * 2 + all;
  }
}

/* The block that finishes last adds up the results of all blocks. */
__device__ u32 finished;
__device__ u64 partial[4];

//! u32:256 -> u64:1
extern "C" __global__ void last_block_sums(const u32 *a, u64 *out) {
  __shared__ u64 sum;
  __shared__ bool last;
  if (threadIdx.x == 0)
    sum = 0;
  __syncthreads();
  atomicAdd(&sum, u64(a[blockIdx.x * blockDim.x + threadIdx.x]));
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    u64 total = 0;
    for (int i = 0; i < gridDim.x; ++i)
      total += *(volatile u64 *)&partial[i];
    *out = total;
  }
}
