/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_RECLAIM_H
#define CUDACORE_RECLAIM_H

/* Where boxes go when their last reference has gone. */

#include "base/box.h"

#include <cudacore/process.h>

/* Destroys a box, now or, where that is not possible, at a safe point. */
void cch__reclaim(cch__box *box);

/* Gives back a reference where nothing may be destroyed, as a lock is held: that comes behind the box that the thread
 * is destroying, or else at a safe point. */
void cch__unref_later(void *box);

/* Destroys all that this thread can: what it has begun to, and what is queued. False inside a CUDA callback. */
bool cch__reclaim_settle(void);

/* Whether a destructor's call was refused for now: CUDA calls are forbidden here, or a capture is in the way. */
bool cch__not_now(int result);

/* Boxes that wait, for whatever reason. */
extern atomic_size_t cch__pending;

void cch__poll_pending(bool patient);

/* Called by what launches, records or creates: destroys what was queued, if anything. */
static inline void cch__poll(void) {
  if (atomic_load_explicit(&cch__pending, memory_order_relaxed) != 0)
    cch__poll_pending(false);
}

/* Called by what waits: tries again what was refused, too. */
static inline void cch__poll_patiently(void) {
  if (atomic_load_explicit(&cch__pending, memory_order_relaxed) != 0)
    cch__poll_pending(true);
}

#endif
