/* SPDX-License-Identifier: Apache-2.0 */
/* nvcuda::wmma: loads, stores and products of fragments, and their distribution over the lanes. */
#include "matrices.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;
using wmma::row_major, wmma::col_major;
using wmma::experimental::precision::s4, wmma::experimental::precision::u4, wmma::experimental::precision::b1;

struct Binary {
  static constexpr int bits = 1;
};
/* For a type of element: its number of bits in memory, and the type of `matrices.cuh` that generates its words. */
template <class Element> struct Kind;
template <class InMemory, class Words = InMemory> struct Made : InMemory {
  using words = Words;
};
template <> struct Kind<__half> : Made<F16> {};
template <> struct Kind<__nv_bfloat16> : Made<BF16> {};
template <> struct Kind<float> : Made<F32> {};
template <> struct Kind<double> : Made<F64> {};
template <> struct Kind<int> : Made<I32> {};
template <> struct Kind<signed char> : Made<I8> {};
template <> struct Kind<unsigned char> : Made<I8> {};
template <> struct Kind<wmma::precision::tf32> : Made<TF32> {};
template <> struct Kind<s4> : Made<I4> {};
template <> struct Kind<u4> : Made<I4> {};
template <> struct Kind<b1> : Made<Binary, B1> {};

/* The type of an element in memory, for pointers. */
template <class Element> struct InMemory {
  using type = Element;
};
template <> struct InMemory<wmma::precision::tf32> {
  using type = float;
};
template <> struct InMemory<b1> {
  using type = u32;
};

template <class Layout> constexpr bool is_row = false;
template <> constexpr bool is_row<row_major> = true;

constexpr int largest = 2560; /* size of the largest matrix in bytes, including padding */

template <class T, class Word>
__device__ __noinline__ void fill_words(Word *words, int count, int operand, int regime, u32 round) {
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += 32)
    words[i] = word_of<T, Word>(operand, regime, round, i);
}
__device__ __noinline__ void clear_words(u32 *words) {
#pragma unroll 1
  for (int i = threadIdx.x; i < largest / 4; i += 32)
    words[i] = 0;
}
__device__ __noinline__ void put_words(Results &results, const u32 *words) {
#pragma unroll 1
  for (int i = threadIdx.x; i < largest / 4; i += 32)
    results.put(words[i]);
}

/* A matrix in shared memory: `lines` lines of `length` elements. The stride of the lines is a multiple of 16 bytes. */
template <class Element> struct Tile {
  u32 *words;
  int stride, count;
  __device__ Tile(u32 *at, int lines, int length, int round) : words(at) {
    constexpr int bits = Kind<Element>::bits, step = bits == 64 ? 4 : 128 / bits;
    stride = (length + step - 1) / step * step + round % 2 * 2 * step;
    count = lines * stride * bits / 32;
  }
  __device__ void fill(int operand, int regime, u32 round) const {
    using Words = typename Kind<Element>::words;
    if constexpr (Words::bits == 64)
      fill_words<Words>(reinterpret_cast<u64 *>(words), count / 2, operand, regime, round);
    else
      fill_words<Words>(words, count, operand, regime, round);
  }
  __device__ auto data() const { return reinterpret_cast<typename InMemory<Element>::type *>(words); }
};

template <class Fragment> __device__ void put(Results &results, const Fragment &fragment) {
  u32 words[sizeof fragment.x / 4];
  memcpy(words, fragment.x, sizeof words);
#pragma unroll
  for (int i = 0; i < int(sizeof words / 4); ++i)
    results.put(words[i]);
}

/* The functions that multiply fragments. */
struct Plain {
  template <class D, class A, class B, class C>
  static __device__ void multiply(D &d, const A &a, const B &b, const C &c) {
    wmma::mma_sync(d, a, b, c);
  }
};
struct Saturating {
  template <class D, class A, class B, class C>
  static __device__ void multiply(D &d, const A &a, const B &b, const C &c) {
    wmma::mma_sync(d, a, b, c, true);
  }
};
template <wmma::experimental::bmmaBitOp Op> struct Bits {
  template <class D, class A, class B, class C>
  static __device__ void multiply(D &d, const A &a, const B &b, const C &c) {
    wmma::bmma_sync(d, a, b, c, Op, wmma::experimental::bmmaAccumulateOpPOPC);
  }
};
using Xor = Bits<wmma::experimental::bmmaBitOpXOR>;
using And = Bits<wmma::experimental::bmmaBitOpAND>;

