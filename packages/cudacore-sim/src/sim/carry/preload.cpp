/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that python -m cudacore_sim preloads into programs. It replaces dlsym(), which then returns functions of
 * NVRTC and nvJitLink whose cubins contain their PTX. It depends only on the C library, and loads the simulator only
 * when one of these functions is looked up.
 */
#include <atomic>
#include <cstring>
#include <dlfcn.h>

namespace {

using LookUp = void *(*)(void *library, const char *name);
using Symbol = void *(*)(void *library, const char *name, LookUp look_up);

std::atomic<LookUp> real{nullptr};

template <class F> F as_function(void *symbol) {
  F function = nullptr;
  std::memcpy(&function, &symbol, sizeof function);
  return function;
}

/* The dlsym of the C library is found by its symbol version, which this one does not have. */
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

} // namespace

/* Other names are passed to dlsym of the C library. This must be a jump, because RTLD_NEXT depends on the caller. */
extern "C" __attribute__((visibility("default"))) void *dlsym(void *__restrict library,
                                                              const char *__restrict name) noexcept {
  LookUp look_up = real_dlsym();
  if (library == RTLD_NEXT || !gives_cubins(name))
    return look_up(library, name);
  void *simulator = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  auto symbol = simulator != nullptr ? as_function<Symbol>(look_up(simulator, "cudasim_symbol")) : nullptr;
  return symbol != nullptr ? symbol(library, name, look_up) : look_up(library, name);
}
