/* SPDX-License-Identifier: Apache-2.0 */
/* The f64 functions of CUDA C++. Bounds are the errors in the CUDA programming guide. */
#include "rows.cuh"

//! f64 f64(-8,8) -> rows:f64
extern "C" __global__ void f64_trigonometry(const double *a, const double *b, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], s, c;
  ULP(2, sin(x), cos(x), tan(x), sin(y), cos(y), sinpi(x), cospi(y));
  sincos(x, &s, &c);
  ULP(2, s, c);
}

//! f64 f64(-1,1) f64 -> rows:f64
extern "C" __global__ void f64_inverse_trigonometry(const double *a, const double *b, const double *c, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], z = c[index];
  ULP(2, asin(y), acos(y), asin(x), acos(x), atan(x), atan2(x, z));
}

//! f64 f64(-5,5) -> rows:f64
extern "C" __global__ void f64_hyperbolic(const double *a, const double *b, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index];
  ULP(2, sinh(x));
  ULP(1, cosh(x), tanh(x));
  ULP(2, sinh(y));
  ULP(1, tanh(y));
  ULP(3, asinh(x), acosh(x));
  ULP(2, atanh(x), atanh(y * 0.2));
}

//! f64 f64(-600,600) f64(0,1000) -> rows:f64
extern "C" __global__ void f64_exponentials(const double *a, const double *b, const double *c, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], z = c[index];
  ULP(1, exp(x), exp(y), exp2(y), exp10(x), expm1(x), log(x), log(z), log2(z), log10(z), log1p(x));
}

//! f64 f64 f64(0.1,20) f64(-9,9) -> rows:f64
extern "C" __global__ void f64_powers(const double *a, const double *b, const double *c, const double *d, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], p = c[index], q = d[index];
  ULP(2, pow(x, y), pow(p, q));
  ULP(1, cbrt(x), rcbrt(x), rsqrt(x));
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
  ULP(5, erfc(y), erfinv(p));
  ULP(6, erfcinv(p));
  ULP(4, erfcx(y));
  ULP(5, normcdf(y));
  ULP(8, normcdfinv(p));
  ULP(10, tgamma(x), tgamma(z));
  ULP(4, lgamma(z + 3));
  ULP(7, j0(z), j1(z), y0(z), y1(z));
  ULP(6, cyl_bessel_i0(y));
}

/*
 * The approximations from which divisions and square roots start. Their results have a fraction of 20 bits; the low
 * word is zero.
 */
//! f64 -> rows:f64
extern "C" __global__ void f64_approximate_instructions(const double *a, u64 *out) {
  BEGIN(out);
  ULP(8589934592, PTX1(double, "d", double, "d", "rcp.approx.ftz.f64")(a[index]),
      PTX1(double, "d", double, "d", "rsqrt.approx.ftz.f64")(a[index]));
}
