/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_HOST_MEMORY_H
#define CUDACORE_SIM_DRIVER_BASE_HOST_MEMORY_H

#include <cstdint>

namespace sim {

/* The size of the system's pages: mappings, what is mapped of a file, and advice about memory begin at a page. */
uint64_t system_page();
inline uint64_t page_below(uint64_t address) { return address / system_page() * system_page(); }
inline uint64_t page_above(uint64_t address) { return page_below(address + system_page() - 1); }

/*
 * Queries of the system about memory of the application. Another thread may unmap the memory at any time, so a result
 * holds only at that moment.
 */

/* Whether all of the memory can be read or written. May commit pages: call this just before the memory is used. */
bool is_usable(uint64_t address, uint64_t bytes, bool write);

/* Whether all of the memory is mapped. Mapped memory may still be unusable. */
bool is_mapped(uint64_t address, uint64_t bytes);

/*
 * Whether the system lets a device write to the memory while it is registered. Such writes are not allowed in a shared
 * mapping of a file on a disk, because the file system would not notice them. The memory must be usable.
 */
bool can_be_pinned_for_writing(uint64_t address, uint64_t bytes);

} // namespace sim

#endif
