/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_GRAPH_CAPTURE_H
#define CUDACORE_SIM_DRIVER_GRAPH_CAPTURE_H

#include "sim/driver/graph/graph.h"

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

/* ---- what may be called; with an error, captures that are in the way are invalidated */

/* Whether the thread may make calls that captures do not see: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED. */
CUresult check_unsafe();
CUresult check_unsafe(Entry entry); /* if it is such a call */

/* Whether a stream may be asked what no capture can tell: it is as if it were waited for. */
CUresult check_question(const StreamPtr &stream);

/* Whether a stream may have work; `is_captured` tells that the work is to become a node. */
CUresult check_work(const StreamPtr &stream, bool &is_captured);
CUresult check_uncaptured_work(const StreamPtr &stream); /* of work that no graph can have */

/* Whether all of a context may be waited for. */
CUresult check_wait(Context &context);

/* Streams of which the legacy stream would wait. */
CUresult check_legacy(const StreamPtr &stream, bool invalidates);

/* ---- what becomes of work */

NodePtr capture_node(const StreamPtr &stream, CUgraphNodeType type, ParamsPtr params, bool programmatic = false);
void capture_record(const StreamPtr &stream, Event &event);
void capture_record(const NodePtr &kernel, const StreamCapture &part, Event &event, unsigned char port);
CUresult capture_wait(const StreamPtr &stream, const std::shared_ptr<Event> &event);
/* An event that is asked about: CUDA_ERROR_CAPTURED_EVENT. */
CUresult check_event(const Event &event, bool invalidates);

/* A stream that captures is destroyed. */
void abandon_capture(const StreamPtr &stream);

} // namespace sim

#endif
