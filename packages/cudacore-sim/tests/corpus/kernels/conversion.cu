/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between all types, with all rounding modes, including of values beyond the range of the result. */
#include "rows.cuh"

//! f32 f32(-300,300) -> rows:u64
extern "C" __global__ void f32_to_integer(const float *a, const float *b, u64 *out) {
  BEGIN(out);
  float x = a[index], y = b[index];
  ROW(__float2int_rn(x), __float2int_rz(x), __float2int_ru(x), __float2int_rd(x), __float2uint_rn(x),
      __float2uint_rz(x), __float2uint_ru(x), __float2uint_rd(x), __float2ll_rn(x), __float2ll_rz(x), __float2ull_ru(x),
      __float2ull_rd(x), __float2int_rn(y), __float2uint_ru(y), PTX1(i16, "h", float, "f", "cvt.rni.s16.f32")(x),
      PTX1(u16, "h", float, "f", "cvt.rzi.u16.f32")(x), PTX1(i32, "r", float, "f", "cvt.rzi.s8.f32")(y),
      PTX1(u32, "r", float, "f", "cvt.rni.u8.f32")(y), PTX1(i32, "r", float, "f", "cvt.rni.ftz.s32.f32")(x), lrintf(y),
      llroundf(y));
}

//! f64 f64(-300,300) -> rows:u64
extern "C" __global__ void f64_to_integer(const double *a, const double *b, u64 *out) {
  BEGIN(out);
  double x = a[index], y = b[index];
  ROW(__double2int_rn(x), __double2int_rz(x), __double2int_ru(x), __double2int_rd(x), __double2uint_rn(x),
      __double2uint_rz(x), __double2ll_rn(x), __double2ll_rz(x), __double2ll_ru(x), __double2ull_rz(x),
      __double2ull_rd(x), __double2int_rd(y), PTX1(i16, "h", double, "d", "cvt.rzi.s16.f64")(x),
      PTX1(u16, "h", double, "d", "cvt.rni.u16.f64")(y), PTX1(u32, "r", double, "d", "cvt.rzi.u8.f64")(y), lround(y));
}

//! i32 i64 -> rows:f32
extern "C" __global__ void integer_to_f32(const i32 *a, const i64 *b, u32 *out) {
  BEGIN(out);
  i32 x = a[index];
  i64 y = b[index];
  ROW(__int2float_rn(x), __int2float_rz(x), __int2float_ru(x), __int2float_rd(x), __uint2float_rn(x),
      __uint2float_rz(x), __uint2float_ru(x), __ll2float_rn(y), __ll2float_rz(y), __ll2float_ru(y), __ull2float_rn(y),
      __ull2float_rd(y), float(i16(x)), float(u16(x)), float(i8(x)), float(u8(x)), float(x > 0));
}

//! i32 i64 f32 -> rows:f64
extern "C" __global__ void to_f64(const i32 *a, const i64 *b, const float *c, u64 *out) {
  BEGIN(out);
  i32 x = a[index];
  i64 y = b[index];
  ROW(__int2double_rn(x), __uint2double_rn(x), __ll2double_rn(y), __ll2double_rz(y), __ll2double_ru(y),
      __ll2double_rd(y), __ull2double_rn(y), __ull2double_rz(y), __ull2double_ru(y), double(i16(x)), double(i8(x)),
      double(c[index]), PTX1(double, "d", float, "f", "cvt.ftz.f64.f32")(c[index]));
}

//! f64 f64(-3,3) -> rows:f32
extern "C" __global__ void f64_to_f32(const double *a, const double *b, u32 *out) {
  BEGIN(out);
  double x = a[index], y = b[index];
  ROW(__double2float_rn(x), __double2float_rz(x), __double2float_ru(x), __double2float_rd(x), __double2float_rn(y),
      __double2float_rz(y), __double2float_ru(y), __double2float_rd(y), __double2float_rn(y * 1e-39),
      __double2float_rz(y * 1e-39), __double2float_ru(y * 1e-45),
      PTX1(float, "f", double, "d", "cvt.rn.ftz.f32.f64")(y * 1e-38),
      PTX1(float, "f", double, "d", "cvt.rn.sat.f32.f64")(y));
}

//! f32 f64 -> rows:u64
extern "C" __global__ void integral_values(const float *a, const double *b, u64 *out) {
  BEGIN(out);
  float x = a[index];
  double y = b[index];
  ROW(PTX1(float, "f", float, "f", "cvt.rni.f32.f32")(x), PTX1(float, "f", float, "f", "cvt.rzi.f32.f32")(x),
      PTX1(float, "f", float, "f", "cvt.rpi.ftz.f32.f32")(x), PTX1(float, "f", float, "f", "cvt.rmi.sat.f32.f32")(x),
      PTX1(float, "f", float, "f", "cvt.sat.f32.f32")(x), PTX1(float, "f", float, "f", "cvt.ftz.f32.f32")(x),
      PTX1(double, "d", double, "d", "cvt.rni.f64.f64")(y), PTX1(double, "d", double, "d", "cvt.rpi.f64.f64")(y),
      PTX1(double, "d", double, "d", "cvt.sat.f64.f64")(y));
}

/* Narrowing, with and without saturation, and sign extension. */
//! i32 i64 i16 -> rows:u64
extern "C" __global__ void integer_to_integer(const i32 *a, const i64 *b, const i16 *c, u64 *out) {
  BEGIN(out);
  i32 x = a[index];
  i64 y = b[index];
  i16 z = c[index];
  ROW(i64(i8(x)), i64(u8(y)), u64(i16(y)), i64(x), u64(u32(x)), i64(z), u32(i32(z)),
      PTX1(i32, "r", i32, "r", "cvt.sat.s8.s32")(x), PTX1(u32, "r", i32, "r", "cvt.sat.u8.s32")(x),
      PTX1(i32, "r", u32, "r", "cvt.sat.s8.u32")(u32(x)), PTX1(i16, "h", i32, "r", "cvt.sat.s16.s32")(x),
      PTX1(u16, "h", i32, "r", "cvt.sat.u16.s32")(x), PTX1(u32, "r", i64, "l", "cvt.sat.u32.s64")(y),
      PTX1(i32, "r", i64, "l", "cvt.sat.s32.s64")(y), PTX1(i32, "r", u64, "l", "cvt.sat.s32.u64")(u64(y)),
      PTX1(u64, "l", i64, "l", "cvt.sat.u64.s64")(y), PTX1(i64, "l", i16, "h", "cvt.s64.s16")(z));
}

//! i32 i32 u32 -> rows:u32
extern "C" __global__ void packed_conversions(const i32 *a, const i32 *b, const u32 *c, u32 *out) {
  BEGIN(out);
#define PACK(instruction)                                                                                              \
  ([](i32 x, i32 y, u32 z) {                                                                                           \
    u32 d;                                                                                                             \
    asm(instruction " %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(z));                                            \
    return d;                                                                                                          \
  })(a[index] >> (c[index] & 31), b[index] >> (c[index] >> 5 & 31), c[index])
  ROW(PACK("cvt.pack.sat.s8.s32.b32"), PACK("cvt.pack.sat.u8.s32.b32"), PACK("cvt.pack.sat.s4.s32.b32"),
      PACK("cvt.pack.sat.u2.s32.b32"));
  u32 d;
  asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(d) : "r"(a[index]), "r"(b[index]));
  ROW(d);
  asm("cvt.pack.sat.u16.s32 %0, %1, %2;" : "=r"(d) : "r"(a[index]), "r"(b[index]));
  ROW(d);
}
