/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_DEVICEPTR_H
#define CUDACORE_INTERNAL_DEVICEPTR_H

#include <cudacore/cudacore.h>

/**
 * Allocates managed memory in a context (cuMemAllocManaged with CU_MEM_ATTACH_* `flags`). The free waits for the stream
 * of cch_deviceptr_set_stream(), if one was set.
 */
CCH_EXPORT cch_status cch_deviceptr_alloc_managed(cch_deviceptr **out, cch_context *context, size_t size,
                                                  unsigned flags);

/**
 * Page-locks host memory that the caller has, so that copies of it are asynchronous and devices can use it
 * (cuMemHostRegister with CU_MEMHOSTREGISTER_* `flags`). `size` bytes at `host` must stay mapped until `release` (may
 * be NULL) is called with `owner`. `release` is called once, after the memory was unregistered, or after the
 * registration was lost in a reset of the context. On failure, the caller keeps `owner`. The memory is unregistered
 * with the last reference, after the work of the stream of cch_deviceptr_set_stream(), if one was set. With
 * CU_MEMHOSTREGISTER_READ_ONLY, copies and fills of this library refuse to write the memory.
 */
CCH_EXPORT cch_status cch_deviceptr_register_host(cch_deviceptr **out, cch_context *context, void *host, size_t size,
                                                  unsigned flags, void *CCH_NULLABLE owner,
                                                  cch_release_fn CCH_NULLABLE release);

/** Whether an allocation is host memory that was registered read-only, or a part of such memory. */
CCH_EXPORT bool cch_deviceptr_is_read_only(const cch_deviceptr *ptr);

/**
 * The whole allocation that a part belongs to, borrowed from the part. If `ptr` is not a part, `ptr` itself is
 * returned.
 */
CCH_EXPORT cch_deviceptr *cch_deviceptr_whole(const cch_deviceptr *ptr);

/** The offset of a part in its allocation, in bytes; 0 for any other allocation. */
CCH_EXPORT size_t cch_deviceptr_offset(const cch_deviceptr *ptr);

/**
 * Borrows memory that another allocation keeps alive: `size` bytes at `ptr`. The result is like a part of that
 * allocation: it keeps it, and its streams are recorded there. The memory need not lie within the allocation. @since
 * 0.1
 */
CCH_EXPORT cch_status cch_deviceptr_borrow(cch_deviceptr **out, CUdeviceptr ptr, size_t size, cch_deviceptr *owner);

/**
 * The stream that orders the free, borrowed from the box; NULL if there is none. For a default stream, the box has the
 * context of that stream. A part without its own stream has the stream of the whole allocation. Caller serialises with
 * cch_deviceptr_set_stream(), which releases the old stream.
 */
CCH_EXPORT cch_stream *cch_deviceptr_stream(const cch_deviceptr *ptr);

/** The stream that orders the free, as a new reference; NULL if there is none. Any thread. */
CCH_EXPORT cch_stream *cch_deviceptr_stream_ref(cch_deviceptr *ptr);

/** Whether a stream that exists is the own stream of memory that exists, so that it need not be set again. */
CCH_EXPORT bool cch_deviceptr_has_stream(const cch_deviceptr *ptr, const cch_stream *stream);

/** The pool, borrowed from the box; NULL if the memory is not from a pool. */
CCH_EXPORT cch_pool *cch_deviceptr_pool(const cch_deviceptr *ptr);

/** The context, borrowed from the box; NULL if it is not known. */
CCH_EXPORT cch_context *cch_deviceptr_context(const cch_deviceptr *ptr);

/** Whether a box was made by cch_deviceptr_wrap(), so that other code frees the memory. */
CCH_EXPORT bool cch_deviceptr_is_wrapped(const cch_deviceptr *ptr);

/**
 * 0 while the memory exists. CCH_EGONE if it was lost because another library reset the primary context. This happens
 * to memory of cch_deviceptr_alloc(), cch_deviceptr_alloc_host() and cch_deviceptr_alloc_managed(), and to
 * registrations of cch_deviceptr_register_host(). The driver is queried about such memory, except inside a function
 * that CUDA calls. Memory of pools, virtual memory and wrapped memory survive a reset, so the driver is not queried
 * about them. Any thread.
 */
CCH_EXPORT cch_status cch_deviceptr_check(const cch_deviceptr *ptr);

/** Whether memory can be lost in that way. This never changes. Any thread. */
CCH_EXPORT bool cch_deviceptr_can_be_lost(const cch_deviceptr *ptr);

/**
 * 0 if kernels of the current context can use an address. CCH_EMISMATCH if the address is unknown to CUDA, or if it
 * belongs to a device whose memory the current device cannot access (cuPointerGetAttribute).
 */
CCH_EXPORT cch_status cch_pointer_check(CUdeviceptr ptr);

/* Information about addresses, whichever code allocated them. */

/**
 * The driver's information about an address (cuPointerGetAttributes): its CUmemorytype, the ordinal of its device, and
 * whether it is managed memory (1 or 0). For an address that CUDA does not manage, such as ordinary host memory, the
 * type is 0 and the device is negative.
 */
CCH_EXPORT cch_status cch_pointer_attributes(int *memory_type, int *device, int *is_managed, CUdeviceptr ptr);

#endif
