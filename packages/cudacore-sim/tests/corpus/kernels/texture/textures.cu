/* SPDX-License-Identifier: Apache-2.0 */
/* Textures: the instructions tex, tld4 and txq. */
#include "rows.cuh"

/* Textures of equal shape, with each of the four address modes. */
//! texture:f32x1:13@clamp texture:f32x1:13@border texture:f32x1:13@wrap,normalized texture:f32x1:13@mirror,normalized f32(-30,43) -> rows:f32
extern "C" __global__ void tex_1d_points(cudaTextureObject_t clamp, cudaTextureObject_t border,
                                         cudaTextureObject_t wrap, cudaTextureObject_t mirror, const float *x,
                                         float *out) {
  BEGIN(out);
  ROW(tex1D<float>(clamp, x[index]), tex1D<float>(border, x[index]), tex1D<float>(wrap, x[index] / 13),
      tex1D<float>(mirror, x[index] / 13), tex1D<float>(clamp, x[index] * 1e9f), tex1D<float>(border, x[index] * 1e9f));
}

//! texture:f32x1:16x12@clamp texture:f32x1:16x12@border texture:f32x1:16x12@wrap,normalized texture:f32x1:16x12@mirror,normalized f32(-30,43) f32(-25,38) -> rows:f32
extern "C" __global__ void tex_2d_points(cudaTextureObject_t clamp, cudaTextureObject_t border,
                                         cudaTextureObject_t wrap, cudaTextureObject_t mirror, const float *x,
                                         const float *y, float *out) {
  BEGIN(out);
  ROW(tex2D<float>(clamp, x[index], y[index]), tex2D<float>(border, x[index], y[index]),
      tex2D<float>(wrap, x[index] / 16, y[index] / 12), tex2D<float>(mirror, x[index] / 16, y[index] / 12));
}

//! texture:f32x1:5x4x3@clamp texture:f32x1:5x4x3@border texture:f32x1:5x4x3@wrap,normalized texture:f32x1:5x4x3@mirror,normalized f32(-9,15) f32(-9,14) f32(-8,12) -> rows:f32
extern "C" __global__ void tex_3d_points(cudaTextureObject_t clamp, cudaTextureObject_t border,
                                         cudaTextureObject_t wrap, cudaTextureObject_t mirror, const float *x,
                                         const float *y, const float *z, float *out) {
  BEGIN(out);
  ROW(tex3D<float>(clamp, x[index], y[index], z[index]), tex3D<float>(border, x[index], y[index], z[index]),
      tex3D<float>(wrap, x[index] / 5, y[index] / 4, z[index] / 3),
      tex3D<float>(mirror, x[index] / 5, y[index] / 4, z[index] / 3));
}

//! texture:f32x1:11x3@layered texture:f32x1:8x6x4@layered f32(-4,14) f32(-3,9) i32(-3,7) -> rows:f32
extern "C" __global__ void tex_layers(cudaTextureObject_t lines, cudaTextureObject_t planes, const float *x,
                                      const float *y, const int *layer, float *out) {
  BEGIN(out);
  ROW(tex1DLayered<float>(lines, x[index], layer[index]),
      tex2DLayered<float>(planes, x[index], y[index], layer[index]));
}

//! texture:f32x1:8x8x6@cubemap,normalized texture:f32x1:4x4x12@cubemap,layered,normalized f32(-1,1) f32(-1,1) f32(-1,1) i32(0,2) -> rows:f32
extern "C" __global__ void tex_cube(cudaTextureObject_t cube, cudaTextureObject_t cubes, const float *x, const float *y,
                                    const float *z, const int *layer, float *out) {
  BEGIN(out);
  ROW(texCubemap<float>(cube, x[index], y[index], z[index]),
      texCubemap<float>(cube, x[index] * 100, y[index] * 0.01f, z[index]),
      texCubemapLayered<float>(cubes, x[index], y[index], z[index], layer[index]));
}

//! texture:u8x1:16x12 texture:i8x2:16x12 texture:u8x4:16x12 texture:u16x2:16x12 texture:i16x4:16x12 texture:u32x1:16x12 texture:i32x2:16x12 texture:u32x4:16x12 f32(0,16) f32(0,12) -> rows:u32
extern "C" __global__ void tex_formats(cudaTextureObject_t u8x1, cudaTextureObject_t i8x2, cudaTextureObject_t u8x4,
                                       cudaTextureObject_t u16x2, cudaTextureObject_t i16x4, cudaTextureObject_t u32x1,
                                       cudaTextureObject_t i32x2, cudaTextureObject_t u32x4, const float *x,
                                       const float *y, u32 *out) {
  BEGIN(out);
  char2 signs = tex2D<char2>(i8x2, x[index], y[index]);
  uchar4 bytes = tex2D<uchar4>(u8x4, x[index], y[index]);
  ushort2 words = tex2D<ushort2>(u16x2, x[index], y[index]);
  short4 shorts = tex2D<short4>(i16x4, x[index], y[index]);
  int2 ints = tex2D<int2>(i32x2, x[index], y[index]);
  uint4 wide = tex2D<uint4>(u32x4, x[index], y[index]);
  ROW((u32)tex2D<u8>(u8x1, x[index], y[index]), (u32)signs.x << 16 ^ (u32)signs.y,
      bytes.x | bytes.y << 8 | bytes.z << 16 | (u32)bytes.w << 24, words.x | (u32)words.y << 16,
      (u32)shorts.x << 16 ^ (u32)shorts.y, (u32)shorts.z << 16 ^ (u32)shorts.w, tex2D<u32>(u32x1, x[index], y[index]),
      ints.x, ints.y, wide.x ^ wide.y, wide.z ^ wide.w);
}

