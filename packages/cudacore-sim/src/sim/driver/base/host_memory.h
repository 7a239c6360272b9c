/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_HOST_MEMORY_H
#define CUDACORE_SIM_DRIVER_BASE_HOST_MEMORY_H

#include <cstdint>

namespace sim {

/*
 * Memory of the application, of which nothing is known but what the system says. What is answered holds for now:
 * another thread may unmap it at any time.
 */

/* Whether all of it can be read, or written to. May bring it in: to be asked for what is used at once. */
bool is_usable(uint64_t address, uint64_t bytes, bool write);

/* Whether something is mapped in all of it; not whether it can be used. */
bool is_mapped(uint64_t address, uint64_t bytes);

} // namespace sim

#endif
