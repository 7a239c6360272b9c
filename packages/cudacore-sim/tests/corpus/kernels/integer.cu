/* SPDX-License-Identifier: Apache-2.0 */
/* Integers. PTX is used for operations that are undefined in C++. */
//! nvrtc: --fmad=false --device-int128
#include "rows.cuh"

//! i8 i8 i8 -> rows:u16
extern "C" __global__ void i8_arithmetic(const i8 *a, const i8 *b, const i8 *c, u16 *out) {
  BEGIN(out);
  i8 x = a[index], y = b[index], z = c[index];
  u8 ux = x, uy = y;
  ROW(i8(x + y), i8(x - y), i8(x * y), i8(x * y + z), i8(y ? x / y : 0), i8(y ? x % y : 0), u8(uy ? ux / uy : 0),
      u8(uy ? ux % uy : 0), i8(-x), i8(~x), i8(x >> (uy & 7)), u8(ux >> (uy & 7)), u8(ux << (uy & 7)), x < y, ux < uy,
      i16(x * y), u16(ux * uy), i8(x < y ? z : x));
}

//! i16 i16 i16 -> rows:u32
extern "C" __global__ void i16_arithmetic(const i16 *a, const i16 *b, const i16 *c, u32 *out) {
  BEGIN(out);
  i16 x = a[index], y = b[index], z = c[index];
  u16 ux = x, uy = y;
  ROW(i16(x + y), i16(x - y), i16(x * y), i16(x * y + z), PTX2(i16, "h", "mul.hi.s16")(x, y),
      PTX2(u16, "h", "mul.hi.u16")(ux, uy), PTX3(i16, "h", "mad.lo.s16")(x, y, z),
      PTX2(i16, "h", "div.s16")(x, y ? y : i16(7)), PTX2(u16, "h", "rem.u16")(ux, uy ? uy : u16(7)),
      PTX2(i16, "h", "min.s16")(x, y), PTX2(u16, "h", "max.u16")(ux, uy), i16(x >> (uy & 15)), u16(ux << (uy & 15)),
      x * y, u32(ux) * uy, x <= y, ux >= uy, u16(ux ^ uy), i16(x < 0 ? -x : x));
}

//! i32 i32 i32 -> rows:u32
extern "C" __global__ void i32_arithmetic(const i32 *a, const i32 *b, const i32 *c, u32 *out) {
  BEGIN(out);
  i32 x = a[index], y = b[index], z = c[index];
  u32 ux = x, uy = y, uz = z;
  ROW(ux + uy, ux - uy, ux * uy, ux * uy + uz, 0 - ux, ~ux, min(x, y), max(x, y), min(ux, uy), max(ux, uy), abs(x),
      __mulhi(x, y), __umulhi(ux, uy), __mul24(x, y), __umul24(ux, uy), __sad(x, y, uz), __usad(ux, uy, uz),
      __hadd(x, y), __rhadd(x, y), __uhadd(ux, uy), __urhadd(ux, uy), PTX2(i32, "r", "add.sat.s32")(x, y),
      PTX2(i32, "r", "sub.sat.s32")(x, y), PTX3(i32, "r", "mad.hi.s32")(x, y, z),
      PTX3(u32, "r", "mad.hi.u32")(ux, uy, uz), PTX3(i32, "r", "mad.hi.sat.s32")(x, y, z),
      PTX3(i32, "r", "mad24.lo.s32")(x, y, z), PTX3(u32, "r", "mad24.hi.u32")(ux, uy, uz));
}

//! i64 i64 i64 -> rows:u64
extern "C" __global__ void i64_arithmetic(const i64 *a, const i64 *b, const i64 *c, u64 *out) {
  BEGIN(out);
  i64 x = a[index], y = b[index], z = c[index];
  u64 ux = x, uy = y, uz = z;
  ROW(ux + uy, ux - uy, ux * uy, ux * uy + uz, 0 - ux, min(x, y), max(ux, uy), llabs(x), __mul64hi(x, y),
      __umul64hi(ux, uy), PTX3(i64, "l", "mad.hi.s64")(x, y, z), PTX3(u64, "l", "mad.lo.u64")(ux, uy, uz),
      PTX3(i64, "l", "sad.s64")(x, y, z), i64(i32(x)) * i32(y), u64(u32(x)) * u32(y) + uz, x < y, ux <= uy);
}

