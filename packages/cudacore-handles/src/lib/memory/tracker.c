/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts, limits, lists and logs allocations. Each allocation has a list of tracks, one for each of its trackers. One
 * lock of a tracker guards its counts, the counts of its measurements, its list and its log.
 */
#define _GNU_SOURCE /* gettid, O_CLOEXEC */
#include "memory/deviceptr.h"

#include "base/reclaim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The entry of an allocation in one tracker. */
struct cch__track {
  cch__track *next; /* the next track of the same allocation */
  cch_tracker *tracker;
  cch__track *older, *newer; /* neighbours in the tracker's list */
  const cch_deviceptr *ptr;
  uint64_t id;
  size_t size;
  bool logged; /* whether the free of the allocation was logged */
};

/* Lines of the log are buffered, because a write takes longer than an allocation. */
struct cch__tracker_log {
  int file;
  int error; /* errno of the last write that failed */
  size_t used;
  time_t second; /* the time that `clock` was made from */
  struct tm clock;
  char lines[1 << 14];
};

enum { LONGEST_LINE = 160 };

/*
 * Takes the lock of a tracker, except in a forked child, where a thread of the parent may hold it. The child allocates
 * and frees nothing.
 */
static bool lock(cch_tracker *tracker) {
  if (cch__forked())
    return false;
  pthread_mutex_lock(&tracker->lock);
  return true;
}

static void unlock(cch_tracker *tracker, bool locked) {
  if (locked)
    pthread_mutex_unlock(&tracker->lock);
}

/*
 * Returns the tracker whose lock to use: for a measurement, the tracker that it measures; otherwise, the given tracker.
 */
static cch_tracker *root_of(cch_tracker *tracker) { return tracker->measured != NULL ? tracker->measured : tracker; }

/* ---- the log ---- */

static void write_lines(cch__tracker_log *log) {
  size_t written = 0;
  while (written < log->used) {
    ssize_t count = write(log->file, log->lines + written, log->used - written);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0) {
      log->error = errno;
      break;
    }
    written += (size_t)count;
  }
  log->used = 0;
}

static void log_line(cch__tracker_log *log, const char *action, CUdeviceptr ptr, size_t size,
                     const cch_stream *stream) {
  static _Thread_local long thread;
  struct timespec now;
  if (log->used > sizeof log->lines - LONGEST_LINE)
    write_lines(log);
  if (thread == 0)
    thread = syscall(SYS_gettid);
  clock_gettime(CLOCK_REALTIME, &now);
  if (now.tv_sec != log->second) {
    log->second = now.tv_sec;
    localtime_r(&log->second, &log->clock);
  }
  int length = snprintf(log->lines + log->used, LONGEST_LINE, "%ld,%02d:%02d:%02d.%06ld,%s,0x%llx,%zu,0x%" PRIxPTR "\n",
                        thread, log->clock.tm_hour, log->clock.tm_min, log->clock.tm_sec, now.tv_nsec / 1000, action,
                        ptr, size, stream != NULL ? (uintptr_t)stream->raw : 0);
  if (length > 0 && length < LONGEST_LINE)
    log->used += (size_t)length;
}

static int open_log(cch__tracker_log **out, const char *path, const char *operation) {
  static const char header[] = "Thread,Time,Action,Pointer,Size,Stream\n";
  struct stat known;
  cch__tracker_log *log = calloc(1, sizeof *log);
  if (log == NULL)
    return cch__fail_nomem(operation);
  log->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log->file < 0) {
    int why = errno;
    free(log);
    return cch__fail(CCH_EINVAL, operation, "the log %s cannot be opened: %s", path, strerror(why));
  }
  if (fstat(log->file, &known) != 0 || known.st_size == 0) {
    memcpy(log->lines, header, sizeof header - 1);
    log->used = sizeof header - 1;
    write_lines(log); /* written now, so that another tracker of the same file does not write the header again */
  }
  *out = log;
  return 0;
}

