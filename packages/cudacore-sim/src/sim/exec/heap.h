/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_HEAP_H
#define CUDACORE_SIM_EXEC_HEAP_H

#include <cstddef>
#include <cstdint>

/*
 * The device heap: what malloc() in kernels gives. It outlives launches, as on a GPU, and is one for the process, since
 * a launch does not say what context it belongs to.
 */
namespace sim::exec {

constexpr uint64_t heap_bytes = 8u << 20; /* the default of CU_LIMIT_MALLOC_HEAP_SIZE */

/* An address in the heap's window, or 0 when there is no room. Aligned to 16 bytes. */
uint64_t heap_allocate(uint64_t bytes);
/* False for what is no live allocation. */
bool heap_free(uint64_t address);
/* The host's memory of the heap's start; null before the first allocation. */
std::byte *heap_base();

} // namespace sim::exec

#endif
