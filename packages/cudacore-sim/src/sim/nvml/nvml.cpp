/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnvidia-ml.so.1 for the simulated devices, so that programs that need NVML to start can run. The library reports
 * the properties that the simulated driver has: names, UUIDs, memory, PCI ids, and this process. Everything else is not
 * supported.
 */
#include "sim/nvml/abi.h"
#include "cudacore_sim.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <unistd.h>

namespace sim {

struct NvmlDeviceHandle {};

namespace {

/* The values of an H200, the default model of simulated devices. */
constexpr unsigned pci_device_id = 0x233510DE, pci_subsystem_id = 0x18BE10DE;
constexpr unsigned pci_base_class = 3, pci_sub_class = 2; /* the PCI class of a 3D controller */

constexpr int max_devices = 64;
const NvmlDeviceHandle handles[max_devices] = {};
/* For each handle, whether a call has returned it since NVML was initialised. Other handles are invalid. */
std::atomic<bool> given[max_devices] = {};

struct Uses {
  std::mutex mutex;
  unsigned count = 0; /* calls of nvmlInit minus calls of nvmlShutdown */
};

Uses &uses() {
  static Uses *const instance = new Uses; /* never destroyed: threads outlive exit() */
  return *instance;
}

NvmlReturn need_init() {
  std::lock_guard<std::mutex> guard(uses().mutex);
  return uses().count > 0 ? nvml_success : nvml_uninitialized;
}

NvmlReturn not_supported() {
  NvmlReturn result = need_init();
  return result != nvml_success ? result : nvml_not_supported;
}

NvmlReturn initialise() {
  std::lock_guard<std::mutex> guard(uses().mutex);
  uses().count++;
  return nvml_success;
}

int count_devices() {
  cudasim_device device;
  int count = 0;
  while (count < max_devices && cudasim_describe_device(count, &device) == 0)
    count++;
  return count;
}

/* Finds the device of a handle, and returns tell(device, number). */
template <class Tell> NvmlReturn with_device(NvmlDevice handle, Tell tell) {
  if (NvmlReturn result = need_init())
    return result;
  cudasim_device device;
  for (int i = 0; i < max_devices; i++)
    if (handle == &handles[i] && given[i] && cudasim_describe_device(i, &device) == 0)
      return tell(device, i);
  return nvml_invalid_argument;
}

NvmlReturn give(int number, NvmlDevice *out) {
  given[number] = true;
  *out = &handles[number];
  return nvml_success;
}

/* Finds the handle of the first device that `is_it` accepts. */
template <class Accept> NvmlReturn find_handle(NvmlDevice *out, const void *wanted, Accept is_it) {
  if (NvmlReturn result = need_init())
    return result;
  if (out == nullptr || wanted == nullptr)
    return nvml_invalid_argument;
  cudasim_device device;
  for (int i = 0; i < count_devices(); i++)
    if (cudasim_describe_device(i, &device) == 0 && is_it(device))
      return give(i, out);
  return nvml_not_found;
}

NvmlReturn copy_text(const std::string &text, char *out, unsigned length) {
  if (out == nullptr)
    return nvml_invalid_argument;
  if (text.size() >= length)
    return nvml_insufficient_size;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return nvml_success;
}

template <class T> NvmlReturn copy_value(T value, T *out) {
  if (out == nullptr)
    return nvml_invalid_argument;
  *out = value;
  return nvml_success;
}

template <class T> NvmlReturn copy_pair(T first, T *first_out, T second, T *second_out) {
  if (NvmlReturn result = copy_value(first, first_out))
    return result;
  return copy_value(second, second_out);
}

/* Whether a structure of the caller has the version that is simulated. */
template <class T> NvmlReturn check_version(const T *out, unsigned number) {
  if (out == nullptr)
    return nvml_invalid_argument;
  return out->version == nvml_version<T>(number) ? nvml_success : nvml_argument_version_mismatch;
}

/* The first driver branch, such as 580, that supports the CUDA version of the simulated driver. */
int driver_branch() {
  static constexpr struct {
    int cuda, branch;
  } branches[] = {{11030, 465}, {11040, 470}, {11050, 495}, {11060, 510}, {11070, 515}, {11080, 520}, {12000, 525},
                  {12010, 530}, {12020, 535}, {12030, 545}, {12040, 550}, {12050, 555}, {12060, 560}, {12070, 565},
                  {12080, 570}, {12090, 575}, {13000, 580}, {13010, 590}, {13020, 595}};
  int branch = branches[0].branch;
  for (const auto &each : branches)
    if (each.cuda <= cudasim_driver_version())
      branch = each.branch;
  return branch;
}

std::string driver_version() { return std::to_string(driver_branch()) + ".00"; }

/* The number that NVML gives the architecture of a device (nvmlDeviceArchitecture_t). */
unsigned architecture_of(const cudasim_device &device) {
  static constexpr struct {
    int capability;
    unsigned architecture;
  } architectures[] = {{50, 3}, {60, 4}, {70, 5}, {75, 6}, {80, 7}, {89, 8}, {90, 9}, {100, 10}};
  unsigned found = nvml_not_available;
  for (const auto &each : architectures)
    if (each.capability <= device.major * 10 + device.minor)
      found = each.architecture;
  return found;
}

void write_bus_id(const cudasim_device &device, char (&out)[32]) {
  std::snprintf(out, sizeof out, "00000000:%02X:00.0", device.pci_bus);
}

/* The processes on a device: this one, if it has a context there. Other processes have their own simulated memory. */
NvmlReturn list_processes(NvmlDevice handle, unsigned *count, NvmlProcessInfo *out) {
  return with_device(handle, [&](const cudasim_device &device, int) {
    if (count == nullptr || (*count > 0 && out == nullptr))
      return nvml_invalid_argument;
    const unsigned capacity = *count;
    *count = device.has_context;
    if (capacity < *count)
      return nvml_insufficient_size;
    if (*count > 0)
      *out = {static_cast<unsigned>(getpid()), device.used, nvml_not_available, nvml_not_available};
    return nvml_success;
  });
}

/* Returns the count 0, for graphics processes and MIG devices: a simulated device has none. */
NvmlReturn count_nothing(NvmlDevice handle, unsigned *count) {
  return with_device(handle, [&](const cudasim_device &, int) { return copy_value(0U, count); });
}

NvmlReturn by_index(unsigned index, NvmlDevice *out) {
  if (NvmlReturn result = need_init())
    return result;
  if (out == nullptr || index >= static_cast<unsigned>(count_devices()))
    return nvml_invalid_argument;
  return give(static_cast<int>(index), out);
}

NvmlReturn by_bus_id(const char *text, NvmlDevice *out) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (text != nullptr && std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
    domain = 0;
    if (std::sscanf(text, "%x:%x.%x", &bus, &slot, &function) < 2)
      text = nullptr;
  }
  return find_handle(out, text, [&](const cudasim_device &device) {
    return domain == 0 && slot == 0 && function == 0 && bus == device.pci_bus;
  });
}

NvmlReturn device_count(unsigned *out) {
  if (NvmlReturn result = need_init())
    return result;
  return copy_value(static_cast<unsigned>(count_devices()), out);
}

} // namespace
} // namespace sim

