/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_TEXTURE_SAMPLING_H
#define CUDACORE_SIM_EXEC_OPS_TEXTURE_SAMPLING_H

#include "sim/exec/ops/texture/filter.h"

/* The arithmetic of coordinates: the texels that they refer to, and the weights of those texels. */
namespace sim::exec {

/* The texels that a coordinate refers to along one axis. */
struct Taps {
  int64_t index[2]; /* -1: the border */
  int64_t weight;   /* weight of the second texel; 0 if clamping makes both texels the same */
};

/* If `linear`, two neighbouring texels; otherwise the nearest texel. */
Taps taps_of(const Sampler &sampler, size_t axis, double coordinate, uint32_t extent, bool linear);
int64_t layer_of(uint32_t layer, uint32_t layers);

/* A face of a cube, and coordinates from 0 to 1 on this face. */
struct FacePoint {
  uint32_t face;
  double x, y;
};
FacePoint face_of(float x, float y, float z);
/* The two neighbours on a face: one can be outside, at -1 or at the extent. */
Taps face_taps_of(double coordinate, uint32_t extent);

/*
 * A texel of a cube. If it is outside of its face in one direction, across_edge() finds the texel of the neighbouring
 * face.
 */
struct FaceTexel {
  int64_t face, x, y;
};
FaceTexel across_edge(const FaceTexel &texel, int64_t extent);

/* The levels that are read. `weight` is the weight of the second one, out of weight_one. */
struct LevelTaps {
  uint32_t index[2];
  int64_t weight;
};
LevelTaps levels_of(const Sampler &sampler, float level);

/* The level for two vectors of derivatives, in texels of the first level. */
float level_of_steps(const std::array<std::array<double, 3>, 2> &steps);

} // namespace sim::exec

#endif
