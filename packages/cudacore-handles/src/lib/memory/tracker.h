/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_MEMORY_TRACKER_H
#define CUDACORE_MEMORY_TRACKER_H

/* What the end of an allocation does with its trackers. */

#include "base/kinds.h"

/* Before the driver can give the address to another allocation: logs the free. */
void cch__tracks_freeing(const cch_deviceptr *ptr);
/* Once the memory has ended: counts the free. */
void cch__tracks_drop(cch_deviceptr *ptr);

#endif
