/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destroys boxes without references, immediately if possible. Boxes that thereby lose their last reference are put on a
 * list of the thread, so that a chain of a million boxes needs no more stack than one box. Where CUDA calls are
 * forbidden, boxes are queued. Boxes that the driver refuses to destroy are in a separate queue, because each attempt
 * costs a call.
 *
 * The boxes themselves are the links of the lists, and the queues are lock-free. So adding a box can neither allocate,
 * block nor fail.
 */
#include "base/reclaim.h"

#include "base/kinds.h"
#include "base/registry.h"

#include "driver/current.h"

typedef struct stack {
  _Atomic(cch__box *) top;
} stack;

static stack queue, refused;
atomic_size_t cch__pending;

/*
 * The number of polls before all refused boxes are tried again. The number of boxes that wait is added to it, so that
 * the mean cost of a poll is constant.
 */
enum { MIN_POLLS = 64, MAX_IN_VAIN = 8 };
static atomic_size_t polls;

static _Thread_local unsigned callback_depth;

/* The boxes that the thread is destroying, in this order. */
static _Thread_local struct {
  cch__box *first, *last;
  bool running;
  enum { UNKNOWN, PERMITTED, FORBIDDEN } calls;
  size_t drained; /* number of destroyed boxes that had been queued */
  size_t refused; /* number of refusals */
} dying;

bool cch__in_callback(void) { return callback_depth > 0; }

bool cch_callback_active(void) { return callback_depth > 0; }

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
 * In a forked child, nothing is ever destroyed: the handles belong to the parent, and a thread that does not exist in
 * the child may hold a lock.
 */
static void push(stack *onto, cch__box *box) {
  if (cch__forked())
    return;
  cch_kind kind = (cch_kind)box->kind;
  bool has_value = box->value_size > 0;
  if (has_value)
    cch__registry_lock(kind);
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
    cch__registry_unlock(kind);
}

static void append(cch__box *box) {
  box->next = NULL;
  if (dying.first == NULL)
    dying.first = box;
  else
    dying.last->next = box;
  dying.last = box;
}

/* The whole stack is taken at once, so that no other thread can pop a box and push it again meanwhile. */
static cch__box *take_chain(stack *from) { return atomic_exchange_explicit(&from->top, NULL, memory_order_acquire); }

/* Appends a box of a chain to the thread's list, and returns the next one of the chain. */
static cch__box *append_queued(cch__box *box) {
  cch__box *next = box->next;
  atomic_store_explicit(&box->queued, false, memory_order_relaxed);
  atomic_fetch_sub_explicit(&cch__pending, 1, memory_order_relaxed);
  append(box);
  return next;
}

static void take(stack *from) {
  for (cch__box *box = take_chain(from); box != NULL;)
    box = append_queued(box);
}

/* Puts back the rest of a chain, behind boxes that were pushed meanwhile. */
static void put_back(stack *onto, cch__box *rest) {
  cch__box *empty = NULL;
  while (rest != NULL && !atomic_compare_exchange_strong_explicit(&onto->top, &empty, rest, memory_order_release,
                                                                  memory_order_relaxed)) {
    cch__box *pushed = take_chain(onto), *last = pushed;
    while (last != NULL && last->next != NULL)
      last = last->next;
    if (last != NULL) {
      last->next = rest;
      rest = pushed;
    }
    empty = NULL;
  }
}

bool cch__is_retryable(int result) {
  return result == CUDA_ERROR_NOT_PERMITTED ||
         (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

/*
 * Returns whether no separate query is needed for a box: freeing memory of a pool begins with a driver call, to enter
 * the context, and that call fails where calls are forbidden. A part of an allocation only leaves its stream to the
 * whole; if that fails, the part waits for its stream, and the driver refuses that wait.
 */
static bool queries_by_itself(const cch__box *box) {
  const cch_deviceptr *ptr = (const cch_deviceptr *)box;
  return box->kind == CCH_KIND_DEVICEPTR &&
         ((ptr->origin == CCH__FROM_POOL && ptr->context != NULL) || ptr->origin == CCH__PART);
}

/*
 * Returns whether CUDA calls are permitted. Inside a function that CUDA calls, if it was not announced by
 * cch_callback_enter(), the driver refuses only some calls. But the release functions of foreign owners may make any
 * call. So one query of the driver decides for all boxes that are destroyed together.
 */
static bool is_permitted(const cch__box *box, bool *is_there) {
  if (!cch__box_needs_driver(box) || queries_by_itself(box))
    return true;
  if (dying.calls == UNKNOWN) {
    bool is_ready = atomic_load_explicit(&cch__state, memory_order_acquire) == CCH__READY;
    dying.calls = !is_ready || cch__driver_permits_calls(cch__lost_with(box), is_there) ? PERMITTED : FORBIDDEN;
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
      dying.refused++;
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
  atomic_store_explicit(&polls, 0, memory_order_relaxed);
  take(&refused);
}

/* Tries refused boxes again, until several in a row are refused. */
static void retry_some(void) {
  cch__box *box = take_chain(&refused);
  for (int in_vain = 0; box != NULL && in_vain < MAX_IN_VAIN;) {
    size_t before = dying.refused;
    box = append_queued(box);
    run();
    in_vain = dying.refused == before ? 0 : in_vain + 1;
  }
  put_back(&refused, box);
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
         NULL); /* destroying a graph can queue the boxes that the graph kept */
  return dying.drained;
}

void cch__poll_pending(cch__retry retry) {
  if (callback_depth > 0 || dying.running)
    return;
  take(&queue);
  if (atomic_load_explicit(&refused.top, memory_order_relaxed) != NULL) {
    size_t wait = MIN_POLLS + atomic_load_explicit(&cch__pending, memory_order_relaxed);
    if (retry == CCH__RETRY_ALL || atomic_fetch_add_explicit(&polls, 1, memory_order_relaxed) >= wait)
      take_refused();
    else if (retry == CCH__RETRY_SOME)
      retry_some();
  }
  if (dying.first != NULL)
    run();
}
