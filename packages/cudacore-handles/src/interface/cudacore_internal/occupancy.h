/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_OCCUPANCY_H
#define CUDACORE_INTERNAL_OCCUPANCY_H

/**
 * @file occupancy.h
 * How much of a kernel fits on a device at the same time. The device is that of `context` (NULL: the calling thread's
 * current context), or that of the stream.
 *
 * The kernel's limit of dynamic shared memory is not raised: blocks that exceed it do not fit. See
 * CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES and cch_kernel_set_attribute().
 */

#include <cudacore/cudacore.h>

/**
 * Bytes of dynamic shared memory that a block of the given number of threads needs. The driver calls this function on
 * the calling thread. The function must not call CUDA. The type is the same as CUDA's CUoccupancyB2DSize.
 */
typedef size_t (*cch_shared_bytes_fn)(int block_size);

/**
 * The number of blocks, with `block_size` threads and `shared_bytes` of dynamic shared memory each, that a
 * multiprocessor can hold; 0 if not even one fits (cuOccupancyMaxActiveBlocksPerMultiprocessor).
 */
CCH_EXPORT cch_status cch_occupancy_max_active_blocks(int *out, cch_kernel *kernel, int block_size, size_t shared_bytes,
                                                      cch_context *CCH_NULLABLE context);

/**
 * A block size that fills the device, and the number of such blocks (cuOccupancyMaxPotentialBlockSize). A block needs
 * the shared memory that `shared_bytes_of` returns, or `shared_bytes` if `shared_bytes_of` is NULL. `limit` is the
 * maximum number of threads per block; 0 means the maximum of the kernel and the device.
 */
CCH_EXPORT cch_status cch_occupancy_max_potential_block_size(int *grid_size, int *block_size, cch_kernel *kernel,
                                                             cch_shared_bytes_fn CCH_NULLABLE shared_bytes_of,
                                                             size_t shared_bytes, int limit,
                                                             cch_context *CCH_NULLABLE context);

/**
 * Dynamic shared memory that each of `blocks` blocks of `block_size` threads on a multiprocessor can have, in bytes
 * (cuOccupancyAvailableDynamicSMemPerBlock).
 */
CCH_EXPORT cch_status cch_occupancy_available_shared_bytes(size_t *out, cch_kernel *kernel, int blocks, int block_size,
                                                           cch_context *CCH_NULLABLE context);

/**
 * The maximum number of blocks that a cluster can have when a kernel is launched on a stream. The clusters of the
 * config are ignored (cuOccupancyMaxPotentialClusterSize).
 */
CCH_EXPORT cch_status cch_occupancy_max_potential_cluster_size(int *out, cch_stream *stream,
                                                               const cch_launch_config *config, cch_kernel *kernel);

/** The number of clusters of a launch on a stream that the device can hold at the same time
 * (cuOccupancyMaxActiveClusters). */
CCH_EXPORT cch_status cch_occupancy_max_active_clusters(int *out, cch_stream *stream, const cch_launch_config *config,
                                                        cch_kernel *kernel);

#endif
