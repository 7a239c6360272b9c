/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_CAPTURE_H
#define CUDACORE_CAPTURE_H

/**
 * @file capture.h
 * Graphs that are recorded from streams. The graph of a capture has a box from the beginning, which keeps the objects
 * that the captured work uses. If the last reference to that box is dropped during the capture, the capture is ended
 * and its graph is discarded.
 */

#include <cudacore/graph.h>

CCH_BEGIN_DECLS

/** Capture modes, with CUDA's numbers. */
typedef enum cch_capture_mode {
  CCH_CAPTURE_GLOBAL = 0,
  CCH_CAPTURE_THREAD_LOCAL = 1,
  CCH_CAPTURE_RELAXED = 2
} cch_capture_mode;

/** Begins to capture a stream (cuStreamBeginCapture) into a new graph. If a step fails, the stream does not remain in
 * capture. @since 0.1 */
CCH_EXPORT cch_status cch_capture_begin(cch_graph **out, cch_stream *stream, int mode);

/**
 * Ends the capture that began on `stream` into `graph` (cuStreamEndCapture). CCH_EMISMATCH if it began on another
 * stream, or on another thread in a mode that is not relaxed, into a graph that existed before; the capture then
 * continues. The driver returns an error if the capture was invalidated, if forks were not joined, or if another thread
 * began the capture. The capture has ended even after such an error: the graph, the graphs that contain it and all
 * their nodes are no longer valid. The other captures into these graphs must still be ended, with the result CCH_EGONE.
 * If such a capture was invalidated, the driver could not end it without a crash, so its stream remains in it, and is
 * no longer valid either. If other code has ended the capture by the stream's handle, the graph is no longer valid, and
 * the result is CCH_EGONE. @since 0.1
 */
CCH_EXPORT cch_status cch_capture_end(cch_graph *graph, cch_stream *stream);

/**
 * Joins a forked stream of the capture into `graph`: `into` waits for `stream`, as with cch_stream_wait_stream(), and
 * `stream` must no longer be used in this capture. Memory that the capture allocated on `stream` is freed on `into`,
 * even after the capture, because `stream` is not ordered with later uses. If `stream` is the stream of other code, and
 * has several boxes, this holds for memory that was allocated by this box. CCH_EINVAL if no stream is being captured
 * into the graph, or if `stream` is the per-thread default stream. CCH_EMISMATCH if `into` is that stream, and another
 * thread began the capture.
 * If the graph is no longer valid, and its capture was ended, but not in the driver, `stream` is no longer valid
 * either.
 * @since 0.1
 */
CCH_EXPORT cch_status cch_capture_join(cch_graph *graph, cch_stream *stream, cch_stream *into);

/**
 * Keeps an object for the graph that is being captured, as long as the graph or anything made from it exists. The
 * object is a box, to which the graph takes a reference, or a foreign object if `release` is not NULL. CCH_EINVAL if no
 * stream is being captured into the graph. Does not call the driver. Memory that the capture itself allocates already
 * belongs to the graph, and is not kept. On failure, the caller keeps the object. *Any thread.* @since 0.1
 */
CCH_EXPORT cch_status cch_capture_keep(cch_graph *graph, void *object, cch_release_fn CCH_NULLABLE release);

CCH_END_DECLS

#endif
