/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_ALLOCATOR_H
#define CUDACORE_INTERNAL_ALLOCATOR_H

/**
 * @file allocator.h
 * Allocators for libraries that keep only an address, and functions for PyTorch's pluggable allocator.
 *
 * libcudacore_handles keeps the allocation of each address until cch_allocator_free(). Trackers count such an
 * allocation like any other.
 */

#include <cudacore/cudacore.h>

/**
 * Makes an allocator that allocates from a pool, with `count` trackers, each of which can refuse an allocation. The
 * allocator and each of its allocations keep the pool and the trackers.
 */
CCH_EXPORT cch_status cch_allocator_create(cch_allocator **out, cch_pool *pool, cch_tracker *const *trackers,
                                           size_t count);

/**
 * Allocates `size` bytes, ordered on a stream; NULL is the legacy default stream. If the stream is captured, the
 * allocation becomes a part of the capture.
 */
CCH_EXPORT cch_status cch_allocator_alloc(CUdeviceptr *out, cch_allocator *allocator, size_t size,
                                          CUstream CCH_NULLABLE stream);

/**
 * Frees memory of cch_allocator_alloc(), ordered on the stream of the allocation. The free also waits for the streams
 * that were passed to cch_allocator_record_stream(). The allocator itself may already be destroyed. CCH_EINVAL if `ptr`
 * is not an address of cch_allocator_alloc(). Any thread.
 */
CCH_EXPORT cch_status cch_allocator_free(CUdeviceptr ptr);

/** Like cch_allocator_free(), but ordered on the given stream. Any thread. */
CCH_EXPORT cch_status cch_allocator_free_async(CUdeviceptr ptr, CUstream CCH_NULLABLE stream);

/**
 * Records that work on another stream uses an allocation. The free of the memory will wait for all work that is
 * submitted to that stream before the free. CCH_EINVAL if `ptr` is not an address of cch_allocator_alloc(). Any thread.
 */
CCH_EXPORT cch_status cch_allocator_record_stream(CUdeviceptr ptr, CUstream CCH_NULLABLE stream);

/**
 * Sets the allocator that PyTorch's functions use for a device from now on; NULL removes it. The allocations of the
 * previous allocator remain valid.
 */
CCH_EXPORT cch_status cch_torch_set_allocator(int device, cch_allocator *CCH_NULLABLE allocator);

/**
 * An allocation function for torch.cuda.memory.CUDAPluggableAllocator: it allocates from the allocator of
 * cch_torch_set_allocator(), ordered on the stream. Returns NULL for a size of 0. PyTorch does not check for NULL when
 * it uses the allocator for each tensor, so a failure is thrown as a C++ exception (std::runtime_error), which PyTorch
 * turns into a RuntimeError. If libstdc++ is not loaded, a failure returns NULL.
 */
CCH_EXPORT void *cch_torch_alloc(int64_t size, int device, CUstream CCH_NULLABLE stream);

/**
 * Like cch_torch_alloc(), but for a torch.cuda.MemPool: a failure returns NULL. PyTorch then releases its cached
 * blocks, tries once more, and raises torch.OutOfMemoryError.
 */
CCH_EXPORT void *cch_torch_try_alloc(int64_t size, int device, CUstream CCH_NULLABLE stream);

/**
 * Frees memory of cch_torch_alloc() or cch_torch_try_alloc(). Failures are reported like those of destructors.
 */
CCH_EXPORT void cch_torch_free(void *CCH_NULLABLE ptr, int64_t size, int device, CUstream CCH_NULLABLE stream);

/**
 * Like cch_allocator_record_stream(), with the signature that PyTorch expects. Failures are reported like those of
 * destructors.
 */
CCH_EXPORT void cch_torch_record_stream(void *CCH_NULLABLE ptr, CUstream CCH_NULLABLE stream);

#endif