#ifdef RAW
constexpr int steps = 1;
#else
constexpr int steps = 4;
#endif

template <int M, int N, int K, class ElementA, class ElementD, class ElementC = ElementD> struct Form {
  static constexpr int m = M, n = N, k = K;
  using A = ElementA;
  using B = ElementA;
  using C = ElementC;
  using D = ElementD;
};

template <class Product, class Form, class LayoutA, class LayoutB>
__device__ __noinline__ void products(u32 *out, u32 layouts) {
  constexpr int m = Form::m, n = Form::n, k = Form::k;
  using A = typename Form::A;
  using B = typename Form::B;
  using C = typename Form::C;
  using D = typename Form::D;
  __shared__ alignas(32) u32 memory[4][largest / 4];
#ifdef RAW
  out += layouts * 8 * 1024;
#else
  out += layouts * 32;
#endif
  Results results{out + threadIdx.x};
#pragma unroll 1
  for (u32 turn = 0; turn < regimes; ++turn)
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
      Turn now{turn * rounds + 2 * step + layouts % 2};
      constexpr bool row_a = is_row<LayoutA>, row_b = is_row<LayoutB>;
      const bool row = (now.round / 2 + turn) % 2 == 0;
      const auto layout = row ? wmma::mem_row_major : wmma::mem_col_major;
      Tile<A> a(memory[0], row_a ? m : k, row_a ? k : m, turn);
      Tile<B> b(memory[1], row_b ? k : n, row_b ? n : k, turn / 2);
      Tile<C> c(memory[2], row ? m : n, row ? n : m, turn);
      Tile<D> d(memory[3], row ? m : n, row ? n : m, turn / 2);
      __syncwarp();
      a.fill(0, now.regime(0), now.round + layouts);
      b.fill(1, now.regime(1), now.round + layouts);
      c.fill(2, now.regime(2), now.round + layouts);
      clear_words(d.words);
      __syncwarp();
      wmma::fragment<wmma::matrix_a, m, n, k, A, LayoutA> fa;
      wmma::fragment<wmma::matrix_b, m, n, k, B, LayoutB> fb;
      wmma::fragment<wmma::accumulator, m, n, k, C> fc;
      wmma::fragment<wmma::accumulator, m, n, k, D> fd;
      wmma::load_matrix_sync(fa, a.data(), a.stride);
      wmma::load_matrix_sync(fb, b.data(), b.stride);
      wmma::load_matrix_sync(fc, c.data(), c.stride, layout);
      Product::multiply(fd, fa, fb, fc);
      wmma::store_matrix_sync(d.data(), fd, d.stride, layout);
      __syncwarp();
#ifdef RAW
      results.out = out + turn * 1024 + threadIdx.x * 32;
      put(results, fa), put(results, fb), put(results, fc), put(results, fd);
#else
      put(results, fa), put(results, fb), put(results, fc), put(results, fd);
      put_words(results, d.words);
#endif
    }
#ifndef RAW
  *results.out = results.sum;
#endif
}

template <class Product, class Form> __device__ __forceinline__ void of_both_layouts(u32 *out) {
  products<Product, Form, row_major, row_major>(out, 0);
  products<Product, Form, col_major, col_major>(out, 1);
}

