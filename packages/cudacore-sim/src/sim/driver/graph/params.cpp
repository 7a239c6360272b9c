/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes: what the application gives is checked and copied. */
#include "sim/driver/graph/graph.h"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

template <class T> ParamsPtr shared(T &&params) { return std::make_shared<const Params>(std::forward<T>(params)); }

CUresult find_callable_of(const CUDA_KERNEL_NODE_PARAMS &from, Callable &out) {
  if (from.func != nullptr)
    return find_function(from.func, out);
  if (from.kern == nullptr || !state().kernels.bears(value_of(from.kern)))
    return CUDA_ERROR_INVALID_HANDLE;
  ContextPtr context;
  if (CUresult result = from.ctx != nullptr ? find_context(from.ctx, context) : need_context(context))
    return result;
  return find_callable(reinterpret_cast<CUfunction>(from.kern), context, out);
}

/* As what it is read back: the function, and the kernel if it is of one. */
void name_kernel(KernelParams &params, uint64_t handle) {
  std::shared_ptr<Kernel> kernel = state().kernels.find(handle);
  if (const std::shared_ptr<Function> function = state().functions.find(handle)) {
    params.function = handle_of<CUfunction>(handle);
    kernel = function->kernel.lock();
  } else if (kernel != nullptr) {
    function_of(kernel, params.what.context, &params.function);
  }
  params.kernel = kernel != nullptr ? handle_of<CUkernel>(kernel->handle) : nullptr;
}

/* So that they can be read back: as pointers, or as the block that they were. */
void point_to_arguments(KernelParams &params, bool as_block) {
  std::byte *block = params.arguments.data();
  if (as_block) {
    params.extra_size = params.arguments.size();
    params.extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &params.extra_size,
                    CU_LAUNCH_PARAM_END};
    return;
  }
  for (const Parameter &parameter : params.what.info().parameters)
    params.pointers.push_back(block + parameter.offset);
}

/* Without a context it is the current one; where there is none, the graph cannot be instantiated. */
CUresult find_node_context(CUcontext handle, ContextPtr &out) {
  if (handle != nullptr)
    return find_context(handle, out);
  out = home_of(current_context());
  return CUDA_SUCCESS;
}

/* Whether all bytes from one on are zero. */
bool is_clear(const CUgraphNodeParams &params, size_t used) {
  auto is_set = [](char byte) { return byte != 0; };
  return params.reserved0[0] == 0 && params.reserved0[1] == 0 && params.reserved0[2] == 0 && params.reserved2 == 0 &&
         std::none_of(params.asBytes + used, std::end(params.asBytes), is_set);
}

size_t size_of(CUgraphNodeType type) {
  switch (static_cast<int>(type)) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return sizeof(CUDA_KERNEL_NODE_PARAMS_v3);
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return sizeof(CUDA_MEMCPY_NODE_PARAMS);
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return sizeof(CUDA_MEMSET_NODE_PARAMS_v2);
  case CU_GRAPH_NODE_TYPE_HOST:
    return sizeof(CUDA_HOST_NODE_PARAMS_v2);
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS);
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return sizeof(CUDA_EVENT_WAIT_NODE_PARAMS);
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return sizeof(CUDA_EVENT_RECORD_NODE_PARAMS);
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    return sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2);
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    return sizeof(CUDA_MEM_FREE_NODE_PARAMS);
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return sizeof(CUDA_CONDITIONAL_NODE_PARAMS);
  default:
    return 0;
  }
}

} // namespace

ParamsPtr make_kernel(uint64_t handle, const Callable &what, const LaunchRequest &request,
                      std::vector<std::byte> arguments, bool as_block,
                      std::map<CUlaunchAttributeID, CUlaunchAttributeValue> attributes) {
  /* Pointers to the arguments are taken where they are for good. */
  auto made = std::make_shared<Params>(KernelParams{});
  KernelParams &params = std::get<KernelParams>(*made);
  params.what = what;
  params.request.grid = request.grid;
  params.request.block = request.block;
  params.request.dynamic_shared = request.dynamic_shared;
  params.arguments = std::move(arguments);
  params.attributes = std::move(attributes);
  name_kernel(params, handle);
  point_to_arguments(params, as_block);
  return made;
}

