/* SPDX-License-Identifier: Apache-2.0 */
/* Fill nodes. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

constexpr CUgraphNodeType type = CU_GRAPH_NODE_TYPE_MEMSET;

struct MemsetParams : Params {
  MemsetParams(const CUDA_MEMSET_NODE_PARAMS_v2 &fields, const ContextPtr &owner, const Side &to, const Shape &shape)
      : fields(fields), owner(owner), context(home_of(owner)), to(to), shape(shape) {}

  const CUDA_MEMSET_NODE_PARAMS_v2 fields;
  const ContextPtr owner; /* can be a green context of `context` */
  const ContextPtr context;
  const Side to;
  const Shape shape;

  void write(CUgraphNodeParams &out) const override { out.memset = fields; }

  CUresult submit(const LaunchPtr &launch, const ExecNode &, std::vector<UnitPtr> before, UnitPtr &out) const override {
    out = new_unit("fill of a graph", context, fill_work(context, to, shape, fields.value, fields.elementSize));
    if (out->traced != nullptr)
      describe_shape(*out->traced, shape);
    submit_unit(launch, out, before);
    return CUDA_SUCCESS;
  }

  /* Fails if the memory no longer exists. */
  CUresult check_instance() const override {
    return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : check_fill_node(*context, to, shape, fields.elementSize);
  }

  CUgraphExecUpdateResult check_change(const GraphExec &exec, const ExecNode &node,
                                       const Params &other) const override {
    return owner == as<MemsetParams>(other).owner ? check_update(exec, node, other)
                                                  : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }

  /* Unlike a change of one node, an update may replace a fill of a green context. */
  CUgraphExecUpdateResult check_update(const GraphExec &, const ExecNode &, const Params &other) const override {
    const MemsetParams &now = as<MemsetParams>(other);
    const CUDA_MEMSET_NODE_PARAMS_v2 &before = fields, &after = now.fields;
    bool is_line = before.height == 1 && after.height == 1;
    bool is_same_shape = before.height == after.height && before.width == after.width && before.pitch == after.pitch &&
                         before.elementSize == after.elementSize;
    return context == now.context && (is_line || is_same_shape) ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                                : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }

  std::string describe(const DotNode &node) const override {
    if (!node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
      return "[style=\"solid\" shape=\"invtrapezium\"label=\"" + node.identity() + "\nMEMSET\n(" +
             dot_number(fields.value) + "," + dot_number(fields.width * fields.elementSize * fields.height) + ")\n" +
             node.handle_line() + "\"]";
    std::string text = "[style=\"solid\" style=\"solid\" shape=\"record\" label=\"{MEMSET\n| {{ID | node handle | dptr "
                       "| pitch | value | elementSize | width | height} | {" +
                       node.identity() + " | " + dot_address(node.handle()) + " | " + dot_address(fields.dst);
    for (size_t number : {fields.pitch, size_t{fields.value}, size_t{fields.elementSize}, fields.width, fields.height})
      text += " | " + dot_number(number);
    return text + "}}}\"]";
  }
};

CUresult read_fields(const CUDA_MEMSET_NODE_PARAMS_v2 &from, const Params *old, ParamsPtr &out) {
  CUDA_MEMSET_NODE_PARAMS_v2 fields = from;
  ContextPtr owner;
  Side to{MemoryKind::device, from.dst, from.pitch};
  Shape shape{0, from.height};
  SIM_RETURN_FAILURE(find_node_owner(from.ctx, owner));
  bool is_size = from.elementSize == 1 || from.elementSize == 2 || from.elementSize == 4;
  if (!is_size || from.width == 0 || from.height == 0 ||
      __builtin_mul_overflow(from.width, size_t{from.elementSize}, &shape.width) ||
      (from.height > 1 && from.pitch < shape.width) || (old == nullptr && is_freed_by_its_graph(from.dst)))
    return CUDA_ERROR_INVALID_VALUE;
  if (owner != nullptr) {
    SIM_RETURN_FAILURE(check_fill_node(*home_of(owner), to, shape, from.elementSize));
    fields.ctx = handle_of<CUcontext>(owner->handle);
  }
  out = make_memset(fields, owner, to, shape);
  return CUDA_SUCCESS;
}

auto reader(const CUDA_MEMSET_NODE_PARAMS *from, CUcontext context) {
  return [=](const Graph *, const Params *old, ParamsPtr &out) {
    if (from == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return read_fields({from->dst, from->pitch, from->value, from->elementSize, from->width, from->height, context},
                       old, out);
  };
}

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = type;
  row.bytes = sizeof(CUDA_MEMSET_NODE_PARAMS_v2);
  row.read = [](const Graph *, const Params *old, CUgraphNodeParams &from, ParamsPtr &out) {
    return read_fields(from.memset, old, out);
  };
  row.can_be_disabled = row.may_be_in_body = row.may_be_launched_by_device = true;
  return row;
}());

} // namespace

ParamsPtr make_memset(const CUDA_MEMSET_NODE_PARAMS_v2 &fields, const ContextPtr &owner, const Side &to,
                      const Shape &shape) {
  return std::make_shared<MemsetParams>(fields, owner, to, shape);
}

namespace api {

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                              size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
  return add_one(type, phGraphNode, hGraph, dependencies, numDependencies, reader(memsetParams, ctx));
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  return get_one<MemsetParams>(type, hNode, nodeParams, [](const MemsetParams &params, auto &out) {
    std::memcpy(&out, &params.fields, sizeof out);
  });
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  return set_one(type, hNode, [=](const Graph *into, const Params *old, ParamsPtr &out) {
    return reader(nodeParams, as<MemsetParams>(*old).fields.ctx)(into, old, out);
  });
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
  return set_in_exec(type, hGraphExec, hNode, reader(memsetParams, ctx));
}

} // namespace api
} // namespace sim
