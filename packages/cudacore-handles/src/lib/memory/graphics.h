/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_MEMORY_GRAPHICS_H
#define CUDACORE_MEMORY_GRAPHICS_H

#include "base/kinds.h"

/*
 * Unmaps a resource when its memory is destroyed; returns the driver's result. CUDA_ERROR_NOT_PERMITTED means that
 * another thread can unmap the resource. The memory's context must be current.
 */
int cch__graphics_unmap_memory(cch_deviceptr *mapped, CUstream stream);

#endif
