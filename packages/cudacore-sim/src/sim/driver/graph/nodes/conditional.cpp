/* SPDX-License-Identifier: Apache-2.0 */
/* Conditional nodes, and the handles that determine which of their bodies runs. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

constexpr CUgraphNodeType type = CU_GRAPH_NODE_TYPE_CONDITIONAL;

struct ConditionalParams : Params {
  CUDA_CONDITIONAL_NODE_PARAMS fields{};
  std::shared_ptr<Condition> condition;
  ContextPtr context;
  std::vector<GraphPtr> bodies;
  std::vector<CUgraph> handles; /* handles of the bodies, for the application */

  std::vector<GraphPtr> graphs() const override { return bodies; }
  void release() const override { condition->used = false; }
  void write(CUgraphNodeParams &out) const override { out.conditional = fields; }

  CUresult submit(const LaunchPtr &launch, const ExecNode &node, std::vector<UnitPtr> before,
                  UnitPtr &out) const override;

  CUgraphExecUpdateResult check_change(const GraphExec &, const ExecNode &, const Params &other) const override {
    const ConditionalParams &now = as<ConditionalParams>(other);
    bool is_same = fields.type == now.fields.type && fields.size == now.fields.size && context == now.context;
    return is_same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  }

  std::string describe(const DotNode &node) const override {
    static constexpr const char *types[] = {"IF", "WHILE", "SWITCH"};
    std::string lines;
    if (node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS))
      lines = std::string("type: ") + types[fields.type] + "\nhandle: " + dot_address(fields.handle) + "\n";
    for (const GraphPtr &body : bodies)
      lines += "graph_" + dot_number(body->id) + "\n";
    return node.rectangle("CONDITIONAL", lines);
  }
};

/* The body that the value of the condition chooses; null: none. */
std::shared_ptr<ExecGraph> choose(const ConditionalParams &params, const ExecNode &node) {
  uint32_t value = params.condition->value;
  size_t index = value;
  if (params.fields.type != CU_GRAPH_COND_TYPE_SWITCH)
    index = value != 0 ? 0 : params.fields.type == CU_GRAPH_COND_TYPE_IF ? 1 : node.parts.size();
  return index < node.parts.size() ? node.parts[index] : nullptr;
}

/*
 * Starts the chosen body of a conditional node, or ends the node. Called with the lock when the node is reached, and
 * after each iteration of a loop.
 */
void run_conditional(const LaunchPtr &launch, const std::shared_ptr<const ExecNode> &node, const UnitPtr &end) {
  const ConditionalParams &params = as<ConditionalParams>(node->params);
  bool is_failed =
      params.context->destroyed || params.context->error != CUDA_SUCCESS || launch->context->error != CUDA_SUCCESS;
  std::shared_ptr<ExecGraph> body = is_failed ? nullptr : choose(params, *node);
  std::vector<UnitPtr> leaves;
  if (body != nullptr) {
    /* The iteration begins in a worker, so that loops do not recurse. */
    UnitPtr head = new_unit("body of a condition", params.context, [] {});
    submit_unit(launch, head, {});
    CUresult result = submit_graph(launch, body, head, leaves);
    if (result != CUDA_SUCCESS)
      params.context->fail(result);
  }
  if (body == nullptr || params.fields.type != CU_GRAPH_COND_TYPE_WHILE) {
    submit_unit(launch, end, leaves);
    return;
  }
  UnitPtr turn =
      new_unit("turn of a loop", params.context, nullptr, [launch, node, end] { run_conditional(launch, node, end); });
  submit_unit(launch, turn, leaves);
}

CUresult ConditionalParams::submit(const LaunchPtr &launch, const ExecNode &node, std::vector<UnitPtr> before,
                                   UnitPtr &out) const {
  /* The unit that dependents wait for is submitted only once its own dependencies are known. */
  UnitPtr end = new_unit("end of a condition", launch->context);
  auto kept = std::make_shared<const ExecNode>(node);
  UnitPtr start =
      new_unit("condition", launch->context, nullptr, [launch, kept, end] { run_conditional(launch, kept, end); });
  submit_unit(launch, start, before);
  out = end;
  return CUDA_SUCCESS;
}

std::shared_ptr<Condition> find_condition(uint64_t handle) {
  const std::weak_ptr<Condition> *found = state().conditions.peek(handle);
  return found != nullptr ? found->lock() : nullptr;
}

CUresult read_fields(const Graph *into, const CUDA_CONDITIONAL_NODE_PARAMS &from, ParamsPtr &out) {
  auto params = std::make_shared<ConditionalParams>();
  params->fields = from;
  params->condition = find_condition(from.handle);
  if (params->condition == nullptr || params->condition->used)
    return CUDA_ERROR_INVALID_VALUE;
  /* The root has the conditions of the whole hierarchy: a condition outlives the body that it was created for. */
  const std::vector<std::shared_ptr<Condition>> &own = into->root().conditions;
  if (std::find(own.begin(), own.end(), params->condition) == own.end())
    return CUDA_ERROR_INVALID_VALUE;
  const bool has_choices = config().driver_version >= 12080; /* CUDA 12.8 added switches, and a second body of an if */
  unsigned max_bodies = 0;
  switch (static_cast<int>(from.type)) {
  case CU_GRAPH_COND_TYPE_IF:
    max_bodies = has_choices ? 2 : 1;
    break;
  case CU_GRAPH_COND_TYPE_WHILE:
    max_bodies = 1;
    break;
  case CU_GRAPH_COND_TYPE_SWITCH:
    max_bodies = has_choices ? UINT32_MAX : 0;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (from.size == 0 || from.size > max_bodies)
    return CUDA_ERROR_INVALID_VALUE;
  if (from.ctx == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  SIM_RETURN_FAILURE(find_context(from.ctx, params->context));
  out = std::move(params);
  return CUDA_SUCCESS;
}

/* Makes the bodies of a node that was added. */
void add_bodies(GraphNode &node, CUDA_CONDITIONAL_NODE_PARAMS &from) {
  auto params = std::make_shared<ConditionalParams>(as<ConditionalParams>(node.params));
  params->condition->used = true;
  for (unsigned i = 0; i < from.size; i++) {
    params->bodies.push_back(new_graph(&node));
    params->handles.push_back(handle_of_graph(*params->bodies.back()));
  }
  from.phGraph_out = params->fields.phGraph_out = params->handles.data();
  set_params(node, std::move(params));
}

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = type;
  row.bytes = sizeof(CUDA_CONDITIONAL_NODE_PARAMS);
  row.read = [](const Graph *into, const Params *, CUgraphNodeParams &from, ParamsPtr &out) {
    return read_fields(into, from.conditional, out);
  };
  row.complete = [](GraphNode &node, CUgraphNodeParams &from) { add_bodies(node, from.conditional); };
  row.can_change = false;
  row.may_be_in_body = true;
  return row;
}());

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

namespace api {

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx,
                                        unsigned int defaultLaunchValue, unsigned int flags) {
  GraphPtr graph;
  ContextPtr context;
  SIM_RETURN_FAILURE(find_graph(hGraph, graph));
  if (pHandle_out == nullptr || (flags & ~static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (ctx == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  SIM_RETURN_FAILURE(find_context(ctx, context));
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
