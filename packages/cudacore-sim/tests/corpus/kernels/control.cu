/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow in which the threads of a warp diverge and converge again. */
#include "rows.cuh"

//! u32 -> u32
extern "C" __global__ void nested_loops(const u32 *a, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 x = a[index], sum = 0;
  for (u32 i = 0; i < (x & 15); ++i) {
    if (i % 3 == 1)
      continue;
    for (u32 j = i; j < 20; j += 1 + (x >> 28)) {
      if ((x ^ j) % 7 == 0)
        break;
      sum += i * j + (sum & 3 ? x >> j : j);
    }
    if (sum > 1u << 31)
      break;
  }
  out[index] = sum;
}

//! i32 u32(0,40) -> i32
extern "C" __global__ void switches(const i32 *a, const u32 *b, i32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  i32 x = a[index], y = 0;
  switch (b[index]) {
  case 0:
    y = x;
    break;
  case 1:
    y = -x;
  case 2:
    y += 17;
    break;
  case 3:
    y = x >> 3;
    break;
  case 4:
    y = __popc(x);
    break;
  case 5:
    y = x / 3;
    break;
  case 6:
    for (int i = 0; i < 5; ++i)
      y ^= x + i;
    break;
  case 7:
    y = x * x;
    break;
  case 1000:
    y = 1;
    break;
  case 20:
  case 21:
  case 23:
    y = x + 20;
    break;
  default:
    y = ~x;
  }
  out[index] = y;
}

//! u32(1,100000) -> u32
extern "C" __global__ void collatz(const u32 *a, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u64 n = a[index];
  u32 steps = 0;
  while (n != 1) {
    n = n & 1 ? 3 * n + 1 : n / 2;
    ++steps;
  }
  out[index] = steps;
}

/* Returns in the middle of loops, and goto. */
__device__ __noinline__ u32 first_divisor(u32 n) {
  if (n < 2)
    return 0;
  for (u32 d = 2; d * d <= n; ++d)
    if (n % d == 0)
      return d;
  return n;
}

//! u32(0,5000) -> u32
extern "C" __global__ void early_returns(const u32 *a, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 x = a[index], tries = 0;
again:
  u32 d = first_divisor(x);
  if (d > 1 && d < x && tries < 6) {
    x = x / d + 1;
    ++tries;
    goto again;
  }
  if (tries == 5)
    return;
  out[index] = tries << 16 | x;
}

/* Duff's device: entering a loop in its middle. */
//! u32(1,24) u32 -> u32
extern "C" __global__ void jumps_into_loops(const u32 *a, const u32 *b, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 count = a[index], x = b[index], sum = 0, rounds = (count + 3) / 4;
  switch (count % 4) {
  case 0:
    do {
      sum = sum * 31 + x;
    case 3:
      sum = sum * 33 + 1;
    case 2:
      sum ^= x >> 3;
    case 1:
      sum += sum >> 7;
    } while (--rounds > 0);
  }
  out[index] = sum;
}

__device__ __noinline__ u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ u32 odd(u32 n);
__device__ __noinline__ u32 even(u32 n) { return n == 0 ? 1 : odd(n - 1) * 3; }
__device__ __noinline__ u32 odd(u32 n) { return n == 0 ? 2 : even(n - 1) + 1; }
__device__ __noinline__ u32 ackermann(u32 m, u32 n) {
  return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

//! u32(0,14) -> rows:u32
extern "C" __global__ void recursion(const u32 *a, u32 *out) {
  BEGIN(out);
  u32 n = a[index];
  ROW(fibonacci(n));
  ROW(even(n * 2 + (index & 1)));
  ROW(ackermann(n % 3, n));
}

__device__ __noinline__ i32 add_one(i32 x) { return x + 1; }
__device__ __noinline__ i32 twice(i32 x) { return 2 * x; }
__device__ __noinline__ i32 negate(i32 x) { return -x; }
__device__ __noinline__ i32 looping(i32 x) {
  for (int i = 0; i < (x & 7); ++i)
    x = x * 3 + i;
  return x;
}
typedef i32 (*Function)(i32);
__device__ Function functions[4] = {add_one, twice, negate, looping};
__constant__ Function constant_functions[2] = {twice, looping};

//! i32 u32 -> i32
extern "C" __global__ void function_pointers(const i32 *a, const u32 *b, i32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 which = b[index];
  i32 x = functions[which & 3](a[index]);
  x = constant_functions[which >> 2 & 1](x);
  Function f = which & 8 ? add_one : negate;
  out[index] = f(x);
}

struct Shape {
  i32 a;
  __device__ Shape(i32 a) : a(a) {}
  __device__ virtual i32 area() const = 0;
  __device__ virtual i32 twice() const { return 2 * area(); }
};
struct Square : Shape {
  __device__ Square(i32 a) : Shape(a) {}
  __device__ i32 area() const override { return a * a; }
};
struct Box : Square {
  i32 b;
  __device__ Box(i32 a, i32 b) : Square(a), b(b) {}
  __device__ i32 area() const override { return a * b; }
  __device__ i32 twice() const override { return Square::area() - b; }
};

//! i32 i32 -> i32
extern "C" __global__ void virtual_calls(const i32 *a, const i32 *b, i32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  Square square(a[index]);
  Box box(a[index], b[index]);
  const Shape *shapes[2] = {&square, &box};
  const Shape *one = shapes[(a[index] ^ b[index]) & 1];
  out[index] = one->area() + one->twice();
}

/* Recursion: each thread sorts eight numbers. */
__device__ __noinline__ void sort_part(i32 *x, int low, int high) {
  if (low >= high)
    return;
  i32 pivot = x[(low + high) / 2];
  int i = low, j = high;
  while (i <= j) {
    while (x[i] < pivot)
      ++i;
    while (x[j] > pivot)
      --j;
    if (i <= j) {
      i32 t = x[i];
      x[i++] = x[j];
      x[j--] = t;
    }
  }
  sort_part(x, low, j);
  sort_part(x, i, high);
}

//! i32:1024 -> i32:1024 grid=2
extern "C" __global__ void quicksort(const i32 *a, i32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  i32 *own = out + 8 * index;
  for (int i = 0; i < 8; ++i)
    own[i] = a[8 * index + i];
  sort_part(own, 0, 7);
}

/* The odd threads of each warp return early, after a write to global memory. */
//! i32 -> i32
extern "C" __global__ void some_leave(const i32 *a, i32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  out[index] = a[index];
  if (index & 1)
    return;
  __shared__ i32 sum[64];
  sum[threadIdx.x] = a[index];
  for (int i = 0; i < (a[index] & 3); ++i)
    sum[threadIdx.x] += i;
  if (a[index] & 4) {
    asm volatile("exit;");
  }
  out[index] = sum[threadIdx.x] * 2;
}
