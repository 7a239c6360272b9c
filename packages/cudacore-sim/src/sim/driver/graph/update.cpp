/* SPDX-License-Identifier: Apache-2.0 */
/* An executable graph takes over the parameters of another graph of the same shape. */
#include "sim/driver/graph/exec.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

/* How the nodes of a graph are paired with those of an executable one: from the last ones, along the edges. */
class Pairing {
public:
  Pairing(const ExecGraph &old, const Graph &now, CUgraphExecUpdateResultInfo &info)
      : old(old), now(now), info(info), taken(old.nodes.size(), nullptr) {}

  bool make() {
    if (old.nodes.size() != now.nodes.size())
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
    /* The newest ones first. */
    std::vector<size_t> old_ends;
    std::vector<const GraphNode *> ends;
    for (size_t i = old.nodes.size(); i-- > 0;)
      if (old.nodes[i].after.empty())
        old_ends.push_back(i);
    for (auto entry = now.nodes.rbegin(); entry != now.nodes.rend(); ++entry)
      if (entry->second->after.empty())
        ends.push_back(entry->second.get());
    if (ends.size() != old_ends.size())
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
                  ends.size() > old_ends.size() ? ends[old_ends.size()] : nullptr);
    for (size_t i = 0; i < ends.size(); i++)
      if (!pair(ends[i], old_ends[i]))
        return false;
    while (!queue.empty()) {
      const GraphNode *node = queue.back();
      queue.pop_back();
      if (!follow(*node))
        return false;
    }
    return true;
  }

  size_t place_of(const GraphNode &node) const { return places.at(&node); }

private:
  bool pair(const GraphNode *node, size_t place) {
    if (node->type != old.nodes[place].type)
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node);
    places[node] = place;
    taken[place] = node;
    queue.push_back(node);
    return true;
  }

  bool follow(const GraphNode &node) {
    const ExecNode &like = old.nodes[places[&node]];
    if (node.before.size() != like.before.size())
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &node);
    for (size_t i = 0; i < node.before.size(); i++) {
      const GraphNode *dependency = node.before[i].node;
      const auto &[place, data] = like.before[i];
      auto known = places.find(dependency);
      bool is_new = known == places.end() && taken[place] == nullptr;
      bool is_same = known != places.end() && known->second == place;
      bool is_like = std::memcmp(&data, &node.before[i].data, sizeof data) == 0;
      if ((!is_new && !is_same) || !is_like)
        return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &node, dependency);
      if (is_new && !pair(dependency, place))
        return false;
    }
    return true;
  }

  bool fail(CUgraphExecUpdateResult result, const GraphNode *node, const GraphNode *from = nullptr) {
    info.result = result;
    info.errorNode = node != nullptr ? handle_of_node(*node) : nullptr;
    info.errorFromNode = from != nullptr ? handle_of_node(*from) : nullptr;
    return false;
  }

  const ExecGraph &old;
  const Graph &now;
  CUgraphExecUpdateResultInfo &info;
  std::unordered_map<const GraphNode *, size_t> places;
  std::vector<const GraphNode *> taken;
  std::vector<const GraphNode *> queue;
};

bool has_attribute(const KernelParams &params, CUlaunchAttributeID id, CUlaunchAttributeValue &out) {
  auto found = params.attributes.find(id);
  std::memset(&out, 0, sizeof out);
  if (found != params.attributes.end())
    out = found->second;
  return found != params.attributes.end();
}