//! -> u32:64 grid=1 block=32
KERNEL(wmma_m16n16k16_f16_f16, of_both_layouts<Plain, Form<16, 16, 16, __half, __half>>(out))
KERNEL(wmma_m16n16k16_f32_f16, of_both_layouts<Plain, Form<16, 16, 16, __half, float>>(out))
KERNEL(wmma_m16n16k16_f32_bf16, of_both_layouts<Plain, Form<16, 16, 16, __nv_bfloat16, float>>(out))
KERNEL(wmma_m16n16k16_s32_s8, of_both_layouts<Plain, Form<16, 16, 16, signed char, int>>(out))
KERNEL(wmma_m16n16k16_s32_u8, of_both_layouts<Plain, Form<16, 16, 16, unsigned char, int>>(out))
KERNEL(wmma_m16n16k16_f32_f16_f16, of_both_layouts<Plain, Form<16, 16, 16, __half, float, __half>>(out))
KERNEL(wmma_m16n16k16_f16_f16_f32, of_both_layouts<Plain, Form<16, 16, 16, __half, __half, float>>(out))
KERNEL(wmma_m32n8k16_f16_f16, of_both_layouts<Plain, Form<32, 8, 16, __half, __half>>(out))
KERNEL(wmma_m32n8k16_f32_f16, of_both_layouts<Plain, Form<32, 8, 16, __half, float>>(out))
KERNEL(wmma_m32n8k16_f32_bf16, of_both_layouts<Plain, Form<32, 8, 16, __nv_bfloat16, float>>(out))
KERNEL(wmma_m32n8k16_s32_s8, of_both_layouts<Plain, Form<32, 8, 16, signed char, int>>(out))
KERNEL(wmma_m8n32k16_f16_f16, of_both_layouts<Plain, Form<8, 32, 16, __half, __half>>(out))
KERNEL(wmma_m8n32k16_f32_f16, of_both_layouts<Plain, Form<8, 32, 16, __half, float>>(out))
KERNEL(wmma_m8n32k16_f32_bf16, of_both_layouts<Plain, Form<8, 32, 16, __nv_bfloat16, float>>(out))
KERNEL(wmma_m8n32k16_s32_s8, of_both_layouts<Plain, Form<8, 32, 16, signed char, int>>(out))
KERNEL(wmma_m16n16k16_f32_f16_row_col, products<Plain, Form<16, 16, 16, __half, float>, row_major, col_major>(out, 0))
KERNEL(wmma_m16n16k16_f32_f16_col_row, products<Plain, Form<16, 16, 16, __half, float>, col_major, row_major>(out, 0))
KERNEL(wmma_m16n16k16_s32_s8_sat, of_both_layouts<Saturating, Form<16, 16, 16, signed char, int>>(out))
KERNEL(wmma_m16n16k16_s32_u8_sat, of_both_layouts<Saturating, Form<16, 16, 16, unsigned char, int>>(out))
KERNEL(wmma_m16n16k8_f32_tf32, of_both_layouts<Plain, Form<16, 16, 8, wmma::precision::tf32, float>>(out))
KERNEL(wmma_m8n8k4_f64, of_both_layouts<Plain, Form<8, 8, 4, double, double>>(out))
KERNEL(wmma_m8n8k32_s32_s4, products<Plain, Form<8, 8, 32, s4, int>, row_major, col_major>(out, 0))
KERNEL(wmma_m8n8k32_s32_s4_sat, products<Saturating, Form<8, 8, 32, s4, int>, row_major, col_major>(out, 0))
KERNEL(wmma_m8n8k32_s32_u4, products<Plain, Form<8, 8, 32, u4, int>, row_major, col_major>(out, 0))
KERNEL(wmma_m8n8k32_s32_u4_sat, products<Saturating, Form<8, 8, 32, u4, int>, row_major, col_major>(out, 0))
KERNEL(wmma_m8n8k128_s32_b1_xor, products<Xor, Form<8, 8, 128, b1, int>, row_major, col_major>(out, 0))
KERNEL(wmma_m8n8k128_s32_b1_and, products<And, Form<8, 8, 128, b1, int>, row_major, col_major>(out, 0))

/* As in real programs, tiles are loaded from larger matrices, and the sum stays in a fragment. */
//! f16(-2,2):4096 f16(-2,2):4096 -> f32:4096 grid=4 block=128
extern "C" __global__ void wmma_of_larger_matrices(const __half *a, const __half *b, float *out) {
  constexpr int size = 64;
  const int row = blockIdx.x * 16, column = threadIdx.x / 32 * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> y;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.1f);
  for (int step = 0; step < size; step += 16) {
    wmma::load_matrix_sync(x, a + row * size + step, size);
    wmma::load_matrix_sync(y, b + column * size + step, size);
    wmma::mma_sync(sum, x, y, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i)
    sum.x[i] = sum.x[i] < 0 ? 0 : sum.x[i] * 0.5f;
  wmma::store_matrix_sync(out + row * size + column, sum, size, wmma::mem_row_major);
}