CUresult read_kernel(const CUDA_KERNEL_NODE_PARAMS &from, const KernelParams *previous, ParamsPtr &out) {
  Callable what;
  std::vector<std::byte> arguments;
  if (CUresult result = find_callable_of(from, what))
    return result;
  if (CUresult result = read_arguments(what.info(), from.kernelParams, from.extra, arguments))
    return result;
  LaunchRequest request;
  request.grid = {from.gridDimX, from.gridDimY, from.gridDimZ};
  request.block = {from.blockDimX, from.blockDimY, from.blockDimZ};
  request.dynamic_shared = from.sharedMemBytes;
  bool as_block = from.kernelParams == nullptr && from.extra != nullptr;
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> attributes;
  if (previous != nullptr)
    attributes = previous->attributes;
  uint64_t handle = from.func != nullptr ? value_of(from.func) : value_of(from.kern);
  ParamsPtr made = make_kernel(handle, what, request, std::move(arguments), as_block, std::move(attributes));
  if (CUresult result = check_kernel(as<KernelParams>(made), request))
    return result;
  out = std::move(made);
  return CUDA_SUCCESS;
}

CUresult check_kernel(const KernelParams &params, LaunchRequest &request) {
  request = params.request;
  for (const auto &[id, value] : params.attributes) {
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
      continue; /* nodes have any value of it, launches have not */
    CUlaunchAttribute attribute{};
    attribute.id = id;
    attribute.value = value;
    if (CUresult result = read_attribute(attribute, request))
      return result;
  }
  if (CUresult result = usable(params.what.context))
    return result;
  return check_sizes(params.what, *params.what.context->device, request);
}

CUDA_KERNEL_NODE_PARAMS write_kernel(const KernelParams &from) {
  CUDA_KERNEL_NODE_PARAMS out{};
  out.func = from.function;
  out.kern = from.kernel;
  out.ctx = handle_of<CUcontext>(from.what.context->handle);
  out.gridDimX = from.request.grid[0];
  out.gridDimY = from.request.grid[1];
  out.gridDimZ = from.request.grid[2];
  out.blockDimX = from.request.block[0];
  out.blockDimY = from.request.block[1];
  out.blockDimZ = from.request.block[2];
  out.sharedMemBytes = from.request.dynamic_shared;
  out.kernelParams = from.pointers.empty() ? nullptr : const_cast<void **>(from.pointers.data());
  out.extra = from.extra.empty() ? nullptr : const_cast<void **>(from.extra.data());
  return out;
}

