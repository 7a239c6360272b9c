/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_CODE_LAUNCH_H
#define CUDACORE_SIM_DRIVER_CODE_LAUNCH_H

#include "sim/driver/code/code.h"

#include <optional>

namespace sim {

/* How a kernel is to run. */
struct LaunchRequest {
  Dim3 grid, block, cluster{0, 0, 0};
  uint32_t dynamic_shared = 0;
  bool cooperative = false, programmatic = false;
  uint32_t multiprocessors = 0; /* that it may run on; 0: all of the device */
  std::optional<int> priority;  /* in place of the stream's */
  /* To be recorded when the kernel is done; in a capture, when it comes to a port. */
  std::vector<std::pair<std::shared_ptr<Event>, unsigned char>> events;
  std::vector<CUlaunchAttribute> attributes; /* as they were given */
};

/* The arguments as the kernel finds them: from pointers to each, or from a block that the caller made. */
CUresult read_arguments(const KernelInfo &kernel, void **parameters, void **extra, std::vector<std::byte> &out);

/* Whether the kernel can run so; fills in the cluster that it has to have. */
CUresult check_sizes(const Callable &what, const Device &device, LaunchRequest &request);

/* Whether there is code that can run here. */
CUresult check_code(const Callable &what);

/* Takes what an attribute of a launch says; of events only in a launch. */
CUresult read_attribute(const CUlaunchAttribute &attribute, LaunchRequest &request);

/* The work of a launch that was checked. */
CUresult kernel_work(const Callable &what, const LaunchRequest &request, const std::vector<std::byte> &arguments,
                     std::function<void()> &out);

/* For the trace. */
std::string name_of(const Callable &what); /* for reports */
void describe_launch(Traced &out, const Callable &what, const LaunchRequest &request);

} // namespace sim

#endif
