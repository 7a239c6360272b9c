/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --fmad=true, the default, lets the compiler fuse products and sums. These kernels leave the compiler no choice: fma()
 * is always fused, and __fmul_rn() is never fused.
 */
//! nvrtc: --fmad=true
#include "rows.cuh"

//! f32 f32 f32 -> rows:f32
extern "C" __global__ void f32_explicit_fma(const float *a, const float *b, const float *c, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index];
  ROW(fmaf(x, y, z));
  ROW(__fadd_rn(__fmul_rn(x, y), z));
  ROW(fmaf(-x, y, fmaf(x, z, y)));
  ROW(__fmul_rn(x, x));
}

/* A dot product of four terms and a polynomial, with fused steps. */
//! f64(-2,2) f64(-1000,1000):1024 -> rows:f64
extern "C" __global__ void f64_explicit_fma(const double *a, const double *b, u64 *out) {
  BEGIN(out);
  double x = a[index], sum = 0;
  for (int i = 0; i < 4; ++i)
    sum = fma(b[4 * index + i], x + i, sum);
  ROW(sum);
  ROW(fma(fma(fma(0.125, x, -0.5), x, 1.0), x, 3.0));
}
