/* SPDX-License-Identifier: Apache-2.0 */
/* Updates an executable graph with the parameters of another graph of the same shape. */
#include "sim/driver/graph/exec.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

/* Pairs the nodes of a graph with nodes of an executable graph, along the edges, starting from the last nodes. */
class Pairing {
public:
  Pairing(const ExecGraph &old, const Graph &now, CUgraphExecUpdateResultInfo &info)
      : old(old), now(now), info(info), taken(old.nodes.size(), nullptr) {}

  bool make() {
    if (old.nodes.size() != now.nodes.size())
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
    /* Both lists begin with the newest node. */
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

CUresult fail_update(CUgraphExecUpdateResultInfo &info) {
  return info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

} // namespace

/* Updates an executable graph. Changes a copy of it, so that a failed update has no effect. */
CUresult update_exec_graph(GraphExec &exec, std::shared_ptr<ExecGraph> &old, const Graph &now,
                           CUgraphExecUpdateResultInfo &info) {
  info = {};
  Pairing pairing(*old, now, info);
  if (!pairing.make())
    return fail_update(info);
  auto changed = std::make_shared<ExecGraph>(*old);
  for (const auto &[id, node] : now.nodes) {
    ExecNode &like = changed->nodes[pairing.place_of(*node)];
    info.result = like.params->check_update(exec, like, *node->params);
    if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
      info.errorNode = handle_of_node(*node);
      return fail_update(info);
    }
    std::vector<GraphPtr> parts = node->params->graphs();
    for (size_t i = 0; i < parts.size(); i++)
      SIM_RETURN_FAILURE(update_exec_graph(exec, like.parts[i], *parts[i], info));
    if (!find_node_type(like.type)->has_memory) /* an update does not change the memory of a node */
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
  SIM_RETURN_FAILURE(find_exec(hGraphExec, exec));
  SIM_RETURN_FAILURE(find_graph(hGraph, graph));
  if (graph->owner != nullptr || graph->captures > 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(check_kernels(*graph));
  SIM_RETURN_FAILURE(update_exec_graph(*exec, exec->top, *graph, *resultInfo));
  exec->references = references_of(*graph);
  exec->conditions = graph->conditions;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out) {
  CUgraphExecUpdateResultInfo info{};
  SIM_REQUIRE(hErrorNode_out != nullptr && updateResult_out != nullptr);
  CUresult result = api::cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
  *hErrorNode_out = info.errorNode;
  *updateResult_out = info.result;
  return result;
}

} // namespace api
} // namespace sim
