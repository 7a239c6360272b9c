/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_RECLAIM_H
#define CUDACORE_RECLAIM_H

/* Destruction of boxes after their last reference was dropped. */

#include "base/box.h"

#include <cudacore_internal/base.h>

/* Destroys a box now or, if that is not possible, at a safe point. */
void cch__reclaim(cch__box *box);

/*
 * Drops a reference where nothing may be destroyed, such as under a lock. If it was the last reference, the box is
 * destroyed after the box that the thread is destroying now; if the thread is not destroying any, at a safe point.
 */
void cch__unref_later(void *box);

/*
 * Destroys all boxes that this thread can destroy: those on its own list, and the queued boxes. Returns false, and
 * destroys no box, in a function that CUDA calls.
 */
bool cch__reclaim_settle(void);

/*
 * Returns whether `result` means that destruction is not possible at the moment: CUDA calls are forbidden here, or a
 * capture prevents it.
 */
bool cch__is_retryable(int result);

/*
 * Returns the result of a cch__..._destroy() whose call of the driver returned `status`: false if destruction is not
 * possible at the moment. Reports other failures, because a destructor cannot return them.
 */
static inline bool cch__destroyed(int status) {
  if (cch__is_retryable(status))
    return false;
  cch__report(status);
  return true;
}

/* The number of boxes that wait for destruction, for any reason. */
extern atomic_size_t cch__pending;

typedef enum cch__retry { CCH__RETRY_RARELY, CCH__RETRY_SOME, CCH__RETRY_ALL } cch__retry;
void cch__poll_pending(cch__retry retry);

/* Called by functions that launch, record or create. Destroys the queued boxes, if there are any. */
static inline void cch__poll(void) {
  if (atomic_load_explicit(&cch__pending, memory_order_relaxed) != 0)
    cch__poll_pending(CCH__RETRY_RARELY);
}

/*
 * Called by functions that wait. Like cch__poll(), but also tries again to destroy boxes that the driver refused to
 * destroy before, until it refuses several in a row: while a stream is captured, thousands of frees can wait for that.
 */
static inline void cch__poll_waiting(void) {
  if (atomic_load_explicit(&cch__pending, memory_order_relaxed) != 0)
    cch__poll_pending(CCH__RETRY_SOME);
}

/* Called when a capture begins or ends. Tries again to destroy all boxes that the driver refused to destroy before. */
static inline void cch__poll_patiently(void) {
  if (atomic_load_explicit(&cch__pending, memory_order_relaxed) != 0)
    cch__poll_pending(CCH__RETRY_ALL);
}

#endif
