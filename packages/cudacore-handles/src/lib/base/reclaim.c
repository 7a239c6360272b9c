/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes that are dead. Where it can be, one is destroyed at once; what dies of it comes onto a list of the thread's,
 * so that a chain of a million boxes needs no more stack than one. Where CUDA calls are forbidden, boxes are queued.
 * What the driver refuses is queued apart, to be tried again, because each try costs a call.
 *
 * Lists link the boxes themselves, and the queues are lock-free: entering a box can neither allocate, block nor fail.
 */
#include "base/reclaim.h"

#include "base/kinds.h"
#include "base/registry.h"

#include <cuda.h>

typedef struct stack {
  _Atomic(cch__box *) top;
} stack;

static stack queue, refused;
atomic_size_t cch__pending;

/* Polls until the refused are tried again: as many as there are of them, so that each poll costs a constant. */
enum { FEWEST_POLLS = 64 };
static atomic_size_t refused_count, polls;

static _Thread_local unsigned callback_depth;

/* What the thread destroys. Its first box is the next. */
static _Thread_local struct {
  cch__box *first, *last;
  bool running;
  enum { UNKNOWN, PERMITTED, FORBIDDEN } calls;
  size_t drained; /* boxes that had been queued */
} dying;

bool cch__in_callback(void) { return callback_depth > 0; }

int cch_callback_active(void) { return callback_depth > 0; }

int cch__fail_forbidden(const char *operation) {
  int status = cch__fail_driver(CUDA_ERROR_NOT_PERMITTED, operation);
  cch__fail_explain("graphs cannot be used in a function that CUDA calls");
  return status;
}

void cch_callback_enter(void) { callback_depth++; }

void cch_callback_leave(void) {
  if (callback_depth > 0)
    callback_depth--;
}

/*
 * Nothing of a forked child's is ever destroyed: the handles are the parent's, and a lock may be held by a thread that
 * does not exist here.
 */
static void push(stack *onto, cch__box *box) {
  if (cch__forked())
    return;
  cch_kind kind = (cch_kind)box->kind;
  bool has_value = box->value_size > 0;
  if (has_value)
    cch__registry_hold(kind);
  box->waited = true;
  atomic_store_explicit(&box->queued, true, memory_order_relaxed);
  if (onto == &refused)
    box->refused_by = cch__thread();
  atomic_fetch_add_explicit(&cch__pending, 1, memory_order_relaxed);
  cch__box *top = atomic_load_explicit(&onto->top, memory_order_relaxed);
  do
    box->next = top;
  while (!atomic_compare_exchange_weak_explicit(&onto->top, &top, box, memory_order_release, memory_order_relaxed));
  if (has_value)
    cch__registry_let_go(kind);
}

static void append(cch__box *box) {
  box->next = NULL;
  if (dying.first == NULL)
    dying.first = box;
  else
    dying.last->next = box;
  dying.last = box;
}

/* Taking the whole stack at once leaves no window for the reuse of an address that is still linked. */
static void take(stack *from) {
  cch__box *box = atomic_exchange_explicit(&from->top, NULL, memory_order_acquire), *next;
  for (; box != NULL; box = next) {
    next = box->next;
    atomic_store_explicit(&box->queued, false, memory_order_relaxed);
    atomic_fetch_sub_explicit(&cch__pending, 1, memory_order_relaxed);
    append(box);
  }
}

bool cch__not_now(int result) {
  return result == CUDA_ERROR_NOT_PERMITTED ||
         (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

/* The end of our memory is a call that may be refused first of all: it enters the context. */
static bool asks_by_itself(const cch__box *box) {
  const cch_deviceptr *ptr = (const cch_deviceptr *)box;
  return box->kind == CCH_KIND_DEVICEPTR && ptr->origin == CCH__FROM_POOL && ptr->context != NULL;
}

/*
 * In a host function or a user object's destructor, of which nobody told us, the driver refuses some calls and not
 * others, and foreign owners count on being able to make them: so it is asked once for all that die together.
 */
static bool is_permitted(const cch__box *box, bool *is_there) {
  if (!cch__box_needs_driver(box) || asks_by_itself(box))
    return true;
  if (dying.calls == UNKNOWN) {
    bool asks = atomic_load_explicit(&cch__state, memory_order_acquire) == CCH__READY;
    dying.calls = !asks || cch__driver_permits_calls(cch__lost_with(box), is_there) ? PERMITTED : FORBIDDEN;
  }
  return dying.calls == PERMITTED;
}

static void run(void) {
  bool outer = !dying.running;
  if (outer) {
    dying.running = true;
    dying.calls = UNKNOWN;
  }
  cch__destructor_enter();
  for (cch__box *box; (box = dying.first) != NULL;) {
    dying.first = box->next;
    bool waited = box->waited;
    if (cch__forked())
      continue;
    bool is_there = false;
    if (!is_permitted(box, &is_there) || !cch__box_destroy(box, is_there)) {
      atomic_fetch_add_explicit(&refused_count, 1, memory_order_relaxed);
      push(&refused, box);
    } else if (waited) {
      dying.drained++;
    }
  }
  cch__destructor_leave();
  if (outer)
    dying.running = false;
}

static void take_refused(void) {
  atomic_store_explicit(&refused_count, 0, memory_order_relaxed);
  atomic_store_explicit(&polls, 0, memory_order_relaxed);
  take(&refused);
}

void cch__reclaim(cch__box *box) {
  if (callback_depth > 0) {
    push(&queue, box);
    return;
  }
  append(box);
  if (!dying.running)
    run();
}

void cch_unref_deferred(void *opaque) {
  cch__box *box = opaque;
  if (box != NULL && atomic_fetch_sub_explicit(&box->references, 1, memory_order_acq_rel) == 1)
    push(&queue, box);
}

void cch__unref_later(void *opaque) {
  cch__box *box = opaque;
  if (box == NULL || atomic_fetch_sub_explicit(&box->references, 1, memory_order_acq_rel) != 1)
    return;
  if (dying.running && callback_depth == 0)
    append(box);
  else
    push(&queue, box);
}

bool cch__reclaim_settle(void) {
  if (callback_depth > 0)
    return false;
  take(&queue);
  take_refused();
  run();
  return true;
}

size_t cch_reclaim_pending(void) { return atomic_load_explicit(&cch__pending, memory_order_relaxed); }

size_t cch_reclaim_drain(void) {
  if (callback_depth > 0 || dying.running)
    return 0;
  dying.drained = 0;
  do
    cch__reclaim_settle();
  while (atomic_load_explicit(&queue.top, memory_order_relaxed) !=
         NULL); /* the end of a graph can queue what it kept */
  return dying.drained;
}

void cch__poll_pending(bool patient) {
  if (callback_depth > 0 || dying.running)
    return;
  take(&queue);
  if (atomic_load_explicit(&refused.top, memory_order_relaxed) != NULL) {
    size_t most = FEWEST_POLLS + atomic_load_explicit(&refused_count, memory_order_relaxed);
    if (patient || atomic_fetch_add_explicit(&polls, 1, memory_order_relaxed) >= most)
      take_refused();
  }
  if (dying.first != NULL)
    run();
}
