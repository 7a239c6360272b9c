/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_TEXTURE_SAMPLING_H
#define CUDACORE_SIM_EXEC_OPS_TEXTURE_SAMPLING_H

#include "sim/exec/ops/texture/filter.h"

/* The arithmetic of coordinates: which texels a coordinate refers to, and with which weights. */
namespace sim::exec {

/* The one or two texels that a coordinate refers to along one axis. */
struct Taps {
  int64_t index[2]; /* -1: the border color */
  int64_t weight;   /* weight of the second texel; 0 if both texels are the same because of clamping */
};

/* Returns two neighbouring texels if `linear` is set, otherwise the nearest texel twice. */
Taps taps_of(const Sampler &sampler, size_t axis, double coordinate, uint32_t extent, bool linear);
int64_t layer_of(uint32_t layer, uint32_t layers);

/* A face of a cube, and coordinates from 0 to 1 on this face. */
struct FacePoint {
  uint32_t face;
  double x, y;
};
FacePoint face_of(float x, float y, float z);
/*
 * Returns the two neighbouring texels along one axis of a face. One of them can be outside of the face, at -1 or at
 * `extent`.
 */
Taps face_taps_of(double coordinate, uint32_t extent);

/*
 * A texel of a cube. If the texel is outside of its face in one direction, across_edge() returns the corresponding
 * texel of the neighbouring face.
 */
struct FaceTexel {
  int64_t face, x, y;
};
FaceTexel across_edge(const FaceTexel &texel, int64_t extent);

/* The two mipmap levels that are read. `weight` is the weight of the second level, in units of 1 / weight_one. */
struct LevelTaps {
  uint32_t index[2];
  int64_t weight;
};
LevelTaps levels_of(const Sampler &sampler, float level);

/* Returns the mipmap level for the derivatives of the coordinates in two directions, in texels of the first level. */
float level_of_steps(const std::array<std::array<double, 3>, 2> &steps);

} // namespace sim::exec

#endif
