/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_CAPTURE_H
#define CUDACORE_INTERNAL_CAPTURE_H

#include <cudacore/cudacore.h>

/** Begins to capture a stream into an existing graph (cuStreamBeginCaptureToGraph). The captured work depends on the
 * given nodes. No new box is made: `graph` is the box of the capture's graph. */
CCH_EXPORT cch_status cch_capture_begin_to(cch_graph *graph, cch_stream *stream, cch_graph_node *const *dependencies,
                                           size_t count, int mode);

/**
 * State of a stream's capture, a cch_capture_status (cuStreamGetCaptureInfo). If `graph` is not NULL, `*graph` is the
 * box of the graph, as a new reference; it is NULL if there is no capture, or if other code began the capture.
 */
CCH_EXPORT cch_status cch_capture_status_of(int *status, cch_graph **CCH_NULLABLE graph, cch_stream *stream);

/**
 * The graph into which work on a stream is captured, as a new reference; NULL if there is no capture, or if other code
 * began the capture. If this library began a capture on the stream itself, the driver is not called; otherwise
 * cuStreamGetCaptureInfo is called.
 */
CCH_EXPORT cch_status cch_capture_graph(cch_graph **out, cch_stream *stream);

/**
 * Adds a node to the capture that a stream is in, at the stream's current point. Later work depends on the node. The
 * dependencies in the specification are ignored.
 */
CCH_EXPORT cch_status cch_capture_add(cch_graph_node **CCH_NULLABLE out, cch_stream *stream, const cch_node_spec *spec);

/**
 * Prepares a fork of a captured stream. If the stream waits for many nodes, adds an empty node that waits for them, and
 * for which the stream then waits. Otherwise each fork would have an edge from each of them.
 */
CCH_EXPORT cch_status cch_capture_gather(cch_stream *stream);

/**
 * The number of captures that this library began and that have not ended. Captures of other libraries are not counted:
 * see cch_capture_is_active(). Destructor-safe.
 */
CCH_EXPORT size_t cch_capture_count(void);

/**
 * 1 if work that is submitted to a stream now becomes a part of a graph, whichever code began the capture; else 0
 * (cuStreamIsCapturing). For the legacy stream, the result is also 0 while a blocking stream captures; the driver then
 * refuses the work. *Any thread.
 */
CCH_EXPORT cch_status cch_capture_is_active(int *out, cch_stream *stream);

/**
 * Keeps boxes for the graph into which a stream is being captured, as long as the graph or anything made from it
 * exists. Does nothing if there is no capture. If other code began the capture, the graph keeps the boxes by a CUDA
 * user object. Memory that the capture itself allocates is not kept. Call it before submitting the work that uses the
 * boxes. *Any thread.
 */
CCH_EXPORT cch_status cch_capture_keep_all(cch_stream *stream, void *const *boxes, size_t count);

#endif
