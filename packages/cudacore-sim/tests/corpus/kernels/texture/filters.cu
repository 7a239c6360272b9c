/* SPDX-License-Identifier: Apache-2.0 */
/* Textures: filtering between levels, of sRGB texels and of cube maps; borders; and reads at integer coordinates. */
#include "rows.cuh"

//! texture:f32(-1,1)x1:13@levels4,linear,trilinear,normalized texture:f32(-1,1)x1:13x7@levels4,linear,trilinear,normalized,wrap texture:f32(-1,1)x1:8x7x6@levels4,linear,trilinear,normalized,mirror texture:f32(-1,1)x1:9x3@levels4,layered,linear,trilinear,normalized texture:f32(-1,1)x1:9x8x3@levels4,layered,linear,trilinear,normalized,border texture:f32(-1,1)x1:13x7@levels4,trilinear,normalized f32(-0.3,1.3) f32(-0.3,1.3) f32(-0.3,1.3) i32(0,2) f32(-0.5,3.5) -> rows:f32
extern "C" __global__ void tex_between_levels(cudaTextureObject_t line, cudaTextureObject_t image,
                                              cudaTextureObject_t volume, cudaTextureObject_t lines,
                                              cudaTextureObject_t images, cudaTextureObject_t points, const float *x,
                                              const float *y, const float *z, const int *layer, const float *level,
                                              float *out) {
  BEGIN(out);
  ROW(tex1DLod<float>(line, x[index], level[index]), tex2DLod<float>(image, x[index], y[index], level[index]),
      tex3DLod<float>(volume, x[index], y[index], z[index], level[index]),
      tex1DLayeredLod<float>(lines, x[index], layer[index], level[index]),
      tex2DLayeredLod<float>(images, x[index], y[index], layer[index], level[index]),
      tex2DLod<float>(points, x[index], y[index], level[index]));
}

//! texture:u8x4:13x7@levels4,fraction,linear,trilinear,normalized texture:i8x1:13x7@levels4,fraction,linear,trilinear,normalized texture:u16x1:13x7@levels4,fraction,linear,trilinear,normalized texture:i16x2:13x7@levels4,fraction,linear,trilinear,normalized texture:f16(-9,9)x1:13x7@levels4,linear,trilinear,normalized texture:i8x1:13x7@levels4,fraction,trilinear,normalized f32(-0.3,1.3) f32(-0.3,1.3) f32(-0.5,3.5) -> rows:f32
extern "C" __global__ void tex_between_levels_of_formats(cudaTextureObject_t u8x4, cudaTextureObject_t i8x1,
                                                         cudaTextureObject_t u16x1, cudaTextureObject_t i16x2,
                                                         cudaTextureObject_t f16x1, cudaTextureObject_t points,
                                                         const float *x, const float *y, const float *level,
                                                         float *out) {
  BEGIN(out);
  float4 four = tex2DLod<float4>(u8x4, x[index], y[index], level[index]);
  float2 two = tex2DLod<float2>(i16x2, x[index], y[index], level[index]);
  ROW(four.x, four.w, tex2DLod<float>(i8x1, x[index], y[index], level[index]),
      tex2DLod<float>(u16x1, x[index], y[index], level[index]), two.x, two.y,
      tex2DLod<float>(f16x1, x[index], y[index], level[index]),
      tex2DLod<float>(points, x[index], y[index], level[index]));
}

/* Limits and biases of the level, with linear and with point filters between levels; reads that specify no level. */
//! texture:f32x1:16x16@levels5,trilinear,normalized,bias0.3,least0.7,most2.3 texture:f32x1:16x16@levels5,trilinear,normalized,bias-1.15 texture:f32x1:16x16@levels5,normalized,bias0.3,least0.7,most2.3 texture:f32x1:16x16@levels5,trilinear,normalized,bias1.6,least1.4 texture:f32x1:16x16@levels5,trilinear f32(-0.3,1.3) f32(-0.3,1.3) f32(-6,8) -> rows:f32
extern "C" __global__ void tex_limits_of_levels(cudaTextureObject_t limited, cudaTextureObject_t biased,
                                                cudaTextureObject_t points, cudaTextureObject_t least,
                                                cudaTextureObject_t texels, const float *x, const float *y,
                                                const float *level, float *out) {
  BEGIN(out);
  ROW(tex2DLod<float>(limited, x[index], y[index], level[index]),
      tex2DLod<float>(biased, x[index], y[index], level[index]),
      tex2DLod<float>(points, x[index], y[index], level[index]), tex2D<float>(least, x[index], y[index]),
      tex2D<float>(points, x[index], y[index]), tex2DLod<float>(texels, x[index], y[index], level[index]),
      tex2DLod<float>(limited, x[index], y[index], level[index] * 1e9f));
}

