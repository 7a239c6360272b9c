/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of kernels. */
#include "sim/driver/code/launch.h"

#include "sim/control/report.h"
#include "sim/driver/device/green.h"
#include "sim/driver/base/host_budget.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>

namespace sim {
namespace {

using Request = LaunchRequest;

uint32_t multiprocessors_for(const Request &request, const Device &device) {
  int all = device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  return request.multiprocessors != 0 ? request.multiprocessors : static_cast<uint32_t>(all);
}

uint64_t product(const Dim3 &size) { return uint64_t{size[0]} * size[1] * size[2]; }

std::string text_of(const Dim3 &at) {
  return "(" + std::to_string(at[0]) + "," + std::to_string(at[1]) + "," + std::to_string(at[2]) + ")";
}

/* Returns the beginning of an explanation of why a kernel cannot be launched. */
std::string of(const KernelInfo &kernel) { return "kernel '" + kernel.name + "' cannot be launched so: "; }

CUresult check_cluster(const KernelInfo &kernel, const KernelSettings &settings, const Device &device,
                       Request &request) {
  auto size_of = [&](CUfunction_attribute axis) { return static_cast<uint32_t>(settings.get(axis, 0)); };
  Dim3 set{size_of(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), size_of(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
           size_of(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
  Dim3 required = kernel.required_cluster[0] != 0 ? kernel.required_cluster : set;
  if (required[0] != 0)
    for (uint32_t &size : required)
      size = std::max(size, 1u);
  if (request.cluster[0] == 0 && required[0] == 0 && kernel.explicit_cluster)
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, of(kernel) + "it is .explicitcluster, and the launch gives none");
  if (request.cluster[0] == 0)
    request.cluster = required[0] != 0 ? required : Dim3{1, 1, 1};
  else if (required[0] != 0 && required != request.cluster)
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, of(kernel) + "it has to have clusters of " + text_of(required) +
                                                       " blocks, and not " + text_of(request.cluster));
  uint64_t blocks = product(request.cluster);
  if (blocks == 0 || blocks > max_cluster_blocks(settings))
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, of(kernel) + "a cluster of " + text_of(request.cluster) +
                                                       " blocks, where it can have at most " +
                                                       std::to_string(max_cluster_blocks(settings)));
  if (blocks > 1 && device_attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device) == 0)
    return refuse(CUDA_ERROR_INVALID_VALUE, of(kernel) + "the device has no clusters");
  for (size_t i = 0; i < 3; i++)
    if (request.grid[i] % request.cluster[i] != 0)
      return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, of(kernel) + "a grid of " + text_of(request.grid) +
                                                         " blocks is no whole number of clusters of " +
                                                         text_of(request.cluster));
  return CUDA_SUCCESS;
}

