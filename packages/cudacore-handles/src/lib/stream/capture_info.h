/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_CAPTURE_INFO_H
#define CUDACORE_CAPTURE_INFO_H

#include "base/kinds.h"

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

#endif