/* The rows with filtering between levels need bounds, because there the simulator can differ in the last of 11 bits. */
//! texture:u8x4:13@fraction,srgb,linear texture:u8x4:16x12@fraction,srgb,linear,border texture:u8x1:16x12@fraction,srgb,linear texture:u8x2:16x12@fraction,srgb,linear texture:u8x4:13x7@levels4,fraction,srgb,linear,trilinear,normalized texture:u8x4:16x12@fraction,srgb,border f32(-2,18) f32(-2,14) f32(-0.5,3.5) -> rows:f32
extern "C" __global__ void tex_srgb(cudaTextureObject_t line, cudaTextureObject_t image, cudaTextureObject_t u8x1,
                                    cudaTextureObject_t u8x2, cudaTextureObject_t levels, cudaTextureObject_t points,
                                    const float *x, const float *y, const float *level, float *out) {
  BEGIN(out);
  float4 a = tex1D<float4>(line, x[index]);
  float4 b = tex2D<float4>(image, x[index], y[index]);
  float2 c = tex2D<float2>(u8x2, x[index], y[index]);
  float4 d = tex2DLod<float4>(levels, x[index] / 16, y[index] / 12, level[index]);
  float4 e = tex2D<float4>(points, x[index], y[index]);
  ROW(a.x, a.y, a.w, b.x, b.y, b.z, b.w, tex2D<float>(u8x1, x[index], y[index]), c.x, c.y);
  ABS(0x1p-11, d.x, d.z);
  ROW(e.x, e.z, e.w);
}

//! texture:f32(-1,1)x1:4x4x6@cubemap,linear,normalized texture:f32(-1,1)x1:4x4x6@cubemap,linear,normalized,seamless texture:f32(-1,1)x1:3x3x12@cubemap,layered,linear,normalized,seamless texture:f32(-1,1)x1:1x1x6@cubemap,linear,normalized,seamless texture:f32(-1,1)x1:4x4x6@cubemap,linear,normalized,wrap texture:f32(-1,1)x1:4x4x6@cubemap,linear,normalized,border texture:f32(-1,1)x1:8x8x6@cubemap,levels4,linear,trilinear,normalized,seamless f32(-1,1) f32(-1,1) f32(-1,1) i32(0,1) f32(-0.5,3.5) -> rows:f32
extern "C" __global__ void tex_cube_linear(cudaTextureObject_t apart, cudaTextureObject_t seamless,
                                           cudaTextureObject_t layers, cudaTextureObject_t smallest,
                                           cudaTextureObject_t wrapped, cudaTextureObject_t border,
                                           cudaTextureObject_t levels, const float *x, const float *y, const float *z,
                                           const int *layer, const float *level, float *out) {
  BEGIN(out);
  ROW(texCubemap<float>(apart, x[index], y[index], z[index]), texCubemap<float>(seamless, x[index], y[index], z[index]),
      texCubemap<float>(seamless, copysignf(1, x[index]), copysignf(1, y[index]) - y[index] * 0.2f, z[index]),
      texCubemap<float>(seamless, x[index] * 0.3f, copysignf(1, y[index]), copysignf(1, z[index]) - x[index] * 0.2f),
      texCubemapLayered<float>(layers, x[index], y[index], z[index], layer[index]),
      texCubemap<float>(smallest, x[index], y[index], z[index]),
      texCubemap<float>(wrapped, x[index], y[index], z[index]), texCubemap<float>(border, x[index], y[index], z[index]),
      texCubemapLod<float>(levels, x[index], y[index], z[index], level[index]));
}

