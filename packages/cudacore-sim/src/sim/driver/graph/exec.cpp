/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs: how they are made, and changed node by node. */
#include "sim/driver/graph/exec.h"

#include "sim/control/report.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

constexpr uint64_t known_flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

using Result = CUgraphInstantiateResult;

/* What keeps a graph from being instantiated. */
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

bool may_be_in_body(CUgraphNodeType type) {
  switch (static_cast<int>(type)) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
  case CU_GRAPH_NODE_TYPE_EMPTY:
  case CU_GRAPH_NODE_TYPE_GRAPH:
  case CU_GRAPH_NODE_TYPE_MEMSET:
  case CU_GRAPH_NODE_TYPE_MEMCPY:
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return true;
  default:
    return false;
  }
}

bool may_be_launched_by_device(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET ||
         type == CU_GRAPH_NODE_TYPE_GRAPH;
}

/* Memory of copies and fills has to be there still. */
CUresult check_memory(const GraphNode &node) {
  if (const auto *copy = std::get_if<MemcpyParams>(node.params.get()))
    return copy->context == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                                    : check_copy_node(*copy->context, copy->to, copy->from, copy->shape);
  if (const auto *fill = std::get_if<MemsetParams>(node.params.get()))
    return fill->context == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                                    : check_fill_node(*fill->context, fill->to, fill->shape, fill->fields.elementSize);
  return CUDA_SUCCESS;
}

/* Whether the graph cannot be instantiated; recursive. */
bool is_refused(const Graph &graph, uint64_t flags, bool in_body, Refusal &why) {
  std::vector<const GraphNode *> order;
  if (!sort_nodes(graph, order)) {
    auto in_cycle = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto &entry) {
      return std::find(order.begin(), order.end(), entry.second.get()) == order.end();
    });
    return why.is(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, in_cycle->second.get());
  }
  for (const GraphNode *node : order) {
    bool on_device = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
    if ((in_body && !may_be_in_body(node->type)) || (on_device && !may_be_launched_by_device(node->type)))
      return why.is(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, node);
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
      const KernelParams &kernel = as<KernelParams>(node->params);
      LaunchRequest request;
      CUresult result = check_code(kernel.what);
      if (result == CUDA_SUCCESS)
        result = check_kernel(kernel, request);
      if (result != CUDA_SUCCESS)
        return why.is(result, CUDA_GRAPH_INSTANTIATE_ERROR, node);
    } else if (CUresult result = check_memory(*node)) {
      return why.is(result, CUDA_GRAPH_INSTANTIATE_ERROR, node);
    } else if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
      if (is_refused(*as<ChildParams>(node->params).graph, flags, in_body, why))
        return true;
    } else if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      for (const GraphPtr &body : as<ConditionalParams>(node->params).bodies) {
        if (body->lost) {
          report("a graph was instantiated with a body that a failed capture had destroyed: here the driver crashes");
          return why.is(CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node);
        }
        if (is_refused(*body, flags, true, why))
          return true;
      }
    }
  }
  return false;
}

bool is_unused(const std::shared_ptr<Condition> &condition) { return !condition->used; }

bool has_copies(const Graph &graph) {
  return std::any_of(graph.copies.begin(), graph.copies.end(), [](const auto &copy) { return !copy.expired(); });
}

/* What only one executable graph at a time can have, and no copy that was made before. */
bool is_single(const Graph &graph) { return has_memory(graph) || has_conditions(graph); }

void list_nodes(GraphExec &exec, const ExecGraph &graph, const std::vector<std::pair<size_t, size_t>> &path) {
  for (size_t i = 0; i < graph.nodes.size(); i++) {
    const ExecNode &node = graph.nodes[i];
    exec.places[node.source] = {path, i};
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
      exec.allocations.push_back(as<AllocParams>(node.params).memory);
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
      exec.frees.push_back(as<FreeParams>(node.params).memory);
    for (size_t part = 0; part < node.parts.size(); part++) {
      auto inner = path;
      inner.emplace_back(i, part);
      list_nodes(exec, *node.parts[part], inner);
    }
  }
}

void add_references(References &to, const Graph &graph) {
  to.add(graph.references);
  for (const auto &[id, node] : graph.nodes) {
    if (const auto *child = std::get_if<ChildParams>(node->params.get()))
      add_references(to, *child->graph);
    if (const auto *conditional = std::get_if<ConditionalParams>(node->params.get()))
      for (const GraphPtr &body : conditional->bodies)
        add_references(to, *body);
  }
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
  *out = handle_of<CUgraphExec>(exec->handle);
  return CUDA_SUCCESS;
}

/* A node of an executable graph, of a type. */
CUresult find_exec_node(CUgraphExec exec_handle, CUgraphNode node_handle, ExecPtr &exec, ExecNode *&node) {
  if (CUresult result = find_exec(exec_handle, exec))
    return result;
  NodePtr source; /* it must be there still */
  if (CUresult result = find_node(node_handle, source))
    return result;
  node = sim::find_exec_node(*exec, node_handle);
  return node != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <class Read> CUresult change(CUgraphExec exec_handle, CUgraphNode handle, CUgraphNodeType type, Read read) {
  ExecPtr exec;
  ExecNode *node = nullptr;
  ParamsPtr params;
  if (CUresult result = find_exec_node(exec_handle, handle, exec, node))
    return result;
  if (node->type != type)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = read(*node, params))
    return result;
  if (check_change(*exec, *node, params) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  node->params = std::move(params);
  return CUDA_SUCCESS;
}

CUresult change_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *from) {
  return change(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, [&](const ExecNode &old, ParamsPtr &params) {
    return from == nullptr ? CUDA_ERROR_INVALID_VALUE : read_kernel(*from, &as<KernelParams>(old.params), params);
  });
}

