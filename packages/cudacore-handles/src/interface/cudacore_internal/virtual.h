/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_VIRTUAL_H
#define CUDACORE_INTERNAL_VIRTUAL_H

/**
 * @file virtual.h
 * Virtual memory: physical memory that is mapped to reserved addresses, so that an allocation can grow. Physical memory
 * lives as long as an allocation that contains it. When an allocation has grown, the old and the new allocation share
 * physical memory, and can be freed in any order.
 */

#include <cudacore/cudacore.h>

/** Flags of a cch_virtual_config. */
#define CCH_VIRTUAL_RDMA 1u    /**< other devices of the machine can access the memory (gpuDirectRDMACapable) */
#define CCH_VIRTUAL_MINIMUM 2u /**< sizes are multiples of the minimum granularity, not of the recommended one */

/** A location that can access the memory, with CUmemAccess_flags. */
typedef struct cch_access {
  int32_t location_type; /**< CCH_LOCATION_* */
  int32_t location_id;
  int32_t access; /**< 1 to read, 3 to read and write */
} cch_access;

/** Properties of the memory, and who can access it. */
typedef struct cch_virtual_config {
  int32_t location_type;      /**< CCH_LOCATION_* */
  int32_t location_id;        /**< device ordinal or NUMA node */
  int32_t alloc_type;         /**< CCH_ALLOCATION_*, 0 for CCH_ALLOCATION_PINNED */
  uint32_t handle_types;      /**< CUmemAllocationHandleType bits, 0 for none */
  uint32_t flags;             /**< CCH_VIRTUAL_* */
  uint64_t address_hint;      /**< the preferred address; 0 for any */
  uint64_t address_alignment; /**< alignment of the address; 0 for the driver's default */
  const cch_access *accesses; /**< the locations that can access the memory */
  size_t access_count;
} cch_virtual_config;

/** The granularity of sizes in bytes (cuMemGetAllocationGranularity). */
CCH_EXPORT cch_status cch_virtual_granularity(size_t *out, const cch_virtual_config *config);

/** Makes memory of `size` bytes rounded up to the granularity (cuMemAddressReserve, cuMemCreate, cuMemMap,
 * cuMemSetAccess). If a step fails, the earlier steps are undone. The memory is freed with its last reference, after
 * the work of the stream of cch_deviceptr_set_stream(), if one was set. */
CCH_EXPORT cch_status cch_virtual_alloc(cch_deviceptr **out, const cch_virtual_config *config, size_t size);

/**
 * Makes a larger allocation that begins with the memory of an allocation of virtual memory. If the addresses after the
 * old allocation are free, the new one has the same address. Otherwise it has another address, and `*moved` is 1. The
 * old allocation does not change. CCH_EINVAL if the size is not larger.
 */
CCH_EXPORT cch_status cch_virtual_grow(cch_deviceptr **out, int *moved, cch_deviceptr *ptr,
                                       const cch_virtual_config *config, size_t size);

/**
 * The number of pieces of physical memory of an allocation of virtual memory; 0 for other memory. For a part, the
 * number of pieces of its whole allocation.
 */
CCH_EXPORT size_t cch_virtual_piece_count(const cch_deviceptr *ptr);

/**
 * Exports the physical memory of an allocation (for a part, of its whole allocation) for other processes
 * (cuMemExportToShareableHandle): makes a file descriptor for each of its `count` pieces, in order, and reads the sizes
 * of the pieces. The caller must close the descriptors. If a piece cannot be exported, the descriptors of the pieces
 * before it were made, and the others do not change. The memory must have been made with
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR in `handle_types`, by this process. CCH_EINVAL if `count` differs from the
 * result of cch_virtual_piece_count().
 */
CCH_EXPORT cch_status cch_virtual_export(int *descriptors, size_t *sizes, size_t count, cch_deviceptr *ptr);

/**
 * Maps physical memory of another process by the `count` descriptors and sizes of cch_virtual_export()
 * (cuMemImportFromShareableHandle). The caller keeps the descriptors. Of `config`, the location, the accesses and the
 * address are used. CCH_EMISMATCH if the memory is at another location. The memory lives as long as any process has it
 * mapped.
 */
CCH_EXPORT cch_status cch_virtual_import(cch_deviceptr **out, const cch_virtual_config *config, const int *descriptors,
                                         const size_t *sizes, size_t count);

#endif
