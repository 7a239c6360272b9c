/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_NVML_ABI_H
#define CUDACORE_SIM_NVML_ABI_H

/*
 * The part of NVML's binary interface that is simulated. The wheel is built without nvml.h, because the required
 * packages of CUDA headers do not contain it; tests/nvml compares sizes and numbers with cuda.bindings.
 */

#include <cstdint>

namespace sim {

enum NvmlReturn {
  nvml_success = 0,
  nvml_uninitialized = 1,
  nvml_invalid_argument = 2,
  nvml_not_supported = 3,
  nvml_not_found = 6,
  nvml_insufficient_size = 7,
  nvml_driver_not_loaded = 9,
  nvml_argument_version_mismatch = 25,
};

using NvmlDevice = const struct NvmlDeviceHandle *;

constexpr unsigned nvml_not_available = 0xFFFFFFFF; /* for a value that does not exist, such as a MIG instance */
constexpr unsigned nvml_brand_nvidia = 14;

struct NvmlMemory {
  uint64_t total, free, used;
};

struct NvmlMemoryV2 {
  unsigned version;
  uint64_t total, reserved, free, used;
};

struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

struct NvmlPciInfoExt {
  unsigned version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
  char bus_id[32];
};

struct NvmlProcessInfo {
  unsigned pid;
  uint64_t used;
  unsigned gpu_instance, compute_instance;
};

struct NvmlDriverBranch {
  unsigned version;
  char branch[80];
};

/* The value that a caller writes into `version`. */
template <class T> constexpr unsigned nvml_version(unsigned number) {
  return static_cast<unsigned>(sizeof(T)) | number << 24;
}

} // namespace sim

#endif
