/* SPDX-License-Identifier: Apache-2.0 */
/* The f32 functions of CUDA C++ and the fast intrinsics. Bounds are the errors in the CUDA programming guide. */
#include "rows.cuh"

//! f32 f32(-8,8) -> rows:f32
extern "C" __global__ void f32_trigonometry(const float *a, const float *b, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], s, c;
  ULP(2, sinf(x), cosf(x));
  ULP(4, tanf(x));
  ULP(2, sinf(y), cosf(y));
  ULP(1, sinpif(x), cospif(y));
  sincosf(x, &s, &c);
  ULP(2, s, c);
  sincospif(y, &s, &c);
  ULP(1, s, c);
}

//! f32 f32(-1,1) f32 -> rows:f32
extern "C" __global__ void f32_inverse_trigonometry(const float *a, const float *b, const float *c, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index];
  ULP(2, asinf(y), acosf(y), asinf(x), acosf(x), atanf(x));
  ULP(3, atan2f(x, z), atan2f(y, z));
}

//! f32 f32(-5,5) -> rows:f32
extern "C" __global__ void f32_hyperbolic(const float *a, const float *b, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index];
  ULP(3, sinhf(x));
  ULP(2, coshf(x), tanhf(x));
  ULP(3, sinhf(y));
  ULP(2, coshf(y), tanhf(y));
  ULP(3, asinhf(x));
  ULP(4, acoshf(x));
  ULP(3, atanhf(x), atanhf(y * 0.2f));
}

//! f32 f32(-80,80) f32(0,1000) -> rows:f32
extern "C" __global__ void f32_exponentials(const float *a, const float *b, const float *c, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index];
  ULP(2, expf(x), expf(y), exp2f(x), exp2f(y), exp10f(x));
  ULP(1, expm1f(x), expm1f(y), logf(x), logf(z), log2f(x), log2f(z));
  ULP(2, log10f(z));
  ULP(1, log1pf(x), log1pf(z));
}

//! f32 f32 f32(0.1,20) f32(-9,9) -> rows:f32
extern "C" __global__ void f32_powers(const float *a, const float *b, const float *c, const float *d, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], p = c[index], q = d[index];
  ULP(4, powf(x, y), powf(p, q), powf(x, 3));
  ULP(1, cbrtf(x), rcbrtf(x));
  ULP(2, rsqrtf(x));
  ULP(3, hypotf(x, y), hypotf(p, q));
  ULP(2, rhypotf(p, q));
  ULP(3, norm3df(p, q, 2), norm4df(p, q, 2, x));
  ULP(2, rnorm3df(p, q, p), rnorm4df(p, q, p, 1));
}

/* Arguments of Bessel functions are below 8: for larger ones, the guide documents an absolute error. */
//! f32 f32(-4,5) f32(0.1,7.9) f32(0.001,0.999) -> rows:f32
extern "C" __global__ void f32_special_functions(const float *a, const float *b, const float *c, const float *d,
                                                 u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index], p = d[index];
  ULP(2, erff(x), erff(y));
  ULP(4, erfcf(x), erfcf(y));
  ULP(2, erfinvf(p));
  ULP(4, erfcinvf(p), erfcxf(y));
  ULP(5, normcdff(y), normcdfinvf(p), tgammaf(x), tgammaf(z));
  ULP(6, lgammaf(z));
  ULP(9, j0f(z), j1f(z), y0f(z), y1f(z));
  ULP(6, cyl_bessel_i0f(y), cyl_bessel_i1f(y));
}

/* If an error bound depends on the argument, the bound at the end of the argument's range is used. */
//! f32(-3.14,3.14) f32(-8,8) f32(0.5,2) f32(0.01,500) f32 -> rows:f32
extern "C" __global__ void f32_fast_functions(const float *a, const float *b, const float *c, const float *d,
                                              const float *e, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index], w = d[index], any = e[index];
  ABS(0x1.81p-22, __sinf(x));
  ABS(0x1.c0p-22, __cosf(x));
  ULP(11, __expf(y));
  ULP(25, __exp10f(y));
  ABS(0x1.81p-22, __logf(z));
  ULP(3, __logf(w + 2.1f));
  ABS(0x1p-22, __log2f(z));
  ULP(2, __log2f(w + 2.1f));
  ABS(0x1p-24, __log10f(z));
  ULP(3, __log10f(w + 2.1f));
  ULP(2, __fdividef(y, w));
  ULP(8, __powf(z, x));
  ROW(__frsqrt_rn(any));
  ULP(2, __fdividef(1, any));
}

/* Instructions that compute approximations. Bounds are the largest relative errors in the PTX manual, as ULP. */
//! f32 f32(-3.14,3.14) f32 -> rows:f32
extern "C" __global__ void f32_approximate_instructions(const float *a, const float *b, const float *c, u32 *out) {
  BEGIN(out);
#define APPROXIMATE(instruction) PTX1(float, "f", float, "f", instruction)
  float x = a[index], y = b[index], quotient;
  ULP(1, APPROXIMATE("rcp.approx.f32")(x), APPROXIMATE("rcp.approx.ftz.f32")(x));
  ULP(2, APPROXIMATE("rsqrt.approx.f32")(x), APPROXIMATE("rsqrt.approx.ftz.f32")(x), APPROXIMATE("sqrt.approx.f32")(x),
      APPROXIMATE("sqrt.approx.ftz.f32")(x), APPROXIMATE("ex2.approx.f32")(x), APPROXIMATE("ex2.approx.ftz.f32")(x),
      APPROXIMATE("lg2.approx.f32")(fabsf(x) + 2.1f));
  ABS(0x1.6ap-21, APPROXIMATE("sin.approx.f32")(y), APPROXIMATE("cos.approx.f32")(y));
  ULP(4096, APPROXIMATE("tanh.approx.f32")(y));
  asm("div.approx.f32 %0, %1, %2;" : "=f"(quotient) : "f"(x), "f"(y));
  ULP(2, quotient);
  asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(x), "f"(c[index]));
  ULP(2, quotient);
}
