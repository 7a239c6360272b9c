/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_DEVICEPTR_H
#define CUDACORE_LIB_DEVICEPTR_H

/* Allocations: checks before they are used on a stream, frees in its order, their pools, parts, uses and trackers. */

#include "driver/current.h"

/*
 * Checks that memory still exists: the driver crashes when it copies from pinned memory that was lost with its context.
 * The stream's context is current, or is made current before the memory is used, so the context is not checked again
 * here.
 */
static inline int cch__memory_check(const cch_deviceptr *ptr, const cch_stream *stream, const char *operation) {
  if (ptr->box.context == (const cch__box *)stream->context)
    return 0;
  return cch__context_check(cch__lost_with(&ptr->box), operation);
}

/* Checks that memory still exists, and that it may be written. */
int cch__memory_write_check(const cch_deviceptr *dst, const cch_stream *stream, const char *operation);

/*
 * Checks the memory of a copy, or of a fill, whose `src` is NULL. In a capture, the graph keeps the memory. The
 * stream's context must be current.
 */
int cch__memory_keep(cch_deviceptr *dst, cch_deviceptr *src, cch_stream *stream, const char *operation);

/* Returns whether the driver frees memory in the order of a stream; before any other free, the host waits. */
bool cch__free_is_ordered(const cch_deviceptr *ptr);
/*
 * Waits for a stream; returns the driver's result. On the legacy stream, an event is recorded and waited for, so that
 * only earlier work delays the call. The stream's context must be current.
 */
int cch__wait_for_work(CUstream stream);
/*
 * Returns the context in which to free memory of a pool, or virtual memory, after a reset: such memory survives its
 * context. A new reference; NULL if there is no primary context.
 */
cch_context *cch__context_after(const cch_context *lost);
/* Frees memory in the order of a resolved stream; false if the driver refuses that now. */
bool cch__deviceptr_free_on(cch_deviceptr *ptr, cch_stream *stream);

/* Returns whether the memory of a pool is on one device, which other devices can use only if they are given access. */
static inline bool cch__pool_is_on_device(const cch_pool *pool) {
  return pool->location_type == CCH_LOCATION_DEVICE && pool->alloc_type != CCH_ALLOCATION_MANAGED;
}

/*
 * Makes a pool keep the primary context of its device, before memory of the pool is allocated or imported. The memory
 * can need that context when its stream is of another device: for copies between devices, nodes of graphs, DLPack.
 */
int cch__pool_retain_context(cch_pool *pool);
static inline int cch__pool_keep_context(cch_pool *pool) {
  if (!cch__pool_is_on_device(pool) || atomic_load_explicit(&pool->context, memory_order_relaxed) != NULL)
    return 0;
  return cch__pool_retain_context(pool);
}

/* Gives back the references that only the box of a part has. */
void cch__part_unref_held(cch_deviceptr *ptr);

/* Returns whether an address is in an allocation: memory that borrows it as its owner can be elsewhere. */
static inline bool cch__is_in(const cch_deviceptr *ptr, CUdeviceptr address) { return address - ptr->ptr < ptr->size; }

/* ---- the streams on which an allocation was used, apart from the stream that orders its free ---- */

/* Adds a resolved stream to the uses of a whole allocation: its free waits for all work that the stream then has. */
int cch__use_record(cch_deviceptr *whole, cch_stream *resolved, const char *operation);
/*
 * Adds the stream of a part that ends. If there is no memory for that, the host waits for the stream. False if that is
 * not possible now.
 */
bool cch__use_close(cch_deviceptr *whole, cch_stream *resolved);
/*
 * Frees memory after the work of the streams on which it was used, and of `own`, which may be NULL. Call it only if
 * there are such streams. False if the driver refuses that now.
 */
bool cch__free_after_uses(cch_deviceptr *whole, cch_stream *own);
/* Forgets the uses of an allocation whose box is being freed. */
void cch__uses_free(cch_deviceptr *ptr);

/* ---- trackers of an allocation that is freed ---- */

/* Logs the free. Call it before the driver can reuse the address. */
void cch__tracks_freeing(const cch_deviceptr *ptr);
/* Counts the free. Call it after the memory was freed. */
void cch__tracks_close(cch_deviceptr *ptr);

/*
 * Releases the ranges of an allocation, beginning with the last. Returns the driver's result. Ranges that the driver
 * refuses to release now are kept.
 */
int cch__ranges_destroy(cch_deviceptr *ptr);

/* Finds whether an address is of virtual memory, which has access rights of its own. */
int cch__is_virtual(bool *out, CUdeviceptr ptr);

/* Finds whether virtual memory at an address is accessible to a device (cuMemGetAccess). */
int cch__virtual_is_open(bool *out, int device, CUdeviceptr ptr);

/*
 * Unmaps a resource when its memory is destroyed; returns the driver's result. CUDA_ERROR_NOT_PERMITTED means that
 * another thread can unmap the resource. The memory's context must be current.
 */
int cch__graphics_unmap_memory(cch_deviceptr *mapped, CUstream stream);

#endif
