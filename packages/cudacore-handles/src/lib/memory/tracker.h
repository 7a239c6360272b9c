/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_MEMORY_TRACKER_H
#define CUDACORE_MEMORY_TRACKER_H

/* Update the trackers of an allocation that is freed. */

#include "base/kinds.h"

/* Logs the free. Call it before the driver can reuse the address. */
void cch__tracks_freeing(const cch_deviceptr *ptr);
/* Counts the free. Call it after the memory was freed. */
void cch__tracks_close(cch_deviceptr *ptr);

#endif
