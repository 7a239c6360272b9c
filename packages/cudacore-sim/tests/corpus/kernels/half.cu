/* SPDX-License-Identifier: Apache-2.0 */
/* f16 and bf16, alone and in pairs, and the conversions to and from the eight-bit formats. */
#include "rows.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

//! f16 f16 f16 -> rows:u16
extern "C" __global__ void f16_arithmetic(const __half *a, const __half *b, const __half *c, u16 *out) {
  BEGIN(out);
  __half x = a[index], y = b[index], z = c[index];
  ROW(__hadd_rn(x, y));
  ROW(__hsub_rn(x, y));
  ROW(__hmul_rn(x, y));
  ROW(__hfma(x, y, z));
  ROW(__hadd_sat(x, y));
  ROW(__hmul_sat(x, y));
  ROW(__hfma_sat(x, y, z));
  ROW(__hfma_relu(x, y, z));
  ROW(__hneg(x));
  ROW(__habs(x));
  ROW(__hmin(x, y));
  ROW(__hmax(x, y));
  ROW(__hmin_nan(x, y));
  ROW(__hmax_nan(x, y));
  ROW(hfloor(x));
  ROW(hceil(x));
  ROW(htrunc(x));
  ROW(hrint(x));
}

//! bf16 bf16 bf16 -> rows:u16
extern "C" __global__ void bf16_arithmetic(const __nv_bfloat16 *a, const __nv_bfloat16 *b, const __nv_bfloat16 *c,
                                           u16 *out) {
  BEGIN(out);
  __nv_bfloat16 x = a[index], y = b[index], z = c[index];
  ROW(__hadd_rn(x, y));
  ROW(__hsub_rn(x, y));
  ROW(__hmul_rn(x, y));
  ROW(__hfma(x, y, z));
  ROW(__hadd_sat(x, y));
  ROW(__hfma_relu(x, y, z));
  ROW(__hneg(x));
  ROW(__habs(x));
  ROW(__hmin(x, y));
  ROW(__hmax(x, y));
  ROW(__hmin_nan(x, y));
  ROW(__hmax_nan(x, y));
  ROW(hfloor(x));
  ROW(hceil(x));
  ROW(htrunc(x));
  ROW(hrint(x));
}

//! f16:512 f16:512 f16:512 -> rows:u32
extern "C" __global__ void f16_pairs(const __half2 *a, const __half2 *b, const __half2 *c, u32 *out) {
  BEGIN(out);
  __half2 x = a[index], y = b[index], z = c[index];
  ROW(__hadd2_rn(x, y));
  ROW(__hsub2_sat(x, y));
  ROW(__hmul2_rn(x, y));
  ROW(__hfma2(x, y, z));
  ROW(__hfma2_relu(x, y, z));
  ROW(__hneg2(x));
  ROW(__habs2(x));
  ROW(__hmin2(x, y));
  ROW(__hmax2_nan(x, y));
  ROW(__hlt2(x, y));
  ROW(__hgeu2(x, y));
  ROW(__heq2_mask(x, y));
  ROW(__hne2_mask(x, y));
  ROW(__lowhigh2highlow(x));
  ROW(__halves2half2(__high2half(x), __low2half(y)));
  ROW(__hcmadd(x, y, z));
  ROW(__hisnan2(x));
}

//! bf16:512 bf16:512 bf16:512 -> rows:u32
extern "C" __global__ void bf16_pairs(const __nv_bfloat162 *a, const __nv_bfloat162 *b, const __nv_bfloat162 *c,
                                      u32 *out) {
  BEGIN(out);
  __nv_bfloat162 x = a[index], y = b[index], z = c[index];
  ROW(__hadd2_rn(x, y));
  ROW(__hsub2_rn(x, y));
  ROW(__hmul2_rn(x, y));
  ROW(__hfma2(x, y, z));
  ROW(__hfma2_relu(x, y, z));
  ROW(__hneg2(x));
  ROW(__hmin2_nan(x, y));
  ROW(__hmax2(x, y));
  ROW(__hgt2(x, y));
  ROW(__hequ2_mask(x, y));
}

//! f16 f16 bf16 bf16 -> rows:u32
extern "C" __global__ void half_comparisons(const __half *a, const __half *b, const __nv_bfloat16 *c,
                                            const __nv_bfloat16 *d, u32 *out) {
  BEGIN(out);
  __half x = a[index], y = b[index];
  __nv_bfloat16 v = c[index], w = d[index];
  ROW(__heq(x, y));
  ROW(__hne(x, y));
  ROW(__hlt(x, y));
  ROW(__hle(x, y));
  ROW(__hgt(x, y));
  ROW(__hltu(x, y));
  ROW(__hequ(x, y));
  ROW(__hisnan(x) + 2 * __hisinf(x));
  ROW(__heq(v, w));
  ROW(__hneu(v, w));
  ROW(__hlt(v, w));
  ROW(__hgeu(v, w));
  ROW(__hisnan(v) + 2 * __hisinf(v));
}

//! f16 bf16 f16(-300,300) -> rows:u64
extern "C" __global__ void half_to_others(const __half *a, const __nv_bfloat16 *b, const __half *c, u64 *out) {
  BEGIN(out);
  __half x = a[index], z = c[index];
  __nv_bfloat16 y = b[index];
  ROW(__half2float(x));
  ROW(__bfloat162float(y));
  ROW(double(x));
  ROW(__half2int_rn(x));
  ROW(__half2int_rz(x));
  ROW(__half2uint_ru(x));
  ROW(__half2uint_rd(z));
  ROW(__half2short_rn(x));
  ROW(__half2short_ru(z));
  ROW(__half2ushort_rz(x));
  ROW(__half2ll_rn(x));
  ROW(__half2ull_rz(x));
  ROW(__half2char_rz(z));
  ROW(__half2uchar_rz(z));
  ROW(__bfloat162int_rn(y));
  ROW(__bfloat162uint_rz(y));
  ROW(__bfloat162short_rd(y));
  ROW(__bfloat162ll_ru(y));
}

