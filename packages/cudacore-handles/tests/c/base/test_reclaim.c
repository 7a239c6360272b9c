/* SPDX-License-Identifier: Apache-2.0 */
/* References that are dropped where CUDA calls are forbidden. */
#include "device.h"

/* Dropping a reference in a CUDA callback would call the driver there, or the box would never be destroyed. */
static void drop_in_a_callback_is_queued(void) {
  cch_event *first = new_event(), *second = new_event(), *third;
  size_t calls = sim.calls(NULL);
  cch_callback_enter();
  cch_callback_enter(); /* the calls nest */
  cch_event_unref(first);
  cch_callback_leave();
  cch_event_unref(second);
  CHECK_EQ(cch_reclaim_drain(), 0); /* destroys nothing inside the callback */
  CHECK_EQ(cch_reclaim_pending(), 2);
  CHECK_EQ(sim.calls(NULL), calls);
  CHECK_EQ(cch_live_count(CCH_KIND_EVENT), 2);
  cch_callback_leave();
  CHECK_EQ(sim.calls(NULL), calls); /* not a safe point: the host function has not returned yet */
  third = new_event();
  CHECK_EQ(cch_reclaim_pending(), 0);
  CHECK_EQ(sim.calls("cuEventDestroy"), 2);
  cch_event_unref(third);
}

/* More calls of cch_callback_leave() than of cch_callback_enter() would make the library queue all boxes forever. */
static void leaving_too_often_is_harmless(void) {
  cch_callback_leave();
  cch_event_unref(new_event());
  CHECK_EQ(sim.calls("cuEventDestroy"), 1);
}

/* cch_unref_deferred() would drop more than one reference, or destroy the box at once. */
static void deferred_unref_drops_one(void) {
  cch_event *shared = cch_event_ref(new_event());
  cch_unref_deferred(shared);
  CHECK_EQ(cch_reclaim_pending(), 0);
  cch_unref_deferred(shared);
  CHECK_EQ(cch_reclaim_pending(), 1);
  CHECK_EQ(sim.calls("cuEventDestroy"), 0);
  CHECK_EQ(cch_reclaim_drain(), 1);
  CHECK_EQ(sim.calls("cuEventDestroy"), 1);
  CHECK_EQ(cch_reclaim_drain(), 0);
}

