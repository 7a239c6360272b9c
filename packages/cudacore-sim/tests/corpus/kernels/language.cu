/* SPDX-License-Identifier: Apache-2.0 */
/* Features of C++: templates, structs, unions, lambdas, arrays, variables with initialisers, the heap. */
#include "rows.cuh"

template <int N, class T> struct Power {
  static __device__ T of(T x) { return x * Power<N - 1, T>::of(x); }
};
template <class T> struct Power<0, T> {
  static __device__ T of(T) { return 1; }
};
template <class... Types> __device__ u64 add_all(Types... values) { return (u64(values) + ...); }
template <class T, class F> __device__ T fold(const T *x, int n, T start, F f) {
  for (int i = 0; i < n; ++i)
    start = f(start, x[i]);
  return start;
}
struct Multiply {
  u32 by;
  __device__ u32 operator()(u32 a, u32 b) const { return a * by + b; }
};

//! u32:1024 -> rows:u64
extern "C" __global__ void templates_and_lambdas(const u32 *a, u64 *out) {
  BEGIN(out);
  const u32 *own = a + 4 * index;
  u32 captured = own[3] | 1;
  ROW((Power<5, u32>::of(own[0])));
  ROW((Power<3, i64>::of(i32(own[1]))));
  ROW(add_all(own[0], i8(own[1]), own[2] * 1ull, true));
  ROW(fold(own, 4, 7u, Multiply{captured}));
  ROW(fold(own, 4, 0u, [=](u32 s, u32 v) { return (s ^ v) * captured; }));
  ROW(fold(own, 4, 0u, [&](u32 s, u32 v) { return s + (captured ^= v); }));
  ROW(captured);
  if constexpr (sizeof(long) == 8)
    ROW(own[0] + 1);
}

struct Inner {
  i8 tag;
  double value;
  i16 counts[3];
};
struct alignas(16) Outer {
  i32 id;
  Inner inner[2];
  float weights[4];
  i64 last;
};
struct Small {
  u8 a, b, c;
};

/* Structs of 80 and of 3 bytes as kernel parameters, with padding, arrays and nested structs. */
//! =i32:20 =u8:3 u32 -> rows:u64
extern "C" __global__ void structs_by_value(Outer s, Small t, const u32 *a, u64 *out) {
  BEGIN(out);
  static_assert(sizeof(Outer) == 80 && sizeof(Small) == 3, "the parameters that are given");
  u32 x = a[index];
  ROW(s.id);
  ROW(s.inner[x & 1].tag);
  ROW(s.inner[x & 1].value);
  ROW(s.inner[x >> 1 & 1].counts[x % 3]);
  ROW(s.weights[x & 3]);
  ROW(s.last);
  ROW(t);
  s.inner[x & 1].counts[1] = x;
  Outer copy = s;
  copy.last += copy.inner[0].counts[1];
  ROW(copy.last);
}

struct Complex {
  float re, im;
  __device__ Complex operator*(Complex o) const {
    return {__fmul_rn(re, o.re) - __fmul_rn(im, o.im), __fmul_rn(re, o.im) + __fmul_rn(im, o.re)};
  }
};
__device__ __noinline__ Complex power(Complex x, u32 n) {
  Complex result{1, 0};
  for (; n; n >>= 1, x = x * x)
    if (n & 1)
      result = result * x;
  return result;
}
struct Many {
  i32 v[9];
};
__device__ __noinline__ Many rotate(Many m, int by) {
  Many r;
  for (int i = 0; i < 9; ++i)
    r.v[i] = m.v[(i + by) % 9];
  return r;
}

/* Structs as arguments and results of functions that are not inlined. */
//! f32(-2,2):512 u32(0,9) -> rows:u64
extern "C" __global__ void structs_of_functions(const Complex *a, const u32 *b, u64 *out) {
  BEGIN(out);
  ROW(power(a[index], b[index]));
  Many m;
  for (int i = 0; i < 9; ++i)
    m.v[i] = i * i + index;
  Many r = rotate(m, b[index]);
  ROW(r.v[0]);
  ROW(r.v[b[index]] - r.v[8]);
}

