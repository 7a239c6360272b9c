/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs: instantiation, and changes of their nodes. */
#include "sim/driver/graph/exec.h"

#include "sim/control/report.h"

#include <algorithm>

namespace sim {
namespace {

constexpr uint64_t known_flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

using Result = CUgraphInstantiateResult;

/* The reason why a graph cannot be instantiated, as CUDA reports it. */
struct Refusal {
  CUresult code = CUDA_SUCCESS;
  Result result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  const GraphNode *node = nullptr;
  bool is(CUresult with, Result because, const GraphNode *of = nullptr) {
    code = with;
    result = because;
    node = of;
    return true;
  }
};

/* Whether a graph, or any graph in its nodes, cannot be instantiated. */
bool is_refused(const Graph &graph, uint64_t flags, bool in_body, Refusal &why) {
  std::vector<const GraphNode *> order;
  if (!sort_nodes(graph, order)) {
    auto in_cycle = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto &entry) {
      return std::find(order.begin(), order.end(), entry.second.get()) == order.end();
    });
    return why.is(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, in_cycle->second.get());
  }
  for (const GraphNode *node : order) {
    const NodeType &type = *find_node_type(node->type);
    bool on_device = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
    if ((in_body && !type.may_be_in_body) || (on_device && !type.may_be_launched_by_device))
      return why.is(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, node);
    if (CUresult result = node->params->check_instance())
      return why.is(result, CUDA_GRAPH_INSTANTIATE_ERROR, node);
    bool is_conditional = node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    for (const GraphPtr &part : node->params->graphs()) {
      if (is_conditional && part->lost) {
        report("a graph was instantiated with a body that a failed capture had destroyed: here the driver crashes");
        return why.is(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node);
      }
      if (is_refused(*part, flags, in_body || is_conditional, why))
        return true;
    }
  }
  return false;
}

bool is_unused(const std::shared_ptr<Condition> &condition) { return !condition->used; }

bool has_copies(const Graph &graph) {
  return std::any_of(graph.copies.begin(), graph.copies.end(), [](const auto &copy) { return !copy.expired(); });
}

/* Whether only one executable graph of a graph can exist, and none while the graph has copies. */
bool is_single(const Graph &graph) { return has_memory(graph) || has_conditions(graph); }

void list_nodes(GraphExec &exec, const ExecGraph &graph, const std::vector<std::pair<size_t, size_t>> &path) {
  for (size_t i = 0; i < graph.nodes.size(); i++) {
    const ExecNode &node = graph.nodes[i];
    exec.locations[node.source] = {path, i};
    node.params->list_memory(exec);
    for (size_t part = 0; part < node.parts.size(); part++) {
      auto inner = path;
      inner.emplace_back(i, part);
      list_nodes(exec, *node.parts[part], inner);
    }
  }
}

void add_references(References &to, const Graph &graph) {
  to.add(graph.references);
  for (const auto &[id, node] : graph.nodes)
    for (const GraphPtr &part : node->params->graphs())
      add_references(to, *part);
}

