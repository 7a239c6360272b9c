/* SPDX-License-Identifier: Apache-2.0 */
/* f16 and bf16, alone and in pairs, and the conversions to and from the eight-bit formats. */
#include "rows.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

//! f16 f16 f16 -> rows:u16
extern "C" __global__ void f16_arithmetic(const __half *a, const __half *b, const __half *c, u16 *out) {
  BEGIN(out);
  __half x = a[index], y = b[index], z = c[index];
  ROW(__hadd_rn(x, y), __hsub_rn(x, y), __hmul_rn(x, y), __hfma(x, y, z), __hadd_sat(x, y), __hmul_sat(x, y),
      __hfma_sat(x, y, z), __hfma_relu(x, y, z), __hneg(x), __habs(x), __hmin(x, y), __hmax(x, y), __hmin_nan(x, y),
      __hmax_nan(x, y), hfloor(x), hceil(x), htrunc(x), hrint(x));
}

//! bf16 bf16 bf16 -> rows:u16
extern "C" __global__ void bf16_arithmetic(const __nv_bfloat16 *a, const __nv_bfloat16 *b, const __nv_bfloat16 *c,
                                           u16 *out) {
  BEGIN(out);
  __nv_bfloat16 x = a[index], y = b[index], z = c[index];
  ROW(__hadd_rn(x, y), __hsub_rn(x, y), __hmul_rn(x, y), __hfma(x, y, z), __hadd_sat(x, y), __hfma_relu(x, y, z),
      __hneg(x), __habs(x), __hmin(x, y), __hmax(x, y), __hmin_nan(x, y), __hmax_nan(x, y), hfloor(x), hceil(x),
      htrunc(x), hrint(x));
}

//! f16:512 f16:512 f16:512 -> rows:u32
extern "C" __global__ void f16_pairs(const __half2 *a, const __half2 *b, const __half2 *c, u32 *out) {
  BEGIN(out);
  __half2 x = a[index], y = b[index], z = c[index];
  ROW(__hadd2_rn(x, y), __hsub2_sat(x, y), __hmul2_rn(x, y), __hfma2(x, y, z), __hfma2_relu(x, y, z), __hneg2(x),
      __habs2(x), __hmin2(x, y), __hmax2_nan(x, y), __hlt2(x, y), __hgeu2(x, y), __heq2_mask(x, y), __hne2_mask(x, y),
      __lowhigh2highlow(x), __halves2half2(__high2half(x), __low2half(y)), __hcmadd(x, y, z), __hisnan2(x));
}

//! bf16:512 bf16:512 bf16:512 -> rows:u32
extern "C" __global__ void bf16_pairs(const __nv_bfloat162 *a, const __nv_bfloat162 *b, const __nv_bfloat162 *c,
                                      u32 *out) {
  BEGIN(out);
  __nv_bfloat162 x = a[index], y = b[index], z = c[index];
  ROW(__hadd2_rn(x, y), __hsub2_rn(x, y), __hmul2_rn(x, y), __hfma2(x, y, z), __hfma2_relu(x, y, z), __hneg2(x),
      __hmin2_nan(x, y), __hmax2(x, y), __hgt2(x, y), __hequ2_mask(x, y));
}

//! f16 f16 bf16 bf16 -> rows:u32
extern "C" __global__ void half_comparisons(const __half *a, const __half *b, const __nv_bfloat16 *c,
                                            const __nv_bfloat16 *d, u32 *out) {
  BEGIN(out);
  __half x = a[index], y = b[index];
  __nv_bfloat16 v = c[index], w = d[index];
  ROW(__heq(x, y), __hne(x, y), __hlt(x, y), __hle(x, y), __hgt(x, y), __hltu(x, y), __hequ(x, y),
      __hisnan(x) + 2 * __hisinf(x), __heq(v, w), __hneu(v, w), __hlt(v, w), __hgeu(v, w),
      __hisnan(v) + 2 * __hisinf(v));
}

