/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_CAPTURE_H
#define CUDACORE_INTERNAL_CAPTURE_H

#include <cudacore/cudacore.h>

/** Begins to capture a stream into an existing graph (cuStreamBeginCaptureToGraph). The captured work depends on no
 * node. No new box is made: `graph` is the box of the capture's graph. */
CCH_EXPORT cch_status cch_capture_begin_to(cch_graph *graph, cch_stream *stream, int mode);

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
 * The number of captures that this library began and that have not ended. Captures of other libraries are not counted.
 * Destructor-safe.
 */
CCH_EXPORT size_t cch_capture_count(void);

/**
 * Keeps boxes for the graph into which a stream is being captured, as long as the graph or anything made from it
 * exists. Does nothing if there is no capture. If other code began the capture, the graph keeps the boxes by a CUDA
 * user object. Memory that the capture itself allocates is not kept. Call it before submitting the work that uses the
 * boxes. *Any thread.
 */
CCH_EXPORT cch_status cch_capture_keep_all(cch_stream *stream, void *const *boxes, size_t count);

#endif
