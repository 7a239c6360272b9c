/* SPDX-License-Identifier: Apache-2.0 */
/* cuInit, devices and their attributes. */
#include "sim/driver/base/process_page.h"
#include "sim/driver/base/state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <sstream>

namespace sim {
namespace {

/*
 * Properties that differ between compute capabilities and matter for launches. All other properties are those of an
 * H200.
 */
struct Architecture {
  int capability, threads, blocks, shared, optin_shared;
};
constexpr Architecture architectures[] = {
    {50, 2048, 32, 65536, 49152},    {60, 2048, 32, 65536, 49152},    {61, 2048, 32, 98304, 49152},
    {70, 2048, 32, 98304, 98304},    {75, 1024, 16, 65536, 65536},    {80, 2048, 32, 167936, 166912},
    {86, 1536, 16, 102400, 101376},  {89, 1536, 24, 102400, 101376},  {90, 2048, 32, 233472, 232448},
    {100, 2048, 32, 233472, 232448}, {120, 1536, 24, 102400, 101376},
};

const Architecture &architecture() {
  int capability = config().compute_major * 10 + config().compute_minor;
  const Architecture *best = architectures;
  for (const Architecture &candidate : architectures)
    if (candidate.capability <= capability)
      best = &candidate;
  return *best;
}

/* The value of an attribute; empty if there is no such attribute. */
std::optional<int> attribute_of(CUdevice_attribute attribute, const Device &device) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return config().compute_major;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return config().compute_minor;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    return architecture().threads;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
    return architecture().blocks;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    return architecture().shared;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    return architecture().optin_shared;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
    return config().compute_major >= 8 ? 1024 : 0;
  case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
    return config().compute_major >= 9;
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    return static_cast<int>(pci_bus(device.number));
  case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    return 0;
  case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
    return device.number;
  /* Not simulated: graphics, fabric, multicast, remote direct access, memory of NUMA nodes. */
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK:
  case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH:
  case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
    return 0;
  default:
    break;
  }
  static constexpr std::pair<CUdevice_attribute, int> values[] = {
#define SIM_ATTRIBUTE(name, value) {name, value},
#include "sim/driver/device/device_attributes.inc"
#undef SIM_ATTRIBUTE
  };
  for (const auto &[name, value] : values)
    if (name == attribute)
      return value;
  return std::nullopt;
}

void device_uuid(int number, char *out) {
  std::memcpy(out, "cudacore-sim\0\0\0", 16);
  out[15] = static_cast<char>(number);
}

/* The device that an entry of CUDA_VISIBLE_DEVICES names, by its number or the beginning of its UUID; -1: none. */
int named_device(const std::string &entry) {
  if (entry.rfind("GPU-", 0) != 0) {
    char *end = nullptr;
    long number = std::strtol(entry.c_str(), &end, 10);
    return end != entry.c_str() && number >= 0 && number < config().devices ? static_cast<int>(number) : -1;
  }
  int found = -1;
  for (int number = 0; number < config().devices; number++)
    if (uuid_text(number).rfind(entry, 0) == 0) {
      if (found >= 0)
        return -1; /* ambiguous: two devices match */
      found = number;
    }
  return found;
}

/*
 * Finds the devices of this process, in order: all, or those of CUDA_VISIBLE_DEVICES up to the first invalid entry. A
 * list that begins with UUIDs must continue with UUIDs. A list that contains a device twice is refused.
 */
CUresult find_visible_devices(std::vector<int> &numbers) {
  const char *list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    numbers.resize(static_cast<size_t>(config().devices));
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  std::istringstream entries(list != nullptr ? list : "");
  const bool by_uuid = list != nullptr && std::strncmp(list, "GPU-", 4) == 0;
  for (std::string entry; std::getline(entries, entry, ',');) {
    entry.erase(0, entry.find_first_not_of(" \t"));
    entry.erase(entry.find_last_not_of(" \t") + 1);
    int number = (entry.rfind("GPU-", 0) == 0) == by_uuid ? named_device(entry) : -1;
    if (number < 0)
      break;
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end())
      return CUDA_ERROR_INVALID_DEVICE;
    numbers.push_back(number);
  }
  return numbers.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult start() {
  State &s = state();
  std::vector<int> numbers;
  SIM_RETURN_FAILURE(find_visible_devices(numbers));
  /* The range of addresses is eight times as large as the memory, because freed addresses are reused late. */
  uint64_t memory = config().memory * numbers.size();
  if (!s.arena.open(memory > UINT64_MAX / 8 ? UINT64_MAX : memory * 8))
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (int i = 0; i < static_cast<int>(numbers.size()); i++) {
    auto device = std::make_unique<Device>();
    device->ordinal = i;
    device->number = numbers[static_cast<size_t>(i)];
    device->memory = config().memory;
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {i}};
    device->pools.open(device.get(), properties);
    s.devices.push_back(std::move(device));
  }
  make_own_page();
  s.initialised = true;
  return CUDA_SUCCESS;
}

} // namespace

unsigned pci_bus(int number) { return static_cast<unsigned>(number) + 1; }

