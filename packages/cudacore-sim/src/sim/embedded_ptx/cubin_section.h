/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EMBEDDED_PTX_CUBIN_SECTION_H
#define CUDACORE_SIM_EMBEDDED_PTX_CUBIN_SECTION_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/*
 * The PTX of a cubin, in a section of the ELF file. So the PTX is present wherever the cubin is copied, such as in
 * caches on disk and in other processes. The simulator runs this PTX, because it cannot run machine code.
 */
namespace sim {

/* The PTX of an input that a cubin was made from. */
struct EmbeddedPtx {
  std::string name; /* the input's name, for messages */
  std::string code; /* PTX, or a fat binary with PTX; empty: not known */
};

/*
 * Returns the cubin with a section that holds these inputs. The section replaces an existing one. Data that is not a
 * cubin is returned unchanged.
 */
std::vector<char> embed_ptx(const char *cubin, size_t size, const std::vector<EmbeddedPtx> &parts);

/* The inputs in the section of a cubin; empty if the cubin has no such section. */
std::vector<EmbeddedPtx> embedded_ptx(const char *cubin, size_t size);

bool starts_as_ptx(std::string_view text);

bool read_file(const char *name, std::vector<char> &out);

/* A cubin without machine code, for a capability such as 90. */
std::vector<char> empty_cubin(int capability);

} // namespace sim

#endif