CUresult read_memcpy(const CUDA_MEMCPY3D &from, CUcontext context, ParamsPtr &out) {
  MemcpyParams params{from, nullptr, {}, {}, {}};
  if (CUresult result = find_node_context(context, params.context))
    return result;
  if (CUresult result = read_copy(from, params.to, params.from, params.shape))
    return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_INVALID_VALUE : result;
  if (params.shape.width == 0 || params.shape.height == 0 || params.shape.depth == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (params.context != nullptr)
    if (CUresult result = check_copy_node(*params.context, params.to, params.from, params.shape))
      return result;
  out = shared(std::move(params));
  return CUDA_SUCCESS;
}

CUresult read_memset(const CUDA_MEMSET_NODE_PARAMS_v2 &from, ParamsPtr &out) {
  MemsetParams params{from, nullptr, {Place::device, from.dst, from.pitch}, {0, from.height}};
  if (CUresult result = find_node_context(from.ctx, params.context))
    return result;
  bool is_size = from.elementSize == 1 || from.elementSize == 2 || from.elementSize == 4;
  if (!is_size || from.width == 0 || from.height == 0 ||
      __builtin_mul_overflow(from.width, size_t{from.elementSize}, &params.shape.width) ||
      (from.height > 1 && from.pitch < params.shape.width))
    return CUDA_ERROR_INVALID_VALUE;
  if (params.context != nullptr)
    if (CUresult result = check_fill_node(*params.context, params.to, params.shape, from.elementSize))
      return result;
  if (params.context != nullptr)
    params.fields.ctx = handle_of<CUcontext>(params.context->handle);
  out = shared(std::move(params));
  return CUDA_SUCCESS;
}

CUresult read_host(const CUDA_HOST_NODE_PARAMS_v2 &from, ParamsPtr &out) {
  if (from.fn == nullptr || from.syncMode > 1)
    return CUDA_ERROR_INVALID_VALUE;
  out = shared(HostParams{from});
  return CUDA_SUCCESS;
}

CUresult read_event(CUevent event, ParamsPtr &out) {
  EventParams params{event, nullptr};
  if (find_object(state().events, Kind::event, event, params.event) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  out = shared(std::move(params));
  return CUDA_SUCCESS;
}

CUresult read_child(const Graph &into, const CUDA_CHILD_GRAPH_NODE_PARAMS &from, ParamsPtr &out) {
  GraphPtr graph, made;
  if (CUresult result = find_graph(from.graph, graph))
    return result;
  bool is_moved = from.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  if (!is_moved && from.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
    return CUDA_ERROR_INVALID_VALUE;
  if (has_conditions(*graph) || graph->moved)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (is_moved) {
    bool is_own = graph.get() == &const_cast<Graph &>(into).root();
    if (graph->owner != nullptr || is_own)
      return CUDA_ERROR_INVALID_VALUE;
    graph->moved = true;
    made = graph;
  } else {
    if (graph->owner != nullptr || has_memory(*graph))
      return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult result = check_kernels(*graph))
      return result;
    if (CUresult result = clone_graph(*graph, nullptr, made))
      return result;
  }
  out = shared(ChildParams{made});
  return CUDA_SUCCESS;
}

CUresult read_params(const GraphNode &node, const CUgraphNodeParams &from, ParamsPtr &out) {
  if (from.type != node.type || !is_clear(from, size_of(from.type)))
    return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(from.type)) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    CUDA_KERNEL_NODE_PARAMS kernel;
    static_assert(sizeof kernel == sizeof from.kernel);
    std::memcpy(&kernel, &from.kernel, sizeof kernel);
    return read_kernel(kernel, &as<KernelParams>(node.params), out);
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    if (from.memcpy.flags != 0 || from.memcpy.reserved != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return read_memcpy(from.memcpy.copyParams, from.memcpy.copyCtx, out);
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return read_memset(from.memset, out);
  case CU_GRAPH_NODE_TYPE_HOST:
    return read_host(from.host, out);
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return read_event(from.eventRecord.event, out);
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return read_event(from.eventWait.event, out);
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return read_child(*node.graph, from.graph, out);
  case CU_GRAPH_NODE_TYPE_EMPTY:
    out = node.params;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

namespace {

CUresult check_readable(const GraphNode &node) {
  if (!has_lost_kernel(node))
    return CUDA_SUCCESS;
  ContextPtr current = current_context();
  return current != nullptr && current->destroyed ? CUDA_ERROR_NOT_FOUND : report_lost_kernel();
}

CUresult make_params(const Graph &graph, CUgraphNodeParams &from, ParamsPtr &out) {
  switch (static_cast<int>(from.type)) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    CUDA_KERNEL_NODE_PARAMS kernel;
    std::memcpy(&kernel, &from.kernel, sizeof kernel);
    return read_kernel(kernel, nullptr, out);
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    if (from.memcpy.flags != 0 || from.memcpy.reserved != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return read_memcpy(from.memcpy.copyParams, from.memcpy.copyCtx, out);
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return read_memset(from.memset, out);
  case CU_GRAPH_NODE_TYPE_HOST:
    return read_host(from.host, out);
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return read_child(graph, from.graph, out);
  case CU_GRAPH_NODE_TYPE_EMPTY:
    out = std::make_shared<const Params>();
    return CUDA_SUCCESS;
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return read_event(from.eventRecord.event, out);
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return read_event(from.eventWait.event, out);
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    static_assert(sizeof alloc == sizeof from.alloc);
    std::memcpy(&alloc, &from.alloc, sizeof alloc);
    CUresult result = read_alloc(graph, alloc, out);
    from.alloc.dptr = alloc.dptr;
    return result;
  }
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    return read_free(graph, from.free.dptr, out);
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return read_conditional(graph, from.conditional, out);
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
    return unsupported(Call::current().entry);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult add_any(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, const CUgraphEdgeData *data,
                 size_t count, CUgraphNodeParams *from) {
  GraphPtr graph;
  std::vector<Edge> before;
  ParamsPtr params;
  if (CUresult result = find_graph(handle, graph))
    return result;
  if (out == nullptr || from == nullptr || !is_clear(*from, size_of(from->type)))
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = read_dependencies(*graph, dependencies, data, count, from->type, before))
    return result;
  if (CUresult result = make_params(*graph, *from, params))
    return result;
  NodePtr node = add_node(*graph, from->type, std::move(params), before);
  if (from->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    fill_conditional(*node, from->conditional);
  *out = handle_of_node(*node);
  return CUDA_SUCCESS;
}

/* A node of one type, by the function for that. */
template <class Read>
CUresult add_one(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t count, CUgraphNodeType type,
                 Read read) {
  GraphPtr graph;
  std::vector<Edge> before;
  ParamsPtr params;
  if (CUresult result = find_graph(handle, graph))
    return result;
  if (out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = read_dependencies(*graph, dependencies, nullptr, count, type, before))
    return result;
  if (CUresult result = read(*graph, params))
    return result;
  *out = handle_of_node(*add_node(*graph, type, std::move(params), before));
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS with_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 &from) {
  CUDA_KERNEL_NODE_PARAMS out{};
  std::memcpy(&out, &from, sizeof from);
  return out;
}

CUDA_MEMSET_NODE_PARAMS_v2 with_context(const CUDA_MEMSET_NODE_PARAMS &from, CUcontext context) {
  return {from.dst, from.pitch, from.value, from.elementSize, from.width, from.height, context};
}

CUDA_HOST_NODE_PARAMS_v2 with_mode(const CUDA_HOST_NODE_PARAMS &from) {
  CUDA_HOST_NODE_PARAMS_v2 out{};
  out.fn = from.fn;
  out.userData = from.userData;
  return out;
}

/* A node that has parameters of a type. */
template <class T> CUresult find_of(CUgraphNode handle, CUgraphNodeType type, NodePtr &node, const T *&params) {
  if (CUresult result = find_node(handle, node))
    return result;
  if (node->type != type)
    return CUDA_ERROR_INVALID_VALUE;
  params = &as<T>(node->params);
  return CUDA_SUCCESS;
}

CUresult add_kernel(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                    const CUDA_KERNEL_NODE_PARAMS *from) {
  return add_one(out, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL, [&](const Graph &, ParamsPtr &params) {
    return from == nullptr ? CUDA_ERROR_INVALID_VALUE : read_kernel(*from, nullptr, params);
  });
}

CUresult set_kernel(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *from) {
  NodePtr node;
  const KernelParams *old = nullptr;
  ParamsPtr params;
  if (CUresult result = find_of(handle, CU_GRAPH_NODE_TYPE_KERNEL, node, old))
    return result;
  if (from == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = read_kernel(*from, old, params))
    return result;
  set_params(*node, std::move(params));
  return CUDA_SUCCESS;
}

CUresult get_event(CUgraphNode handle, CUgraphNodeType type, CUevent *out) {
  NodePtr node;
  const EventParams *params = nullptr;
  if (CUresult result = find_of(handle, type, node, params))
    return result;
  if (out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *out = params->handle;
  return CUDA_SUCCESS;
}

CUresult set_event(CUgraphNode handle, CUgraphNodeType type, CUevent event) {
  NodePtr node;
  const EventParams *old = nullptr;
  ParamsPtr params;
  if (CUresult result = find_of(handle, type, node, old))
    return result;
  if (CUresult result = read_event(event, params))
    return result;
  set_params(*node, std::move(params));
  return CUDA_SUCCESS;
}

CUresult set_any(CUgraphNode handle, const CUgraphNodeParams *from) {
  NodePtr node;
  ParamsPtr params;
  if (CUresult result = find_node(handle, node))
    return result;
  if (from == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (node->type == CU_GRAPH_NODE_TYPE_GRAPH && node->graph->has_memory_nodes)
    return CUDA_ERROR_NOT_SUPPORTED; /* as taking the node out is */
  if (CUresult result = read_params(*node, *from, params))
    return result;
  GraphPtr replaced = node->type == CU_GRAPH_NODE_TYPE_GRAPH ? as<ChildParams>(node->params).graph : nullptr;
  set_params(*node, std::move(params));
  if (replaced != nullptr)
    destroy_graph(replaced);
  return CUDA_SUCCESS;
}

void write_params(const GraphNode &node, CUgraphNodeParams &out) {
  out = {};
  out.type = node.type;
  switch (static_cast<int>(node.type)) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    CUDA_KERNEL_NODE_PARAMS kernel = write_kernel(as<KernelParams>(node.params));
    std::memcpy(&out.kernel, &kernel, sizeof kernel);
    break;
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    out.memcpy.copyParams = as<MemcpyParams>(node.params).fields;
    if (const ContextPtr &context = as<MemcpyParams>(node.params).context)
      out.memcpy.copyCtx = handle_of<CUcontext>(context->handle);
    break;
  case CU_GRAPH_NODE_TYPE_MEMSET:
    out.memset = as<MemsetParams>(node.params).fields;
    break;
  case CU_GRAPH_NODE_TYPE_HOST:
    out.host = as<HostParams>(node.params).fields;
    break;
  case CU_GRAPH_NODE_TYPE_GRAPH:
    out.graph = {handle_of_graph(*as<ChildParams>(node.params).graph), CU_GRAPH_CHILD_GRAPH_OWNERSHIP_INVALID};
    break;
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    out.eventRecord.event = as<EventParams>(node.params).handle;
    break;
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    out.eventWait.event = as<EventParams>(node.params).handle;
    break;
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    std::memcpy(&out.alloc, &as<AllocParams>(node.params).fields, sizeof out.alloc);
    break;
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    out.free.dptr = as<FreeParams>(node.params).address;
    break;
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    out.conditional = as<ConditionalParams>(node.params).fields;
    break;
  default:
    break;
  }
}

} // namespace

namespace api {

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependencyData, size_t numDependencies,
                           CUgraphNodeParams *nodeParams) {
  return add_any(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                        size_t numDependencies, CUgraphNodeParams *nodeParams) {
  return add_any(phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}

CUresult cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependencyData, size_t numDependencies,
                           CUgraphNodeParams *nodeParams) {
  return add_any(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) { return set_any(hNode, nodeParams); }

CUresult cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  return set_any(hNode, nodeParams);
}

CUresult cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  NodePtr node;
  if (CUresult result = find_node(hNode, node))
    return result;
  if (nodeParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = check_readable(*node))
    return result;
  write_params(*node, *nodeParams);
  return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                             size_t numDependencies) {
  return add_one(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_EMPTY,
                 [](const Graph &, ParamsPtr &params) {
                   params = std::make_shared<const Params>();
                   return CUDA_SUCCESS;
                 });
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                              size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  CUDA_KERNEL_NODE_PARAMS params = nodeParams != nullptr ? with_kernel(*nodeParams) : CUDA_KERNEL_NODE_PARAMS{};
  return add_kernel(phGraphNode, hGraph, dependencies, numDependencies, nodeParams != nullptr ? &params : nullptr);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return add_kernel(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  NodePtr node;
  const KernelParams *params = nullptr;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL, node, params))
    return result;
  if (nodeParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = check_readable(*node))
    return result;
  *nodeParams = write_kernel(*params);
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  CUDA_KERNEL_NODE_PARAMS params{};
  CUresult result = api::cuGraphKernelNodeGetParams_v2(hNode, nodeParams != nullptr ? &params : nullptr);
  if (result == CUDA_SUCCESS)
    std::memcpy(nodeParams, &params, sizeof *nodeParams);
  return result;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  CUDA_KERNEL_NODE_PARAMS params = nodeParams != nullptr ? with_kernel(*nodeParams) : CUDA_KERNEL_NODE_PARAMS{};
  return set_kernel(hNode, nodeParams != nullptr ? &params : nullptr);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return set_kernel(hNode, nodeParams);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                              size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
  return add_one(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMCPY,
                 [&](const Graph &, ParamsPtr &params) {
                   return copyParams == nullptr ? CUDA_ERROR_INVALID_VALUE : read_memcpy(*copyParams, ctx, params);
                 });
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams) {
  NodePtr node;
  const MemcpyParams *params = nullptr;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, node, params))
    return result;
  if (nodeParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *nodeParams = params->fields;
  return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) {
  NodePtr node;
  const MemcpyParams *old = nullptr;
  ParamsPtr params;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, node, old))
    return result;
  if (nodeParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  CUcontext context = old->context != nullptr ? handle_of<CUcontext>(old->context->handle) : nullptr;
  if (CUresult result = read_memcpy(*nodeParams, context, params))
    return result;
  set_params(*node, std::move(params));
  return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                              size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
  return add_one(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMSET,
                 [&](const Graph &, ParamsPtr &params) {
                   return memsetParams == nullptr ? CUDA_ERROR_INVALID_VALUE
                                                  : read_memset(with_context(*memsetParams, ctx), params);
                 });
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  NodePtr node;
  const MemsetParams *params = nullptr;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_MEMSET, node, params))
    return result;
  if (nodeParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(nodeParams, &params->fields, sizeof *nodeParams);
  return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  NodePtr node;
  const MemsetParams *old = nullptr;
  ParamsPtr params;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_MEMSET, node, old))
    return result;
  if (nodeParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = read_memset(with_context(*nodeParams, old->fields.ctx), params))
    return result;
  set_params(*node, std::move(params));
  return CUDA_SUCCESS;
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                            size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  return add_one(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_HOST,
                 [&](const Graph &, ParamsPtr &params) {
                   return nodeParams == nullptr ? CUDA_ERROR_INVALID_VALUE : read_host(with_mode(*nodeParams), params);
                 });
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams) {
  NodePtr node;
  const HostParams *params = nullptr;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_HOST, node, params))
    return result;
  if (nodeParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *nodeParams = {params->fields.fn, params->fields.userData};
  return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  NodePtr node;
  const HostParams *old = nullptr;
  ParamsPtr params;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_HOST, node, old))
    return result;
  if (nodeParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = read_host(with_mode(*nodeParams), params))
    return result;
  set_params(*node, std::move(params));
  return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, CUgraph childGraph) {
  return add_one(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_GRAPH,
                 [&](const Graph &graph, ParamsPtr &params) {
                   return read_child(graph, {childGraph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE}, params);
                 });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
  NodePtr node;
  const ChildParams *params = nullptr;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_GRAPH, node, params))
    return result;
  if (phGraph == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *phGraph = handle_of_graph(*params->graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                   size_t numDependencies, CUevent event) {
  return add_one(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                 [&](const Graph &, ParamsPtr &params) { return read_event(event, params); });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies, CUevent event) {
  return add_one(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                 [&](const Graph &, ParamsPtr &params) { return read_event(event, params); });
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  return get_event(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return set_event(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  return get_event(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return set_event(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
  return add_one(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                 [&](const Graph &graph, ParamsPtr &params) {
                   return nodeParams == nullptr ? CUDA_ERROR_INVALID_VALUE : read_alloc(graph, *nodeParams, params);
                 });
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
  NodePtr node;
  const AllocParams *params = nullptr;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, node, params))
    return result;
  if (params_out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *params_out = params->fields;
  return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               size_t numDependencies, CUdeviceptr dptr) {
  return add_one(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEM_FREE,
                 [&](const Graph &graph, ParamsPtr &params) { return read_free(graph, dptr, params); });
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out) {
  NodePtr node;
  const FreeParams *params = nullptr;
  if (CUresult result = find_of(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, node, params))
    return result;
  if (dptr_out == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *dptr_out = params->address;
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
