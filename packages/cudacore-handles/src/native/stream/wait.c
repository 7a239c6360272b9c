/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that signals interrupt. Python handles signals on the main thread, between two bytecodes, so a call of the
 * driver that waits would delay Ctrl-C until the device is done, which may be never.
 */
#include "stream/stream.h"

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

/*
 * Times in nanoseconds. At first, the driver is queried without a pause, as it waits itself. Then the pauses are a
 * fraction of the time waited so far, so that the wait ends at most 2 % late. A pause takes 50 us more than it should.
 */
enum { SPIN = 3 * 1000 * 1000, FRACTION = 64, LONGEST_PAUSE = 5 * 1000 * 1000, SLICE = 50 * 1000 * 1000 };

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Queries until the work is done, a query fails, or a slice of time has passed. Call it without the GIL. */
static cch_status poll_slice(const waiter *how, void *box, int64_t began) {
  int64_t at = now(), end = at + SLICE;
  for (;;) {
    cch_status status = how->query(box);
    if (status != CCH_NOT_READY || at >= end)
      return status;
    if (how->spins && at - began < SPIN) {
      at = now();
      continue;
    }
    int64_t pause = (at - began) / FRACTION;
    struct timespec length = {.tv_nsec = pause < LONGEST_PAUSE ? (long)pause : LONGEST_PAUSE};
    bool interrupted = nanosleep(&length, NULL) != 0; /* a signal was handled on this thread */
    at = interrupted ? end : now();
  }
}

static atomic_bool interrupted_ever;

/*
 * At its end, the interpreter destroys objects, and the driver can wait for a kernel that never ends before it destroys
 * its code or memory. Python calls no signal handlers there. So after a wait was interrupted, Ctrl-C ends the process.
 */
void waits_end(const state *st) {
  if (handles_signals(st) && atomic_load(&interrupted_ever))
    signal(SIGINT, SIG_DFL);
}

int wait_interruptibly(const state *st, const waiter *how, void *box, cch_status *status) {
  WITHOUT_GIL(if (cch_reclaim_pending() != 0) cch_reclaim_drain(); *status = how->query(box));
  if (*status != CCH_NOT_READY)
    return 0;
  if (handles_signals(st)) {
    int64_t began = now();
    while (*status == CCH_NOT_READY) {
      WITHOUT_GIL(*status = poll_slice(how, box, began));
      if (*status == CCH_NOT_READY && PyErr_CheckSignals() < 0) {
        atomic_store(&interrupted_ever, true);
        return -1;
      }
    }
  }
  if (*status == 0 || *status == CCH_NOT_READY)
    WITHOUT_GIL(*status = how->synchronize(box));
  return 0;
}