//! f16 bf16 f16(-300,300) -> rows:u64
extern "C" __global__ void half_to_others(const __half *a, const __nv_bfloat16 *b, const __half *c, u64 *out) {
  BEGIN(out);
  __half x = a[index], z = c[index];
  __nv_bfloat16 y = b[index];
  ROW(__half2float(x), __bfloat162float(y), double(x), __half2int_rn(x), __half2int_rz(x), __half2uint_ru(x),
      __half2uint_rd(z), __half2short_rn(x), __half2short_ru(z), __half2ushort_rz(x), __half2ll_rn(x), __half2ull_rz(x),
      __half2char_rz(z), __half2uchar_rz(z), __bfloat162int_rn(y), __bfloat162uint_rz(y), __bfloat162short_rd(y),
      __bfloat162ll_ru(y));
}

//! f32 f64 i32 i64 -> rows:u16
extern "C" __global__ void others_to_half(const float *a, const double *b, const i32 *c, const i64 *d, u16 *out) {
  BEGIN(out);
  float x = a[index];
  double y = b[index];
  i32 i = c[index];
  i64 l = d[index];
  ROW(__float2half_rn(x), __float2half_rz(x), __float2half_ru(x), __float2half_rd(x), __float2bfloat16_rn(x),
      __float2bfloat16_rz(x), __float2bfloat16_ru(x), __float2bfloat16_rd(x), __double2half(y), __double2bfloat16(y),
      __int2half_rn(i), __int2half_ru(i), __uint2half_rz(i), __short2half_rn(i), __ushort2half_rd(i), __ll2half_rn(l),
      __ull2half_rz(l), __int2bfloat16_rn(i), __uint2bfloat16_ru(i), __short2bfloat16_rz(i), __ll2bfloat16_rn(l));
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
  ROW(FROM_FLOATS(u32, "r", "cvt.rn.f16x2.f32"), FROM_FLOATS(u32, "r", "cvt.rz.f16x2.f32"),
      FROM_FLOATS(u32, "r", "cvt.rn.relu.f16x2.f32"), FROM_FLOATS(u32, "r", "cvt.rn.bf16x2.f32"),
      FROM_FLOATS(u32, "r", "cvt.rz.relu.bf16x2.f32"), FROM_FLOATS(u16, "h", "cvt.rn.satfinite.e4m3x2.f32"),
      FROM_FLOATS(u16, "h", "cvt.rn.satfinite.e5m2x2.f32"), FROM_FLOATS(u16, "h", "cvt.rn.satfinite.relu.e4m3x2.f32"),
      PTX1(u16, "h", u32, "r", "cvt.rn.satfinite.e4m3x2.f16x2")(c[index]),
      PTX1(u16, "h", u32, "r", "cvt.rn.satfinite.e5m2x2.f16x2")(c[index]),
      PTX1(u32, "r", u16, "h", "cvt.rn.f16x2.e4m3x2")(d[index]),
      PTX1(u32, "r", u16, "h", "cvt.rn.f16x2.e5m2x2")(d[index]),
      PTX1(u32, "r", float, "f", "cvt.rna.tf32.f32")(a[index]), PTX1(u16, "h", float, "f", "cvt.rn.bf16.f32")(a[index]),
      PTX1(u16, "h", float, "f", "cvt.rn.relu.f16.f32")(a[index]));
}

/*
 * Math functions of f16. The header computes in f32 and rounds the result to f16: both errors together are at most 1
 * ULP.
 */
//! f16 f16(0.01,100) f16(-3,3) -> rows:f16
extern "C" __global__ void f16_functions(const __half *a, const __half *b, const __half *c, u16 *out) {
  BEGIN(out);
  __half x = a[index], y = b[index], z = c[index];
  ULP(1, hsqrt(x), hrsqrt(x), hrcp(x), hexp(z), hexp2(z), hexp10(z), hlog(y), hlog2(y), hlog10(y), hsin(z), hcos(z),
      __hdiv(x, y));
}

//! bf16 bf16(0.01,100) bf16(-3,3) -> rows:bf16
extern "C" __global__ void bf16_functions(const __nv_bfloat16 *a, const __nv_bfloat16 *b, const __nv_bfloat16 *c,
                                          u16 *out) {
  BEGIN(out);
  __nv_bfloat16 x = a[index], y = b[index], z = c[index];
  ULP(1, hsqrt(x), hrsqrt(x), hrcp(x), hexp(z), hlog(y), hsin(z), hcos(z), __hdiv(x, y));
}