using namespace sim;

#define SIM_NVML extern "C" __attribute__((visibility("default")))

#define SIM_NVML_NOT_SUPPORTED(name)                                                                                   \
  SIM_NVML NvmlReturn name(void);                                                                                      \
  NvmlReturn name(void) { return not_supported(); }
#include "sim/nvml/not_supported.inc"
#undef SIM_NVML_NOT_SUPPORTED

#define SIM_NVML_FUNCTION(name, ...)                                                                                   \
  SIM_NVML NvmlReturn name(__VA_ARGS__);                                                                               \
  NvmlReturn name(__VA_ARGS__)

SIM_NVML_FUNCTION(nvmlInit, void) { return initialise(); }
SIM_NVML_FUNCTION(nvmlInit_v2, void) { return initialise(); }
SIM_NVML_FUNCTION(nvmlInitWithFlags, unsigned) { return initialise(); }

SIM_NVML_FUNCTION(nvmlShutdown, void) {
  std::lock_guard<std::mutex> guard(uses().mutex);
  if (uses().count == 0)
    return nvml_uninitialized;
  if (--uses().count == 0)
    for (auto &one : given)
      one = false;
  return nvml_success;
}

SIM_NVML const char *nvmlErrorString(NvmlReturn result);
const char *nvmlErrorString(NvmlReturn result) {
  switch (result) {
  case nvml_success:
    return "The operation was successful";
  case nvml_uninitialized:
    return "NVML was not first initialized with nvmlInit()";
  case nvml_invalid_argument:
    return "A supplied argument is invalid";
  case nvml_not_supported:
    return "The requested operation is not available on a simulated device";
  case nvml_not_found:
    return "A query to find an object was unsuccessful";
  case nvml_insufficient_size:
    return "An input argument is not large enough";
  case nvml_driver_not_loaded:
    return "The driver is not loaded";
  case nvml_argument_version_mismatch:
    return "The provided version is invalid or unsupported";
  }
  return "An error that the simulated NVML does not return";
}

