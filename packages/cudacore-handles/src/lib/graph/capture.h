/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCH_CAPTURE_H
#define CCH_CAPTURE_H

#include "graph/graph.h"

/* What a stream is being captured into. Dependencies belong to the driver, until the stream is used. */
typedef struct cch__capture_info {
  CUstreamCaptureStatus status;
  cuuint64_t id;
  CUgraph graph;
  const CUgraphNode *dependencies;
  const CUgraphEdgeData *edges; /* NULL for plain ones */
  size_t count;
} cch__capture_info;

/* The right context is current. Where nothing is captured, only the status is set. */
int cch__capture_info_of(cch__capture_info *out, CUstream stream);

/* The stream behind whose work that of a stream of a capture into the graph is, a new reference: the one that it was
 * joined into, as long as the capture goes on and afterwards. Otherwise the stream itself. */
cch_stream *cch__capture_stream(cch_graph *graph, cch_stream *stream, uint64_t capture);

/* The box's last reference has gone: nobody will end its capture. False where that is not possible here and now. */
bool cch__capture_abandon(cch_graph *graph);
void cch__capture_drop(cch_graph *graph);

#endif