CUresult instantiate(CUgraphExec *out, CUgraph handle, uint64_t flags, Refusal &why) {
  GraphPtr graph;
  if (CUresult result = find_graph(handle, graph))
    return why.is(result, CUDA_GRAPH_INSTANTIATE_ERROR), result;
  bool both = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0 &&
              (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
  if (out == nullptr || (flags & ~known_flags) != 0 || both) {
    why.is(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_ERROR);
    return why.code;
  }
  if (current_context() == nullptr) {
    why.is(CUDA_ERROR_INVALID_CONTEXT, CUDA_GRAPH_INSTANTIATE_ERROR);
    return why.code;
  }
  if (graph->owner != nullptr) {
    why.is(CUDA_ERROR_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_ERROR);
    return why.code;
  }
  if (current_context()->destroyed || check_kernels(*graph) != CUDA_SUCCESS) {
    why.is(CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_GRAPH_INSTANTIATE_ERROR);
    return why.code;
  }
  if (is_refused(*graph, flags, false, why))
    return why.code;
  bool is_empty = graph->nodes.empty() && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
  if (is_empty) {
    why.is(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_ERROR);
    return why.code;
  }
  if (std::any_of(graph->conditions.begin(), graph->conditions.end(), is_unused)) {
    why.is(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
    return why.code;
  }
  if (is_single(*graph) && (!graph->executable.expired() || has_copies(*graph))) {
    why.is(CUDA_ERROR_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_ERROR);
    return why.code;
  }
  auto exec = std::make_shared<GraphExec>();
  exec->flags = flags;
  exec->graph = graph->handle;
  exec->context = home_of(current_context());
  exec->id = state().next_graph_id++;
  exec->top = make_exec_graph(*graph);
  list_nodes(*exec, *exec->top, {});
  exec->references = references_of(*graph);
  exec->conditions = graph->conditions;
  exec->handle = state().graph_execs.add(exec);
  graph->executable = exec;
  for (const std::shared_ptr<GraphMemory> &memory : exec->allocations)
    memory->was_instantiated = true;
  *out = handle_of<CUgraphExec>(exec->handle);
  return CUDA_SUCCESS;
}

/* Finds a node to change. Copies the graphs around it if a launch shares them. Null: there is no such node. */
ExecNode *find_writable(GraphExec &exec, CUgraphNode handle) {
  auto found = exec.locations.find(value_of(handle));
  if (found == exec.locations.end())
    return nullptr;
  auto writable = [](std::shared_ptr<ExecGraph> &graph) {
    if (graph.use_count() > 1)
      graph = std::make_shared<ExecGraph>(*graph);
    return graph.get();
  };
  ExecGraph *graph = writable(exec.top);
  for (const auto &[node, part] : found->second.path)
    graph = writable(graph->nodes[node].parts[part]);
  return &graph->nodes[found->second.index];
}

} // namespace

CUresult find_exec(CUgraphExec handle, ExecPtr &out) {
  CUresult result = find_object(state().graph_execs, Kind::graph_exec, handle, out);
  return result == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : result;
}

void lose_graph_execs(const ContextPtr &context) {
  State &s = state();
  for (const ExecPtr &exec : s.graph_execs.all())
    if (exec->context.lock() == context) {
      s.lost[exec->handle] = exec;
      s.graph_execs.remove(exec->handle);
    }
}

std::shared_ptr<References> references_of(const Graph &graph) {
  auto references = std::make_shared<References>();
  add_references(*references, graph);
  return references;
}

std::shared_ptr<ExecGraph> make_exec_graph(const Graph &graph) {
  auto made = std::make_shared<ExecGraph>();
  std::unordered_map<const GraphNode *, size_t> places;
  for (const auto &[id, node] : graph.nodes)
    places.emplace(node.get(), places.size());
  for (const auto &[id, node] : graph.nodes) {
    ExecNode copy;
    copy.source = node->handle;
    copy.type = node->type;
    copy.params = copy.first = node->params;
    for (const Edge &edge : node->before)
      copy.before.emplace_back(places[edge.node], edge.data);
    for (const Edge &edge : node->after)
      copy.after.push_back(places[edge.node]);
    for (const GraphPtr &part : node->params->graphs())
      copy.parts.push_back(make_exec_graph(*part));
    made->nodes.push_back(std::move(copy));
  }
  std::vector<const GraphNode *> order;
  sort_nodes(graph, order);
  for (const GraphNode *node : order)
    made->order.push_back(places[node]);
  return made;
}

CUresult find_exec_node(CUgraphExec exec_handle, CUgraphNode node_handle, ExecPtr &exec, ExecNode *&node) {
  SIM_RETURN_FAILURE(find_exec(exec_handle, exec));
  NodePtr source; /* the node of the graph must still exist */
  SIM_RETURN_FAILURE(find_node(node_handle, source));
  node = find_writable(*exec, node_handle);
  return node != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult replace_params(const GraphExec &exec, ExecNode &node, ParamsPtr params) {
  if (node.params->check_change(exec, node, *params) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  node.params = std::move(params);
  return CUDA_SUCCESS;
}

void add_references_of(GraphExec &exec, const Graph &graph) {
  auto references = std::make_shared<References>(*exec.references);
  add_references(*references, graph);
  exec.references = references;
}

namespace api {

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags) {
  Refusal why;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return instantiate(phGraphExec, hGraph, flags, why);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                               size_t bufferSize) {
  Refusal why;
  CUresult result = instantiate(phGraphExec, hGraph, 0, why);
  if (phErrorNode != nullptr)
    *phErrorNode = why.node != nullptr ? handle_of_node(*why.node) : nullptr;
  if (logBuffer != nullptr && bufferSize > 0)
    *logBuffer = '\0';
  return result;
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                            size_t bufferSize) {
  return api::cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
  Refusal why;
  SIM_REQUIRE(instantiateParams != nullptr);
  CUresult result = instantiate(phGraphExec, hGraph, instantiateParams->flags, why);
  bool is_uploaded = (instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  if (result == CUDA_SUCCESS && is_uploaded)
    result = api::cuGraphUpload(*phGraphExec, instantiateParams->hUploadStream);
  instantiateParams->result_out = why.result;
  instantiateParams->hErrNode_out = why.node != nullptr ? handle_of_node(*why.node) : nullptr;
  return result;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
  ExecPtr exec;
  SIM_RETURN_FAILURE(find_exec(hGraphExec, exec));
  state().graph_execs.remove(exec->handle);
  exec->handle = 0;
  if (GraphPtr graph = state().graphs.find(exec->graph); graph != nullptr && graph->executable.lock() == exec)
    graph->executable.reset();
  return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags) {
  constexpr uint64_t untold = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  ExecPtr exec;
  return store(find_exec(hGraphExec, exec), flags, [&] { return exec->flags & ~untold; });
}

CUresult cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int *graphId) {
  ExecPtr exec;
  return store(find_exec(hGraphExec, exec), graphId, [&] { return exec->id; });
}

} // namespace api
} // namespace sim
