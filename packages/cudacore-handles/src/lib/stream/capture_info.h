/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_CAPTURE_INFO_H
#define CUDACORE_CAPTURE_INFO_H

#include "base/kinds.h"

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

/* The stream's context must be current. If the stream is not being captured, only the status is set. */
int cch__capture_info_of(cch__capture_info *out, CUstream stream);

#endif
