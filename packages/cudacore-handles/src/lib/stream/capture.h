/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_STREAM_CAPTURE_H
#define CUDACORE_STREAM_CAPTURE_H

/*
 * The captures that streams are in. A capture adds work to a graph. The graph keeps the objects that the work uses,
 * whichever code began the capture.
 */

#include "base/kinds.h"

/*
 * Guards the captures of streams and of graphs, and the objects that captures keep. Once a thread has taken this lock,
 * a graph that is being destroyed can no longer be found.
 */
extern pthread_mutex_t cch__captures_lock;

/* ---- capture.c ---- */

/* Records that a capture into a graph has begun or, if it is NULL, has ended. Returns the capture that has ended. */
cch__capture *cch__capture_swap(cch_graph *graph, cch__capture *capture);

/* Returns whether a capture of this library adds work to a graph. */
bool cch__graph_is_captured(const cch_graph *graph);

/*
 * Gives up a stream that is in a capture which cannot be ended. The driver must not get the stream again, so its box
 * becomes a tombstone, and the stream is leaked.
 */
void cch__stream_leak(cch_stream *stream);

/*
 * The graph that a stream is being captured into. The driver owns the arrays of dependencies; they are valid until the
 * stream is used.
 */
typedef struct cch__capture_info {
  CUstreamCaptureStatus status;
  cuuint64_t id;
  CUgraph graph;
  const CUgraphNode *dependencies;
  const CUgraphEdgeData *edges; /* NULL if all edges are plain */
  size_t count;
} cch__capture_info;

/*
 * Queries the capture that a stream is in. The stream's context must be current. If the stream is not being captured,
 * only `status` is set.
 */
int cch__capture_info_of(cch__capture_info *out, CUstream stream);

/*
 * Returns whether work on a stream would become a part of a capture, or invalidate one. The stream's context must be
 * current.
 */
bool cch__is_capturing(CUstream stream);
/* The same, for calls that fail if the driver cannot tell. */
int cch__capture_ask(bool *out, CUstream stream);

/*
 * Finds whether work that is given to a stream becomes a part of a graph, whichever code began the capture. The
 * stream's context must be current.
 */
int cch__capture_query(bool *captured, cch_stream *stream);
/*
 * Finds the graph into which work on a stream is captured: a new reference; NULL if there is no capture, or if other
 * code began it. If this library began a capture on the stream itself, the driver is not called.
 */
int cch__capture_graph(cch_graph **out, cch_stream *stream);

/*
 * Returns a stream that is ordered after the work of `stream` in a capture; a new reference. If `stream` was joined
 * into another stream, the result is that other stream, even after the capture. Otherwise it is `stream` itself.
 */
cch_stream *cch__capture_stream(cch_stream *stream, uint64_t capture);

/* ---- capture_keep.c ---- */

/*
 * Like cch__capture_query(). If the stream is being captured, also makes the graph keep the boxes that the work uses.
 */
int cch__capture_keep(bool *captured, cch_stream *stream, void *const *boxes, size_t count);

/* ---- capture_memory.c ---- */

/*
 * Called before a capture into the graph allocates memory. Makes the record of the runs of the graph's hierarchy, if
 * there is none, with room for the memory.
 */
int cch__runs_reserve(cch_graph *graph, const char *operation);
/* Returns that record, as a new reference; NULL if no capture has allocated memory. */
cch__runs *cch__runs_of(cch_graph *graph);
void cch__runs_unref(cch__runs *runs);
/*
 * Drops memory after its capture: from now on, it is freed behind each launch. Returns the resolved stream of the last
 * launch, on which the caller frees the memory now, as a new reference; NULL if there was no launch. False, and nothing
 * is dropped, while the graph is being launched.
 */
bool cch__runs_drop(cch_stream **out, cch_deviceptr *ptr);
/*
 * A launch begins on a stream: it waits for the stream of the last launch, on which dropped memory is freed, because it
 * allocates that memory again. `runs` may be NULL. If this succeeds, cch__runs_launched() must follow.
 */
int cch__runs_begin(cch__runs *runs, cch_stream *stream);
/* Records a launch that has ended with `status` and, if it succeeded, frees the dropped memory behind it. */
int cch__runs_launched(cch__runs *runs, cch_stream *stream, int status);

#endif