CUresult change_child(CUgraphExec exec_handle, CUgraphNode handle, CUgraph graph_handle) {
  ExecPtr exec;
  ExecNode *node = nullptr;
  GraphPtr graph;
  if (CUresult result = find_exec_node(exec_handle, handle, exec, node))
    return result;
  if (CUresult result = find_graph(graph_handle, graph))
    return result;
  if (node->type != CU_GRAPH_NODE_TYPE_GRAPH)
    return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info{};
  if (CUresult result = update_exec_graph(*exec, node->parts[0], *graph, info))
    return result;
  auto references = std::make_shared<References>(*exec->references);
  add_references(*references, *graph);
  exec->references = references;
  return CUDA_SUCCESS;
}

bool can_be_disabled(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET;
}

} // namespace

CUresult find_exec(CUgraphExec handle, ExecPtr &out) {
  CUresult result = find_object(state().graph_execs, Kind::graph_exec, handle, out);
  return result == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : result;
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
    copy.params = node->params;
    for (const Edge &edge : node->before)
      copy.before.emplace_back(places[edge.node], edge.data);
    for (const Edge &edge : node->after)
      copy.after.push_back(places[edge.node]);
    if (const auto *child = std::get_if<ChildParams>(node->params.get()))
      copy.parts.push_back(make_exec_graph(*child->graph));
    if (const auto *conditional = std::get_if<ConditionalParams>(node->params.get()))
      for (const GraphPtr &body : conditional->bodies)
        copy.parts.push_back(make_exec_graph(*body));
    made->nodes.push_back(std::move(copy));
  }
  std::vector<const GraphNode *> order;
  sort_nodes(graph, order);
  for (const GraphNode *node : order)
    made->order.push_back(places[node]);
  return made;
}

ExecNode *find_exec_node(GraphExec &exec, CUgraphNode handle) {
  auto found = exec.places.find(value_of(handle));
  if (found == exec.places.end())
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
  if (instantiateParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
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
  if (CUresult result = find_exec(hGraphExec, exec))
    return result;
  state().graph_execs.remove(exec->handle);
  exec->handle = 0;
  if (GraphPtr graph = state().graphs.find(exec->graph); graph != nullptr && graph->executable.lock() == exec)
    graph->executable.reset();
  return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags) {
  ExecPtr exec;
  if (CUresult result = find_exec(hGraphExec, exec))
    return result;
  if (flags == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  constexpr uint64_t untold = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  *flags = exec->flags & ~untold;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int *graphId) {
  ExecPtr exec;
  if (CUresult result = find_exec(hGraphExec, exec))
    return result;
  if (graphId == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *graphId = exec->id;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  if (nodeParams == nullptr)
    return change_kernel(hGraphExec, hNode, nullptr);
  CUDA_KERNEL_NODE_PARAMS params{};
  std::memcpy(&params, nodeParams, sizeof *nodeParams);
  return change_kernel(hGraphExec, hNode, &params);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return change_kernel(hGraphExec, hNode, nodeParams);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams,
                                        CUcontext ctx) {
  return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMCPY, [&](const ExecNode &, ParamsPtr &params) {
    return copyParams == nullptr ? CUDA_ERROR_INVALID_VALUE : read_memcpy(*copyParams, ctx, params);
  });
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
  return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMSET, [&](const ExecNode &, ParamsPtr &params) {
    if (memsetParams == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMSET_NODE_PARAMS_v2 fields{};
    std::memcpy(&fields, memsetParams, sizeof *memsetParams);
    fields.ctx = ctx;
    return read_memset(fields, params);
  });
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS *nodeParams) {
  return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_HOST, [&](const ExecNode &, ParamsPtr &params) {
    if (nodeParams == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    CUDA_HOST_NODE_PARAMS_v2 fields{};
    fields.fn = nodeParams->fn;
    fields.userData = nodeParams->userData;
    return read_host(fields, params);
  });
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
  return change_child(hGraphExec, hNode, childGraph);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                [&](const ExecNode &, ParamsPtr &params) { return read_event(event, params); });
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                [&](const ExecNode &, ParamsPtr &params) { return read_event(event, params); });
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  if (nodeParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return change_child(hGraphExec, hNode, nodeParams->graph.graph);
  return change(hGraphExec, hNode, nodeParams->type, [&](const ExecNode &old, ParamsPtr &params) {
    GraphNode like;
    like.type = old.type;
    like.params = old.params;
    return read_params(like, *nodeParams, params);
  });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
  ExecPtr exec;
  ExecNode *node = nullptr;
  if (CUresult result = find_exec_node(hGraphExec, hNode, exec, node))
    return result;
  if (!can_be_disabled(node->type))
    return CUDA_ERROR_INVALID_VALUE;
  node->enabled = isEnabled != 0;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled) {
  ExecPtr exec;
  ExecNode *node = nullptr;
  if (CUresult result = find_exec_node(hGraphExec, hNode, exec, node))
    return result;
  if (!can_be_disabled(node->type) || isEnabled == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *isEnabled = node->enabled;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
