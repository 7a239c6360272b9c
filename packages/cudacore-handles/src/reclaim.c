/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes that died where CUDA calls are forbidden, waiting for a safe point. The queue links the boxes themselves
 * and is lock-free, so that entering a box can neither allocate, block nor fail.
 */
#include "internal.h"

static _Atomic(cch__box *) queue;
static atomic_size_t pending;
static _Thread_local unsigned callback_depth;

void cch_callback_enter(void) { callback_depth++; }

void cch_callback_leave(void) {
  if (callback_depth > 0)
    callback_depth--;
}

bool cch__in_callback(void) { return callback_depth > 0; }

void cch__reclaim_push(cch__box *box) {
  atomic_fetch_add_explicit(&pending, 1, memory_order_relaxed);
  cch__box *head = atomic_load_explicit(&queue, memory_order_relaxed);
  do
    box->queued = head;
  while (!atomic_compare_exchange_weak_explicit(&queue, &head, box, memory_order_release, memory_order_relaxed));
}

size_t cch_reclaim_pending(void) { return atomic_load_explicit(&pending, memory_order_relaxed); }

size_t cch_reclaim_drain(void) {
  if (cch__in_callback())
    return 0;
  size_t drained = 0;
  /* Taking the whole list at once leaves no window for the reuse of an address that is still linked. */
  cch__box *box = atomic_exchange_explicit(&queue, NULL, memory_order_acquire);
  while (box != NULL) {
    cch__box *next = box->queued;
    atomic_fetch_sub_explicit(&pending, 1, memory_order_relaxed);
    cch__box_destroy(box);
    box = next;
    drained++;
  }
  return drained;
}

void cch__reclaim_poll(void) {
  if (atomic_load_explicit(&queue, memory_order_relaxed) != NULL)
    cch_reclaim_drain();
}
