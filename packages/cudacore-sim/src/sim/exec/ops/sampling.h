/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_SAMPLING_H
#define CUDACORE_SIM_EXEC_OPS_SAMPLING_H

#include "sim/engine.h"

/* The arithmetic of textures: which texels a coordinate means, and their weights. All of it as the hardware does. */
namespace sim::exec {

constexpr unsigned weight_bits = 8;
constexpr int64_t weight_one = 1 << weight_bits; /* weights are fixed-point numbers: this is 1 */

/* The texels that a coordinate of one axis means. */
struct Taps {
  int64_t index[2]; /* -1: the border */
  int64_t weight;   /* of the second */
};

/* `linear`: two neighbours; else the nearest texel. A coordinate that is an integer counts texels. */
Taps taps_of(const Sampler &sampler, size_t axis, float coordinate, uint32_t extent, bool linear);
Taps taps_of(const Sampler &sampler, size_t axis, int32_t coordinate, uint32_t extent);
int64_t layer_of(uint32_t layer, uint32_t layers);

/* The face of a cube, and coordinates from 0 to 1 on it. */
struct FacePoint {
  uint32_t face;
  float x, y;
};
FacePoint face_of(float x, float y, float z);

/* The levels that are read, and the weight of the second, of weight_one. */
struct LevelTaps {
  uint32_t index[2];
  int64_t weight;
};
LevelTaps levels_of(const Sampler &sampler, float level);

/* A channel of a texel as a number. `bytes` are the channel's. */
float number_of(const Sampler &sampler, const std::byte *bytes, size_t channel);
float linear_of_srgb(uint8_t value);

} // namespace sim::exec

#endif
