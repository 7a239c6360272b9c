/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_VIRTUAL_H
#define CUDACORE_LIB_VIRTUAL_H

#include "base/kinds.h"

/*
 * Releases the ranges of an allocation, beginning with the last. Returns the driver's result. Ranges that the driver
 * refuses to release now are kept.
 */
int cch__ranges_end(cch_deviceptr *ptr);

#endif