//! i32:1024 f32:512 f64:512 u8:1024 i16:1024 -> rows:u64
extern "C" __global__ void vector_types(const int4 *a, const float2 *b, const double2 *c, const uchar4 *d,
                                        const short4 *e, u64 *out) {
  BEGIN(out);
  int4 v = a[index];
  float2 f = b[index];
  double2 w = c[index];
  uchar4 bytes = d[index];
  short4 shorts = e[index];
  ROW(v.x + 2 * v.y - v.z ^ v.w);
  ROW(make_float2(f.y, -f.x));
  ROW(fmax(w.x, w.y));
  ROW(bytes.x + bytes.y * 3 + bytes.z * 5 + bytes.w * 7);
  ROW(make_short4(shorts.w, shorts.z, shorts.y, shorts.x));
  ROW(make_uchar4(bytes.w, bytes.x, v.x, shorts.x));
  ROW(make_int2(v.z, v.x));
  ROW(make_longlong1(i64(v.x) * v.y));
}

/* Arrays in local memory: the indices are known only at run time. */
//! u32:1 u32 -> u32
extern "C" __global__ void local_arrays(const u32 *, const u32 *a, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  u32 x = a[index], table[16];
  u8 bytes[33];
  for (int i = 0; i < 16; ++i)
    table[i] = x * (i + 1);
  for (int i = 0; i < 33; ++i)
    bytes[i] = x >> (i % 25);
  u32 sum = 0;
  for (int i = 0; i < 20; ++i) {
    table[x & 15] ^= sum + bytes[x % 33];
    sum += table[(x >> 4) & 15];
    x = x * 1664525 + 1013904223;
  }
  out[index] = sum;
}

__constant__ u32 primes[6] = {2, 3, 5, 7, 11, 13};
__constant__ struct {
  i8 c;
  double d;
  i16 h[2];
} mixed = {-5, 2.5, {-300, 301}};
__device__ i32 numbers[4] = {10, -20, 30};
__device__ float scale = 1.25f;
__device__ u32 *address_of_third = (u32 *)&numbers[2];
__device__ const char *const text = "initialised";
__device__ i64 big = -0x123456789abcdefll;
static __device__ u8 grid_of_bytes[3][5] = {{1, 2}, {3, 4, 5, 6, 7}};
__constant__ const i32 *pointers[2] = {&numbers[1], &numbers[3]};

//! u32 -> rows:u64
extern "C" __global__ void initialised_variables(const u32 *a, u64 *out) {
  BEGIN(out);
  u32 x = a[index];
  ROW(primes[x % 6]);
  ROW(mixed.c + mixed.h[x & 1]);
  ROW(mixed.d);
  ROW(numbers[x & 3]);
  ROW(scale * (x & 7));
  ROW(*address_of_third);
  ROW(text[x % 12]);
  ROW(big >> (x & 31));
  ROW(grid_of_bytes[x % 3][x % 5]);
  ROW(*pointers[x & 1]);
}

/* Volatile variables: each thread writes its own element, and reads it again. */
__device__ volatile u32 scratch[256];

//! u32 -> u32
extern "C" __global__ void volatile_variables(const u32 *a, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  scratch[index] = a[index];
  scratch[index] = scratch[index] + scratch[index];
  volatile u32 local = scratch[index];
  local += 5;
  out[index] = local;
}

union Bits {
  double d;
  u64 l;
  u32 w[2];
  u16 h[4];
  i8 b[8];
};

//! f64 u32 f32 -> rows:u64
extern "C" __global__ void unions_and_casts(const double *a, const u32 *b, const float *c, u64 *out) {
  BEGIN(out);
  Bits bits;
  bits.d = a[index];
  u32 x = b[index];
  ROW(bits.w[x & 1]);
  ROW(bits.h[x & 3]);
  ROW(i32(bits.b[x & 7]));
  bits.h[x & 3] = x;
  ROW(bits.l);
  ROW(__float_as_uint(c[index]));
  ROW(__uint_as_float(x));
  ROW(__double_as_longlong(a[index]) >> 52);
  ROW(__longlong_as_double(i64(x) << 40 | x));
  ROW(reinterpret_cast<const u8 *>(c)[index]);
  struct {
    u32 low : 5, middle : 13;
    i32 high : 14;
  } fields;
  memcpy(&fields, &x, 4);
  ROW(fields.low + fields.middle * 2);
  ROW(fields.high);
  fields.middle = x >> 3;
  memcpy(&x, &fields, 4);
  ROW(x);
}