CUgraphExecUpdateResult check_kernel_change(const GraphExec &exec, const KernelParams &old, const KernelParams &now) {
  if (old.what.context != now.what.context)
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  CUlaunchAttributeValue before, after;
  has_attribute(old, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, before);
  has_attribute(now, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, after);
  if ((before.cooperative != 0) != (after.cooperative != 0))
    return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  has_attribute(old, CU_LAUNCH_ATTRIBUTE_PRIORITY, before);
  has_attribute(now, CU_LAUNCH_ATTRIBUTE_PRIORITY, after);
  if ((exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0 && before.priority != after.priority)
    return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUgraphExecUpdateResult check_memcpy_change(const MemcpyParams &old, const MemcpyParams &now) {
  auto is_line = [](const Shape &shape) { return shape.height == 1 && shape.depth == 1; };
  bool is_same_shape = old.shape.width == now.shape.width && old.shape.height == now.shape.height &&
                       old.shape.depth == now.shape.depth && old.fields.srcPitch == now.fields.srcPitch &&
                       old.fields.dstPitch == now.fields.dstPitch;
  bool is_like = old.context == now.context && old.fields.srcMemoryType == now.fields.srcMemoryType &&
                 old.fields.dstMemoryType == now.fields.dstMemoryType;
  bool can_change = (is_line(old.shape) && is_line(now.shape)) || is_same_shape;
  return is_like && can_change ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult check_memset_change(const MemsetParams &old, const MemsetParams &now) {
  const CUDA_MEMSET_NODE_PARAMS_v2 &before = old.fields, &after = now.fields;
  bool is_line = before.height == 1 && after.height == 1;
  bool is_same_shape = before.height == after.height && before.width == after.width && before.pitch == after.pitch &&
                       before.elementSize == after.elementSize;
  return old.context == now.context && (is_line || is_same_shape) ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                                  : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult check_conditional_change(const ConditionalParams &old, const ConditionalParams &now) {
  bool is_same = old.fields.type == now.fields.type && old.fields.size == now.fields.size && old.context == now.context;
  return is_same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
}

std::vector<GraphPtr> parts_of(const GraphNode &node) {
  if (const auto *child = std::get_if<ChildParams>(node.params.get()))
    return {child->graph};
  if (const auto *conditional = std::get_if<ConditionalParams>(node.params.get()))
    return conditional->bodies;
  return {};
}

CUresult fail_update(CUgraphExecUpdateResultInfo &info) {
  return info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

} // namespace

CUgraphExecUpdateResult check_change(const GraphExec &exec, const ExecNode &old, const ParamsPtr &now) {
  switch (static_cast<int>(old.type)) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return check_kernel_change(exec, as<KernelParams>(old.params), as<KernelParams>(now));
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return check_memcpy_change(as<MemcpyParams>(old.params), as<MemcpyParams>(now));
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return check_memset_change(as<MemsetParams>(old.params), as<MemsetParams>(now));
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return check_conditional_change(as<ConditionalParams>(old.params), as<ConditionalParams>(now));
  default:
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  }
}

/* Makes a changed copy, so that an update that fails has changed nothing. */
CUresult update_exec_graph(GraphExec &exec, std::shared_ptr<ExecGraph> &old, const Graph &now,
                           CUgraphExecUpdateResultInfo &info) {
  info = {};
  Pairing pairing(*old, now, info);
  if (!pairing.make())
    return fail_update(info);
  auto changed = std::make_shared<ExecGraph>(*old);
  for (const auto &[id, node] : now.nodes) {
    ExecNode &like = changed->nodes[pairing.place_of(*node)];
    info.result = check_change(exec, like, node->params);
    if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
      info.errorNode = handle_of_node(*node);
      return fail_update(info);
    }
    std::vector<GraphPtr> parts = parts_of(*node);
    for (size_t i = 0; i < parts.size(); i++)
      if (CUresult result = update_exec_graph(exec, like.parts[i], *parts[i], info))
        return result;
    bool is_memory = like.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || like.type == CU_GRAPH_NODE_TYPE_MEM_FREE;
    if (!is_memory) /* which stays what it is */
      like.params = node->params;
  }
  old = std::move(changed);
  return CUDA_SUCCESS;
}

namespace api {

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo) {
  ExecPtr exec;
  GraphPtr graph;
  CUgraphExecUpdateResultInfo ignored{};
  if (resultInfo == nullptr)
    resultInfo = &ignored;
  *resultInfo = {};
  if (CUresult result = find_exec(hGraphExec, exec))
    return result;
  if (CUresult result = find_graph(hGraph, graph))
    return result;
  if (graph->owner != nullptr || graph->captures > 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = check_kernels(*graph))
    return result;
  if (CUresult result = update_exec_graph(*exec, exec->top, *graph, *resultInfo))
    return result;
  exec->references = references_of(*graph);
  exec->conditions = graph->conditions;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out) {
  CUgraphExecUpdateResultInfo info{};
  if (hErrorNode_out == nullptr || updateResult_out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = api::cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
  *hErrorNode_out = info.errorNode;
  *updateResult_out = info.result;
  return result;
}

} // namespace api
} // namespace sim