CUresult code_of(FaultKind kind) {
  switch (kind) {
  case FaultKind::none:
    return CUDA_SUCCESS;
  case FaultKind::illegal_address:
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  case FaultKind::misaligned_address:
    return CUDA_ERROR_MISALIGNED_ADDRESS;
  case FaultKind::invalid_address_space:
    return CUDA_ERROR_INVALID_ADDRESS_SPACE;
  case FaultKind::illegal_instruction:
    return CUDA_ERROR_ILLEGAL_INSTRUCTION;
  case FaultKind::assertion:
    return CUDA_ERROR_ASSERT;
  case FaultKind::hang:
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  case FaultKind::tensor_memory_leak:
    return CUDA_ERROR_TENSOR_MEMORY_LEAK;
  case FaultKind::trap:
    break;
  case FaultKind::synchronization: /* such a fault does not stop the kernel */
  case FaultKind::unwritten:
  case FaultKind::freed:
  case FaultKind::race:
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

/* Returns, for example, "read of 4 bytes at 0x1000 in global memory". `explained`: also says what is at the address. */
std::string describe_access(const Fault &fault, bool explained) {
  std::string text = std::string(fault.is_write ? "write of " : "read of ") + std::to_string(fault.access_bytes) +
                     " bytes at " + hex(fault.address) + " in " + (fault.space.empty() ? "global" : fault.space) +
                     " memory";
  bool is_global = fault.space.empty() || fault.space == "global";
  return explained && is_global ? text + ", " + state().memory.explain(fault.address) : text;
}

/* Returns what has happened, without the fault's detail; empty if the detail says what has happened. */
std::string describe_event(const Fault &fault) {
  switch (fault.kind) {
  case FaultKind::illegal_address:
  case FaultKind::misaligned_address:
  case FaultKind::invalid_address_space: {
    if (fault.access_bytes == 0) /* an address passed to free(), or a stack overflow */
      return fault.address != 0 ? "illegal address " + hex(fault.address) : "";
    bool is_misaligned = fault.kind == FaultKind::misaligned_address;
    return (is_misaligned ? "misaligned " : "illegal ") +
           describe_access(fault, fault.kind == FaultKind::illegal_address);
  }
  case FaultKind::illegal_instruction:
    return "illegal instruction";
  case FaultKind::trap:
    return "trap";
  case FaultKind::hang:
    return "no progress";
  case FaultKind::tensor_memory_leak:
    return "tensor memory leak";
  case FaultKind::synchronization:
    return "undefined synchronization";
  case FaultKind::unwritten:
    return "uninitialized " + describe_access(fault, true);
  case FaultKind::freed:
    return describe_access(fault, true);
  case FaultKind::race:
    return "race: " + describe_access(fault, true);
  case FaultKind::assertion: /* the detail contains the whole message */
  case FaultKind::none:
    break;
  }
  return "";
}

std::string describe_fault(const Fault &fault) {
  std::string event = describe_event(fault);
  std::string text = "kernel '" + fault.kernel + "', block " + text_of(fault.block) + ", thread " +
                     text_of(fault.thread) + ": " + event;
  if (!fault.detail.empty())
    text += (event.empty() ? "" : ": ") + fault.detail;
  if (!fault.source_file.empty())
    text += " [" + fault.source_file + ":" + std::to_string(fault.source_line) + "]";
  if (fault.ptx_line != 0)
    text += " [PTX line " + std::to_string(fault.ptx_line) + "]";
  return text;
}

/* A kernel that runs. */
struct Running {
  const ContextPtr &context;
  HostMemoryWatch watch;
  std::string stopped; /* the reason of stop_kernels(); empty: it was not called */
};
std::vector<Running *> running; /* guarded by the state's lock */

/* Runs a kernel, on a worker, without the lock. */
void run_kernel(const ContextPtr &context, const std::shared_ptr<Placement> &placement, Launch &launch) {
  State &s = state();
  Running own{context, {}, {}};
  {
    std::lock_guard<std::mutex> guard(s.mutex);
    if (context->error != CUDA_SUCCESS)
      return; /* stop_kernels() was called meanwhile */
    running.push_back(&own);
    launch.memory = s.memory.map_for(*context);
    launch.samplers = samplers();
  }
  launch.instance = &placement->instance;
  launch.print = [&s, owner = context->home != nullptr ? context->home : context](const std::string &text,
                                                                                  bool is_error) {
    if (is_error) {
      std::fwrite(text.data(), 1, text.size(), stderr);
      return;
    }
    std::lock_guard<std::mutex> guard(s.mutex);
    owner->printed += text;
  };
  launch.abandoned = own.watch.flag();
  if (launch.checks.any())
    launch.found = [&s](const Fault &fault) {
      std::lock_guard<std::mutex> guard(s.mutex);
      report(describe_fault(fault));
    };
  if (launch.checks.order)
    launch.touched = [&s, unit = Executor::running()->ordered](const TouchedPtr &touched) {
      std::lock_guard<std::mutex> guard(s.mutex);
      record_accesses(unit, touched);
    };
  Fault fault = run(launch);
  launch.memory = nullptr;
  launch.samplers = nullptr;
  std::lock_guard<std::mutex> guard(s.mutex);
  running.erase(std::find(running.begin(), running.end(), &own));
  if (fault.kind == FaultKind::none && !own.watch.has_ended())
    return;
  if (fault.kind == FaultKind::none) {
    CUresult code = own.stopped.empty() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_LAUNCH_TIMEOUT;
    report_fault("kernel '" + info(*placement->instance.module).kernels[launch.kernel].name +
                     "' was stopped: " + (own.stopped.empty() ? host_exhausted_text() : own.stopped),
                 code);
    context->fail(code);
    return;
  }
  report_fault(describe_fault(fault), code_of(fault.kind));
  context->fail(code_of(fault.kind));
}

/* Adds an event for a launch to record. The event must not measure time, and not be shared with other processes. */
CUresult add_event(CUevent handle, int flags, unsigned char port, Request &request) {
  std::shared_ptr<Event> event;
  SIM_RETURN_FAILURE(find_object(state().events, Kind::event, handle, event));
  if (flags != CU_EVENT_RECORD_DEFAULT || (event->flags & CU_EVENT_INTERPROCESS) != 0 ||
      (event->flags & CU_EVENT_DISABLE_TIMING) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  request.events.emplace_back(std::move(event), port);
  return CUDA_SUCCESS;
}

} // namespace

void stop_kernels(const std::string &why) {
  for (Running *one : running) {
    one->stopped = why;
    one->watch.stop();
  }
  for (const ContextPtr &context : state().contexts.all()) {
    bool runs = std::any_of(running.begin(), running.end(), [&](Running *one) { return one->context == context; });
    if (runs || context->error != CUDA_SUCCESS || outstanding(*context).empty())
      continue; /* work behind a kernel that is stopped is skipped */
    report_fault("work that was about to run was stopped: " + why, CUDA_ERROR_LAUNCH_TIMEOUT);
    context->fail(CUDA_ERROR_LAUNCH_TIMEOUT);
  }
}

CUresult check_sizes(const Callable &what, const Device &device, LaunchRequest &request) {
  const KernelInfo &kernel = what.info();
  for (int i = 0; i < 3; i++) {
    auto limit = [&](CUdevice_attribute first) {
      return static_cast<uint32_t>(device_attribute(static_cast<CUdevice_attribute>(first + i), device));
    };
    size_t axis = static_cast<size_t>(i);
    if (request.grid[axis] == 0 || request.block[axis] == 0 ||
        request.grid[axis] > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
        request.block[axis] > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X))
      return refuse(CUDA_ERROR_INVALID_VALUE,
                    of(kernel) + "a grid of " + text_of(request.grid) + " and blocks of " + text_of(request.block) +
                        ", where a device has from 1 to " + std::to_string(limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)) +
                        " blocks and from 1 to " + std::to_string(limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)) +
                        " threads in dimension " + "xyz"[i]);
  }
  uint64_t threads = product(request.block);
  if (threads > static_cast<uint64_t>(max_threads_of(kernel, device)))
    return refuse(CUDA_ERROR_INVALID_VALUE, of(kernel) + "blocks of " + std::to_string(threads) +
                                                " threads, where it can have at most " +
                                                std::to_string(max_threads_of(kernel, device)));
  if (kernel.required_threads[0] != 0 &&
      request.block != Dim3{kernel.required_threads[0], std::max(kernel.required_threads[1], 1u),
                            std::max(kernel.required_threads[2], 1u)})
    return refuse(CUDA_ERROR_INVALID_VALUE, of(kernel) + "blocks of " + text_of(request.block) +
                                                " threads, where .reqntid is " + text_of(kernel.required_threads));
  if (request.dynamic_shared > static_cast<uint32_t>(max_dynamic_shared(kernel, *what.settings)))
    return refuse(CUDA_ERROR_INVALID_VALUE, of(kernel) + std::to_string(request.dynamic_shared) +
                                                " bytes of dynamic shared memory, where it may have " +
                                                std::to_string(max_dynamic_shared(kernel, *what.settings)) +
                                                " (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raises that)");
  SIM_RETURN_FAILURE(check_cluster(kernel, *what.settings, device, request));
  uint64_t multiprocessors = multiprocessors_for(request, device);
  if (request.cooperative) {
    int blocks = active_blocks(what, device, static_cast<int>(threads), request.dynamic_shared);
    if (product(request.grid) > static_cast<uint64_t>(blocks) * multiprocessors)
      return refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                    of(kernel) + "it is cooperative, and of its " + std::to_string(product(request.grid)) +
                        " blocks only " + std::to_string(static_cast<uint64_t>(blocks) * multiprocessors) +
                        " fit on the device at once");
  }
  return CUDA_SUCCESS;
}

