/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: work becomes nodes of a graph; events fork and join. */
#include "sim/driver/graph/capture.h"

#include "sim/control/report.h"

#include <algorithm>
#include <unordered_set>

namespace sim {
namespace {

/* Whether a node of a capture still exists. */
bool is_there(const Capture &capture, const GraphNode &node) {
  auto found = capture.graph->nodes.find(node.id);
  return found != capture.graph->nodes.end() && found->second.get() == &node;
}

void add_edge(std::vector<CaptureEdge> &edges, const CaptureEdge &edge) {
  auto is_there = [&](const CaptureEdge &other) { return other.node == edge.node; };
  auto found = std::find_if(edges.begin(), edges.end(), is_there);
  if (found == edges.end())
    edges.push_back(edge);
  else if (is_default(edge.data))
    found->data = edge.data; /* of two equal edges, keeps the one without annotations, which orders more */
}

void join(const StreamPtr &stream, const CapturePtr &capture, std::vector<CaptureEdge> edges) {
  stream->capture = std::make_shared<StreamCapture>();
  stream->capture->capture = capture;
  stream->capture->edges = std::move(edges);
  capture->streams.push_back(stream);
}

/* Ends a capture: work of its streams runs again, instead of becoming nodes. */
void leave(Capture &capture) {
  for (const std::weak_ptr<Stream> &weak : capture.streams)
    if (StreamPtr stream = weak.lock(); stream != nullptr && stream->capture != nullptr)
      stream->capture = nullptr;
  std::vector<CapturePtr> &all = state().captures;
  all.erase(std::remove_if(all.begin(), all.end(), [&](const CapturePtr &one) { return one.get() == &capture; }),
            all.end());
  capture.has_ended = true;
  capture.graph->captures--;
}

/* Whether the origin waits for all work of the other streams. */
bool is_joined(const Capture &capture, const Stream &origin) {
  std::vector<const GraphNode *> queue;
  std::unordered_set<const GraphNode *> seen;
  auto visit = [&](const GraphNode *node) {
    if (seen.insert(node).second)
      queue.push_back(node);
  };
  for (const CaptureEdge &edge : origin.capture->edges)
    if (is_there(capture, *edge.node))
      visit(edge.node.get());
  while (!queue.empty()) {
    const GraphNode *node = queue.back();
    queue.pop_back();
    for (const Edge &edge : node->before)
      visit(edge.node);
  }
  auto is_waited_for = [&](const CaptureEdge &edge) {
    return seen.count(edge.node.get()) != 0 || !is_there(capture, *edge.node);
  };
  for (const std::weak_ptr<Stream> &weak : capture.streams)
    if (StreamPtr stream = weak.lock(); stream != nullptr && stream->capture != nullptr)
      for (const CaptureEdge &edge : stream->capture->edges)
        if (!is_waited_for(edge))
          return false;
  return std::all_of(capture.lost.begin(), capture.lost.end(), is_waited_for);
}

CUresult begin_capture(CUstream handle, CUstreamCaptureMode mode, const GraphPtr &graph,
                       std::vector<CaptureEdge> edges) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(check_legacy(stream, true));
  if (stream->legacy)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr || (graph != nullptr && graph->captures > 0))
    return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = state().next_capture_id++;
  capture->owns_graph = graph == nullptr;
  capture->graph = graph != nullptr ? graph : new_graph(nullptr);
  capture->graph->captures++;
  capture->mode = mode;
  capture->thread = this_thread();
  capture->origin = stream;
  state().captures.push_back(capture);
  join(stream, capture, std::move(edges));
  return CUDA_SUCCESS;
}

/* Reads edges that the application gives. */
CUresult read_edges(const Graph &graph, const CUgraphNode *nodes, const CUgraphEdgeData *data, size_t count,
                    std::vector<CaptureEdge> &out) {
  if (nodes == nullptr && count != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    CaptureEdge edge{nullptr, data != nullptr ? data[i] : CUgraphEdgeData{}};
    SIM_RETURN_FAILURE(find_node(nodes[i], edge.node));
    if (edge.node->graph != &graph || !may_leave(edge.data, edge.node->type))
      return CUDA_ERROR_INVALID_VALUE;
    add_edge(out, edge);
  }
  return CUDA_SUCCESS;
}

