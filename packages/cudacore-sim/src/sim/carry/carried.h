/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CARRY_CARRIED_H
#define CUDACORE_SIM_CARRY_CARRIED_H

#include <cstddef>
#include <string>
#include <vector>

/*
 * The PTX of a cubin, in a section of the ELF file itself: so it is there wherever the cubin goes, into caches on disk
 * and other processes too. Machine code cannot run on the simulator, the PTX that it was made of can.
 */
namespace sim {

/* One of the things that a cubin was made of. */
struct Carried {
  std::string name; /* of it, for messages */
  std::string code; /* PTX, or a fat binary with PTX; empty: not known */
};

/* The cubin with a section that holds these, in place of one that it has; as it is where it is no cubin. */
std::vector<char> with_carried(const char *cubin, size_t size, const std::vector<Carried> &parts);

/* What a cubin carries; nothing where it has no such section. */
std::vector<Carried> carried_by(const char *cubin, size_t size);

/* A cubin of no machine code, for a capability such as 90. */
std::vector<char> empty_cubin(int capability);

} // namespace sim

#endif