/* Division, including division by zero, and of the smallest integer by -1. */
//! i32 i32 i64 i64 -> rows:u64
extern "C" __global__ void integer_division(const i32 *a, const i32 *b, const i64 *c, const i64 *d, u64 *out) {
  BEGIN(out);
  i32 x = a[index], y = b[index];
  i64 v = c[index], w = d[index];
  ROW(PTX2(i32, "r", "div.s32")(x, y), PTX2(i32, "r", "rem.s32")(x, y), PTX2(u32, "r", "div.u32")(x, y),
      PTX2(u32, "r", "rem.u32")(x, y), PTX2(i64, "l", "div.s64")(v, w), PTX2(i64, "l", "rem.s64")(v, w),
      PTX2(u64, "l", "div.u64")(v, w), PTX2(u64, "l", "rem.u64")(v, w), x / 7, x % -10, u32(x) / 1000003u,
      v / 1000000007, u64(v) % 10);
}

/* Shifts, including shifts by more than the width: PTX clamps the shift count. */
//! u16 u32 u64 u32(0,100) -> rows:u64
extern "C" __global__ void integer_shifts(const u16 *a, const u32 *b, const u64 *c, const u32 *by, u64 *out) {
  BEGIN(out);
  u16 h = a[index];
  u32 r = b[index], s = by[index], low = u32(c[index]);
  u64 l = c[index];
#define SHIFT(type, constraint, instruction, value)                                                                    \
  ([](type v, u32 n) {                                                                                                 \
    type d;                                                                                                            \
    asm(instruction " %0, %1, %2;" : "=" constraint(d) : constraint(v), "r"(n));                                       \
    return d;                                                                                                          \
  })(value, s)
  ROW(SHIFT(u16, "h", "shl.b16", h), SHIFT(u16, "h", "shr.u16", h), SHIFT(i16, "h", "shr.s16", i16(h)),
      SHIFT(u32, "r", "shl.b32", r), SHIFT(u32, "r", "shr.u32", r), SHIFT(i32, "r", "shr.s32", i32(r)),
      SHIFT(u64, "l", "shl.b64", l), SHIFT(u64, "l", "shr.u64", l), SHIFT(i64, "l", "shr.s64", i64(l)),
      __funnelshift_l(low, r, s), __funnelshift_r(low, r, s), __funnelshift_lc(low, r, s), __funnelshift_rc(low, r, s),
      r << (s & 31) | r >> (-s & 31));
}

//! u32 u64 u32 -> rows:u64
extern "C" __global__ void bit_counts(const u32 *a, const u64 *b, const u32 *c, u64 *out) {
  BEGIN(out);
  u32 x = a[index], y = c[index];
  u64 w = b[index];
  ROW(__brev(x), __brevll(w), __clz(x), __clzll(w), __ffs(x), __ffsll(w), __popc(x), __popcll(w),
      __fns(x, y & 31, int(y >> 5 & 7) - 3), x & y, x | ~y, (x & y) ^ (u32(w) & ~y), w ^ (u64(x) << 32 | y));
}

//! u32 u64 u32(0,70) u32(0,70) u32 -> rows:u64
extern "C" __global__ void bit_fields(const u32 *a, const u64 *b, const u32 *at, const u32 *of, const u32 *c,
                                      u64 *out) {
  BEGIN(out);
  u32 x = a[index], position = at[index], length = of[index], y = c[index];
  u64 w = b[index];
#define FIELD(type, constraint, instruction, value)                                                                    \
  ([](type v, u32 p, u32 n) {                                                                                          \
    type d;                                                                                                            \
    asm(instruction " %0, %1, %2, %3;" : "=" constraint(d) : constraint(v), "r"(p), "r"(n));                           \
    return d;                                                                                                          \
  })(value, position, length)
#define INSERT(type, constraint, instruction, from, into)                                                              \
  ([](type v, type base, u32 p, u32 n) {                                                                               \
    type d;                                                                                                            \
    asm(instruction " %0, %1, %2, %3, %4;" : "=" constraint(d) : constraint(v), constraint(base), "r"(p), "r"(n));     \
    return d;                                                                                                          \
  })(from, into, position, length)
  ROW(FIELD(u32, "r", "bfe.u32", x), FIELD(i32, "r", "bfe.s32", x), FIELD(u64, "l", "bfe.u64", w),
      FIELD(i64, "l", "bfe.s64", w), INSERT(u32, "r", "bfi.b32", x, y), INSERT(u64, "l", "bfi.b64", w, u64(y) << 20),
      PTX1(u32, "r", u32, "r", "bfind.u32")(x), PTX1(u32, "r", i32, "r", "bfind.s32")(x),
      PTX1(u32, "r", u64, "l", "bfind.u64")(w), PTX1(u32, "r", i64, "l", "bfind.s64")(w),
      PTX1(u32, "r", u32, "r", "bfind.shiftamt.u32")(x), PTX2(u32, "r", "bmsk.clamp.b32")(position, length),
      PTX2(u32, "r", "bmsk.wrap.b32")(position, length), PTX2(u32, "r", "szext.clamp.u32")(x, length),
      PTX2(i32, "r", "szext.wrap.s32")(x, length));
}

