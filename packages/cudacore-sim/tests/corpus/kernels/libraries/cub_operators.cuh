/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of CUB's collectives. */
#pragma once
#include "rows.cuh"
#include <cuda/functional>
#include <cuda/std/functional>

constexpr int threads = 64;
using Plus = cuda::std::plus<>;
using Largest = cuda::maximum<>;
using Smallest = cuda::minimum<>;

/* A map x -> ax + b. The composition of maps is not commutative. */
struct Affine {
  u32 a, b;
};
struct Compose {
  __device__ Affine operator()(const Affine &f, const Affine &g) const { return {f.a * g.a, g.a * f.b + g.b}; }
};
struct Greater {
  template <class T> __device__ bool operator()(const T &a, const T &b) const { return a > b; }
};