CUresult read_arguments(const KernelInfo &kernel, void **parameters, void **extra, std::vector<std::byte> &out) {
  out.assign(kernel.parameter_bytes, std::byte{0});
  if (kernel.parameters.empty())
    return CUDA_SUCCESS;
  if (parameters != nullptr) {
    if (extra != nullptr)
      return refuse(CUDA_ERROR_INVALID_VALUE, of(kernel) + "it has arguments in kernelParams and in extra");
    for (size_t i = 0; i < kernel.parameters.size(); i++) {
      const Parameter &parameter = kernel.parameters[i];
      if (parameters[i] == nullptr)
        return refuse(CUDA_ERROR_INVALID_VALUE, of(kernel) + "there is no argument " + std::to_string(i + 1) + " of " +
                                                    std::to_string(kernel.parameters.size()));
      if (parameter.offset + parameter.size <= out.size())
        std::memcpy(out.data() + parameter.offset, parameters[i], parameter.size);
    }
    return CUDA_SUCCESS;
  }
  const void *block = nullptr;
  size_t size = 0;
  for (size_t i = 0; extra != nullptr && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      block = extra[i + 1];
    else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1] != nullptr)
      std::memcpy(&size, extra[i + 1], sizeof size);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (block == nullptr || size == 0)
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  of(kernel) + "it has " + std::to_string(kernel.parameters.size()) + " parameters, and no arguments");
  if (size > out.size())
    return refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, of(kernel) + std::to_string(size) +
                                                          " bytes of arguments, of which it has " +
                                                          std::to_string(out.size()));
  if (size < out.size())
    report("kernel '" + kernel.name + "' is launched with " + std::to_string(size) + " of the " +
           std::to_string(out.size()) + " bytes of its arguments");
  std::memcpy(out.data(), block, size);
  return CUDA_SUCCESS;
}