/* Each thread builds a list in the heap of the device, walks it and frees it. */
struct Node {
  u32 value;
  Node *next;
};

//! u32(0,12) -> u32
extern "C" __global__ void heap_lists(const u32 *a, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  Node *first = nullptr;
  for (u32 i = 0; i < a[index]; ++i) {
    Node *node = i & 1 ? new Node : (Node *)malloc(sizeof(Node));
    node->value = i * i + index;
    node->next = first;
    first = node;
  }
  u32 sum = 0, place = 1;
  for (Node *node = first; node;) {
    sum += node->value * place++;
    Node *next = node->next;
    free(node);
    node = next;
  }
  out[index] = sum;
}

/* Address arithmetic with offsets of more than 32 bits, which cancel out. */
//! u32 -> u32
extern "C" __global__ void wide_indices(const u32 *a, u32 *out) {
  i64 index = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  i64 far = (i64(1) << 33) + index * 3;
  const u32 *from = a + far;
  from -= (i64(1) << 33) + 2 * index;
  u64 bytes = u64(index) * sizeof(u32);
  *(u32 *)((char *)out + bytes) = *from + u32(far >> 31);
}

/* Accesses of different widths to the same memory. */
//! u8:1024 -> u8:1024 u64:128
extern "C" __global__ void mixed_widths(const u8 *a, u8 *out, u64 *sums) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= 64)
    return;
  uint4 v = ((const uint4 *)a)[index];
  const i8 *bytes = (const i8 *)a + 16 * index;
  const i16 *halves = (const i16 *)bytes;
  i64 sum = 0;
  for (int i = 0; i < 16; ++i)
    sum = sum * 3 + bytes[i] - (i < 8 ? halves[i] : 0);
  ((uint2 *)out)[2 * index] = make_uint2(v.w, v.y);
  ((u16 *)out)[8 * index + 4] = v.x;
  out[16 * index + 10] = v.z >> 24;
  ((float *)out)[4 * index + 3] = __uint_as_float(v.x ^ v.z);
  sums[2 * index] = sum;
  sums[2 * index + 1] = __ldg((const u64 *)a + 2 * index + 1);
}

/* memset and memcpy with sizes that are unknown at compile time. */
//! u8:512 u32(0,32) -> u8:2048 u32:64
extern "C" __global__ void memory_functions(const u8 *a, const u32 *n, u8 *out, u32 *differences) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= 64)
    return;
  u8 *own = out + 32 * index;
  memset(own, index, 32);
  memcpy(own + (n[index] & 3), a + 7 * index, n[index] & 28);
  u8 local[12];
  memcpy(local, own, sizeof local);
  u32 difference = 0;
  for (int i = 0; i < 12; ++i)
    difference = difference * 5 + (local[i] != a[i]);
  differences[index] = difference;
}

/* Two arrays in dynamic shared memory, and one in static shared memory. */
//! u32 u16 -> u32 block=64 shared=640
extern "C" __global__ void dynamic_shared(const u32 *a, const u16 *b, u32 *out) {
  extern __shared__ u64 memory[];
  __shared__ u32 fixed[64];
  int i = threadIdx.x, index = blockIdx.x * blockDim.x + i;
  u32 *words = (u32 *)memory;
  u16 *halves = (u16 *)(words + 64);
  words[i] = a[index];
  halves[63 - i] = b[index];
  fixed[i ^ 1] = index;
  __syncthreads();
  u64 wide = memory[i / 2];
  out[index] = u32(wide >> 32) + halves[i] * 3 + fixed[i] + words[63 - i];
}
