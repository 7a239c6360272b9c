/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_VIRTUAL_H
#define CUDACORE_LIB_VIRTUAL_H

#include "base/kinds.h"

/*
 * Releases the ranges of an allocation, beginning with the last. Returns the driver's result. Ranges that the driver
 * refuses to release now are kept.
 */
int cch__ranges_destroy(cch_deviceptr *ptr);

/* Finds whether an address is of virtual memory, which has access rights of its own. */
int cch__is_virtual(bool *out, CUdeviceptr ptr);

/* Finds whether virtual memory at an address is accessible to a device (cuMemGetAccess). */
int cch__virtual_is_open(bool *out, int device, CUdeviceptr ptr);

#endif
