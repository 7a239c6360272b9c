/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that signals interrupt. Python handles signals on the main thread, between two bytecodes, so a call of the
 * driver that waits would delay Ctrl-C until the device is done, which may be never.
 */
#include "stream/stream.h"

#include <cudacore_internal/driver.h>

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

/*
 * Times in nanoseconds. Between two queries, the thread pauses for a fraction of the time waited so far, so that the
 * wait ends at most 2 % late, and a trace has some hundred queries at most. At first, it reads the clock during the
 * pauses, as the driver does while it waits. Then it sleeps, which takes 50 us longer than it should.
 */
enum {
  SHORT = 100 * 1000,
  SPIN = 3 * 1000 * 1000,
  FRACTION = 64,
  LONGEST_PAUSE = 5 * 1000 * 1000,
  SLICE = 50 * 1000 * 1000
};

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Queries until the work is done, a query fails, or a slice of time has passed. Call it without the GIL. */
static cch_status poll_slice(cch_event *event, bool spins, int64_t began) {
  int64_t at = now(), end = at + SLICE;
  for (;;) {
    cch_status status = cch_event_poll(event);
    if (status != CCH_NOT_READY || at >= end)
      return status;
    int64_t pause = (at - began) / FRACTION, until = at + pause;
    if (spins && at - began < SPIN) {
      do
        at = now();
      while (at < until);
      continue;
    }
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
  if (handles_signals(st) && atomic_load(&interrupted_ever) && PyOS_getsig(SIGINT) != SIG_IGN)
    PyOS_setsig(SIGINT, SIG_DFL);
}

/*
 * Queries in slices, and handles signals between them. If memory was freed, the wait ends with one of the driver's own,
 * at which pools return memory to the system (cch_event_finish).
 */
static int poll_event(cch_event *event, bool spins, int64_t began, cch_status *status) {
  do {
    WITHOUT_GIL(*status = poll_slice(event, spins, began));
    if (*status == CCH_NOT_READY && PyErr_CheckSignals() < 0) {
      atomic_store(&interrupted_ever, true);
      return -1;
    }
  } while (*status == CCH_NOT_READY);
  if (*status == 0)
    WITHOUT_GIL(*status = cch_event_finish(event));
  return 0;
}

/* Waits for an event that was made for the wait, and gives it back. */
static int poll_mark(cch_event *mark, int64_t began, cch_status *status) {
  int waited = poll_event(mark, true, began, status);
  KEEPING_EXCEPTION(WITHOUT_GIL(cch_event_unref(mark)));
  return waited;
}

/* Before a wait: what can be destroyed now can end a capture, or free memory that the wait returns to the system. */
static void drain(void) {
  if (cch_reclaim_pending() != 0)
    WITHOUT_GIL(cch_reclaim_drain());
}

/* Whether to query, and to call the driver's wait at the end: for signals, or to collect output only at the end. */
static bool waits_by_queries(const state *st) { return handles_signals(st) || cch_printed_is_collected(); }

int wait_for_event(const state *st, cch_event *event, cch_status *status) {
  unsigned flags = cch_event_flags(event);
  bool blocks = flags != CCH_EVENT_UNKNOWN && (flags & CCH_EVENT_BLOCKING_SYNC) != 0;
  const bool queries = waits_by_queries(st);
  drain();
  WITHOUT_GIL(*status = queries ? cch_event_query(event) : cch_event_synchronize(event);
              if (queries && *status == 0) *status = cch_event_finish(event));
  return queries && *status == CCH_NOT_READY ? poll_event(event, !blocks, now(), status) : 0;
}

/* Waits for a short time. If that is not enough, makes an event behind the work that the stream has now. */
static cch_status wait_shortly(cch_event **out, int64_t *began, cch_stream *stream) {
  cch_status status = cch_stream_query(stream);
  if (status == 0)
    return cch_stream_finish(stream);
  for (*began = now(); status == CCH_NOT_READY && now() - *began < SHORT;)
    status = cch_stream_poll(stream);
  if (status != CCH_NOT_READY)
    return status;
  status = cch_stream_mark(out, stream);
  return status == 0 ? CCH_NOT_READY : status;
}

/*
 * Other threads can work on the stream during the wait: if it was queried all the time, a wait would not end while they
 * launch, and a query would invalidate a capture that they begin.
 */
int wait_for_stream(const state *st, cch_stream *stream, cch_status *status) {
  cch_event *mark = NULL;
  int64_t began = 0;
  const bool queries = waits_by_queries(st);
  drain();
  WITHOUT_GIL(*status = queries ? wait_shortly(&mark, &began, stream) : cch_stream_synchronize(stream));
  return mark != NULL ? poll_mark(mark, began, status) : 0;
}

/* A context cannot be queried, so the main thread waits for an event behind all work that the context has now. */
int wait_for_context(const state *st, cch_context *context, cch_status *status) {
  cch_event *mark = NULL;
  if (waits_by_queries(st)) {
    drain();
    WITHOUT_GIL(cch_event_behind_context(&mark, context));
  }
  if (mark != NULL)
    return poll_mark(mark, now(), status);
  /* Also if the event was refused: then this fails, too, or the driver does not have such events. */
  WITHOUT_GIL(*status = cch_context_synchronize(context));
  return 0;
}

/*
 * The wait has ended, whether or not the output of kernels can be written. But what a signal handler raises is raised:
 * returns -1 then.
 */
static int show_printed(const state *st) {
  if (PyErr_CheckSignals() < 0)
    return -1;
  PyObject *result = PyObject_CallFunctionObjArgs(st->faces.show_printed, NULL);
  if (result == NULL && !PyErr_ExceptionMatches(PyExc_Exception))
    return -1; /* such as KeyboardInterrupt */
  if (result == NULL)
    PyErr_WriteUnraisable(st->faces.show_printed);
  Py_XDECREF(result);
  return 0;
}

PyObject *wait_done(const state *st, PyObject *face, int waited, cch_status status) {
  handle_done(face);
  if (waited == 0 && status != 0) {
    raise_status(st, status);
    waited = -1;
  } else if (waited == 0) {
    owners_drain(st);
  }
  if (cch_printed_is_collected()) {
    PyObject *failed[3];
    PyErr_Fetch(&failed[0], &failed[1], &failed[2]);
    bool shown = show_printed(st) == 0;
    if (shown)
      PyErr_Restore(failed[0], failed[1], failed[2]);
    for (int i = 0; i < 3 && !shown; i++)
      Py_XDECREF(failed[i]); /* an interrupt replaces the failure of the wait */
    waited = shown ? waited : -1;
  }
  return waited == 0 ? Py_NewRef(Py_None) : NULL;
}
