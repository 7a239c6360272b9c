/* SPDX-License-Identifier: Apache-2.0 */
/* Surfaces: the instructions suld, sust, sured and suq. */
#include "rows.cuh"

//! surface:u32x1:30 surface:u32x1:16x12 surface:u32x1:5x4x3 surface:u32x1:9x4@layered surface:u32x1:6x5x4@layered i32(-4,34) i32(-3,15) i32(-2,6) -> rows:u32
extern "C" __global__ void suld(cudaSurfaceObject_t line, cudaSurfaceObject_t image, cudaSurfaceObject_t volume,
                                cudaSurfaceObject_t lines, cudaSurfaceObject_t planes, const int *x, const int *y,
                                const int *z, u32 *out) {
  BEGIN(out);
  ROW(surf1Dread<u32>(line, x[index] * 4, cudaBoundaryModeZero),
      surf1Dread<u32>(line, x[index] * 4, cudaBoundaryModeClamp),
      surf2Dread<u32>(image, x[index] * 4, y[index], cudaBoundaryModeZero),
      surf2Dread<u32>(image, x[index] * 4, y[index], cudaBoundaryModeClamp),
      surf2Dread<u32>(image, (index % 16) * 4, index % 12, cudaBoundaryModeTrap),
      surf3Dread<u32>(volume, x[index] * 4, y[index], z[index], cudaBoundaryModeZero),
      surf3Dread<u32>(volume, x[index] * 4, y[index], z[index], cudaBoundaryModeClamp),
      surf1DLayeredread<u32>(lines, x[index] * 4, index % 4, cudaBoundaryModeZero),
      surf2DLayeredread<u32>(planes, x[index] * 4, y[index], index % 4, cudaBoundaryModeClamp));
}

//! surface:u8x1:16x12 surface:u8x2:16x12 surface:u8x4:16x12 surface:i16x1:16x12 surface:u16x4:16x12 surface:u32x2:16x12 surface:u32x4:16x12 i32(-2,18) i32(-2,14) -> rows:u64
extern "C" __global__ void suld_widths(cudaSurfaceObject_t u8x1, cudaSurfaceObject_t u8x2, cudaSurfaceObject_t u8x4,
                                       cudaSurfaceObject_t i16x1, cudaSurfaceObject_t u16x4, cudaSurfaceObject_t u32x2,
                                       cudaSurfaceObject_t u32x4, const int *x, const int *y, u64 *out) {
  BEGIN(out);
  ROW(surf2Dread<u8>(u8x1, x[index], y[index], cudaBoundaryModeZero),
      surf2Dread<uchar2>(u8x2, x[index] * 2, y[index], cudaBoundaryModeZero),
      surf2Dread<uchar4>(u8x4, x[index] * 4, y[index], cudaBoundaryModeZero),
      surf2Dread<i16>(i16x1, x[index] * 2, y[index], cudaBoundaryModeZero),
      surf2Dread<ushort4>(u16x4, x[index] * 8, y[index], cudaBoundaryModeZero),
      surf2Dread<u64>(u32x2, x[index] * 8, y[index], cudaBoundaryModeZero));
  ulonglong2 wide = surf2Dread<ulonglong2>(u32x4, x[index] * 16, y[index], cudaBoundaryModeZero);
  ROW(wide.x, wide.y);
}

/* Each thread stores to a texel of its own, or outside of the surface. */
//! surface:u32x1:200 surface:u8x1:16x12 surface:u16x2:16x12 surface:f32x4:16x12 surface:u32x2:5x4x3 surface:u8x4:6x5x4@layered u32 -> u32:1
extern "C" __global__ void sust(cudaSurfaceObject_t line, cudaSurfaceObject_t bytes, cudaSurfaceObject_t shorts,
                                cudaSurfaceObject_t floats, cudaSurfaceObject_t volume, cudaSurfaceObject_t planes,
                                const u32 *value, u32 *out) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x, x = index % 16, y = index / 16;
  const u32 one = value[index];
  surf1Dwrite(one, line, index * 4, cudaBoundaryModeZero);
  surf2Dwrite((u8)one, bytes, x, y, cudaBoundaryModeZero);
  surf2Dwrite(make_ushort2(one, one >> 16), shorts, x * 4, y, cudaBoundaryModeZero);
  surf2Dwrite(make_uint4(one, ~one, one + 1, one ^ 0x55), floats, x * 16, y, cudaBoundaryModeZero);
  surf3Dwrite(make_uint2(one, ~one), volume, (index % 6) * 8, index / 6 % 5, index / 30, cudaBoundaryModeZero);
  if (index < 120)
    surf2DLayeredwrite(make_uchar4(one, one >> 8, one >> 16, one >> 24), planes, (index % 6) * 4, index / 6 % 5,
                       index / 30, cudaBoundaryModeZero);
  if (index == 0)
    *out = 1;
}

