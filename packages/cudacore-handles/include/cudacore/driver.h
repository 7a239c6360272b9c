/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_DRIVER_H
#define CUDACORE_DRIVER_H

/**
 * @file driver.h
 * The CUDA driver, which is loaded at the first call that needs it.
 *
 * $CUDACORE_DRIVER selects the library to load: a path, a soname, or a name without dots and slashes, such as `sim`,
 * for the driver of a package, here cudacore_sim. Its path is then in $CUDACORE_SIM_LIBRARY, which Python sets if the
 * package is installed. If the variable is not set, or is `gpu`, libcuda.so.1 is loaded.
 *
 * Each entry point is requested with the version that this library was written for, so one build works with every
 * driver from CUDA 12 on. If the driver lacks an entry point, only calls that need it fail, with CCH_ENOSYMBOL.
 */

#include <cudacore/device.h>

CCH_BEGIN_DECLS

/**
 * Loads the driver and calls cuInit(0), once; later calls are cheap. Other functions call it themselves. After a
 * failure, the next call tries again.
 *
 * @return CCH_ENODRIVER with the dynamic linker's reason, CUDA_ERROR_NO_DEVICE, or another CUresult
 * @since 0.1
 */
CCH_EXPORT cch_status cch_driver_init(void);

/** The driver's CUDA version, 1000 * major + 10 * minor (cuDriverGetVersion). @since 0.1 */
CCH_EXPORT cch_status cch_driver_version(int *out);

CCH_END_DECLS

#endif