CUresult end_capture(CUstream handle, CUgraph *out) {
  StreamPtr stream;
  CUgraph ignored = nullptr;
  if (out == nullptr)
    out = &ignored;
  *out = nullptr;
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  SIM_RETURN_FAILURE(check_legacy(stream, true));
  if (stream->capture == nullptr)
    return CUDA_ERROR_ILLEGAL_STATE;
  CapturePtr capture = stream->capture->capture;
  if (capture->origin.lock() != stream) {
    invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  CUresult result = CUDA_SUCCESS;
  if (!capture->is_valid)
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread())
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  else if (!is_joined(*capture, *stream))
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  leave(*capture);
  *out = result == CUDA_SUCCESS ? handle_of_graph(*capture->graph) : nullptr;
  if (state().graphs.peek(capture->graph->handle) == nullptr) {
    report(
        "cuStreamEndCapture was given a stream whose graph was destroyed during its capture: here the driver crashes");
  } else if (result != CUDA_SUCCESS) {
    destroy_graph(capture->graph); /* also if the application created this graph */
    capture->graph->lost = capture->graph->owner != nullptr;
  }
  return result;
}

struct InfoRequest {
  CUstreamCaptureStatus *status;
  cuuint64_t *id;
  CUgraph *graph;
  const CUgraphNode **nodes;
  const CUgraphEdgeData **data;
  size_t *count;
};

