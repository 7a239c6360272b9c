/* SPDX-License-Identifier: Apache-2.0 */
/* Surfaces: formatted stores to channels of all sizes. Each texel is written by one thread. */
#include "rows.cuh"

#define STORE_1(object, index, a)                                                                                      \
  asm volatile("sust.p.1d.b32.zero [%0, {%1}], {%2};" ::"l"(object), "r"(index), "r"(a) : "memory")
#define STORE_2(object, index, a, b)                                                                                   \
  asm volatile("sust.p.1d.v2.b32.zero [%0, {%1}], {%2, %3};" ::"l"(object), "r"(index), "r"(a), "r"(b) : "memory")
#define STORE_4(object, index, a, b, c, d)                                                                             \
  asm volatile("sust.p.1d.v4.b32.zero [%0, {%1}], {%2, %3, %4, %5};" ::"l"(object), "r"(index), "r"(a), "r"(b),        \
               "r"(c), "r"(d)                                                                                          \
               : "memory")

//! surface:u8x4:256 surface:i8x4:256 surface:u16x4:256 surface:i16x4:256 surface:f16x4:256 surface:u8x1:200 surface:i16x2:256 surface:u8x4:256 surface:f16x4:256 u32 i32(-300,300) f32(-70000,70000) f32(-0.001,0.001) -> u32:1
extern "C" __global__ void sust_narrow(cudaSurfaceObject_t u8x4, cudaSurfaceObject_t i8x4, cudaSurfaceObject_t u16x4,
                                       cudaSurfaceObject_t i16x4, cudaSurfaceObject_t f16x4, cudaSurfaceObject_t u8x1,
                                       cudaSurfaceObject_t i16x2, cudaSurfaceObject_t fewer, cudaSurfaceObject_t fewest,
                                       const u32 *bits, const int *small, const float *large, const float *tiny,
                                       u32 *out) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 a = bits[index], b = small[index], c = __float_as_uint(large[index]), d = __float_as_uint(tiny[index]);
  STORE_4(u8x4, index, a, b, b << 1, b >> 1);
  STORE_4(i8x4, index, a, b, b << 1, b >> 1);
  STORE_4(u16x4, index, a, b, b << 8, a >> 15);
  STORE_4(i16x4, index, a, b, b << 8, (int)a >> 15);
  STORE_4(f16x4, index, c, d, a, __float_as_uint(large[index] / 70000));
  STORE_1(u8x1, index, b);
  STORE_2(i16x2, index, b << 7, a);
  STORE_2(fewer, index, b, a);
  STORE_1(fewest, index, c);
  if (index == 0)
    *out = 1;
}
