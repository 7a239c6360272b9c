/* SPDX-License-Identifier: Apache-2.0 */
/* f32 and f64 according to IEEE 754. The inputs include NaNs with payloads, infinities, subnormals and zeros. */
#include "rows.cuh"

#define F1(type, constraint, instruction, x)                                                                           \
  ([](type a) {                                                                                                        \
    type d;                                                                                                            \
    asm(instruction " %0, %1;" : "=" constraint(d) : constraint(a));                                                   \
    return d;                                                                                                          \
  })(x)
#define F2(type, constraint, instruction, x, y)                                                                        \
  ([](type a, type b) {                                                                                                \
    type d;                                                                                                            \
    asm(instruction " %0, %1, %2;" : "=" constraint(d) : constraint(a), constraint(b));                                \
    return d;                                                                                                          \
  })(x, y)
#define F3(type, constraint, instruction, x, y, z)                                                                     \
  ([](type a, type b, type c) {                                                                                        \
    type d;                                                                                                            \
    asm(instruction " %0, %1, %2, %3;" : "=" constraint(d) : constraint(a), constraint(b), constraint(c));             \
    return d;                                                                                                          \
  })(x, y, z)
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
  ROW(x + y);
  ROW(x - y);
  ROW(x * y);
  ROW(x / y);
  ROW(x * y + z);
  ROW(fmaf(x, y, z));
  ROW(sqrtf(x));
  ROW(1 / x);
  ROW(-x);
  ROW(fabsf(x));
  ROW(copysignf(x, y));
  ROW(fminf(x, y));
  ROW(fmaxf(x, y));
  ROW(F2(float, "f", "min.NaN.f32", x, y));
  ROW(F2(float, "f", "max.NaN.f32", x, y));
  ROW(F2(float, "f", "min.xorsign.abs.f32", x, y));
  ROW(__saturatef(x));
}

//! f32 f32 f32 -> rows:f32
extern "C" __global__ void f32_rounding(const float *a, const float *b, const float *c, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index];
  ROW(__fadd_rz(x, y));
  ROW(__fadd_ru(x, y));
  ROW(__fadd_rd(x, y));
  ROW(__fsub_rz(x, y));
  ROW(__fsub_ru(x, y));
  ROW(__fsub_rd(x, y));
  ROW(__fmul_rz(x, y));
  ROW(__fmul_ru(x, y));
  ROW(__fmul_rd(x, y));
  ROW(__fmaf_rz(x, y, z));
  ROW(__fmaf_ru(x, y, z));
  ROW(__fmaf_rd(x, y, z));
  ROW(__fdiv_rn(x, y));
  ROW(__fdiv_rz(x, y));
  ROW(__fdiv_ru(x, y));
  ROW(__fdiv_rd(x, y));
  ROW(__frcp_rz(x));
  ROW(__frcp_ru(x));
  ROW(__frcp_rd(x));
  ROW(__fsqrt_rz(x));
  ROW(__fsqrt_ru(x));
  ROW(__fsqrt_rd(x));
}

//! f32 f32 f32 -> rows:f32
extern "C" __global__ void f32_flush_and_saturate(const float *a, const float *b, const float *c, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index], z = c[index];
  ROW(F2(float, "f", "add.ftz.f32", x, y));
  ROW(F2(float, "f", "sub.rz.ftz.f32", x, y));
  ROW(F2(float, "f", "mul.ftz.f32", x, y));
  ROW(F2(float, "f", "div.rn.ftz.f32", x, y));
  ROW(F3(float, "f", "fma.rn.ftz.f32", x, y, z));
  ROW(F1(float, "f", "sqrt.rn.ftz.f32", x));
  ROW(F1(float, "f", "rcp.rn.ftz.f32", x));
  ROW(F1(float, "f", "neg.ftz.f32", x));
  ROW(F1(float, "f", "abs.ftz.f32", x));
  ROW(F2(float, "f", "min.ftz.f32", x, y));
  ROW(F2(float, "f", "max.ftz.f32", x, y));
  ROW(F2(float, "f", "add.sat.f32", x, y));
  ROW(F2(float, "f", "sub.ftz.sat.f32", x, y));
  ROW(F2(float, "f", "mul.sat.f32", x, y));
  ROW(F3(float, "f", "fma.rn.sat.f32", x, y, z));
}