CUresult get_info(CUstream handle, const InfoRequest &wanted) {
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  if (wanted.status == nullptr || (wanted.data != nullptr && wanted.nodes == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(check_legacy(stream, false));
  StreamCapture *part = stream->capture.get();
  if (part == nullptr || !part->capture->is_valid) {
    *wanted.status = part == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_SUCCESS;
  }
  bool is_annotated = std::any_of(part->edges.begin(), part->edges.end(),
                                  [](const CaptureEdge &edge) { return !is_default(edge.data); });
  if (is_annotated && wanted.nodes != nullptr && wanted.data == nullptr)
    return CUDA_ERROR_LOSSY_QUERY;
  stream->info_nodes.clear();
  stream->info_edge_data.clear();
  for (const CaptureEdge &edge : part->edges) {
    if (!is_there(*part->capture, *edge.node))
      continue;
    stream->info_nodes.push_back(handle_of_node(*edge.node));
    stream->info_edge_data.push_back(edge.data);
  }
  *wanted.status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (wanted.id != nullptr)
    *wanted.id = part->capture->id;
  if (wanted.graph != nullptr)
    *wanted.graph = handle_of_graph(*part->capture->graph);
  if (wanted.nodes != nullptr)
    *wanted.nodes = stream->info_nodes.data();
  if (wanted.data != nullptr)
    *wanted.data = stream->info_edge_data.data();
  if (wanted.count != nullptr)
    *wanted.count = stream->info_nodes.size();
  return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream handle, const CUgraphNode *nodes, const CUgraphEdgeData *data, size_t count,
                             unsigned flags) {
  StreamPtr stream;
  std::vector<CaptureEdge> edges;
  SIM_RETURN_FAILURE(find_stream(handle, stream));
  if (stream->capture == nullptr)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    return CUDA_ERROR_INVALID_VALUE;
  StreamCapture &part = *stream->capture;
  if (!part.capture->is_valid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
    edges = part.edges;
  SIM_RETURN_FAILURE(read_edges(*part.capture->graph, nodes, data, count, edges));
  part.edges = std::move(edges);
  return CUDA_SUCCESS;
}

} // namespace

void invalidate(Capture &capture) { capture.is_valid = false; }

void invalidate_capture(const Stream &stream) { invalidate(*stream.capture->capture); }

void invalidate_capture(const Event &event) { invalidate(*event.captured->capture); }

NodePtr capture_node(const StreamPtr &stream, CUgraphNodeType type, ParamsPtr params, bool programmatic) {
  StreamCapture &part = *stream->capture;
  std::vector<Edge> before;
  for (const CaptureEdge &edge : part.edges) {
    if (!is_there(*part.capture, *edge.node))
      continue;
    CUgraphEdgeData data = edge.data;
    if (programmatic && is_default(data) && edge.node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
      data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
      data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
    before.push_back({edge.node.get(), data});
  }
  NodePtr node = add_node(*part.capture->graph, type, std::move(params), before);
  part.edges = {{node, {}}};
  return node;
}

void capture_record(const StreamPtr &stream, Event &event) {
  event.captured = std::make_shared<EventCapture>(EventCapture{stream->capture->capture, stream->capture->edges});
}

void capture_record(const NodePtr &kernel, const StreamCapture &part, Event &event, unsigned char port) {
  CUgraphEdgeData data{};
  data.from_port = port;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  event.captured = std::make_shared<EventCapture>(EventCapture{part.capture, {{kernel, data}}});
}

CUresult capture_wait(const StreamPtr &stream, const std::shared_ptr<Event> &event) {
  if (event->captured == nullptr) {
    if (event->recorded == nullptr)
      return CUDA_SUCCESS;
    invalidate(*stream->capture->capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  const CapturePtr &capture = event->captured->capture;
  if (capture->has_ended) {
    if (stream->capture != nullptr)
      invalidate(*stream->capture->capture);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!capture->is_valid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture == nullptr) {
    join(stream, capture, event->captured->edges);
    return CUDA_SUCCESS;
  }
  if (stream->capture->capture != capture) {
    invalidate(*capture);
    invalidate(*stream->capture->capture);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  for (const CaptureEdge &edge : event->captured->edges)
    add_edge(stream->capture->edges, edge);
  return CUDA_SUCCESS;
}

CUresult check_event(const Event &event, bool invalidates) {
  if (event.captured == nullptr)
    return CUDA_SUCCESS;
  if (event.captured->capture->has_ended)
    return CUDA_ERROR_INVALID_VALUE;
  if (invalidates)
    invalidate(*event.captured->capture);
  return CUDA_ERROR_CAPTURED_EVENT;
}

void abandon_capture(const StreamPtr &stream) {
  CapturePtr capture = stream->capture->capture;
  if (capture->origin.lock() != stream) {
    capture->lost.insert(capture->lost.end(), stream->capture->edges.begin(), stream->capture->edges.end());
    stream->capture = nullptr;
    return;
  }
  leave(*capture); /* without its origin, no later call could end the capture */
  if (capture->owns_graph)
    destroy_graph(capture->graph);
}

namespace api {

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  return begin_capture(hStream, mode, nullptr, {});
}

CUresult cuStreamBeginCapture(CUstream hStream) {
  return begin_capture(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, {});
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode) {
  GraphPtr graph;
  std::vector<CaptureEdge> edges;
  SIM_RETURN_FAILURE(find_graph(hGraph, graph));
  SIM_RETURN_FAILURE(read_edges(*graph, dependencies, dependencyData, numDependencies, edges));
  return begin_capture(hStream, mode, graph, std::move(edges));
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) { return end_capture(hStream, phGraph); }

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
  return get_info(hStream, {captureStatus, nullptr, nullptr, nullptr, nullptr, nullptr});
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                   CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                   const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out) {
  return get_info(hStream, {captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out});
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                   CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                   size_t *numDependencies_out) {
  return get_info(hStream, {captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out});
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out) {
  return get_info(hStream, {captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr});
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
                                           unsigned int flags) {
  return update_dependencies(hStream, dependencies, nullptr, numDependencies, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                              const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                              unsigned int flags) {
  return update_dependencies(hStream, dependencies, dependencyData, numDependencies, flags);
}

} // namespace api
} // namespace sim
