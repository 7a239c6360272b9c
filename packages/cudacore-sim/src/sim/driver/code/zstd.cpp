/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decompresses Zstandard, which newer compilers use in fat binaries. The system's library is loaded at the first use:
 * nearly every system has it, and a copy in the wheel would be larger than the simulator.
 */
#include "sim/driver/code/image.h"

#include <dlfcn.h>

namespace sim {
namespace {

struct Zstd {
  size_t (*decompress)(void *to, size_t room, const void *from, size_t size) = nullptr;
  unsigned (*is_error)(size_t code) = nullptr;

  Zstd() {
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return;
    decompress = reinterpret_cast<decltype(decompress)>(dlsym(library, "ZSTD_decompress"));
    is_error = reinterpret_cast<decltype(is_error)>(dlsym(library, "ZSTD_isError"));
  }
};

const Zstd &zstd() {
  static const Zstd instance;
  return instance;
}

} // namespace

bool has_zstd() { return zstd().decompress != nullptr && zstd().is_error != nullptr; }

bool unpack_zstd(const char *data, size_t size, std::vector<char> &out) {
  size_t made = zstd().decompress(out.data(), out.size(), data, size);
  return zstd().is_error(made) == 0 && made == out.size();
}

} // namespace sim