SIM_NVML_FUNCTION(nvmlSystemGetDriverVersion, char *version, unsigned length) {
  if (NvmlReturn result = need_init())
    return result;
  return copy_text(driver_version(), version, length);
}

SIM_NVML_FUNCTION(nvmlSystemGetNVMLVersion, char *version, unsigned length) {
  /* This function works even if NVML is not initialised. */
  return copy_text(std::to_string(cudasim_driver_version() / 1000) + "." + driver_version(), version, length);
}

SIM_NVML_FUNCTION(nvmlSystemGetCudaDriverVersion, int *version) {
  return copy_value(cudasim_driver_version(), version);
}
SIM_NVML_FUNCTION(nvmlSystemGetCudaDriverVersion_v2, int *version) {
  return copy_value(cudasim_driver_version(), version);
}

SIM_NVML_FUNCTION(nvmlSystemGetDriverBranch, NvmlDriverBranch *out, unsigned length) {
  if (NvmlReturn result = need_init())
    return result;
  if (NvmlReturn result = check_version(out, 1))
    return result;
  return copy_text("r" + std::to_string(driver_branch()) + "_00", out->branch,
                   length < sizeof out->branch ? length : static_cast<unsigned>(sizeof out->branch));
}

SIM_NVML_FUNCTION(nvmlSystemGetProcessName, unsigned pid, char *name, unsigned length) {
  if (NvmlReturn result = need_init())
    return result;
  if (name == nullptr || length == 0)
    return nvml_invalid_argument;
  std::FILE *file = std::fopen(("/proc/" + std::to_string(pid) + "/cmdline").c_str(), "rb");
  if (file == nullptr)
    return nvml_not_found;
  char text[4096] = {}; /* the command line: each argument ends with a null character */
  size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  return size > 0 ? copy_text(std::string(text).substr(0, length - 1), name, length) : nvml_not_found;
}

SIM_NVML_FUNCTION(nvmlDeviceGetCount, unsigned *count) { return device_count(count); }
SIM_NVML_FUNCTION(nvmlDeviceGetCount_v2, unsigned *count) { return device_count(count); }
SIM_NVML_FUNCTION(nvmlDeviceGetHandleByIndex, unsigned index, NvmlDevice *out) { return by_index(index, out); }
SIM_NVML_FUNCTION(nvmlDeviceGetHandleByIndex_v2, unsigned index, NvmlDevice *out) { return by_index(index, out); }
SIM_NVML_FUNCTION(nvmlDeviceGetHandleByPciBusId, const char *id, NvmlDevice *out) { return by_bus_id(id, out); }
SIM_NVML_FUNCTION(nvmlDeviceGetHandleByPciBusId_v2, const char *id, NvmlDevice *out) { return by_bus_id(id, out); }

/* The prefix "GPU-" may be missing, because cuda.core looks devices up by the UUID that the driver reports. */
SIM_NVML_FUNCTION(nvmlDeviceGetHandleByUUID, const char *uuid, NvmlDevice *out) {
  return find_handle(out, uuid, [&](const cudasim_device &device) {
    return std::strcmp(device.uuid, uuid) == 0 || std::strcmp(device.uuid + 4, uuid) == 0;
  });
}

SIM_NVML_FUNCTION(nvmlDeviceGetName, NvmlDevice handle, char *name, unsigned length) {
  return with_device(handle, [&](const cudasim_device &device, int) { return copy_text(device.name, name, length); });
}

SIM_NVML_FUNCTION(nvmlDeviceGetUUID, NvmlDevice handle, char *uuid, unsigned length) {
  return with_device(handle, [&](const cudasim_device &device, int) { return copy_text(device.uuid, uuid, length); });
}

SIM_NVML_FUNCTION(nvmlDeviceGetBrand, NvmlDevice handle, unsigned *brand) {
  return with_device(handle, [&](const cudasim_device &, int) { return copy_value(nvml_brand_nvidia, brand); });
}

