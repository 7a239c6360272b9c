/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_TEXTURE_FILTER_H
#define CUDACORE_SIM_EXEC_OPS_TEXTURE_FILTER_H

#include "sim/engine.h"

#include <array>

/*
 * The arithmetic of texels: their conversion to numbers, and the weighted sums of filters. The rules were derived from
 * recordings of an H200, and reproduce its results to the last bit.
 */
namespace sim::exec {

constexpr unsigned weight_bits = 8;
constexpr int64_t weight_one = 1 << weight_bits; /* the weight 1: weights are fixed-point numbers */

/* Returns the bits of a texel's channel, extended to 32 bits: signed integers by their sign, others by zeros. */
uint32_t channel_bits(const Texels &texels, const std::byte *texel, size_t channel);
/* Returns the bits of a channel of the border color, which is converted to the format of the texels. */
uint32_t border_bits(const Sampler &sampler, size_t channel);

/* Returns whether texels are read as floating-point numbers. */
bool gives_numbers(const Sampler &sampler);

/* Returns the value of a channel as a floating-point number. */
float number_of(const Sampler &sampler, uint32_t bits, size_t channel);

/*
 * The weights of the texels that a filter combines, in planes of up to four texels. Each mipmap level has one plane, or
 * two planes in three dimensions. The sum of all weights is weight_one. A texel that is infinite or a NaN takes part
 * even if its weight was rounded to 0.
 */
struct Weights {
  static constexpr size_t plane = 4, max = 16;
  std::array<int64_t, max> values{};
  std::array<bool, max> takes_part{};
  size_t count = 0;

  /*
   * Adds the texels of a mipmap level. `second` holds, for each of `axes` dimensions, the weight of the second texel
   * along this dimension. `all` is the sum of the weights that are added.
   */
  void add(const std::array<int64_t, 3> &second, size_t axes, int64_t all);
  /* Distributes the weight of a texel that does not exist evenly over the other three texels of the last plane. */
  void spread(size_t corner);
};

/* Returns the weighted sum of one channel of the texels. */
float weighted(const Sampler &sampler, const std::array<uint32_t, Weights::max> &bits, const Weights &weights,
               size_t channel);

} // namespace sim::exec

#endif
