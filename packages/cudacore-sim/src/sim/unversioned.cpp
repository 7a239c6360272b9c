/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda.so, for programs that open the driver by the name that is meant for linkers, such as Taichi and Halide. It
 * has nothing itself: dlsym() also searches the libraries that a library needs, here libcuda.so.1 in the same folder. A
 * wheel cannot contain the usual symbolic link.
 */
#include "cudacore_sim.h"

namespace {

/* Without a reference, linkers would drop the library. */
[[gnu::used]] int (*const needed)() = cudasim_version;

} // namespace
