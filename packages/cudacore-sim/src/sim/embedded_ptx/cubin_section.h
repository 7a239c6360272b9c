/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EMBEDDED_PTX_CUBIN_SECTION_H
#define CUDACORE_SIM_EMBEDDED_PTX_CUBIN_SECTION_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/*
 * A cubin is an ELF file. The functions below store the PTX from which a cubin was made in a section of the cubin. The
 * simulator runs this PTX, because it cannot run machine code. As a part of the cubin, the PTX is still present after
 * the cubin was copied, for example to a cache on disk or to another process.
 */
namespace sim {

/* The PTX of one of the inputs from which a cubin was made. */
struct EmbeddedPtx {
  std::string name; /* the input's name, for messages */
  std::string code; /* PTX, or a fat binary with PTX; empty if it is not known */
};

/*
 * Returns the cubin with a section that holds these inputs. The section replaces an existing one. Data that is not a
 * cubin is returned unchanged.
 */
std::vector<char> embed_ptx(const char *cubin, size_t size, const std::vector<EmbeddedPtx> &parts);

/* Returns the inputs that are stored in a cubin. The result is empty if the cubin has no section for them. */
std::vector<EmbeddedPtx> embedded_ptx(const char *cubin, size_t size);

bool starts_as_ptx(std::string_view text);

bool read_file(const char *name, std::vector<char> &out);

/* Returns a cubin without machine code, for a compute capability such as 90. */
std::vector<char> empty_cubin(int capability);

} // namespace sim

#endif
