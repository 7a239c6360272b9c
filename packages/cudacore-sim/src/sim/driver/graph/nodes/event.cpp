/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that record an event, and nodes that wait for one. The two types differ only in the operation and its name. */
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

  static CUevent &handle_in(CUgraphNodeParams &params) { return params.eventRecord.event; }
  void write(CUgraphNodeParams &out) const override { handle_in(out) = handle; }

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

  static CUevent &handle_in(CUgraphNodeParams &params) { return params.eventWait.event; }
  void write(CUgraphNodeParams &out) const override { handle_in(out) = handle; }

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

template <class T> NodeType make_row(CUgraphNodeType type) {
  NodeType row{};
  row.type = type;
  row.bytes = sizeof(CUevent);
  row.read = [](const Graph *into, const Params *old, CUgraphNodeParams &from, ParamsPtr &out) {
    return reader<T>(T::handle_in(from))(into, old, out);
  };
  return row;
}

const RegisterNodeType record_registered(make_row<EventRecordParams>(record_type));
const RegisterNodeType wait_registered(make_row<EventWaitParams>(wait_type));

} // namespace

ParamsPtr make_event_record(CUevent handle, const std::shared_ptr<Event> &event) {
  return std::make_shared<EventRecordParams>(handle, event);
}

ParamsPtr make_event_wait(CUevent handle, const std::shared_ptr<Event> &event) {
  return std::make_shared<EventWaitParams>(handle, event);
}

namespace api {

/*
 * The functions of one type of node:
 *
 *   cuGraphAddEventRecordNode, cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeSetEvent,
 *   cuGraphExecEventRecordNodeSetEvent;
 *   cuGraphAddEventWaitNode, cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeSetEvent,
 *   cuGraphExecEventWaitNodeSetEvent.
 */
#define SIM_EVENT_NODE(NODE, type, Params)                                                                             \
  CUresult cuGraphAdd##NODE(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,            \
                            CUevent event) {                                                                           \
    return add_one(type, out, graph, dependencies, count, reader<Params>(event));                                      \
  }                                                                                                                    \
  CUresult cuGraph##NODE##GetEvent(CUgraphNode node, CUevent *out) {                                                   \
    return get_one<Params>(type, node, out, write_handle);                                                             \
  }                                                                                                                    \
  CUresult cuGraph##NODE##SetEvent(CUgraphNode node, CUevent event) {                                                  \
    return set_one(type, node, reader<Params>(event));                                                                 \
  }                                                                                                                    \
  CUresult cuGraphExec##NODE##SetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {                            \
    return set_in_exec(type, exec, node, reader<Params>(event));                                                       \
  }
SIM_EVENT_NODE(EventRecordNode, record_type, EventRecordParams)
SIM_EVENT_NODE(EventWaitNode, wait_type, EventWaitParams)
#undef SIM_EVENT_NODE

} // namespace api
} // namespace sim
