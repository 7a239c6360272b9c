/* SPDX-License-Identifier: Apache-2.0 */
/* Conditional handles and the nodes that go by them. */
#include "sim/driver/graph/graph.h"

#include <algorithm>

namespace sim {

namespace {

std::shared_ptr<Condition> find_condition(uint64_t handle) {
  const std::weak_ptr<Condition> *found = state().conditions.peek(handle);
  return found != nullptr ? found->lock() : nullptr;
}

} // namespace

Condition::~Condition() {
  if (state().conditions.peek(handle) != nullptr)
    state().conditions.remove(handle);
}

bool set_condition(uint64_t handle, uint32_t value) {
  std::lock_guard<std::mutex> guard(state().mutex);
  std::shared_ptr<Condition> condition = find_condition(handle);
  if (condition == nullptr)
    return false;
  condition->value = value;
  return true;
}

CUresult read_conditional(const Graph &into, CUDA_CONDITIONAL_NODE_PARAMS &from, ParamsPtr &out) {
  ConditionalParams params{from, find_condition(from.handle), nullptr, {}, {}};
  if (params.condition == nullptr || params.condition->used)
    return CUDA_ERROR_INVALID_VALUE;
  /* A condition is of the whole hierarchy: that of a body stays when the body goes. */
  const std::vector<std::shared_ptr<Condition>> &own = const_cast<Graph &>(into).root().conditions;
  if (std::find(own.begin(), own.end(), params.condition) == own.end())
    return CUDA_ERROR_INVALID_VALUE;
  const bool has_choices = config().driver_version >= 12080; /* a second body of an if, and switches */
  unsigned most = 0;
  switch (static_cast<int>(from.type)) {
  case CU_GRAPH_COND_TYPE_IF:
    most = has_choices ? 2 : 1;
    break;
  case CU_GRAPH_COND_TYPE_WHILE:
    most = 1;
    break;
  case CU_GRAPH_COND_TYPE_SWITCH:
    most = has_choices ? UINT32_MAX : 0;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (from.size == 0 || from.size > most)
    return CUDA_ERROR_INVALID_VALUE;
  if (from.ctx == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (CUresult result = find_context(from.ctx, params.context))
    return result;
  out = std::make_shared<const Params>(std::move(params));
  return CUDA_SUCCESS;
}

void fill_conditional(GraphNode &node, CUDA_CONDITIONAL_NODE_PARAMS &from) {
  auto made = std::make_shared<Params>(as<ConditionalParams>(node.params));
  ConditionalParams &params = std::get<ConditionalParams>(*made);
  params.condition->used = true;
  for (unsigned i = 0; i < from.size; i++) {
    params.bodies.push_back(new_graph(&node));
    params.handles.push_back(handle_of_graph(*params.bodies.back()));
  }
  from.phGraph_out = params.fields.phGraph_out = params.handles.data();
  set_params(node, std::move(made));
}

namespace api {

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx,
                                        unsigned int defaultLaunchValue, unsigned int flags) {
  GraphPtr graph;
  ContextPtr context;
  if (CUresult result = find_graph(hGraph, graph))
    return result;
  if (pHandle_out == nullptr || (flags & ~static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (ctx == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (CUresult result = find_context(ctx, context))
    return result;
  auto condition = std::make_shared<Condition>();
  condition->context = context;
  condition->initial = defaultLaunchValue;
  condition->has_initial = flags != 0;
  condition->handle = state().conditions.add(std::make_shared<std::weak_ptr<Condition>>(condition));
  graph->root().conditions.push_back(condition);
  *pHandle_out = condition->handle;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
