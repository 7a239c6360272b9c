/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight threads use one registry: boxes are made, wrapped, referenced and dropped, for one handle and for many. No
 * thread may get a box without references; the driver reports a handle that is used or destroyed too late.
 */
#include "device.h"

#include <stdatomic.h>

enum { THREADS = 8, ROUNDS = CHECK_SANITIZED ? 1000 : 5000 };

/* Wraps the stream that all threads share. Any thread can drop the last reference. */
static void wrap_one(int index, void *argument) {
  CUstream raw = argument;
  (void)index;
  for (int i = 0; i < ROUNDS; i++) {
    cch_stream *stream;
    OK(cch_stream_wrap(&stream, raw, NULL, NULL));
    CHECK_PTR(cch_stream_raw(stream), raw);
    CHECK(cch_stream_context(stream) == context);
    cch_stream_unref(cch_stream_ref(stream));
    cch_stream_unref(stream);
  }
}

/* If many threads wrap one foreign handle, they would get a box that was already freed. */
static void one_foreign_handle(void) {
  CUstream raw;
  CHECK_EQ(driver.cuStreamCreateWithPriority(&raw, 0, 0), 0);
  check_threads(THREADS, wrap_one, raw);
  CHECK_EQ(cch_live_count(CCH_KIND_STREAM), 0);
  CHECK_EQ(driver.cuStreamDestroy(raw), 0);
}

static _Atomic(cch_stream *) held;

/* Thread 0 makes and drops the stream. The others look up its handle, and get the stream's box or a borrowed box. */
static void look_up_dying(int index, void *argument) {
  (void)argument;
  for (int i = 0; i < ROUNDS; i++) {
    if (index == 0) {
      cch_stream *stream, *found;
      OK(cch_stream_create(&stream, context, 0, 0));
      OK(cch_stream_wrap(&found, cch_stream_raw(stream), NULL, NULL));
      CHECK(found == stream);
      cch_stream_unref(atomic_exchange(&held, stream));
      cch_stream_unref(found);
    } else {
      cch_stream *stream = atomic_exchange(&held, NULL); /* takes over the reference in `held` */
      if (stream != NULL) {
        cch_stream *found;
        OK(cch_stream_wrap(&found, cch_stream_raw(stream), NULL, NULL));
        CHECK(found == stream);
        cch_stream_unref(stream);
        OK(cch_stream_query(found));
        cch_stream_unref(found);
      }
    }
  }
}

/* A lookup that races with the last unref would find a box that is being destroyed. */
static void handle_in_its_last_moments(void) {
  check_threads(THREADS, look_up_dying, NULL);
  cch_stream_unref(atomic_exchange(&held, NULL));
}

/* Makes and drops boxes that no other thread uses, so that addresses are constantly reused across threads. */
static void make_and_drop(int index, void *argument) {
  enum { KEPT = 16 };
  cch_event *kept[KEPT] = {NULL};
  unsigned random = (unsigned)index * 2654435761u + 1;
  (void)argument;
  for (int i = 0; i < ROUNDS; i++) {
    random = random * 1664525u + 1013904223u;
    size_t at = random >> 16 & (KEPT - 1);
    cch_event_unref(kept[at]);
    OK(cch_event_create(&kept[at], context, CCH_EVENT_DISABLE_TIMING));
    cch_event *found;
    OK(cch_event_wrap(&found, cch_event_raw(kept[at]), NULL, NULL));
    CHECK(found == kept[at]);
    CHECK_EQ(cch_event_flags(found), CCH_EVENT_DISABLE_TIMING); /* not a borrowed box of an earlier event */
    cch_event_unref(found);
  }
  for (size_t i = 0; i < KEPT; i++)
    cch_event_unref(kept[i]);
}

/* A handle that one thread freed and another thread got for a new object would still be registered for the old box. */
static void handles_change_hands(void) { check_threads(THREADS, make_and_drop, NULL); }

int main(void) {
  check_open();
  check_around(context_open, context_close);
  RUN(one_foreign_handle);
  RUN(handle_in_its_last_moments);
  RUN(handles_change_hands);
  return 0;
}
