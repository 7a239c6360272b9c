/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_USES_H
#define CUDACORE_USES_H

/* The streams on which an allocation was used, apart from the stream that orders its free. */

#include "base/kinds.h"

/* Adds a resolved stream to the uses of a whole allocation: its free waits for all work that the stream then has. */
int cch__use_record(cch_deviceptr *whole, cch_stream *resolved, const char *operation);
/*
 * Adds the stream of a part that ends. If there is no memory for that, the host waits for the stream. False if that is
 * not possible now.
 */
bool cch__use_close(cch_deviceptr *whole, cch_stream *resolved);
/*
 * Frees memory after the work of the streams on which it was used, and of `own`, which may be NULL. Call it only if
 * there are such streams. False if the driver refuses that now.
 */
bool cch__free_after_uses(cch_deviceptr *whole, cch_stream *own);
/* Forgets the uses of an allocation whose box is being freed. */
void cch__uses_free(cch_deviceptr *ptr);

#endif
