/* SPDX-License-Identifier: Apache-2.0 */
/* Launches graphs: each node becomes a unit of work that depends on the units of its dependencies. */
#include "sim/driver/graph/exec.h"

#include "sim/driver/graph/capture.h"

#include "sim/control/report.h"

#include <algorithm>

namespace sim {
namespace {

/*
 * Checks, before a launch, that the memory that the last launch of this graph allocated was freed, and that the memory
 * of other graphs that this graph frees is allocated.
 */
CUresult account(const GraphExec &exec) {
  bool frees_itself = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (const std::shared_ptr<GraphMemory> &memory : exec.allocations)
    if (!memory->allocation->freed && !frees_itself)
      return CUDA_ERROR_INVALID_VALUE;
  for (const std::shared_ptr<GraphMemory> &memory : exec.frees) {
    bool is_own = std::find(exec.allocations.begin(), exec.allocations.end(), memory) != exec.allocations.end();
    if (!is_own && memory->allocation->freed)
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult check_nodes(const ExecGraph &graph) {
  for (const ExecNode &node : graph.nodes) {
    if (node.enabled)
      SIM_RETURN_FAILURE(node.params->check_launch());
    for (const std::shared_ptr<ExecGraph> &part : node.parts)
      SIM_RETURN_FAILURE(check_nodes(*part));
  }
  return CUDA_SUCCESS;
}

} // namespace

void submit_unit(const LaunchPtr &launch, const UnitPtr &unit, const std::vector<UnitPtr> &dependencies) {
  unit->priority = launch->priority;
  if (unit->traced != nullptr) {
    unit->traced->stream = launch->traced->stream;
    unit->traced->stream_name = launch->traced->stream_name;
  }
  if (unit->ordered != nullptr)
    describe_like(*unit->ordered, *launch->ordered);
  state().executor.submit(unit, dependencies);
}

CUresult submit_empty(const LaunchPtr &launch, const std::vector<UnitPtr> &before, UnitPtr &out) {
  out = new_unit("empty node", launch->context);
  submit_unit(launch, out, before);
  return CUDA_SUCCESS;
}

CUresult submit_graph(const LaunchPtr &launch, const std::shared_ptr<ExecGraph> &graph, const UnitPtr &head,
                      std::vector<UnitPtr> &leaves) {
  std::vector<UnitPtr> units(graph->nodes.size());
  leaves = {head};
  for (size_t place : graph->order) {
    const ExecNode &node = graph->nodes[place];
    std::vector<UnitPtr> before{head};
    for (const auto &[dependency, data] : node.before)
      before.push_back(units[dependency]);
    CUresult result = node.enabled ? node.params->submit(launch, node, std::move(before), units[place])
                                   : submit_empty(launch, before, units[place]);
    if (result != CUDA_SUCCESS)
      return result;
    if (node.after.empty())
      leaves.push_back(units[place]);
  }
  return CUDA_SUCCESS;
}

CUresult launch_graph(const ExecPtr &exec, const StreamPtr &stream) {
  ContextPtr context = stream->context.lock();
  SIM_RETURN_FAILURE(account(*exec));
  SIM_RETURN_FAILURE(check_nodes(*exec->top));
  SIM_RETURN_FAILURE(reserve_memory(exec->allocations));
  auto launch = std::make_shared<GraphLaunch>();
  launch->context = context;
  launch->priority = stream->priority;
  launch->by_node = (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0;
  exec->references->mark_launched();
  launch->references = exec->references;
  std::vector<std::shared_ptr<GraphMemory>> left;
  for (const std::shared_ptr<GraphMemory> &memory : exec->allocations) {
    if (!memory->allocation->freed)
      left.push_back(memory);
    mark_freed(*memory->allocation);
    mark_allocated(*memory->allocation);
  }
  for (const std::shared_ptr<GraphMemory> &memory : exec->frees)
    mark_freed(*memory->allocation);
  UnitPtr head = new_unit("graph", context, nullptr, [conditions = exec->conditions, left] {
    for (const std::shared_ptr<GraphMemory> &memory : left)
      free_graph_memory(memory->allocation, "a graph");
    for (const std::shared_ptr<Condition> &condition : conditions)
      if (condition->has_initial)
        condition->value = condition->initial;
  });
  launch->traced = head->traced;
  launch->ordered = head->ordered;
  enqueue(stream, head, {exec->last});
  std::vector<UnitPtr> leaves;
  CUresult result = submit_graph(launch, exec->top, head, leaves);
  /* Keeps the objects that the launch uses alive until its end, even if the executable graph is destroyed. */
  UnitPtr tail = new_unit("end of a graph", context, nullptr, [exec, launch] {});
  enqueue(stream, tail, leaves);
  exec->last = tail;
  return result;
}

namespace {

/* Finds the graph and the stream of a launch or upload. */
CUresult find_launched(CUgraphExec exec_handle, CUstream stream_handle, ExecPtr &exec, StreamPtr &stream) {
  SIM_RETURN_FAILURE(find_stream(stream_handle, stream));
  SIM_RETURN_FAILURE(find_exec(exec_handle, exec));
  return check_uncaptured_work(stream);
}

} // namespace

namespace api {

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  ExecPtr exec;
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_launched(hGraphExec, hStream, exec, stream));
  SIM_RETURN_FAILURE(reserve_memory(exec->allocations));
  enqueue(stream, new_unit("upload of a graph", stream->context.lock()), {exec->last});
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  ExecPtr exec;
  StreamPtr stream;
  SIM_RETURN_FAILURE(find_launched(hGraphExec, hStream, exec, stream));
  return launch_graph(exec, stream);
}

} // namespace api
} // namespace sim
