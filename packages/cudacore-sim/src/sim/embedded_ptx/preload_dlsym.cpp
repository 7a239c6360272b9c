/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces dlsym(), for programs that look up functions of NVRTC and nvJitLink. */
#include "sim/embedded_ptx/preload.h"

#include <atomic>
#include <dlfcn.h>

namespace sim {

namespace {

using Symbol = void *(*)(void *library, const char *name, LookUp look_up);

std::atomic<LookUp> real{nullptr};

} // namespace

/* Finds dlsym of the C library by its symbol version: the dlsym that is defined below has no version. */
LookUp real_dlsym() {
  LookUp found = real.load(std::memory_order_relaxed);
  constexpr const char *versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  for (const char *version : versions)
    if (found == nullptr)
      found = as_function<LookUp>(dlvsym(RTLD_NEXT, "dlsym", version));
  real.store(found, std::memory_order_relaxed);
  return found;
}

bool gives_cubins(const char *name) {
  return name != nullptr && (std::strncmp(name, "nvrtcGetCUBIN", 13) == 0 || std::strncmp(name, "nvJitLink", 9) == 0 ||
                             std::strncmp(name, "__nvJitLink", 11) == 0);
}

bool is_own(const void *function) {
  Dl_info own{}, other{};
  return dladdr(&real, &own) != 0 && dladdr(function, &other) != 0 && own.dli_fbase == other.dli_fbase;
}

void *replacement(void *library, const char *name) {
  LookUp look_up = real_dlsym();
  void *simulator = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  auto symbol = simulator != nullptr ? as_function<Symbol>(look_up(simulator, "cudasim_symbol")) : nullptr;
  return symbol != nullptr ? symbol(library, name, look_up) : look_up(library, name);
}

} // namespace sim

/*
 * Looks up a function that may be replaced. For all other names, this function jumps to dlsym of the C library; it does
 * not call it, because RTLD_NEXT depends on the caller.
 */
extern "C" __attribute__((visibility("default"))) void *dlsym(void *__restrict library,
                                                              const char *__restrict name) noexcept {
  using namespace sim;
  LookUp look_up = real_dlsym();
  if (library == RTLD_NEXT || !gives_cubins(name))
    return look_up(library, name);
  void *found = look_up(library, name);
  if (found != nullptr && is_own(found)) /* look_up found this library's function instead of the real one */
    return linked_function(name, __builtin_return_address(0));
  return replacement(library, name);
}