//! f32 f64 i32 i64 -> rows:u16
extern "C" __global__ void others_to_half(const float *a, const double *b, const i32 *c, const i64 *d, u16 *out) {
  BEGIN(out);
  float x = a[index];
  double y = b[index];
  i32 i = c[index];
  i64 l = d[index];
  ROW(__float2half_rn(x));
  ROW(__float2half_rz(x));
  ROW(__float2half_ru(x));
  ROW(__float2half_rd(x));
  ROW(__float2bfloat16_rn(x));
  ROW(__float2bfloat16_rz(x));
  ROW(__float2bfloat16_ru(x));
  ROW(__float2bfloat16_rd(x));
  ROW(__double2half(y));
  ROW(__double2bfloat16(y));
  ROW(__int2half_rn(i));
  ROW(__int2half_ru(i));
  ROW(__uint2half_rz(i));
  ROW(__short2half_rn(i));
  ROW(__ushort2half_rd(i));
  ROW(__ll2half_rn(l));
  ROW(__ull2half_rz(l));
  ROW(__int2bfloat16_rn(i));
  ROW(__uint2bfloat16_ru(i));
  ROW(__short2bfloat16_rz(i));
  ROW(__ll2bfloat16_rn(l));
}

//! f32 f32 f16:512 u16 -> rows:u32
extern "C" __global__ void small_formats(const float *a, const float *b, const u32 *c, const u16 *d, u32 *out) {
  BEGIN(out);
#define FROM_FLOATS(type, constraint, instruction)                                                                     \
  ([](float x, float y) {                                                                                              \
    type r;                                                                                                            \
    asm(instruction " %0, %1, %2;" : "=" constraint(r) : "f"(x), "f"(y));                                              \
    return r;                                                                                                          \
  })(a[index], b[index])
#define FROM_PAIR(to, to_constraint, from, from_constraint, instruction, x)                                            \
  ([](from v) {                                                                                                        \
    to r;                                                                                                              \
    asm(instruction " %0, %1;" : "=" to_constraint(r) : from_constraint(v));                                           \
    return r;                                                                                                          \
  })(x)
  ROW(FROM_FLOATS(u32, "r", "cvt.rn.f16x2.f32"));
  ROW(FROM_FLOATS(u32, "r", "cvt.rz.f16x2.f32"));
  ROW(FROM_FLOATS(u32, "r", "cvt.rn.relu.f16x2.f32"));
  ROW(FROM_FLOATS(u32, "r", "cvt.rn.bf16x2.f32"));
  ROW(FROM_FLOATS(u32, "r", "cvt.rz.relu.bf16x2.f32"));
  ROW(FROM_FLOATS(u16, "h", "cvt.rn.satfinite.e4m3x2.f32"));
  ROW(FROM_FLOATS(u16, "h", "cvt.rn.satfinite.e5m2x2.f32"));
  ROW(FROM_FLOATS(u16, "h", "cvt.rn.satfinite.relu.e4m3x2.f32"));
  ROW(FROM_PAIR(u16, "h", u32, "r", "cvt.rn.satfinite.e4m3x2.f16x2", c[index]));
  ROW(FROM_PAIR(u16, "h", u32, "r", "cvt.rn.satfinite.e5m2x2.f16x2", c[index]));
  ROW(FROM_PAIR(u32, "r", u16, "h", "cvt.rn.f16x2.e4m3x2", d[index]));
  ROW(FROM_PAIR(u32, "r", u16, "h", "cvt.rn.f16x2.e5m2x2", d[index]));
  ROW(FROM_PAIR(u32, "r", float, "f", "cvt.rna.tf32.f32", a[index]));
  ROW(FROM_PAIR(u16, "h", float, "f", "cvt.rn.bf16.f32", a[index]));
  ROW(FROM_PAIR(u16, "h", float, "f", "cvt.rn.relu.f16.f32", a[index]));
}

/*
 * Math functions of f16. The header computes in f32 and rounds the result to f16: both errors together are at most 1
 * ULP.
 */
//! f16 f16(0.01,100) f16(-3,3) -> rows:f16
extern "C" __global__ void f16_functions(const __half *a, const __half *b, const __half *c, u16 *out) {
  BEGIN(out);
  __half x = a[index], y = b[index], z = c[index];
  ULP(1, hsqrt(x));
  ULP(1, hrsqrt(x));
  ULP(1, hrcp(x));
  ULP(1, hexp(z));
  ULP(1, hexp2(z));
  ULP(1, hexp10(z));
  ULP(1, hlog(y));
  ULP(1, hlog2(y));
  ULP(1, hlog10(y));
  ULP(1, hsin(z));
  ULP(1, hcos(z));
  ULP(1, __hdiv(x, y));
}

//! bf16 bf16(0.01,100) bf16(-3,3) -> rows:bf16
extern "C" __global__ void bf16_functions(const __nv_bfloat16 *a, const __nv_bfloat16 *b, const __nv_bfloat16 *c,
                                          u16 *out) {
  BEGIN(out);
  __nv_bfloat16 x = a[index], y = b[index], z = c[index];
  ULP(1, hsqrt(x));
  ULP(1, hrsqrt(x));
  ULP(1, hrcp(x));
  ULP(1, hexp(z));
  ULP(1, hlog(y));
  ULP(1, hsin(z));
  ULP(1, hcos(z));
  ULP(1, __hdiv(x, y));
}