/* A function that creates an object, waits or launches would not be a safe point. */
static void calls_drain(void) {
  cch_pool_config config = {.size = sizeof config, .location_type = 1};
  cch_context *other;
  cch_stream *made;
  cch_pool *made_pool;
  cch_deviceptr *ptr;
  static const cch_launch_config one = {.size = sizeof one, .grid = {1, 1, 1}, .block = {1, 1, 1}};
  cch_library *library;
  cch_kernel *kernel;
  cch_event *waited = new_event(), *another;
#define DRAINS(call)                                                                                                   \
  cch_unref_deferred(new_event());                                                                                     \
  CHECK_EQ(cch_reclaim_pending(), 1);                                                                                  \
  OK(call);                                                                                                            \
  if (cch_reclaim_pending() != 0)                                                                                      \
    check_fail(__FILE__, __LINE__, "%s left the queue as it was", #call);
  DRAINS(cch_context_primary(&other, 1))
  DRAINS(cch_context_synchronize(context))
  DRAINS(cch_stream_create(&made, context, 0, 0))
  DRAINS(cch_stream_synchronize(stream))
  DRAINS(cch_event_create(&another, context, 0))
  DRAINS(cch_event_synchronize(waited))
  DRAINS(cch_pool_create(&made_pool, &config))
  DRAINS(cch_deviceptr_alloc_async(&ptr, pool, 8, stream))
  cch_deviceptr_unref(ptr);
  DRAINS(cch_deviceptr_alloc(&ptr, context, 8))
  cch_deviceptr_unref(ptr);
  DRAINS(cch_deviceptr_alloc_host(&ptr, context, 8, 0))
  cch_deviceptr_unref(ptr);
  DRAINS(cch_library_load(&library, check_ptx, strlen(check_ptx)))
  OK(cch_kernel_get(&kernel, library, "empty"));
  DRAINS(cch_launch(stream, &one, kernel, NULL, 0))
  DRAINS(cch_event_record(waited, stream))
  DRAINS(cch_stream_wait_event(made, waited))
  cch_kernel_unref(kernel);
  cch_library_unref(library);
  cch_pool_unref(made_pool);
  cch_event_unref(waited);
  cch_event_unref(another);
  cch_stream_unref(made);
  cch_context_unref(other);
}

static void drain_bare(int index, void *argument) {
  (void)index, (void)argument;
  CHECK_EQ(sim.depth(), 0);
  CHECK(cch_reclaim_drain() > 0);
  CHECK_EQ(sim.depth(), 0);
}

/* Without a current context, queued boxes would not be destroyed, or would be destroyed in a wrong context. */
static void draining_needs_no_context(void) {
  cch_deviceptr *ptrs[3];
  cch_stream *other, *legacy = cch_stream_legacy();
  device_open();
  OK(cch_context_set_current(context));
  OK(cch_deviceptr_alloc_async(&ptrs[0], pool, 100, legacy));
  OK(cch_context_set_current(NULL));
  OK(cch_deviceptr_alloc(&ptrs[1], context, 100));
  OK(cch_deviceptr_alloc_host(&ptrs[2], context, 100, 0));
  OK(cch_deviceptr_set_stream(ptrs[1], legacy));
  OK(cch_stream_create(&other, context, 0, 0));
  cch_event *queued_event = new_event();
  for (int i = 0; i < 3; i++)
    cch_unref_deferred(ptrs[i]);
  cch_unref_deferred(other);
  cch_unref_deferred(queued_event);
  CHECK_EQ(cch_reclaim_pending(), 5);
  cch_stream_unref(legacy);
  device_close(); /* the queued boxes still refer to their context */
  CHECK_EQ(sim.live(CUDASIM_CONTEXT), 1);
  check_threads(1, drain_bare, NULL);
}

/* A handle whose box is queued would still be registered, so the unreferenced box would be returned again. */
static void queued_box_is_not_found(void) {
  cch_event *dead = new_event(), *found;
  CUevent raw = cch_event_raw(dead);
  cch_unref_deferred(dead);
  OK(cch_event_wrap(&found, raw, NULL, NULL));
  CHECK(found != dead);
  cch_event_unref(found);
  CHECK_EQ(cch_reclaim_drain(), 1);
}

enum { THREADS = 8, EACH = CHECK_SANITIZED ? 500 : 3000 };

static void queue_many(int index, void *argument) {
  (void)argument;
  for (int i = 0; i < EACH; i++) {
    cch_event *made = new_event(); /* destroys boxes that other threads queue */
    if (index % 2) {
      cch_callback_enter();
      cch_event_unref(made);
      cch_callback_leave();
    } else {
      cch_unref_deferred(made);
    }
    if (i % 100 == 0)
      cch_reclaim_drain();
  }
}

/* Threads that queue and drain at the same time would lose a box or destroy it twice. */
static void threads_queue_and_drain(void) {
  check_threads(THREADS, queue_many, NULL);
  cch_reclaim_drain();
  CHECK_EQ(cch_live_count(CCH_KIND_EVENT), 0);
  CHECK_EQ(sim.live(CUDASIM_EVENT), 0);
  CHECK_EQ(sim.calls("cuEventDestroy"), THREADS * EACH);
}

int main(void) {
  check_open();
  RUN(draining_needs_no_context);
  check_around(device_open, device_close);
  RUN(drop_in_a_callback_is_queued);
  RUN(leaving_too_often_is_harmless);
  RUN(deferred_unref_drops_one);
  RUN(calls_drain);
  RUN(queued_box_is_not_found);
  RUN(threads_queue_and_drain);
  return 0;
}
