/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_MEMORY_ARRAY_H
#define CUDACORE_SIM_DRIVER_MEMORY_ARRAY_H

#include "sim/driver/base/state.h"

namespace sim {

struct MipmappedArray;

/* An array, or a level of a mipmapped one. Its texels are rows in memory whose address programs cannot get. */
struct Array {
  uint64_t handle = 0;
  std::weak_ptr<Context> context;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  AllocationPtr memory;                /* null after the memory was freed */
  uint64_t address = 0;                /* the address of the first texel */
  std::weak_ptr<MipmappedArray> whole; /* for a level, the mipmapped array */
  uint64_t texel_bytes() const;
  uint64_t pitch() const { return descriptor.Width * texel_bytes(); }
  uint64_t rows() const { return descriptor.Height == 0 ? 1 : descriptor.Height; }
  uint64_t planes() const { return descriptor.Depth == 0 ? 1 : descriptor.Depth; }
  uint64_t bytes() const { return pitch() * rows() * planes(); }
};

struct MipmappedArray {
  uint64_t handle = 0;
  std::weak_ptr<Context> context;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  AllocationPtr memory;
  std::vector<std::shared_ptr<Array>> levels;
};

struct TextureObject {
  uint64_t handle = 0;
  std::weak_ptr<Context> context;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC sampling{};
  std::shared_ptr<const Sampler> sampler;
};

/* The bytes of a channel; 0: arrays of this format are not simulated. */
unsigned channel_bytes(CUarray_format format);
CUresult find_array(CUarray handle, std::shared_ptr<Array> &out);
std::string text_of(const Array &array);
/* The texels of an array's levels; the first level is the whole array. */
Texels texels_of(const std::vector<std::shared_ptr<Array>> &levels);

} // namespace sim

#endif