std::string uuid_text(int number) {
  char bytes[16], digits[3];
  device_uuid(number, bytes);
  std::string text = "GPU-";
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10)
      text += '-';
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
    text += digits;
  }
  return text;
}

int device_attribute(CUdevice_attribute attribute, const Device &device) {
  return attribute_of(attribute, device).value_or(0);
}

CUresult find_device(CUdevice ordinal, Device *&out) {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= state().devices.size())
    return CUDA_ERROR_INVALID_DEVICE;
  out = state().devices[static_cast<size_t>(ordinal)].get();
  return CUDA_SUCCESS;
}

namespace api {

CUresult cuInit(unsigned int Flags) {
  if (Flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return state().initialised ? CUDA_SUCCESS : start();
}

CUresult cuDriverGetVersion(int *driverVersion) {
  SIM_REQUIRE(driverVersion != nullptr);
  *driverVersion = config().driver_version;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  Device *found = nullptr;
  SIM_REQUIRE(device != nullptr);
  SIM_RETURN_FAILURE(find_device(ordinal, found));
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  SIM_REQUIRE(count != nullptr);
  *count = static_cast<int>(state().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev) {
  Device *device = nullptr;
  if (name == nullptr || len <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_device(dev, device));
  size_t length = std::min(config().name.size(), static_cast<size_t>(len) - 1);
  std::memcpy(name, config().name.data(), length);
  name[length] = '\0';
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
  Device *device = nullptr;
  SIM_REQUIRE(uuid != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  device_uuid(device->number, uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) { return api::cuDeviceGetUuid_v2(uuid, dev); }

CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev) {
  Device *device = nullptr;
  SIM_REQUIRE(luid != nullptr && deviceNodeMask != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  return CUDA_ERROR_NOT_SUPPORTED; /* supported only on Windows */
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
  Device *device = nullptr;
  SIM_REQUIRE(bytes != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  *bytes = device->memory;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
  Device *device = nullptr;
  SIM_REQUIRE(pi != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  std::optional<int> value = attribute_of(attrib, *device);
  SIM_REQUIRE(value.has_value());
  *pi = *value;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
  Device *device = nullptr;
  if (pciBusId == nullptr || len <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_RETURN_FAILURE(find_device(dev, device));
  char text[16];
  int length = std::snprintf(text, sizeof text, "0000:%02X:00.0", pci_bus(device->number));
  if (length >= len)
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(pciBusId, text, static_cast<size_t>(length) + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
  SIM_REQUIRE(dev != nullptr && pciBusId != nullptr);
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
    domain = 0;
    if (std::sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) < 2)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (const std::unique_ptr<Device> &device : state().devices)
    if (domain == 0 && slot == 0 && bus == pci_bus(device->number)) {
      *dev = device->ordinal;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
  Device *device = nullptr;
  SIM_REQUIRE(major != nullptr && minor != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  *major = config().compute_major;
  *minor = config().compute_minor;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType, CUdevice dev) {
  Device *device = nullptr;
  SIM_REQUIRE(pi != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  *pi = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev) {
  Device *device = nullptr;
  SIM_REQUIRE(prop != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  auto value = [&](CUdevice_attribute attribute) { return device_attribute(attribute, *device); };
  *prop = {};
  prop->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; i++) {
    prop->maxThreadsDim[i] = value(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
    prop->maxGridSize[i] = value(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
  }
  prop->sharedMemPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->totalConstantMemory = value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->SIMDWidth = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = value(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->clockRate = value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  prop->textureAlign = value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice) {
  Device *from = nullptr, *to = nullptr;
  SIM_REQUIRE(value != nullptr);
  SIM_RETURN_FAILURE(find_device(srcDevice, from));
  SIM_RETURN_FAILURE(find_device(dstDevice, to));
  if (from == to)
    return CUDA_ERROR_INVALID_DEVICE;
  switch (attrib) {
  case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    *value = 0;
    return CUDA_SUCCESS;
  case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
  case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
  case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
    *value = 1;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

/* As CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED says, the link to the host supports no atomics itself. */
CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities, const CUatomicOperation *operations,
                                           unsigned int count, CUdevice dev) {
  Device *device = nullptr;
  SIM_RETURN_FAILURE(find_device(dev, device));
  SIM_REQUIRE(capabilities != nullptr && operations != nullptr && count != 0);
  if (std::any_of(operations, operations + count,
                  [](CUatomicOperation one) { return one < 0 || one >= CU_ATOMIC_OPERATION_MAX; }))
    return CUDA_ERROR_INVALID_VALUE;
  std::fill_n(capabilities, count, 0u);
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
  Device *device = nullptr, *peer = nullptr;
  SIM_REQUIRE(canAccessPeer != nullptr);
  SIM_RETURN_FAILURE(find_device(dev, device));
  SIM_RETURN_FAILURE(find_device(peerDev, peer));
  *canAccessPeer = device != peer;
  return CUDA_SUCCESS;
}

CUresult cuProfilerStart(void) {
  ContextPtr context;
  return need_context(context);
}

CUresult cuProfilerStop(void) {
  ContextPtr context;
  return need_context(context);
}

} // namespace api
} // namespace sim