cch_status cch_tracker_flush(cch_tracker *tracker) {
  CCH__REQUIRE(tracker);
  int why = 0;
  if (tracker->log == NULL || cch__forked())
    return 0;
  bool locked = lock(tracker);
  write_lines(tracker->log);
  why = tracker->log->error;
  tracker->log->error = 0;
  unlock(tracker, locked);
  return why == 0 ? 0 : cch__fail(CCH_EINVAL, __func__, "the log cannot be written: %s", strerror(why));
}

/* ---- trackers ---- */

static cch_tracker *new_tracker(const char *operation) {
  cch_tracker *tracker = cch__box_new(CCH_KIND_TRACKER, sizeof *tracker, operation);
  if (tracker != NULL)
    pthread_mutex_init(&tracker->lock, NULL);
  return tracker;
}

cch_status cch_tracker_create(cch_tracker **out, const cch_tracker_config *config) {
  CCH__REQUIRE(out, config);
  cch__tracker_log *log = NULL;
  if (config->log != NULL)
    CCH__RETURN_FAILURE(open_log(&log, config->log, __func__));
  cch_tracker *tracker = new_tracker(__func__);
  if (tracker == NULL) {
    if (log != NULL)
      close(log->file);
    free(log);
    return CCH_ENOMEM;
  }
  tracker->limit = config->limit;
  tracker->lists = config->lists;
  tracker->log = log;
  *out = tracker;
  return 0;
}

cch_status cch_tracker_measure(cch_tracker **out, cch_tracker *tracker) {
  CCH__REQUIRE(out, tracker);
  cch_tracker *measurement = new_tracker(__func__);
  if (measurement == NULL)
    return CCH_ENOMEM;
  cch_tracker *root = root_of(tracker);
  measurement->measured = cch__box_ref(root);
  bool locked = lock(root);
  measurement->next = root->measurements;
  root->measurements = measurement;
  unlock(root, locked);
  *out = measurement;
  return 0;
}

cch_status cch_tracker_stop(cch_tracker *tracker) {
  CCH__REQUIRE(tracker);
  cch_tracker *root = tracker->measured;
  if (root == NULL)
    return 0;
  bool locked = lock(root);
  for (cch_tracker **link = &root->measurements; *link != NULL; link = &(*link)->next)
    if (*link == tracker) {
      *link = tracker->next;
      break;
    }
  unlock(root, locked);
  return 0;
}

void cch__tracker_unref_held(cch_tracker *tracker) {
  cch_tracker_stop(tracker);
  if (tracker->log != NULL) {
    write_lines(tracker->log);
    close(tracker->log->file);
    free(tracker->log);
  }
  pthread_mutex_destroy(&tracker->lock);
  cch__box_unref(tracker->measured);
}

/* ---- counts ---- */

static inline void count_one(cch_tracker_counts *counts, int64_t size) {
  counts->current_bytes += size;
  counts->current_count++;
  counts->total_bytes += size;
  counts->total_count++;
  if (counts->current_bytes > counts->peak_bytes)
    counts->peak_bytes = counts->current_bytes;
  if (counts->current_count > counts->peak_count)
    counts->peak_count = counts->current_count;
}

static inline void discount_one(cch_tracker_counts *counts, int64_t size) {
  counts->current_bytes -= size;
  counts->current_count--;
}

/*
 * Returns whether an allocation fits into the limit, if there is one. `announced` bytes were already announced for it.
 * If it does not fit, *used is the number of bytes of the other allocations. The lock must be held.
 */
static bool fits(const cch_tracker *tracker, size_t size, size_t announced, uint64_t *used) {
  if (tracker->limit == 0)
    return true;
  *used = (uint64_t)tracker->counts.current_bytes + tracker->announced - announced;
  return *used <= tracker->limit && size <= tracker->limit - *used;
}

