/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_DRIVER_H
#define CUDACORE_INTERNAL_DRIVER_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/**
 * Any entry point of the driver, by cuGetProcAddress. `version` is the CUDA version of the requested ABI, such as
 * 12000. The pointer is valid as long as the process runs. CCH_ENOSYMBOL if the driver lacks it.
 */
CCH_EXPORT cch_status cch_driver_symbol(void **out, const char *name, int version);

CCH_END_DECLS

#endif
