/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EMBEDDED_PTX_PRELOAD_H
#define CUDACORE_SIM_EMBEDDED_PTX_PRELOAD_H

#include <cstring>

/*
 * The library that python -m cudacore_sim preloads into programs. Compilers that run in these programs, and the
 * assembler that they start, then put the PTX into the cubins that they make. The library depends only on the C
 * library, and loads the simulator only when a compiler is used.
 */
namespace sim {

using LookUp = void *(*)(void *library, const char *name);

LookUp real_dlsym(); /* returns dlsym() of the C library */

template <class F> F as_function(void *symbol) {
  F function = nullptr;
  std::memcpy(&function, &symbol, sizeof function);
  return function;
}

bool gives_cubins(const char *name); /* whether the NVRTC or nvJitLink function of this name is replaced */
bool is_own(const void *function);   /* whether the function is in the preloaded library */

/*
 * Returns the replacement of a function of NVRTC or nvJitLink to which the code at `caller` is linked, or null if no
 * loaded library has the function.
 */
void *linked_function(const char *name, const void *caller);

/* Returns the simulator's replacement of a library's function, or the function itself if it has no replacement. */
void *replacement(void *library, const char *name);

} // namespace sim

#endif