//! texture:f32(-1,1)x1:5@linear,border texture:f32(-1,1)x1:5x4@linear,border texture:f32(-1,1)x1:5x4x3@linear,border texture:f32(-1,1)x4:5x4@linear,border,normalized texture:f16(-1,1)x2:5x4@linear,border texture:u8x4:5x4@fraction,linear,border texture:i16x2:5x4@fraction,linear,border texture:i8x4:5x4@fraction,border texture:u16x4:5x4@border texture:f32(-1,1)x1:5x3@layered,linear,border f32(-1.5,6.5) f32(-1.5,5.5) f32(-1.5,4.5) i32(0,2) -> rows:f32
extern "C" __global__ void tex_borders(cudaTextureObject_t line, cudaTextureObject_t image, cudaTextureObject_t volume,
                                       cudaTextureObject_t normalized, cudaTextureObject_t f16x2,
                                       cudaTextureObject_t u8x4, cudaTextureObject_t i16x2, cudaTextureObject_t points,
                                       cudaTextureObject_t integers, cudaTextureObject_t lines, const float *x,
                                       const float *y, const float *z, const int *layer, float *out) {
  BEGIN(out);
  float4 a = tex2D<float4>(normalized, x[index] / 5, y[index] / 4);
  float2 b = tex2D<float2>(f16x2, x[index], y[index]);
  float4 c = tex2D<float4>(u8x4, x[index], y[index]);
  float2 d = tex2D<float2>(i16x2, x[index], y[index]);
  float4 e = tex2D<float4>(points, x[index], y[index]);
  ushort4 f = tex2D<ushort4>(integers, x[index], y[index]);
  ROW(tex1D<float>(line, x[index]), tex2D<float>(image, x[index], y[index]),
      tex3D<float>(volume, x[index], y[index], z[index]), a.x, a.w, b.x, b.y, c.x, c.w, d.x, d.y, e.x, e.w, (float)f.x,
      (float)f.w, tex1DLayered<float>(lines, x[index], layer[index]));
}

/* Coordinates outside of the image: reads without a level return zeros; reads with a level clamp the coordinates. */
#define FETCH(geometry, object, place, ...)                                                                            \
  ([&]() {                                                                                                             \
    float a, b, c, d;                                                                                                  \
    asm volatile("tex." geometry ".v4.f32.s32 {%0, %1, %2, %3}, [%4, " place ";"                                       \
                 : "=f"(a), "=f"(b), "=f"(c), "=f"(d)                                                                  \
                 : "l"(object), __VA_ARGS__);                                                                          \
    return a;                                                                                                          \
  }())

//! texture:f32x1:11 texture:f32x1:5x4@wrap texture:f32x1:5x4x3@border texture:f32x1:5x3@layered texture:f32x1:5x4x3@layered texture:f32x1:16x12@levels4,normalized texture:u8x1:5x4@fraction,linear texture:f32x1:20@memory i32(-3,8) i32(-3,8) i32(-3,8) i32(-2,5) -> rows:f32
extern "C" __global__ void tex_by_integers(cudaTextureObject_t line, cudaTextureObject_t image,
                                           cudaTextureObject_t volume, cudaTextureObject_t lines,
                                           cudaTextureObject_t images, cudaTextureObject_t levels,
                                           cudaTextureObject_t bytes, cudaTextureObject_t memory, const int *x,
                                           const int *y, const int *z, const int *level, float *out) {
  BEGIN(out);
  ROW(FETCH("1d", line, "{%5}]", "r"(x[index])));
  ROW(FETCH("2d", image, "{%5, %6}]", "r"(x[index]), "r"(y[index])));
  ROW(FETCH("3d", volume, "{%5, %6, %7, %7}]", "r"(x[index]), "r"(y[index]), "r"(z[index])));
  ROW(FETCH("a1d", lines, "{%5, %6}]", "r"(z[index]), "r"(x[index])));
  ROW(FETCH("a2d", images, "{%5, %6, %7, %7}]", "r"(z[index]), "r"(x[index]), "r"(y[index])));
  ROW(FETCH("level.2d", levels, "{%5, %6}], %7", "r"(x[index] * 2), "r"(y[index] * 2), "r"(level[index])));
  ROW(FETCH("2d", bytes, "{%5, %6}]", "r"(x[index]), "r"(y[index])));
  ROW(FETCH("1d", memory, "{%5}]", "r"(x[index])));
  ROW(tex1D<float>(memory, (float)x[index]));
}
