/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_CAPTURE_H
#define CUDACORE_SIM_DRIVER_GRAPH_CAPTURE_H

#include "sim/driver/base/capture_rules.h"
#include "sim/driver/graph/graph.h"
#include "sim/driver/graph/nodes.h"

namespace sim {

/* A dependency of the next node that is captured. */
struct CaptureEdge {
  NodePtr node;
  CUgraphEdgeData data;
};

/* A capture, with all streams that take part. */
struct Capture {
  uint64_t id = 0;
  GraphPtr graph;
  bool owns_graph = true; /* whether the capture has created the graph */
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0; /* the thread that began the capture */
  std::weak_ptr<Stream> origin;
  std::vector<std::weak_ptr<Stream>> streams; /* the streams that take part, with the origin */
  std::vector<CaptureEdge> lost;              /* last nodes of destroyed streams; the origin must join these, too */
  bool is_valid = true, has_ended = false;
};

using CapturePtr = std::shared_ptr<Capture>;

/* A stream's part in a capture. */
struct StreamCapture {
  CapturePtr capture;
  std::vector<CaptureEdge> edges;
};

/* An event that was recorded in a capture, where it represents nodes. */
struct EventCapture {
  CapturePtr capture;
  std::vector<CaptureEdge> edges;
};

void invalidate(Capture &capture);

/* ---- capturing work */

NodePtr capture_node(const StreamPtr &stream, CUgraphNodeType type, ParamsPtr params, bool programmatic = false);
void capture_record(const StreamPtr &stream, Event &event);
void capture_record(const NodePtr &kernel, const StreamCapture &part, Event &event, unsigned char port);
CUresult capture_wait(const StreamPtr &stream, const std::shared_ptr<Event> &event);
} // namespace sim

#endif
