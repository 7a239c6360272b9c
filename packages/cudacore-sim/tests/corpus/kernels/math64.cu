/* SPDX-License-Identifier: Apache-2.0 */
/* The f64 functions of CUDA C++. Bounds are the errors in the CUDA programming guide. */
#include "rows.cuh"

//! f64 f64(-8,8) -> rows:f64
extern "C" __global__ void f64_trigonometry(const double *a, const double *b, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], s, c;
  ULP(2, sin(x));
  ULP(2, cos(x));
  ULP(2, tan(x));
  ULP(2, sin(y));
  ULP(2, cos(y));
  ULP(2, sinpi(x));
  ULP(2, cospi(y));
  sincos(x, &s, &c);
  ULP(2, s);
  ULP(2, c);
}

//! f64 f64(-1,1) f64 -> rows:f64
extern "C" __global__ void f64_inverse_trigonometry(const double *a, const double *b, const double *c, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], z = c[index];
  ULP(2, asin(y));
  ULP(2, acos(y));
  ULP(2, asin(x));
  ULP(2, acos(x));
  ULP(2, atan(x));
  ULP(2, atan2(x, z));
}

//! f64 f64(-5,5) -> rows:f64
extern "C" __global__ void f64_hyperbolic(const double *a, const double *b, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index];
  ULP(2, sinh(x));
  ULP(1, cosh(x));
  ULP(1, tanh(x));
  ULP(2, sinh(y));
  ULP(1, tanh(y));
  ULP(3, asinh(x));
  ULP(3, acosh(x));
  ULP(2, atanh(x));
  ULP(2, atanh(y * 0.2));
}

//! f64 f64(-600,600) f64(0,1000) -> rows:f64
extern "C" __global__ void f64_exponentials(const double *a, const double *b, const double *c, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], z = c[index];
  ULP(1, exp(x));
  ULP(1, exp(y));
  ULP(1, exp2(y));
  ULP(1, exp10(x));
  ULP(1, expm1(x));
  ULP(1, log(x));
  ULP(1, log(z));
  ULP(1, log2(z));
  ULP(1, log10(z));
  ULP(1, log1p(x));
}

//! f64 f64 f64(0.1,20) f64(-9,9) -> rows:f64
extern "C" __global__ void f64_powers(const double *a, const double *b, const double *c, const double *d, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], p = c[index], q = d[index];
  ULP(2, pow(x, y));
  ULP(2, pow(p, q));
  ULP(1, cbrt(x));
  ULP(1, rcbrt(x));
  ULP(1, rsqrt(x));
  ULP(2, hypot(x, y));
  ULP(1, rhypot(p, q));
  ULP(2, norm3d(p, q, 2));
  ULP(1, rnorm3d(p, q, p));
}

//! f64 f64(-4,5) f64(0.1,7.9) f64(0.001,0.999) -> rows:f64
extern "C" __global__ void f64_special_functions(const double *a, const double *b, const double *c, const double *d,
                                                 u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], z = c[index], p = d[index];
  ULP(2, erf(x));
  ULP(5, erfc(y));
  ULP(5, erfinv(p));
  ULP(6, erfcinv(p));
  ULP(4, erfcx(y));
  ULP(5, normcdf(y));
  ULP(8, normcdfinv(p));
  ULP(10, tgamma(x));
  ULP(10, tgamma(z));
  ULP(4, lgamma(z + 3));
  ULP(7, j0(z));
  ULP(7, j1(z));
  ULP(7, y0(z));
  ULP(7, y1(z));
  ULP(6, cyl_bessel_i0(y));
}

/*
 * The approximations from which divisions and square roots start. Their results have a fraction of 20 bits; the low
 * word is zero.
 */
//! f64 -> rows:f64
extern "C" __global__ void f64_approximate_instructions(const double *a, u64 *out) {
  BEGIN(out);
#define APPROXIMATE(instruction, x)                                                                                    \
  ([](double v) {                                                                                                      \
    double d;                                                                                                          \
    asm(instruction " %0, %1;" : "=d"(d) : "d"(v));                                                                    \
    return d;                                                                                                          \
  })(x)
  ULP(8589934592, APPROXIMATE("rcp.approx.ftz.f64", a[index]));
  ULP(8589934592, APPROXIMATE("rsqrt.approx.ftz.f64", a[index]));
}
