/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_CAPTURE_H
#define CUDACORE_SIM_DRIVER_GRAPH_CAPTURE_H

#include "sim/driver/base/capture_rules.h"
#include "sim/driver/graph/graph.h"
#include "sim/driver/graph/nodes.h"

namespace sim {

/* What the next node that is captured depends on. */
struct CaptureEdge {
  NodePtr node;
  CUgraphEdgeData data;
};

/* One capture, from its beginning to its end, whatever streams take part. */
struct Capture {
  uint64_t id = 0;
  GraphPtr graph;
  bool owns_graph = true; /* that it began with none */
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0; /* that began it */
  std::weak_ptr<Stream> origin;
  std::vector<std::weak_ptr<Stream>> streams; /* that take part, the origin too */
  std::vector<CaptureEdge> lost;              /* what streams had to be joined that are gone */
  bool is_valid = true, has_ended = false;
};

using CapturePtr = std::shared_ptr<Capture>;

/* A stream's part in a capture. */
struct StreamCapture {
  CapturePtr capture;
  std::vector<CaptureEdge> edges;
};

/* An event that was recorded in a capture, and stands for nodes. */
struct EventCapture {
  CapturePtr capture;
  std::vector<CaptureEdge> edges;
};

void invalidate(Capture &capture);

/* ---- what becomes of work */

NodePtr capture_node(const StreamPtr &stream, CUgraphNodeType type, ParamsPtr params, bool programmatic = false);
void capture_record(const StreamPtr &stream, Event &event);
void capture_record(const NodePtr &kernel, const StreamCapture &part, Event &event, unsigned char port);
CUresult capture_wait(const StreamPtr &stream, const std::shared_ptr<Event> &event);
} // namespace sim

#endif
