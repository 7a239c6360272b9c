/* SPDX-License-Identifier: Apache-2.0 */
/* Copy nodes. */
#include "sim/driver/graph/nodes/node.h"

namespace sim {
namespace {

constexpr CUgraphNodeType type = CU_GRAPH_NODE_TYPE_MEMCPY;

const char *words_for(CUmemorytype kind) {
  switch (static_cast<int>(kind)) {
  case CU_MEMORYTYPE_HOST:
    return "HOST";
  case CU_MEMORYTYPE_UNIFIED:
    return "UNIFIED";
  case CU_MEMORYTYPE_ARRAY:
    return "ARRAY";
  default:
    return "DEVICE";
  }
}

std::string side_text(CUmemorytype kind, const void *host, CUdeviceptr device, size_t x, size_t y, size_t z,
                      size_t pitch, size_t height) {
  std::string text = std::string(words_for(kind)) + " (" + words_for(kind) + ") | " + dot_address(nullptr) + " | " +
                     dot_address(host) + " | " + dot_address(device);
  for (size_t number : {x, y, z, pitch, height})
    text += " | " + dot_number(number);
  return text + " | 0";
}

struct MemcpyParams : Params {
  MemcpyParams(const CUDA_MEMCPY3D &fields, const ContextPtr &owner, const Side &to, const Side &from,
               const Shape &shape)
      : fields(fields), owner(owner), context(home_of(owner)), to(to), from(from), shape(shape) {}

  const CUDA_MEMCPY3D fields;
  const ContextPtr owner; /* can be a green context of `context` */
  const ContextPtr context;
  const Side to, from;
  const Shape shape;

  void write(CUgraphNodeParams &out) const override {
    out.memcpy.copyParams = fields;
    if (context != nullptr)
      out.memcpy.copyCtx = handle_of<CUcontext>(context->handle);
  }

  CUresult submit(const LaunchPtr &launch, const ExecNode &, std::vector<UnitPtr> before, UnitPtr &out) const override {
    out = new_unit("copy of a graph", context, copy_work(context, to, from, shape));
    if (out->traced != nullptr)
      describe_shape(*out->traced, shape);
    submit_unit(launch, out, before);
    return CUDA_SUCCESS;
  }

  /* Fails if the memory no longer exists. */
  CUresult check_instance() const override {
    return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : check_copy_node(*context, to, from, shape);
  }

  CUgraphExecUpdateResult check_change(const GraphExec &, const ExecNode &node, const Params &other) const override {
    const MemcpyParams &now = as<MemcpyParams>(other);
    auto is_line = [](const Shape &of) { return of.height == 1 && of.depth == 1; };
    bool is_same_shape = shape.width == now.shape.width && shape.height == now.shape.height &&
                         shape.depth == now.shape.depth && fields.srcPitch == now.fields.srcPitch &&
                         fields.dstPitch == now.fields.dstPitch;
    /* A copy that was instantiated in a green context stays there; others may go there and back. */
    bool leaves_green = as<MemcpyParams>(node.first).owner != context && now.owner == now.context;
    bool is_like = context == now.context && !leaves_green && fields.srcMemoryType == now.fields.srcMemoryType &&
                   fields.dstMemoryType == now.fields.dstMemoryType;
    bool can_change = (is_line(shape) && is_line(now.shape)) || is_same_shape;
    return is_like && can_change ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }

  std::string describe(const DotNode &node) const override {
    const CUDA_MEMCPY3D &f = fields;
    if (!node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS)) {
      auto letter = [](CUmemorytype kind) { return std::string(1, *words_for(kind)); };
      return "[style=\"solid\" shape=\"trapezium\"label=\"" + node.identity() + "\nMEMCPY\n(" +
             letter(f.srcMemoryType) + "to" + letter(f.dstMemoryType) + "," +
             dot_number(shape.width * shape.height * shape.depth) + ")\n" + node.handle_line() + "\"]";
    }
    const std::string titles = "MemoryType | Array | Host | Device | XInBytes | Y | Z | Pitch | Height"
                               " | LOD"; /* codespell:ignore */
    return "[style=\"solid\" shape=\"record\" label=\"{\nMEMCPY\n| {{ID | node handle} | {" + node.identity() + " | " +
           dot_address(node.handle()) + "}}\n| {{src | dst} | { " + titles + " | " + titles + "} | {" +
           side_text(f.srcMemoryType, f.srcHost, f.srcDevice, f.srcXInBytes, f.srcY, f.srcZ, f.srcPitch, f.srcHeight) +
           " | " +
           side_text(f.dstMemoryType, f.dstHost, f.dstDevice, f.dstXInBytes, f.dstY, f.dstZ, f.dstPitch, f.dstHeight) +
           "}}\n| {Extent | {WidthInBytes | Height | Depth} | {" + dot_number(f.WidthInBytes) + " | " +
           dot_number(f.Height) + " | " + dot_number(f.Depth) + "}}\n}\"]";
  }
};

CUresult read_fields(const CUDA_MEMCPY3D &fields, CUcontext context, const Params *old, ParamsPtr &out) {
  ContextPtr owner;
  Side to{}, from{};
  Shape shape{};
  SIM_RETURN_FAILURE(find_node_owner(context, owner));
  if (CUresult result = read_copy(fields, to, from, shape))
    return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_INVALID_VALUE : result;
  bool is_freed = old == nullptr && (is_freed_by_its_graph(to.address) || is_freed_by_its_graph(from.address));
  if (shape.width == 0 || shape.height == 0 || shape.depth == 0 || is_freed)
    return CUDA_ERROR_INVALID_VALUE;
  if (owner != nullptr)
    SIM_RETURN_FAILURE(check_copy_node(*home_of(owner), to, from, shape));
  out = make_memcpy(fields, owner, to, from, shape);
  return CUDA_SUCCESS;
}

auto reader(const CUDA_MEMCPY3D *fields, CUcontext context) {
  return [=](const Graph *, const Params *old, ParamsPtr &out) {
    return fields == nullptr ? CUDA_ERROR_INVALID_VALUE : read_fields(*fields, context, old, out);
  };
}

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = type;
  row.bytes = sizeof(CUDA_MEMCPY_NODE_PARAMS);
  row.read = [](const Graph *, const Params *old, CUgraphNodeParams &from, ParamsPtr &out) {
    if (from.memcpy.flags != 0 || from.memcpy.reserved != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return read_fields(from.memcpy.copyParams, from.memcpy.copyCtx, old, out);
  };
  row.can_be_disabled = row.may_be_in_body = row.may_be_launched_by_device = true;
  return row;
}());

} // namespace

ParamsPtr make_memcpy(const CUDA_MEMCPY3D &fields, const ContextPtr &owner, const Side &to, const Side &from,
                      const Shape &shape) {
  return std::make_shared<MemcpyParams>(fields, owner, to, from, shape);
}

namespace api {

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                              size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
  return add_one(type, phGraphNode, hGraph, dependencies, numDependencies, reader(copyParams, ctx));
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams) {
  return get_one<MemcpyParams>(type, hNode, nodeParams,
                               [](const MemcpyParams &params, auto &out) { out = params.fields; });
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) {
  return set_one(type, hNode, [=](const Graph *into, const Params *old, ParamsPtr &out) {
    const ContextPtr &owner = as<MemcpyParams>(*old).owner;
    return reader(nodeParams, owner != nullptr ? handle_of<CUcontext>(owner->handle) : nullptr)(into, old, out);
  });
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams,
                                        CUcontext ctx) {
  return set_in_exec(type, hGraphExec, hNode, reader(copyParams, ctx));
}

} // namespace api
} // namespace sim
