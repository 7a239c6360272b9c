/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_POINTER_H
#define CUDACORE_INTERNAL_POINTER_H

/**
 * @file pointer.h
 * Information about addresses, whichever code allocated them.
 */

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/**
 * The driver's information about an address (cuPointerGetAttributes): its CUmemorytype, the ordinal of its device, and
 * whether it is managed memory (1 or 0). For an address that CUDA does not manage, such as ordinary host memory, the
 * type is 0 and the device is negative.
 */
CCH_EXPORT cch_status cch_pointer_attributes(int *memory_type, int *device, int *is_managed, CUdeviceptr ptr);

CCH_END_DECLS

#endif