//! f64 f64 f64 -> rows:f64
extern "C" __global__ void f64_arithmetic(const double *a, const double *b, const double *c, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], z = c[index];
  ROW(x + y);
  ROW(x - y);
  ROW(x * y);
  ROW(x / y);
  ROW(x * y + z);
  ROW(fma(x, y, z));
  ROW(sqrt(x));
  ROW(1 / x);
  ROW(-x);
  ROW(fabs(x));
  ROW(copysign(x, y));
  ROW(fmin(x, y));
  ROW(fmax(x, y));
}

//! f64 f64 f64 -> rows:f64
extern "C" __global__ void f64_rounding(const double *a, const double *b, const double *c, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index], z = c[index];
  ROW(__dadd_rz(x, y));
  ROW(__dadd_ru(x, y));
  ROW(__dsub_rd(x, y));
  ROW(__dmul_rz(x, y));
  ROW(__dmul_ru(x, y));
  ROW(__dmul_rd(x, y));
  ROW(__fma_rz(x, y, z));
  ROW(__fma_ru(x, y, z));
  ROW(__fma_rd(x, y, z));
  ROW(__ddiv_rz(x, y));
  ROW(__ddiv_ru(x, y));
  ROW(__ddiv_rd(x, y));
  ROW(__drcp_ru(x));
  ROW(__drcp_rd(x));
  ROW(__dsqrt_rz(x));
  ROW(__dsqrt_ru(x));
}

//! f32 f32 f64 f64 -> rows:u32
extern "C" __global__ void comparisons(const float *a, const float *b, const double *c, const double *d, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index];
  double v = c[index], w = d[index];
  ROW(x < y);
  ROW(x <= y);
  ROW(x == y);
  ROW(x != y);
  ROW(!(x < y));
  ROW(isnan(x) || isnan(y));
  ROW(x < y || x > y);
  ROW(v > w);
  ROW(v >= w);
  ROW(v != w);
  ROW(!(v >= w));
  ROW(isnan(x) + 2 * isinf(x) + 4 * isfinite(x) + 8 * !!signbit(x));
  ROW(isnan(v) + 2 * isinf(v) + 4 * isfinite(v) + 8 * !!signbit(v));
  ROW(TEST(float, "f", "testp.normal.f32", x));
  ROW(TEST(float, "f", "testp.subnormal.f32", x));
  ROW(TEST(double, "d", "testp.number.f64", v));
  ROW(TEST(double, "d", "testp.finite.f64", v));
  ROW(x < y && v < w || x > v);
}

/* Rounding to integers; splitting and assembling numbers. */
//! f32 f32 i32(-160,160) -> rows:f32
extern "C" __global__ void f32_parts(const float *a, const float *b, const i32 *by, u32 *out) {
  BEGIN(out);
  float x = a[index], y = b[index];
  int n = by[index], exponent = 0;
  float whole = 0;
  ROW(floorf(x));
  ROW(ceilf(x));
  ROW(truncf(x));
  ROW(rintf(x));
  ROW(nearbyintf(x));
  ROW(roundf(x));
  ROW(modff(x, &whole));
  ROW(whole);
  ROW(isfinite(x) ? frexpf(x, &exponent) : 0.0f);
  ROW(exponent);
  ROW(ldexpf(x, n));
  ROW(scalbnf(x, n));
  ROW(logbf(x));
  ROW(ilogbf(x));
  ROW(nextafterf(x, y));
  ROW(fdimf(x, y));
  ROW(fmodf(x, y));
  ROW(remainderf(x, y));
  ROW(__float_as_int(x));
}

//! f64 f64 i32(-1200,1200) -> rows:f64
extern "C" __global__ void f64_parts(const double *a, const double *b, const i32 *by, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index];
  int n = by[index], exponent = 0;
  double whole = 0;
  ROW(floor(x));
  ROW(ceil(x));
  ROW(trunc(x));
  ROW(rint(x));
  ROW(round(x));
  ROW(modf(x, &whole));
  ROW(whole);
  ROW(isfinite(x) ? frexp(x, &exponent) : 0.0);
  ROW(exponent);
  ROW(ldexp(x, n));
  ROW(logb(x));
  ROW(ilogb(x));
  ROW(nextafter(x, y));
  ROW(fdim(x, y));
  ROW(fmod(x, y));
  ROW(remainder(x, y));
  ROW(__double2hiint(x));
  ROW(__hiloint2double(n, exponent));
}
