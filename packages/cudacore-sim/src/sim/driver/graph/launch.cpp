/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of graphs: each node becomes a unit of work that depends on those of its dependencies. */
#include "sim/driver/graph/exec.h"

#include "sim/driver/graph/capture.h"

#include "sim/control/report.h"

#include <algorithm>

namespace sim {
namespace {

/* A launch that is under way. Loops and choices come to know what they run while it is. */
struct GraphLaunch {
  ContextPtr context;   /* of the stream */
  int priority = 0;     /* likewise */
  bool by_node = false; /* nodes have priorities of their own */
  std::shared_ptr<const References> references;
  TracedPtr traced;   /* its beginning; null: no trace is made */
  OrderedPtr ordered; /* likewise; null: nobody looks at the order */
};

using LaunchPtr = std::shared_ptr<const GraphLaunch>;

CUresult submit_graph(const LaunchPtr &launch, const std::shared_ptr<ExecGraph> &graph, const UnitPtr &head,
                      std::vector<UnitPtr> &leaves);

void submit(const LaunchPtr &launch, const UnitPtr &unit, const std::vector<UnitPtr> &dependencies) {
  unit->priority = launch->priority;
  if (unit->traced != nullptr) {
    unit->traced->stream = launch->traced->stream;
    unit->traced->stream_name = launch->traced->stream_name;
  }
  if (unit->ordered != nullptr)
    order_as(*unit->ordered, *launch->ordered);
  state().executor.submit(unit, dependencies);
}

/* The body that a value chooses; null: none. */
std::shared_ptr<ExecGraph> choose(const ExecNode &node) {
  const ConditionalParams &params = as<ConditionalParams>(node.params);
  uint32_t value = params.condition->value;
  size_t index = value;
  if (params.fields.type != CU_GRAPH_COND_TYPE_SWITCH)
    index = value != 0 ? 0 : params.fields.type == CU_GRAPH_COND_TYPE_IF ? 1 : node.parts.size();
  return index < node.parts.size() ? node.parts[index] : nullptr;
}

/* With the lock, when a conditional node comes to run, and after each turn of a loop. */
void run_conditional(const LaunchPtr &launch, const std::shared_ptr<const ExecNode> &node, const UnitPtr &end) {
  const ConditionalParams &params = as<ConditionalParams>(node->params);
  bool is_failed =
      params.context->destroyed || params.context->error != CUDA_SUCCESS || launch->context->error != CUDA_SUCCESS;
  std::shared_ptr<ExecGraph> body = is_failed ? nullptr : choose(*node);
  std::vector<UnitPtr> leaves;
  if (body != nullptr) {
    /* The turn begins in a worker: a loop of any number of turns is no recursion. */
    UnitPtr head = new_unit("body of a condition", params.context, [] {});
    submit(launch, head, {});
    CUresult result = submit_graph(launch, body, head, leaves);
    if (result != CUDA_SUCCESS)
      params.context->fail(result);
  }
  if (body == nullptr || params.fields.type != CU_GRAPH_COND_TYPE_WHILE) {
    submit(launch, end, leaves);
    return;
  }
  UnitPtr turn =
      new_unit("turn of a loop", params.context, nullptr, [launch, node, end] { run_conditional(launch, node, end); });
  submit(launch, turn, leaves);
}

CUresult submit_node(const LaunchPtr &launch, const ExecNode &node, std::vector<UnitPtr> before, UnitPtr &out) {
  switch (static_cast<int>(node.enabled ? node.type : CU_GRAPH_NODE_TYPE_EMPTY)) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    const KernelParams &params = as<KernelParams>(node.params);
    LaunchRequest request;
    std::function<void()> work;
    if (CUresult result = check_kernel(params, request))
      return result;
    if (CUresult result = kernel_work(params.what, request, params.arguments, work))
      return result;
    out = new_unit("kernel of a graph", params.what.context, std::move(work));
    if (out->traced != nullptr)
      describe_launch(*out->traced, params.what, request);
    if (out->ordered != nullptr)
      out->ordered->what = name_of(params.what);
    submit(launch, out, before);
    if (launch->by_node)
      out->priority = std::clamp(request.priority.value_or(0), greatest_priority, least_priority);
    return CUDA_SUCCESS;
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY: {
    const MemcpyParams &params = as<MemcpyParams>(node.params);
    out = new_unit("copy of a graph", params.context, copy_work(params.context, params.to, params.from, params.shape));
    if (out->traced != nullptr)
      describe_shape(*out->traced, params.shape);
    break;
  }
  case CU_GRAPH_NODE_TYPE_MEMSET: {
    const MemsetParams &params = as<MemsetParams>(node.params);
    out = new_unit("fill of a graph", params.context,
                   fill_work(params.context, params.to, params.shape, params.fields.value, params.fields.elementSize));
    if (out->traced != nullptr)
      describe_shape(*out->traced, params.shape);
    break;
  }
  case CU_GRAPH_NODE_TYPE_HOST: {
    CUDA_HOST_NODE_PARAMS_v2 fields = as<HostParams>(node.params).fields;
    out = new_unit("host function of a graph", launch->context, [fields] {
      CallbackScope scope("a host function");
      fields.fn(fields.userData);
    });
    out->of_application = true;
    break;
  }
  case CU_GRAPH_NODE_TYPE_GRAPH: {
    UnitPtr head = new_unit("child graph", launch->context);
    submit(launch, head, before);
    std::vector<UnitPtr> leaves;
    if (CUresult result = submit_graph(launch, node.parts[0], head, leaves))
      return result;
    out = new_unit("end of a child graph", launch->context);
    before = std::move(leaves);
    break;
  }
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT: {
    out = new_unit("event wait of a graph", launch->context);
    before.push_back(awaited_record(*as<EventParams>(node.params).event));
    break;
  }
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
    const std::shared_ptr<Event> &event = as<EventParams>(node.params).event;
    ContextPtr context = event->context.lock();
    out = record(*event, context != nullptr ? context : launch->context);
    break;
  }
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
    as<ValueParams>(node.params).submit(std::move(before), out);
    return CUDA_SUCCESS;
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    out = new_unit("allocation of a graph", launch->context);
    out->finish = [memory = as<AllocParams>(node.params).memory, ordered = out->ordered] {
      bring_memory(*memory->allocation);
      touch(ordered, memory->allocation->base, memory->allocation->size, Manner::allocate);
    };
    break;
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    out = new_unit("free of a graph", launch->context);
    out->finish = [memory = as<FreeParams>(node.params).memory, ordered = out->ordered] {
      touch(ordered, memory->allocation->base, memory->allocation->size, Manner::free);
      free_graph_memory(memory->allocation, "a graph");
    };
    break;
  case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
    /* What comes after it depends on a unit that is submitted when it is known what runs before. */
    UnitPtr end = new_unit("end of a condition", launch->context);
    auto kept = std::make_shared<const ExecNode>(node);
    submit(launch,
           new_unit("condition", launch->context, nullptr, [launch, kept, end] { run_conditional(launch, kept, end); }),
           before);
    out = end;
    return CUDA_SUCCESS;
  }
  default:
    out = new_unit("empty node", launch->context);
  }
  submit(launch, out, before);
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
    if (CUresult result = submit_node(launch, node, std::move(before), units[place]))
      return result;
    if (node.after.empty())
      leaves.push_back(units[place]);
  }
  return CUDA_SUCCESS;
}

