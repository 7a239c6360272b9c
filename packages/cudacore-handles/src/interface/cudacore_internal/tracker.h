/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_TRACKER_H
#define CUDACORE_INTERNAL_TRACKER_H

/**
 * @file tracker.h
 * Trackers count, limit, list and log allocations. An allocation is added to a tracker when it is made. The tracker
 * records its free on any thread, even if the free was deferred because a stream was captured. The parts of an
 * allocation count as one allocation. A tracker lives as long as its allocations.
 *
 * None of these functions needs a driver.
 */

#include <cudacore/cudacore.h>

/** Options of a tracker. */
typedef struct cch_tracker_config {
  uint64_t limit;  /**< the maximum number of live bytes; 0 for no limit */
  bool lists;      /**< keep a list of the live allocations, for cch_tracker_list() */
  const char *log; /**< a file to append lines to, in RMM's format (CSV); NULL for none */
} cch_tracker_config;

/** The counts of a tracker. */
typedef struct cch_tracker_counts {
  int64_t current_bytes; /**< bytes of live allocations; in a measurement, the change since it began */
  int64_t current_count; /**< number of live allocations; in a measurement, the change since it began */
  int64_t peak_bytes;    /**< the maximum of current_bytes */
  int64_t peak_count;    /**< the maximum of current_count */
  int64_t total_bytes;   /**< bytes of all allocations, including those that were freed */
  int64_t total_count;   /**< number of all allocations */
} cch_tracker_counts;

/** A live allocation. */
typedef struct cch_tracked {
  uint64_t id; /**< grows with each allocation of the tracker */
  CUdeviceptr ptr;
  size_t size;
} cch_tracked;

/** Makes a tracker. CCH_EINVAL if the log cannot be opened. */
CCH_EXPORT cch_status cch_tracker_create(cch_tracker **out, const cch_tracker_config *config);

/**
 * Begins a measurement: makes a tracker that counts the allocations of another tracker, from now until
 * cch_tracker_stop() or the destruction of the measurement.
 */
CCH_EXPORT cch_status cch_tracker_measure(cch_tracker **out, cch_tracker *tracker);

/** Ends a measurement: its counts no longer change. Does nothing for other trackers. */
CCH_EXPORT cch_status cch_tracker_stop(cch_tracker *tracker);

/**
 * Announces an allocation of `size` bytes to trackers; cch_trackers_add() or cch_trackers_cancel() follows. `stream` is
 * the stream that orders the allocation, or NULL. CCH_ELIMIT if the allocation would exceed the limit of a tracker:
 * then it is announced to none.
 */
CCH_EXPORT cch_status cch_trackers_begin(cch_tracker *const *trackers, size_t count, size_t size,
                                         const cch_stream *CCH_NULLABLE stream);

/** Ends the announcement of an allocation that failed. */
CCH_EXPORT void cch_trackers_cancel(cch_tracker *const *trackers, size_t count, size_t size,
                                    const cch_stream *CCH_NULLABLE stream);

/**
 * Adds a new allocation to trackers. `announced` is the size that was passed to cch_trackers_begin(), or the size of
 * the allocation. *id is its number in the last tracker. CCH_ELIMIT if the allocation is larger than announced, and
 * would exceed the limit of a tracker. If this function fails, the announcement is ended, and the caller frees the
 * allocation.
 */
CCH_EXPORT cch_status cch_trackers_add(uint64_t *id, cch_tracker *const *trackers, size_t count, cch_deviceptr *ptr,
                                       size_t announced);

/**
 * Like cch_deviceptr_alloc_async(), with `count` trackers, each of which can refuse the allocation. On failure, no
 * tracker has counted it.
 */
CCH_EXPORT cch_status cch_deviceptr_alloc_tracked(cch_deviceptr **out, cch_pool *pool, size_t size, cch_stream *stream,
                                                  cch_tracker *const *trackers, size_t count);

/** Reads the counts of a tracker, all at the same moment. */
CCH_EXPORT cch_status cch_tracker_read(cch_tracker_counts *out, cch_tracker *tracker);

/**
 * The live allocations of a tracker that lists them, the newest first: up to `capacity` of them in `out`, and
 * their number in *count.
 */
CCH_EXPORT cch_status cch_tracker_list(cch_tracked *out, size_t capacity, size_t *count, cch_tracker *tracker);

/**
 * Writes the pending lines of the log. Lines are also written when many are pending, and when the tracker is destroyed.
 * CCH_EINVAL if the file cannot be written.
 */
CCH_EXPORT cch_status cch_tracker_flush(cch_tracker *tracker);

#endif
