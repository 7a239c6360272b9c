/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_DRIVER_H
#define CUDACORE_DRIVER_H

/**
 * @file driver.h
 * The CUDA driver, found at the first call that needs it and never before.
 *
 * $CUDACORE_DRIVER names the library to load: a path, or a soname, or `sim`: the simulated driver of cudacore-sim,
 * which $CUDACORE_SIM_LIBRARY names then (in Python it is found where it is installed). Without it, and with `gpu`,
 * libcuda.so.1.
 * Entry points are asked for one by one with the version that this library was written for, so that one build serves
 * every driver from CUDA 12 on; one that is missing is CCH_ENOSYMBOL at the call that needs it and nowhere else.
 */

#include <cudacore/device.h>

CCH_BEGIN_DECLS

/**
 * Loads the driver and calls cuInit(0), once; later calls are cheap. Every other function does it by itself.
 * A failure is not remembered: the next call tries again.
 *
 * @return CCH_ENODRIVER with the dynamic linker's reason, CUDA_ERROR_NO_DEVICE, or another CUresult
 * @since 0.1
 */
CCH_EXPORT int cch_driver_init(void);

/** The driver's CUDA version, 1000 * major + 10 * minor (cuDriverGetVersion). @since 0.1 */
CCH_EXPORT int cch_driver_version(int *out);

/**
 * Any entry point of the driver, by cuGetProcAddress. `version` is the CUDA version whose ABI is wanted, such
 * as 12000. The pointer lives as long as the process. CCH_ENOSYMBOL when the driver lacks it. @since 0.1
 */
CCH_EXPORT int cch_driver_symbol(void **out, const char *name, int version);

CCH_END_DECLS

#endif