SIM_NVML_FUNCTION(nvmlDeviceGetIndex, NvmlDevice handle, unsigned *index) {
  return with_device(
      handle, [&](const cudasim_device &, int number) { return copy_value(static_cast<unsigned>(number), index); });
}

SIM_NVML_FUNCTION(nvmlDeviceGetMinorNumber, NvmlDevice handle, unsigned *minor) {
  return nvmlDeviceGetIndex(handle, minor);
}

SIM_NVML_FUNCTION(nvmlDeviceIsMigDeviceHandle, NvmlDevice handle, unsigned *is_mig) {
  return with_device(handle, [&](const cudasim_device &, int) { return copy_value(0U, is_mig); });
}

/* Simulated devices are not partitioned. */
SIM_NVML_FUNCTION(nvmlDeviceGetMigMode, NvmlDevice handle, unsigned *current, unsigned *pending) {
  return with_device(handle, [&](const cudasim_device &device, int) {
    return device.major < 8 ? nvml_not_supported : copy_pair(0U, current, 0U, pending);
  });
}

SIM_NVML_FUNCTION(nvmlDeviceGetMaxMigDeviceCount, NvmlDevice handle, unsigned *count) {
  return count_nothing(handle, count);
}

SIM_NVML_FUNCTION(nvmlDeviceGetArchitecture, NvmlDevice handle, unsigned *architecture) {
  return with_device(
      handle, [&](const cudasim_device &device, int) { return copy_value(architecture_of(device), architecture); });
}

SIM_NVML_FUNCTION(nvmlDeviceGetCudaComputeCapability, NvmlDevice handle, int *major, int *minor) {
  return with_device(
      handle, [&](const cudasim_device &device, int) { return copy_pair(device.major, major, device.minor, minor); });
}

SIM_NVML_FUNCTION(nvmlDeviceGetMemoryInfo, NvmlDevice handle, NvmlMemory *out) {
  return with_device(handle, [&](const cudasim_device &device, int) {
    return copy_value({device.memory, device.memory - device.used, device.used}, out);
  });
}

SIM_NVML_FUNCTION(nvmlDeviceGetMemoryInfo_v2, NvmlDevice handle, NvmlMemoryV2 *out) {
  return with_device(handle, [&](const cudasim_device &device, int) {
    if (NvmlReturn result = check_version(out, 2))
      return result;
    *out = {out->version, device.memory, 0, device.memory - device.used, device.used};
    return nvml_success;
  });
}

SIM_NVML_FUNCTION(nvmlDeviceGetPciInfo_v3, NvmlDevice handle, NvmlPciInfo *out) {
  return with_device(handle, [&](const cudasim_device &device, int) {
    if (out == nullptr)
      return nvml_invalid_argument;
    *out = {{}, 0, device.pci_bus, 0, pci_device_id, pci_subsystem_id, {}};
    write_bus_id(device, out->bus_id);
    std::snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "0000:%02X:00.0", device.pci_bus);
    return nvml_success;
  });
}

SIM_NVML_FUNCTION(nvmlDeviceGetPciInfoExt, NvmlDevice handle, NvmlPciInfoExt *out) {
  return with_device(handle, [&](const cudasim_device &device, int) {
    if (NvmlReturn result = check_version(out, 1))
      return result;
    *out = {out->version, 0, device.pci_bus, 0, pci_device_id, pci_subsystem_id, pci_base_class, pci_sub_class, {}};
    write_bus_id(device, out->bus_id);
    return nvml_success;
  });
}

SIM_NVML_FUNCTION(nvmlDeviceGetComputeRunningProcesses_v2, NvmlDevice handle, unsigned *count, NvmlProcessInfo *out) {
  return list_processes(handle, count, out);
}
SIM_NVML_FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3, NvmlDevice handle, unsigned *count, NvmlProcessInfo *out) {
  return list_processes(handle, count, out);
}
SIM_NVML_FUNCTION(nvmlDeviceGetGraphicsRunningProcesses_v2, NvmlDevice handle, unsigned *count, NvmlProcessInfo *) {
  return count_nothing(handle, count);
}
SIM_NVML_FUNCTION(nvmlDeviceGetGraphicsRunningProcesses_v3, NvmlDevice handle, unsigned *count, NvmlProcessInfo *) {
  return count_nothing(handle, count);
}
