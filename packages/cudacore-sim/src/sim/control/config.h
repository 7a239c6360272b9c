/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CONTROL_CONFIG_H
#define CUDACORE_SIM_CONTROL_CONFIG_H

#include "sim/engine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sim {

/* The configuration, which is read from the environment when the library is loaded. */
struct Config {
  int devices = 1;                          /* CUDACORE_SIM_DEVICES: 0 to 64 */
  uint64_t memory = 150109880320;           /* CUDACORE_SIM_MEMORY: bytes of each device; K, M, G, T are units */
  uint64_t host_memory = 0;                 /* CUDACORE_SIM_HOST_MEMORY: limit of all device memory; 0: no limit */
  int compute_major = 9, compute_minor = 0; /* CUDACORE_SIM_COMPUTE_CAPABILITY: "9.0" */
  int driver_version = 13000;               /* CUDACORE_SIM_DRIVER_VERSION: "13000" or "13.0" */
  bool any_ptx = true;                      /* true if no driver version was configured: then PTX may be newer */
  std::string name;                         /* CUDACORE_SIM_NAME; the default depends on the compute capability */
  std::optional<uint64_t> shuffle;          /* CUDACORE_SIM_SHUFFLE: the seed of a random order of work */
  std::string log;                          /* CUDACORE_SIM_LOG: a file to log calls to; "-" is stderr */
  std::string trace;                        /* CUDACORE_SIM_TRACE: a file for a trace; "%p": the process ID */
  bool leaks = false;                       /* CUDACORE_SIM_LEAKS=1: report live objects at exit */
  bool reports = true;                      /* CUDACORE_SIM_REPORTS=0: print no reports on stderr */
  bool reuse_handles = false;               /* CUDACORE_SIM_REUSE=1: a new object gets the handle freed last */
  uint64_t instruction_limit = 0;           /* CUDACORE_SIM_INSTRUCTION_LIMIT: per GPU thread; 0: no limit */
  uint8_t fill = 0;                         /* CUDACORE_SIM_FILL: initial value of device and shared memory */
  Checks checks;                            /* CUDACORE_SIM_CHECK: some or all of "race,sync,init,order" */
  std::vector<std::string> ignored;         /* invalid settings, each with the values that are allowed */
};

const Config &config();

} // namespace sim

#endif
