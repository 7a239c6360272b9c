/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_DEVICEPTR_H
#define CUDACORE_DEVICEPTR_H

/**
 * @file deviceptr.h
 * Allocations: device memory, pinned and managed memory, registered host memory, and foreign pointers. A box keeps its
 * pool, its context and the stream that orders its free.
 *
 * Memory on the per-thread default stream is freed after the work of the thread that allocated it. If another thread
 * frees it, the free is ordered on the legacy stream, which waits for all blocking streams. If the last reference is
 * dropped while the stream is being captured, the memory is freed after the capture (process.h).
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** Frees foreign memory. It is called once, like cch_release_fn. `stream` is the stream that orders the free. */
typedef void (*cch_free_fn)(void *owner, CUdeviceptr ptr, size_t size, cch_stream *stream);

/**
 * Allocates `size` bytes from a pool, ordered on a stream (cuMemAllocFromPoolAsync). The free is ordered on the same
 * stream, or on the stream of cch_deviceptr_set_stream(). In a capture, allocation and free become parts of the same
 * capture. CCH_EINVAL for a size of 0. @since 0.1
 */
CCH_EXPORT cch_status cch_deviceptr_alloc_async(cch_deviceptr **out, cch_pool *pool, size_t size, cch_stream *stream);

/** Allocates device memory in a context synchronously (cuMemAlloc, cuMemFree). @since 0.1 */
CCH_EXPORT cch_status cch_deviceptr_alloc(cch_deviceptr **out, cch_context *context, size_t size);

/**
 * Allocates pinned host memory in a context (cuMemHostAlloc with CU_MEMHOSTALLOC_* `flags`). The free waits for the
 * stream of cch_deviceptr_set_stream(), if one was set. @since 0.1
 */
CCH_EXPORT cch_status cch_deviceptr_alloc_host(cch_deviceptr **out, cch_context *context, size_t size, unsigned flags);

/**
 * Borrows memory. `free` (may be NULL) is called with `owner` when the last reference is dropped. `context` (may be
 * NULL) is kept. On failure, the caller keeps `owner`. @since 0.1
 */
CCH_EXPORT cch_status cch_deviceptr_wrap(cch_deviceptr **out, CUdeviceptr ptr, size_t size,
                                         cch_context *CCH_NULLABLE context, void *CCH_NULLABLE owner,
                                         cch_free_fn CCH_NULLABLE free);

/**
 * A part of an allocation: `size` bytes from `offset` on. It has its own box, and keeps the memory, which is freed with
 * the last of its boxes. A part of a part is a part of the same allocation. CCH_EINVAL if the part would not lie within
 * the allocation. @since 0.1
 */
CCH_EXPORT cch_status cch_deviceptr_part(cch_deviceptr **out, cch_deviceptr *ptr, size_t offset, size_t size);

/**
 * Sets the stream that orders the free. A default stream means that of the current context, and the per-thread one that
 * of the calling thread. A part can have its own stream; the memory is then freed after the work of that stream, too.
 * Any thread. @since 0.1
 */
CCH_EXPORT cch_status cch_deviceptr_set_stream(cch_deviceptr *ptr, cch_stream *stream);

/**
 * Records that work on a stream uses an allocation, or a part of it. The free of the whole allocation waits for all
 * work that the stream has at the time of the free. The stream is meant as in cch_deviceptr_set_stream(), which the
 * free waits for as well. Any thread. @since 0.1
 */
CCH_EXPORT cch_status cch_deviceptr_record_stream(cch_deviceptr *ptr, cch_stream *stream);

/** The size of an allocation in bytes. @since 0.1 */
CCH_EXPORT size_t cch_deviceptr_size(const cch_deviceptr *ptr);

/**
 * Copies `size` bytes between any two allocations, ordered on a stream (cuMemcpyAsync). CCH_EINVAL if one of the
 * allocations is smaller, or if the bytes of the source and of the destination overlap. If an allocation is on another
 * device than the stream, the copy is done by cuMemcpyPeerAsync, which needs no access between the devices.
 * cuMemcpyPeerAsync cannot be captured. So a capture uses cuMemcpyAsync, and the stream's device needs access to both
 * allocations. The graph of a capture keeps both allocations, whichever code began the capture. @since 0.1
 */
CCH_EXPORT cch_status cch_deviceptr_copy(cch_deviceptr *dst, cch_deviceptr *src, size_t size, cch_stream *stream);

/**
 * Fills the whole allocation with a value of `width` 1, 2, 4 or 8 bytes, ordered on a stream (cuMemsetD8Async and
 * similar functions; for 8 bytes, cuMemsetD2D32Async and cuMemcpyAsync). CCH_EINVAL if the size is not a multiple of
 * the width. The graph of a capture keeps the allocation. @since 0.1
 */
CCH_EXPORT cch_status cch_deviceptr_fill(cch_deviceptr *dst, uint64_t value, unsigned width, cch_stream *stream);

CCH_EXPORT CUdeviceptr cch_deviceptr_raw(const cch_deviceptr *ptr);

CCH_END_DECLS

#endif