/* Memory in the order of calls: what is left of the last launch, and what this one will leave. */
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
    LaunchRequest request;
    if (node.type == CU_GRAPH_NODE_TYPE_KERNEL && node.enabled)
      if (CUresult result = check_kernel(as<KernelParams>(node.params), request))
        return result;
    for (const std::shared_ptr<ExecGraph> &part : node.parts)
      if (CUresult result = check_nodes(*part))
        return result;
  }
  return CUDA_SUCCESS;
}

} // namespace

CUresult launch_graph(const ExecPtr &exec, const StreamPtr &stream) {
  ContextPtr context = stream->context.lock();
  if (CUresult result = account(*exec))
    return result;
  if (CUresult result = check_nodes(*exec->top))
    return result;
  if (CUresult result = reserve_memory(exec->allocations))
    return result;
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
  /* Keeps what the launch uses until it is done, whatever becomes of the executable graph. */
  UnitPtr tail = new_unit("end of a graph", context, nullptr, [exec, launch] {});
  enqueue(stream, tail, leaves);
  exec->last = tail;
  return result;
}

namespace api {

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  ExecPtr exec;
  StreamPtr stream;
  if (CUresult result = find_stream(hStream, stream))
    return result;
  if (CUresult result = find_exec(hGraphExec, exec))
    return result;
  if (CUresult result = check_uncaptured_work(stream))
    return result;
  if (CUresult result = reserve_memory(exec->allocations))
    return result;
  enqueue(stream, new_unit("upload of a graph", stream->context.lock()), {exec->last});
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  ExecPtr exec;
  StreamPtr stream;
  if (CUresult result = find_stream(hStream, stream))
    return result;
  if (CUresult result = find_exec(hGraphExec, exec))
    return result;
  if (CUresult result = check_uncaptured_work(stream))
    return result;
  return launch_graph(exec, stream);
}

} // namespace api
} // namespace sim
