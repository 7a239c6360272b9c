/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_CODE_LAUNCH_H
#define CUDACORE_SIM_DRIVER_CODE_LAUNCH_H

#include "sim/driver/code/code.h"

#include <optional>

namespace sim {

/* The parameters of a launch. */
struct LaunchRequest {
  Dim3 grid, block, cluster{0, 0, 0};
  uint32_t dynamic_shared = 0;
  bool cooperative = false, programmatic = false;
  uint32_t multiprocessors = 0; /* how many multiprocessors the launch may use; 0: all of the device */
  std::optional<int> priority;  /* a priority that replaces the priority of the stream */
  /* Events to record when the kernel is done. In a capture, each event represents a port of the node. */
  std::vector<std::pair<std::shared_ptr<Event>, unsigned char>> events;
  std::vector<CUlaunchAttribute> attributes; /* as the caller gave them */
};

/* Copies the arguments to a block. The caller gives a pointer to each argument, or a block of its own. */
CUresult read_arguments(const KernelInfo &kernel, void **parameters, void **extra, std::vector<std::byte> &out);

/* Checks the sizes of a launch, and fills in the cluster that the kernel requires. */
CUresult check_sizes(const Callable &what, const Device &device, LaunchRequest &request);

/* Checks that there is code that the simulator can run. */
CUresult check_code(const Callable &what);

/* Applies an attribute to a request. Attributes with events are only for launches, not for nodes. */
CUresult read_attribute(const CUlaunchAttribute &attribute, LaunchRequest &request);

/* The work of a launch that was checked. */
CUresult kernel_work(const Callable &what, const LaunchRequest &request, const std::vector<std::byte> &arguments,
                     std::function<void()> &out);

/*
 * Ends the kernels that run now, and makes their contexts and those of other queued work fail. This is reported with
 * the reason. Called with the state's lock.
 */
void stop_kernels(const std::string &why);

/* For the trace. */
std::string name_of(const Callable &what); /* the name for reports */
void describe_launch(Traced &out, const Callable &what, const LaunchRequest &request);

} // namespace sim

#endif