static int fail_limit(const cch_tracker *tracker, size_t size, uint64_t used, const char *operation) {
  return cch__fail(CCH_ELIMIT, operation,
                   "%zu bytes would exceed the limit of %" PRIu64 " bytes, of which %" PRIu64 " are in use", size,
                   tracker->limit, used);
}

static int begin(cch_tracker *tracker, size_t size, const char *operation) {
  if (tracker->limit == 0)
    return 0;
  uint64_t used = 0;
  bool locked = lock(tracker);
  bool is_allowed = fits(tracker, size, 0, &used);
  if (is_allowed)
    tracker->announced += size;
  unlock(tracker, locked);
  return is_allowed ? 0 : fail_limit(tracker, size, used, operation);
}

static void cancel(cch_tracker *tracker, size_t size, const cch_stream *stream) {
  if (tracker->limit == 0 && tracker->log == NULL)
    return;
  bool locked = lock(tracker);
  if (tracker->limit != 0)
    tracker->announced -= size;
  if (tracker->log != NULL)
    log_line(tracker->log, "allocate failure", 0, size, stream);
  unlock(tracker, locked);
}

static int add(uint64_t *id, cch_tracker *tracker, cch_deviceptr *ptr, size_t announced, const char *operation) {
  cch__track *track = malloc(sizeof *track);
  if (track == NULL)
    return cch__fail_nomem(operation);
  *track = (cch__track){.next = ptr->tracks, .tracker = cch__box_ref(tracker), .ptr = ptr, .size = ptr->size};
  bool locked = lock(tracker);
  uint64_t used = 0;
  if (ptr->size > announced && !fits(tracker, ptr->size, announced, &used)) { /* the memory's size was rounded up */
    unlock(tracker, locked);
    int status = fail_limit(tracker, ptr->size, used, operation);
    cch__box_unref(tracker); /* the track's reference; the caller keeps its own */
    free(track);
    return status;
  }
  *id = track->id = ++tracker->last_id;
  if (tracker->limit != 0)
    tracker->announced -= announced;
  count_one(&tracker->counts, (int64_t)ptr->size);
  for (cch_tracker *each = tracker->measurements; each != NULL; each = each->next)
    count_one(&each->counts, (int64_t)ptr->size);
  if (tracker->lists) {
    track->older = tracker->newest;
    if (tracker->newest != NULL)
      tracker->newest->newer = track;
    tracker->newest = track;
  }
  if (tracker->log != NULL)
    log_line(tracker->log, "allocate", ptr->ptr, ptr->size, cch_deviceptr_stream(ptr));
  unlock(tracker, locked);
  ptr->tracks = track;
  return 0;
}

static int check(cch_tracker *const *trackers, size_t count, const char *operation) {
  int status = count > 0 ? cch__check(trackers, -1, "the argument trackers", operation) : 0;
  for (size_t i = 0; i < count && status == 0; i++)
    status = cch__fail_at_place(CCH__USABLE(trackers[i], "the argument trackers[i]", operation), i);
  return status;
}

cch_status cch_trackers_begin(cch_tracker *const *trackers, size_t count, size_t size, const cch_stream *stream) {
  CCH__RETURN_FAILURE(CCH__USABLE_OR_NULL(stream, "the argument stream", __func__));
  CCH__RETURN_FAILURE(check(trackers, count, __func__));
  for (size_t i = 0; i < count; i++) {
    int status = begin(trackers[i], size, __func__);
    if (status != 0) {
      cch_trackers_cancel(trackers, i, size, stream);
      return status;
    }
  }
  return 0;
}

void cch_trackers_cancel(cch_tracker *const *trackers, size_t count, size_t size, const cch_stream *stream) {
  if ((stream != NULL && cch__check(stream, CCH_KIND_STREAM, "the argument stream", __func__) != 0) ||
      check(trackers, count, __func__) != 0)
    return;
  while (count > 0)
    cancel(trackers[--count], size, stream);
}

