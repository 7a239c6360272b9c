/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_MEMORY_GRAPHICS_H
#define CUDACORE_MEMORY_GRAPHICS_H

#include "base/kinds.h"

/* Unmaps the resource whose memory ends: the driver's answer, CUDA_ERROR_NOT_PERMITTED where another thread can do it.
 * The right context is current. */
int cch__graphics_end_mapping(cch_deviceptr *mapped, CUstream stream);

#endif
