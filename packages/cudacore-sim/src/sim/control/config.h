/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CONTROL_CONFIG_H
#define CUDACORE_SIM_CONTROL_CONFIG_H

#include "sim/engine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sim {

/* What the environment asks for, read once when the library is loaded. */
struct Config {
  int devices = 1;                          /* CUDACORE_SIM_DEVICES, 0 to 64 */
  uint64_t memory = 150109880320;           /* CUDACORE_SIM_MEMORY: bytes a device, or with K, M, G, T */
  uint64_t host_memory = 0;                 /* CUDACORE_SIM_HOST_MEMORY: that devices may touch; 0: what there is */
  int compute_major = 9, compute_minor = 0; /* CUDACORE_SIM_COMPUTE_CAPABILITY: "9.0" */
  int driver_version = 13000;               /* CUDACORE_SIM_DRIVER_VERSION: "13000" or "13.0" */
  bool any_ptx = true;                      /* no version was asked for: PTX may be newer than that driver's */
  std::string name;                         /* CUDACORE_SIM_NAME; default: by compute capability */
  std::optional<uint64_t> shuffle;          /* CUDACORE_SIM_SHUFFLE: seed */
  std::string log;                          /* CUDACORE_SIM_LOG: a file that every call is written to, "-" is stderr */
  std::string trace;                        /* CUDACORE_SIM_TRACE: a file for what ran when; %p is the process */
  bool leaks = false;                       /* CUDACORE_SIM_LEAKS=1: report what is alive at exit */
  bool reports = true;                      /* CUDACORE_SIM_REPORTS=0: nothing on stderr */
  bool reuse_handles = false;               /* CUDACORE_SIM_REUSE=1: hand out the handle that was freed last */
  uint64_t instruction_limit = 0;           /* CUDACORE_SIM_INSTRUCTION_LIMIT: a thread's; 0 is none */
  uint8_t fill = 0;                         /* CUDACORE_SIM_FILL: what new memory of devices and blocks is full of */
  Checks checks;                            /* CUDACORE_SIM_CHECK: "race,sync,init,order", or some of them */
  std::vector<std::string> ignored;         /* settings of no use, each with what was wanted */
};

const Config &config();

} // namespace sim

#endif