//! u32 u32 u32 -> rows:u32
extern "C" __global__ void bytes_and_dots(const u32 *a, const u32 *b, const u32 *c, u32 *out) {
  BEGIN(out);
  u32 x = a[index], y = b[index], z = c[index];
  ROW(__byte_perm(x, y, z), PTX3(u32, "r", "prmt.b32")(x, y, z), PTX3(u32, "r", "prmt.b32.f4e")(x, y, z),
      PTX3(u32, "r", "prmt.b32.b4e")(x, y, z), PTX3(u32, "r", "prmt.b32.rc8")(x, y, z),
      PTX3(u32, "r", "prmt.b32.ecl")(x, y, z), PTX3(u32, "r", "prmt.b32.ecr")(x, y, z),
      PTX3(u32, "r", "prmt.b32.rc16")(x, y, z), __dp4a(int(x), int(y), int(z)), __dp4a(x, y, z),
      PTX3(i32, "r", "dp4a.s32.u32")(x, y, z), PTX3(i32, "r", "dp4a.u32.s32")(x, y, z),
      __dp2a_lo(int(x), int(y), int(z)), __dp2a_hi(int(x), int(y), int(z)), __dp2a_lo(x, y, z), __dp2a_hi(x, y, z));
}

/* SIMD intrinsics. Hopper has instructions for a few of these; the compiler emulates the rest. */
//! u32 u32 u32 -> rows:u32
extern "C" __global__ void packed_integers(const u32 *a, const u32 *b, const u32 *c, u32 *out) {
  BEGIN(out);
  u32 x = a[index], y = b[index], z = c[index];
  ROW(__vadd2(x, y), __vsub4(x, y), __vaddss2(x, y), __vaddus4(x, y), __vsubss4(x, y), __vabsdiffu4(x, y),
      __vabsdiffs2(x, y), __vavgu4(x, y), __vavgs2(x, y), __vmaxs2(x, y), __vminu4(x, y), __vcmpgts4(x, y),
      __vcmpeq2(x, y), __vseteq4(x, y), __vsadu4(x, y), __vsads2(x, y), __vneg2(x), __vnegss4(x), __vabs2(x),
      __vimax3_s32(x, y, z), __vimin3_u32(x, y, z), __viaddmax_s32(x, y, z), __viaddmin_s16x2_relu(x, y, z),
      __vimax_s16x2_relu(x, y));
}

//! u64 u64 u64 u32(0,128) -> rows:u64
extern "C" __global__ void i128_arithmetic(const u64 *a, const u64 *b, const u64 *c, const u32 *by, u64 *out) {
  BEGIN(out);
  typedef unsigned __int128 u128;
  typedef __int128 i128;
  u128 x = u128(a[index]) << 64 | b[index], y = u128(c[index]) << 17 | by[index];
  u32 n = by[index];
  auto low = [](u128 v) { return u64(v); };
  auto high = [](u128 v) { return u64(v >> 64); };
  u128 divisor = y ? y : 3;
  ROW(low(x + y), high(x + y), low(x - y), high(x - y), low(x * y), high(x * y), low(x / divisor), high(x / divisor),
      low(x % divisor), low(i128(x) / i128(divisor)), high(i128(x) % i128(divisor)), high(x << n), low(x >> n),
      high(i128(x) >> n), x < y, i128(x) < i128(y));
}

/* Additions, subtractions and products of several words, with carries. */
//! u32:768 u32:768 -> u32:1024
extern "C" __global__ void carry_chains(const u32 *a, const u32 *b, u32 *out) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 *x = a + 3 * index, *y = b + 3 * index;
  u32 *d = out + 4 * index;
  if (index & 1) {
    asm("add.cc.u32 %0, %4, %7; addc.cc.u32 %1, %5, %8; addc.cc.u32 %2, %6, %9; addc.u32 %3, 0, 0;"
        : "=&r"(d[0]), "=&r"(d[1]), "=&r"(d[2]), "=r"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(y[0]), "r"(y[1]), "r"(y[2]));
  } else if (index & 2) {
    asm("sub.cc.u32 %0, %4, %7; subc.cc.u32 %1, %5, %8; subc.cc.u32 %2, %6, %9; subc.u32 %3, 0, 0;"
        : "=&r"(d[0]), "=&r"(d[1]), "=&r"(d[2]), "=r"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(y[0]), "r"(y[1]), "r"(y[2]));
  } else {
    asm("mul.lo.u32 %0, %4, %6; mul.hi.u32 %1, %4, %6; mad.lo.cc.u32 %1, %5, %6, %1; madc.hi.cc.u32 %2, %5, %6, %7;"
        "addc.u32 %3, %8, 0;"
        : "=&r"(d[0]), "=&r"(d[1]), "=&r"(d[2]), "=r"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(y[1]), "r"(y[2]));
  }
}
