/* SPDX-License-Identifier: Apache-2.0 */
/* f32 and f64 according to IEEE 754. The inputs include NaNs with payloads, infinities, subnormals and zeros. */
#include "rows.cuh"

#define TEST(type, constraint, instruction, x)                                                                         \
  ([](type a) {                                                                                                        \
    u32 d;                                                                                                             \
    asm("{ .reg .pred p; " instruction " p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(d) : constraint(a));                   \
    return d;                                                                                                          \
  })(x)

//! f32 f32 f32 -> rows:f32
extern "C" __global__ void f32_arithmetic(const float *a, const float *b, const float *c, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index];
  ROW(x + y, x - y, x * y, x / y, x * y + z, fmaf(x, y, z), sqrtf(x), 1 / x, -x, fabsf(x), copysignf(x, y), fminf(x, y),
      fmaxf(x, y), PTX2(float, "f", "min.NaN.f32")(x, y), PTX2(float, "f", "max.NaN.f32")(x, y),
      PTX2(float, "f", "min.xorsign.abs.f32")(x, y), __saturatef(x));
}

//! f32 f32 f32 -> rows:f32
extern "C" __global__ void f32_rounding(const float *a, const float *b, const float *c, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index];
  ROW(__fadd_rz(x, y), __fadd_ru(x, y), __fadd_rd(x, y), __fsub_rz(x, y), __fsub_ru(x, y), __fsub_rd(x, y),
      __fmul_rz(x, y), __fmul_ru(x, y), __fmul_rd(x, y), __fmaf_rz(x, y, z), __fmaf_ru(x, y, z), __fmaf_rd(x, y, z),
      __fdiv_rn(x, y), __fdiv_rz(x, y), __fdiv_ru(x, y), __fdiv_rd(x, y), __frcp_rz(x), __frcp_ru(x), __frcp_rd(x),
      __fsqrt_rz(x), __fsqrt_ru(x), __fsqrt_rd(x));
}

//! f32 f32 f32 -> rows:f32
extern "C" __global__ void f32_flush_and_saturate(const float *a, const float *b, const float *c, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index];
  ROW(PTX2(float, "f", "add.ftz.f32")(x, y), PTX2(float, "f", "sub.rz.ftz.f32")(x, y),
      PTX2(float, "f", "mul.ftz.f32")(x, y), PTX2(float, "f", "div.rn.ftz.f32")(x, y),
      PTX3(float, "f", "fma.rn.ftz.f32")(x, y, z), PTX1(float, "f", float, "f", "sqrt.rn.ftz.f32")(x),
      PTX1(float, "f", float, "f", "rcp.rn.ftz.f32")(x), PTX1(float, "f", float, "f", "neg.ftz.f32")(x),
      PTX1(float, "f", float, "f", "abs.ftz.f32")(x), PTX2(float, "f", "min.ftz.f32")(x, y),
      PTX2(float, "f", "max.ftz.f32")(x, y), PTX2(float, "f", "add.sat.f32")(x, y),
      PTX2(float, "f", "sub.ftz.sat.f32")(x, y), PTX2(float, "f", "mul.sat.f32")(x, y),
      PTX3(float, "f", "fma.rn.sat.f32")(x, y, z));
}

//! f64 f64 f64 -> rows:f64
extern "C" __global__ void f64_arithmetic(const double *a, const double *b, const double *c, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], z = c[index];
  ROW(x + y, x - y, x * y, x / y, x * y + z, fma(x, y, z), sqrt(x), 1 / x, -x, fabs(x), copysign(x, y), fmin(x, y),
      fmax(x, y));
}

//! f64 f64 f64 -> rows:f64
extern "C" __global__ void f64_rounding(const double *a, const double *b, const double *c, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], z = c[index];
  ROW(__dadd_rz(x, y), __dadd_ru(x, y), __dsub_rd(x, y), __dmul_rz(x, y), __dmul_ru(x, y), __dmul_rd(x, y),
      __fma_rz(x, y, z), __fma_ru(x, y, z), __fma_rd(x, y, z), __ddiv_rz(x, y), __ddiv_ru(x, y), __ddiv_rd(x, y),
      __drcp_ru(x), __drcp_rd(x), __dsqrt_rz(x), __dsqrt_ru(x));
}

//! f32 f32 f64 f64 -> rows:u32
extern "C" __global__ void comparisons(const float *a, const float *b, const double *c, const double *d, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index];
  double v = c[index], w = d[index];
  ROW(x < y, x <= y, x == y, x != y, !(x < y), isnan(x) || isnan(y), x < y || x > y, v > w, v >= w, v != w, !(v >= w),
      isnan(x) + 2 * isinf(x) + 4 * isfinite(x) + 8 * !!signbit(x),
      isnan(v) + 2 * isinf(v) + 4 * isfinite(v) + 8 * !!signbit(v), TEST(float, "f", "testp.normal.f32", x),
      TEST(float, "f", "testp.subnormal.f32", x), TEST(double, "d", "testp.number.f64", v),
      TEST(double, "d", "testp.finite.f64", v), x < y && v < w || x > v);
}

/* Rounding to integers; splitting and assembling numbers. */
//! f32 f32 i32(-160,160) -> rows:f32
extern "C" __global__ void f32_parts(const float *a, const float *b, const i32 *by, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index];
  int n = by[index], exponent = 0;
  float whole = 0;
  ROW(floorf(x), ceilf(x), truncf(x), rintf(x), nearbyintf(x), roundf(x));
  ROW(modff(x, &whole));
  ROW(whole);
  ROW(isfinite(x) ? frexpf(x, &exponent) : 0.0f);
  ROW(exponent);
  ROW(ldexpf(x, n), scalbnf(x, n), logbf(x), ilogbf(x), nextafterf(x, y), fdimf(x, y), fmodf(x, y), remainderf(x, y),
      __float_as_int(x));
}

//! f64 f64 i32(-1200,1200) -> rows:f64
extern "C" __global__ void f64_parts(const double *a, const double *b, const i32 *by, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index];
  int n = by[index], exponent = 0;
  double whole = 0;
  ROW(floor(x), ceil(x), trunc(x), rint(x), round(x));
  ROW(modf(x, &whole));
  ROW(whole);
  ROW(isfinite(x) ? frexp(x, &exponent) : 0.0);
  ROW(exponent);
  ROW(ldexp(x, n), logb(x), ilogb(x), nextafter(x, y), fdim(x, y), fmod(x, y), remainder(x, y), __double2hiint(x));
  ROW(__hiloint2double(n, exponent));
}
