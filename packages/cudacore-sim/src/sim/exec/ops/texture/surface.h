/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_TEXTURE_SURFACE_H
#define CUDACORE_SIM_EXEC_OPS_TEXTURE_SURFACE_H

#include "sim/exec/grid.h"
#include "sim/isa/texture.h"

namespace sim::exec {

/*
 * Returns the texture or surface to which a lane's handle refers. Throws DeviceFault if there is none, or if a texture
 * is used as a surface or vice versa.
 */
const Sampler &sampler_of(Warp &w, const Instruction &ins, const TextureAccess &access, uint32_t lane);

Handler surface_handler(const TextureAccess &access);

} // namespace sim::exec

#endif