/* Texels of half precision are read as floats, and integers as fractions. */
//! texture:f16(-9,9)x1:16x12 texture:f16(-9,9)x4:16x12 texture:u8x1:16x12@fraction texture:i8x1:16x12@fraction texture:u16x1:16x12@fraction texture:i16x2:16x12@fraction f32(0,16) f32(0,12) -> rows:f32
extern "C" __global__ void tex_as_floats(cudaTextureObject_t f16x1, cudaTextureObject_t f16x4, cudaTextureObject_t u8x1,
                                         cudaTextureObject_t i8x1, cudaTextureObject_t u16x1, cudaTextureObject_t i16x2,
                                         const float *x, const float *y, float *out) {
  BEGIN(out);
  float4 four = tex2D<float4>(f16x4, x[index], y[index]);
  float2 two = tex2D<float2>(i16x2, x[index], y[index]);
  ROW(tex2D<float>(f16x1, x[index], y[index]), four.x, four.y, four.z, four.w, tex2D<float>(u8x1, x[index], y[index]),
      tex2D<float>(i8x1, x[index], y[index]), tex2D<float>(u16x1, x[index], y[index]), two.x, two.y);
}

//! texture:f32x4:100@memory texture:u8x1:1000@memory texture:i16x2:200@memory texture:f32x1:20x9@memory,border i32(-20,120) f32(-3,23) f32(-3,12) -> rows:f32
extern "C" __global__ void tex_memory(cudaTextureObject_t floats, cudaTextureObject_t bytes, cudaTextureObject_t shorts,
                                      cudaTextureObject_t rows_of_floats, const int *place, const float *x,
                                      const float *y, float *out) {
  BEGIN(out);
  float4 four = tex1Dfetch<float4>(floats, place[index]);
  short2 two = tex1Dfetch<short2>(shorts, place[index]);
  ROW(four.x, four.y, four.z, four.w, (float)tex1Dfetch<u8>(bytes, place[index] * 9), (float)two.x, (float)two.y,
      tex2D<float>(rows_of_floats, x[index], y[index]));
}

//! texture:f32x1:16x16@levels4,normalized texture:f32x1:8x8x2@levels3,layered,normalized f32(-0.2,1.2) f32(-0.2,1.2) i32(0,2) f32(-1,5) -> rows:f32
extern "C" __global__ void tex_levels(cudaTextureObject_t image, cudaTextureObject_t layers, const float *x,
                                      const float *y, const int *layer, const float *level, float *out) {
  BEGIN(out);
  ROW(tex2DLod<float>(image, x[index], y[index], floorf(level[index])),
      tex2DLod<float>(image, x[index], y[index], floorf(level[index]) + 0.25f),
      tex2DLayeredLod<float>(layers, x[index], y[index], layer[index], floorf(level[index])));
}

//! texture:f32x4:16x12@gather texture:u8x4:16x12@gather texture:f32x1:16x12@gather,normalized,wrap f32(-2,18) f32(-2,14) -> rows:f32
extern "C" __global__ void tld4(cudaTextureObject_t image, cudaTextureObject_t bytes, cudaTextureObject_t wrapped,
                                const float *x, const float *y, float *out) {
  BEGIN(out);
  float4 red = tex2Dgather<float4>(image, x[index], y[index], 0);
  float4 alpha = tex2Dgather<float4>(image, x[index], y[index], 3);
  uchar4 green = tex2Dgather<uchar4>(bytes, x[index], y[index], 1);
  float4 around = tex2Dgather<float4>(wrapped, x[index] / 16, y[index] / 12, 0);
  ROW(red.x, red.y, red.z, red.w, alpha.x, alpha.w, (float)green.x, (float)green.z, around.x, around.y, around.z,
      around.w);
}

//! texture:f32(-1,1)x1:13@linear texture:f32(-1,1)x1:13@linear,wrap,normalized texture:f32(-1,1)x1:16x12@linear texture:f32(-1,1)x1:16x12@linear,mirror,normalized texture:f32(-1,1)x1:5x4x3@linear,border f32(-4,20) f32(-4,16) f32(-4,8) -> rows:f32
extern "C" __global__ void tex_linear(cudaTextureObject_t line, cudaTextureObject_t wrapped, cudaTextureObject_t image,
                                      cudaTextureObject_t mirrored, cudaTextureObject_t volume, const float *x,
                                      const float *y, const float *z, float *out) {
  BEGIN(out);
  ROW(tex1D<float>(line, x[index]), tex1D<float>(wrapped, x[index] / 13), tex2D<float>(image, x[index], y[index]),
      tex2D<float>(mirrored, x[index] / 16, y[index] / 12),
      tex3D<float>(volume, x[index] / 3, y[index] / 3, z[index] / 2));
}

//! texture:u8x1:16x12@linear,fraction texture:i16x1:16x12@linear,fraction texture:f16(-1,1)x1:16x12@linear f32(-4,20) f32(-4,16) -> rows:f32
extern "C" __global__ void tex_linear_formats(cudaTextureObject_t u8x1, cudaTextureObject_t i16x1,
                                              cudaTextureObject_t f16x1, const float *x, const float *y, float *out) {
  BEGIN(out);
  ROW(tex2D<float>(u8x1, x[index], y[index]), tex2D<float>(i16x1, x[index], y[index]),
      tex2D<float>(f16x1, x[index], y[index]));
}

//! texture:f32x1:16x12@normalized texture:u8x4:5x4x3@linear,fraction -> rows:u32
extern "C" __global__ void txq(cudaTextureObject_t image, cudaTextureObject_t volume, u32 *out) {
  BEGIN(out);
  ROW(QUERY("txq.width.b32", image), QUERY("txq.height.b32", image), QUERY("txq.width.b32", volume),
      QUERY("txq.height.b32", volume), QUERY("txq.depth.b32", volume));
}
