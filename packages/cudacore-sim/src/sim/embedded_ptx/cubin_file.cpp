/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the PTX to a cubin file that an assembler has written. */
#include "sim/embedded_ptx/cubin_section.h"

#include <cudacore_sim.h>

#include <cstdio>

using namespace sim;

int cudasim_keep_ptx(const char *cubin, const char *const *files) {
  std::vector<char> code, text;
  std::vector<EmbeddedPtx> parts;
  if (cubin == nullptr || files == nullptr || !read_file(cubin, code))
    return -1;
  for (const char *const *file = files; *file != nullptr; file++)
    if (read_file(*file, text) && starts_as_ptx({text.data(), text.size()}))
      parts.push_back({*file, std::string(text.data(), text.size())});
  std::vector<char> made = embed_ptx(code.data(), code.size(), parts);
  if (parts.empty() || made == code)
    return -1;
  std::FILE *out = std::fopen(cubin, "wbe");
  if (out == nullptr)
    return -1;
  bool written = std::fwrite(made.data(), 1, made.size(), out) == made.size();
  written = std::fclose(out) == 0 && written;
  if (!written) /* remove the file: an incomplete cubin would be worse than none */
    std::remove(cubin);
  return written ? 0 : -1;
}
