/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_POINTER_H
#define CUDACORE_POINTER_H

/**
 * @file pointer.h
 * Addresses, whoever allocated them.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/**
 * What CUDA knows of an address (cuPointerGetAttributes): its CUmemorytype, the ordinal of its device, and whether it
 * is managed memory (1 or 0). The type is 0 for an address that CUDA does not know, such as ordinary host memory; the
 * device is then negative. @since 0.1
 */
CCH_EXPORT int cch_pointer_attributes(int *memory_type, int *device, int *is_managed, CUdeviceptr ptr);

CCH_END_DECLS

#endif
