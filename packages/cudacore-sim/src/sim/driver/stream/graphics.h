/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_STREAM_GRAPHICS_H
#define CUDACORE_SIM_DRIVER_STREAM_GRAPHICS_H

#include "sim/driver/base/state.h"

namespace sim {

/* A buffer, or an image, of OpenGL that CUDA may use. */
struct GraphicsResource {
  uint64_t handle = 0;
  std::weak_ptr<Context> context;
  std::shared_ptr<std::vector<std::byte>> buffer; /* the contents, while the resource is not mapped */
  bool is_image = false;
  AllocationPtr memory; /* set while the resource is mapped */
  UnitPtr last_copy;    /* the unit that mapped or unmapped the resource last */
};

void forget_graphics();

} // namespace sim

#endif