CUresult read_attribute(const CUlaunchAttribute &attribute, LaunchRequest &request) {
  const CUlaunchAttributeValue &value = attribute.value;
  switch (static_cast<int>(attribute.id)) {
  case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    request.cooperative = value.cooperative != 0;
    break;
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    request.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
    if (product(request.cluster) == 0 && request.cluster != Dim3{0, 0, 0})
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    break;
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    if (value.clusterSchedulingPolicyPreference < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT ||
        value.clusterSchedulingPolicyPreference > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
      return CUDA_ERROR_INVALID_VALUE;
    break;
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: /* only for streams */
    return CUDA_ERROR_INVALID_VALUE;
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    request.programmatic = value.programmaticStreamSerializationAllowed != 0;
    break;
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    request.priority = value.priority;
    break;
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    SIM_RETURN_FAILURE(add_event(value.programmaticEvent.event, value.programmaticEvent.flags,
                                 CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, request));
    break;
  case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    SIM_RETURN_FAILURE(add_event(value.launchCompletionEvent.event, value.launchCompletionEvent.flags,
                                 CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, request));
    break;
  default: /* hints that do not change results */
    if (attribute.id >= CU_LAUNCH_ATTRIBUTE_MAX)
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

namespace {

/* Tells the user how to get cubins that contain PTX. The advice depends on how this process was started. */
const char *advice_for_cubins() {
  if (dlopen("libcudacore_sim_preload.so", RTLD_LAZY | RTLD_NOLOAD) == nullptr)
    return "This process was not started by python -m cudacore_sim, which has NVRTC, nvJitLink, nvcc and ptxas put the "
           "PTX into their cubins. Start it so, or let cudacore compile the code";
  return "It was compiled by a process that python -m cudacore_sim did not start, as cubins in files and caches can be "
         "(Triton's cache is one), or by a compiler that it does not reach: one that is linked statically "
         "(libnvrtc_static, libnvptxcompiler_static), or one that makes no PTX. Compile it again";
}

} // namespace

CUresult check_code(const Callable &what) {
  if (what.image->module() != nullptr)
    return CUDA_SUCCESS;
  std::string begin = "kernel '" + what.info().name + "' is in a cubin, which cannot run here";
  if (what.image->lacks_ptx())
    report(begin + ": it does not carry the PTX that it was made from. " + advice_for_cubins() +
           ". Or load PTX in place of the cubin: by compile(\"ptx\") in cudacore, nvcc -ptx or nvrtcGetPTX");
  else
    report(begin + ", because " + what.image->log());
  return CUDA_ERROR_NOT_SUPPORTED;
}

std::string name_of(const Callable &what) { return "kernel '" + what.info().name + "'"; }

void describe_launch(Traced &out, const Callable &what, const LaunchRequest &request) {
  const std::string &symbol = what.info().name;
  int status = 0;
  char *name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  out.name = status == 0 ? name : symbol;
  std::free(name);
  out.details = "\"grid\": " + quoted(text_of(request.grid)) + ", \"block\": " + quoted(text_of(request.block)) +
                ", \"dynamic shared memory\": " + std::to_string(request.dynamic_shared);
}

CUresult kernel_work(const Callable &what, const LaunchRequest &request, const std::vector<std::byte> &arguments,
                     std::function<void()> &out) {
  ContextPtr context = what.context;
  std::shared_ptr<Placement> placement;
  SIM_RETURN_FAILURE(place(context, what.image, placement));
  auto launch = std::make_shared<Launch>();
  launch->parameters = arguments;
  launch->kernel = what.index;
  launch->grid = request.grid;
  launch->block = request.block;
  launch->cluster = request.cluster;
  launch->dynamic_shared_bytes = request.dynamic_shared;
  launch->shared_reserved = reserved_shared(*context->device);
  launch->shared_unit = shared_unit(*context->device);
  launch->cooperative = request.cooperative;
  launch->multiprocessors = multiprocessors_for(request, *context->device);
  launch->grid_id = state().next_grid_id++;
  launch->printf_limit = context->limits.printf_fifo;
  launch->heap = context->heap;
  launch->heap_bytes = context->limits.malloc_heap;
  launch->set_condition = set_condition;
  launch->instruction_limit = config().instruction_limit;
  launch->fill = std::byte{config().fill};
  launch->checks = config().checks;
  out = [context, placement, launch] { run_kernel(context, placement, *launch); };
  return CUDA_SUCCESS;
}

} // namespace sim