cch_status cch_trackers_add(uint64_t *id, cch_tracker *const *trackers, size_t count, cch_deviceptr *ptr,
                            size_t announced) {
  CCH__REQUIRE(id, ptr);
  CCH__RETURN_FAILURE(check(trackers, count, __func__));
  for (size_t i = 0; i < count; i++) {
    int status = add(id, trackers[i], ptr, announced, __func__);
    if (status != 0) {
      cch_trackers_cancel(trackers + i, count - i, announced, cch_deviceptr_stream(ptr));
      return status;
    }
  }
  return 0;
}

static void log_free(cch__track *track, const cch_deviceptr *ptr) {
  cch_tracker *tracker = track->tracker;
  if (tracker->log == NULL || track->logged)
    return;
  track->logged = true;
  bool locked = lock(tracker);
  log_line(tracker->log, "free", ptr->ptr, ptr->size, cch_deviceptr_stream(ptr));
  unlock(tracker, locked);
}

void cch__tracks_freeing(const cch_deviceptr *ptr) {
  for (cch__track *track = ptr->tracks; track != NULL; track = track->next)
    log_free(track, ptr);
}

void cch__tracks_close(cch_deviceptr *ptr) {
  cch__track *next;
  for (cch__track *track = ptr->tracks; track != NULL; track = next) {
    cch_tracker *tracker = track->tracker;
    next = track->next;
    log_free(track, ptr);
    bool locked = lock(tracker);
    discount_one(&tracker->counts, (int64_t)track->size);
    for (cch_tracker *each = tracker->measurements; each != NULL; each = each->next)
      discount_one(&each->counts, (int64_t)track->size);
    if (tracker->lists) {
      *(track->newer != NULL ? &track->newer->older : &tracker->newest) = track->older;
      if (track->older != NULL)
        track->older->newer = track->newer;
    }
    unlock(tracker, locked);
    free(track);
    cch__box_unref(tracker);
  }
  ptr->tracks = NULL;
}

cch_status cch_tracker_read(cch_tracker_counts *out, cch_tracker *tracker) {
  CCH__REQUIRE(out, tracker);
  cch_tracker *root = root_of(tracker);
  bool locked = lock(root);
  *out = tracker->counts;
  unlock(root, locked);
  return 0;
}

cch_status cch_tracker_list(cch_tracked *out, size_t capacity, size_t *count, cch_tracker *tracker) {
  CCH__REQUIRE(count, tracker);
  CCH__REQUIRE_ARRAY(out, capacity);
  if (!tracker->lists)
    return cch__fail(CCH_EINVAL, __func__, "the tracker was made without a list");
  size_t found = 0;
  bool locked = lock(tracker);
  for (const cch__track *track = tracker->newest; track != NULL; track = track->older, found++)
    if (found < capacity)
      out[found] = (cch_tracked){track->id, track->ptr->ptr, track->size};
  unlock(tracker, locked);
  *count = found;
  return 0;
}

cch_status cch_deviceptr_alloc_tracked(cch_deviceptr **out, cch_pool *pool, size_t size, cch_stream *stream,
                                       cch_tracker *const *trackers, size_t count) {
  CCH__REQUIRE_USABLE(out, pool, stream);
  uint64_t id;
  cch_deviceptr *ptr = NULL;
  CCH__RETURN_FAILURE(cch_trackers_begin(trackers, count, size, stream));
  int status = cch_deviceptr_alloc_async(&ptr, pool, size, stream);
  if (status != 0) {
    cch_trackers_cancel(trackers, count, size, stream);
    return status;
  }
  status = cch_trackers_add(&id, trackers, count, ptr, size);
  if (status == 0) {
    *out = ptr;
    return 0;
  }
  cch_error failure = *cch_error_last();
  cch_deviceptr_unref(ptr);
  cch_error_restore(&failure);
  return status;
}
