/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how many blocks fit on a multiprocessor, by the rules of the CUDA C++ Programming Guide. */
#include "sim/driver/code/code.h"

#include <algorithm>

namespace sim {
namespace {

constexpr int warp = 32;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/* Calls a function of the application, without the state's lock. The function must not call CUDA. */
size_t ask(CUoccupancyB2DSize function, int threads) {
  Call::current().lock.unlock();
  size_t bytes = function(threads);
  Call::current().lock.lock();
  return bytes;
}

CUresult potential_block(int *grid, int *block, CUfunction handle, CUoccupancyB2DSize dynamic, size_t dynamic_shared,
                         int limit) {
  Callable what;
  SIM_RETURN_FAILURE(find_callable(handle, nullptr, what));
  if (grid == nullptr || block == nullptr || limit < 0)
    return CUDA_ERROR_INVALID_VALUE;
  const Device &device = *what.context->device;
  int max_threads = max_threads_of(what.info(), device), best = 0, best_blocks = 0;
  if (limit == 0 || limit > max_threads)
    limit = max_threads;
  for (int aligned = static_cast<int>(round_up(static_cast<uint64_t>(limit), warp)); aligned > 0; aligned -= warp) {
    int threads = std::min(limit, aligned);
    size_t shared = dynamic != nullptr ? ask(dynamic, threads) : dynamic_shared;
    int blocks = active_blocks(what, device, threads, shared);
    if (blocks * threads > best * best_blocks) {
      best = threads;
      best_blocks = blocks;
    }
  }
  *block = best;
  *grid = best_blocks * device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  return CUDA_SUCCESS;
}

/* The number of blocks in a cluster, from the launch or the kernel; 0: the two differ, or no size is given. */
uint64_t cluster_blocks(const CUlaunchConfig &config, const KernelInfo &kernel) {
  const Dim3 &required = kernel.required_cluster;
  for (unsigned i = 0; config.attrs != nullptr && i < config.numAttrs; i++)
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto &size = config.attrs[i].value.clusterDim;
      bool differs =
          size.x != required[0] || size.y != std::max(required[1], 1u) || size.z != std::max(required[2], 1u);
      return required[0] != 0 && differs ? 0 : uint64_t{size.x} * size.y * size.z;
    }
  if (required[0] == 0)
    return kernel.explicit_cluster ? 0 : 1;
  return uint64_t{required[0]} * std::max(required[1], 1u) * std::max(required[2], 1u);
}

/*
 * The shared memory of a multiprocessor that runs blocks with `needed` bytes each: the smallest size that the device
 * can choose that has both the preferred part of the maximum, and one block.
 */
uint64_t shared_for(const Callable &what, const Device &device, uint64_t needed) {
  auto max = static_cast<uint64_t>(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device));
  int capability = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) * 10 +
                   device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  int preferred = what.settings->get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1);
  if (preferred < 0 || capability < 70) /* before 7.0, shared memory and the L1 cache are separate */
    return max;
  uint64_t wanted = std::max(needed, max * static_cast<uint64_t>(preferred) / 100);
  for (uint64_t kibibytes : {8, 16, 32, 64, 100, 132, 164, 196})
    if (kibibytes * 1024 >= wanted && kibibytes * 1024 < max && (capability != 75 || kibibytes == 32))
      return kibibytes * 1024;
  return max;
}

} // namespace

uint32_t reserved_shared(const Device &device) {
  return static_cast<uint32_t>(device_attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, device));
}
uint32_t shared_unit(const Device &device) { return reserved_shared(device) != 0 ? 128 : 256; }

int active_blocks(const Callable &what, const Device &device, int threads, size_t dynamic_shared) {
  const KernelInfo &kernel = what.info();
  auto value = [&](CUdevice_attribute attribute) { return static_cast<uint64_t>(device_attribute(attribute, device)); };
  constexpr uint64_t register_unit = 256;
  if (threads < 1 || threads > device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device))
    return 0;
  uint64_t warps = round_up(static_cast<uint64_t>(threads), warp) / warp;
  uint64_t blocks = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  blocks = std::min(blocks, value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / warp / warps);
  uint64_t warp_registers = round_up(uint64_t{register_count(kernel)} * warp, register_unit);
  uint64_t register_warps = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) / warp_registers / 4 * 4;
  blocks = std::min(blocks, register_warps / warps);
  if (dynamic_shared > static_cast<size_t>(max_dynamic_shared(kernel, *what.settings)))
    return 0;
  uint64_t shared =
      round_up(kernel.static_shared_bytes + dynamic_shared + reserved_shared(device), shared_unit(device));
  if (shared != 0)
    blocks = std::min(blocks, shared_for(what, device, shared) / shared);
  return static_cast<int>(blocks);
}

namespace api {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
  Callable what;
  SIM_RETURN_FAILURE(find_callable(func, nullptr, what));
  if (numBlocks == nullptr || blockSize <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  *numBlocks = active_blocks(what, *what.context->device, blockSize, dynamicSMemSize);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize) {
  return api::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                          int blockSizeLimit) {
  return potential_block(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  return potential_block(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks,
                                                 int blockSize) {
  Callable what;
  SIM_RETURN_FAILURE(find_callable(func, nullptr, what));
  if (dynamicSmemSize == nullptr || numBlocks <= 0 || blockSize <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  const Device &device = *what.context->device;
  int shared = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device) / numBlocks;
  shared =
      std::min(shared / 128 * 128, device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
  if (active_blocks(what, device, blockSize, 0) < numBlocks)
    return CUDA_ERROR_INVALID_VALUE;
  int left = std::max(shared - static_cast<int>(what.info().static_shared_bytes), 0);
  *dynamicSmemSize = static_cast<size_t>(std::min(left, max_dynamic_shared(what.info(), *what.settings)));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config) {
  Callable what;
  SIM_REQUIRE(clusterSize != nullptr && func != nullptr && config != nullptr);
  SIM_RETURN_FAILURE(find_callable(func, nullptr, what));
  if (what.info().explicit_cluster && cluster_blocks(*config, what.info()) == 0)
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (device_attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, *what.context->device) == 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  *clusterSize = static_cast<int>(max_cluster_blocks(*what.settings));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config) {
  Callable what;
  SIM_REQUIRE(numClusters != nullptr && func != nullptr && config != nullptr);
  SIM_RETURN_FAILURE(find_callable(func, nullptr, what));
  const Device &device = *what.context->device;
  uint64_t threads = uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
  uint64_t size = cluster_blocks(*config, what.info());
  if (threads == 0 || threads > 1024 || size == 0 || size > max_cluster_blocks(*what.settings))
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  int blocks = active_blocks(what, device, static_cast<int>(threads), config->sharedMemBytes);
  *numClusters = blocks * device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) / static_cast<int>(size);
  return CUDA_SUCCESS;
}

} // namespace api
} // namespace sim
