/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that record an event, and nodes that wait for one. They differ only in the operation and its name. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

constexpr CUgraphNodeType record_type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, wait_type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;

struct EventParams : Params {
  EventParams(CUevent handle, std::shared_ptr<Event> event) : handle(handle), event(std::move(event)) {}

  const CUevent handle;
  const std::shared_ptr<Event> event;

  std::string describe_as(const char *title, const DotNode &node) const {
    bool is_wanted = node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS);
    return node.rectangle(title, is_wanted ? "event: " + dot_address(handle) + "\n" : "");
  }
};

struct EventRecordParams : EventParams {
  using EventParams::EventParams;

  void write(CUgraphNodeParams &out) const override { out.eventRecord.event = handle; }

  CUresult submit(const LaunchPtr &launch, const ExecNode &, std::vector<UnitPtr> before, UnitPtr &out) const override {
    ContextPtr context = event->context.lock();
    out = record(*event, context != nullptr ? context : launch->context);
    submit_unit(launch, out, before);
    return CUDA_SUCCESS;
  }

  std::string describe(const DotNode &node) const override { return describe_as("EVENT_RECORD", node); }
};

struct EventWaitParams : EventParams {
  using EventParams::EventParams;

  void write(CUgraphNodeParams &out) const override { out.eventWait.event = handle; }

  CUresult submit(const LaunchPtr &launch, const ExecNode &, std::vector<UnitPtr> before, UnitPtr &out) const override {
    out = new_unit("event wait of a graph", launch->context);
    before.push_back(awaited_record(*event));
    submit_unit(launch, out, before);
    return CUDA_SUCCESS;
  }

  std::string describe(const DotNode &node) const override { return describe_as("EVENT_WAIT", node); }
};

template <class T> auto reader(CUevent handle) {
  return [handle](const Graph *, const Params *, ParamsPtr &out) {
    std::shared_ptr<Event> event;
    if (find_object(state().events, Kind::event, handle, event) != CUDA_SUCCESS)
      return CUDA_ERROR_INVALID_VALUE;
    out = std::make_shared<T>(handle, std::move(event));
    return CUDA_SUCCESS;
  };
}

void write_handle(const EventParams &params, CUevent &out) { out = params.handle; }

const RegisterNodeType record_registered([] {
  NodeType row{};
  row.type = record_type;
  row.bytes = sizeof(CUDA_EVENT_RECORD_NODE_PARAMS);
  row.read = [](const Graph *into, const Params *old, CUgraphNodeParams &from, ParamsPtr &out) {
    return reader<EventRecordParams>(from.eventRecord.event)(into, old, out);
  };
  return row;
}());

const RegisterNodeType wait_registered([] {
  NodeType row{};
  row.type = wait_type;
  row.bytes = sizeof(CUDA_EVENT_WAIT_NODE_PARAMS);
  row.read = [](const Graph *into, const Params *old, CUgraphNodeParams &from, ParamsPtr &out) {
    return reader<EventWaitParams>(from.eventWait.event)(into, old, out);
  };
  return row;
}());

} // namespace

ParamsPtr make_event_record(CUevent handle, const std::shared_ptr<Event> &event) {
  return std::make_shared<EventRecordParams>(handle, event);
}

ParamsPtr make_event_wait(CUevent handle, const std::shared_ptr<Event> &event) {
  return std::make_shared<EventWaitParams>(handle, event);
}

namespace api {

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                   size_t numDependencies, CUevent event) {
  return add_one(record_type, phGraphNode, hGraph, dependencies, numDependencies, reader<EventRecordParams>(event));
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  return get_one<EventParams>(record_type, hNode, event_out, write_handle);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return set_one(record_type, hNode, reader<EventRecordParams>(event));
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return set_in_exec(record_type, hGraphExec, hNode, reader<EventRecordParams>(event));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies, CUevent event) {
  return add_one(wait_type, phGraphNode, hGraph, dependencies, numDependencies, reader<EventWaitParams>(event));
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  return get_one<EventParams>(wait_type, hNode, event_out, write_handle);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return set_one(wait_type, hNode, reader<EventWaitParams>(event));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return set_in_exec(wait_type, hGraphExec, hNode, reader<EventWaitParams>(event));
}

} // namespace api
} // namespace sim
