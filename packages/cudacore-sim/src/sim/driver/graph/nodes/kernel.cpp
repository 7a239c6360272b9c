/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel nodes. */
#include "sim/driver/graph/nodes/kernel.h"

namespace sim {
namespace {

constexpr CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;

CUresult find_callable_of(const CUDA_KERNEL_NODE_PARAMS &from, Callable &out) {
  if (from.func != nullptr)
    return find_function(from.func, out);
  if (from.kern == nullptr || !state().kernels.bears(value_of(from.kern)))
    return CUDA_ERROR_INVALID_HANDLE;
  ContextPtr context;
  SIM_RETURN_FAILURE(from.ctx != nullptr ? find_context(from.ctx, context) : need_context(context));
  return find_callable(reinterpret_cast<CUfunction>(from.kern), context, out);
}

/*
 * The context of a node: the green context that is given with a CUkernel, or is current, if the kernel is of its
 * primary context.
 */
ContextPtr find_owner(const CUDA_KERNEL_NODE_PARAMS &from, const ContextPtr &home) {
  bool is_given = from.ctx != nullptr && from.func == nullptr;
  ContextPtr owner = is_given ? state().contexts.find(value_of(from.ctx)) : current_context();
  return home_of(owner) == home ? owner : home;
}

/* Sets the handles that cuGraphKernelNodeGetParams returns: the function, and its kernel if it has one. */
void set_handles(KernelParams &params, uint64_t handle) {
  std::shared_ptr<Kernel> kernel = state().kernels.find(handle);
  if (const std::shared_ptr<Function> function = state().functions.find(handle)) {
    params.function = handle_of<CUfunction>(handle);
    kernel = function->kernel.lock();
  } else if (kernel != nullptr) {
    function_of(kernel, params.what.context, &params.function);
  }
  params.kernel = kernel != nullptr ? handle_of<CUkernel>(kernel->handle) : nullptr;
}

/* Arguments are read back in the form in which they were passed: as pointers, or as one block. */
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

CUresult read_with(const CUDA_KERNEL_NODE_PARAMS &from, KernelAttributes attributes, ParamsPtr &out) {
  Callable what;
  std::vector<std::byte> arguments;
  SIM_RETURN_FAILURE(find_callable_of(from, what));
  SIM_RETURN_FAILURE(read_arguments(what.info(), from.kernelParams, from.extra, arguments));
  LaunchRequest request;
  request.grid = {from.gridDimX, from.gridDimY, from.gridDimZ};
  request.block = {from.blockDimX, from.blockDimY, from.blockDimZ};
  request.dynamic_shared = from.sharedMemBytes;
  bool as_block = from.kernelParams == nullptr && from.extra != nullptr;
  uint64_t handle = from.func != nullptr ? value_of(from.func) : value_of(from.kern);
  ContextPtr owner = find_owner(from, what.context);
  ParamsPtr made = make_kernel(handle, what, owner, request, std::move(arguments), as_block, std::move(attributes));
  SIM_RETURN_FAILURE(as<KernelParams>(made).check(request));
  out = std::move(made);
  return CUDA_SUCCESS;
}

/* Returns a function that reads the parameters `from`. An existing node keeps its attributes. */
auto reader(const CUDA_KERNEL_NODE_PARAMS *from) {
  return [from](const Graph *, const Params *old, ParamsPtr &out) {
    if (from == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return read_with(*from, old != nullptr ? as<KernelParams>(*old).attributes : KernelAttributes{}, out);
  };
}

/* Reads the structure of CUDA 11, which has fewer members. */
auto reader(const CUDA_KERNEL_NODE_PARAMS_v1 *from) {
  CUDA_KERNEL_NODE_PARAMS fields{};
  if (from != nullptr)
    std::memcpy(&fields, from, sizeof *from);
  return [fields, is_given = from != nullptr](const Graph *into, const Params *old, ParamsPtr &out) {
    return reader(is_given ? &fields : nullptr)(into, old, out);
  };
}

CUlaunchAttributeValue attribute_of(const KernelParams &params, CUlaunchAttributeID attribute) {
  auto found = params.attributes.find(attribute);
  return found != params.attributes.end() ? found->second : CUlaunchAttributeValue{};
}

const RegisterNodeType registered([] {
  NodeType row{};
  row.type = type;
  row.bytes = sizeof(CUDA_KERNEL_NODE_PARAMS_v3);
  row.read = [](const Graph *into, const Params *old, CUgraphNodeParams &from, ParamsPtr &out) {
    CUDA_KERNEL_NODE_PARAMS fields;
    static_assert(sizeof fields == sizeof from.kernel);
    std::memcpy(&fields, &from.kernel, sizeof fields);
    return reader(&fields)(into, old, out);
  };
  row.can_be_disabled = row.may_be_in_body = row.may_be_launched_by_device = true;
  return row;
}());

} // namespace

ParamsPtr make_kernel(uint64_t handle, const Callable &what, const ContextPtr &owner, const LaunchRequest &request,
                      std::vector<std::byte> arguments, bool as_block, KernelAttributes attributes) {
  /* From here on, the object must not move, because it has pointers to its own arguments. */
  auto params = std::make_shared<KernelParams>();
  params->what = what;
  params->owner = owner;
  params->request.grid = request.grid;
  params->request.block = request.block;
  params->request.dynamic_shared = request.dynamic_shared;
  params->arguments = std::move(arguments);
  params->attributes = std::move(attributes);
  set_handles(*params, handle);
  point_to_arguments(*params, as_block);
  return params;
}

CUresult replace_attributes(const KernelParams &old, KernelAttributes attributes, ParamsPtr &out) {
  KernelParams changed = old;
  LaunchRequest ignored;
  changed.attributes = attributes;
  SIM_RETURN_FAILURE(changed.check(ignored));
  CUDA_KERNEL_NODE_PARAMS same = old.fields();
  if (same.kern != nullptr)
    same.func = nullptr; /* so that the context of `same` counts */
  return read_with(same, std::move(attributes), out);
}

CUresult KernelParams::check(LaunchRequest &out) const {
  out = request;
  for (const auto &[id, value] : attributes) {
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
      continue; /* a node, unlike a launch, can have any value of this attribute */
    CUlaunchAttribute attribute{};
    attribute.id = id;
    attribute.value = value;
    SIM_RETURN_FAILURE(read_attribute(attribute, out));
  }
  SIM_RETURN_FAILURE(usable(what.context));
  return check_sizes(what, *what.context->device, out);
}

CUresult KernelParams::check_instance() const {
  LaunchRequest ignored;
  CUresult result = check_code(what);
  return result == CUDA_SUCCESS ? check(ignored) : result;
}

CUresult KernelParams::check_launch() const {
  LaunchRequest ignored;
  return check(ignored);
}

CUgraphExecUpdateResult KernelParams::check_change(const GraphExec &exec, const ExecNode &, const Params &other) const {
  const KernelParams &now = as<KernelParams>(other);
  if (owner != now.owner)
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  bool was_cooperative = attribute_of(*this, CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative != 0;
  bool is_cooperative = attribute_of(now, CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative != 0;
  bool has_other_priority = attribute_of(*this, CU_LAUNCH_ATTRIBUTE_PRIORITY).priority !=
                            attribute_of(now, CU_LAUNCH_ATTRIBUTE_PRIORITY).priority;
  bool counts = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0;
  return was_cooperative != is_cooperative || (counts && has_other_priority)
             ? CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED
             : CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS KernelParams::fields() const {
  CUDA_KERNEL_NODE_PARAMS out{};
  out.func = function;
  out.kern = kernel;
  out.ctx = handle_of<CUcontext>(owner->handle);
  out.gridDimX = request.grid[0];
  out.gridDimY = request.grid[1];
  out.gridDimZ = request.grid[2];
  out.blockDimX = request.block[0];
  out.blockDimY = request.block[1];
  out.blockDimZ = request.block[2];
  out.sharedMemBytes = request.dynamic_shared;
  out.kernelParams = pointers.empty() ? nullptr : const_cast<void **>(pointers.data());
  out.extra = extra.empty() ? nullptr : const_cast<void **>(extra.data());
  return out;
}

void KernelParams::write(CUgraphNodeParams &out) const {
  CUDA_KERNEL_NODE_PARAMS from = fields();
  std::memcpy(&out.kernel, &from, sizeof from);
}

CUresult KernelParams::submit(const LaunchPtr &launch, const ExecNode &, std::vector<UnitPtr> before,
                              UnitPtr &out) const {
  LaunchRequest complete;
  std::function<void()> work;
  SIM_RETURN_FAILURE(check(complete));
  SIM_RETURN_FAILURE(kernel_work(what, complete, arguments, work));
  out = new_unit("kernel of a graph", what.context, std::move(work));
  if (out->traced != nullptr)
    describe_launch(*out->traced, what, complete);
  if (out->ordered != nullptr)
    out->ordered->what = name_of(what);
  submit_unit(launch, out, before);
  if (launch->by_node)
    out->priority = std::clamp(complete.priority.value_or(0), greatest_priority, least_priority);
  return CUDA_SUCCESS;
}

std::string KernelParams::describe(const DotNode &node) const {
  const std::string &name = what.info().name;
  if (!node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
    return "[style=\"bold\" shape=\"octagon\" label=\"" + node.identity() + "\n" + name + "\n" + node.handle_line() +
           "\"]";
  auto triple = [](const Dim3 &of) {
    std::string text = dot_number(of[0]);
    if (of[1] != 1 || of[2] != 1)
      text = "\\{" + text + "," + dot_number(of[1]) + (of[2] != 1 ? "," + dot_number(of[2]) : "") + "\\}";
    return text;
  };
  std::string text = "[style=\"bold\" shape=\"record\" label=\"{KERNEL\n| {ID | " + node.identity() + " | " + name +
                     "\\<\\<\\<" + triple(request.grid) + "," + triple(request.block) + "," +
                     dot_number(request.dynamic_shared) + "\\>\\>\\>}\n";
  if (node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
    text += "| {{node handle | func handle} | {" + dot_address(node.handle()) + " | " + dot_address(function) + "}}\n";
  if (node.wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES)) {
    CUaccessPolicyWindow window = attribute_of(*this, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW).accessPolicyWindow;
    text += "| {accessPolicyWindow | {base_ptr | num_bytes | hitRatio | hitProp | missProp} | {" +
            dot_address(window.base_ptr) + " | " + dot_number(window.num_bytes) + " | " +
            std::to_string(static_cast<double>(window.hitRatio)) + " | N | N}}\n| {cooperative | " +
            std::to_string(attribute_of(*this, CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative) + "}\n| {priority | " +
            std::to_string(attribute_of(*this, CU_LAUNCH_ATTRIBUTE_PRIORITY).priority) + "}\n";
  }
  return text + "}\"]";
}

namespace api {

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                              size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  return add_one(type, phGraphNode, hGraph, dependencies, numDependencies, reader(nodeParams));
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return add_one(type, phGraphNode, hGraph, dependencies, numDependencies, reader(nodeParams));
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  return get_one<KernelParams>(type, hNode, nodeParams, [](const KernelParams &params, auto &out) {
    CUDA_KERNEL_NODE_PARAMS fields = params.fields();
    std::memcpy(&out, &fields, sizeof out);
  });
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return get_one<KernelParams>(type, hNode, nodeParams,
                               [](const KernelParams &params, auto &out) { out = params.fields(); });
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  return set_one(type, hNode, reader(nodeParams));
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return set_one(type, hNode, reader(nodeParams));
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  return set_in_exec(type, hGraphExec, hNode, reader(nodeParams));
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return set_in_exec(type, hGraphExec, hNode, reader(nodeParams));
}

} // namespace api
} // namespace sim
