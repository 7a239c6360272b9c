/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library for $LD_PRELOAD, which python -m cudacore_sim puts into every program that it runs: dlsym(), with functions
 * of NVRTC and nvJitLink whose cubins carry their PTX. It needs nothing but the C library, and loads the simulator only
 * where one of these functions is asked for.
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

/* Symbols of the C library have versions, by which its dlsym can be told from the one here. */
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

/* Where nothing is to be changed the C library's must see who has called: this has to be a jump, for RTLD_NEXT. */
extern "C" __attribute__((visibility("default"))) void *dlsym(void *__restrict library,
                                                              const char *__restrict name) noexcept {
  LookUp look_up = real_dlsym();
  if (library == RTLD_NEXT || !gives_cubins(name))
    return look_up(library, name);
  void *simulator = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  auto symbol = simulator != nullptr ? as_function<Symbol>(look_up(simulator, "cudasim_symbol")) : nullptr;
  return symbol != nullptr ? symbol(library, name, look_up) : look_up(library, name);
}
