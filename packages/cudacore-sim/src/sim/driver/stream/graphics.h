/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_STREAM_GRAPHICS_H
#define CUDACORE_SIM_DRIVER_STREAM_GRAPHICS_H

#include "sim/driver/base/state.h"

namespace sim {

/* A buffer of cudasim_gl_buffer. */
struct GraphicsBuffer {
  std::vector<std::byte> contents; /* the contents for OpenGL; outdated while a resource of the buffer is mapped */
  /*
   * The unit that maps or unmaps a resource of the buffer, and was submitted last. Weak, because a unit refers to its
   * context. The executor keeps a unit until it is done, and later work does not need to wait for it after that.
   */
  std::weak_ptr<Unit> last_copy;
  /* The entries of the last copy in the check of order and in the trace, which remain after the unit is gone. */
  OrderedPtr last_ordered;
  TracedPtr last_traced;
};

/* A buffer, or an image, of OpenGL that CUDA may use. */
struct GraphicsResource {
  uint64_t handle = 0;
  std::weak_ptr<Context> context;
  std::shared_ptr<GraphicsBuffer> buffer; /* several resources can have the same buffer */
  bool is_image = false;
  AllocationPtr memory; /* set while the resource is mapped */
};

void forget_graphics();

} // namespace sim

#endif