#define STORE(object)                                                                                                  \
  asm volatile("sust.p.1d.v4.b32.zero [%0, {%1}], {%2, %3, %4, %5};" ::"l"(object), "r"(index), "r"(one), "r"(~one),   \
               "r"(one >> 7), "r"(one ^ 0x80000000u)                                                                   \
               : "memory")

/* Formatted stores of four values. Each texel gets as many values as it has channels. */
//! surface:u32x1:200 surface:f32x1:300 surface:i32x2:300 surface:f32x4:300 u32 -> u32:1
extern "C" __global__ void sust_formatted(cudaSurfaceObject_t u32x1, cudaSurfaceObject_t f32x1,
                                          cudaSurfaceObject_t i32x2, cudaSurfaceObject_t f32x4, const u32 *value,
                                          u32 *out) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 one = value[index];
  STORE(u32x1);
  STORE(f32x1);
  STORE(i32x2);
  STORE(f32x4);
  if (index == 0)
    *out = 1;
}

/* Reductions in which many threads update each texel. */
#define REDUCE(operation, type, object, value)                                                                         \
  asm volatile("sured.b." operation ".1d." type ".zero [%0, {%1}], %2;" ::"l"(object), "r"(texel), "r"(value)          \
               : "memory")
#define REDUCE_64(operation, type, object, value)                                                                      \
  asm volatile("sured.b." operation ".1d." type ".zero [%0, {%1}], %2;" ::"l"(object), "r"(2 * texel), "l"(value)      \
               : "memory")

//! surface:u32x1:10 surface:u32x1:10 surface:i32x1:10 surface:u32x1:10 surface:i32x1:10 surface:u32x1:10 surface:u32x1:10 surface:u32x2:10 surface:u32x2:10 u32 i32(-2,12) -> u32:1
extern "C" __global__ void sured(cudaSurfaceObject_t sums, cudaSurfaceObject_t minima,
                                 cudaSurfaceObject_t signed_minima, cudaSurfaceObject_t maxima,
                                 cudaSurfaceObject_t signed_maxima, cudaSurfaceObject_t ands, cudaSurfaceObject_t ors,
                                 cudaSurfaceObject_t wide, cudaSurfaceObject_t wide_maxima, const u32 *value,
                                 const int *place, u32 *out) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x, texel = place[index] * 4;
  const u32 one = value[index];
  const u64 both = (u64)one << 32 | (one * 2654435761u);
  REDUCE("add", "u32", sums, one);
  REDUCE("min", "u32", minima, one);
  REDUCE("min", "s32", signed_minima, one);
  REDUCE("max", "u32", maxima, one);
  REDUCE("max", "s32", signed_maxima, one);
  REDUCE("and", "b32", ands, one | 0xfffff000);
  REDUCE("or", "b32", ors, 1u << (one & 31));
  REDUCE_64("add", "u64", wide, both);
  REDUCE_64("max", "u64", wide_maxima, both);
  if (index == 0)
    *out = 1;
}

//! surface:i32x1:8x6 i32 i32(-2,10) i32(-2,8) -> u32:1
extern "C" __global__ void sured_2d(cudaSurfaceObject_t image, const int *value, const int *x, const int *y, u32 *out) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  asm volatile("sured.p.add.2d.b32.zero [%0, {%1, %2}], %3;" ::"l"(image), "r"(x[index]), "r"(y[index]),
               "r"(value[index])
               : "memory");
  if (index == 0)
    *out = 1;
}

//! surface:u32x1:16x12 surface:u8x4:5x4x3 -> rows:u32
extern "C" __global__ void suq(cudaSurfaceObject_t image, cudaSurfaceObject_t volume, u32 *out) {
  BEGIN(out);
  ROW(QUERY("suq.width.b32", image), QUERY("suq.height.b32", image), QUERY("suq.width.b32", volume),
      QUERY("suq.height.b32", volume), QUERY("suq.depth.b32", volume));
}
